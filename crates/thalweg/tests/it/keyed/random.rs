//! Publishers and clients at random: clients are cut off, resume anywhere, and have the published state at each complete position.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use serde_json::{Value, json};

use super::mirror::{Map, Mirror};
use super::start;
use crate::harness::{Server, Transport, offset};

const TOPIC: &str = "users/random";
const PUBLISHERS: u64 = 3;
const CLIENTS: u64 = 10;
/// The connections of a client, one after the other.
const CONNECTIONS: u64 = 12;
const KEYS: u64 = 150;

/// A generator of pseudorandom numbers, reproducible (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

type Events = BTreeMap<u64, (String, Value)>;

/// Publishes as long as there are clients, so that each has a next message. Returns the events by offset.
fn publish(server: &Server, seed: u64, clients: &AtomicU64) -> Events {
    let mut random = Random(seed);
    let mut events = Events::new();
    for round in 0.. {
        if clients.load(Ordering::Acquire) == 0 {
            break;
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
    fn run(&mut self, server: &Server, random: &mut Random) {
        for _ in 0..CONNECTIONS {
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
        let server = start(shards, &[]);
        let working = AtomicU64::new(CLIENTS);
        let (events, clients) = thread::scope(|scope| {
            let (server, working) = (&server, &working);
            let publishers: Vec<_> = (0..PUBLISHERS)
                .map(|number| scope.spawn(move || publish(server, seed * 31 + number, working)))
                .collect();
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    scope.spawn(move || {
                        let mut client = Client::default();
                        // The publishers end with the last client, also with one that fails.
                        let ends = Ends(working);
                        client.run(server, &mut Random(seed * 97 + number));
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
        assert_eq!(events.len() as u64, last, "each offset is of one event");
        let head = Mirror::read(&server, TOPIC, 1000).position;
        assert_eq!(offset(&head), last);
        let mut seen = Vec::new();
        for (number, mut client) in (0..).zip(clients) {
            let mut subscriber = client.subscribe(&server, &mut Random(seed * 7 + number));
            client.mirror.follow(&mut subscriber, &head);
            client.note();
            assert!(client.mirror.gaps.is_empty(), "{:?}", client.mirror.gaps);
            assert_eq!(client.mirror.position, head);
            seen.append(&mut client.seen);
        }
        check(seen, events);
    }
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
        let expected: Map = state.clone().into_iter().collect();
        assert!(map == expected, "at {position}: {}", difference(&map, &expected));
    }
}

fn difference(map: &Map, expected: &Map) -> String {
    let keys = map.keys().chain(expected.keys());
    let wrong: Vec<_> = keys.filter(|key| map.get(*key) != expected.get(*key)).take(5).collect();
    format!("{} keys, {} expected, wrong: {wrong:?}", map.len(), expected.len())
}
