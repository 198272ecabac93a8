//! A WebSocket.

use std::{collections::VecDeque, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Method, StatusCode,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use thalweg_wire::{Position, Topic, websocket::accept_key};
use tokio::time::timeout;
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

use super::{Received, pongs::NewestPong};
use crate::{
    Error, Http,
    ending::Ending,
    exchange::{Exchange, refusal},
    limits::{ANSWER_WAIT, MESSAGE_BYTES_MAX},
    link::cut,
};

/// How long the server may take to answer a close.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Socket {
    stream: Box<WebSocketStream<NewestPong<TokioIo<Upgraded>>>>,
    acks: VecDeque<(Topic, Position)>,
    /// Whether written bytes may still be unsent.
    is_unsent: bool,
}

impl Socket {
    pub(super) async fn open(exchange: &Exchange, path: &str) -> Result<Self, Error> {
        let opening = timeout(ANSWER_WAIT, Self::open_unhurried(exchange, path)).await;
        opening.unwrap_or_else(|_| {
            Err(Error::Connection(format!("no WebSocket within {ANSWER_WAIT:?}")))
        })
    }

    async fn open_unhurried(exchange: &Exchange, path: &str) -> Result<Self, Error> {
        let mut nonce = [0; 16];
        fastrand::fill(&mut nonce);
        let key = STANDARD.encode(nonce);
        let headers = [
            (CONNECTION, "Upgrade".to_owned()),
            (UPGRADE, "websocket".to_owned()),
            (SEC_WEBSOCKET_VERSION, "13".to_owned()),
            (SEC_WEBSOCKET_KEY, key.clone()),
        ];
        let mut link = exchange.open(Some(Http::Http1)).await?;
        let body = Empty::new().boxed_unsync();
        let request = exchange.request(Method::GET, path, &headers, body)?;
        let answer = link.send(&exchange.server, request).await?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            let refusal = refusal(answer).await;
            let is_ours = refusal.code.as_deref().is_some_and(|code| code != "upgrade_required");
            let status = refusal.status;
            let refused = Error::from(refusal);
            return Err(match is_ours || refused.is_transient() {
                true => refused,
                false => Error::NoWebSocket(status),
            });
        }
        let accept = answer.headers().get(SEC_WEBSOCKET_ACCEPT).map(|value| value.as_bytes());
        if accept != accept_key(&key).ok().as_ref().map(|expected| expected.as_bytes()) {
            return Err(Error::InvalidAnswer("the server does not support WebSocket".to_owned()));
        }
        let upgraded = hyper::upgrade::on(answer).await.map_err(|error| cut(&error))?;
        let io = NewestPong::new(TokioIo::new(upgraded));
        let limits = Limits::default().max_payload_len(Some(MESSAGE_BYTES_MAX));
        let stream = Box::new(ClientBuilder::new().limits(limits).take_over(io));
        Ok(Self { stream, acks: VecDeque::new(), is_unsent: false })
    }

    pub(super) async fn next(&mut self) -> Received {
        if let Err(error) = self.send_acks().await {
            return Received::Ended(ended(&error));
        }
        match self.stream.next().await {
            Some(Ok(message)) => received(&message),
            Some(Err(error)) => Received::Ended(ended(&error)),
            None => Received::Ended(Ending::Cut("the connection was cut".to_owned())),
        }
    }

    pub(super) fn ack(&mut self, topic: Topic, position: Position) {
        self.acks.push_back((topic, position));
    }

    /// Sends the queued acks. An ack leaves the queue only when it is written, so dropping this future loses none.
    async fn send_acks(&mut self) -> Result<(), tokio_websockets::Error> {
        while let Some((topic, position)) = self.acks.front() {
            let ack = format!(r#"{{"command":"ack","topic":"{topic}","position":"{position}"}}"#);
            self.stream.feed(Message::text(ack)).await?;
            self.acks.pop_front();
            self.is_unsent = true;
        }
        if self.is_unsent {
            self.stream.flush().await?;
            self.is_unsent = false;
        }
        Ok(())
    }

    /// Sends a close, or answers the server's.
    pub(super) async fn leave(mut self) {
        let closing = async {
            // A connection that fails here has already ended.
            let _ = self.stream.close().await;
            while let Some(Ok(_)) = self.stream.next().await {}
        };
        let _ = timeout(CLOSE_WAIT, closing).await;
    }
}

fn received(message: &Message) -> Received {
    if let Some(text) = message.as_text() {
        return Received::Message(text.to_owned());
    }
    if let Some((code, reason)) = message.as_close() {
        let (code, reason) = (code.into(), reason.to_owned());
        return Received::Ended(Ending::Close { code, reason, reconnect: None });
    }
    match message.is_binary() {
        true => Received::Ended(Ending::Cut("the server sent a binary message".to_owned())),
        false => Received::Something,
    }
}

fn ended(error: &tokio_websockets::Error) -> Ending {
    Ending::Cut(format!("the connection was cut: {error}"))
}
