//! Publishers and clients at random while the server is killed: keys expire, conditions decide, some clients read only some keys, and each
//! has the published state at each complete position.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};

use super::KEYED;
use super::mirror::{Map, Mirror};
use super::random::{Random, difference};
use crate::durable::Directory;
use crate::harness::{Received, Server, Subscriber, Transport, offset, wait_for};

const TOPIC: &str = "rooms/random";
const PUBLISHERS: u64 = 3;
const CLIENTS: u64 = 12;
const KEYS: u64 = 60;
/// The lives of the server. All but the last end with a kill.
const LIVES: u64 = 4;
/// Publishes in a life, at least.
const PUBLISHES: u64 = 120;

/// All events that somebody knows of, by offset.
type Events = BTreeMap<u64, (String, Value)>;

fn know(events: &mut Events, offset: u64, key: String, event: Value) {
    let known = events.entry(offset).or_insert_with(|| (key.clone(), event.clone()));
    assert_eq!(*known, (key, event), "one event at {offset}");
}

/// Sends a request. `None` if the server dies before it answers.
fn ask(
    server: &Server,
    method: &str,
    target: &str,
    retry_key: &str,
    body: &str,
) -> Option<(u16, Value)> {
    let mut socket = TcpStream::connect(server.address).ok()?;
    let key = match retry_key {
        "" => String::new(),
        key => format!("Idempotency-Key: {key}\r\n"),
    };
    let request = format!(
        "{method} /v1/topics/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Connection: close\r\n{key}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body.trim()).ok()?))
}

/// A publish, which is repeated until it has an answer.
struct Publish {
    target: String,
    retry_key: String,
    key: String,
    event: Value,
}

struct Publisher {
    random: Random,
    count: u64,
    seed: u64,
    pending: Option<Publish>,
    events: Events,
    refused: u64,
}

impl Publisher {
    fn new(seed: u64) -> Self {
        let events = Events::new();
        Self { random: Random(seed), count: 0, seed, pending: None, events, refused: 0 }
    }

    fn make(&mut self, server: &Server) -> Option<Publish> {
        let key = format!("k{}", self.random.below(KEYS));
        self.count += 1;
        let mut event = json!({"by": self.seed, "n": self.count});
        let more = match self.random.below(8) {
            0 => {
                event = Value::Null;
                String::new()
            }
            1 => format!("&ttl={}ms", 100 + self.random.below(400)),
            2 => "&if=new".to_owned(),
            3 | 4 => {
                let target = format!("{TOPIC}?limit=9&key={key}");
                match ask(server, "GET", &target, "", "")? {
                    (200, page) if page["keys"] == json!([key]) => {
                        let (epoch, _) = page["head"].as_str()?.split_once('.')?;
                        format!("&if={epoch}.{}", page["first"])
                    }
                    // A topic without events, or a key without one.
                    _ => "&if=new".to_owned(),
                }
            }
            _ => String::new(),
        };
        let target = format!("{TOPIC}?key={key}{more}");
        let retry_key = format!("{}-{}", self.seed, self.count);
        Some(Publish { target, retry_key, key, event })
    }

    /// Publishes until the server dies. A publish without an answer is repeated in the next life.
    fn run(&mut self, server: &Server, is_over: &AtomicBool, published: &AtomicU64) {
        while !is_over.load(Relaxed) {
            let next = self.pending.take().or_else(|| self.make(server));
            let Some(publish) = next else { return };
            let body = publish.event.to_string();
            let Publish { target, retry_key, .. } = &publish;
            let Some((status, answer)) = ask(server, "POST", target, retry_key, &body) else {
                self.pending = Some(publish);
                return;
            };
            match status {
                200 => {
                    let first = answer["first"].as_u64().expect("an offset");
                    know(&mut self.events, first, publish.key, publish.event);
                }
                412 => self.refused += 1,
                _ => panic!("{status} {answer}"),
            }
            published.fetch_add(1, Relaxed);
        }
    }
}

/// A client, and the maps that it called complete, by their positions.
struct Client {
    random: Random,
    mirror: Mirror,
    seen: Vec<(u64, Map)>,
    /// The parameters of its filter, and the beginning of the keys that it selects.
    filter: (&'static str, &'static str),
}

impl Client {
    fn new(number: u64, seed: u64) -> Self {
        let filters = [
            ("", ""),
            ("prefix=k1", "k1"),
            ("key=k3&key=k30&key=k31&key=k32&prefix=k33", "k3"),
            ("", ""),
            ("key=none", "none"),
        ];
        let filter = filters[number as usize % filters.len()];
        let (mirror, seen) = (Mirror::default(), Vec::new());
        Self { random: Random(seed * 97 + number), mirror, seen, filter }
    }

    fn is_selected(filter: (&str, &str), key: &str) -> bool {
        let (parameters, beginning) = filter;
        let named = ["k3", "k30", "k31", "k32", "k33"];
        match parameters.contains("key=k3") {
            true => named.contains(&key),
            false => key.starts_with(beginning),
        }
    }

    fn subscribe(&mut self, server: &Server) -> (Subscriber, Transport) {
        let transport = match self.is_idle() {
            // A poll would wait for long.
            true => Transport::Sse,
            false => Transport::ALL[self.random.below(5) as usize],
        };
        let mut parameters = vec![self.filter.0.to_owned()];
        if !self.mirror.position.is_empty() {
            parameters.push(format!("cursor={}", self.mirror.position));
        }
        if self.random.below(3) == 0 {
            parameters.push("interval=20ms".to_owned());
        }
        parameters.retain(|parameter| !parameter.is_empty());
        let target = format!("/{TOPIC}?{}", parameters.join("&"));
        (server.subscribe(transport, &target), transport)
    }

    /// Returns whether the client gets no events.
    fn is_idle(&self) -> bool {
        self.filter.0 == "key=none"
    }

    /// Takes one message. Returns whether the connection continues.
    fn step(&mut self, subscriber: &mut Subscriber) -> bool {
        match subscriber.news() {
            Received::End | Received::Close(..) => return false,
            received => self.mirror.take(&received),
        }
        if self.mirror.is_complete() {
            self.seen.push((offset(&self.mirror.position), self.mirror.map.clone()));
        }
        true
    }

    /// Follows the topic over several connections, until the server dies. The server dies while nobody connects or polls.
    fn run(&mut self, server: &Server, is_over: &RwLock<bool>) {
        loop {
            let connecting = is_over.read().expect("no panic");
            if *connecting {
                return;
            }
            let (mut subscriber, transport) = self.subscribe(server);
            let messages = if self.is_idle() { u64::MAX } else { 1 + self.random.below(10) };
            if transport != Transport::LongPolling {
                drop(connecting);
            }
            for _ in 0..messages {
                if !self.step(&mut subscriber) {
                    return;
                }
            }
        }
    }

    /// Reads until the map is the last state.
    fn follow(&mut self, server: &Server, expected: &Map) {
        let mut wanted = expected.clone();
        wanted.retain(|key, _| Self::is_selected(self.filter, key));
        let (mut subscriber, _) = self.subscribe(server);
        while self.step(&mut subscriber) {
            if self.mirror.is_complete() && self.mirror.map == wanted {
                return;
            }
        }
        panic!("the connection ended: {}", difference(&self.mirror.map, &wanted));
    }
}

#[test]
fn killed_servers_have_states_that_existed() {
    for (shards, seed) in [("1", 0x5eed), ("2", 0xbeef)] {
        let directory = Directory::new();
        let settings = [&KEYED[..], &["--shards", shards]].concat();
        let mut publishers: Vec<Publisher> =
            (0..PUBLISHERS).map(|number| Publisher::new(seed * 31 + number)).collect();
        let mut clients: Vec<Client> =
            (0..CLIENTS).map(|number| Client::new(number, seed)).collect();
        for _ in 1..LIVES {
            let mut server = directory.start(&settings);
            live(&server, &mut publishers, &mut clients);
            server.exit();
        }
        let server = directory.start(&settings);
        let mut events = Events::new();
        for mut publisher in publishers {
            // Publishes without an answer get theirs.
            if let Some(publish) = publisher.pending.take() {
                let Publish { target, retry_key, key, event } = publish;
                let body = event.to_string();
                let answer = ask(&server, "POST", &target, &retry_key, &body);
                let (status, answer) = answer.expect("an answer");
                if status == 200 {
                    let first = answer["first"].as_u64().expect("an offset");
                    know(&mut publisher.events, first, key, event);
                }
            }
            assert!(publisher.refused > 0, "no condition was refused");
            let known = publisher.events.into_iter();
            known.for_each(|(offset, (key, event))| know(&mut events, offset, key, event));
        }
        // The last event of each key does not expire.
        let mut last = Map::new();
        for number in 0..KEYS {
            let key = format!("k{number}");
            let event = if number % 3 == 0 { Value::Null } else { json!({"last": number}) };
            let published = server
                .post(&format!("{TOPIC}?key={key}"), "application/json", event.to_string())
                .published();
            know(&mut events, published.first, key.clone(), event.clone());
            if !event.is_null() {
                last.insert(key, event);
            }
        }
        assert_eq!(Mirror::read(&server, TOPIC, 1000).map, last);
        for client in &mut clients {
            client.follow(&server, &last);
            assert!(client.mirror.gaps.is_empty(), "{:?}", client.mirror.gaps);
            // Nobody else knows the removals of keys that have expired.
            for (offset, key, event) in client.mirror.received.drain(..) {
                know(&mut events, offset, key, event);
            }
        }
        check(clients, &events);
    }
}

/// One life of the server, which ends with its death.
fn live(server: &Server, publishers: &mut [Publisher], clients: &mut [Client]) {
    let (is_over, is_dead) = (AtomicBool::new(false), RwLock::new(false));
    let published = AtomicU64::new(0);
    let (over, dead, count) = (&is_over, &is_dead, &published);
    thread::scope(|scope| {
        for publisher in publishers {
            scope.spawn(move || publisher.run(server, over, count));
        }
        for client in clients {
            scope.spawn(move || client.run(server, dead));
        }
        wait_for("publishes", || (published.load(Relaxed) >= PUBLISHES).then_some(()));
        let mut is_dead = is_dead.write().expect("no panic");
        server.kill_now();
        *is_dead = true;
        is_over.store(true, Relaxed);
    });
}

/// Compares the maps of clients with the events up to their positions.
fn check(clients: Vec<Client>, events: &Events) {
    let mut seen: Vec<_> = Vec::new();
    for client in clients {
        assert!(!client.seen.is_empty());
        seen.extend(client.seen.into_iter().map(|(position, map)| (position, client.filter, map)));
    }
    seen.sort_by_key(|(position, ..)| *position);
    assert!(seen.len() as u64 > 10 * CLIENTS, "only {} states", seen.len());
    let (mut state, mut events) = (Map::new(), events.iter().peekable());
    for (position, filter, map) in seen {
        while let Some((_, (key, event))) = events.next_if(|(offset, _)| **offset <= position) {
            match event {
                Value::Null => state.remove(key),
                event => state.insert(key.clone(), event.clone()),
            };
        }
        let mut expected = state.clone();
        expected.retain(|key, _| Client::is_selected(filter, key));
        assert!(map == expected, "{filter:?} at {position}: {}", difference(&map, &expected));
    }
}
