//! Publishers and clients at random: clients are cut off, resume anywhere, and have the published state at each complete position. Servers
//! may share the topic.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::mirror::{Map, Mirror};
use super::start;
use crate::harness::{Server, Transport, offset, wait_for};

const TOPIC: &str = "users/random";
const PUBLISHERS: u64 = 3;
const CLIENTS: u64 = 10;
/// The connections of a client, one after the other.
const CONNECTIONS: u64 = 12;
const KEYS: u64 = 150;
/// Keys that are changed with a condition, and keys that expire.
const COUNTERS: u64 = 3;
const EXPIRING: u64 = 20;

/// A generator of pseudorandom numbers, reproducible (xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

type Events = BTreeMap<u64, (String, Value)>;

/// Adds to a counter, on the condition that its newest event is the one that it was computed from. Returns the offset and the event.
fn increment(server: &Server, counter: &str) -> (u64, Value) {
    let (mut condition, mut count) = ("new".to_owned(), 0);
    loop {
        let event = json!({"id": counter, "count": count + 1});
        let target = format!("{TOPIC}?if={condition}");
        let answer = server.post(&target, "application/json", event.to_string());
        if answer.status == 200 {
            return (answer.published().first, event);
        }
        answer.refused(412, "condition_failed");
        let newest = answer.json()["newest"].take();
        count = newest["event"]["count"].as_u64().expect("a number");
        condition = newest["position"].as_str().expect("a position").to_owned();
    }
}

/// Publishes as long as there are clients, so that each has a next message. Returns the events by offset.
fn publish(servers: &[&Server], seed: u64, clients: &AtomicU64) -> Events {
    let mut random = Random(seed);
    let mut events = Events::new();
    for round in 0.. {
        if clients.load(Ordering::Acquire) == 0 {
            break;
        }
        let server = servers[random.below(servers.len() as u64) as usize];
        if random.below(8) == 0 {
            let counter = format!("c{}", random.below(COUNTERS));
            let (first, event) = increment(server, &counter);
            events.insert(first, (counter, event));
            continue;
        }
        if random.below(8) == 0 {
            let key = format!("t{}", random.below(EXPIRING));
            let event = json!({"id": key, "by": seed, "round": round});
            let target = format!("{TOPIC}?ttl=200ms");
            let published = server.post(&target, "application/json", event.to_string());
            events.insert(published.published().first, (key, event));
            continue;
        }
        let key = format!("k{}", random.below(KEYS));
        if random.below(4) == 0 {
            let target = format!("{TOPIC}?key={key}");
            let removed = server.post(&target, "application/json", "null").published();
            events.insert(removed.first, (key, Value::Null));
            continue;
        }
        let made: Vec<(String, Value)> = (0..1 + random.below(8))
            .map(|_| {
                let key = format!("k{}", random.below(KEYS));
                let pad = "x".repeat(random.below(200) as usize);
                let event = json!({"id": key, "by": seed, "round": round, "pad": pad});
                (key, event)
            })
            .collect();
        let lines: String = made.iter().map(|(_, event)| format!("{event}\n")).collect();
        let published = server.post(TOPIC, "application/x-ndjson", lines).published();
        // Lines that arrive together stay together.
        assert_eq!(offset(&published.position) + 1 - published.first, made.len() as u64);
        events.extend((published.first..).zip(made));
    }
    events
}

/// A client, and the maps that it called complete, by their positions.
#[derive(Default)]
struct Client {
    mirror: Mirror,
    seen: Vec<(u64, Map)>,
}

impl Client {
    fn subscribe(&self, server: &Server, random: &mut Random) -> crate::harness::Subscriber {
        let transport = Transport::ALL[random.below(5) as usize];
        let mut parameters = Vec::new();
        if !self.mirror.position.is_empty() {
            parameters.push(format!("cursor={}", self.mirror.position));
        }
        if random.below(3) == 0 {
            parameters.push("interval=20ms".to_owned());
        }
        server.subscribe(transport, &format!("/{TOPIC}?{}", parameters.join("&")))
    }

    fn note(&mut self) {
        if self.mirror.is_complete() {
            self.seen.push((offset(&self.mirror.position), self.mirror.map.clone()));
        }
    }

    /// Follows the topic over connections that are cut off after some messages.
    fn run(&mut self, servers: &[&Server], random: &mut Random) {
        for _ in 0..CONNECTIONS {
            let server = servers[random.below(servers.len() as u64) as usize];
            let mut subscriber = self.subscribe(server, random);
            for _ in 0..1 + random.below(12) {
                self.mirror.next(&mut subscriber);
                self.note();
            }
        }
    }
}

