//! Topics of one shard, with a broker that holds its records in memory.

use std::{sync::Arc, time::Duration};

use thalweg_broker::{Append, AppendError, Content, News as LogNews, RecordLog, Stream};
use thalweg_core::stream::FeedKind;
use thalweg_wire::Pattern;
use tokio::sync::mpsc;

use super::*;
use crate::{
    broker::{BrokerLink, BrokerStream, FromBroker, PublishTerms, Read, Readiness, Store},
    config::{
        Config, GROUP_ROWS_SHARE, LEFT_MEMBERS_MAX, Limits, MEMBERS_COMPARED_MAX, MEMBERS_MAX,
        NODES_TOPIC, Presence, PresenceOf, SharedTopics, TopicSettings,
    },
    connection_limits::{AddressCounts, AddressRates},
    metrics::Metrics,
    rates::AllRates,
    shard::{
        common::Peer,
        ingest::IdempotencyHasher,
        message::{Member, MemberChange},
    },
    source::Inputs,
};

const ROOM: &str = "room";
const PRESENCE: &str = "presence/room";

/// The shard of a node that shares members.
struct SharingShard {
    topics: Topics,
    log: RecordLog,
    /// The next offset that the broker delivers.
    next: Offset,
    /// Whether the broker is not available.
    is_away: bool,
    stores: mpsc::Receiver<Store>,
    reads: mpsc::Receiver<Read>,
    answers: mpsc::UnboundedReceiver<FromBroker>,
    /// A time in the past, which sweeps move on.
    now_us: u64,
}

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

fn number(key: &str) -> u64 {
    key.bytes().fold(0, |number, byte| number * 16 + u64::from(byte % 16))
}

impl SharingShard {
    fn new(history_bytes: usize) -> Self {
        let presence = Some(Presence { of: PresenceOf::Users, grace_us: 0 });
        let settings = TopicSettings { presence, ..TopicSettings::default() };
        let limits = Limits { history_bytes, ..Limits::default() };
        let topics = vec![(ROOM.parse::<Pattern>().expect("a pattern"), settings)];
        let config = Arc::new(Config { shards: 1, topics, limits, ..Config::default() });
        let epoch = Epoch::new(7).expect("not 0");
        let log = RecordLog::new(epoch).with_spacing(256).with_keyed([0]);
        let pattern = "presence/**".parse().expect("a pattern");
        let stream = Stream::new(pattern, FeedKind::Keyed, epoch, log.head());
        let stream = Stream { is_shared: true, ..stream };
        let (to_stores, stores) = mpsc::channel(64);
        let (to_reads, reads) = mpsc::channel(64);
        let (to_answers, answers) = mpsc::unbounded_channel();
        let readiness = Readiness::default();
        let broker = BrokerLink { stores: to_stores, reads: to_reads, lists: None, readiness };
        let peer = Peer {
            messages: mpsc::channel(1).0,
            publishes: mpsc::channel(1).0,
            from_broker: mpsc::channel(1).0,
            read_topics: Arc::default(),
            answers: to_answers,
        };
        let metrics = Metrics::new("", 1, vec![Pattern::all()], std::iter::empty(), Vec::new());
        let counts = metrics.shard_counts(0);
        let common = Common {
            config,
            metrics,
            peers: vec![peer],
            ad_hoc: Arc::default(),
            inputs: Arc::new(Inputs::new(&[], std::iter::empty())),
            idempotency_hasher: IdempotencyHasher::default(),
            samples: Arc::default(),
            shares: Arc::new(AddressCounts::new(1)),
            rates: Arc::new(AllRates::new(&limits)),
            fetched_rates: Arc::new(AddressRates::new(1)),
            demands: None,
            streams: [BrokerStream { stream, broker: 0, index: 0, can_compare: true }].into(),
            shared_topics: Arc::new(SharedTopics::default()),
            brokers: [broker].into(),
            open_sockets: Arc::default(),
            traces: Arc::default(),
            presence_nodes: Arc::default(),
        };
        let topics = Topics::new(0, common, &counts);
        let (next, now_us) = (log.head(), now_us().saturating_sub(300_000_000));
        let mut shard = Self { topics, log, next, is_away: false, stores, reads, answers, now_us };
        // It is listed among those that run.
        shard.pass_seconds(3);
        shard
    }

