//! A keyed topic, read by clients that are slow, cut and late. Each state that a client takes for whole has
//! existed.

mod filters;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fastrand::Rng;
use serde_json::Value as Json;
use thalweg_core::stream::{
    Batch, BatchBounds, Cursor, Encoding, Feed, Frames as _, HistoryBounds, KeyedFeed, Memory as _,
    Next, Offsets, Payloads, Pinning as _, RemovalBounds, Sequencer, Start,
};
use thalweg_wire::{Epoch, Format, Offset, Position, StartAt, Topic};

type State = BTreeMap<String, Json>;

const SEEDS: u64 = 3000;

/// All events up to now: the key of each, and the event.
#[derive(Default)]
struct Published(Vec<(String, Json)>);

impl Published {
    fn head(&self) -> Offset {
        self.0.len() as Offset + 1
    }

    fn event(&self, offset: Offset) -> &(String, Json) {
        &self.0[offset as usize - 1]
    }

    fn state_at(&self, offset: Offset) -> State {
        let mut state = State::new();
        for (key, event) in &self.0[..offset as usize] {
            match event {
                Json::Null => drop(state.remove(key)),
                event => drop(state.insert(key.clone(), event.clone())),
            }
        }
        state
    }
}

struct Owner {
    feed: KeyedFeed,
    sequencer: Sequencer,
    published: Published,
}

/// A shard that follows the owner.
struct Follower {
    feed: KeyedFeed,
    /// Its place in the owner's feed.
    cursor: Cursor,
}

/// A client, as far as it has read.
struct Client {
    is_conflated: bool,
    on_follower: bool,
    cursor: Cursor,
    unread: Vec<u8>,
    position: Offset,
    until: Offset,
    /// The least `until` of the pages of a state that it has begun with no keys.
    least: Option<Offset>,
    is_fresh: bool,
    /// The state, with the offset of each key's event. It is whole when the position is not before `until`.
    state: BTreeMap<String, (Offset, Json)>,
    begins_again: u32,
}

fn epoch() -> Epoch {
    Epoch::new(0x9f).expect("not 0")
}

fn topic() -> Topic {
    "cars".parse().expect("a topic")
}

fn feed(rng: &mut Rng) -> KeyedFeed {
    let history = HistoryBounds {
        events_max: 1 + rng.usize(0..40),
        bytes_max: 100 << rng.u32(0..8),
        age_us_max: u64::MAX,
    };
    let removals =
        RemovalBounds { age_us_max: 10 << rng.u32(0..8), count_max: 1 + rng.usize(0..20) };
    let feed = KeyedFeed::new(topic(), epoch(), 1, Offsets::Consecutive, history);
    feed.with_tail_bytes(16 << rng.u32(0..10)).with_removals(removals)
}

fn written(at: StartAt) -> StartAt {
    let mut text = Vec::new();
    at.write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    text.parse().expect("a start")
}

impl Owner {
    fn publish(&mut self, keys: usize, now_us: u64, rng: &mut Rng) {
        let head = self.published.0.len();
        let events = (head..head + rng.usize(1..8)).map(|number| {
            let key = format!("k{}\"", rng.usize(0..keys));
            let event = match rng.u8(0..4) {
                0 => Json::Null,
                _ => serde_json::json!({ "n": number, "pad": "x".repeat(rng.usize(0..30)) }),
            };
            (key, event)
        });
        let events: Vec<_> = events.collect();
        self.publish_all(events, now_us);
    }

    fn publish_all(&mut self, events: Vec<(String, Json)>, now_us: u64) {
        let mut payloads = Payloads::default();
        for (key, event) in events {
            let text = event.to_string();
            let write = |out: &mut Vec<u8>| {
                out.extend_from_slice(text.as_bytes());
                Ok::<_, ()>(())
            };
            payloads.push(write).expect("cannot fail");
            payloads.push_key(&key);
            self.published.0.push((key, event));
        }
        self.sequencer.append(&mut payloads, now_us);
        for batch in self.sequencer.seal(now_us) {
            self.feed.push(Arc::new(batch), now_us);
        }
        assert_eq!(self.feed.head(), self.published.head());
    }
}

