//! Subscribers whose filters select some keys: each has the state of these keys, and no more messages than necessary.

use std::{cell::Cell, io::IoSlice};

use thalweg_core::fanout::{
    Budget, ConnectionFraming, Delivered, FeedKey, Feeds, ResponseMode, Scratch, Sent, Sink,
    Subscribe, Subscriber, Terms,
};
use thalweg_wire::{KeyFilter, key::push_key};

use super::*;

const FORMAT: Format = Format::NDJSON;

const SEEDS: u64 = 3000;

/// The longest time without a message for a client whose keys do not change while others do, in µs.
const TOLD_US: u64 = 10_000_000;

/// The feeds of the owner and of its follower.
struct Both<'a>([&'a mut KeyedFeed; 2]);

impl Feeds for Both<'_> {
    type Feed = KeyedFeed;

    fn feed(&self, key: FeedKey) -> Option<&KeyedFeed> {
        Some(&*self.0[key as usize])
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut KeyedFeed> {
        Some(&mut *self.0[key as usize])
    }
}

/// A socket with room for so many bytes.
struct Socket<'a> {
    room: usize,
    taken: &'a mut Vec<u8>,
}

impl Sink for Socket<'_> {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let sent = all.len().min(self.room);
        self.room -= sent;
        self.taken.extend_from_slice(&all[..sent]);
        Sent::Bytes(sent)
    }
}

/// A client with a filter.
struct Reader {
    filter: Arc<KeyFilter>,
    terms: Terms,
    at: FeedKey,
    subscriber: Subscriber,
    unread: Vec<u8>,
    /// The next message is the first one of the connection.
    is_first: bool,
    has_position: bool,
    position: Offset,
    until: Offset,
    least: Option<Offset>,
    is_fresh: bool,
    state: State,
    told_us: u64,
    tally: Messages,
}

#[derive(Default, Debug, Clone, Copy)]
struct Messages {
    with_events: u64,
    gaps: u64,
    connects: u64,
    /// Messages without events that are no confirmations, and how many of them came after a long time.
    empty: u64,
    late: u64,
    wholes: u64,
    /// How often the client had everything, and was not told the newest position.
    silent: u64,
}

fn subscriber(feed: FeedKey, start: StartAt, terms: Terms, filter: &Arc<KeyFilter>) -> Subscriber {
    let framing = ConnectionFraming::new(FORMAT);
    let subscribe = Subscribe { feed, start, terms };
    let mut subscriber = Subscriber::new(FORMAT, b"", &[subscribe], ResponseMode::Endless, framing);
    subscriber.set_filter(feed, Arc::clone(filter));
    subscriber
}

fn filter(keys: &[&str], prefix: Option<&str>) -> Arc<KeyFilter> {
    Arc::new(KeyFilter::new(keys, prefix).expect("valid").expect("not empty"))
}

fn random_filter(keys: usize, rng: &mut Rng) -> Arc<KeyFilter> {
    let named: Vec<String> =
        (0..rng.usize(0..4)).map(|_| format!("k{}\"", rng.usize(0..keys + 2))).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let prefix = [None, Some("k"), Some("k1"), Some("k2"), Some("x")][rng.usize(0..5)];
    let prefix = prefix.or(named.is_empty().then_some("k0"));
    filter(&named, prefix)
}

impl Reader {
    fn new(filter: Arc<KeyFilter>, interval_us: u64, at: FeedKey) -> Self {
        let terms = Terms { interval_us, ..Terms::default() };
        Self {
            subscriber: subscriber(at, StartAt::Latest, terms, &filter),
            filter,
            terms,
            at,
            unread: Vec::new(),
            is_first: true,
            has_position: false,
            position: 0,
            until: 0,
            least: None,
            is_fresh: true,
            state: State::new(),
            told_us: 0,
            tally: Messages::default(),
        }
    }

    fn reconnect(&mut self, feeds: &mut Both<'_>, at: FeedKey) {
        self.subscriber.leave(feeds);
        let position = Position { epoch: epoch(), offset: self.position };
        let start = StartAt::after(position, self.least.filter(|_| self.is_fresh));
        let start = if self.has_position { start } else { StartAt::Latest };
        self.at = at;
        self.subscriber = subscriber(at, start, self.terms, &self.filter);
        self.unread.clear();
        self.is_first = true;
        self.tally.connects += 1;
    }

