//! Which topic is fetched when, and how many at a time. Pure: time comes in.

mod room;
#[cfg(test)]
mod tests;
mod waiting;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    time::Duration,
};

use self::{room::Room, waiting::Waiting};
use super::Readers;
use crate::connection_limits::Address;

/// Bounds on fetches under way.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Of all hosts together.
    pub(super) in_flight: usize,
    /// Of each host.
    pub(super) of_hosts: Vec<usize>,
}

/// How long to wait after errors, µs: the first time, and at most.
const BACKOFF_US: (u64, u64) = (500_000, 60_000_000);

/// Documents that a host is asked for, one after the other, while keys that were never answered
/// wait. More of them would starve newcomers where the upstream is always busy.
const DOCUMENTS_IN_ROW: u32 = 4;

/// A topic, by the key that its shard has given it.
pub(super) type Key = u32;

/// A host, by its number: the place of its limit.
pub(super) type Host = usize;

/// The topics that share a part of the room: those that one address reads alone. A topic that several
/// addresses read is a group by itself, so it does not wait behind the other topics of the address that
/// asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    /// Topics of one address; `None`: of clients that are not counted for an address.
    Of(Option<Address>),
    Shared(Key),
}

/// Whether an upstream has answered for a topic before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It has answered the last fetch.
    Document,
    /// It has never answered, or failed the last time.
    Unproven,
}

/// Topics that are to be fetched again and again, until they are stopped. A topic is under way
/// once at most.
///
/// A slow upstream holds what is under way for as long as a fetch may take. A client with many
/// slow keys must not starve others: a part of the room is kept free of each group, and a part of keys
/// that were never answered; what is free goes to groups in turn.
#[derive(Debug)]
pub(super) struct Schedule {
    limits: Limits,
    topics: HashMap<Key, Topic>,
    /// When topics are due, with the turn that they had then: what was stopped, or due earlier,
    /// meanwhile, is no longer.
    due: BinaryHeap<Reverse<(u64, Key, u64)>>,
    hosts: Vec<Load>,
    room: Room,
    turns: u64,
    /// Hosts with topics that are due and wait for room.
    waiting_hosts: VecDeque<Host>,
}

#[derive(Debug)]
struct Topic {
    host: Host,
    group: Group,
    turn: u64,
    /// How it was counted when it was taken; `None`: it is not under way.
    in_flight: Option<(Proof, Group)>,
    /// It is due, and there is no room for it yet.
    is_waiting: bool,
    /// It was seen to wait although there was room, since it was due.
    was_held_back: bool,
    /// Whether it was stopped while it was under way: it goes when it is back.
    is_stopped: bool,
    proof: Proof,
    /// Errors since it was last answered.
    errors: u32,
}

/// A host's fetches.
#[derive(Debug, Default)]
struct Load {
    room: Room,
    documents: Waiting,
    unproven: Waiting,
    /// Documents that were taken since a key that was never answered.
    documents_in_row: u32,
}

/// What a fetch has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Again after this time.
    In(Duration),
    /// It failed: again after a while, longer each time, but not before this.
    Later(Option<Duration>),
    /// Not again.
    Never,
}

impl Schedule {
    pub(super) fn new(limits: Limits) -> Self {
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

    /// A topic is wanted by these readers: it is due at once, unless it is known.
    pub(super) fn start(&mut self, key: Key, host: Host, readers: Readers, now_us: u64) {
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

    /// Several addresses read a topic from now on.
    pub(super) fn share(&mut self, key: Key) {
        let Some(topic) = self.topics.get_mut(&key) else { return };
        topic.group = Group::Shared(key);
        if topic.is_waiting {
            // It leaves the place that it has behind the topics of its first reader.
            self.turns += 1;
            topic.turn = self.turns;
            self.wait_for_room(key);
        }
    }

    /// A topic is not wanted any more.
    pub(super) fn stop(&mut self, key: Key) {
        match self.topics.get_mut(&key) {
            Some(topic) if topic.in_flight.is_some() => topic.is_stopped = true,
            _ => drop(self.topics.remove(&key)),
        }
    }

    /// The next topic to fetch now, if there is one and room for it.
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
        // Hosts take turns, so that one with many topics does not keep the others waiting.
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

    /// A fetch is over. `jitter` is from 0 to 1. Returns whether the topic is still wanted.
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
                // Half of it at least: topics that failed together are not fetched together again.
                let wait = most / 2 + (most as f64 / 2.0 * jitter) as u64;
                wait.max(at_least.unwrap_or_default().as_micros() as u64)
            }
            Next::Never => return false,
        };
        self.set(key, now_us.saturating_add(wait_us));
        true
    }

    /// When something is due next, if nothing is due now that waits for room.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((due_us, ..))| *due_us)
    }

    /// Whether a topic is due and waits for room.
    pub(super) fn is_waiting(&self, key: Key) -> bool {
        self.topics.get(&key).is_some_and(|topic| topic.is_waiting)
    }

    /// Looks whether a topic is due and waits although there is room, which is kept for others. Returns `true` once for
    /// each time that it is due.
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

    /// Whether a topic is scheduled, or under way.
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

    /// A topic is due.
    fn wait_for_room(&mut self, key: Key) {
        let Some(topic) = self.topics.get_mut(&key) else { return };
        topic.is_waiting = true;
        let load = &mut self.hosts[topic.host];
        if !load.has_waiting() {
            self.waiting_hosts.push_back(topic.host);
        }
        load.waiting(topic.proof).push(topic.group, key, topic.turn);
    }

    /// The next topic of a host, if there is one and room for it.
    fn take_of(&mut self, host: Host) -> Option<Key> {
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
    fn waiting(&mut self, proof: Proof) -> &mut Waiting {
        match proof {
            Proof::Document => &mut self.documents,
            Proof::Unproven => &mut self.unproven,
        }
    }

    fn has_waiting(&self) -> bool {
        !self.documents.is_empty() || !self.unproven.is_empty()
    }
}
