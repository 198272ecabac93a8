//! The frames that one connection may receive next.

mod keyed;
mod rest;

use std::{collections::VecDeque, rc::Rc};

use thalweg_core::{
    fanout::{FeedKey, ResponseMode, Subscribe},
    stream::FeedKind,
};
use thalweg_wire::{
    Close, EndCode, Format, Framing, Offset, Position, StartAt, close,
    format::Compression,
    incoming::{CloseFields, Incoming, Kind},
    signalr::StreamId,
};

use super::{
    chunks::{Chunk, chunk, is_chunked},
    columns::ColumnsReader,
    deframe::{Deframed, Frame, deframe},
    ids::{AT_ONCE, Ids},
    keyed_reading::KeyedState,
    published::Published,
    reading::{Content, Reading, Sent, TopicEnd},
    shard::{Feeding, Shard},
    tally::{Situation, Tally},
};

/// One connection's other end: reads the bytes that its socket took, and knows which frames may come next.
pub(super) struct Oracle {
    format: Format,
    head: Vec<u8>,
    columns: ColumnsReader,
    mode: ResponseMode,
    document_bytes: Option<u64>,
    readings: Vec<Reading>,
    /// Control frames that were sent and not received, with the bytes taken before.
    own: VecDeque<(u64, Own)>,
    /// Topics that are left when the answer of this number is received.
    leaving: VecDeque<(u64, FeedKey)>,
    asked_to_close: Option<Close>,
    pub(super) closed: Option<u16>,
    /// Whether it is one-way, and its last topic has ended.
    has_no_topic: bool,
    has_ended: bool,
    /// Whether it has received more than confirmations.
    is_told: bool,
    partial: Vec<u8>,
    begun_us: u64,
    taken: u64,
    ids: Ids,
    /// The newest inflated text, as much as frames may refer to.
    context: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    Heartbeat,
    Answer(u64),
    Pong(u8),
}

struct Framed {
    /// After so many bytes the peer knows the message.
    told: usize,
    len: usize,
    is_compressed: bool,
}

/// The position at which to resume a topic, and the byte of the connection that completed it.
pub(super) struct Received {
    pub(super) end: u64,
    pub(super) topic: usize,
    pub(super) resume_at: StartAt,
    /// The client's state of a keyed topic.
    pub(super) state: Option<Rc<KeyedState>>,
}

/// A subscription, and the state of a keyed topic that its client has.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) subscribe: Subscribe,
    pub(super) had: Option<Rc<KeyedState>>,
}

pub(super) struct Visit<'a> {
    pub(super) now_us: u64,
    pub(super) published: &'a [Published],
    pub(super) tally: &'a mut Tally,
}

impl Oracle {
    pub(super) fn new(
        format: Format,
        head: &[u8],
        asked: Vec<Asked>,
        mode: ResponseMode,
        document_bytes: Option<u64>,
    ) -> Self {
        let subscribe: Vec<Subscribe> = asked.iter().map(|asked| asked.subscribe).collect();
        Self {
            format,
            head: head.to_vec(),
            columns: ColumnsReader::new(&subscribe),
            mode,
            document_bytes,
            readings: asked.into_iter().map(|it| Reading::new(it.subscribe, it.had)).collect(),
            own: VecDeque::new(),
            leaving: VecDeque::new(),
            asked_to_close: None,
            closed: None,
            has_no_topic: false,
            has_ended: false,
            is_told: false,
            partial: Vec::new(),
            begun_us: 0,
            taken: 0,
            ids: Ids::new(is_chunked(format)),
            context: Vec::new(),
        }
    }

    pub(super) fn will_hear(&mut self, own: Own) {
        self.own.push_back((self.taken, own));
    }

    pub(super) fn will_close(&mut self, close: Close) {
        self.asked_to_close.get_or_insert(close);
    }

    pub(super) fn subscribe(&mut self, Asked { subscribe, had }: Asked) {
        self.readings.push(Reading::new(subscribe, had));
    }