    /// Returns whether the client has everything, and knows its position.
    fn visit(
        &mut self,
        feeds: &mut Both<'_>,
        now_us: u64,
        room: usize,
        published: &Published,
    ) -> bool {
        let mut socket = Socket { room, taken: &mut self.unread };
        let budget = Budget { socket_bytes: 1000 };
        let mut scratch = Scratch::default();
        let delivered = self.subscriber.deliver(feeds, &mut socket, now_us, budget, &mut scratch);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            self.apply(&serde_json::from_slice(&line).expect("JSON"), published, now_us);
        }
        let (feed, tells_us) = (&*feeds.0[self.at as usize], self.subscriber.tells_us());
        let has_all = delivered == Delivered::CaughtUp(None) && self.has_position;
        self.tally.silent += u64::from(has_all && tells_us.is_some());
        // A client that is not told later knows that it has everything now.
        let is_told = has_all && tells_us.is_none();
        assert!(!is_told || feed.is_partial() || self.position + 1 >= feed.head());
        assert!(tells_us.is_none_or(|tells_us| tells_us <= now_us + TOLD_US));
        is_told
    }

    fn apply(&mut self, message: &Json, published: &Published, now_us: u64) {
        let position: Position =
            message["position"].as_str().expect("a text").parse().expect("valid");
        let is_first = std::mem::replace(&mut self.is_first, false);
        self.has_position = true;
        if message.get("gap").is_some() {
            assert_eq!(position.offset, 0, "{message}");
            self.tally.gaps += 1;
            self.state.clear();
            (self.position, self.until, self.told_us) = (0, Offset::MAX, now_us);
            (self.least, self.is_fresh) = (None, true);
            return;
        }
        if self.until == Offset::MAX {
            // The message after a gap.
            self.until = 0;
        }
        let number = |name: &str| message.get(name).and_then(Json::as_u64);
        let (first, events) =
            (number("first").expect("a number"), message["events"].as_array().expect("a list"));
        let after = number("after").unwrap_or(first - 1);
        assert_eq!(after, self.position, "follows what the client has: {message}");
        let keys = message["keys"].as_array().expect("a list");
        let offsets: Vec<Offset> = match message.get("offsets") {
            Some(offsets) => serde_json::from_value(offsets.clone()).expect("offsets"),
            None => (first..).take(events.len()).collect(),
        };
        for ((offset, key), event) in offsets.iter().zip(keys).zip(events) {
            let key = key.as_str().expect("a text");
            assert!(is_selected(&self.filter, key), "{key}");
            assert_eq!(published.event(*offset), &(key.to_owned(), event.clone()));
            match event {
                Json::Null => drop(self.state.remove(key)),
                event => drop(self.state.insert(key.to_owned(), event.clone())),
            }
        }
        match events.is_empty() {
            _ if is_first => assert_eq!(position.offset, self.position),
            true => {
                self.tally.empty += 1;
                self.tally.late += u64::from(now_us >= self.told_us + TOLD_US);
            }
            false => self.tally.with_events += 1,
        }
        self.told_us = now_us;
        self.until = self.until.max(number("until").unwrap_or(0));
        let made_until = number("until").unwrap_or(position.offset);
        self.least = Some(self.least.map_or(made_until, |least| least.min(made_until)));
        self.position = position.offset;
        if self.position >= self.until {
            self.tally.wholes += 1;
            (self.least, self.is_fresh) = (None, false);
            self.check_state(published, self.position);
        }
    }

    fn check_state(&self, published: &Published, offset: Offset) {
        let mut expected = published.state_at(offset);
        expected.retain(|key, _| is_selected(&self.filter, key));
        assert_eq!(self.state, expected, "{:?} at {offset}", self.filter);
    }

    /// Checks that the client, which has everything, knows this. `jumps`: how often the longest time without a message has passed.
    fn check_end(&self, published: &Published, jumps: u64) {
        assert_eq!(self.position + 1, published.head());
        assert!(self.position >= self.until, "{} {}", self.position, self.until);
        self.check_state(published, published.head() - 1);
        let Messages { with_events, gaps, connects, empty, .. } = self.tally;
        assert!(empty <= jumps + with_events + gaps + connects + 1, "{:?}", self.tally);
    }
}

fn is_selected(filter: &KeyFilter, key: &str) -> bool {
    let mut json = Vec::new();
    push_key(key, &mut json);
    filter.matches(&json)
}

