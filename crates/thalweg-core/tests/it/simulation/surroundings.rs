use fastrand::Rng;
use thalweg_core::fanout::Scratch;

use super::{
    conditions::Conditions,
    oracle::Visit,
    published::Published,
    shard::{Feeding, Followed, Shard},
    tally::{Situation, Tally},
};

/// The parts of a world that are not clients.
pub(super) struct Surroundings<F> {
    pub(super) now_us: u64,
    pub(super) rng: Rng,
    pub(super) conditions: Conditions,
    pub(super) published: Vec<Published>,
    pub(super) shards: Vec<Shard<F>>,
    pub(super) tally: Tally,
    scratch: Scratch,
    is_traced: bool,
}

impl<F: Feeding> Surroundings<F> {
    pub(super) fn new(seed: u64, is_traced: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut conditions = Conditions::draw(&mut rng);
        F::limit(&mut conditions);
        let topics = 0..conditions.topics;
        let around = Self {
            now_us: rng.u64(0..1 << 40),
            published: topics.map(|topic| Published::new(topic, &conditions, &mut rng)).collect(),
            shards: (0..conditions.shards).map(|_| Shard::new(&conditions)).collect(),
            rng,
            conditions,
            tally: Tally::default(),
            scratch: Scratch::default(),
            is_traced,
        };
        around.say(|| format!("{:?}", around.conditions));
        around
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.is_traced {
            println!("{:>12} {}", self.now_us, what());
        }
    }

    pub(super) fn visit_to(&mut self, shard: usize) -> (&mut Shard<F>, &mut Scratch, Visit<'_>) {
        let Self { now_us, published, shards, tally, scratch, .. } = self;
        (&mut shards[shard], scratch, Visit { now_us: *now_us, published, tally })
    }

    /// The owner of a keyed topic posts what a shard lacks, or a part of it.
    pub(super) fn follow(&mut self, shard: usize, topic: usize) -> Followed {
        let (homes, others) = self.shards.split_at_mut(1);
        let home = homes[0].topic(topic).expect("home to all topics");
        let followed = others[shard - 1].follow(topic, home, &mut self.rng);
        self.tally.saw_if(Situation::StatePart, followed == Followed::State);
        self.tally.saw_if(Situation::FollowerOutdated, followed == Followed::Outdated);
        self.say(|| format!("shard {shard} gets of topic {topic}: {followed:?}"));
        followed
    }

    /// Another shard begins to follow a topic, from the history's first event on or from the head.
    pub(super) fn open_copy(&mut self, shard: usize, topic: usize) {
        if self.published[topic].keyed().is_some() {
            self.shards[shard].open_follower(topic, &self.published[topic], &self.conditions);
            return self.say(|| format!("shard {shard} follows topic {topic}"));
        }
        let (homes, others) = self.shards.split_at_mut(1);
        let home = homes[0].topic(topic).expect("home to all topics");
        let elsewhere = self.published[topic].coverage().filter(|_| self.rng.bool());
        let next = match elsewhere {
            Some(next) => next,
            None if self.rng.bool() => home.head(),
            None => home.first_retained(),
        };
        others[shard - 1].open(topic, &self.published[topic], next, &self.conditions);
        if let Some(next) = elsewhere {
            others[shard - 1].begin_at(topic, next);
        }
        for batch in home.batches_from(next) {
            others[shard - 1].post(topic, batch);
        }
        self.say(|| format!("shard {shard} opens topic {topic} at {next}"));
    }
}
