//! The turn's frames go to the sockets: each built once, each socket sent to
//! once (or once a frame).

use std::collections::HashMap;
use std::io::IoSlice;
use std::ops::Range;

use slab::Slab;

use crate::connection::{Connection, Link, Sent};
use crate::frame::Framing;
use crate::options::Mode;
use crate::topic::Topic;

/// All topics and who subscribes to them.
#[derive(Debug)]
pub(crate) struct Fanout {
    mode: Mode,
    topics: Vec<Topic>,
    topic_keys: HashMap<String, usize>,
    groups: Vec<Group>,
    group_keys: HashMap<(Vec<usize>, Framing), usize>,
    /// Topics published to in this turn.
    pending: Vec<usize>,
    /// Groups that have something due.
    due: Vec<usize>,
    /// This turn's frames, one after the other; recycled.
    frames: Vec<u8>,
}

/// Connections with the same topics in the same framing: the same bytes are
/// due to all of them.
#[derive(Debug)]
struct Group {
    connections: Vec<usize>,
    /// Stretches of `frames`, each to be sent by itself in mode `Frame`.
    due: Vec<Range<usize>>,
}

impl Fanout {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            topics: Vec::new(),
            topic_keys: HashMap::new(),
            groups: Vec::new(),
            group_keys: HashMap::new(),
            pending: Vec::new(),
            due: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// The key of a topic; whoever names it first makes it.
    pub(crate) fn topic_key(&mut self, name: &str) -> usize {
        if let Some(&key) = self.topic_keys.get(name) {
            return key;
        }
        let key = self.topics.len();
        self.topics.push(Topic::new(name.to_owned()));
        self.topic_keys.insert(name.to_owned(), key);
        key
    }

    pub(crate) fn topic(&self, key: usize) -> &Topic {
        &self.topics[key]
    }

    /// Lets `append` add events to a topic and returns what it returns. In
    /// mode `Coalesced` they share a frame with the turn's others.
    pub(crate) fn append<T>(&mut self, key: usize, append: impl FnOnce(&mut Topic) -> T) -> T {
        let topic = &mut self.topics[key];
        let was_pending = topic.is_pending();
        let outcome = append(topic);
        if !was_pending && topic.is_pending() {
            self.pending.push(key);
        }
        outcome
    }

    /// Appends one posted event; returns its offset.
    pub(crate) fn post(&mut self, key: usize, event: &[u8]) -> u64 {
        let mode = self.mode;
        self.append(key, |topic| {
            if mode == Mode::Frame || !topic.is_pending() {
                topic.open_batch();
            }
            topic.append(event);
            topic.head()
        })
    }

    /// Subscribes a connection; returns its group and the frames that confirm.
    pub(crate) fn subscribe(
        &mut self,
        connection: usize,
        topics: Vec<usize>,
        framing: Framing,
    ) -> (usize, Vec<u8>) {
        let mut confirmation = Vec::new();
        for &topic in &topics {
            self.topics[topic].confirmation().push_frame(framing, &mut confirmation);
        }
        let group = self.group_key(topics, framing);
        self.groups[group].connections.push(connection);
        (group, confirmation)
    }

    fn group_key(&mut self, topics: Vec<usize>, framing: Framing) -> usize {
        let name = (topics, framing);
        if let Some(&key) = self.group_keys.get(&name) {
            return key;
        }
        let key = self.groups.len();
        for &topic in &name.0 {
            self.topics[topic].groups[framing as usize].push(key);
        }
        self.groups.push(Group { connections: Vec::new(), due: Vec::new() });
        self.group_keys.insert(name, key);
        key
    }

    pub(crate) fn unsubscribe(&mut self, connection: usize, group: usize) {
        let connections = &mut self.groups[group].connections;
        if let Some(at) = connections.iter().position(|&other| other == connection) {
            connections.swap_remove(at);
        }
    }

    /// Sends the turn's frames. `when_not_whole` is told of every socket that
    /// did not take all of it.
    pub(crate) fn deliver<L: Link>(
        &mut self,
        connections: &mut Slab<Connection<L>>,
        mut when_not_whole: impl FnMut(usize, &L, Sent),
    ) {
        self.encode();
        for key in self.due.drain(..) {
            let group = &mut self.groups[key];
            let slices: Vec<IoSlice<'_>> =
                group.due.drain(..).map(|range| IoSlice::new(&self.frames[range])).collect();
            let slices_per_send = match self.mode {
                Mode::Coalesced => slices.len(),
                Mode::Frame => 1,
            };
            for send in slices.chunks(slices_per_send) {
                for &key in &group.connections {
                    let link = &mut connections[key].link;
                    let sent = link.send(send);
                    if sent != Sent::Whole {
                        when_not_whole(key, link, sent);
                    }
                }
            }
        }
        self.frames.clear();
    }

    /// Builds every frame that a group needs, once, and notes where it lies.
    fn encode(&mut self) {
        for key in self.pending.drain(..) {
            let topic = &mut self.topics[key];
            for framing in Framing::ALL {
                let groups = &topic.groups[framing as usize];
                if groups.iter().all(|&key| self.groups[key].connections.is_empty()) {
                    continue;
                }
                let begin = self.frames.len();
                let mut ends = Vec::new();
                for envelope in topic.envelopes() {
                    envelope.push_frame(framing, &mut self.frames);
                    ends.push(self.frames.len());
                }
                if self.mode == Mode::Coalesced {
                    ends = vec![self.frames.len()];
                }
                for &key in groups {
                    let group = &mut self.groups[key];
                    if group.due.is_empty() {
                        self.due.push(key);
                    }
                    let mut start = begin;
                    for &end in &ends {
                        group.due.push(start..end);
                        start = end;
                    }
                }
            }
            topic.seal();
        }
    }
}
