//! An endpoint that somebody else runs: any message is an event, and the expected events are unknown. A [`ForeignProtocol`] on
//! top of the transport distinguishes events from other messages.

use super::foreign::ForeignProtocol;
use super::{Dialect, Field, Message, Wanted, alone, centrifugo, graphql_ws, llm_stream};
use super::{signalr, socketio};
use crate::scenario::{Endpoint, EndpointDialect, Expectation, OpeningStep, TOKEN, Transport};
use crate::swarm::carrier::{Kind, websocket};
use crate::swarm::json_value;
use anyhow::bail;
use memchr::memmem;

/// Place of a connection's number.
const CONNECTION: &str = "{connection}";

#[derive(Debug)]
pub(super) struct External {
    endpoint: Endpoint,
    protocol: Option<&'static ForeignProtocol>,
    /// Messages to send, and the replies to await.
    opening: Vec<OpeningStep>,
}

impl External {
    pub(super) fn new(endpoint: &Endpoint) -> External {
        let protocol = match endpoint.dialect {
            None | Some(EndpointDialect::Sse) => None,
            Some(EndpointDialect::Socketio) => Some(&socketio::FOREIGN),
            Some(EndpointDialect::Signalr) => Some(&signalr::FOREIGN),
            Some(EndpointDialect::GraphqlWs) => Some(&graphql_ws::FOREIGN),
            Some(EndpointDialect::Centrifugo) => Some(&centrifugo::FOREIGN),
            Some(EndpointDialect::LlmStream) => Some(&llm_stream::FOREIGN),
        };
        let mut opening = protocol.map_or_else(Vec::new, |protocol| {
            (protocol.opening)(endpoint.auth.as_deref(), &endpoint.subscribe)
        });
        opening.extend(endpoint.opening.iter().cloned());
        External { endpoint: endpoint.clone(), protocol, opening }
    }

    /// Returns the text with the values of a connection.
    fn filled(&self, connection: usize, text: &str) -> String {
        let text = match self.endpoint.tokens.get(connection) {
            Some(token) => text.replace(TOKEN, token),
            None => text.to_owned(),
        };
        text.replace(CONNECTION, &connection.to_string())
    }

    /// Appends the messages of the opening from this step on, up to the next reply.
    fn send_from(&self, step: usize, connection: usize, out: &mut Vec<u8>) {
        for step in self.opening.iter().skip(step) {
            let OpeningStep::Send(text) = step else { return };
            websocket::text(self.filled(connection, text).as_bytes(), out);
        }
    }

    /// Returns the step of the reply that comes next if `left` are yet to come.
    fn expected(&self, left: u32) -> Option<(usize, &Expectation)> {
        let steps = self.opening.iter().enumerate().rev();
        let mut replies = steps.filter_map(|(index, step)| match step {
            OpeningStep::Expect { expect } => Some((index, expect)),
            OpeningStep::Send(_) => None,
        });
        replies.nth((left as usize).checked_sub(1)?)
    }
}

impl Dialect for External {
    fn target(&self, _wanted: &Wanted<'_>) -> String {
        let target = self.endpoint.url.target();
        self.endpoint.dialect.map_or(target.to_owned(), |dialect| dialect.target(target))
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
        if self.endpoint.body.is_some() {
            fields.push(("Content-Type", "application/json"));
        }
        let typed = &self.endpoint.headers;
        fields.retain(|(name, _)| !typed.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        fields.extend(typed.iter().map(|(name, value)| (&**name, &**value)));
        fields
    }

    fn subprotocol(&self) -> Option<&str> {
        let typed = self.endpoint.subprotocol.as_deref();
        typed.or_else(|| self.protocol.and_then(|protocol| protocol.subprotocol))
    }

    fn compresses(&self) -> bool {
        self.endpoint.compress
    }

    fn confirms(&self) -> bool {
        false
    }

    fn method(&self) -> &str {
        self.endpoint.method()
    }

    fn complete_request(&self, connection: usize, request: &mut Vec<u8>) {
        if let Some(token) = self.endpoint.tokens.get(connection) {
            // Typed values were checked to be text.
            let text = String::from_utf8_lossy(request);
            *request = text.replace(TOKEN, token).into_bytes();
        }
        if let Some(body) = &self.endpoint.body {
            let body = self.filled(connection, body);
            // The empty line comes after the length.
            request.truncate(request.len() - b"\r\n".len());
            request.extend(format!("Content-Length: {}\r\n\r\n{body}", body.len()).bytes());
        }
    }

    fn greet(&self, connection: usize, out: &mut Vec<u8>) {
        self.send_from(0, connection, out);
    }

    fn replies(&self) -> u32 {
        let replies = self.opening.iter().filter(|step| matches!(step, OpeningStep::Expect { .. }));
        replies.count() as u32
    }

    fn awaited(&self, left: u32) -> Option<String> {
        self.expected(left).map(|(_, expected)| expected.to_string())
    }

    fn is_reply(&self, connection: usize, left: u32, message: &[u8], out: &mut Vec<u8>) -> bool {
        let Some((step, expected)) = self.expected(left) else { return false };
        let is_expected = match expected {
            Expectation::Text(text) => memmem::find(message, text.as_bytes()).is_some(),
            Expectation::Value(path, value) => {
                json_value::find(message, path.steps()).is_some_and(|found| found.is(value))
            }
        };
        if is_expected {
            self.send_from(step + 1, connection, out);
        }
        is_expected
    }

    fn event_path(&self) -> &'static str {
        self.protocol.map_or("", |protocol| protocol.event_path)
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let (content, behind) = match self.protocol {
            None => alone(Message::Event(kind, message)),
            Some(protocol) => (protocol.content)(kind, message, replies),
        };
        // The bytes behind it are read next. Protocols split messages at ASCII characters.
        let read = &message[..message.len() - behind.len()];
        let is_websocket = self.endpoint.transport == Transport::Websocket;
        if is_websocket && kind == Kind::Text && std::str::from_utf8(read).is_err() {
            bail!("it sent a text message that is not UTF-8 (RFC 6455 §8.1)");
        }
        Ok((content, behind))
    }
}