#[test]
fn each_client_has_a_state_that_existed_and_in_the_end_the_last_one() {
    for (shards, seed) in [("1", 0x5eed), ("2", 0xbeef)] {
        check_servers(&[&start(shards, &[])], seed);
    }
}

/// Publishes to servers that share the topic, follows it there, and compares all states.
pub(crate) fn check_servers(servers: &[&Server], seed: u64) {
    let working = AtomicU64::new(CLIENTS);
    let (events, clients) = thread::scope(|scope| {
        let working = &working;
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|number| scope.spawn(move || publish(servers, seed * 31 + number, working)))
            .collect();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::default();
                    // The publishers end with the last client, also with one that fails.
                    let ends = Ends(working);
                    client.run(servers, &mut Random(seed * 97 + number));
                    drop(ends);
                    client
                })
            })
            .collect();
        let clients = clients.into_iter().map(|client| client.join().expect("a client"));
        let clients: Vec<Client> = clients.collect();
        let publishers = publishers.into_iter().map(|one| one.join().expect("a publisher"));
        (publishers.flatten().collect::<Events>(), clients)
    });
    let last = *events.keys().next_back().expect("events");
    // All servers have the last state, without the keys that expire.
    let all = wait_for("the same state everywhere", || {
        let all: Vec<Mirror> =
            servers.iter().map(|server| Mirror::read(server, TOPIC, 1000)).collect();
        let is_same =
            all.iter().all(|one| one.position == all[0].position && one.map == all[0].map);
        let is_last = offset(&all[0].position) >= last;
        let is_expired = !all[0].map.keys().any(|key| key.starts_with('t'));
        (is_same && is_last && is_expired).then_some(all)
    });
    let head = &all[0].position;
    let mut seen = vec![(offset(head), all[0].map.clone())];
    for (number, mut client) in (0..).zip(clients) {
        let server = servers[number as usize % servers.len()];
        let mut subscriber = client.subscribe(server, &mut Random(seed * 7 + number));
        client.mirror.follow(&mut subscriber, head);
        client.note();
        assert!(client.mirror.gaps.is_empty(), "{:?}", client.mirror.gaps);
        assert_eq!(&client.mirror.position, head);
        seen.append(&mut client.seen);
    }
    for nth in 0..COUNTERS {
        let counter = format!("c{nth}");
        let counted = events.values().filter(|(key, _)| *key == counter);
        let counts: Vec<_> = counted.filter_map(|(_, event)| event["count"].as_u64()).collect();
        assert!(
            counts.len() > 1 && counts.iter().copied().eq(1..=counts.len() as u64),
            "{counts:?}"
        );
    }
    check(seen, events);
}

/// Counts a client that has ended.
struct Ends<'a>(&'a AtomicU64);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Compares maps with the events up to their positions.
fn check(mut seen: Vec<(u64, Map)>, events: Events) {
    assert!(seen.len() as u64 > 10 * CLIENTS, "only {} states", seen.len());
    seen.sort_by_key(|(position, _)| *position);
    let (mut state, mut events) = (HashMap::new(), events.into_iter().peekable());
    for (position, map) in seen {
        while let Some((_, (key, event))) = events.next_if(|(offset, _)| *offset <= position) {
            match event {
                Value::Null => state.remove(&key),
                event => state.insert(key, event),
            };
        }
        // A server removes a key at some time after its last event.
        let expires = |key: &str| key.starts_with('t');
        let is_state =
            |(key, event): (&String, &Value)| !expires(key) || state.get(key) == Some(event);
        assert!(map.iter().all(is_state), "at {position}: {map:?}");
        let lasting = |map: Map| map.into_iter().filter(|(key, _)| !expires(key)).collect::<Map>();
        let (map, expected) = (lasting(map), lasting(state.clone().into_iter().collect()));
        assert!(map == expected, "at {position}: {}", difference(&map, &expected));
    }
}

pub(super) fn difference(map: &Map, expected: &Map) -> String {
    let keys = map.keys().chain(expected.keys());
    let wrong: Vec<_> = keys.filter(|key| map.get(*key) != expected.get(*key)).take(5).collect();
    format!("{} keys, {} expected, wrong: {wrong:?}", map.len(), expected.len())
}
