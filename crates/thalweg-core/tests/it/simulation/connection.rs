use std::{collections::VecDeque, io::IoSlice};

use fastrand::Rng;
use thalweg_core::fanout::{
    AtOnce, Budget, ConnectionFraming, Delivered, FeedKey, Feeds as _, Left, ResponseMode, Scratch,
    Sink as _, Subscribe, Subscriber,
};
use thalweg_wire::{
    Close, EndCode, Format, Framing, StartAt, close, format::Compression,
    format::forever_frame_document,
};

use super::{
    acks::Acks,
    chunks::coded,
    column_frames::Made,
    conditions::{Conditions, magnitude},
    deframe::NONCE,
    inflate::{GZIP_HEADER, stored},
    oracle::{Asked, Oracle, Own, Received, Visit},
    published::Published,
    shard::{Feeding, Shard},
    socket::Socket,
    tally::{Situation, Tally},
};

/// The head of a stream of columns.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

/// A subscriber, its socket, and the reader at the other end.
pub(super) struct Connection {
    pub(super) shard: usize,
    pub(super) mode: ResponseMode,
    subscriber: Subscriber,
    socket: Socket,
    oracle: Oracle,
    acks: Acks,
    /// Feeds that are left and not yet reported, with the format of their last frame.
    leaving: Vec<(FeedKey, Format)>,
    /// Bytes that the socket has taken and the peer has not read.
    under_way: VecDeque<Received>,
    /// Bytes read by the peer.
    read: u64,
    pace_bytes: usize,
    stalled_until_us: u64,
    /// Whether an event calls for a visit.
    is_dirty: bool,
    wake_us: Option<u64>,
    own_count: u64,
    visits: u64,
}

pub(super) struct Ask {
    pub(super) shard: usize,
    pub(super) format: Format,
    pub(super) mode: ResponseMode,
    /// After so many bytes a document is loaded again.
    pub(super) document_bytes: Option<u64>,
    pub(super) asked: Vec<Asked>,
}

impl Connection {
    pub(super) fn new(ask: Ask, conditions: &Conditions, rng: &mut Rng) -> Self {
        let Ask { shard, format, mode, document_bytes, asked } = ask;
        let subscribe: Vec<Subscribe> = asked.iter().map(|asked| asked.subscribe).collect();
        let document = document_bytes.map(|bytes| ConnectionFraming::document(NONCE, bytes));
        let framing = document.unwrap_or_else(|| ConnectionFraming::new(format));
        let mut head = if rng.bool() { "HTTP/1.1 200 OK\r\n\r\n" } else { "" }.as_bytes().to_vec();
        let mut head_expected = head.clone();
        let mut first = Vec::new();
        if format.framing() == Framing::ForeverFrame {
            forever_frame_document(NONCE, &mut first);
        }
        format.begin(&first, &mut head);
        let is_gzip =
            format.compression() != Compression::None && format.framing() != Framing::WebSocket;
        let gzip_header: &[u8] = if is_gzip { &GZIP_HEADER } else { &[] };
        head_expected.extend(coded(format, &[gzip_header, &first].concat()));
        if format.has_columns() {
            // Its framing holds it back, and it is read whole.
            head = HEAD.to_vec();
            head_expected.clear();
        }
        let capacity = 1 + magnitude(rng, conditions.socket_bytes_max);
        Self {
            shard,
            subscriber: Subscriber::new(format, &head, &subscribe, mode, framing),
            socket: Socket::new(capacity, rng.fork()),
            oracle: Oracle::new(format, &head_expected, asked, mode, document_bytes),
            mode,
            acks: Acks::draw(rng),
            leaving: Vec::new(),
            under_way: VecDeque::new(),
            read: 0,
            pace_bytes: if rng.bool() { usize::MAX } else { 1 + magnitude(rng, capacity) },
            stalled_until_us: 0,
            is_dirty: true,
            wake_us: None,
            own_count: 0,
            visits: 0,
        }
    }

    pub(super) fn format(&self) -> Format {
        self.subscriber.format()
    }

    pub(super) fn format_of(&self, topic: usize) -> Format {
        self.subscriber.format_of_feed(topic as FeedKey)
    }

    /// The formats of a topic's frames: two, if it is subscribed to again before the last frame is sent.
    pub(super) fn formats_of(&self, topic: usize) -> impl Iterator<Item = Format> {
        let its = self.leaving.iter().filter(move |(feed, _)| *feed as usize == topic);
        its.map(|(_, format)| *format).chain([self.format_of(topic)])
    }

    fn framing(&self) -> Framing {
        self.format().framing()
    }

    pub(super) fn is_in_shared_frame(&self) -> bool {
        self.subscriber.is_in_frame()
    }

