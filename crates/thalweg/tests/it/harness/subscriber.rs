//! A subscriber on any transport. It does what a client of the transport does by
//! itself: polls on, and loads a forever frame that has grown large again; and it
//! checks that each goes on where it was.

use serde_json::Value;
use thalweg_client::Topic;

use super::message::{Envelope, Gap, Heard};
use super::reader::Reader;
use super::websocket::{Frame, opcode};
use super::{Http2, Line, Patience, Response, Socket, Transport, offset};

/// How long a poll waits that is not the first.
const WAIT: &str = "wait=10s";

/// What a forever frame that has grown large says.
const RELOAD: u16 = 4003;

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) socket: Socket,
    /// What the first request was answered.
    pub(crate) head: Response,
    transport: Transport,
    reader: Reader,
    line: Line,
    path: String,
    /// Without cursors.
    query: Vec<String>,
    headers: Vec<(String, String)>,
    /// Where each topic is, in the order of the URL.
    cursors: Vec<(String, Option<String>)>,
    /// Topics that must be confirmed at their cursors before anything else of them.
    due: Vec<String>,
    /// A poll has been sent and not been answered.
    is_polling: bool,
    /// Nothing more is asked for.
    is_over: bool,
    /// For failures.
    name: String,
}

impl Http2 {
    /// Subscribes to `target`, what follows `/v1/topics` in the path.
    pub(crate) fn subscribe(&self, transport: Transport, target: &str) -> Subscriber {
        let line = Line::Http2(self.clone());
        Subscriber::open(line, transport, &format!("/v1/topics{target}"), &[])
    }
}

impl Subscriber {
    /// Asks for `target` over HTTP/1.1, on a connection that is there.
    pub(crate) fn on(
        mut socket: Socket,
        line: Line,
        transport: Transport,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let asked = [&transport.headers(), headers].concat();
        line.start_again(&mut socket, &first_target(transport, target), &asked);
        Self::begin(socket, line, transport, target, headers)
    }

    pub(crate) fn open(
        line: Line,
        transport: Transport,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let asked = [&transport.headers(), headers].concat();
        let socket = line.start(&first_target(transport, target), &asked);
        Self::begin(socket, line, transport, target, headers)
    }

    fn begin(
        mut socket: Socket,
        line: Line,
        transport: Transport,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let mut head = socket.response_head();
        let name = format!("{target} over {transport:?}");
        if head.status != if transport == Transport::WebSocket { 101 } else { 200 } {
            head.body = socket.body(&head);
            panic!("{name} was refused: {head:?} {}", head.text());
        }
        let content_type = head.header("content-type").and_then(|value| value.split(';').next());
        assert_eq!(content_type, transport.content_type(), "{name}");
        if transport == Transport::WebSocket {
            let accept = head.header("sec-websocket-accept");
            assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{name}");
        }
        let reader = Reader::of(transport, &head, &mut socket);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let topics = topics(path, query);
        let query = query.split('&').filter(|pair| !pair.is_empty() && !is_cursor(pair));
        let headers = headers.iter().filter(|(key, _)| !key.eq_ignore_ascii_case("last-event-id"));
        Self {
            socket,
            head,
            transport,
            reader,
            line,
            path: path.to_owned(),
            query: query.map(str::to_owned).collect(),
            headers: headers.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            cursors: topics.into_iter().map(|topic| (topic, None)).collect(),
            due: Vec::new(),
            is_polling: false,
            is_over: false,
            name,
        }
    }

    /// What comes next.
    pub(crate) fn next(&mut self) -> Heard {
        let mut patience = Patience::new();
        loop {
            patience.check(&self.name);
            if self.is_polling
                && let Some(refused) = self.take_answer()
            {
                return refused;
            }
            let heard = self.reader.next(&mut self.socket, &self.name);
            if matches!(heard, Heard::Close(RELOAD, _, _)) {
                if let Some(refused) = self.reload() {
                    return refused;
                }
                continue;
            }
            let is_news = self.note(&heard);
            if self.reader.is_used_up() && !self.is_over {
                self.poll();
            }
            if is_news {
                return heard;
            }
        }
    }

    /// The next message that is not a heartbeat.
    pub(crate) fn news(&mut self) -> Heard {
        let mut patience = Patience::new();
        loop {
            match self.next() {
                Heard::Heartbeat => patience.check(&self.name),
                heard => return heard,
            }
        }
    }