impl Follower {
    /// Takes what the owner has posted.
    fn follow(&mut self, owner: &Owner, now_us: u64, rng: &mut Rng) -> bool {
        let next = self.cursor.next();
        let batches: Vec<Arc<Batch>> = owner.feed.batches_from(next).cloned().collect();
        let is_covered = next > 1 && batches.first().is_some_and(|batch| batch.start() <= next);
        if next == owner.feed.head() && next > 1 {
            return true;
        }
        if is_covered {
            batches.into_iter().for_each(|batch| self.feed.push(batch, now_us));
            self.cursor = Cursor::before(owner.feed.head());
            return true;
        }
        let (part, cursor) =
            owner.feed.state_part(&self.cursor, rng.usize(1..6), None).expect("a keyed topic");
        if part.from < next {
            return false;
        }
        self.feed.take_state(part, now_us);
        self.cursor = cursor;
        true
    }
}

impl Client {
    fn new(rng: &mut Rng) -> Self {
        Self {
            is_conflated: rng.bool(),
            on_follower: rng.bool(),
            cursor: Cursor::before(1),
            unread: Vec::new(),
            position: 0,
            until: 0,
            least: None,
            is_fresh: true,
            state: BTreeMap::new(),
            begins_again: 0,
        }
    }

    fn begin_again(&mut self) {
        self.cursor = Cursor::before(1);
        (self.position, self.until) = (0, 0);
        (self.least, self.is_fresh) = (None, true);
        self.state.clear();
        self.begins_again += 1;
    }

    /// The connection is cut.
    fn disconnect(&mut self, feed: &mut KeyedFeed) {
        if self.cursor.in_frame() {
            feed.unpin(&self.cursor);
        }
        self.unread.clear();
    }

