//! A protocol for tests, and an example of one: lines of text over a WebSocket, `sub TOPIC`, `unsub TOPIC` and `pub TOPIC TEXT`.
//! The answer to a command begins with the command's number. The first message of a client names its version.

use http::{Method, Response};
use serde_json::value::{RawValue, to_raw_value};
use thalweg_core::{fanout::Terms, stream::Payloads};
use thalweg_wire::{Close, ErrorCode, StartAt, close, event};

use super::{
    command::{Command, Reply, Request},
    contract::{Accepted, Heartbeat, Inbound, Message, Messages, Opening, Protocol},
};
use crate::{refusal::Refusal, transport::SubscribeRequest};

#[derive(Debug, Default)]
struct Lines {
    has_shaken_hands: bool,
    commands: u64,
}

pub(crate) fn accept(opening: &Opening<'_>) -> Result<Option<Accepted>, Refusal> {
    match (&opening.request.method, opening.rest) {
        (&Method::POST, "/negotiate") => {
            let id = opening.access.random()?;
            Ok(Some(Accepted::Answer(Response::new(format!("lines/1 {id:032x}").into_bytes()))))
        }
        (&Method::GET, "") => {
            let mut request = SubscribeRequest::websocket(opening.request, opening.config)?;
            Messages::new(request.format, request.head.body_mut()).text(b"hello, who are you?");
            Ok(Some(Accepted::Connection(request, Box::new(Lines::default()))))
        }
        _ => Ok(None),
    }
}

impl Protocol for Lines {
    fn record_len(&self, text: &str) -> usize {
        text.find('\n').map_or(text.len(), |end| end + 1)
    }

    fn read(
        &mut self,
        record: Message<'_>,
        event_bytes_max: Option<usize>,
        out: &mut Messages<'_>,
    ) -> Inbound {
        let Message::Text(line) = record else { return Inbound::Close(close::BINARY) };
        let line = line.trim_end();
        if !self.has_shaken_hands {
            if line != "i am lines/1" {
                return Inbound::Close(close::PROTOCOL_ERROR);
            }
            self.has_shaken_hands = true;
            out.text(b"welcome");
            return Inbound::Handled;
        }
        self.commands += 1;
        let id = to_raw_value(&self.commands).ok();
        let command = command(line, event_bytes_max);
        Inbound::Request(Request { id, command, bytes: line.len() })
    }

    fn reply(
        &mut self,
        id: Option<&RawValue>,
        reply: Result<&Reply, &Refusal>,
        out: &mut Messages<'_>,
    ) {
        let said = match reply {
            Ok(Reply::Subscribed(topic) | Reply::Unsubscribed(topic, _)) => format!("done {topic}"),
            Ok(Reply::Published(published)) => {
                format!("published {} to {}", published.count, published.topic)
            }
            Ok(_) => String::new(),
            Err(refused) => refused.code.name().to_owned(),
        };
        out.text(format!("{} {said}", id.map_or("", RawValue::get)).as_bytes());
    }

    fn replies_in_order(&self) -> bool {
        true
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat::Always("beat")
    }

    fn close(&mut self, close: Close, out: &mut Messages<'_>) {
        out.text(format!("bye {}", close.code).as_bytes());
    }
}

fn command(line: &str, event_bytes_max: Option<usize>) -> Result<Command, Refusal> {
    let mut words = line.splitn(3, ' ');
    let (verb, topic) = (words.next(), words.next().unwrap_or_default());
    Ok(match verb {
        Some("sub") => {
            let (start, terms) = (StartAt::Latest, Terms::default());
            Command::Subscribe { topic: topic.parse()?, start, terms, filter: None }
        }
        Some("unsub") => Command::Unsubscribe { topic: topic.parse()? },
        Some("pub") => {
            let text = serde_json::json!(words.next().unwrap_or_default()).to_string();
            let mut payloads = Payloads::default();
            if let Some(bytes_max) = event_bytes_max {
                payloads.push(|out| event::push_json(text.as_bytes(), bytes_max, out))?;
            }
            let (key, condition, ttl_us) = (None, None, None);
            Command::Publish { topic: topic.parse()?, payloads, key, condition, ttl_us }
        }
        _ => return Err(Refusal::new(ErrorCode::BadCommand, "say sub, unsub or pub")),
    })
}