fn owner(feed: KeyedFeed, events_max: usize) -> Owner {
    let bounds = BatchBounds { flush_us: 0, events_max, bytes_max: 2000 };
    Owner { feed, sequencer: Sequencer::new(epoch(), bounds), published: Published::default() }
}

fn world(seed: u64) -> Messages {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let mut owner = owner(feed(rng), 1 + rng.usize(0..10));
    let mut follower = Follower { feed: feed(rng), cursor: Cursor::before(1) };
    let keys = 1 + rng.usize(0..30);
    let mut readers: Vec<Reader> = (0..rng.usize(1..6))
        .map(|_| {
            let interval_us = [0, 0, 5, 10_000][rng.usize(0..4)];
            Reader::new(random_filter(keys, rng), interval_us, rng.u32(0..2))
        })
        .collect();
    let (mut now_us, mut jumps) = (1, 0);
    let steps = rng.u32(20..200);
    for step in 0..steps + 5000 {
        let is_resting = step >= steps;
        now_us += match rng.u8(0..40) {
            0 => {
                jumps += 1;
                TOLD_US
            }
            1 => 10_000,
            _ => rng.u64(0..20),
        };
        if !is_resting && rng.u8(0..3) == 0 {
            owner.publish(keys, now_us, rng);
        }
        let mut has_left = false;
        if (is_resting || rng.u8(0..4) == 0) && !follower.follow(&owner, now_us, rng) {
            has_left = true;
            follower = Follower { feed: feed(rng), cursor: Cursor::before(1) };
        }
        if !is_resting && rng.u8(0..8) == 0 {
            owner.feed.sweep(now_us);
            follower.feed.sweep(now_us);
        }
        if !is_resting && rng.u8(0..20) == 0 {
            owner.feed.trim_all(rng.usize(0..2000), now_us);
        }
        let head = owner.feed.head();
        let mut is_content = follower.feed.head() == head && !follower.feed.is_partial();
        let mut feeds = Both([&mut owner.feed, &mut follower.feed]);
        for reader in &mut readers {
            let is_cut = !is_resting && rng.u8(0..16) == 0;
            if has_left && reader.at == 1 {
                reader.subscriber = subscriber(1, StartAt::Latest, reader.terms, &reader.filter);
                reader.reconnect(&mut feeds, 1);
            } else if is_cut {
                let at = if rng.bool() { reader.at } else { 1 - reader.at };
                reader.reconnect(&mut feeds, at);
            }
            let room = if is_resting || rng.bool() { usize::MAX } else { rng.usize(0..300) };
            if is_resting || rng.bool() {
                is_content &= reader.visit(&mut feeds, now_us, room, &owner.published);
            } else {
                is_content = false;
            }
        }
        if is_resting && is_content {
            break;
        }
    }
    let mut all = Messages::default();
    for reader in &mut readers {
        reader.check_end(&owner.published, jumps);
        let one = reader.tally;
        all = Messages {
            with_events: all.with_events + one.with_events,
            gaps: all.gaps + one.gaps,
            connects: all.connects + one.connects,
            empty: all.empty + one.empty,
            late: all.late + one.late,
            wholes: all.wholes + one.wholes,
            silent: all.silent + one.silent,
        };
        reader.subscriber.leave(&mut Both([&mut owner.feed, &mut follower.feed]));
    }
    assert_eq!(owner.feed.pinned_bytes() + follower.feed.pinned_bytes(), 0);
    all
}

#[test]
fn a_filter_selects_the_state_of_its_keys() {
    let mut sum = [0; 4];
    for seed in 0..SEEDS {
        let Ok(one) = std::panic::catch_unwind(move || world(seed)) else { panic!("seed {seed}") };
        for (sum, one) in sum.iter_mut().zip([one.wholes, one.gaps, one.late, one.silent]) {
            *sum += one;
        }
    }
    println!("whole states, gaps, messages after a long time, silent moves: {sum:?}");
    assert!(sum.iter().all(|sum| *sum > 0), "{sum:?}");
}

