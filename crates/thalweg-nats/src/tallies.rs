//! The messages of keyed topics since their states were stored, which say when the next state is to be stored. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thalweg_wire::Topic;
use tokio::time::Instant;

/// A state is stored when its topic has had messages of this many bytes since the last time, and of [`STATE_FACTOR`] times its
/// bytes: writing states then costs less than the messages do, and reading one reads little more than the state.
const LOG_BYTES: u64 = 512 << 10;
const STATE_FACTOR: u64 = 2;

/// A message counts as this many bytes more than it has.
const MESSAGE_BYTES: u64 = 512;

/// The wait before a state is stored is between this and twice as long, so that one server of several stores it.
const WAIT: Duration = Duration::from_secs(2);

/// The wait after a state could not be stored.
const RETRY_WAIT: Duration = Duration::from_secs(30);

/// Maximum number of topics that are counted.
const TOPICS_MAX: usize = 100_000;

/// The least time between two looks at all topics for those with few messages.
const FORGET_INTERVAL: Duration = Duration::from_secs(1);

/// Counts of the topics of a stream.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    topics: HashMap<Topic, Tally>,
    /// Topics whose states are to be stored, and when.
    due: BTreeSet<(Instant, Topic)>,
    /// When topics with few messages were last forgotten.
    forgotten: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    log_bytes: u64,
    state_bytes: u64,
    is_due: bool,
}

impl Tally {
    fn is_large(&self) -> bool {
        self.log_bytes >= LOG_BYTES.max(STATE_FACTOR * self.state_bytes)
    }
}

impl Tallies {
    /// Counts a message of a topic, which was delivered, or read because the topic's state was needed.
    pub(crate) fn has_message(&mut self, topic: &Topic, bytes: usize, now: Instant) {
        if self.topics.len() >= TOPICS_MAX && !self.topics.contains_key(topic) {
            if self.forgotten.is_none_or(|at| now >= at + FORGET_INTERVAL) {
                self.forgotten = Some(now);
                // Topics with few messages can wait.
                self.topics.retain(|_, tally| tally.is_due || tally.log_bytes >= LOG_BYTES / 8);
            }
            if self.topics.len() >= TOPICS_MAX {
                return;
            }
        }
        let tally = self.topics.entry(topic.clone()).or_default();
        tally.log_bytes += bytes as u64 + MESSAGE_BYTES;
        if tally.is_large() && !std::mem::replace(&mut tally.is_due, true) {
            let wait = WAIT.mul_f64(1.0 + fastrand::f64());
            self.due.insert((now + wait, topic.clone()));
        }
    }

    /// Notes that a state of this size was stored, by any server.
    pub(crate) fn has_state(&mut self, topic: &Topic, state_bytes: u64) {
        let known = self.topics.get(topic).map(|tally| tally.is_due);
        if known.is_some() || self.topics.len() < TOPICS_MAX {
            let is_due = known.unwrap_or_default();
            self.topics.insert(topic.clone(), Tally { log_bytes: 0, state_bytes, is_due });
        }
    }

    /// Forgets a topic.
    pub(crate) fn remove(&mut self, topic: &Topic) {
        self.topics.remove(topic);
    }

    /// Takes a topic whose state is to be stored now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Topic> {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let (_, topic) = self.due.pop_first()?;
            let Some(tally) = self.topics.get_mut(&topic) else { continue };
            // Another server may have stored the state since. Until the state is stored, or that has failed, the topic is not due again,
            // although its messages are read.
            if tally.is_large() {
                return Some(topic);
            }
            tally.is_due = false;
        }
        None
    }

    /// Notes that the state of a topic that was due is stored.
    pub(crate) fn stored(&mut self, topic: &Topic) {
        if let Some(tally) = self.topics.get_mut(topic) {
            tally.is_due = false;
        }
    }

    /// Tries to store the state of a topic that was due again later.
    pub(crate) fn failed(&mut self, topic: &Topic, now: Instant) {
        if let Some(tally) = self.topics.get_mut(topic) {
            tally.is_due = true;
            self.due.insert((now + RETRY_WAIT, topic.clone()));
        }
    }
}

/// Locks the counts of a stream.
pub(crate) fn lock(tallies: &Mutex<Tallies>) -> MutexGuard<'_, Tallies> {
    tallies.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        name.parse().unwrap()
    }

    #[test]
    fn a_state_is_stored_after_enough_messages_and_once() {
        let (mut tallies, now) = (Tallies::default(), Instant::now());
        let later = now + 2 * WAIT;
        let half = (LOG_BYTES / 2) as usize;
        tallies.has_message(&topic("a"), half, now);
        assert_eq!(tallies.take_due(later), None);
        tallies.has_message(&topic("a"), half, now);
        tallies.has_message(&topic("a"), half, now);
        assert_eq!((tallies.take_due(now), tallies.take_due(later)), (None, Some(topic("a"))));
        assert_eq!(tallies.take_due(later), None);
        tallies.stored(&topic("a"));
        // Another server is faster.
        tallies.has_message(&topic("a"), half, now);
        tallies.has_state(&topic("a"), LOG_BYTES);
        assert_eq!(tallies.take_due(later), None);
        // A larger state waits for more messages.
        (0..3).for_each(|_| tallies.has_message(&topic("a"), half, now));
        assert_eq!(tallies.take_due(later), None);
        tallies.has_message(&topic("a"), half, now);
        assert_eq!(tallies.take_due(later), Some(topic("a")));
        // The node reads the messages while it stores the state.
        tallies.has_message(&topic("a"), half, now);
        tallies.failed(&topic("a"), now);
        assert_eq!(tallies.take_due(later), None);
        assert_eq!(tallies.take_due(now + RETRY_WAIT), Some(topic("a")));
    }

    #[test]
    fn the_number_of_counted_topics_is_bounded() {
        let (mut tallies, now) = (Tallies::default(), Instant::now());
        tallies.has_message(&topic("large"), LOG_BYTES as usize, now);
        for nth in 0..TOPICS_MAX + 10 {
            tallies.has_message(&topic(&format!("t{nth}")), 1, now);
        }
        assert!(tallies.topics.len() <= TOPICS_MAX);
        assert_eq!(tallies.take_due(now + 2 * WAIT), Some(topic("large")));
    }
}
