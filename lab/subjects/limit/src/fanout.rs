//! Builds every frame once, in the log of its group, and sends each connection of the group the unsent rest of the log.

use std::collections::HashMap;
use std::time::Duration;

use slab::Slab;

use crate::connection::{Connection, Link, Lost, Role, Subscriber};
use crate::frame::{Envelope, Framing};
use crate::log::Log;
use crate::options::Mode;
use crate::topic::Topic;

/// A subscriber that leaves more unread is dropped: the limit has no history to fall back on.
const UNREAD_BYTES_MAX: u64 = 64 << 20;

/// A log smaller than this is not searched for bytes that no subscriber needs.
const LOG_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Fanout {
    mode: Mode,
    /// A busy wait after each send.
    busy_wait: Duration,
    topics: Vec<Topic>,
    topic_keys: HashMap<String, usize>,
    groups: Vec<Group>,
    group_keys: HashMap<(Vec<usize>, Framing), usize>,
}

/// Connections with the same topics in the same framing: the same bytes are due to all of them.
#[derive(Debug)]
struct Group {
    log: Log,
    connections: Vec<usize>,
    /// Number of connections with a full socket.
    blocked: usize,
}

impl Fanout {
    pub(crate) fn new(mode: Mode, busy_wait: Duration) -> Self {
        Self {
            mode,
            busy_wait,
            topics: Vec::new(),
            topic_keys: HashMap::new(),
            groups: Vec::new(),
            group_keys: HashMap::new(),
        }
    }

    /// Returns the key of a topic. Creates the topic if it is new.
    pub(crate) fn topic_key(&mut self, name: &str) -> usize {
        if let Some(&key) = self.topic_keys.get(name) {
            return key;
        }
        let key = self.topics.len();
        self.topics.push(Topic::new(name));
        self.topic_keys.insert(name.to_owned(), key);
        key
    }

    pub(crate) fn topic(&self, key: usize) -> &Topic {
        &self.topics[key]
    }

    /// Appends an event of a topic to the logs of the topic's groups.
    pub(crate) fn append(&mut self, key: usize, event: &[u8]) {
        let topic = &mut self.topics[key];
        topic.head += 1;
        for &group in &topic.groups {
            let group = &mut self.groups[group];
            if !group.connections.is_empty() {
                group.log.append(&topic.name, topic.head, event);
            }
        }
    }

    /// Ends a batch: the next event begins a frame.
    pub(crate) fn end_batch(&mut self, key: usize) {
        for &group in &self.topics[key].groups {
            self.groups[group].log.close();
        }
    }

    /// Appends a posted event. Returns its offset. In the mode `Coalesced` all events of a turn share a frame.
    pub(crate) fn post(&mut self, key: usize, event: &[u8]) -> u64 {
        self.append(key, event);
        if self.mode == Mode::Frame {
            self.end_batch(key);
        }
        self.topics[key].head
    }

    /// Subscribes a connection. Returns its new role, and the frames that confirm the subscription.
    pub(crate) fn subscribe(
        &mut self,
        connection: usize,
        topics: Vec<usize>,
        framing: Framing,
    ) -> (Subscriber, Vec<u8>) {
        let mut confirmation = Vec::new();
        for &topic in &topics {
            let Topic { name, head, .. } = &self.topics[topic];
            let nothing = Envelope { topic: name, first: head + 1, count: 0 };
            nothing.push_head(framing, 0, &mut confirmation);
            nothing.push_tail(framing, &mut confirmation);
        }
        let key = self.group_key(topics, framing);
        let group = &mut self.groups[key];
        // Events in the open frame are before the confirmed position.
        group.log.close();
        group.connections.push(connection);
        let is_websocket = framing == Framing::WebSocket;
        let cursor = group.log.end();
        (Subscriber { group: key, cursor, is_blocked: false, is_websocket }, confirmation)
    }

    fn group_key(&mut self, topics: Vec<usize>, framing: Framing) -> usize {
        let name = (topics, framing);
        if let Some(&key) = self.group_keys.get(&name) {
            return key;
        }
        let key = self.groups.len();
        for &topic in &name.0 {
            self.topics[topic].groups.push(key);
        }
        self.groups.push(Group { log: Log::new(framing), connections: Vec::new(), blocked: 0 });
        self.group_keys.insert(name, key);
        key
    }

