//! A hub of SignalR over a WebSocket, with the JSON hub protocol
//! (<https://github.com/dotnet/aspnetcore/blob/main/src/SignalR/docs/specs/HubProtocol.md>): records that end
//! with the byte 0x1E. Thalweg's hubs invoke `Events` with the object that its own protocol sends.

use super::{Dialect, Message, Wanted, thalweg, unknown};
use crate::scenario::Settings;
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use memchr::memchr;

/// Where `lab/subjects/signalr` mounts the hub.
const HUB: &str = "/hub";
const RECORD_END: u8 = 0x1E;
const HANDSHAKE: &[u8] = b"{\"protocol\":\"json\",\"version\":1}\x1e";
const EVENTS: &[u8] = b"{\"type\":1,\"target\":\"Events\",\"arguments\":[";
const GAP: &[u8] = b"{\"type\":1,\"target\":\"Gap\",\"arguments\":[";

#[derive(Debug)]
pub(super) struct SignalR {
    settings: Settings,
}

impl SignalR {
    pub(super) fn new(settings: &Settings) -> SignalR {
        SignalR { settings: settings.clone() }
    }
}

impl Dialect for SignalR {
    /// Returns the target of a connection without negotiation, as of clients with `skipNegotiation`.
    fn target(&self, _wanted: &Wanted<'_>) -> String {
        HUB.to_owned()
    }

    fn greet(&self, connection: usize, out: &mut Vec<u8>) {
        websocket::text(HANDSHAKE, out);
        let topic = topic_name(self.settings.topics_of(connection).start);
        let subscribe = format!(
            "{{\"type\":1,\"invocationId\":\"1\",\"target\":\"Subscribe\",\"arguments\":[\"{topic}\"]}}\x1e"
        );
        websocket::text(subscribe.as_bytes(), out);
    }

    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let end =
            memchr(RECORD_END, message).ok_or_else(|| unknown("not a record of a hub", message))?;
        let (record, behind) = (&message[..end], &message[end + 1..]);
        if let Some(object) = record.strip_prefix(EVENTS).or_else(|| record.strip_prefix(GAP))
            && let Some(object) = object.strip_suffix(b"]}")
            && let Some(message) = thalweg::unwrap(kind, object)
        {
            return Ok((message, behind));
        }
        let content = match record {
            b"{}" => Message::Opening,
            b"{\"type\":6}" => {
                websocket::text(b"{\"type\":6}\x1e", replies);
                Message::Heartbeat
            }
            // The first message about the topic has confirmed the subscription.
            _ if record.starts_with(b"{\"type\":3,\"invocationId\":\"1\"")
                && memchr::memmem::find(record, b"\"error\":").is_none() =>
            {
                Message::Opening
            }
            _ if record.starts_with(b"{\"type\":7") => Message::Close,
            _ => return Err(unknown("not a message of a hub", record)),
        };
        Ok((content, behind))
    }
}
