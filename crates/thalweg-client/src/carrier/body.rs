//! A streaming response, or a poll's answer.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{
    Response,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE},
};
use tokio::time::timeout;

use super::Received;
use crate::{
    Error, Transport,
    ending::Ending,
    exchange::{Ask, Exchange, success},
    framing::Deframer,
    limits::ANSWER_WAIT,
    link::{Link, cut},
};

#[derive(Debug)]
pub(super) struct Streaming {
    /// Kept because dropping it would end the connection.
    link: Option<Link>,
    body: Incoming,
    deframer: Deframer,
    is_poll: bool,
}

impl Streaming {
    pub(super) async fn open(
        exchange: &Exchange,
        transport: Transport,
        path: String,
        wait: Duration,
    ) -> Result<Self, Error> {
        let is_poll = transport == Transport::LongPolling;
        let mut ask = Ask::get(path);
        // A stream keeps its connection; a poll returns it.
        ask.is_repeatable = is_poll;
        if let Some(accept) = accept(transport) {
            ask.headers.push((ACCEPT, accept.to_owned()));
        }
        let head_wait = ANSWER_WAIT + if is_poll { wait } else { Duration::ZERO };
        let beginning = timeout(head_wait, exchange.begin(&ask)).await;
        let late = || Error::Connection(format!("no answer within {head_wait:?}"));
        let (link, answer) = beginning.map_err(|_| late())??;
        let answer = success(answer).await?;
        check_content_type(&answer, content_type(transport))?;
        let deframer = Deframer::new(transport);
        Ok(Self { link: Some(link), body: answer.into_body(), deframer, is_poll })
    }

    pub(super) async fn next(&mut self) -> Received {
        match self.deframer.next() {
            Ok(Some(message)) => return Received::Message(message),
            Ok(None) => {}
            Err(malformed) => return Received::Ended(Ending::Cut(malformed.to_string())),
        }
        match self.body.frame().await {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.deframer.push(data);
                }
                Received::Something
            }
            Some(Err(error)) => Received::Ended(Ending::Cut(cut(&error).to_string())),
            None if self.is_poll => Received::Ended(Ending::Answered),
            None => Received::Ended(Ending::Cut("the connection was cut".to_owned())),
        }
    }

    pub(super) fn give_back(mut self, exchange: &Exchange) {
        if let Some(link) = self.link.take() {
            exchange.keep(link);
        }
    }
}

/// Returns the `Accept` header that selects a transport, if a header selects it.
fn accept(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::Sse => Some("text/event-stream"),
        Transport::HttpStreaming => Some("application/x-ndjson"),
        Transport::LongPolling | Transport::ForeverFrame | Transport::WebSocket => None,
    }
}

fn content_type(transport: Transport) -> &'static str {
    match transport {
        Transport::Sse => "text/event-stream",
        Transport::ForeverFrame => "text/html",
        _ => "application/x-ndjson",
    }
}

fn check_content_type(answer: &Response<Incoming>, expected: &str) -> Result<(), Error> {
    let found = answer.headers().get(CONTENT_TYPE);
    let found = found.and_then(|value| value.to_str().ok()).unwrap_or("nothing");
    let essence = found.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case(expected) {
        true => Ok(()),
        false => Err(Error::InvalidAnswer(format!(
            "the server answered with {found} instead of {expected}"
        ))),
    }
}
