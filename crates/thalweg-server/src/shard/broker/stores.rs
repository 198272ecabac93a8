//! Publishes to broker topics: their way to the broker, and the answers to publishers.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use thalweg_broker::{Append, AppendError, Content, Stored};
use thalweg_core::{
    fanout::FeedKey,
    stream::{Answered, AnyFeed, Appended, Feed as _, Mark, Message, Outbox, Outcome, Payloads},
};
use thalweg_wire::{EndCode, ErrorCode, Offset, Topic};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    BrokerTopics,
    order::{BrokerOrder, SingleMessage},
    store_answer::StoreAnswer,
};
use crate::{
    broker::{BrokerLink, BrokerReply, FromBroker, Store, StoreCaller},
    clock::now_us,
    config::UNSTORED_BYTES_MAX,
    metrics::Counts,
    refusal::Refusal,
    shard::{common::push_once, publish_result::PublishResult},
};

#[derive(Debug)]
pub(in crate::shard) struct Stores {
    queues: Vec<Queue>,
    answers: mpsc::UnboundedSender<FromBroker>,
    /// Bytes of events and keys that are not stored yet.
    bytes: usize,
    /// Bytes of publishes that wait in front of the outboxes of keyed topics.
    waiting_bytes: usize,
    /// The number of messages sent to brokers, and of those without an answer.
    posted: u64,
    in_flight: usize,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Store>,
    /// Topics with a message that is due.
    unposted: VecDeque<FeedKey>,
    /// Whether the broker was found to have ended.
    has_ended: bool,
}

impl Stores {
    pub(in crate::shard) fn new(
        brokers: &[BrokerLink],
        answers: mpsc::UnboundedSender<FromBroker>,
        counts: &Arc<Counts>,
    ) -> Self {
        let queue = |link: &BrokerLink| Queue {
            sender: link.stores.clone(),
            unposted: VecDeque::new(),
            has_ended: false,
        };
        let (queues, counts) = (brokers.iter().map(queue).collect(), Arc::clone(counts));
        Self { queues, answers, bytes: 0, waiting_bytes: 0, posted: 0, in_flight: 0, counts }
    }

    /// Adds a publish to a topic's outbox. Returns `false` if too many bytes wait.
    pub(in crate::shard) fn push(
        &mut self,
        key: FeedKey,
        (feed, order): (&AnyFeed, &mut BrokerOrder),
        payloads: &mut Payloads,
        mark: Option<SingleMessage>,
        answer: StoreAnswer,
    ) -> bool {
        if payloads.is_empty()
            && !matches!(
                mark,
                Some(
                    SingleMessage::Gone(_) | SingleMessage::Deleted | SingleMessage::Paused { .. }
                )
            )
        {
            let (epoch, head) = (feed.epoch(), feed.head());
            let appended = Appended { first: head, end: head };
            answer.send(Ok(PublishResult { epoch, appended, count: 0, replayed: false }));
            return true;
        }
        let bytes_max = order.outbox.bounds().bytes_max;
        if payloads.iter().any(|event| event.len() > bytes_max) {
            let message = format!(
                "the event is larger than {bytes_max} bytes, the maximum for this topic: make it smaller, or, with NATS, raise max_payload of its servers"
            );
            payloads.clear();
            answer.send(Err(Refusal::new(ErrorCode::EventTooLarge, message)));
            return true;
        }
        let held = order.outbox.bytes();
        let bytes = payloads.joined_bytes() + mark.as_ref().map_or(0, Mark::bytes);
        if self.bytes + self.waiting_bytes + bytes > UNSTORED_BYTES_MAX {
            payloads.clear();
            let message = "too many events wait to be stored: try again";
            answer.send(Err(Refusal::busy(message)));
            return false;
        }
        if let Some(keyed) = &mut order.keyed {
            keyed.push(payloads);
            keyed.ends += usize::from(matches!(mark, Some(SingleMessage::Deleted)));
        }
        order.outbox.push(payloads, mark, answer, now_us());
        self.bytes += order.outbox.bytes() - held;
        self.mark(key, order);
        true
    }

    /// Counts a publish that waits in front of an outbox. Returns `false` if there is no room.
    pub(in crate::shard) fn wait(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes + self.waiting_bytes + bytes <= UNSTORED_BYTES_MAX;
        self.waiting_bytes += if has_room { bytes } else { 0 };
        has_room
    }

    /// Notes that a publish no longer waits.
    pub(in crate::shard) fn end_wait(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
    }

    /// Queues a topic if a message of it is due.
    pub(in crate::shard) fn mark(&mut self, key: FeedKey, order: &mut BrokerOrder) {
        if order.outbox.is_due() {
            push_once(&mut self.queues[order.broker].unposted, &mut order.is_unstored, key);
        }
    }

