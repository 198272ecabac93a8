//! A streaming response, or a poll's answer.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{
    Response,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE},
};
use tokio::{task::coop::consume_budget, time::timeout};

use super::{CarrierRequest, Received, gunzip::Gunzip};
use crate::{
    Error, Transport,
    ending::Ending,
    exchange::{Ask, Exchange, success},
    framing::Deframer,
    limits::ANSWER_WAIT,
    link::{Link, cut},
};

const GZIP: &str = "gzip";

#[derive(Debug)]
pub(super) struct Streaming {
    /// Kept because dropping it would end the connection.
    link: Option<Link>,
    body: Incoming,
    /// Inflates the body, if it is compressed.
    gunzip: Option<Gunzip>,
    deframer: Deframer,
    is_poll: bool,
}

impl Streaming {
    pub(super) async fn open(
        exchange: &Exchange,
        transport: Transport,
        request: CarrierRequest,
    ) -> Result<Self, Error> {
        let CarrierRequest { path, wait, compress } = request;
        let is_poll = transport == Transport::LongPolling;
        let mut ask = Ask::get(path);
        // A stream keeps its connection; a poll returns it.
        ask.is_repeatable = is_poll;
        if let Some(accept) = accept(transport) {
            ask.headers.push((ACCEPT, accept.to_owned()));
        }
        if compress {
            ask.headers.push((ACCEPT_ENCODING, GZIP.to_owned()));
        }
        let head_wait = ANSWER_WAIT + if is_poll { wait } else { Duration::ZERO };
        let beginning = timeout(head_wait, exchange.begin(&ask)).await;
        let late = || Error::Connection(format!("no answer within {head_wait:?}"));
        let (link, answer) = beginning.map_err(|_| late())??;
        let answer = success(answer).await?;
        check_content_type(&answer, content_type(transport))?;
        let gunzip = is_gzip(&answer, compress)?.then(Gunzip::new);
        let deframer = Deframer::new(transport);
        Ok(Self { link: Some(link), body: answer.into_body(), gunzip, deframer, is_poll })
    }

    pub(super) async fn next(&mut self) -> Received {
        match self.deframer.next() {
            Ok(Some(message)) => return Received::Message(message),
            Ok(None) => {}
            Err(malformed) => return Received::Ended(Ending::Cut(malformed.to_string())),
        }
        if let Some(gunzip) = &mut self.gunzip {
            // Received bytes may inflate to a thousand times as many without a message. Other tasks run in between.
            consume_budget().await;
            match gunzip.piece() {
                Ok(Some(piece)) => {
                    self.deframer.push(piece);
                    return Received::Something;
                }
                Ok(None) => {}
                Err(broken) => return Received::Ended(Ending::Cut(broken.to_string())),
            }
        }
        match self.body.frame().await {
            Some(Ok(frame)) => {
                match (frame.into_data(), &mut self.gunzip) {
                    (Ok(data), Some(gunzip)) => gunzip.push(data),
                    (Ok(data), None) => self.deframer.push(&data),
                    // Trailers.
                    (Err(_), _) => {}
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

/// Returns whether the body is gzip. Fails if it is compressed otherwise, or without a request for it.
fn is_gzip(answer: &Response<Incoming>, compress: bool) -> Result<bool, Error> {
    let found = answer.headers().get(CONTENT_ENCODING);
    let found = found.and_then(|value| value.to_str().ok()).unwrap_or("identity").trim();
    if found.eq_ignore_ascii_case("identity") {
        return Ok(false);
    }
    if compress && found.eq_ignore_ascii_case(GZIP) {
        return Ok(true);
    }
    Err(Error::InvalidAnswer(format!(
        "the server answered with Content-Encoding: {found}, which was not requested"
    )))
}