    /// No frame of `feed` is begun from now on, and none comes after the answer of that number.
    pub(super) fn unsubscribe(&mut self, feed: FeedKey, answer: u64) {
        let taken = self.taken;
        let mut its = self.readings.iter_mut().filter(|reading| reading.subscribe.feed == feed);
        let reading = its.find(|reading| reading.goes_on()).expect("a topic that it has");
        reading.left_at = Some(taken);
        self.leaving.push_back((answer, feed));
    }

    /// A topic has ended: its end comes after all of it.
    pub(super) fn end_topic(&mut self, feed: FeedKey) {
        let mut its = self.readings.iter_mut().filter(|reading| reading.subscribe.feed == feed);
        its.find(|reading| reading.goes_on()).expect("a topic that it has").will_end();
    }

    pub(super) fn left_ended(&mut self, feed: FeedKey) {
        let mut its = self.readings.iter_mut().filter(|reading| reading.subscribe.feed == feed);
        if let Some(reading) = its.find(|reading| reading.goes_on()) {
            // Missing events are checked when its end is received, because the frame before may be in flight.
            let has_reason = reading.end == TopicEnd::Due || !reading.allows_gaps();
            assert!(has_reason, "left {feed} without a reason");
            reading.end = TopicEnd::Left;
        }
    }

    pub(super) fn owes_end(&self) -> bool {
        self.readings.iter().any(Reading::is_owed_end)
    }

    /// Whether a subscription may end because events are missing. A visit ends one.
    pub(super) fn may_owe_end(&self) -> bool {
        self.readings.iter().any(|reading| reading.goes_on() && reading.may_be_refused())
    }

    pub(super) fn ack(&mut self, feed: FeedKey, offset: u64) {
        let is_in_frame = self.is_in_frame();
        let its = self.readings.iter_mut().filter(|reading| reading.subscribe.feed == feed);
        for reading in its.filter(|reading| reading.goes_on()) {
            reading.window.iter_mut().for_each(|window| window.ack(offset, is_in_frame));
        }
    }

    /// A visit to the subscriber begins. `is_crowded`: its control messages may be sent first.
    pub(super) fn visit(
        &mut self,
        shard: &Shard<impl Feeding>,
        visit: &mut Visit<'_>,
        is_crowded: bool,
    ) {
        let has_trailer = self.format.has_trailer();
        let may_wait =
            is_crowded || has_trailer && (self.is_in_frame() || self.readings.len() > AT_ONCE);
        for reading in self.readings.iter_mut().filter(|reading| reading.end != TopicEnd::Received)
        {
            let topic = reading.subscribe.feed as usize;
            if let Some(retained) = shard.retained(topic) {
                reading.visit(retained, &visit.published[topic], may_wait);
                let Some(next) = reading.next() else { continue };
                visit.tally.saw_if(Situation::MidBatch, retained.is_within_batch(next));
                let event = visit.published[topic].event_from(next);
                let is_in_hole = event.is_some_and(|event| event > next);
                let is_after_event = visit.published[topic].event_before(next) + 1 == next;
                visit.tally.saw_if(Situation::InHole, is_in_hole && !is_after_event);
                visit.tally.saw_if(Situation::Ahead, next > retained.head);
            }
        }
    }

