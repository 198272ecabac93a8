//! The NATS client protocol within WebSocket frames (<https://docs.nats.io/reference/reference-protocols/nats-protocol>): several whole
//! commands per frame. A topic is a NATS subject of the same name.

use super::{Dialect, Message, Wanted, alone, unknown};
use crate::scenario::Settings;
use crate::subject::topic_name;
use crate::swarm::carrier::{Kind, websocket};
use crate::swarm::event::number;
use crate::swarm::publishing::Publishing;
use memchr::memchr;

const CONNECT: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"rust\",\
                       \"version\":\"0\",\"protocol\":1,\"echo\":false}\r\n";

#[derive(Debug)]
pub(super) struct Nats {
    settings: Settings,
}

impl Nats {
    pub(super) fn new(settings: &Settings) -> Nats {
        Nats { settings: settings.clone() }
    }
}

impl Dialect for Nats {
    fn target(&self, _wanted: &Wanted<'_>) -> String {
        "/".to_owned()
    }

    fn greet(&self, connection: usize, out: &mut Vec<u8>) {
        let mut sent = CONNECT.to_owned();
        for (id, topic) in self.settings.topics_of(connection).enumerate() {
            sent += &format!("SUB {} {}\r\n", topic_name(topic), id + 1);
        }
        sent += "PING\r\n";
        websocket::message(Kind::Binary, false, sent.as_bytes(), out);
    }

    #[inline]
    fn on_message<'a>(
        &self,
        _kind: Kind,
        message: &'a [u8],
        replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        let cut = || unknown("a command of NATS that is cut by the end of its frame", message);
        let end = memchr(b'\r', message).ok_or_else(cut)?;
        let behind = message.get(end + 2..).ok_or_else(cut)?;
        let line = &message[..end];
        if let Some(line) = line.strip_prefix(b"MSG ") {
            let mut words = line.split(|byte| *byte == b' ');
            let topic = words.next().unwrap_or_default();
            let bytes = words.next_back().and_then(number).ok_or_else(cut)? as usize;
            let (events, behind) = behind.split_at_checked(bytes).ok_or_else(cut)?;
            let behind = behind.strip_prefix(b"\r\n").ok_or_else(cut)?;
            return Ok((Message::Events { topic, position: b"", first: b"", events }, behind));
        }
        let sent = match line {
            b"PONG" => Message::Confirmed,
            b"PING" => {
                websocket::message(Kind::Binary, false, b"PONG\r\n", replies);
                Message::Heartbeat
            }
            b"+OK" => Message::Opening,
            _ if line.starts_with(b"INFO ") => Message::Opening,
            _ => return alone_error(line),
        };
        Ok((sent, behind))
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Nats { subject: topic_name(topic) }
    }
}

#[cold]
fn alone_error<'a>(line: &[u8]) -> anyhow::Result<(Message<'a>, &'a [u8])> {
    match line.starts_with(b"-ERR 'Slow Consumer") {
        true => Ok(alone(Message::Close)),
        false => Err(unknown("NATS says", line)),
    }
}
