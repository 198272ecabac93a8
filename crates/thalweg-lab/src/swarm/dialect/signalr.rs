//! A hub of SignalR over a WebSocket, with the JSON hub protocol
//! (<https://github.com/dotnet/aspnetcore/blob/main/src/SignalR/docs/specs/HubProtocol.md>): records that end
//! with the byte 0x1E. Thalweg's hubs invoke `Events` with the object that its own protocol sends.

use super::foreign::ForeignProtocol;
use super::{Dialect, Message, Wanted, thalweg, unknown};
use crate::scenario::{OpeningStep, Settings, invocation};
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use memchr::memchr;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

/// Where `lab/subjects/signalr` mounts the hub.
const HUB: &str = "/hub";
const RECORD_END: u8 = 0x1E;
const HANDSHAKE: &str = "{\"protocol\":\"json\",\"version\":1}\x1e";
const PING: &[u8] = b"{\"type\":6}\x1e";
const EVENTS: &[u8] = b"{\"type\":1,\"target\":\"Events\",\"arguments\":[";
const GAP: &[u8] = b"{\"type\":1,\"target\":\"Gap\",\"arguments\":[";

/// As any hub speaks it: an event is the first argument of a call of the client.
pub(super) const FOREIGN: ForeignProtocol =
    ForeignProtocol { subprotocol: None, event_path: "arguments[0]", opening, content };

/// A message of a hub; the answer to the handshake has no type.
#[derive(Deserialize)]
struct HubMessage {
    #[serde(rename = "type", default)]
    kind: u8,
    error: Option<IgnoredAny>,
}

fn opening(_: Option<&str>, subscribe: &[String]) -> Vec<OpeningStep> {
    let mut steps = vec![OpeningStep::Send(HANDSHAKE.to_owned()), OpeningStep::expect("{}")];
    for (index, mut call) in subscribe.iter().filter_map(|text| invocation(text)).enumerate() {
        let (id, target) = ((index + 1).to_string(), call.remove(0));
        let message = json!({ "type": 1, "invocationId": id, "target": target, "arguments": call });
        steps.push(OpeningStep::Send(format!("{message}\x1e")));
        steps.push(OpeningStep::expect(&format!("invocationId={id}")));
    }
    steps
}

fn content<'a>(kind: Kind, message: &'a [u8], replies: &mut Vec<u8>) -> (Message<'a>, &'a [u8]) {
    let (record, behind) = first_record(message).unwrap_or((message, b""));
    let parsed = serde_json::from_slice::<HubMessage>(record);
    let content = match parsed.map(|parsed| (parsed.kind, parsed.error.is_some())) {
        Ok((6, _)) => {
            websocket::text(PING, replies);
            Message::Heartbeat
        }
        Ok((7, _)) => Message::Ended(record),
        Ok((0 | 3, true)) => Message::Refusal(kind, record),
        _ => Message::Event(kind, record),
    };
    (content, behind)
}

/// Returns the first record of a message, without its end, and the bytes after it.
fn first_record(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(RECORD_END, message)?;
    Some((&message[..end], &message[end + 1..]))
}

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
        websocket::text(HANDSHAKE.as_bytes(), out);
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
        let (record, behind) =
            first_record(message).ok_or_else(|| unknown("not a record of a hub", message))?;
        if let Some(object) = record.strip_prefix(EVENTS).or_else(|| record.strip_prefix(GAP))
            && let Some(object) = object.strip_suffix(b"]}")
            && let Some(message) = thalweg::unwrap(kind, object)
        {
            return Ok((message, behind));
        }
        let content = match record {
            b"{}" => Message::Opening,
            b"{\"type\":6}" => {
                websocket::text(PING, replies);
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