    /// The socket took `bytes`. Returns the positions that they complete.
    pub(super) fn receive(&mut self, bytes: &[u8], visit: &mut Visit<'_>) -> Vec<Received> {
        let of_head = bytes.len().min(self.head.len());
        assert!(self.head.drain(..of_head).eq(bytes[..of_head].iter().copied()), "response head");
        if self.partial.is_empty() {
            self.begun_us = visit.now_us;
        }
        let mut unread = std::mem::take(&mut self.partial);
        let first = self.taken + of_head as u64 - unread.len() as u64;
        unread.extend_from_slice(&bytes[of_head..]);
        let mut received = Vec::new();
        let mut read = 0;
        while read < unread.len() {
            assert!(!self.has_ended, "bytes after the end");
            let Some((frames, deframed)) = self.deframe(&unread[read..], visit) else { break };
            let Framed { told, len, is_compressed } = deframed;
            let is_partial = self.begun_us < visit.now_us;
            visit.tally.saw_if(Situation::Partial, is_partial);
            visit.tally.saw_if(Situation::Compressed, is_compressed);
            visit.tally.saw_if(Situation::CutCompressed, is_compressed && is_partial);
            let is_chunked = is_chunked(self.format);
            visit.tally.saw_if(Situation::Chunked, is_chunked);
            visit.tally.saw_if(Situation::CutChunk, is_chunked && is_partial);
            let begun = first + read as u64;
            let end = begun + told as u64;
            read += len;
            let (begun_us, now_us) = (self.begun_us, visit.now_us);
            let sent = Sent { begun, begun_us, bytes: len as u64, now_us, is_compressed };
            for frame in &frames {
                let resumed = self.frame(frame, sent, visit).into_iter();
                received.extend(resumed.map(|(topic, resume_at)| {
                    let mut all = self.readings.iter();
                    let its = all.rfind(|reading| reading.subscribe.feed as usize == topic);
                    let state = its.and_then(|reading| reading.state_at(resume_at));
                    Received { end, topic, resume_at, state }
                }));
            }
            self.begun_us = visit.now_us;
            self.readings.iter_mut().for_each(Reading::between_frames);
        }
        unread.drain(..read);
        self.partial = unread;
        self.taken += bytes.len() as u64;
        if self.format.has_trailer() && self.has_shared_part() {
            visit.tally.count(Situation::CutEnding, 1);
            self.readings.iter_mut().for_each(|reading| reading.has_shared_part(visit.now_us));
        }
        received
    }

    pub(super) fn next(&self) -> Option<Offset> {
        self.readings.first().and_then(Reading::next)
    }

    fn deframe(&mut self, bytes: &[u8], visit: &mut Visit<'_>) -> Option<(Vec<Frame>, Framed)> {
        if !self.format.has_columns() {
            let deframed = deframe(self.format, bytes, &self.context)?;
            let Deframed { frame, told, len, is_compressed, stream, text, refers } = deframed;
            if let Compression::Context(window) = self.format.compression() {
                visit.tally.saw_if(Situation::InContext, refers);
                self.context.extend(text);
                let older = self.context.len().saturating_sub(window.bytes());
                self.context.drain(..older);
            }
            self.check_stream(&frame, stream, visit.published);
            return Some((vec![frame], Framed { told, len, is_compressed }));
        }
        let next = self.next();
        let published = &visit.published[self.columns.topic];
        let framed = |len| Framed { told: len, len, is_compressed: false };
        if self.columns.awaits_head() {
            let part = self.columns.head(bytes, published, self.asked_to_close, visit.tally)?;
            return Some((part.frames, framed(part.len)));
        }
        if !is_chunked(self.format) {
            let part = self.columns.part(bytes, published, next, visit.tally)?;
            return Some((part.frames, framed(part.len)));
        }
        let Chunk { data, len, .. } = chunk(bytes)?;
        if data.is_empty() {
            return Some((vec![Frame::End], framed(len)));
        }
        let part = self.columns.part(data, published, next, visit.tally).expect("a whole part");
        assert_eq!(part.len, data.len(), "a chunk of more than a part");
        Some((part.frames, framed(len)))
    }

    /// Checks that a message about a topic is an item of the stream that the topic is subscribed to as, if it is one.
    fn check_stream(&self, frame: &Frame, stream: Option<u32>, published: &[Published]) {
        let Frame::Message { json, .. } = frame else { return };
        let message = Incoming::parse(json).expect("a message");
        let Some(topic) = message.topic.as_deref() else { return };
        let is_its = |reading: &Reading| {
            let Subscribe { feed, terms, .. } = reading.subscribe;
            let id = terms.stream.map(StreamId::number);
            published[feed as usize].topic.as_str() == topic && id == stream
        };
        assert!(self.readings.iter().any(is_its), "{stream:?} is no stream of {topic}");
    }