    /// The next envelope; anything else but a heartbeat fails.
    pub(crate) fn envelope(&mut self) -> Envelope {
        match self.news() {
            Heard::Envelope(envelope) => envelope,
            other => panic!("{}: an envelope was due, not {other:?}", self.name),
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

    /// Sends a command over the WebSocket.
    pub(crate) fn say(&mut self, command: &str) {
        self.send(&Frame::new(opcode::TEXT, command));
    }

    /// Sends a command over the WebSocket and returns its answer.
    pub(crate) fn command(&mut self, command: &str) -> Value {
        self.say(command);
        loop {
            match self.next() {
                Heard::Answer(answer) => return answer,
                Heard::Envelope(_) | Heard::Heartbeat => {}
                other => panic!("{}: an answer was due, not {other:?}", self.name),
            }
        }
    }

    /// Keeps the place that `heard` names; whether the test is to hear it. What
    /// only confirms where a poll or a reload goes on is not news.
    fn note(&mut self, heard: &Heard) -> bool {
        let (topic, position) = match heard {
            Heard::Envelope(envelope) => (&envelope.topic, &envelope.position),
            Heard::Gap(gap) => (&gap.topic, &gap.position),
            Heard::TopicEnd(topic, ..) => {
                self.cursors.retain(|(name, _)| name != topic);
                self.query.retain(|pair| pair.strip_prefix("topic=") != Some(topic));
                return true;
            }
            Heard::Close(..) | Heard::End => {
                self.is_over = true;
                return true;
            }
            _ => return true,
        };
        if self.cursors.is_empty() && self.query.iter().any(|pair| pair.starts_with("query=")) {
            // A query's topic is named by the server.
            self.cursors.push((topic.clone(), None));
        }
        let Some((_, cursor)) = self.cursors.iter_mut().find(|(name, _)| name == topic) else {
            // Subscribed to with a command.
            assert_eq!(self.transport, Transport::WebSocket, "{}: {heard:?}", self.name);
            return true;
        };
        let due = self.due.iter().position(|name| name == topic);
        if let (Some(due), Heard::Envelope(envelope)) = (due, heard) {
            let is_confirmation = envelope.events.is_empty() && cursor.as_ref() == Some(position);
            assert!(is_confirmation, "{}: resumed at {cursor:?}, not {heard:?}", self.name);
            self.due.remove(due);
            return false;
        }
        if let Some(due) = due {
            self.due.remove(due);
        }
        *cursor = Some(position.clone());
        true
    }

    /// Asks for what comes after the cursors. The connection is kept.
    fn poll(&mut self) {
        let target = self.resumed_target(WAIT);
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if self.head.header("connection") == Some("close") {
            self.socket = self.line.start(&target, &headers);
        } else {
            self.line.start_again(&mut self.socket, &target, &headers);
        }
        self.is_polling = true;
    }

    /// The answer to a poll; an end or a refusal, if it is one.
    fn take_answer(&mut self) -> Option<Heard> {
        self.is_polling = false;
        let Some(head) = self.socket.response_head_if_open() else {
            self.is_over = true;
            return Some(Heard::End);
        };
        self.take_head(head)
    }

    fn reload(&mut self) -> Option<Heard> {
        let target = self.resumed_target(self.transport.query().unwrap_or_default());
        self.socket = self.line.start(&target, &[]);
        let head = self.socket.response_head();
        self.take_head(head)
    }

    fn take_head(&mut self, head: Response) -> Option<Heard> {
        self.head = head;
        if self.head.status == 200 {
            self.reader = Reader::of(self.transport, &self.head, &mut self.socket);
            return None;
        }
        self.is_over = true;
        self.head.body = self.socket.body(&self.head);
        let code = self.head.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
        Some(Heard::Refused(self.head.status, code))
    }

    /// Where it goes on, by its cursors.
    fn resumed_target(&mut self, query: &str) -> String {
        let mut pairs = self.query.clone();
        pairs.push(query.to_owned());
        self.due.clear();
        for (topic, cursor) in &self.cursors {
            let cursor =
                cursor.as_ref().unwrap_or_else(|| panic!("{}: no word of {topic}", self.name));
            pairs.push(format!("cursor={cursor}"));
            self.due.push(topic.clone());
        }
        format!("{}?{}", self.path, pairs.join("&"))
    }
}

/// The first request's target: with what asks for the transport.
fn first_target(transport: Transport, target: &str) -> String {
    match (transport.query(), target.contains('?')) {
        (None, _) => target.to_owned(),
        (Some(query), true) => format!("{target}&{query}"),
        (Some(query), false) => format!("{target}?{query}"),
    }
}

fn topics(path: &str, query: &str) -> Vec<String> {
    let in_path = path.strip_prefix("/v1/topics/");
    let in_query = query.split('&').filter_map(|pair| pair.strip_prefix("topic="));
    let decoded = |text: &str| match Topic::from_path(&text.replace("%2F", "/")) {
        Ok(topic) => topic.as_str().to_owned(),
        Err(_) => text.to_owned(),
    };
    in_path.into_iter().chain(in_query).map(decoded).collect()
}

fn is_cursor(pair: &str) -> bool {
    ["cursor=", "newest=", "lastEventId="].iter().any(|start| pair.starts_with(start))
}
