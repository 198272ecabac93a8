//! An endpoint that somebody else runs: any message is an event, and the expected events are unknown.

use super::{Dialect, Field, Message, Wanted, alone};
use crate::scenario::{Endpoint, TOKEN, Transport};
use crate::swarm::carrier::{Kind, websocket};
use anyhow::bail;

#[derive(Debug)]
pub(super) struct External {
    endpoint: Endpoint,
}

impl External {
    pub(super) fn new(endpoint: &Endpoint) -> External {
        External { endpoint: endpoint.clone() }
    }
}

impl Dialect for External {
    fn target(&self, _wanted: &Wanted<'_>) -> String {
        self.endpoint.url.target().to_owned()
    }

    fn authority(&self) -> Option<&str> {
        Some(self.endpoint.url.authority())
    }

    /// Returns default fields and typed ones, which replace defaults of the same name.
    fn fields(&self) -> Vec<Field<'_>> {
        let mut fields = vec![("User-Agent", concat!("thalweg-bench/", env!("CARGO_PKG_VERSION")))];
        match self.endpoint.transport {
            Transport::Websocket => {}
            Transport::Sse => fields.push(("Cache-Control", "no-cache")),
            _ => fields.push(("Accept", "*/*")),
        }
        let typed = &self.endpoint.headers;
        fields.retain(|(name, _)| !typed.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        fields.extend(typed.iter().map(|(name, value)| (&**name, &**value)));
        fields
    }

    fn subprotocol(&self) -> Option<&str> {
        self.endpoint.subprotocol.as_deref()
    }

    fn compresses(&self) -> bool {
        self.endpoint.compress
    }

    fn confirms(&self) -> bool {
        false
    }

    fn personalise(&self, connection: usize, request: &mut Vec<u8>) {
        if let Some(token) = self.endpoint.tokens.get(connection) {
            // Typed values were checked to be text.
            let text = String::from_utf8_lossy(request);
            *request = text.replace(TOKEN, token).into_bytes();
        }
    }

    fn greet(&self, connection: usize, out: &mut Vec<u8>) {
        let token = self.endpoint.tokens.get(connection).map_or(TOKEN, String::as_str);
        for message in &self.endpoint.send_on_open {
            websocket::text(message.replace(TOKEN, token).as_bytes(), out);
        }
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let is_websocket = self.endpoint.transport == Transport::Websocket;
        if is_websocket && kind == Kind::Text && std::str::from_utf8(message).is_err() {
            bail!("it sent a text message that is not UTF-8 (RFC 6455 §8.1)");
        }
        Ok(alone(Message::Event(kind, message)))
    }
}