    fn has_shared_part(&self) -> bool {
        match is_chunked(self.format) {
            true => !self.partial.is_empty() && chunk(&self.partial).is_some(),
            false => self.partial.contains(&b'\n'),
        }
    }

    /// Returns where a frame says to resume.
    fn frame(&mut self, frame: &Frame, sent: Sent, visit: &mut Visit<'_>) -> Vec<(usize, StartAt)> {
        let is_last = matches!(frame, Frame::End);
        assert_eq!(self.closed.is_some(), is_last, "the last chunk comes after the close");
        let (event, json, id) = match frame {
            Frame::End => {
                self.has_ended = true;
                visit.tally.count(Situation::LastChunk, 1);
                return Vec::new();
            }
            Frame::Message { event, json, id } => (event.as_deref(), json, id.as_deref()),
            Frame::Pong(payload) => {
                assert_eq!(payload.len(), 1);
                self.own(Own::Pong(payload[0]));
                return Vec::new();
            }
            Frame::Close { code, reason } => {
                self.close(*code, reason, sent.begun, visit);
                return Vec::new();
            }
        };
        let message = Incoming::parse(json).expect("a message");
        let kind = message.kind();
        let has_any = match &kind {
            Kind::Events(events) => !events.is_empty(),
            Kind::Patch(..) => true,
            _ => false,
        };
        assert!(has_any || !sent.is_compressed, "compressed for one: {json}");
        let event_expected = match kind {
            Kind::Gap(_) => Some("gap"),
            Kind::End(_) => Some("end"),
            Kind::Heartbeat => Some("heartbeat"),
            Kind::Close(_) => Some("close"),
            _ => None,
        };
        let has_events = matches!(self.format.framing(), Framing::Sse | Framing::SseMany);
        assert_eq!(event, event_expected.filter(|_| has_events));
        if self.format.framing() == Framing::SseMany {
            self.ids.check(&kind, id, sent.bytes, visit.tally);
        } else {
            let has_id = self.format.framing() == Framing::Sse && message.position.is_some();
            assert_eq!(id, message.position.as_deref().filter(|_| has_id));
        }
        match kind {
            Kind::Heartbeat => self.own(Own::Heartbeat),
            Kind::Answer(answer) => self.answer(answer.parse().expect("a number")),
            Kind::Close(CloseFields { code, reason, reconnect }) => {
                assert_ne!(self.format.framing(), Framing::WebSocket);
                assert_eq!(reconnect, close::for_code(code).reconnect);
                self.close(code, &reason, sent.begun, visit);
            }
            Kind::Events(_) | Kind::Patch(..) | Kind::Gap(_) | Kind::End(_) => {
                let (topic, position) = self.data(&message, json, sent, visit);
                return match (self.format.framing(), id) {
                    (Framing::SseMany, Some(id)) => self.ids(id, visit),
                    // A client that is disconnected now gets it again.
                    (Framing::SseMany, None) => Vec::new(),
                    _ => vec![(topic, StartAt::After(position))],
                };
            }
            Kind::Error(_) | Kind::Unknown => panic!("an unexpected message {json}"),
        }
        Vec::new()
    }

    /// The cursors of all topics, which are those of a client that has received all earlier frames.
    fn ids(&self, ids: &str, visit: &mut Visit<'_>) -> Vec<(usize, StartAt)> {
        let ids: Vec<StartAt> = ids.split(',').map(|id| id.parse().expect("a cursor")).collect();
        visit.tally.saw_if(Situation::Ids, ids.len() > 1);
        assert_eq!(ids.len(), self.readings.len(), "a cursor for each topic");
        let named = self.readings.iter().zip(ids).map(|(reading, id)| {
            let topic = reading.subscribe.feed as usize;
            if reading.end == TopicEnd::Received {
                let kept = reading.lost_at.map_or(StartAt::Latest, StartAt::After);
                assert_eq!(id, kept, "of topic {topic}, which has ended");
                return None;
            }
            // It is left before its end is received.
            let is_left = reading.end == TopicEnd::Left && id == StartAt::Latest;
            let is_right = is_left || reading.resumes_at(id, &visit.published[topic]);
            assert!(is_right, "{id:?} of topic {topic}");
            (!is_left).then_some((topic, id))
        });
        named.flatten().collect()
    }

