//! SignalR's hub protocol in JSON. Quoted sections are those of `HubProtocol.md` and `TransportProtocols.md`
//! (github.com/dotnet/aspnetcore, `src/SignalR/docs/specs`); docs/how-to/signalr.md lists the differences.
//!
//! A hub has the methods `Subscribe`, `Unsubscribe`, `Publish` and `Ack`, and its groups are topics. Events
//! are encoded once for all subscribers of a topic in one format; completions are for one client.

pub(crate) mod methods;
mod requests;

use serde_json::value::RawValue;
use thalweg_wire::{
    Close, close,
    signalr::{
        self, HANDSHAKE_ACCEPTED, HubMessage, Outcome, StreamId, accept_handshake, completion,
        handshake_refused, record_len,
    },
};

use super::{
    command::{Command, Reply, Request},
    contract::{Heartbeat, Inbound, Message, Messages, Protocol},
    session::{SessionGuard, SessionPlace},
};
use crate::{access::Identity, config::SIGNALR_TIMEOUT_US, refusal::Refusal};
pub(super) use requests::{TOKEN_PARAMETER, accept};

/// Maximum bytes of a record that the server ignores: a ping, or a record of an unknown type. Official
/// clients send only pings of 11 bytes.
const UNUSED_BYTES_MAX: usize = 1024;

#[derive(Debug)]
struct Hub {
    phase: HubPhase,
    /// The session, which ends when this is dropped. `None` for a WebSocket without a negotiation.
    session: Option<SessionGuard>,
}

/// The progress of a connection's handshake ("Overview": it comes before all other messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HubPhase {
    Handshake,
    Refused,
    Accepted,
}

impl Hub {
    fn new(session: Option<SessionGuard>) -> Self {
        Self { phase: HubPhase::Handshake, session }
    }

    /// Parses the handshake ("Overview": the server answers it, and closes the connection if the first message is not
    /// a handshake or names an unknown protocol).
    fn shake_hands(&mut self, record: &str, out: &mut Messages<'_>) -> Inbound {
        match accept_handshake(record) {
            Ok(()) => {
                self.phase = HubPhase::Accepted;
                out.text(HANDSHAKE_ACCEPTED.as_bytes());
                Inbound::Handled
            }
            Err(error) => {
                self.refuse_handshake(&error.to_string(), out);
                Inbound::Close(close::PROTOCOL_ERROR)
            }
        }
    }

    fn refuse_handshake(&mut self, error: &str, out: &mut Messages<'_>) {
        self.phase = HubPhase::Refused;
        let mut record = Vec::new();
        handshake_refused(error, &mut record);
        out.text(&record);
    }
}

impl Protocol for Hub {
    fn record_len(&self, text: &str) -> usize {
        record_len(text)
    }

    fn read(
        &mut self,
        record: Message<'_>,
        event_bytes_max: Option<usize>,
        out: &mut Messages<'_>,
    ) -> Inbound {
        // "Transfer Formats": JSON is text.
        let Message::Text(record) = record else { return Inbound::Close(close::BINARY) };
        match self.phase {
            HubPhase::Handshake => return self.shake_hands(record, out),
            HubPhase::Refused => return Inbound::Handled,
            HubPhase::Accepted => {}
        }
        // "Errors": after a protocol error the connection may be closed.
        let Ok(message) = HubMessage::parse(record) else {
            return Inbound::Close(close::PROTOCOL_ERROR);
        };
        let bytes = record.len();
        match message {
            // The read budget counts an ignored record as a short one, so a long one closes the connection.
            HubMessage::Ping | HubMessage::Ignored if bytes > UNUSED_BYTES_MAX => {
                Inbound::Close(close::TOO_BIG)
            }
            HubMessage::Invocation(invocation) => Inbound::Request(Request {
                id: invocation.id.map(ToOwned::to_owned),
                command: methods::command(&invocation, event_bytes_max),
                bytes,
            }),
            // "Cancellation": a cancellation whose id belongs to no stream is ignored. A cancellation has no
            // reply, so the command has no id.
            HubMessage::Cancel(id) => match StreamId::parse(id) {
                Some(stream) => Inbound::Request(Request {
                    id: None,
                    command: Ok(Command::Cancel { stream }),
                    bytes,
                }),
                None => Inbound::Handled,
            },
            // "Ping": a client may send one at any time, and expects no response.
            HubMessage::Ping | HubMessage::Ignored => Inbound::Handled,
            HubMessage::Close => Inbound::Close(close::DONE),
        }
    }