    /// Returns the brokers that have ended since the last call.
    pub(in crate::shard) fn newly_ended(&mut self) -> Vec<usize> {
        let has_ended = |queue: &mut Queue| {
            queue.sender.is_closed() && !std::mem::replace(&mut queue.has_ended, true)
        };
        let queues = self.queues.iter_mut().enumerate();
        queues.filter_map(|(number, queue)| has_ended(queue).then_some(number)).collect()
    }

    /// Returns whether the broker of a topic has ended.
    pub(in crate::shard) fn has_ended(&self, order: &BrokerOrder) -> bool {
        self.queues[order.broker].has_ended
    }

    /// Sends messages to the brokers, or answers them if their broker has ended. Returns `false` if a broker's
    /// queue is full.
    pub(in crate::shard) fn post(&mut self, topics: &mut impl BrokerTopics) -> bool {
        let Self { queues, answers, posted, in_flight, .. } = self;
        let mut are_posted = true;
        for (number, Queue { sender, unposted, .. }) in queues.iter_mut().enumerate() {
            while let Some(key) = unposted.front().copied() {
                let place = match sender.try_reserve() {
                    Ok(place) => Some(place),
                    Err(TrySendError::Full(())) => {
                        are_posted = false;
                        break;
                    }
                    Err(TrySendError::Closed(())) => None,
                };
                unposted.pop_front();
                // The topic may have ended, and its key may belong to another broker's topic.
                let topic = topics.broker_topic(key).filter(|(_, order)| order.broker == number);
                let Some((topic, order)) = topic else { continue };
                if let Some(message) = order.outbox.take(*posted + 1) {
                    *posted += 1;
                    *in_flight += 1;
                    if let Some(keyed) = &mut order.keyed {
                        keyed.sent(*posted, &message.payloads);
                    }
                    let (topic, shard) = (topic.clone(), answers.clone());
                    let caller = StoreCaller { topic: topic.clone(), number: *posted, shard };
                    let reply = BrokerReply::new(caller);
                    match place {
                        Some(place) => place.send(store(order.index, topic, message, reply)),
                        // The broker has never had it.
                        None => reply.send(Err(AppendError::Unavailable)),
                    }
                }
                // Topics take turns, because one topic may have hundreds of messages that are due.
                order.is_unstored = order.outbox.is_due();
                if order.is_unstored {
                    unposted.push_back(key);
                }
            }
        }
        are_posted
    }

    pub(in crate::shard) fn are_done(&self) -> bool {
        self.in_flight == 0 && self.bytes == 0 && self.waiting_bytes == 0
    }

    pub(in crate::shard) fn has_answer(&mut self) {
        self.in_flight -= 1;
    }