    fn start(&mut self, feed: &KeyedFeed) {
        let position = Position { epoch: epoch(), offset: self.position };
        let least = self.least.filter(|_| self.is_fresh);
        let at = StartAt::after(position, least);
        assert_eq!(at, written(at), "its text means the same");
        match feed.start(at) {
            Start::At(cursor) => self.cursor = cursor,
            Start::Unknown(cursor) => {
                let lacks_none = least.map_or(0, |least| least + 1).max(self.position + 1);
                assert!(feed.complete_from() > lacks_none, "no reason to begin again");
                self.begin_again();
                self.cursor = cursor;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads what is next, as far as a socket takes it.
    fn read(&mut self, feed: &mut KeyedFeed, now_us: u64, rng: &mut Rng) -> bool {
        let encoding = Encoding::from(Format::NDJSON).conflated(self.is_conflated);
        let mut scratch = Vec::new();
        let frames = feed.frames(encoding);
        let (bytes, after) = match frames.next(&self.cursor, rng.bool(), &mut scratch) {
            Next::Hot(bytes, after) => (bytes.to_vec(), after),
            Next::Cold { before, events, after } => (
                scratch[..before].iter().chain(events).chain(&scratch[before..]).copied().collect(),
                after,
            ),
            Next::Unknown(cursor) => {
                let has_no_reason = feed.complete_from() <= self.cursor.next();
                assert!(!has_no_reason, "no reason to begin again");
                assert!(!self.cursor.in_frame());
                self.begin_again();
                self.cursor = cursor;
                return true;
            }
            Next::Unmade => {
                feed.make_frames(&self.cursor, encoding, now_us);
                return true;
            }
            Next::Nothing => return false,
            other => panic!("{other:?}"),
        };
        let taken = if rng.bool() { bytes.len() } else { rng.usize(1..=bytes.len()) };
        let before = self.cursor;
        self.cursor = if taken == bytes.len() { after } else { frames.advance(&before, taken) };
        if self.cursor.in_frame() {
            feed.pin(&self.cursor, Format::NDJSON);
        }
        if before.in_frame() {
            feed.unpin(&before);
        }
        self.unread.extend_from_slice(&bytes[..taken]);
        true
    }

    /// Applies the messages that are whole.
    fn apply(&mut self, published: &Published, wholes: &mut u64) {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let message: Json = serde_json::from_slice(&line).expect("JSON");
            let number = |name: &str| message.get(name).and_then(Json::as_u64);
            let position: Position =
                message["position"].as_str().expect("a text").parse().expect("valid");
            let (first, events) =
                (number("first").expect("a number"), message["events"].as_array().expect("a list"));
            let after = number("after").unwrap_or(first - 1);
            assert_eq!(after, self.position, "follows what the client has: {message}");
            assert!(position.offset > self.position, "moves on: {message}");
            let keys = message["keys"].as_array().expect("a list");
            assert_eq!(keys.len(), events.len());
            let offsets: Vec<Offset> = match message.get("offsets") {
                Some(offsets) => serde_json::from_value(offsets.clone()).expect("offsets"),
                None => (first..).take(events.len()).collect(),
            };
            let mut before = self.position;
            for ((offset, key), event) in offsets.iter().zip(keys).zip(events) {
                assert!(*offset > before && *offset <= position.offset);
                before = *offset;
                let key = key.as_str().expect("a text");
                assert_eq!(published.event(*offset), &(key.to_owned(), event.clone()));
                match event {
                    Json::Null => drop(self.state.remove(key)),
                    event => drop(self.state.insert(key.to_owned(), (*offset, event.clone()))),
                }
            }
            if let Some(until) = number("until") {
                assert!(until > position.offset && until < published.head());
                self.until = self.until.max(until);
            }
            // A page that was kept may have been made at an older head.
            let made_until = number("until").unwrap_or(position.offset);
            self.least = Some(self.least.map_or(made_until, |least| least.min(made_until)));
            self.position = position.offset;
            if self.position >= self.until {
                *wholes += 1;
                (self.least, self.is_fresh) = (None, false);
                let state: State = self
                    .state
                    .iter()
                    .map(|(key, (_, event))| (key.clone(), event.clone()))
                    .collect();
                assert_eq!(state, published.state_at(self.position), "at {}", self.position);
            }
        }
    }
}

#[derive(Default, Debug)]
struct Tally {
    wholes: u64,
    begun_again: u64,
    forgotten: u64,
    follower_restarts: u64,
    pinned: u64,
}

fn world(seed: u64, tally: &mut Tally) {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let bounds = BatchBounds { flush_us: 0, events_max: 1 + rng.usize(0..10), bytes_max: 2000 };
    let mut owner = Owner {
        feed: feed(rng),
        sequencer: Sequencer::new(epoch(), bounds),
        published: Published::default(),
    };
    owner.feed.open_tail(Format::NDJSON);
    let mut follower = Follower { feed: feed(rng), cursor: Cursor::before(1) };
    follower.feed.open_tail(Format::NDJSON);
    let mut clients: Vec<Client> = (0..rng.usize(1..6)).map(|_| Client::new(rng)).collect();
    let keys = 1 + rng.usize(0..30);
    let mut now_us = 1;
    let steps = rng.u32(20..200);
    for step in 0..steps + 5000 {
        let is_resting = step >= steps;
        now_us += rng.u64(0..20);
        if !is_resting && rng.u8(0..3) == 0 {
            owner.publish(keys, now_us, rng);
        }
        if (is_resting || rng.u8(0..4) == 0) && !follower.follow(&owner, now_us, rng) {
            // The owner makes the follower's readers connect again.
            tally.follower_restarts += 1;
            follower = Follower { feed: feed(rng), cursor: Cursor::before(1) };
            follower.feed.open_tail(Format::NDJSON);
            for client in clients.iter_mut().filter(|client| client.on_follower) {
                client.unread.clear();
                client.cursor = Cursor::before(client.position + 1);
                client.start(&follower.feed);
            }
        }
        if !is_resting && rng.u8(0..8) == 0 {
            owner.feed.sweep(now_us);
            follower.feed.sweep(now_us);
        }
        if !is_resting && rng.u8(0..20) == 0 {
            owner.feed.trim_all(rng.usize(0..2000), now_us);
        }
        let mut is_content = true;
        let head = owner.feed.head();
        for client in &mut clients {
            let cut = !is_resting && rng.u8(0..16) == 0;
            let moves = cut && rng.bool();
            let feed = if client.on_follower { &mut follower.feed } else { &mut owner.feed };
            if cut {
                client.disconnect(feed);
                client.on_follower ^= moves;
                let feed = if client.on_follower { &follower.feed } else { &owner.feed };
                client.start(feed);
                continue;
            }
            if is_resting || rng.bool() {
                let has_more = client.read(feed, now_us, rng);
                let has_all = client.cursor.next() >= head;
                is_content &= !has_more && has_all;
                tally.pinned += u64::from(feed.pinned_bytes() > 0);
            } else {
                is_content = false;
            }
            client.apply(&owner.published, &mut tally.wholes);
        }
        if is_resting && is_content && follower.cursor.next() == owner.feed.head() {
            break;
        }
    }
    for client in &clients {
        tally.begun_again += u64::from(client.begins_again);
        assert_eq!(client.position + 1, owner.published.head(), "has everything");
        assert!(client.position >= client.until, "has a whole state");
    }
    let keys: BTreeSet<_> =
        owner.published.state_at(owner.published.head() - 1).into_keys().collect();
    assert_eq!(owner.feed.retained_events(), keys.len());
    assert_eq!(owner.feed.pinned_bytes() + follower.feed.pinned_bytes(), 0);
    tally.forgotten += owner.feed.take_forgotten_early();
}

#[test]
fn a_whole_state_is_one_that_existed() {
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let run = std::panic::catch_unwind(move || {
            let mut tally = Tally::default();
            world(seed, &mut tally);
            tally
        });
        let Ok(one) = run else { panic!("seed {seed}") };
        tally.wholes += one.wholes;
        tally.begun_again += one.begun_again;
        tally.forgotten += one.forgotten;
        tally.follower_restarts += one.follower_restarts;
        tally.pinned += one.pinned;
    }
    println!("{tally:?}");
    let Tally { wholes, begun_again, forgotten, follower_restarts, pinned } = tally;
    assert!(wholes > 0 && begun_again > 0 && forgotten > 0 && follower_restarts > 0 && pinned > 0);
}

#[test]
fn a_reader_of_all_pages_does_not_begin_again_because_of_the_tail() {
    let history = HistoryBounds { events_max: 100, bytes_max: 100_000, age_us_max: u64::MAX };
    let removals = RemovalBounds { age_us_max: u64::MAX, count_max: 0 };
    let feed = KeyedFeed::new(topic(), epoch(), 1, Offsets::Consecutive, history);
    // A page has one event, and the tail a few.
    let mut feed = feed.with_tail_bytes(400).with_removals(removals);
    feed.open_tail(Format::NDJSON);
    let bounds = BatchBounds { flush_us: 0, events_max: 1, bytes_max: 100 };
    let mut sequencer = Sequencer::new(epoch(), bounds);
    for (key, event) in "abxycxyd".chars().zip([1, 1, 1, 1, 1, 0, 0, 1]) {
        let event: &[u8] = if event == 0 { b"null" } else { b"1" };
        let mut payloads = Payloads::default();
        let pushed = payloads.push(|out| {
            out.extend_from_slice(event);
            Ok::<_, ()>(())
        });
        pushed.expect("cannot fail");
        payloads.push_key(&key.to_string());
        sequencer.append(&mut payloads, 1);
        sequencer.seal(1).into_iter().for_each(|batch| feed.push(Arc::new(batch), 1));
    }
    feed.sweep(1);
    assert_eq!(feed.complete_from(), 8, "both removals are forgotten");

    let encoding = Encoding::from(Format::NDJSON);
    let mut cursor = Cursor::before(1);
    while cursor.next() < feed.head() {
        match feed.frames(encoding).next(&cursor, true, &mut Vec::new()) {
            Next::Hot(_, after) => cursor = after,
            Next::Unmade => drop(feed.make_frames(&cursor, encoding, 1)),
            other => panic!("{other:?} at {cursor:?}"),
        }
        if cursor.next() == 7 {
            feed.close_tail(Format::NDJSON);
        }
    }
}