    fn reply(
        &mut self,
        id: Option<&RawValue>,
        reply: Result<&Reply, &Refusal>,
        out: &mut Messages<'_>,
    ) {
        let mut records = Vec::new();
        // "Streaming": after a cancellation the stream gets a completion.
        if let Ok(Reply::Unsubscribed(_, Some(stream))) = reply {
            signalr::complete_stream(*stream, None, &mut records);
        }
        // "Non-Blocking Invocations": without an id there must be no response.
        if let Some(id) = id {
            complete(id, reply, &mut records);
        }
        if !records.is_empty() {
            out.text(&records);
        }
    }

    /// "Overview": the first message to a client is the answer to its handshake, so no heartbeat comes before
    /// it.
    fn heartbeat(&self) -> Heartbeat {
        match self.phase {
            HubPhase::Accepted => Heartbeat::OfFormat,
            HubPhase::Handshake | HubPhase::Refused => Heartbeat::NotYet,
        }
    }

    /// "Ping": without messages from the client for this time, the server closes the connection.
    fn client_timeout_us(&self) -> Option<u64> {
        Some(SIGNALR_TIMEOUT_US)
    }

    fn opened(&mut self, place: SessionPlace, client: Identity) {
        if let Some(session) = &self.session {
            session.opened(place, client);
        }
    }

    fn close(&mut self, close: Close, out: &mut Messages<'_>) {
        match self.phase {
            // The client has closed the connection.
            _ if close == close::DONE => {}
            HubPhase::Refused => {}
            HubPhase::Handshake => self.refuse_handshake(close.reason, out),
            HubPhase::Accepted => {
                let mut record = Vec::new();
                signalr::close(close.reason, close.reconnect, &mut record);
                out.text(&record);
            }
        }
    }
}

/// Appends the completion of an invocation, unless it has begun a stream ("Completion and results": a stream
/// gets its completion at its end, and every other invocation gets one with its result or an error).
fn complete(id: &RawValue, reply: Result<&Reply, &Refusal>, out: &mut Vec<u8>) {
    match reply {
        Ok(Reply::Streams) => {}
        Ok(Reply::Published(published)) => {
            completion(id, Outcome::Result(&published.to_json()), out);
        }
        Ok(_) => completion(id, Outcome::Done, out),
        Err(refused) => {
            let error = format!("{}: {}", refused.code.name(), refused.message);
            completion(id, Outcome::Error(&error), out);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use thalweg_wire::Format;

    use super::*;
    use crate::config::Config;

    /// Returns the protocol of a connection that has shaken hands.
    pub(crate) fn accepted() -> Box<dyn Protocol> {
        Box::new(Hub { phase: HubPhase::Accepted, session: None })
    }

    /// The defaults of @microsoft/signalr: `keepAliveIntervalInMilliseconds` and
    /// `serverTimeoutInMilliseconds`.
    #[test]
    fn a_hub_has_the_times_of_official_clients() {
        let hub = |heartbeat_s| Config {
            signalr_paths: vec!["/hub".into()],
            heartbeat: Duration::from_secs(heartbeat_s),
            ..Config::default()
        };
        assert_eq!(hub(25).heartbeat(), Duration::from_secs(15));
        assert_eq!(hub(5).heartbeat(), Duration::from_secs(5));
        assert_eq!(Config::default().heartbeat(), Duration::from_secs(25));
        assert_eq!(accepted().client_timeout_us(), Some(30_000_000));
    }

    fn read(hub: &mut Hub, record: &str, out: &mut Vec<u8>) -> Inbound {
        let mut messages = Messages::new(Format::SIGNALR_POLLS, out);
        hub.read(Message::Text(record), None, &mut messages)
    }

    #[test]
    fn no_heartbeat_comes_before_the_answer_to_the_handshake() {
        let mut out = Vec::new();
        let mut hub = Hub::new(None);
        assert!(matches!(hub.heartbeat(), Heartbeat::NotYet));
        read(&mut hub, "{\"protocol\":\"json\",\"version\":1}\u{1e}", &mut out);
        assert_eq!(out, HANDSHAKE_ACCEPTED.as_bytes());
        assert!(matches!(hub.heartbeat(), Heartbeat::OfFormat));
        let mut refused = Hub::new(None);
        read(&mut refused, "{\"protocol\":\"messagepack\",\"version\":1}\u{1e}", &mut out);
        assert!(matches!(refused.heartbeat(), Heartbeat::NotYet));
    }

    #[test]
    fn a_long_record_without_effect_closes_the_connection() {
        let mut hub = Hub { phase: HubPhase::Accepted, session: None };
        let mut read = |record: &str| read(&mut hub, record, &mut Vec::new());
        assert!(matches!(read("{\"type\":6}\u{1e}"), Inbound::Handled));
        let item = format!("{{\"type\":2,\"item\":[0{}]}}\u{1e}", ",0".repeat(1000));
        assert!(matches!(read(&item), Inbound::Close(close::TOO_BIG)));
    }
}
