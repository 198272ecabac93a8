use thalweg_core::stream::Batch;
use thalweg_wire::Format;

use super::{
    client::Client,
    conditions::{SIGNALR_FORMATS, any_format, magnitude},
    published::Published,
    shard::{Feeding, Followed, Shard},
    surroundings::Surroundings,
    tally::{Situation, Tally},
};

/// The most bytes of all pages of a keyed topic.
const PAGES_BYTES_MAX: usize = 16 << 20;

/// The steps after which a world without faults must be at rest.
const STEPS_TO_REST_MAX: u32 = 1000;

pub(super) fn run<F: Feeding>(seed: u64, is_traced: bool) -> Tally {
    let mut world = World::<F>::new(seed, is_traced);
    for _ in 0..world.around.conditions.steps {
        world.step();
    }
    world.come_to_rest();
    world.end()
}

struct World<F> {
    around: Surroundings<F>,
    clients: Vec<Client>,
}

impl<F: Feeding> World<F> {
    fn new(seed: u64, is_traced: bool) -> Self {
        let mut around = Surroundings::new(seed, is_traced);
        let Surroundings { shards, published, conditions, rng, .. } = &mut around;
        for (topic, published) in published.iter().enumerate() {
            shards[0].open(topic, published, 1, conditions);
        }
        let client = |name| Client::new(name, conditions.topics, rng);
        let clients = (0..conditions.clients).map(client).collect();
        Self { around, clients }
    }

    fn step(&mut self) {
        let rng = &mut self.around.rng;
        self.around.now_us += match rng.u8(..) {
            0..2 => rng.u64(0..3_000_000),
            2..20 => rng.u64(0..60_000),
            _ => rng.u64(0..2000),
        };
        self.publish();
        self.seal();
        for shard in 1..self.around.shards.len() {
            self.read_along(shard);
        }
        for shard in 0..self.around.shards.len() {
            self.tend(shard);
            self.backfill(shard);
        }
        for client in &mut self.clients {
            client.live(&mut self.around);
        }
        self.check_memory();
    }

    fn publish(&mut self) {
        let Surroundings { published, conditions, rng, now_us, .. } = &mut self.around;
        for published in published {
            if rng.u8(0..3) == 0 {
                published.publish(conditions, *now_us, rng);
            }
        }
    }

    /// Each topic's owner shard takes a turn.
    fn seal(&mut self) {
        let Surroundings { published, shards, rng, conditions, now_us, .. } = &mut self.around;
        let now_us = *now_us;
        let mut sealed = Vec::new();
        for (topic, published) in published.iter_mut().enumerate() {
            for batch in published.seal(conditions.batch, now_us, rng) {
                shards.iter_mut().for_each(|shard| shard.post(topic, &batch));
                sealed.push((topic, batch.first()..batch.end()));
            }
        }
        self.around.say(|| format!("sealed {sealed:?}"));
        for topic in 0..self.around.conditions.topics {
            self.absorb(0, topic);
        }
    }

    /// Batches reach a follower, sooner or later.
    fn read_along(&mut self, shard: usize) {
        for topic in 0..self.around.conditions.topics {
            let Surroundings { shards, published, conditions, rng, tally, .. } = &mut self.around;
            if !shards[shard].is_open(topic) && rng.u8(0..10) == 0 {
                self.around.open_copy(shard, topic);
                self.absorb(shard, topic);
                self.wake(shard, topic);
                continue;
            }
            if conditions.holes && rng.u8(0..10) == 0 {
                tally.count(Situation::Hole, shards[shard].lose(topic, rng));
            }
            let is_absorbed = rng.u8(0..3) == 0;
            let late = if conditions.holes { 20 } else { 3 };
            if published[topic].keyed().is_some() && rng.u8(0..late) == 0 {
                self.follow(shard, topic);
            }
            if is_absorbed {
                self.absorb(shard, topic);
            }
        }
    }

    /// A shard gets what it lacks of a keyed topic. If that would take more than it can tell its readers,
    /// both begin again.
    fn follow(&mut self, shard: usize, topic: usize) {
        if self.around.shards[shard].is_open(topic)
            && self.around.follow(shard, topic) == Followed::Outdated
        {
            for client in &mut self.clients {
                if client.reader(shard, topic).is_some() {
                    client.leave(&mut self.around);
                }
            }
            self.around.open_copy(shard, topic);
        }
    }

    fn absorb(&mut self, shard: usize, topic: usize) {
        let Surroundings { shards, rng, conditions, tally, now_us, .. } = &mut self.around;
        let in_time = !conditions.hurries || rng.bool();
        tally.count(Situation::BatchInState, shards[shard].batches_in_state(topic));
        if shards[shard].absorb(topic, *now_us, in_time) {
            self.wake(shard, topic);
        }
    }

    fn backfill(&mut self, shard: usize) {
        for topic in 0..self.around.conditions.topics {
            let Surroundings { shards, published, rng, tally, now_us, .. } = &mut self.around;
            if rng.u8(0..60) == 0 {
                published[topic].expire(rng);
            }
            if rng.u8(0..60) == 0 {
                published[topic].lose(rng);
            }
            if rng.bool() && shards[shard].backfill(topic, &published[topic], *now_us, rng) {
                tally.count(Situation::Backfilled, 1);
                self.wake(shard, topic);
            }
        }
    }

    fn wake(&mut self, shard: usize, topic: usize) {
        for client in &mut self.clients {
            if let Some(connection) = client.reader(shard, topic) {
                connection.mark_dirty();
            }
        }
    }