    pub(crate) fn unsubscribe(&mut self, connection: usize, subscriber: &Subscriber) {
        let group = &mut self.groups[subscriber.group];
        group.blocked -= usize::from(subscriber.is_blocked);
        if let Some(at) = group.connections.iter().position(|&other| other == connection) {
            group.connections.swap_remove(at);
        }
    }

    /// Sends the frames of this turn. Returns the connections that are lost. `watch_output` gets every socket that is full.
    pub(crate) fn deliver<L: Link>(
        &mut self,
        connections: &mut Slab<Connection<L>>,
        watch_output: impl Fn(usize, &L),
    ) -> Vec<usize> {
        let mut lost = Vec::new();
        for group in &mut self.groups {
            group.log.close();
            let ends = group.log.take_ends();
            let sends = match self.mode {
                Mode::Coalesced => &ends[ends.len().saturating_sub(1)..],
                Mode::Frame => &ends,
            };
            for &end in sends {
                for &key in &group.connections {
                    let connection = &mut connections[key];
                    if !connection.is_due(end) {
                        continue;
                    }
                    match connection.send(&group.log, end, self.busy_wait) {
                        Ok(false) => {}
                        Ok(true) => {
                            group.blocked += 1;
                            watch_output(key, &connection.link);
                        }
                        Err(Lost) => lost.push(key),
                    }
                }
            }
            group.trim(connections, &mut lost);
        }
        lost
    }

    /// Sends a connection the frames that it missed while its socket was full; returns whether it is full again.
    pub(crate) fn resume<L: Link>(&mut self, connection: &mut Connection<L>) -> Result<bool, Lost> {
        let Role::Subscriber(subscriber) = &mut connection.role else {
            return Ok(false);
        };
        let group = &mut self.groups[subscriber.group];
        group.blocked -= usize::from(subscriber.is_blocked);
        // If the connection is lost now, the subscriber must not count as blocked.
        subscriber.is_blocked = false;
        let is_full = connection.send(&group.log, group.log.end(), self.busy_wait)?;
        group.blocked += usize::from(is_full);
        Ok(is_full)
    }
}