    /// Answers the publishers of a message. Returns whether the message was the topic's end, or `None` if the
    /// message belongs to another topic.
    pub(in crate::shard) fn settle(
        &mut self,
        key: FeedKey,
        topic: &Topic,
        (feed, order): (&AnyFeed, &mut BrokerOrder),
        (number, result): (u64, &Result<Stored, AppendError>),
    ) -> Option<bool> {
        let outcome = match result {
            Ok(stored) => {
                // The stream may have restarted.
                if stored.epoch == feed.epoch() {
                    order.has_record(stored.first);
                }
                Outcome::Stored(stored.first)
            }
            Err(AppendError::Unknown) => Outcome::Unknown,
            Err(AppendError::Outdated(Some(newest))) => {
                // The stream never delivers a record that cannot be read, so its offset is noted here.
                order.newest = *newest;
                Outcome::NotStored
            }
            Err(_) => Outcome::NotStored,
        };
        if let Some(keyed) = &mut order.keyed {
            let stored = result.as_ref().ok().filter(|stored| !stored.is_repetition);
            let stored = stored.filter(|stored| stored.epoch == feed.epoch());
            keyed.settle(number, stored.map(|stored| stored.first), order.head);
        }
        let held = order.outbox.bytes();
        // The parts before and after this one may have another epoch.
        let is_of_other_epoch = result.as_ref().is_ok_and(|stored| stored.epoch != feed.epoch())
            && order.outbox.has_in_flight(number);
        if is_of_other_epoch {
            order.outbox.restart();
        }
        // The topic may have ended, and another topic may have its name.
        let answered: Vec<Answered<StoreAnswer>> = order.outbox.settle(number, outcome)?.collect();
        self.bytes -= held - order.outbox.bytes();
        let dropped = order.outbox.take_dropped();
        if let Some(keyed) = &mut order.keyed {
            keyed.dropped(&dropped);
        }
        if is_of_other_epoch {
            order.outbox.restart();
        }
        let is_end =
            |answered: &Answered<StoreAnswer>| matches!(answered.answer, StoreAnswer::Deleted(_));
        let is_deleted = answered.iter().any(is_end);
        let mut compared = order.keyed.as_mut().and_then(|keyed| keyed.take_compared());
        if let Some(keyed) = order.keyed.as_mut().filter(|_| is_deleted && result.is_err()) {
            keyed.ends = keyed.ends.saturating_sub(1);
        }
        for Answered { answer, count, outcome, part } in answered {
            let stored = match (outcome, result) {
                (Outcome::Stored(appended), Ok(stored)) => {
                    // An end is not an event.
                    let count = if is_deleted { 0 } else { count as u64 };
                    let epoch = stored.epoch;
                    let replayed = stored.is_repetition;
                    let counter = match replayed {
                        true => &self.counts.retries_replayed,
                        false => &self.counts.events_published,
                    };
                    counter.add(if replayed { 1 } else { count });
                    Ok(PublishResult { epoch, appended, count, replayed })
                }
                (_, Err(AppendError::Outdated(newest))) => {
                    match (compared.take(), &mut order.keyed) {
                        (Some(compared), Some(keyed)) => {
                            keyed.is_outdated(*newest);
                            let publish = compared.again(answer);
                            self.waiting_bytes += publish.bytes();
                            keyed.wait_first(publish);
                        }
                        _ => answer.outdated(),
                    }
                    continue;
                }
                (Outcome::NotStored, Err(failure)) => Err(match part {
                    None => refusal(failure),
                    Some((appended, count)) => {
                        let (epoch, count) = (feed.epoch(), count as u64);
                        self.counts.events_published.add(count);
                        let part = PublishResult { epoch, appended, count, replayed: false };
                        refusal(failure).with_published(part.published(topic))
                    }
                }),
                _ => Err(refusal(&AppendError::Unknown)),
            };
            answer.send(stored);
        }
        self.mark(key, order);
        Some(is_deleted)
    }

    /// Counts the messages and bytes that are not stored.
    pub(in crate::shard) fn sweep(&self) {
        self.counts.stores_in_flight.set(self.in_flight as u64);
        self.counts.unstored_bytes.set(self.bytes as u64);
    }

    /// Abandons the publishes of a topic and answers them.
    pub(in crate::shard) fn abandon(&mut self, mut outbox: Outbox<SingleMessage, StoreAnswer>) {
        self.bytes -= outbox.bytes();
        for Answered { answer, outcome, part, .. } in outbox.abandon() {
            self.counts.stores_abandoned.add(1);
            // The epoch of a stored part may have ended.
            let is_not = outcome == Outcome::NotStored && part.is_none();
            let why = if is_not { AppendError::Unavailable } else { AppendError::Unknown };
            answer.send(Err(refusal(&why)));
        }
    }
}

/// Returns the request to the broker.
fn store(
    stream: usize,
    topic: Topic,
    message: Message<SingleMessage>,
    reply: BrokerReply<StoreCaller>,
) -> Store {
    let Message { payloads, mark, arrived_us } = message;
    let (content, key, after) = match mark {
        None => (Content::Events(payloads), None, None),
        Some(SingleMessage::Retry(key)) => (Content::Events(payloads), Some(key.to_bytes()), None),
        Some(SingleMessage::Repeated(key)) => {
            (Content::Events(payloads), Some(key.to_bytes()), Some(Offset::MAX))
        }
        Some(SingleMessage::Compared { after, retry_key }) => {
            (Content::Events(payloads), retry_key.map(|key| key.to_bytes()), Some(after))
        }
        Some(SingleMessage::Fetched(after)) => (Content::Events(payloads), None, Some(after)),
        Some(SingleMessage::Gone(after)) => (Content::End(EndCode::Gone), None, Some(after)),
        Some(SingleMessage::Deleted) => (Content::End(EndCode::Deleted), None, None),
        Some(SingleMessage::Paused { ms, after }) => (Content::Paused(ms), None, Some(after)),
    };
    let append = Append { stream, topic, content, key, waited: Duration::ZERO };
    Store { append, after, arrived_us, reply }
}

/// Returns the refusal of a publish that its broker did not get.
pub(in crate::shard) fn unavailable() -> Refusal {
    refusal(&AppendError::Unavailable)
}

