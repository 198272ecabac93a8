//! Schedules fetches: when, and how many at a time. Pure: callers pass the time.

mod group;
mod room;
#[cfg(test)]
mod tests;
mod waiting;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

pub(super) use group::Key;

use self::{
    group::{Group, Proof},
    room::Room,
    waiting::WaitingFetches,
};
use super::Readers;

#[derive(Debug, Clone)]
pub(super) struct FetchLimits {
    /// All hosts together.
    pub(super) in_flight: usize,
    /// Per host.
    pub(super) of_hosts: Vec<usize>,
}

/// Backoff after errors in µs: the first, and the largest.
const BACKOFF_US: (u64, u64) = (500_000, 60_000_000);

/// Fetches of known documents in a row, per host, while unproven topics wait: more would starve new topics.
const DOCUMENTS_IN_ROW: u32 = 4;

/// A host's index in the limits.
pub(super) type HostIndex = usize;

/// Topics to fetch repeatedly, until they are stopped. A topic has at most one fetch in flight. A slow upstream occupies fetches
/// for their whole timeout. A client with many slow topics must not starve others: no group may use the whole capacity, nor may all
/// unproven topics together. Groups take turns.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: FetchLimits,
    topics: HashMap<Key, Topic>,
    /// Due times of topics, with a turn number that shows whether an entry is obsolete: the topic was stopped or rescheduled.
    due: BinaryHeap<Reverse<(u64, Key, u64)>>,
    hosts: Vec<Load>,
    room: Room,
    turns: u64,
    /// Hosts with due topics that wait for capacity.
    waiting_hosts: VecDeque<HostIndex>,
}

#[derive(Debug)]
struct Topic {
    host: HostIndex,
    group: Group,
    turn: u64,
    /// How its fetch was counted; `None` if none is in flight.
    in_flight: Option<(Proof, Group)>,
    /// Whether it is due and waits for capacity.
    is_waiting: bool,
    /// Whether it was seen waiting despite free capacity since it was due.
    was_held_back: bool,
    /// Whether it was stopped during its fetch, and is removed afterwards.
    is_stopped: bool,
    proof: Proof,
    /// Errors since the last answer.
    errors: u32,
}

#[derive(Debug, Default)]
struct Load {
    room: Room,
    documents: WaitingFetches,
    unproven: WaitingFetches,
    /// Documents fetched since the last unproven topic.
    documents_in_row: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Fetch again after this time.
    In(Duration),
    /// The fetch failed: retry with backoff, but not before this time.
    Later(Option<Duration>),
    Never,
}

impl Schedule {
    pub(super) fn new(limits: FetchLimits) -> Self {
        Self {
            hosts: limits.of_hosts.iter().map(|_| Load::default()).collect(),
            limits,
            topics: HashMap::new(),
            due: BinaryHeap::new(),
            room: Room::default(),
            turns: 0,
            waiting_hosts: VecDeque::new(),
        }
    }

    /// Schedules a topic for these readers: it is due at once, unless it is known.
    pub(super) fn start(&mut self, key: Key, host: HostIndex, readers: Readers, now_us: u64) {
        if let Some(topic) = self.topics.get_mut(&key) {
            topic.is_stopped = false;
            if readers == Readers::Several {
                self.share(key);
            }
            return;
        }
        let group = match readers {
            Readers::Nobody => Group::Of(None),
            Readers::One(address) => Group::Of(address),
            Readers::Several => Group::Shared(key),
        };
        let topic = Topic {
            host,
            group,
            turn: 0,
            in_flight: None,
            is_waiting: false,
            was_held_back: false,
            is_stopped: false,
            proof: Proof::Unproven,
            errors: 0,
        };
        self.topics.insert(key, topic);
        self.set(key, now_us);
    }

    /// Records that several addresses read a topic.
    pub(super) fn share(&mut self, key: Key) {
        let Some(topic) = self.topics.get_mut(&key) else { return };
        topic.group = Group::Shared(key);
        if topic.is_waiting {
            // The topic no longer waits behind the other topics of its first reader.
            self.turns += 1;
            topic.turn = self.turns;
            self.wait_for_room(key);
        }
    }

    pub(super) fn stop(&mut self, key: Key) {
        match self.topics.get_mut(&key) {
            Some(topic) if topic.in_flight.is_some() => topic.is_stopped = true,
            _ => drop(self.topics.remove(&key)),
        }
    }

