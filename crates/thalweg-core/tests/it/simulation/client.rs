use std::rc::Rc;

use fastrand::Rng;
use thalweg_core::{
    fanout::{Budget, Delivered, Policy, ResponseMode, Subscribe, Terms},
    stream::FeedKind,
};
use thalweg_wire::{
    Epoch, Format, Framing, Position, StartAt, close, format::Compression, signalr::StreamId,
};

use super::{
    conditions::{any_format, is_signalr, magnitude},
    connection::{Ask, Connection},
    keyed_reading::KeyedState,
    oracle::{Asked, Received},
    shard::Feeding,
    surroundings::Surroundings,
    tally::Situation,
};

/// A client that connects, reads, disconnects, and resumes.
pub(super) struct Client {
    name: usize,
    topics: Vec<usize>,
    /// Its position in each topic of the world.
    seen: Vec<Option<StartAt>>,
    /// Its state of each keyed topic at that position. `None`: the whole state.
    had: Vec<Option<Rc<KeyedState>>>,
    pub(super) connection: Option<Connection>,
    format: Option<Format>,
    back_us: u64,
    wait_until_us: u64,
    /// Whether faults and random choices have ended.
    is_calm: bool,
}

impl Client {
    pub(super) fn new(name: usize, topics: usize, rng: &mut Rng) -> Self {
        let mut chosen: Vec<_> = (0..topics).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(rng.usize(1..=topics));
        Self {
            name,
            topics: chosen,
            seen: vec![None; topics],
            had: vec![None; topics],
            connection: None,
            format: None,
            back_us: 0,
            wait_until_us: 0,
            is_calm: false,
        }
    }

    /// Returns its connection, if that is to `shard` and reads `topic`.
    pub(super) fn reader(&mut self, shard: usize, topic: usize) -> Option<&mut Connection> {
        self.connection
            .as_mut()
            .filter(|connection| connection.shard == shard && connection.is_told_of(topic))
    }

    /// Takes one step, with all possible faults.
    pub(super) fn live(&mut self, around: &mut Surroundings<impl Feeding>) {
        if self.connection.is_none() && self.back_us <= around.now_us {
            self.connect(around);
        }
        let Some(connection) = &mut self.connection else { return };
        let now_us = around.now_us;
        match around.rng.u8(..) {
            0..3 => return self.disconnect(around),
            3..20 => connection.inject(&mut around.rng, &mut around.tally),
            24..56 if connection.hears_commands() => self.command(around),
            56..60 => {
                let topic = self.topics[around.rng.usize(0..self.topics.len())];
                connection.end_topic(topic);
            }
            20..23 => connection.stall(now_us + magnitude(&mut around.rng, 2_000_000) as u64),
            23 => {
                let close = [close::DRAINING, close::DONE][around.rng.usize(0..2)];
                connection.close(close);
            }
            _ => {}
        }
        for _ in 0..around.rng.u32(1..4) {
            self.turn(around);
        }
    }

    /// The peer reads and the server writes, at random.
    fn turn(&mut self, around: &mut Surroundings<impl Feeding>) {
        let Some(connection) = &mut self.connection else { return };
        let received = connection.drain(around.now_us, &mut around.rng);
        Self::ack(connection, around);
        let is_poll = connection.mode == ResponseMode::Once && self.wait_until_us <= around.now_us;
        if is_poll && connection.has_begun() {
            let mut all = received;
            all.extend(connection.drain_all());
            self.remember(all);
            around.tally.count(Situation::PollUnanswered, 1);
            let is_confirmed = self.topics.iter().all(|topic| self.seen[*topic].is_some());
            assert!(is_confirmed, "a poll that says nothing");
            return self.leave(around);
        }
        let is_patient = connection.is_full() && around.rng.u8(0..8) > 0;
        let is_wanted = connection.wants_a_visit(around.now_us) && !is_patient;
        self.remember(received);
        if is_wanted {
            self.visit(around);
        }
    }

    fn ack(connection: &mut Connection, around: &mut Surroundings<impl Feeding>) {
        let mut rng = around.rng.fork();
        let (shard, _, visit) = around.visit_to(connection.shard);
        connection.ack(shard, &visit, &mut rng);
    }