#[test]
fn a_large_state_comes_in_several_reads() {
    let history = HistoryBounds { events_max: 10, bytes_max: 1000, age_us_max: u64::MAX };
    let feed = KeyedFeed::new(topic(), epoch(), 1, Offsets::Consecutive, history);
    let mut owner = owner(feed, 1000);
    let named = |letter: char, count: usize| {
        (0..count).map(move |number| (format!("{letter}{number}"), Json::from(number)))
    };
    // More keys than one read looks up, and the last read finds none.
    owner
        .publish_all(named('b', 6000).chain(named('a', 5000)).chain(named('b', 9000)).collect(), 1);
    let mut other = feed_of_nothing();
    let mut feeds = Both([&mut owner.feed, &mut other]);
    let mut reader = Reader::new(filter(&["b1"], Some("a")), 0, 0);
    let visits = |reader: &mut Reader, feeds: &mut Both<'_>| {
        let mut visits = 1;
        while !reader.visit(feeds, 1, usize::MAX, &owner.published) {
            visits += 1;
        }
        visits
    };
    assert!(visits(&mut reader, &mut feeds) > 3);
    assert_eq!(reader.position + 1, owner.published.head(), "it knows that its state is whole");
    assert_eq!(reader.state.len(), 5001);
    reader.check_end(&owner.published, 0);

    // A client that was cut off learns the same.
    let mut reader = Reader::new(filter(&["b1"], Some("a")), 0, 0);
    while reader.state.len() < 5000 {
        reader.visit(&mut feeds, 1, usize::MAX, &owner.published);
        reader.reconnect(&mut feeds, 0);
    }
    visits(&mut reader, &mut feeds);
    reader.check_end(&owner.published, 0);
}

/// Topics that count how often a subscriber looks at one of them.
struct Counted {
    owners: Vec<Owner>,
    looks: Cell<usize>,
}

impl Feeds for Counted {
    type Feed = KeyedFeed;

    fn feed(&self, key: FeedKey) -> Option<&KeyedFeed> {
        self.looks.update(|looks| looks + 1);
        Some(&self.owners[key as usize].feed)
    }

    fn feed_mut(&mut self, key: FeedKey) -> Option<&mut KeyedFeed> {
        Some(&mut self.owners[key as usize].feed)
    }
}

impl Counted {
    fn new(topics: usize) -> Self {
        let history = HistoryBounds { events_max: 10, bytes_max: 1000, age_us_max: u64::MAX };
        let feed = || KeyedFeed::new(topic(), epoch(), 1, Offsets::Consecutive, history);
        Self { owners: (0..topics).map(|_| owner(feed(), 10)).collect(), looks: Cell::new(0) }
    }

    fn publish_all(&mut self, key: &str, now_us: u64) {
        for owner in &mut self.owners {
            owner.publish_all(vec![(key.to_owned(), Json::from(now_us))], now_us);
        }
    }
}

/// Returns the lines that a visit sends, and its end.
fn visit(
    subscriber: &mut Subscriber,
    feeds: &mut Counted,
    now_us: u64,
) -> (Vec<String>, Delivered) {
    let mut taken = Vec::new();
    let mut socket = Socket { room: usize::MAX, taken: &mut taken };
    let budget = Budget { socket_bytes: 1 << 20 };
    let end = subscriber.deliver(feeds, &mut socket, now_us, budget, &mut Scratch::default());
    let text = String::from_utf8(taken).expect("UTF-8");
    (text.lines().map(str::to_owned).collect(), end)
}

fn reader_of_all(feeds: &Counted, start: StartAt, mode: ResponseMode) -> Subscriber {
    let all = 0..feeds.owners.len() as FeedKey;
    let all: Vec<Subscribe> =
        all.map(|feed| Subscribe { feed, start, terms: Terms::default() }).collect();
    let mut subscriber = Subscriber::new(FORMAT, b"", &all, mode, ConnectionFraming::new(FORMAT));
    let filter = filter(&["own"], None);
    all.iter().for_each(|one| subscriber.set_filter(one.feed, Arc::clone(&filter)));
    subscriber
}

fn after(offset: Offset) -> StartAt {
    StartAt::After(Position { epoch: epoch(), offset })
}

#[test]
fn a_visit_looks_at_each_topic_a_few_times_if_no_event_is_selected() {
    const TOPICS: usize = 200;
    let mut feeds = Counted::new(TOPICS);
    let mut reader = reader_of_all(&feeds, StartAt::Latest, ResponseMode::Endless);
    assert_eq!(visit(&mut reader, &mut feeds, 1).0.len(), TOPICS);
    feeds.publish_all("other", 2);
    for now_us in [2, 1 + TOLD_US] {
        feeds.looks.set(0);
        let (lines, end) = visit(&mut reader, &mut feeds, now_us);
        assert_eq!(
            (lines.len(), end),
            (if now_us > 2 { TOPICS } else { 0 }, Delivered::CaughtUp(None))
        );
        assert!(feeds.looks.get() <= 12 * TOPICS, "{:?}", feeds.looks);
    }
}