impl Group {
    /// Forgets bytes that all subscribers have got, and adds subscribers that are too far behind to `lost`.
    fn trim<L: Link>(&mut self, connections: &Slab<Connection<L>>, lost: &mut Vec<usize>) {
        let end = self.log.end();
        let mut oldest = end;
        if self.blocked > 0 {
            if self.log.len() < LOG_BYTES {
                return;
            }
            for &key in &self.connections {
                let Role::Subscriber(subscriber) = &connections[key].role else {
                    continue;
                };
                if end - subscriber.cursor > UNREAD_BYTES_MAX {
                    lost.push(key);
                }
                oldest = oldest.min(subscriber.cursor);
            }
        }
        self.log.forget(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Received, Sent};
    use std::cell::Cell;
    use std::os::fd::OwnedFd;

    /// A socket that takes `room` bytes until it gets more room.
    #[derive(Debug, Default)]
    struct Narrow {
        room: usize,
        taken: Vec<u8>,
        sends: usize,
    }

    impl Link for Narrow {
        fn socket(&self) -> &OwnedFd {
            unreachable!("nobody asks")
        }

        fn send(&mut self, bytes: &[u8]) -> Result<Sent, Lost> {
            let taken = bytes.len().min(self.room);
            self.taken.extend_from_slice(&bytes[..taken]);
            self.room -= taken;
            self.sends += 1;
            Ok(Sent { taken, is_full: taken < bytes.len() })
        }

        fn receive(&mut self, _: &mut [u8]) -> Received {
            Received::Nothing
        }
    }

    /// Returns a fan-out with one topic and two connections, of which the first has no room.
    fn subscribed(mode: Mode) -> (Fanout, usize, Slab<Connection<Narrow>>) {
        let mut fanout = Fanout::new(mode, Duration::ZERO);
        let topic = fanout.topic_key("cars");
        let mut connections = Slab::new();
        for room in [0, usize::MAX] {
            subscribe(&mut fanout, &mut connections, topic, room);
        }
        (fanout, topic, connections)
    }

    fn subscribe(
        fanout: &mut Fanout,
        connections: &mut Slab<Connection<Narrow>>,
        topic: usize,
        room: usize,
    ) -> usize {
        let key = connections.insert(Connection::new(Narrow { room, ..Narrow::default() }));
        let (subscriber, _) = fanout.subscribe(key, vec![topic], Framing::Ndjson);
        connections[key].role = Role::Subscriber(subscriber);
        key
    }

    #[test]
    fn a_full_socket_is_sent_the_same_later_and_at_once() {
        let (mut fanout, topic, mut connections) = subscribed(Mode::Coalesced);
        let blocked = Cell::new(0);
        for event in [b"1", b"2", b"3"] {
            fanout.post(topic, event);
            fanout.post(topic, event);
            let lost = fanout.deliver(&mut connections, |_, _| blocked.set(blocked.get() + 1));
            assert!(lost.is_empty());
        }
        assert_eq!(
            (blocked.get(), connections[0].link.sends, connections[1].link.sends),
            (1, 1, 3)
        );
        fanout.post(topic, b"4");
        connections[0].link.room = 10;
        assert!(fanout.resume(&mut connections[0]).unwrap(), "full again, within a frame");
        connections[0].link.room = usize::MAX;
        assert!(!fanout.resume(&mut connections[0]).unwrap());
        assert_eq!(connections[0].link.taken, connections[1].link.taken);
        fanout.deliver(&mut connections, |_, _| unreachable!("nobody is full"));
        assert_eq!(connections[0].link.taken, connections[1].link.taken);
        assert_eq!(connections[0].link.taken.iter().filter(|&&byte| byte == b'\n').count(), 4);
        assert_eq!(fanout.groups[0].log.len(), 0, "everybody has it");
    }

    #[test]
    fn mode_frame_sends_each_frame_alone_and_late_subscribers_get_only_new_events() {
        let (mut fanout, topic, mut connections) = subscribed(Mode::Frame);
        fanout.post(topic, b"1");
        fanout.post(topic, b"2");
        let late = subscribe(&mut fanout, &mut connections, topic, usize::MAX);
        fanout.post(topic, b"3");
        fanout.deliver(&mut connections, |_, _| {});
        assert_eq!((connections[1].link.sends, connections[late].link.sends), (3, 1));
        assert!(connections[1].link.taken.ends_with(&connections[late].link.taken));
        assert!(connections[late].link.taken.ends_with(b"\"first\":3,\"events\":[3]}\n"));
    }

    #[test]
    fn clients_that_do_not_read_are_closed_and_forgotten() {
        let (mut fanout, topic, mut connections) = subscribed(Mode::Coalesced);
        let event = vec![b'1'; 1 << 20];
        let lost = (0..).find_map(|_| {
            fanout.post(topic, &event);
            fanout.deliver(&mut connections, |_, _| {}).pop()
        });
        assert_eq!(lost, Some(0));
        assert!(fanout.groups[0].log.len() as u64 > UNREAD_BYTES_MAX);
        let Role::Subscriber(gone) = connections.remove(0).role else {
            unreachable!("it subscribed");
        };
        fanout.unsubscribe(0, &gone);
        fanout.post(topic, b"1");
        fanout.deliver(&mut connections, |_, _| {});
        assert_eq!(fanout.groups[0].log.len(), 0);
    }

    #[test]
    fn held_back_data_of_a_link_is_sent_without_further_events() {
        let (mut fanout, _, mut connections) = subscribed(Mode::Coalesced);
        let Role::Subscriber(subscriber) = &mut connections[1].role else {
            unreachable!("it subscribed");
        };
        // As if all data were encrypted, and the socket had not taken all of it.
        subscriber.is_blocked = true;
        fanout.groups[0].blocked = 1;
        assert!(!fanout.resume(&mut connections[1]).unwrap());
        assert_eq!((connections[1].link.sends, fanout.groups[0].blocked), (1, 0));
    }
}
