use std::collections::VecDeque;

use thalweg_server::fanout::Subscribe;
use thalweg_wire::{
    Close, Framing, Position, close,
    incoming::{CloseFields, Incoming, Kind},
};

use super::{
    deframe::{Frame, deframe},
    published::Published,
    reading::Reading,
    shard::Shard,
    tally::{Situation, Tally},
};

/// One connection's other end: reads what its socket took, and knows what may
/// come next.
pub(super) struct Oracle {
    framing: Framing,
    /// What is left of the response head.
    head: Vec<u8>,
    readings: Vec<Reading>,
    /// Frames injected and not yet heard, with how much was taken before.
    own: VecDeque<(u64, Own)>,
    asked_to_close: Option<Close>,
    is_closed: bool,
    /// The beginning of a frame.
    partial: Vec<u8>,
    begun_us: u64,
    /// Bytes taken so far.
    taken: u64,
}

/// A frame for one subscriber alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Heartbeat,
    Answer(u64),
    Pong(u8),
}

/// A position heard, and the byte of the connection that completed it.
pub(super) struct Heard {
    pub(super) end: u64,
    pub(super) topic: usize,
    pub(super) position: Position,
}

/// The circumstances of a visit.
pub(super) struct Visit<'a> {
    pub(super) now_us: u64,
    pub(super) published: &'a [Published],
    pub(super) tally: &'a mut Tally,
}

impl Oracle {
    pub(super) fn new(framing: Framing, head: &[u8], subscribe: &[Subscribe]) -> Self {
        Self {
            framing,
            head: head.to_vec(),
            readings: subscribe.iter().copied().map(Reading::new).collect(),
            own: VecDeque::new(),
            asked_to_close: None,
            is_closed: false,
            partial: Vec::new(),
            begun_us: 0,
            taken: 0,
        }
    }

    pub(super) fn will_hear(&mut self, own: Own) {
        self.own.push_back((self.taken, own));
    }

    pub(super) fn will_close(&mut self, close: Close) {
        self.asked_to_close.get_or_insert(close);
    }

    /// The subscriber is about to be visited.
    pub(super) fn visit(&mut self, shard: &Shard, visit: &mut Visit<'_>) {
        for reading in &mut self.readings {
            let topic = reading.subscribe.feed as usize;
            if let Some(retained) = shard.retained(topic) {
                reading.visit(retained, visit.published[topic].epoch);
                let Some(next) = reading.next() else { continue };
                visit.tally.saw_if(Situation::MidBatch, retained.is_within_batch(next));
                visit.tally.saw_if(Situation::Ahead, next > retained.head);
            }
        }
    }

    /// The socket took `bytes`; which positions that completes.
    pub(super) fn hear(&mut self, bytes: &[u8], visit: &mut Visit<'_>) -> Vec<Heard> {
        let of_head = bytes.len().min(self.head.len());
        assert!(self.head.drain(..of_head).eq(bytes[..of_head].iter().copied()), "response head");
        if self.partial.is_empty() {
            self.begun_us = visit.now_us;
        }
        let mut unread = std::mem::take(&mut self.partial);
        let first = self.taken + of_head as u64 - unread.len() as u64;
        unread.extend_from_slice(&bytes[of_head..]);
        let mut heard = Vec::new();
        let mut read = 0;
        while read < unread.len() {
            assert!(!self.is_closed, "bytes after the close");
            let Some((frame, len)) = deframe(self.framing, &unread[read..]) else { break };
            visit.tally.saw_if(Situation::Partial, self.begun_us < visit.now_us);
            let begun = first + read as u64;
            read += len;
            if let Some((topic, position)) = self.frame(&frame, begun, visit) {
                heard.push(Heard { end: first + read as u64, topic, position });
            }
            self.begun_us = visit.now_us;
        }
        unread.drain(..read);
        self.partial = unread;
        self.taken += bytes.len() as u64;
        heard
    }

