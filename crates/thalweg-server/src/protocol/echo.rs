//! Sends every message back, for conformance tests of the WebSocket codec.

use http::Method;
use serde_json::value::RawValue;

use super::{
    command::Reply,
    contract::{Accepted, Inbound, Message, Messages, Opening, Protocol},
};
use crate::{config::ECHO_BYTES, refusal::Refusal, transport::SubscribeRequest};

#[derive(Debug)]
struct Echo;

/// Accepts a WebSocket at the mount itself.
pub(super) fn accept(opening: &Opening<'_>) -> Result<Option<Accepted>, Refusal> {
    if opening.request.method != Method::GET || !opening.rest.is_empty() {
        return Ok(None);
    }
    let request = SubscribeRequest::websocket(opening.request, opening.config)?;
    Ok(Some(Accepted::Connection(request, Box::new(Echo))))
}

impl Protocol for Echo {
    fn message_bytes_max(&self) -> Option<usize> {
        Some(ECHO_BYTES)
    }

    fn read(&mut self, record: Message<'_>, _: Option<usize>, out: &mut Messages<'_>) -> Inbound {
        match record {
            Message::Text(text) => out.text(text.as_bytes()),
            Message::Binary(bytes) => out.binary(bytes),
        }
        Inbound::Handled
    }

    fn reply(&mut self, _: Option<&RawValue>, _: Result<&Reply, &Refusal>, _: &mut Messages<'_>) {}
}
