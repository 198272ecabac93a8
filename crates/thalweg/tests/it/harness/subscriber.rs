//! A subscriber on any transport.

use serde_json::Value;

use super::websocket::{Frame, opcode};
use super::{Socket, offset, request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    WebSocket,
    Sse,
    HttpStreaming,
}

/// What a subscriber hears.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Envelope(Envelope),
    Gap(Gap),
    Heartbeat,
    /// Code, reason, and whether to come back, where the transport says so.
    Close(u16, String, Option<bool>),
    /// What a WebSocket command was answered, whole.
    Answer(Value),
    Pong(Vec<u8>),
    /// The connection ended.
    End,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Envelope {
    pub(crate) topic: String,
    pub(crate) position: String,
    pub(crate) first: u64,
    pub(crate) events: Vec<Value>,
    /// Server-Sent Events' `id:`.
    pub(crate) id: Option<String>,
    /// As it came.
    pub(crate) text: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Gap {
    pub(crate) topic: String,
    pub(crate) position: String,
    pub(crate) missed: Option<u64>,
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) socket: Socket,
    transport: Transport,
    /// For failures.
    name: String,
}

impl Transport {
    pub(crate) const ALL: [Self; 3] = [Self::WebSocket, Self::Sse, Self::HttpStreaming];

    /// What a request asks for it with.
    fn headers(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::WebSocket => vec![
                ("Upgrade", "websocket"),
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Version", "13"),
                // RFC 6455 §1.3.
                ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ],
            Self::Sse => vec![("Accept", "text/event-stream")],
            Self::HttpStreaming => vec![("Accept", "application/x-ndjson")],
        }
    }
}

impl Subscriber {
    pub(crate) fn open(
        mut socket: Socket,
        transport: Transport,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let headers = [&transport.headers(), headers].concat();
        socket.send(request("GET", target, &headers, b""));
        let mut response = socket.response_head();
        let name = format!("{target} over {transport:?}");
        match transport {
            Transport::WebSocket if response.status == 101 => {
                let accept = response.header("sec-websocket-accept");
                assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{name}");
            }
            Transport::Sse if response.status == 200 => {
                assert_eq!(response.header("content-type"), Some("text/event-stream"), "{name}");
            }
            Transport::HttpStreaming if response.status == 200 => {
                assert_eq!(response.header("content-type"), Some("application/x-ndjson"), "{name}");
            }
            _ => {
                response.body = socket.rest("the rest of a refusal");
                panic!("{name} was refused: {response:?}")
            }
        }
        Self { socket, transport, name }
    }

    /// What comes next.
    pub(crate) fn next(&mut self) -> Heard {
        let what = format!("the next frame of {}", self.name);
        match self.transport {
            Transport::WebSocket => self.next_websocket(&what),
            Transport::Sse => self.next_sse(&what),
            Transport::HttpStreaming => match self.socket.until(b"\n", &what) {
                Some(line) => self.heard(&line, None),
                None => Heard::End,
            },
        }
    }

    /// The next envelope; anything else but a heartbeat fails.
    pub(crate) fn envelope(&mut self) -> Envelope {
        loop {
            match self.next() {
                Heard::Envelope(envelope) => return envelope,
                Heard::Heartbeat => {}
                other => panic!("{}: an envelope was due, not {other:?}", self.name),
            }
        }
    }

    /// The next gap.
    pub(crate) fn gap(&mut self) -> Gap {
        match self.next() {
            Heard::Gap(gap) => gap,
            other => panic!("{}: a gap was due, not {other:?}", self.name),
        }
    }

    /// The envelope that confirms the subscription; its position.
    pub(crate) fn confirmed(&mut self) -> String {
        let first = self.envelope();
        assert_eq!(first.events, Vec::<Value>::new(), "{}: the first is empty", self.name);
        assert_eq!(first.first, offset(&first.position) + 1, "{}: {first:?}", self.name);
        first.position
    }