    /// Lets the broker answer and deliver, until nothing happens any more.
    fn settle(&mut self) {
        loop {
            self.topics.seal(now_us());
            let mut is_done = self.topics.post_to_broker();
            while let Ok(Read { range, reply, .. }) = self.reads.try_recv() {
                is_done = false;
                // Without an answer the shard asks again a second later.
                if !self.is_away {
                    reply.send(self.log.read(&range));
                }
            }
            while let Ok(Store { append, after, reply, .. }) = self.stores.try_recv() {
                is_done = false;
                reply.send(match self.is_away {
                    true => Err(AppendError::Unavailable),
                    false => {
                        let answer = self.log.answer(&append, after);
                        answer.unwrap_or_else(|| Ok(self.log.push(append)))
                    }
                });
            }
            while !self.is_away
                && let LogNews::Record { record, .. } = self.log.news(self.log.epoch(), self.next)
            {
                is_done = false;
                self.next = record.end();
                self.topics.receive_from_broker(FromBroker::Records(vec![record]));
            }
            while let Ok(answer) = self.answers.try_recv() {
                is_done = false;
                self.topics.receive_from_broker(answer);
            }
            if is_done {
                return;
            }
        }
    }

    fn pass_seconds(&mut self, count: usize) {
        for _ in 0..count {
            self.now_us += 1_000_000;
            self.topics.sweep(self.now_us);
            self.settle();
        }
    }

    /// Publishes events of keys, as another server does.
    fn publish(&mut self, name: &str, events: impl Iterator<Item = (String, &'static str)>) {
        let events: Vec<_> = events.collect();
        for events in events.chunks(256) {
            let mut payloads = Payloads::default();
            events.iter().for_each(|(key, event)| payloads.push_keyed(key, event.as_bytes()));
            let (topic, content) = (topic(name), Content::Events(payloads));
            self.log.push(Append { stream: 0, topic, content, key: None, waited: Duration::ZERO });
        }
        self.settle();
    }

    /// Lists members of another server.
    fn publish_members(&mut self, count: usize) {
        let event = r#"{"on":["other"],"since":1}"#;
        self.publish(PRESENCE, (0..count).map(|nth| (format!("other{nth}"), event)));
    }

    fn change(&mut self, change: MemberChange) {
        self.topics.change_member(&topic(ROOM), change, self.now_us);
    }

    fn join(&mut self, key: &str) {
        let connection = number(key);
        let member = Member { connection, key: key.into(), user: Box::default(), info: None };
        self.change(MemberChange::Joined(member));
    }

    fn leave(&mut self, key: &str) {
        self.change(MemberChange::Left(key.into(), number(key)));
        self.topics.seal(now_us());
    }

    /// Subscribes to a topic.
    fn read(&mut self, name: &str) -> FeedKey {
        let key = self.topics.open_subscribed(&topic(name), None).expect("room");
        self.topics.feeds.get_mut(key).expect("the topic").join(1, Format::SSE);
        self.topics.want_backfill(key, 1, Some(1));
        self.settle();
        key
    }

    fn feed(&self) -> Option<&AnyFeed> {
        let key = self.topics.find(&topic(PRESENCE))?;
        self.topics.feeds.get(key)?.feed.as_ref()
    }

    /// Returns the number of members of all servers.
    fn listed(&self) -> usize {
        self.feed().map_or(0, |feed| feed.retained_events())
    }

    /// Returns the number of members whose events wait for the broker.
    fn noted(&self) -> usize {
        let changed = self.topics.members.shared.changed.get(&topic(ROOM));
        changed.map_or(0, |changed| changed.keys.len())
    }
}

#[test]
fn members_that_change_while_the_broker_is_away_take_a_bounded_memory_and_are_right_afterwards() {
    let mut shard = SharingShard::new(1 << 30);
    let left = LEFT_MEMBERS_MAX + 2000;
    (0..left).for_each(|nth| shard.join(&format!("left{nth}")));
    shard.join("stays");
    shard.settle();
    shard.pass_seconds(1);
    assert_eq!((shard.listed(), shard.noted()), (left + 1, 0));
    shard.is_away = true;
    (0..left).for_each(|nth| shard.leave(&format!("left{nth}")));
    assert!(shard.noted() <= LEFT_MEMBERS_MAX, "{} members", shard.noted());
    assert_eq!(shard.topics.counts.members_unnoted.get(), 1);
    shard.pass_seconds(3);
    // Members that no other server has seen are forgotten when they leave.
    let noted = shard.noted();
    for nth in 0..2 * LEFT_MEMBERS_MAX {
        let key = format!("visitor{nth}");
        shard.join(&key);
        shard.leave(&key);
    }
    shard.join("came");
    shard.pass_seconds(3);
    assert!(shard.noted() <= noted + 300, "{} members, {noted} before", shard.noted());
    // One of them may have been sent.
    assert!(shard.topics.counts.members_unnoted.get() <= 2);
    shard.is_away = false;
    shard.pass_seconds(10);
    let feed = shard.feed().expect("it has members");
    assert!([r#""stays""#, r#""came""#].iter().all(|key| {
        feed.keyed_event(key.as_bytes()).is_some_and(|newest| !newest.is_removal())
    }));
    assert_eq!((shard.listed(), shard.noted()), (2, 0));
}

