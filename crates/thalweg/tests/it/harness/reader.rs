//! Parsers for the messages of each transport.
//!
//! - `forever_frame`: scripts of an endless document

mod forever_frame;

use std::collections::VecDeque;

use super::message::Received;
use super::websocket::opcode;
use super::{Response, Socket, Transport};
use forever_frame::Document;

#[derive(Debug)]
pub(crate) enum Reader {
    WebSocket,
    Sse,
    Lines,
    Document(Document),
    /// The lines of one response, which is read whole.
    Answer(VecDeque<Vec<u8>>),
}

impl Reader {
    pub(crate) fn new(transport: Transport, head: &Response, socket: &mut Socket) -> Self {
        match transport {
            Transport::WebSocket => Self::WebSocket,
            Transport::Sse => Self::Sse,
            Transport::HttpStreaming => Self::Lines,
            Transport::ForeverFrame => Self::Document(Document::new(head)),
            Transport::LongPolling => {
                let body = socket.body(head);
                assert!(body.ends_with(b"\n"), "{:?}", String::from_utf8_lossy(&body));
                Self::Answer(
                    body.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
                )
            }
        }
    }

    pub(crate) fn is_used_up(&self) -> bool {
        matches!(self, Self::Answer(lines) if lines.is_empty())
    }

    pub(crate) fn next(&mut self, socket: &mut Socket, name: &str) -> Received {
        let what = format!("the next frame of {name}");
        match self {
            Self::WebSocket => next_websocket(socket, &what),
            Self::Sse => next_sse(socket, &what),
            Self::Document(document) => document.next(socket, &what),
            Self::Lines => match socket.until(b"\n", &what) {
                Some(line) => Received::parse(&line, None, name),
                None => Received::End,
            },
            Self::Answer(lines) => match lines.pop_front() {
                Some(line) => Received::parse(&line, None, name),
                None => Received::End,
            },
        }
    }
}

fn next_websocket(socket: &mut Socket, what: &str) -> Received {
    match socket.websocket_frame(what) {
        None => Received::End,
        Some((opcode::TEXT, payload)) => Received::parse(&payload, None, what),
        Some((opcode::PONG, payload)) => Received::Pong(payload),
        Some((opcode::CLOSE, payload)) => {
            let (code, reason) = payload.split_at_checked(2).expect("a close code");
            let code = u16::from_be_bytes([code[0], code[1]]);
            Received::Close(code, String::from_utf8_lossy(reason).into_owned(), None)
        }
        Some(other) => panic!("{what}: {other:?}"),
    }
}

fn next_sse(socket: &mut Socket, what: &str) -> Received {
    loop {
        let Some(frame) = socket.until(b"\n\n", what) else { return Received::End };
        let frame = String::from_utf8(frame).expect("SSE is UTF-8");
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let Some(data) = field("data:") else { continue };
        let received = Received::parse(data.as_bytes(), field("id:").map(str::to_owned), what);
        let kind = match received {
            Received::Envelope(_) => None,
            Received::Gap(_) => Some("gap"),
            Received::TopicEnd(..) => Some("end"),
            Received::Heartbeat => Some("heartbeat"),
            _ => Some("close"),
        };
        assert_eq!(field("event:"), kind, "{what}: {frame:?}");
        return received;
    }
}