    /// Leaves a topic and perhaps subscribes to it again at once, or subscribes to one more.
    fn command(&mut self, around: &mut Surroundings<impl Feeding>) {
        let Some(connection) = &mut self.connection else { return };
        let topic = self.topics[around.rng.usize(0..self.topics.len())];
        let is_left = connection.reads(topic);
        if is_left {
            connection.unsubscribe(topic, &mut around.tally);
            if around.rng.bool() {
                return;
            }
        }
        let is_resubscribed = is_left && connection.is_told_of(topic);
        around.tally.saw_if(Situation::Resubscribed, is_resubscribed);
        let format = connection.format();
        let asked = self.ask(topic, format, around);
        around.say(|| format!("client {}: {:?}, left {is_left}", self.name, asked.subscribe));
        if let Some(connection) = &mut self.connection {
            let settled_in = around.rng.bool().then(|| &around.shards[connection.shard]);
            connection.subscribe(asked, settled_in, &mut around.tally);
        }
    }

    pub(super) fn calm(&mut self, around: &mut Surroundings<impl Feeding>) {
        self.is_calm = true;
        match &mut self.connection {
            Some(connection) => connection.relax(),
            None => self.connect(around),
        }
    }

    /// Takes one step without faults. Returns whether anything is left to do.
    pub(super) fn settle(&mut self, around: &mut Surroundings<impl Feeding>) -> bool {
        if self.connection.is_none() {
            self.connect(around);
        }
        let Some(connection) = &mut self.connection else { return false };
        let received = connection.drain_all();
        Self::ack(connection, around);
        let is_wanted = connection.wants_a_visit(around.now_us);
        self.remember(received);
        if is_wanted {
            self.visit(around);
        }
        !self.connection.as_ref().is_some_and(Connection::is_at_rest)
    }

    pub(super) fn connect(&mut self, around: &mut Surroundings<impl Feeding>) {
        let shard = around.rng.usize(0..around.shards.len());
        let mut format = Self::format(around);
        let topics =
            if format.has_columns() { self.topic_of_rows(around) } else { self.topics.clone() };
        if topics.is_empty() {
            format = Format::NDJSON;
        }
        let topics = if topics.is_empty() { self.topics.clone() } else { topics };
        let (mode, document_bytes) = self.response_mode(format, around);
        // A WebSocket may name its topics later.
        let is_websocket = format.framing() == Framing::WebSocket;
        let is_mute = is_websocket && !self.is_calm && around.rng.u8(0..8) == 0;
        let topics = topics.iter().filter(|_| !is_mute);
        let asked: Vec<_> = topics.map(|topic| self.ask(*topic, format, around)).collect();
        let subscribe: Vec<_> = asked.iter().map(|asked| asked.subscribe).collect();
        around.say(|| {
            format!("client {} to {shard}, {format:?}, {mode:?}: {subscribe:?}", self.name)
        });
        for topic in &self.topics {
            // If it opens later, the format has no hot tail when it is first read.
            if around.rng.u8(0..4) > 0 {
                let own = subscribe.iter().find(|subscribe| subscribe.feed as usize == *topic);
                let format = format.for_stream(own.and_then(|subscribe| subscribe.terms.stream));
                around.shards[shard].tend_tail(*topic, format, &[format]);
            }
        }
        let is_changed = self.format.replace(format).is_some_and(|before| before != format);
        around.tally.saw_if(Situation::Changed, is_changed);
        let Surroundings { conditions, rng, .. } = around;
        let ask = Ask { shard, format, mode, document_bytes, asked };
        let mut connection = Connection::new(ask, conditions, rng);
        if self.is_calm {
            connection.relax();
        }
        self.connection = Some(connection);
    }

    fn topic_of_rows(&self, around: &mut Surroundings<impl Feeding>) -> Vec<usize> {
        let has_rows = around.conditions.rows;
        let is_log = |topic: &&usize| has_rows && around.published[**topic].kind() == FeedKind::Log;
        let topics: Vec<usize> = self.topics.iter().filter(is_log).copied().collect();
        around.rng.choice(topics).into_iter().collect()
    }

    fn format(around: &mut Surroundings<impl Feeding>) -> Format {
        loop {
            let format = any_format(&mut around.rng);
            if around.conditions.compresses || format.compression() == Compression::None {
                return format;
            }
        }
    }

    fn response_mode(
        &mut self,
        format: Format,
        around: &mut Surroundings<impl Feeding>,
    ) -> (ResponseMode, Option<u64>) {
        match format.framing() {
            Framing::Ndjson if format.without_patches() == Format::NDJSON && around.rng.bool() => {
                let wait_us = magnitude(&mut around.rng, 100_000) as u64;
                self.wait_until_us = around.now_us + wait_us;
                (ResponseMode::Once, None)
            }
            Framing::ForeverFrame => {
                let bytes = 1 + magnitude(&mut around.rng, 20_000) as u64;
                let bytes_left = if self.is_calm { 1 << 40 } else { bytes };
                (ResponseMode::Endless, Some(bytes_left))
            }
            _ => (ResponseMode::Endless, None),
        }
    }