#[test]
fn a_client_learns_its_position_in_time() {
    let mut feeds = Counted::new(1);
    feeds.publish_all("own", 1);
    let mut reader = reader_of_all(&feeds, StartAt::Latest, ResponseMode::Endless);
    assert_eq!(visit(&mut reader, &mut feeds, 1).0.len(), 2, "the confirmation, and the key");
    assert_eq!(reader.tells_us(), None);
    feeds.publish_all("other", 2);
    assert_eq!(visit(&mut reader, &mut feeds, 2).0.len(), 0);
    assert_eq!(reader.lag_on(&feeds, 0), 0, "it needs no event");
    let due_us = reader.tells_us().expect("a time");
    assert_eq!(due_us, 1 + TOLD_US);
    assert_eq!(visit(&mut reader, &mut feeds, due_us - 1).0.len(), 0);
    let (lines, _) = visit(&mut reader, &mut feeds, due_us);
    assert!(lines.len() == 1 && lines[0].contains(".2\",\"first\":3,\"after\":1,"), "{lines:?}");
    assert_eq!(reader.tells_us(), None);

    // A client that resumes may wait for a position that an earlier connection has told it.
    let mut reader = reader_of_all(&feeds, after(1), ResponseMode::Endless);
    assert_eq!(visit(&mut reader, &mut feeds, 3).0.len(), 2, "the confirmation, and the position");
    feeds.publish_all("other", 4);
    assert_eq!(visit(&mut reader, &mut feeds, 4).0.len(), 0);
    assert_eq!(reader.tells_us(), Some(3 + TOLD_US));
}

#[test]
fn a_poll_waits_for_its_keys_and_learns_its_position_when_it_ends() {
    let mut feeds = Counted::new(2);
    feeds.publish_all("own", 1);
    feeds.publish_all("other", 2);
    let mut poll = reader_of_all(&feeds, after(1), ResponseMode::Once);
    assert_eq!(visit(&mut poll, &mut feeds, 2).0.len(), 2, "the confirmations");
    feeds.publish_all("other", 3);
    let late_us = 5 * TOLD_US;
    assert_eq!(visit(&mut poll, &mut feeds, late_us), (vec![], Delivered::CaughtUp(None)));
    assert_eq!(poll.tells_us(), None);
    assert!(poll.tell_positions());
    let (lines, end) = visit(&mut poll, &mut feeds, late_us);
    assert_eq!(end, Delivered::Closed);
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(".3\",")), "{lines:?}");

    let mut poll = reader_of_all(&feeds, after(3), ResponseMode::Once);
    assert!(poll.tell_positions());
    let (lines, end) = visit(&mut poll, &mut feeds, late_us);
    assert_eq!((lines.len(), end), (2, Delivered::CaughtUp(None)), "it has the newest position");
    feeds.publish_all("own", late_us);
    assert_eq!(visit(&mut poll, &mut feeds, late_us).1, Delivered::Closed);
}

#[test]
fn a_poll_that_ends_with_an_event_tells_the_positions_of_all_topics() {
    let mut feeds = Counted::new(3);
    feeds.publish_all("other", 1);
    let mut poll = reader_of_all(&feeds, after(1), ResponseMode::Once);
    assert_eq!(visit(&mut poll, &mut feeds, 1).0.len(), 3, "the confirmations");
    feeds.publish_all("other", 2);
    feeds.owners[0].publish_all(vec![("own".to_owned(), Json::from(3))], 3);
    let (lines, end) = visit(&mut poll, &mut feeds, 3);
    assert_eq!((lines.len(), end), (3, Delivered::Closed), "{lines:?}");
    assert!(lines[0].contains("\"own\""), "{lines:?}");
    let is_position = |line: &String| line.contains(".2\",\"first\":3,\"after\":1,");
    assert!(lines[1..].iter().all(is_position), "{lines:?}");
}

fn feed_of_nothing() -> KeyedFeed {
    let history = HistoryBounds { events_max: 1, bytes_max: 1, age_us_max: 1 };
    KeyedFeed::new(topic(), epoch(), 1, Offsets::Consecutive, history)
}