    fn frame(
        &mut self,
        frame: &Frame<'_>,
        begun: u64,
        visit: &mut Visit<'_>,
    ) -> Option<(usize, Position)> {
        let (event, json, id) = match frame {
            Frame::Message { event, json, id } => (*event, *json, *id),
            Frame::Pong(payload) => {
                assert_eq!(payload.len(), 1);
                self.own(Own::Pong(payload[0]));
                return None;
            }
            Frame::Close { code, reason } => {
                self.close(*code, reason);
                return None;
            }
        };
        let message = Incoming::parse(json).expect("a message");
        let kind = message.kind();
        let event_expected = match kind {
            Kind::Gap(_) => Some("gap"),
            Kind::Heartbeat => Some("heartbeat"),
            Kind::Close(_) => Some("close"),
            _ => None,
        };
        let has_events = matches!(self.framing, Framing::Sse | Framing::SseBare);
        assert_eq!(event, event_expected.filter(|_| has_events));
        let has_id = self.framing == Framing::Sse && message.position.is_some();
        assert_eq!(id, message.position.filter(|_| has_id));
        match kind {
            Kind::Heartbeat => self.own(Own::Heartbeat),
            Kind::Answer(answer) => self.own(Own::Answer(answer.parse().expect("a number"))),
            Kind::Close(CloseFields { code, reason, reconnect }) => {
                assert_ne!(self.framing, Framing::WebSocket);
                assert_eq!(reconnect, close::for_code(code).reconnect);
                self.close(code, reason);
            }
            Kind::Events(_) | Kind::Gap(_) => return Some(self.data(&message, json, begun, visit)),
            Kind::Error(_) | Kind::Unknown => panic!("an unexpected message {json}"),
        }
        None
    }

    /// A message about a topic.
    fn data(
        &mut self,
        message: &Incoming<'_>,
        json: &str,
        begun: u64,
        visit: &mut Visit<'_>,
    ) -> (usize, Position) {
        let topic = message.topic.expect("a topic");
        let position: Position = message.position.expect("a position").parse().expect("valid");
        let published = visit.published;
        let is_its = |reading: &&mut Reading| {
            published[reading.subscribe.feed as usize].topic.as_str() == topic
        };
        let reading = self.readings.iter_mut().find(is_its).expect("a topic asked for");
        let topic = reading.subscribe.feed as usize;
        let published = &published[topic];
        match message.kind() {
            Kind::Gap(gap) => reading.gap(position, gap, published, visit.tally),
            Kind::Events(events) if events.is_empty() => {
                let next = reading.confirmation(position, published);
                assert!(json.ends_with(&format!(r#""first":{next},"events":[]}}"#)), "{json}");
                visit.tally.count(Situation::Confirmation, 1);
            }
            Kind::Events(events) => {
                let overtaken = self.own.front().is_some_and(|(taken, _)| *taken <= begun);
                assert!(!overtaken, "{:?} was overtaken by data", self.own);
                reading.events(position, &events, published, self.begun_us, visit.now_us);
                visit.tally.count(Situation::Event, events.len() as u64);
                visit.tally.saw_if(Situation::LongFrame, json.len() > 0xffff);
            }
            other => panic!("{other:?} is not about a topic"),
        }
        (topic, position)
    }

    fn own(&mut self, own: Own) {
        let expected = self.own.pop_front().map(|(_, own)| own);
        assert_eq!(Some(own), expected);
    }

    fn close(&mut self, code: u16, reason: &str) {
        let is_slow = self.readings.iter().any(Reading::may_be_refused);
        let expected = [self.asked_to_close, is_slow.then_some(close::SLOW)];
        let is_expected = |close: Close| close.code == code && close.reason == reason;
        assert!(expected.into_iter().flatten().any(is_expected), "closed with {code} {reason:?}");
        assert!(self.own.is_empty(), "closed before {:?}", self.own);
        self.is_closed = true;
    }

    /// That the connection is at rest and owes nothing that is due.
    pub(super) fn check_is_content(&self, shard: &Shard, now_us: u64, wake_us: Option<u64>) {
        assert!(self.partial.is_empty(), "at rest within a frame");
        assert!(self.head.is_empty() && self.own.is_empty(), "at rest with {:?} unsent", self.own);
        assert!(!self.is_closed && self.asked_to_close.is_none(), "at rest, not closed");
        for reading in &self.readings {
            if shard.is_open(reading.subscribe.feed as usize) {
                reading.check_is_content(now_us, wake_us);
            }
        }
    }

    /// That everything said was heard, a close last.
    pub(super) fn check_is_closed(&self) {
        assert!(self.is_closed && self.partial.is_empty(), "closed without saying so");
    }

    /// That every subscription is at its log's head.
    pub(super) fn check_has_everything(&self, shard: &Shard) {
        for reading in &self.readings {
            let topic = reading.subscribe.feed as usize;
            let head = shard.retained(topic).expect("a log").head;
            let next = reading.next().expect("begun");
            assert!(next >= head, "topic {topic}: at {next}, the head is at {head}");
        }
    }

    /// Whether a shared or own frame is partly taken.
    pub(super) fn is_in_frame(&self) -> bool {
        !self.partial.is_empty()
    }
}