fn refusal(failure: &AppendError) -> Refusal {
    match failure {
        AppendError::Unavailable | AppendError::Outdated(_) => Refusal::new(
            ErrorCode::Unavailable,
            "the event was not stored, because NATS or the data directory is not available now: try again",
        ),
        AppendError::Unknown => Refusal::unknown(),
        AppendError::KeyReused => Refusal::key_reused(),
        AppendError::Full => Refusal::new(
            ErrorCode::StorageFull,
            "the event was not stored, because the disk of the server is full: try again when there is room",
        ),
        AppendError::Refused(why) => Refusal::new(ErrorCode::Unavailable, why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_broker::Stream;
    use thalweg_core::stream::{FeedKind, HistoryBounds, Offsets};
    use thalweg_wire::{Epoch, Pattern};
    use tokio::sync::oneshot;

    use super::*;
    use crate::{
        broker::{BrokerStream, Readiness},
        shard::broker::BrokerStreams,
    };

    /// A topic whose records have one event each, and whose feed has the epoch 2.
    struct Scene {
        stores: Stores,
        topic: Topic,
        feed: AnyFeed,
        order: BrokerOrder,
    }

    impl Scene {
        fn new() -> Self {
            let (topic, epoch): (Topic, _) = ("cars".parse().expect("a topic"), epoch(2));
            let stream =
                Stream { events_max: 1, ..Stream::new(Pattern::all(), FeedKind::Log, epoch, 1) };
            let stream = BrokerStream { stream, broker: 0, index: 0, can_compare: false };
            let (order, next) = BrokerStreams::new(&[stream]).begin(0, 1000);
            let history = HistoryBounds { events_max: 100, bytes_max: 1000, age_us_max: u64::MAX };
            let start = (topic.clone(), epoch, next);
            let columns = (None, Default::default());
            let feed = AnyFeed::new(FeedKind::Log, start, Offsets::Stored, history, columns);
            let link = BrokerLink {
                stores: mpsc::channel(1).0,
                reads: mpsc::channel(1).0,
                lists: None,
                readiness: Readiness::default(),
            };
            let stores = Stores::new(&[link], mpsc::unbounded_channel().0, &Arc::default());
            Self { stores, topic, feed, order }
        }

        /// Publishes four events, which get these results. Returns the code of the refusal, the position of the stored
        /// events, and their number.
        fn publish(
            &mut self,
            results: &[Result<Stored, AppendError>],
        ) -> (String, String, Option<u64>) {
            let (sender, mut answer) = oneshot::channel();
            let mut payloads = Payloads::from_lines(b"1\n2\n3\n4".to_vec()).expect("events");
            let answer_to = StoreAnswer::Published(sender);
            self.stores.push(0, (&self.feed, &mut self.order), &mut payloads, None, answer_to);
            for (number, result) in (0..).zip(results) {
                self.order.outbox.take(number).expect("a record");
                let Self { stores, topic, feed, order } = self;
                stores.settle(0, topic, (feed, order), (number, result)).expect("its topic");
            }
            let refusal = answer.try_recv().expect("an answer").expect_err("a refusal");
            let json: serde_json::Value =
                serde_json::from_slice(&refusal.to_json(None, None)).expect("JSON");
            let published = &json["published"];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let position = text(&published["position"]);
            (text(&json["error"]["code"]), position, published["count"].as_u64())
        }
    }

    fn epoch(number: u64) -> Epoch {
        Epoch::new(number).expect("not 0")
    }

    fn stored(number: u64, first: Offset) -> Result<Stored, AppendError> {
        Ok(Stored { epoch: epoch(number), first, is_repetition: false })
    }

    fn unnamed(code: &str) -> (String, String, Option<u64>) {
        (code.to_owned(), String::new(), None)
    }

    #[test]
    fn a_refusal_names_the_stored_events_of_its_publish() {
        let mut scene = Scene::new();
        let full = || Err(AppendError::Full);
        assert_eq!(scene.publish(&[full()]), unnamed("storage_full"));
        let published = scene.publish(&[stored(2, 3), stored(2, 7), full()]);
        assert_eq!(published, ("storage_full".to_owned(), "2.7".to_owned(), Some(2)));
        let answer = scene.publish(&[stored(2, 8), Err(AppendError::Unknown), full()]);
        assert_eq!(answer, unnamed("unknown"));
    }

    #[test]
    fn a_publish_with_parts_in_two_epochs_is_unknown() {
        let mut scene = Scene::new();
        // The answer comes before the restart of the topic, or after it.
        for number in [3, 1] {
            let (own, other) = (|| stored(2, 8), || stored(number, 9));
            let full = || Err(AppendError::Full);
            assert_eq!(scene.publish(&[other(), full()]), unnamed("unknown"));
            assert_eq!(scene.publish(&[own(), other(), full()]), unnamed("unknown"));
            assert_eq!(scene.publish(&[other(), own(), own(), own()]), unnamed("unknown"));
            assert_eq!(scene.publish(&[own(), own(), own(), other()]), unnamed("unknown"));
        }
    }
}
