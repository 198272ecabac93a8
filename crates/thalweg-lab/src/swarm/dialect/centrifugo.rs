//! Centrifugo's JSON protocol (<https://centrifugal.dev/docs/transports/client_protocol>): replies and pushes, several in a frame
//! with line feeds between them. A topic is a channel. Over Server-Sent Events it is unidirectional: the query subscribes, and
//! each message is a push without its envelope.
//!
//! A subscriber may take deltas (<https://centrifugal.dev/docs/server/delta_compression>): the data of its publications are JSON
//! strings, with a document or with a delta of the publication before, and the offset numbers them.

use super::foreign::ForeignProtocol;
use super::{Dialect, Encoding, Message, Version, VersionBody, Wanted, unknown};
use crate::scenario::{OpeningStep, Settings, Transport};
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use crate::swarm::event::number;
use crate::swarm::publishing::{Publishing, Requests};
use memchr::{memchr, memmem};
use serde_json::json;

/// The server's configuration permits publishing with this key.
const API_KEY: &str = "lab";
/// Namespace of the channels with deltas in the server's configuration.
const DELTAS: &str = "deltas:";
/// End of a publication's data, before the digits of its offset.
const OFFSET: &[u8] = b"\",\"offset\":";

/// As any Centrifugo speaks it, over a WebSocket.
pub(super) const FOREIGN: ForeignProtocol =
    ForeignProtocol { subprotocol: None, event_path: "push.pub.data", opening, content };

fn opening(auth: Option<&str>, subscribe: &[String]) -> Vec<OpeningStep> {
    let mut steps = vec![
        OpeningStep::Send(format!("{{\"id\":1,\"connect\":{}}}", auth.unwrap_or("{}"))),
        OpeningStep::expect("id=1"),
    ];
    for (id, channel) in (2..).zip(subscribe) {
        let message = json!({ "id": id, "subscribe": { "channel": channel } });
        steps.push(OpeningStep::Send(message.to_string()));
        steps.push(OpeningStep::expect(&format!("id={id}")));
    }
    steps
}

fn content<'a>(kind: Kind, message: &'a [u8], replies: &mut Vec<u8>) -> (Message<'a>, &'a [u8]) {
    let (line, behind) = first_line(message);
    let has = |name: &[u8]| memmem::find(line, name).is_some();
    let content = match line {
        b"{}" => {
            websocket::text(b"{}", replies);
            Message::Heartbeat
        }
        _ if line.starts_with(b"{\"push\":{\"disconnect\":") => Message::Ended(line),
        _ if line.starts_with(b"{\"id\":") && has(b"\"error\":") => Message::Refusal(kind, line),
        // Members that join and leave are no events.
        _ if line.starts_with(b"{\"push\":") && !has(b"\"pub\":") => {
            let is_end = has(b"\"unsubscribe\":{");
            if is_end { Message::Ended(line) } else { Message::Heartbeat }
        }
        _ => Message::Event(kind, line),
    };
    (content, behind)
}

fn first_line(message: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr(b'\n', message).unwrap_or(message.len());
    (&message[..end], message.get(end + 1..).unwrap_or_default())
}

#[derive(Debug)]
pub(super) struct Centrifugo {
    settings: Settings,
}

impl Centrifugo {
    pub(super) fn new(settings: &Settings) -> Centrifugo {
        Centrifugo { settings: settings.clone() }
    }

    fn channel(&self, topic: u32) -> String {
        let namespace = if self.settings.deltas { DELTAS } else { "" };
        format!("{namespace}{}", topic_name(topic))
    }
}

/// Returns the version in a publication for a subscriber that takes deltas.
fn version<'a>(channel: &'a [u8], publication: &'a [u8]) -> Option<Message<'a>> {
    let topic = channel.strip_prefix(DELTAS.as_bytes())?;
    let (publication, encoding) = match publication.strip_suffix(b",\"delta\":true") {
        Some(publication) => (publication, Encoding::FossilDelta),
        None => (publication, Encoding::JsonString),
    };
    // The data may be long. A quote within it is escaped.
    let data_end = memmem::rfind(publication, OFFSET)?;
    let number = number(&publication[data_end + OFFSET.len()..])?;
    let text = publication[..data_end].strip_prefix(b"\"")?;
    let (previous, body) = (number.checked_sub(1)?, VersionBody::Encoded(encoding, text));
    Some(Message::Version { topic, position: b"", version: Version { number, previous, body } })
}

impl Dialect for Centrifugo {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        match wanted.transport {
            Transport::Sse => {
                let topic = topic_name(wanted.topics.start);
                // `{"subs":{"bench/0":{}}}`
                format!(
                    "/connection/uni_sse?cf_connect=%7B%22subs%22%3A%7B%22{topic}%22%3A%7B%7D%7D%7D"
                )
            }
            _ => "/connection/websocket".to_owned(),
        }
    }

    fn greet(&self, connection: usize, out: &mut Vec<u8>) {
        if self.settings.transport == Transport::Websocket {
            let channel = self.channel(self.settings.topics_of(connection).start);
            let delta = if self.settings.deltas { ",\"delta\":\"fossil\"" } else { "" };
            let sent = format!(
                "{{\"id\":1,\"connect\":{{}}}}\n\
                 {{\"id\":2,\"subscribe\":{{\"channel\":\"{channel}\"{delta}}}}}"
            );
            websocket::text(sent.as_bytes(), out);
        }
    }

    #[inline]
    fn on_message<'a>(
        &self,
        _kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let (line, behind) = first_line(message);
        let push = match line.strip_prefix(b"{\"push\":") {
            Some(push) => push.strip_suffix(b"}"),
            None => Some(line),
        };
        if let Some(push) = push.and_then(|push| push.strip_prefix(b"{\"channel\":\""))
            && let Some(topic_end) = memchr(b'"', push)
            && let Some(data) = push[topic_end..].strip_prefix(b"\",\"pub\":{\"data\":")
            && let Some(events) = data.strip_suffix(b"}}")
        {
            let topic = &push[..topic_end];
            if self.settings.deltas {
                let version = version(topic, events);
                let version = version
                    .ok_or_else(|| unknown("a publication without a string or an offset", line))?;
                return Ok((version, behind));
            }
            return Ok((Message::Events { topic, position: b"", first: b"", events }, behind));
        }
        let sent = match line {
            b"{}" => {
                if self.settings.transport == Transport::Websocket {
                    websocket::text(b"{}", replies);
                }
                Message::Heartbeat
            }
            _ if line.starts_with(b"{\"id\":1,\"connect\":") => Message::Opening,
            _ if line.starts_with(b"{\"id\":2,\"subscribe\":") => {
                // Without the namespace, the server would send whole publications and no error.
                if self.settings.deltas && memmem::find(line, b"\"delta\":true").is_none() {
                    return Err(unknown("a subscription without deltas", line));
                }
                Message::Confirmed
            }
            // Unidirectional: the query has subscribed.
            _ if line.starts_with(b"{\"connect\":") => Message::Confirmed,
            _ if line.starts_with(b"{\"disconnect\":") => Message::Close,
            _ => return Err(unknown("not a reply or push of Centrifugo", line)),
        };
        Ok((sent, behind))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Requests(Requests {
            target: "/api/publish".to_owned(),
            fields: vec![format!("X-API-Key: {API_KEY}")],
            before: format!("{{\"channel\":\"{}\",\"data\":", self.channel(topic)),
            behind: "}".to_owned(),
            is_form: false,
        })
    }
}