    fn data(
        &mut self,
        message: &Incoming<'_>,
        json: &str,
        sent: Sent,
        visit: &mut Visit<'_>,
    ) -> (usize, Position) {
        let topic = message.topic.as_deref().expect("a topic");
        let position = message.position.as_deref().expect("a position");
        let position: Position = position.parse().expect("valid");
        let published = visit.published;
        let is_its = |reading: &&mut Reading| {
            published[reading.subscribe.feed as usize].topic.as_str() == topic
        };
        let index = self.readings.iter_mut().position(|mut it| is_its(&mut it));
        let index = index.expect("a topic asked for");
        let reading = &mut self.readings[index];
        assert_ne!(reading.end, TopicEnd::Received, "{topic}: {json} after its end");
        let topic = reading.subscribe.feed as usize;
        let published = &published[topic];
        let has_keys = matches!(message.kind(), Kind::Events(_)) && published.keyed().is_some();
        assert_eq!(message.keys.is_some(), has_keys, "{topic}: {json}");
        match message.kind() {
            Kind::End(end) => {
                let mut codes = EndCode::ALL.into_iter();
                let code = codes.find(|code| code.name() == &*end.code).expect("a code");
                assert_eq!(&*end.reason, code.reason());
                if code == EndCode::Deleted {
                    reading.topic_end(position, published);
                    visit.tally.count(Situation::TopicEnd, 1);
                } else {
                    reading.lost_end(position, code, published);
                    visit.tally.count(Situation::Refused, 1);
                }
                self.is_told = true;
                // Ids name all requested topics.
                if self.format.framing() != Framing::SseMany {
                    self.readings.remove(index);
                }
                let has_received = |reading: &Reading| reading.end == TopicEnd::Received;
                let is_one_way = self.format.framing() != Framing::WebSocket;
                self.has_no_topic = is_one_way && self.readings.iter().all(has_received);
            }
            Kind::Gap(gap) => {
                self.is_told = true;
                reading.gap(position, gap, published, visit.tally);
            }
            Kind::Events(events) if events.is_empty() && reading.next().is_none() => {
                let next = reading.confirmation(position, message.until, published, visit.tally);
                let until =
                    message.until.map_or(String::new(), |until| format!(r#","until":{until}"#));
                let own = match published.kind() {
                    FeedKind::Log => String::new(),
                    FeedKind::Value => format!(r#","previous":{}"#, position.offset),
                    FeedKind::Keyed => format!(r#"{until},"keys":[]"#),
                };
                let end = format!(r#""first":{next}{own},"events":[]}}"#);
                assert!(json.ends_with(&end), "{json}");
                visit.tally.count(Situation::Confirmation, 1);
            }
            Kind::Events(events) if published.keyed().is_some() => {
                self.keyed(index, message, &events, sent, visit);
                visit.tally.saw_if(Situation::LongFrame, json.len() > 0xffff);
            }
            Kind::Events(events) if message.previous.is_some() => {
                let [(offset, document)] = &*events else { panic!("{json} is no version") };
                assert_eq!(*offset, position.offset);
                let content = Content::Document(document);
                self.version(topic, message, &content, json, sent, visit);
            }
            Kind::Patch(offset, operations) => {
                assert!(self.format.takes_patches(), "{json} was not asked for");
                assert_eq!(offset, position.offset);
                let content = Content::Patch(operations);
                self.version(topic, message, &content, json, sent, visit);
            }
            Kind::Events(events) => {
                let overtaken = self.own.front().is_some_and(|(taken, _)| *taken <= sent.begun);
                assert!(!overtaken, "{:?} was overtaken by data", self.own);
                reading.events(position, message.after, &events, published, sent);
                self.is_told = true;
                visit.tally.count(Situation::Event, events.len() as u64);
                visit.tally.saw_if(Situation::AfterHole, message.after.is_some());
                visit.tally.saw_if(Situation::LongFrame, json.len() > 0xffff);
                let is_plain =
                    self.format.compression() != Compression::None && !sent.is_compressed;
                visit.tally.saw_if(Situation::NotSmaller, is_plain);
            }
            other => panic!("{other:?} is not about a topic"),
        }
        (topic, position)
    }

    fn version(
        &mut self,
        topic: usize,
        message: &Incoming<'_>,
        content: &Content<'_>,
        json: &str,
        sent: Sent,
        visit: &mut Visit<'_>,
    ) {
        let overtaken = self.own.front().is_some_and(|(taken, _)| *taken <= sent.begun);
        assert!(!overtaken, "{:?} was overtaken by data", self.own);
        let published = &visit.published[topic];
        let position = message.position.as_deref().expect("a position").parse().expect("valid");
        let previous = message.previous.expect("of a version");
        let is_its = |reading: &&mut Reading| reading.subscribe.feed as usize == topic;
        let reading = self.readings.iter_mut().find(is_its).expect("a topic asked for");
        reading.version(position, previous, content, published, sent, visit.tally);
        self.is_told = true;
        visit.tally.saw_if(Situation::CutVersion, sent.begun_us < sent.now_us);
        visit.tally.saw_if(Situation::LongFrame, json.len() > 0xffff);
    }

    fn own(&mut self, own: Own) {
        let expected = self.own.pop_front().map(|(_, own)| own);
        assert_eq!(Some(own), expected);
    }

    fn answer(&mut self, number: u64) {
        self.own(Own::Answer(number));
        if self.leaving.front().is_some_and(|(answer, _)| *answer == number)
            && let Some((_, feed)) = self.leaving.pop_front()
        {
            let is_its =
                |reading: &Reading| reading.subscribe.feed == feed && reading.left_at.is_some();
            let left = self.readings.iter().position(is_its).expect("a topic that is left");
            self.readings.remove(left);
        }
    }

    fn close(&mut self, code: u16, reason: &str, begun: u64, visit: &mut Visit<'_>) {
        let columns = self.readings.first().filter(|_| self.format.has_columns());
        let is_lost = columns.is_some_and(Reading::may_be_lost);
        let is_changed = columns.is_some_and(|reading| {
            !visit.published[reading.subscribe.feed as usize].has_same_columns()
        });
        if columns.is_some() && code == close::RELOAD.code {
            visit.tally.count(Situation::ColumnsLost, is_lost.into());
            visit.tally.count(Situation::ColumnsChanged, (!is_lost).into());
        }
        let is_long = self.is_spent(begun);
        let expected = [
            self.asked_to_close,
            (is_long || is_lost || is_changed).then_some(close::RELOAD),
            self.has_no_topic.then_some(close::ENDED),
        ];
        let is_expected = |close: Close| close.code == code && close.reason == reason;
        assert!(expected.into_iter().flatten().any(is_expected), "closed with {code} {reason:?}");
        assert!(self.own.is_empty(), "closed before {:?}", self.own);
        self.closed = Some(code);
        self.has_ended = !is_chunked(self.format) || self.columns.is_refused;
    }

    pub(super) fn feeds(&self) -> impl Iterator<Item = FeedKey> {
        let kept = self.readings.iter().filter(|reading| reading.goes_on());
        kept.map(|reading| reading.subscribe.feed)
    }

    pub(super) fn is_in_frame(&self) -> bool {
        !self.partial.is_empty() && !self.awaits_head()
    }

    fn awaits_head(&self) -> bool {
        self.format.has_columns() && self.columns.awaits_head()
    }
}