    /// Whether it receives bytes of a topic, even if only the rest of a frame.
    pub(super) fn is_told_of(&self, topic: usize) -> bool {
        self.subscriber.feeds().any(|feed| feed as usize == topic)
    }

    pub(super) fn reads(&self, topic: usize) -> bool {
        self.subscriber.reads(topic as FeedKey)
    }

    pub(super) fn wants_a_visit(&self, now_us: u64) -> bool {
        self.is_dirty || self.wake_us.is_some_and(|wake_us| wake_us <= now_us)
    }

    pub(super) fn is_full(&self) -> bool {
        self.socket.is_full
    }

    pub(super) fn is_at_rest(&self) -> bool {
        let is_read = self.under_way.is_empty() && self.acks.is_empty();
        !self.is_dirty && !self.socket.is_full && self.wake_us.is_none() && is_read
    }

    pub(super) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    pub(super) fn stall(&mut self, until_us: u64) {
        self.stalled_until_us = until_us;
    }

    pub(super) fn inject(&mut self, rng: &mut Rng, tally: &mut Tally) {
        match (self.framing(), rng.u8(0..3)) {
            (Framing::WebSocket, 0) => {
                let number = self.own_count as u8;
                self.tell(Own::Pong(number), tally, |_, out| {
                    thalweg_wire::websocket::pong(&[number], out);
                });
            }
            (Framing::WebSocket, 1) => {
                self.answer(tally);
            }
            _ if self.subscriber.is_ending() => {}
            _ => {
                let is_told = self.subscriber.heartbeat();
                let is_due = self.mode != ResponseMode::Once;
                assert!(is_told == is_due || self.format().has_columns());
                if is_told {
                    self.oracle.will_hear(Own::Heartbeat);
                    self.is_dirty = true;
                }
            }
        }
    }