    /// Subscribes at its position, with its state, or elsewhere.
    fn ask(&self, topic: usize, format: Format, around: &mut Surroundings<impl Feeding>) -> Asked {
        let Surroundings { published, rng, .. } = around;
        let published = &published[topic];
        let at = |epoch, offset| StartAt::After(Position { epoch, offset });
        let whim = if self.is_calm { u8::MAX } else { rng.u8(0..12) };
        let start = match whim {
            0 => StartAt::Latest,
            1 => StartAt::Earliest,
            2 => at(published.epoch, rng.u64(0..published.end())),
            3 => at(published.epoch, published.end() + magnitude(rng, 40) as u64),
            4 => {
                let other = Epoch::new(published.epoch.get() ^ 1).or(Epoch::new(2));
                at(other.expect("not 0"), rng.u64(0..published.end()))
            }
            5 => self.seen[topic].map_or(StartAt::Latest, |seen| match seen {
                // No event is in between, so it is the same place.
                StartAt::After(position) if position.epoch == published.epoch => {
                    let next = published.event_from(position.offset + 1);
                    let last = next.map_or(position.offset, |next| next - 1);
                    at(position.epoch, rng.u64(position.offset..=last))
                }
                seen => seen,
            }),
            _ => self.seen[topic].unwrap_or(StartAt::Earliest),
        };
        let policies = [Policy::Skip, Policy::Latest, Policy::Close];
        let has_window = format.framing() == Framing::WebSocket && rng.bool();
        let is_stream = is_signalr(format) && rng.bool();
        let mut terms = Terms {
            // A refused request would be refused again.
            policy: policies[if self.is_calm { 0 } else { rng.usize(0..3) }],
            interval_us: if rng.u8(0..4) > 0 { 0 } else { magnitude(rng, 50_000) as u64 },
            window_bytes: has_window.then(|| magnitude(rng, 5000) as u64),
            stream: is_stream.then(|| stream_id(topic)),
        };
        if published.keyed().is_some() && rng.u8(0..3) == 0 {
            terms.interval_us = 10_000 + magnitude(rng, 40_000) as u64;
        }
        let had = self.had[topic].clone().filter(|_| self.seen[topic] == Some(start));
        Asked { subscribe: Subscribe { feed: topic as u32, start, terms }, had }
    }

    fn remember(&mut self, received: Vec<Received>) {
        for Received { topic, resume_at, state, .. } in received {
            self.seen[topic] = Some(resume_at);
            self.had[topic] = state;
        }
    }

    fn visit(&mut self, around: &mut Surroundings<impl Feeding>) {
        let Some(connection) = &mut self.connection else { return };
        let socket_bytes = 1 + magnitude(&mut around.rng, around.conditions.visit_bytes_max);
        let (shard, scratch, mut visit) = around.visit_to(connection.shard);
        let delivered = connection.visit(shard, Budget { socket_bytes }, scratch, &mut visit);
        around.say(|| format!("client {}: {delivered:?}", self.name));
        if let Delivered::Closed | Delivered::Gone = delivered {
            if delivered == Delivered::Closed {
                around.tally.count(connection.ended_as(), 1);
                // After an orderly end the bytes in flight mostly arrive.
                if self.is_calm || around.rng.u8(0..4) > 0 {
                    let received = connection.drain_all();
                    self.remember(received);
                }
            }
            self.leave(around);
        }
    }

    /// Disconnects without a close, at once or with the next send.
    fn disconnect(&mut self, around: &mut Surroundings<impl Feeding>) {
        let Some(connection) = &mut self.connection else { return };
        if around.rng.bool() {
            let received = connection.drain_all();
            self.remember(received);
        } else {
            connection.vanish();
            self.visit(around);
        }
        self.leave(around);
    }

    pub(super) fn leave(&mut self, around: &mut Surroundings<impl Feeding>) {
        let Some(connection) = self.connection.take() else { return };
        around.say(|| format!("client {} leaves, has seen {:?}", self.name, self.seen));
        around.tally.saw_if(Situation::TornOff, connection.is_in_shared_frame());
        connection.leave(&mut around.shards);
        self.back_us = around.now_us + magnitude(&mut around.rng, 200_000) as u64;
    }
}

/// The stream of a topic, for clients that begin it as one. Topics from the sixteenth on have ids that share no frames.
fn stream_id(topic: usize) -> StreamId {
    let id = serde_json::value::to_raw_value(&topic.to_string()).expect("a string");
    StreamId::parse(&id).expect("a number")
}
