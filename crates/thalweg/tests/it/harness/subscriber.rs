//! A subscriber on any transport. Like a client of the transport it polls again, and reloads a forever frame
//! that has become too large. It checks that each topic continues at its position.

use serde_json::Value;
use thalweg_client::Topic;

use super::message::{Envelope, Gap, Received};
use super::reader::Reader;
use super::websocket::{Frame, opcode};
use super::{Http2, Line, Patience, Response, Socket, Transport, offset};

/// The wait of polls after the first one.
const WAIT: &str = "wait=10s";

const RELOAD: u16 = 4003;

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) socket: Socket,
    /// The head of the first response.
    pub(crate) head: Response,
    transport: Transport,
    reader: Reader,
    line: Line,
    path: String,
    /// The query without cursors.
    query: Vec<String>,
    headers: Vec<(String, String)>,
    /// The position in each topic, in the order of the URL.
    cursors: Vec<(String, Option<String>)>,
    /// Topics that must be confirmed at their cursors before any other message.
    due: Vec<String>,
    is_polling: bool,
    is_over: bool,
    name: String,
}

impl Http2 {
    pub(crate) fn subscribe(&self, transport: Transport, target: &str) -> Subscriber {
        let line = Line::Http2(self.clone());
        Subscriber::open(line, transport, &format!("/v1/topics{target}"), &[])
    }
}

impl Subscriber {
    /// Requests `target` over HTTP/1.1, on an existing connection.
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
        let upgrades = transport == Transport::WebSocket && matches!(line, Line::Http1(_));
        if head.status != if upgrades { 101 } else { 200 } {
            head.body = socket.body(&head);
            panic!("{name} was refused: {head:?} {}", head.text());
        }
        let content_type = head.header("content-type").and_then(|value| value.split(';').next());
        assert_eq!(content_type, transport.content_type(), "{name}");
        let accept = head.header("sec-websocket-accept");
        assert_eq!(accept, upgrades.then_some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{name}");
        let reader = Reader::new(transport, &head, &mut socket);
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

    pub(crate) fn next(&mut self) -> Received {
        let mut patience = Patience::new();
        loop {
            patience.check(&self.name);
            if self.is_polling
                && let Some(refused) = self.take_answer()
            {
                return refused;
            }
            let received = self.reader.next(&mut self.socket, &self.name);
            if matches!(received, Received::Close(RELOAD, _, _)) {
                if let Some(refused) = self.reload() {
                    return refused;
                }
                continue;
            }
            let is_news = self.note(&received);
            if self.reader.is_used_up() && !self.is_over {
                self.poll();
            }
            if is_news {
                return received;
            }
        }
    }

    /// Returns the next message that is not a heartbeat.
    pub(crate) fn news(&mut self) -> Received {
        let mut patience = Patience::new();
        loop {
            match self.next() {
                Received::Heartbeat => patience.check(&self.name),
                received => return received,
            }
        }
    }

    /// Returns the next envelope. Any other message except a heartbeat fails the test.
    pub(crate) fn envelope(&mut self) -> Envelope {
        match self.news() {
            Received::Envelope(envelope) => envelope,
            other => panic!("{}: an envelope was due, not {other:?}", self.name),
        }
    }

    pub(crate) fn gap(&mut self) -> Gap {
        match self.next() {
            Received::Gap(gap) => gap,
            other => panic!("{}: a gap was due, not {other:?}", self.name),
        }
    }

    /// Reads the envelope that confirms the subscription. Returns its position.
    pub(crate) fn confirmed(&mut self) -> String {
        let first = self.envelope();
        assert_eq!(first.events, Vec::<Value>::new(), "{}: the first is empty", self.name);
        assert_eq!(first.first, offset(&first.position) + 1, "{}: {first:?}", self.name);
        first.position
    }

    /// Reads the next `count` events of one topic. Returns their numbers and the position after them. Offsets must be gapless.
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

    pub(crate) fn send(&mut self, frame: &Frame<'_>) {
        self.socket.send_if_open(frame.bytes());
    }

    pub(crate) fn say(&mut self, command: &str) {
        self.send(&Frame::new(opcode::TEXT, command));
    }

    pub(crate) fn command(&mut self, command: &str) -> Value {
        self.say(command);
        loop {
            match self.next() {
                Received::Answer(answer) => return answer,
                Received::Envelope(_) | Received::Heartbeat => {}
                other => panic!("{}: an answer was due, not {other:?}", self.name),
            }
        }
    }

    /// Records the position of a message. Returns whether it is for the test: a confirmation of a poll or a reload is not.
    fn note(&mut self, received: &Received) -> bool {
        let (topic, position) = match received {
            Received::Envelope(envelope) => (&envelope.topic, &envelope.position),
            Received::Gap(gap) => (&gap.topic, &gap.position),
            Received::TopicEnd(topic, ..) => {
                self.cursors.retain(|(name, _)| name != topic);
                self.query.retain(|pair| pair.strip_prefix("topic=") != Some(topic));
                return true;
            }
            Received::Close(..) | Received::End => {
                self.is_over = true;
                return true;
            }
            _ => return true,
        };
        if self.cursors.is_empty() && self.query.iter().any(|pair| pair.starts_with("query=")) {
            // The server names the topic of a query.
            self.cursors.push((topic.clone(), None));
        }
        let Some((_, cursor)) = self.cursors.iter_mut().find(|(name, _)| name == topic) else {
            // The topic was subscribed to with a command.
            assert_eq!(self.transport, Transport::WebSocket, "{}: {received:?}", self.name);
            return true;
        };
        let due = self.due.iter().position(|name| name == topic);
        if let (Some(due), Received::Envelope(envelope)) = (due, received) {
            let is_confirmation = envelope.events.is_empty() && cursor.as_ref() == Some(position);
            assert!(is_confirmation, "{}: resumed at {cursor:?}, not {received:?}", self.name);
            self.due.remove(due);
            return false;
        }
        if let Some(due) = due {
            self.due.remove(due);
        }
        *cursor = Some(position.clone());
        true
    }

    /// Requests events after the cursors, on the same connection.
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

    /// Reads the response to a poll. Returns a message if it is an end or a refusal.
    fn take_answer(&mut self) -> Option<Received> {
        self.is_polling = false;
        let Some(head) = self.socket.response_head_if_open() else {
            self.is_over = true;
            return Some(Received::End);
        };
        self.take_head(head)
    }

    fn reload(&mut self) -> Option<Received> {
        let target = self.resumed_target(self.transport.query().unwrap_or_default());
        self.socket = self.line.start(&target, &[]);
        let head = self.socket.response_head();
        self.take_head(head)
    }

    fn take_head(&mut self, head: Response) -> Option<Received> {
        self.head = head;
        if self.head.status == 200 {
            self.reader = Reader::new(self.transport, &self.head, &mut self.socket);
            return None;
        }
        self.is_over = true;
        self.head.body = self.socket.body(&self.head);
        let code = self.head.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
        Some(Received::Refused(self.head.status, code))
    }

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

/// Returns the target of the first request, with the parameter for the transport.
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
    // A topic may have a filter of keys.
    let in_query = in_query.map(|text| text.split_once("%3F").map_or(text, |(topic, _)| topic));
    let decoded = |text: &str| match Topic::from_path(&text.replace("%2F", "/")) {
        Ok(topic) => topic.as_str().to_owned(),
        Err(_) => text.to_owned(),
    };
    in_path.into_iter().chain(in_query).map(decoded).collect()
}

fn is_cursor(pair: &str) -> bool {
    ["cursor=", "newest=", "since=", "lastEventId="].iter().any(|start| pair.starts_with(start))
}