    fn answer(&mut self, tally: &mut Tally) {
        self.own_count += 1;
        let number = self.own_count;
        self.tell(Own::Answer(number), tally, |format, out| {
            let answer = format!(r#"{{"answer":{number}}}"#);
            match (format.framing(), format.compression()) {
                (Framing::WebSocket, _) => {
                    thalweg_wire::websocket::text_header(answer.len(), out);
                    out.extend_from_slice(answer.as_bytes());
                }
                (Framing::Ndjson, Compression::None) => {
                    out.extend(coded(format, format!("{answer}\n").as_bytes()));
                }
                (Framing::Ndjson, Compression::Deflate | Compression::Context { .. }) => {
                    out.extend(coded(format, &stored(format!("{answer}\n").as_bytes())));
                }
                (other, _) => panic!("no answer on {other:?}"),
            }
        });
    }

    fn tell(&mut self, own: Own, tally: &mut Tally, write: impl FnOnce(Format, &mut Vec<u8>)) {
        if !self.subscriber.is_ending() {
            tally.saw_if(Situation::ToldInFrame, self.subscriber.is_in_frame());
            self.subscriber.send_control(write);
            self.oracle.will_hear(own);
            self.is_dirty = true;
        }
    }

    /// Whether it takes commands. Lines could, but do not here.
    pub(super) fn hears_commands(&self) -> bool {
        matches!(self.framing(), Framing::WebSocket | Framing::Ndjson)
            && self.mode == ResponseMode::Endless
            && !self.subscriber.is_ending()
    }

    /// Adds a subscription. `settled_in` is the shard, if where it begins is settled now.
    pub(super) fn subscribe(
        &mut self,
        asked: Asked,
        settled_in: Option<&Shard<impl Feeding>>,
        tally: &mut Tally,
    ) {
        let Subscribe { feed: key, start, .. } = asked.subscribe;
        self.subscriber.subscribe(asked.subscribe);
        let mut expected = asked;
        if let Some(shard) = settled_in {
            self.subscriber.hold(key);
            self.subscriber.settle_start(shard, key);
            if let Some(feed) = shard.feed(key)
                && start == StartAt::Latest
                && !feed.is_state()
            {
                expected.subscribe.start = StartAt::After(feed.position_before(feed.head()));
                tally.count(Situation::Settled, 1);
            }
        }
        self.oracle.subscribe(expected);
        self.answer(tally);
        tally.count(Situation::Subscribed, 1);
    }

    pub(super) fn unsubscribe(&mut self, topic: usize, tally: &mut Tally) {
        let feed = topic as FeedKey;
        let format = self.format_of(topic);
        self.subscriber.unsubscribe(feed);
        assert!(!self.reads(topic));
        self.leaving.push((feed, format));
        tally.saw_if(Situation::LeftInFrame, self.is_told_of(topic));
        tally.count(Situation::Left, 1);
        self.oracle.unsubscribe(feed, self.own_count + 1);
        self.take_left();
        self.answer(tally);
    }

    pub(super) fn end_topic(&mut self, topic: usize) {
        if self.reads(topic) && !self.subscriber.is_ending() {
            self.subscriber.end_topic(topic as FeedKey, EndCode::Deleted);
            self.oracle.end_topic(topic as FeedKey);
            self.is_dirty = true;
        }
    }

    fn take_left(&mut self) {
        if let Some(Left { feed, .. }) = self.subscriber.take_left() {
            match self.leaving.iter().position(|(left, _)| *left == feed) {
                Some(its) => drop(self.leaving.swap_remove(its)),
                None => self.oracle.left_ended(feed),
            }
        }
        assert_eq!(self.subscriber.take_left(), None, "two reports at once");
        assert!(self.leaving.is_empty() || self.subscriber.is_in_frame(), "left, not reported");
        let is_feed = |feed: &FeedKey| *feed != FeedKey::MAX;
        let mut feeds: Vec<FeedKey> = self.subscriber.feeds().filter(is_feed).collect();
        let mut expected: Vec<FeedKey> = self.oracle.feeds().collect();
        expected.extend(self.leaving.iter().map(|(feed, _)| feed));
        feeds.sort_unstable();
        expected.sort_unstable();
        assert_eq!(feeds, expected);
    }

    /// The peer acks a random part of the events that it has read.
    pub(super) fn ack(&mut self, shard: &Shard<impl Feeding>, visit: &Visit<'_>, rng: &mut Rng) {
        for (topic, position) in self.acks.take(visit.published, rng) {
            let feed = topic as FeedKey;
            self.subscriber.ack(shard, feed, position);
            if position.epoch == visit.published[topic].epoch && shard.is_open(topic) {
                self.oracle.ack(feed, position.offset);
            }
            self.is_dirty = true;
        }
    }

    pub(super) fn close(&mut self, close: Close) {
        self.subscriber.close(close);
        self.oracle.will_close(close);
        self.is_dirty = true;
    }

    /// The peer reads a random number of bytes. Returns the frames that it has read whole.
    pub(super) fn drain(&mut self, now_us: u64, rng: &mut Rng) -> Vec<Received> {
        if now_us < self.stalled_until_us {
            return Vec::new();
        }
        let bytes = if self.pace_bytes == usize::MAX {
            usize::MAX
        } else {
            magnitude(rng, self.pace_bytes)
        };
        self.read_up_to(bytes)
    }

    pub(super) fn drain_all(&mut self) -> Vec<Received> {
        self.read_up_to(usize::MAX)
    }

    pub(super) fn relax(&mut self) {
        self.socket.relax();
        self.acks.relax();
    }

    fn read_up_to(&mut self, bytes: usize) -> Vec<Received> {
        self.read += self.socket.drain(bytes) as u64;
        self.is_dirty |= std::mem::take(&mut self.socket.is_full);
        let whole = self.under_way.partition_point(|received| received.end <= self.read);
        let received: Vec<Received> = self.under_way.drain(..whole).collect();
        if self.framing() == Framing::WebSocket {
            self.acks.remember(&received);
        }
        received
    }

    pub(super) fn visit(
        &mut self,
        shard: &mut Shard<impl Feeding>,
        budget: Budget,
        scratch: &mut Scratch,
        visit: &mut Visit<'_>,
    ) -> Delivered {
        self.is_dirty = false;
        self.wake_us = None;
        // With this many control messages a subscription may begin later.
        let is_crowded = self.subscriber.control_bytes() > 48 << 10;
        self.oracle.visit(shard, visit, is_crowded);
        let topic = self.subscriber.feeds().find(|feed| *feed != FeedKey::MAX);
        let topic = topic.filter(|_| self.format().has_columns());
        let is_outlived = topic.is_some_and(|topic| self.is_outlived(shard, topic as usize));
        let made = topic.map(|topic| Made::before(topic as usize, is_outlived, visit, scratch));
        let held = self.held_pages(shard, visit);
        let cut_pages = visit.tally.count_of(Situation::CutPage);
        let delivered = self.send_due(shard, budget, scratch, visit);
        for (feed, from) in scratch.take_backfills() {
            shard.want(feed as usize, from);
        }
        let taken = std::mem::take(&mut self.socket.taken);
        made.into_iter().for_each(|made| made.check(visit, scratch));
        visit.tally.saw_if(Situation::ColumnsOutlived, is_outlived && !taken.is_empty());
        visit.tally.digest(&taken);
        self.under_way.extend(self.oracle.receive(&taken, visit));
        let has_freed = held.iter().any(|(topic, bytes)| shard.pinned_bytes(*topic) < *bytes);
        let is_finished = visit.tally.count_of(Situation::CutPage) > cut_pages;
        visit.tally.saw_if(Situation::PageOutlived, has_freed && is_finished);
        assert!(!self.subscriber.is_in_frame() || self.oracle.is_in_frame());
        match delivered {
            Delivered::CaughtUp(wake_us) => {
                self.oracle.check_is_content(shard, visit, wake_us);
                assert_eq!(self.subscriber.control_bytes(), 0);
                self.wake_us = wake_us;
            }
            Delivered::More => {
                // A frame encoded for it alone is one visit's work.
                let is_costly = !self.format().keeps_events() && !taken.is_empty();
                let is_spent = taken.len() >= budget.socket_bytes;
                let owes_end = self.oracle.owes_end() || self.oracle.may_owe_end();
                let is_page = self.oracle.owes_page(!taken.is_empty());
                assert!(is_costly || is_spent || owes_end || is_page);
                self.is_dirty = true;
            }
            Delivered::Full => assert!(self.socket.is_full),
            Delivered::Closed => {
                self.oracle.check_is_closed();
                assert_eq!(self.subscriber.close_code(), self.oracle.closed);
            }
            Delivered::Gone => assert!(self.socket.is_gone),
        }
        if !matches!(delivered, Delivered::Closed | Delivered::Gone) {
            // Confirmations that it waits for are its control messages.
            if self.subscriber.control_bytes() == 0 {
                self.oracle.check_goes_on();
            }
            if self.has_begun() {
                self.oracle.check_has_begun();
            }
            if let Some(lag) =
                self.oracle.lag(shard).filter(|_| self.subscriber.control_bytes() == 0)
            {
                assert_eq!(self.subscriber.lag(shard), lag);
            }
        }
        self.take_left();
        delivered
    }

    /// The memory of the keyed topics that it may be within a page of, besides their state, tails and kept
    /// pages.
    fn held_pages(&self, shard: &Shard<impl Feeding>, visit: &Visit<'_>) -> Vec<(usize, usize)> {
        let topics = self.subscriber.feeds().filter(|feed| *feed != FeedKey::MAX);
        let topics = topics.map(|feed| feed as usize).filter(|_| self.is_in_shared_frame());
        let keyed = topics.filter(|topic| visit.published[*topic].keyed().is_some());
        keyed.map(|topic| (topic, shard.pinned_bytes(topic))).collect()
    }

    /// Sends the due bytes, every second time at once if possible.
    fn send_due(
        &mut self,
        shard: &mut Shard<impl Feeding>,
        budget: Budget,
        scratch: &mut Scratch,
        visit: &mut Visit<'_>,
    ) -> Delivered {
        self.visits += 1;
        let now_us = visit.now_us;
        if self.visits.is_multiple_of(2)
            && let Some(AtOnce { bytes, step }) = self.subscriber.due_at_once(shard, now_us)
        {
            let sent = self.socket.send(&[IoSlice::new(bytes)]);
            let delivered = self.subscriber.sent_at_once(shard, step, sent, now_us);
            visit.tally.count(Situation::AtOnce, 1);
            let is_of_several = self.subscriber.feeds().count() > 1;
            visit.tally.saw_if(Situation::AtOnceOfSeveral, is_of_several);
            visit.tally.saw_if(Situation::CutAtOnce, delivered == Delivered::Full);
            return delivered;
        }
        self.subscriber.deliver(shard, &mut self.socket, now_us, budget, scratch)
    }

    /// Whether it is within a frame of a batch that has left the history.
    fn is_outlived(&self, shard: &Shard<impl Feeding>, topic: usize) -> bool {
        let first = shard.retained(topic).map(|retained| retained.first());
        self.is_in_shared_frame() && first.zip(self.oracle.next()).is_some_and(|(a, b)| b < a)
    }

    pub(super) fn ended_as(&self) -> Situation {
        match self.subscriber.close_code() {
            None => Situation::PollAnswered,
            Some(code) if code == close::RELOAD.code => Situation::Reload,
            Some(code) if code == close::ENDED.code => Situation::LastTopicEnd,
            Some(_) => Situation::Closed,
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.subscriber.has_begun()
    }

    pub(super) fn vanish(&mut self) {
        self.socket.is_gone = true;
    }

    pub(super) fn leave(mut self, shards: &mut [Shard<impl Feeding>]) {
        self.subscriber.leave(&mut shards[self.shard]);
    }

    pub(super) fn check_has_everything(
        &self,
        shards: &[Shard<impl Feeding>],
        published: &[Published],
    ) {
        self.oracle.check_has_everything(&shards[self.shard], published);
    }
}