    /// Periodic work: time trims the history, hot tails come and go.
    fn tend(&mut self, shard: usize) {
        let around = &mut self.around;
        if around.rng.u8(0..15) == 0 {
            around.say(|| format!("shard {shard} sweeps"));
            around.shards[shard].sweep(around.now_us);
        }
        let topic = around.rng.usize(0..around.conditions.topics);
        if around.rng.u8(0..20) == 0 {
            let bytes = magnitude(&mut around.rng, around.conditions.history.bytes_max);
            let is_shed = around.shards[shard].trim_bytes(topic, bytes);
            around.tally.saw_if(Situation::Shed, is_shed);
        }
        let any = any_format(&mut around.rng);
        let used = self.formats_of(shard, topic);
        self.around.tally.saw_if(Situation::Mixed, used.len() >= 3);
        // Formats come and go beside those in use.
        let format = match self.around.rng.choice(&used) {
            Some(format) if self.around.rng.bool() => *format,
            _ => any,
        };
        self.around.shards[shard].tend_tail(topic, format, &used);
    }

    fn formats_of(&mut self, shard: usize, topic: usize) -> Vec<Format> {
        let readers = self.clients.iter_mut().filter_map(|client| client.reader(shard, topic));
        let mut formats: Vec<Format> = Vec::new();
        for format in readers.flat_map(|connection| connection.formats_of(topic)) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }

    /// Hot tails are bounded, and only partly sent frames hold memory beyond the history.
    fn check_memory(&mut self) {
        let conditions = &self.around.conditions;
        // An event may exceed a batch's bound, and a frame a segment's. A vector may be twice as large as its
        // content, and a tail is two vectors.
        let batch_bytes = 2 * (conditions.batch.bytes_max + conditions.event_bytes_max + 100);
        // Frames of columns: as much as the history or a tail, and those made last.
        let column_bytes_max =
            conditions.history.bytes_max.max(conditions.tail_bytes) + conditions.tail_bytes / 16;
        let tail_bytes_max = (Format::all().count() + SIGNALR_FORMATS)
            * 2
            * 2
            * (conditions.tail_bytes + batch_bytes + 1500)
            + column_bytes_max;
        // A frame that refers to earlier ones is kept beside its batch.
        let pin_bytes_max =
            2 * batch_bytes + 4 * conditions.batch.events_max + size_of::<Batch>() + 64;
        // Frames of keyed topics, which may escape every character.
        let page_bytes = 2 * (conditions.tail_bytes / 16 + conditions.event_bytes_max) + 1500;
        for shard in 0..conditions.shards {
            for topic in 0..conditions.topics {
                let is_keyed = self.around.published[topic].keyed().is_some();
                let (page_bytes, pages_bytes) =
                    if is_keyed { (page_bytes, PAGES_BYTES_MAX) } else { (0, 0) };
                let readers = self.clients.iter_mut().filter_map(|c| c.reader(shard, topic));
                let in_frame = readers.filter(|reader| reader.is_in_shared_frame()).count();
                let pinned_bytes = self.around.shards[shard].pinned_bytes(topic);
                let columns = if in_frame > 0 { column_bytes_max } else { 0 };
                let pin_bytes_max = pin_bytes_max + page_bytes;
                assert!(pinned_bytes <= in_frame * pin_bytes_max + columns, "pins leak");
                self.around.tally.saw_if(Situation::Pinned, pinned_bytes > 0);
                let tail_bytes = self.around.shards[shard].tail_bytes(topic);
                assert!(tail_bytes <= tail_bytes_max + pages_bytes);
            }
        }
    }

    fn come_to_rest(&mut self) {
        self.around.say(|| "no more faults".into());
        for shard in 1..self.around.shards.len() {
            for topic in 0..self.around.conditions.topics {
                if !self.around.shards[shard].is_open(topic) {
                    self.around.open_copy(shard, topic);
                    self.wake(shard, topic);
                }
            }
        }
        for client in &mut self.clients {
            client.calm(&mut self.around);
        }
        for _ in 0..STEPS_TO_REST_MAX {
            self.around.now_us += 1 + magnitude(&mut self.around.rng, 30_000) as u64;
            self.seal();
            for shard in 1..self.around.shards.len() {
                for topic in 0..self.around.conditions.topics {
                    if self.around.published[topic].keyed().is_some() {
                        self.follow(shard, topic);
                    }
                    self.absorb(shard, topic);
                }
            }
            (0..self.around.shards.len()).for_each(|shard| self.backfill(shard));
            let mut is_at_rest = self.around.published.iter().all(|p| p.due_us().is_none());
            for client in &mut self.clients {
                is_at_rest &= !client.settle(&mut self.around);
            }
            is_at_rest &= !self.around.shards.iter().any(Shard::is_backfilling);
            is_at_rest &= self.has_followed();
            if is_at_rest {
                return;
            }
        }
        panic!("does not come to rest");
    }

    fn has_followed(&self) -> bool {
        let (homes, others) = self.around.shards.split_at(1);
        (0..self.around.conditions.topics).all(|topic| {
            let home = homes[0].topic(topic).expect("home to all topics");
            others.iter().all(|shard| shard.has_all_of(topic, home))
        })
    }

    /// All clients have everything. After all have left, no memory is held.
    fn end(mut self) -> Tally {
        for client in &mut self.clients {
            if let Some(connection) = &client.connection {
                connection.check_has_everything(&self.around.shards, &self.around.published);
            }
            client.leave(&mut self.around);
        }
        let topics = 0..self.around.conditions.topics;
        let Surroundings { shards, published, .. } = &mut self.around;
        for shard in shards {
            shard.sweep(u64::MAX);
            for topic in topics.clone() {
                shard.check_keys(topic, &published[topic]);
                shard.clear(topic);
                assert_eq!((shard.pinned_bytes(topic), shard.tail_bytes(topic)), (0, 0));
            }
        }
        assert!(!self.around.published.iter().any(Published::is_held), "a batch is leaked");
        self.around.tally
    }
}