#[test]
fn the_members_of_a_server_that_has_gone_are_compared_in_steps_and_not_every_second() {
    let mut shard = SharingShard::new(1 << 30);
    let count = 2 * MEMBERS_COMPARED_MAX + 1000;
    shard.publish(NODES_TOPIC, [("other".to_owned(), "{}")].into_iter());
    shard.read(PRESENCE);
    shard.publish_members(count);
    let compared = |shard: &SharingShard| shard.topics.counts.members_compared.get() as usize;
    shard.pass_seconds(60);
    assert_eq!(shard.listed(), count);
    let when_read = compared(&shard);
    // Once when the state is here, and once 30 seconds later.
    assert!((count..=2 * count).contains(&when_read), "{when_read}");
    shard.publish(NODES_TOPIC, [("other".to_owned(), "null")].into_iter());
    for _ in 0..60 {
        let before = compared(&shard);
        shard.pass_seconds(1);
        assert!(compared(&shard) - before <= MEMBERS_COMPARED_MAX);
    }
    assert_eq!(shard.listed(), 0);
    assert!(compared(&shard) - when_read <= 3 * count, "{}", compared(&shard) - when_read);
    assert!(shard.topics.counts.members_compared_later.get() > 0);
}

#[test]
fn a_comparison_of_members_goes_on_although_removals_are_forgotten() {
    let mut shard = SharingShard::new(1 << 30);
    shard.publish(NODES_TOPIC, ["other", "gone"].map(|id| (id.to_owned(), "{}")).into_iter());
    shard.read(PRESENCE);
    let count = 2 * MEMBERS_COMPARED_MAX;
    shard.publish_members(count);
    // A comparison gets here in its third step.
    shard.publish(PRESENCE, [("last".to_owned(), r#"{"on":["gone"],"since":1}"#)].into_iter());
    shard.pass_seconds(1);
    shard.publish(NODES_TOPIC, [("gone".to_owned(), "null")].into_iter());
    for nth in 0..15 {
        shard.publish(PRESENCE, [(format!("left{nth}"), "null")].into_iter());
        shard.topics.forget_all_removals(shard.now_us);
        shard.pass_seconds(1);
    }
    assert_eq!(shard.listed(), count);
}

#[test]
fn the_members_of_other_servers_count_towards_the_memory_of_keys() {
    let mut shard = SharingShard::new(1 << 20);
    let key = shard.read(PRESENCE);
    shard.publish_members(6000);
    shard.pass_seconds(1);
    let (bytes, bytes_max) = (shard.topics.keyed_bytes, shard.topics.keyed_bytes_max());
    let state_bytes = shard.feed().map_or(0, |feed| feed.state_bytes());
    assert!(state_bytes > bytes_max && bytes >= state_bytes, "{state_bytes} of {bytes}");
    shard.join("new");
    assert_eq!(shard.topics.counts.members_refused.get(), 1);
    shard.leave("new");
    shard.topics.feeds.get_mut(key).expect("the topic").leave(0, Format::SSE);
    shard.pass_seconds(1);
    assert!(shard.feed().is_none() && shard.topics.keyed_bytes < bytes_max);
    assert_eq!(shard.topics.counts.topics_evicted.get(), 1);
}

#[test]
fn the_memory_of_keys_is_counted_less_often_if_there_are_many_topics() {
    let mut shard = SharingShard::new(1 << 20);
    let key = shard.read(PRESENCE);
    shard.publish_members(6000);
    shard.pass_seconds(1);
    let mut payloads = Payloads::default();
    payloads.push_keyed("new", b"1");
    // Publishes are refused for a second.
    let counts = |shard: &mut SharingShard, begin_us: u64| {
        let mut counts: Vec<u64> = (0..100)
            .map(|nth| {
                let (terms, now_us) = (PublishTerms::default(), begin_us + nth * 10_000);
                assert!(shard.topics.check_room(key, &payloads, &terms, now_us).is_err());
                shard.topics.recount_us
            })
            .collect();
        counts.dedup();
        counts.len()
    };
    let begin_us = now_us();
    assert_eq!(counts(&mut shard, begin_us), 100);
    for nth in 0..20_000 {
        let topic = topic(&format!("topics/{nth}"));
        shard.topics.open(&topic, Creator::Publisher).expect("room");
    }
    let count = counts(&mut shard, begin_us + 2_000_000);
    assert!((30..=50).contains(&count), "{count}");
}

#[test]
fn the_members_of_other_servers_count_towards_the_limit_of_a_topic() {
    let mut shard = SharingShard::new(1 << 30);
    shard.read(PRESENCE);
    shard.publish_members(MEMBERS_MAX - 1);
    for (key, refused) in [("new", 0), ("newer", 1), ("other7", 1), ("new", 1)] {
        shard.join(key);
        shard.settle();
        assert_eq!(shard.topics.counts.members_refused.get(), refused, "{key}");
    }
    shard.pass_seconds(1);
    assert_eq!(shard.listed(), MEMBERS_MAX);
    shard.join("newest");
    assert_eq!(shard.topics.counts.members_refused.get(), 2);
}

#[test]
fn the_rows_of_a_topic_that_has_ended_do_not_count_for_the_next_one() {
    let row: &[u8] = br#"{"car":"a","count":1}"#;
    let mut shard = SharingShard::new(1 << 30);
    let next = |shard: &mut SharingShard| {
        let topic = topic("query/keyed/1");
        if let Some(key) = shard.topics.find(&topic) {
            shard.topics.end(key, Ending::Restarted, shard.now_us);
        }
        let key = shard.topics.open(&topic, Creator::Publisher).expect("room");
        // A slow reader keeps it.
        shard.topics.feeds.get_mut(key).expect("the topic").join(1, Format::SSE);
        let rows = shard.topics.derived(key).expect("a query makes its events");
        rows.push_keyed(1, ("a", row), 0, shard.now_us);
        shard.topics.settle(key, shard.now_us);
        shard.pass_seconds(1);
        shard.topics.row_bytes[1]
    };
    let bytes = next(&mut shard);
    assert!(bytes > 0);
    assert_eq!(next(&mut shard), bytes);
    // Those that have ended take no more than other rows.
    // There is room for five rows.
    let mut shard = SharingShard::new(5 * bytes * GROUP_ROWS_SHARE);
    let rows: Vec<usize> = (0..10).map(|_| next(&mut shard)).collect();
    assert_eq!(rows[..6], [bytes; 6]);
    assert_eq!(rows[6..], [2 * bytes, 3 * bytes, 4 * bytes, 5 * bytes]);
    assert!(!shard.topics.has_room_for_rows(true) && shard.topics.has_room_for_rows(false));
}
