use fastrand::Rng;
use thalweg_server::fanout::{Budget, Delivered, Policy, Subscribe};
use thalweg_wire::{Epoch, Framing, Position, StartAt, close};

use super::{
    conditions::magnitude, connection::Connection, oracle::Heard, tally::Situation,
    world::Surroundings,
};

/// Who connects, reads, goes away, and comes back where it was.
pub(super) struct Client {
    name: usize,
    topics: Vec<usize>,
    /// Where it is, for each topic of the world.
    seen: Vec<Option<Position>>,
    pub(super) connection: Option<Connection>,
    back_us: u64,
}

impl Client {
    pub(super) fn new(name: usize, topics: usize, rng: &mut Rng) -> Self {
        let mut chosen: Vec<_> = (0..topics).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(rng.usize(1..=topics));
        Self { name, topics: chosen, seen: vec![None; topics], connection: None, back_us: 0 }
    }

    /// Its connection, if that is to `shard` and reads `topic`.
    pub(super) fn reader(&mut self, shard: usize, topic: usize) -> Option<&mut Connection> {
        self.connection
            .as_mut()
            .filter(|connection| connection.shard == shard && self.topics.contains(&topic))
    }

    /// One step of its life, with all that may befall it.
    pub(super) fn live(&mut self, around: &mut Surroundings) {
        if self.connection.is_none() && self.back_us <= around.now_us {
            self.connect(around);
        }
        let Some(connection) = &mut self.connection else { return };
        let now_us = around.now_us;
        match around.rng.u8(..) {
            0..3 => return self.disconnect(around),
            3..20 => connection.inject(&mut around.rng),
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

    /// The peer reads, the server writes: if each of them feels like it.
    fn turn(&mut self, around: &mut Surroundings) {
        let Some(connection) = &mut self.connection else { return };
        let heard = connection.drain(around.now_us, &mut around.rng);
        let is_patient = connection.is_full() && around.rng.u8(0..8) > 0;
        let is_wanted = connection.wants_a_visit(around.now_us) && !is_patient;
        self.remember(heard);
        if is_wanted {
            self.visit(around);
        }
    }

    /// One step without faults; whether anything is left to do.
    pub(super) fn settle(&mut self, around: &mut Surroundings) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let heard = connection.drain_all();
        let is_wanted = connection.wants_a_visit(around.now_us);
        self.remember(heard);
        if is_wanted {
            self.visit(around);
        }
        self.connection.as_ref().is_some_and(|connection| !connection.is_at_rest())
    }

    pub(super) fn connect(&mut self, around: &mut Surroundings) {
        let shard = around.rng.usize(0..around.shards.len());
        let framing = Framing::ALL[around.rng.usize(0..Framing::ALL.len())];
        let topics = self.topics.iter();
        let subscribe: Vec<_> = topics.map(|topic| self.subscribe(*topic, around)).collect();
        around.say(|| format!("client {} to shard {shard}, {framing:?}: {subscribe:?}", self.name));
        for topic in &self.topics {
            // Or later: then the framing has no hot tail when it is first read.
            if around.rng.u8(0..4) > 0 {
                around.shards[shard].tend_tail(*topic, framing, true);
            }
        }
        let Surroundings { conditions, rng, .. } = around;
        self.connection = Some(Connection::new(shard, framing, &subscribe, conditions, rng));
    }

    fn subscribe(&self, topic: usize, around: &mut Surroundings) -> Subscribe {
        let Surroundings { published, rng, .. } = around;
        let published = &published[topic];
        let at = |epoch, offset| StartAt::After(Position { epoch, offset });
        let start = match rng.u8(0..12) {
            0 => StartAt::Latest,
            1 => StartAt::Earliest,
            2 => at(published.epoch, rng.u64(0..published.end())),
            3 => at(published.epoch, published.end() + magnitude(rng, 40) as u64),
            4 => {
                let other = Epoch::new(published.epoch.get() ^ 1).or(Epoch::new(2));
                at(other.expect("not 0"), rng.u64(0..published.end()))
            }
            _ => match self.seen[topic] {
                Some(position) => StartAt::After(position),
                None => StartAt::Earliest,
            },
        };
        Subscribe {
            feed: topic as u32,
            start,
            policy: [Policy::Skip, Policy::Latest, Policy::Close][rng.usize(0..3)],
            interval_us: if rng.u8(0..4) > 0 { 0 } else { magnitude(rng, 50_000) as u64 },
        }
    }

    fn remember(&mut self, heard: Vec<Heard>) {
        for Heard { topic, position, .. } in heard {
            self.seen[topic] = Some(position);
        }
    }

    fn visit(&mut self, around: &mut Surroundings) {
        let Some(connection) = &mut self.connection else { return };
        let socket_bytes = 1 + magnitude(&mut around.rng, around.conditions.visit_bytes_max);
        let (shard, scratch, mut visit) = around.visit_to(connection.shard);
        let delivered = connection.visit(shard, Budget { socket_bytes }, scratch, &mut visit);
        around.say(|| format!("client {}: {delivered:?}", self.name));
        if let Delivered::Closed | Delivered::Gone = delivered {
            around.tally.saw_if(Situation::Closed, delivered == Delivered::Closed);
            self.leave(around);
        }
    }

    /// Goes away without a word, at once or with the next send.
    fn disconnect(&mut self, around: &mut Surroundings) {
        let Some(connection) = &mut self.connection else { return };
        if around.rng.bool() {
            let heard = connection.drain_all();
            self.remember(heard);
        } else {
            connection.vanish();
            self.visit(around);
        }
        self.leave(around);
    }

    pub(super) fn leave(&mut self, around: &mut Surroundings) {
        let Some(connection) = self.connection.take() else { return };
        around.say(|| format!("client {} leaves, has seen {:?}", self.name, self.seen));
        around.tally.saw_if(Situation::TornOff, connection.is_in_shared_frame());
        connection.leave(&mut around.shards);
        self.back_us = around.now_us + magnitude(&mut around.rng, 200_000) as u64;
    }
}