    /// Returns the next topic to fetch now, if any and if there is capacity.
    pub(super) fn take(&mut self, now_us: u64) -> Option<Key> {
        while let Some(Reverse((due_us, key, turn))) = self.due.peek().copied() {
            if due_us > now_us {
                break;
            }
            self.due.pop();
            if self.topics.get(&key).is_some_and(|topic| topic.turn == turn) {
                self.wait_for_room(key);
            }
        }
        // Hosts take turns: one with many topics does not delay the others.
        for _ in 0..self.waiting_hosts.len() {
            if self.room.in_flight >= self.limits.in_flight {
                return None;
            }
            let host = self.waiting_hosts.pop_front()?;
            let taken = self.take_of(host);
            if self.hosts[host].has_waiting() {
                self.waiting_hosts.push_back(host);
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Records the end of a fetch. `jitter` is from 0 to 1. Returns whether the topic is still scheduled.
    pub(super) fn finished(&mut self, key: Key, next: Next, now_us: u64, jitter: f64) -> bool {
        let Some(topic) = self.topics.get_mut(&key) else { return false };
        let Some((proof, group)) = topic.in_flight.take() else { return false };
        self.room.give_back(proof, group);
        self.hosts[topic.host].room.give_back(proof, group);
        if topic.is_stopped || next == Next::Never {
            let is_wanted = !topic.is_stopped;
            self.topics.remove(&key);
            return is_wanted;
        }
        let wait_us = match next {
            Next::In(wait) => {
                (topic.errors, topic.proof) = (0, Proof::Document);
                wait.as_micros() as u64
            }
            Next::Later(at_least) => {
                topic.errors += 1;
                topic.proof = Proof::Unproven;
                let (first, most) = BACKOFF_US;
                let most = most.min(first << (topic.errors - 1).min(16));
                // At least half of it: jitter separates topics that failed together.
                let wait = most / 2 + (most as f64 / 2.0 * jitter) as u64;
                wait.max(at_least.unwrap_or_default().as_micros() as u64)
            }
            Next::Never => return false,
        };
        self.set(key, now_us.saturating_add(wait_us));
        true
    }

    /// Returns when a topic becomes due next, in µs. Topics that wait for capacity are already due, and do not count.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_us, ..))| *due_us)
    }

    pub(super) fn is_waiting(&self, key: Key) -> bool {
        self.topics.get(&key).is_some_and(|topic| topic.is_waiting)
    }

    /// Returns whether a topic is due and waits despite free capacity, which is reserved for others. `true` once per due time.
    pub(super) fn see_held_back(&mut self, key: Key) -> bool {
        let is_held_back = self.is_held_back(key);
        let topic = self.topics.get_mut(&key).filter(|_| is_held_back);
        topic.is_some_and(|topic| !std::mem::replace(&mut topic.was_held_back, true))
    }

    fn is_held_back(&self, key: Key) -> bool {
        let Some(topic) = self.topics.get(&key).filter(|topic| topic.is_waiting) else {
            return false;
        };
        let (all, of_host) = (&self.room, &self.hosts[topic.host].room);
        let (limit, limit_of_host) = (self.limits.in_flight, self.limits.of_hosts[topic.host]);
        all.in_flight < limit
            && of_host.in_flight < limit_of_host
            && !(all.takes(limit, topic.proof, topic.group)
                && of_host.takes(limit_of_host, topic.proof, topic.group))
    }

    /// Returns whether a topic is scheduled, or in flight.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.topics.contains_key(&key)
    }

    fn set(&mut self, key: Key, due_us: u64) {
        self.turns += 1;
        if let Some(topic) = self.topics.get_mut(&key) {
            topic.turn = self.turns;
            self.due.push(Reverse((due_us, key, self.turns)));
        }
    }

    fn wait_for_room(&mut self, key: Key) {
        let Some(topic) = self.topics.get_mut(&key) else { return };
        topic.is_waiting = true;
        let load = &mut self.hosts[topic.host];
        if !load.has_waiting() {
            self.waiting_hosts.push_back(topic.host);
        }
        load.waiting(topic.proof).push(topic.group, key, topic.turn);
    }

    /// Returns the next topic of a host, if any and if there is capacity.
    fn take_of(&mut self, host: HostIndex) -> Option<Key> {
        let limit = self.limits.of_hosts[host];
        let load = &mut self.hosts[host];
        if load.room.in_flight >= limit {
            return None;
        }
        let mut proofs = [Proof::Document, Proof::Unproven];
        if load.documents_in_row >= DOCUMENTS_IN_ROW {
            proofs.reverse();
        }
        for proof in proofs {
            let (all, of_host) = (&self.room, &load.room);
            let has_room = |group| {
                all.takes(self.limits.in_flight, proof, group) && of_host.takes(limit, proof, group)
            };
            let waiting = match proof {
                Proof::Document => &mut load.documents,
                Proof::Unproven => &mut load.unproven,
            };
            while let Some((key, turn)) = waiting.pop(has_room) {
                let Some(topic) = self.topics.get_mut(&key).filter(|topic| topic.turn == turn)
                else {
                    continue;
                };
                (topic.in_flight, topic.is_waiting) = (Some((proof, topic.group)), false);
                topic.was_held_back = false;
                load.documents_in_row = match proof {
                    Proof::Document => load.documents_in_row + 1,
                    Proof::Unproven => 0,
                };
                load.room.take(proof, topic.group);
                self.room.take(proof, topic.group);
                return Some(key);
            }
        }
        None
    }
}

impl Load {
    fn waiting(&mut self, proof: Proof) -> &mut WaitingFetches {
        match proof {
            Proof::Document => &mut self.documents,
            Proof::Unproven => &mut self.unproven,
        }
    }

    fn has_waiting(&self) -> bool {
        !self.documents.is_empty() || !self.unproven.is_empty()
    }
}