    /// The next `count` events of one topic: their numbers and the position
    /// after them. Offsets must be gapless.
    pub(crate) fn numbers(&mut self, count: usize) -> (Vec<u64>, String) {
        let mut numbers = Vec::new();
        let mut before: Option<u64> = None;
        loop {
            let envelope = self.envelope();
            let last = offset(&envelope.position);
            assert_eq!(envelope.first + envelope.events.len() as u64, last + 1, "{envelope:?}");
            assert!(before.is_none_or(|before| envelope.first == before + 1), "{envelope:?}");
            before = Some(last);
            numbers.extend(envelope.events.iter().map(|event| event.as_u64().expect("a number")));
            assert!(numbers.len() <= count, "{}: {count} were due, not {numbers:?}", self.name);
            if numbers.len() == count {
                return (numbers, envelope.position);
            }
        }
    }

    /// Sends a frame over the WebSocket.
    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        self.socket.send_if_open(frame.bytes());
    }

    /// Sends a command over the WebSocket and returns its answer.
    pub(crate) fn command(&mut self, command: &str) -> Value {
        self.send(&Frame::new(opcode::TEXT, command));
        loop {
            match self.next() {
                Heard::Answer(answer) => return answer,
                Heard::Envelope(_) | Heard::Heartbeat => {}
                other => panic!("{}: an answer was due, not {other:?}", self.name),
            }
        }
    }

    fn next_websocket(&mut self, what: &str) -> Heard {
        match self.socket.websocket_frame(what) {
            None => Heard::End,
            Some((opcode::TEXT, payload)) => self.heard(&payload, None),
            Some((opcode::PONG, payload)) => Heard::Pong(payload),
            Some((opcode::CLOSE, payload)) => {
                let (code, reason) = payload.split_at_checked(2).expect("a close code");
                let code = u16::from_be_bytes([code[0], code[1]]);
                Heard::Close(code, String::from_utf8_lossy(reason).into_owned(), None)
            }
            Some(other) => panic!("{}: {other:?}", self.name),
        }
    }

    fn next_sse(&mut self, what: &str) -> Heard {
        loop {
            let Some(frame) = self.socket.until(b"\n\n", what) else { return Heard::End };
            let frame = String::from_utf8(frame).expect("SSE is UTF-8");
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
            let Some(data) = field("data:") else { continue };
            let heard = self.heard(data.as_bytes(), field("id:").map(str::to_owned));
            let kind = match heard {
                Heard::Envelope(_) => None,
                Heard::Gap(_) => Some("gap"),
                Heard::Heartbeat => Some("heartbeat"),
                _ => Some("close"),
            };
            assert_eq!(field("event:"), kind, "{}: {frame:?}", self.name);
            return heard;
        }
    }

    fn heard(&self, text: &[u8], id: Option<String>) -> Heard {
        let text = String::from_utf8(text.to_vec()).expect("the wire is UTF-8");
        let json: Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error} in {text:?}", self.name));
        let string = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
        let (topic, position) = (string(&json["topic"]), string(&json["position"]));
        if let Some(events) = json["events"].as_array() {
            let first = json["first"].as_u64().expect("first");
            return Heard::Envelope(Envelope {
                topic,
                position,
                first,
                events: events.clone(),
                id,
                text,
            });
        }
        if let Some(gap) = json.get("gap") {
            let (missed, reason) = (gap["missed"].as_u64(), string(&gap["reason"]));
            return Heard::Gap(Gap { topic, position, missed, reason });
        }
        if let Some(close) = json.get("close") {
            let code = close["code"].as_u64().and_then(|code| u16::try_from(code).ok());
            let code = code.expect("a close code");
            return Heard::Close(code, string(&close["reason"]), close["reconnect"].as_bool());
        }
        if json.get("heartbeat").is_some() {
            return Heard::Heartbeat;
        }
        assert!(json.get("answer").or(json.get("error")).is_some(), "{}: {text}", self.name);
        Heard::Answer(json)
    }
}
