//! The publishes to a keyed broker topic that wait, and the keys that have events on their way to the broker and back.
//!
//! The owner shard checks conditions and limits before it sends an event to the broker. It knows the newest event of a key from its
//! feed, if none is on its way and the stream has one server: a topic has one owner shard.
//!
//! If several servers share the stream, another server's event may be on its way. An event with a condition is then sent alone, when
//! all records are here that the server knows of, and the broker stores it only if the topic has no newer one. Otherwise the
//! condition is checked again after that record.

use std::collections::{HashMap, VecDeque};

use thalweg_core::stream::Payloads;
use thalweg_wire::Offset;
use tokio::sync::oneshot;

use super::StoreAnswer;
use crate::{broker::PublishTerms, config::UNSTORED_BYTES_MAX, refusal::Refusal};

/// Bytes of one topic's publishes that wait.
const WAITING_BYTES_MAX: usize = UNSTORED_BYTES_MAX / 8;

/// The first and the longest delay until a state that did not fit is read again, in µs.
const REFUSED_US_MIN: u64 = 2_000_000;
const REFUSED_US_MAX: u64 = 300_000_000;

/// A publish that waits for the state of its topic, or for an event of its key that is on its way.
#[derive(Debug)]
pub(in crate::shard) struct WaitingPublish {
    pub(in crate::shard) payloads: Payloads,
    pub(in crate::shard) terms: PublishTerms,
    pub(in crate::shard) answer: StoreAnswer,
    /// When it came, in µs.
    pub(in crate::shard) since_us: u64,
}

/// A publish that the broker stores only if the topic has no newer record.
#[derive(Debug)]
pub(super) struct ComparedPublish {
    payloads: Payloads,
    terms: PublishTerms,
    since_us: u64,
}

impl ComparedPublish {
    /// Returns the publish, to be checked again.
    pub(super) fn again(self, answer: StoreAnswer) -> WaitingPublish {
        let Self { payloads, terms, since_us } = self;
        WaitingPublish { payloads, terms, answer, since_us }
    }
}

/// A key with events on their way.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) struct PendingKey {
    count: u32,
    /// Whether the newest of them removes the key.
    pub(in crate::shard) is_removal: bool,
    /// The bytes of the newest of them.
    pub(in crate::shard) bytes: usize,
}

type KeyNames = Vec<Box<[u8]>>;

#[derive(Debug, Default)]
pub(in crate::shard) struct KeyedOrder {
    /// In the order in which they came. Those behind the first one wait for it.
    pub(in crate::shard) waiting: VecDeque<WaitingPublish>,
    waiting_bytes: usize,
    /// Reads that wait for the state, or for events that are stored and were not delivered.
    pub(in crate::shard) reads: Vec<oneshot::Sender<Result<(), Refusal>>>,
    /// Ends of the topic that are on their way. Later events belong to the next topic.
    pub(in crate::shard) ends: usize,
    /// Whether the state does not fit into the memory. Its readers are being closed.
    pub(in crate::shard) is_refused: bool,
    /// When the state may be read again after it did not fit, in µs, and how often in a row it did not.
    retry_us: u64,
    refusals: u32,
    pending: HashMap<Box<[u8]>, PendingKey>,
    /// How many of these are not removals.
    pending_puts: usize,
    /// The number of keys with these, if they were counted and none can have gone since. Otherwise 0.
    keys_at_least: usize,
    /// Messages without an answer, by number.
    sent: Vec<(u64, KeyNames)>,
    /// Stored messages that were not delivered, with the offsets after their last events.
    stored: Vec<(Offset, KeyNames)>,
    /// Whether several servers share the topic.
    pub(in crate::shard) is_shared: bool,
    /// The newest record of the topic that is here, and the newest that the broker has, as far as is known.
    seen: Offset,
    newest: Offset,
    /// The publish that is on its way alone, if the topic is shared.
    compared: Option<Box<ComparedPublish>>,
}

impl WaitingPublish {
    /// Returns its memory, in bytes.
    pub(in crate::shard) fn bytes(&self) -> usize {
        let retry_key = self.terms.retry_key.as_ref().map_or(0, |key| key.key.len());
        self.payloads.joined_bytes() + retry_key + size_of::<Self>()
    }
}

impl KeyedOrder {
    pub(super) fn new(is_shared: bool) -> Self {
        Self { is_shared, ..Self::default() }
    }

    /// Notes that a record is here: it was delivered, or read.
    pub(in crate::shard) fn has_seen(&mut self, first: Offset) {
        self.seen = self.seen.max(first);
        self.newest = self.newest.max(first);
        self.keys_at_least = 0;
    }

    /// Notes the newest record of the topic, as the broker says, if known.
    pub(super) fn is_outdated(&mut self, newest: Option<Offset>) {
        self.newest = newest.unwrap_or(self.newest);
    }

    /// Notes that a publish goes to the broker alone. Returns the offset that the topic's newest record must have.
    pub(in crate::shard) fn compare(
        &mut self,
        payloads: Payloads,
        terms: PublishTerms,
        since_us: u64,
    ) -> Offset {
        self.compared = Some(Box::new(ComparedPublish { payloads, terms, since_us }));
        self.newest
    }

    /// Returns whether no event is on its way, and no publish waits.
    pub(in crate::shard) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.waiting.is_empty()
    }

    /// Forgets the publish that was to go alone, if it does not.
    pub(in crate::shard) fn end_compare(&mut self) {
        self.compared = self.compared.take().filter(|_| !self.pending.is_empty());
    }

    /// Takes the publish that was on its way alone.
    pub(super) fn take_compared(&mut self) -> Option<Box<ComparedPublish>> {
        self.compared.take()
    }

    /// Notes that events go to the broker.
    pub(super) fn push(&mut self, payloads: &Payloads) {
        for (key, event) in payloads.keyed_events() {
            let (is_removal, bytes) = (event == b"null", event.len());
            self.pending_puts += usize::from(!is_removal);
            if is_removal {
                self.keys_at_least = 0;
            }
            match self.pending.get_mut(key) {
                Some(known) => {
                    self.pending_puts -= usize::from(!known.is_removal);
                    *known = PendingKey { count: known.count + 1, is_removal, bytes };
                }
                None => {
                    _ = self.pending.insert(key.into(), PendingKey { count: 1, is_removal, bytes });
                }
            }
        }
    }

    /// Notes that a message was sent.
    pub(super) fn sent(&mut self, number: u64, payloads: &Payloads) {
        let keys: KeyNames = payloads.keyed_events().map(|(key, _)| key.into()).collect();
        if !keys.is_empty() {
            self.sent.push((number, keys));
        }
    }

    /// Notes the answer to a message: the offset of its first event if it will be delivered. Records before `head` were delivered.
    pub(super) fn settle(&mut self, number: u64, first: Option<Offset>, head: Offset) {
        let Some(at) = self.sent.iter().position(|(sent, _)| *sent == number) else { return };
        let (_, keys) = self.sent.swap_remove(at);
        match first.map(|first| first + keys.len() as Offset).filter(|end| *end > head) {
            Some(end) => self.stored.push((end, keys)),
            None => self.release(keys),
        }
    }

    /// Notes that events are not sent.
    pub(super) fn dropped(&mut self, payloads: &Payloads) {
        self.release(payloads.keyed_events().map(|(key, _)| key.into()).collect());
    }

    /// Notes that records before `head` were delivered.
    pub(in crate::shard) fn has_come(&mut self, head: Offset) {
        let (come, stored) =
            std::mem::take(&mut self.stored).into_iter().partition(|(end, _)| *end <= head);
        self.stored = stored;
        let come: Vec<(Offset, KeyNames)> = come;
        come.into_iter().for_each(|(_, keys)| self.release(keys));
    }

    fn release(&mut self, keys: KeyNames) {
        self.keys_at_least = 0;
        for key in keys {
            if let Some(pending) = self.pending.get_mut(&key) {
                pending.count -= 1;
                if pending.count == 0 {
                    self.pending_puts -= usize::from(!pending.is_removal);
                    self.pending.remove(&key);
                }
            }
        }
    }

    /// Returns the order of the next topic with this name, which begins at `head`.
    pub(in crate::shard) fn into_next(mut self, head: Offset) -> Self {
        (self.ends, self.is_refused) = (0, false);
        (self.seen, self.newest, self.keys_at_least) = (0, 0, 0);
        self.has_come(head);
        self
    }

    /// Notes that the state does not fit into the memory. It is read again after a delay, which doubles each
    /// time.
    pub(in crate::shard) fn refuse(&mut self, now_us: u64) {
        self.is_refused = true;
        self.refusals = self.refusals.saturating_add(1);
        self.retry_us = now_us + self.delay_us();
    }

    /// Lets the state be read again if its delay is over. Returns whether it is.
    pub(in crate::shard) fn may_retry(&mut self, now_us: u64) -> bool {
        self.is_refused &= now_us < self.retry_us;
        !self.is_refused
    }

    /// Returns whether the state did not fit when it was last read, which counts for a later delay.
    pub(in crate::shard) fn was_refused_lately(&self, now_us: u64) -> bool {
        self.refusals > 0 && now_us < self.retry_us + self.delay_us()
    }

    /// Notes that the state fits.
    pub(in crate::shard) fn has_fitted(&mut self) {
        self.refusals = 0;
    }

    fn delay_us(&self) -> u64 {
        let doublings = self.refusals.saturating_sub(1).min(16);
        (REFUSED_US_MIN << doublings).min(REFUSED_US_MAX)
    }

    /// Returns a key with events on their way.
    pub(in crate::shard) fn pending(&self, key: &[u8]) -> Option<&PendingKey> {
        self.pending.get(key)
    }

    /// Returns the number of keys whose newest event on its way is not a removal.
    pub(in crate::shard) fn pending_puts(&self) -> usize {
        self.pending_puts
    }

    /// Returns whether a topic may have `added` more keys, with those on their way. `live`: the number of keys that its feed has. `is_live`
    /// says whether a key is one of them.
    pub(in crate::shard) fn has_room(
        &mut self,
        added: usize,
        count_max: usize,
        live: usize,
        is_live: impl Fn(&[u8]) -> bool,
    ) -> bool {
        // While a broker stalls, many keys are on their way, and publishers do not stop.
        if added == 0 || live + self.pending_puts + added <= count_max {
            return true;
        }
        if self.keys_at_least + added <= count_max {
            self.keys_at_least = self.pending.iter().fold(live, |live, (key, pending)| {
                live + usize::from(!pending.is_removal) - usize::from(is_live(key))
            });
        }
        self.keys_at_least + added <= count_max
    }

    /// Returns whether another publish may wait. Those of one topic leave room for other topics.
    pub(in crate::shard) fn may_wait(&self, publish: &WaitingPublish) -> bool {
        self.waiting.is_empty() || self.waiting_bytes + publish.bytes() <= WAITING_BYTES_MAX
    }

    pub(in crate::shard) fn wait(&mut self, publish: WaitingPublish) {
        self.waiting_bytes += publish.bytes();
        self.waiting.push_back(publish);
    }

    /// Lets a publish wait in front of all others.
    pub(super) fn wait_first(&mut self, publish: WaitingPublish) {
        self.waiting_bytes += publish.bytes();
        self.waiting.push_front(publish);
    }

    /// Takes the next publish, if it need not wait.
    pub(in crate::shard) fn take_next(&mut self) -> Option<WaitingPublish> {
        let next = self.waiting.front()?;
        if self.must_wait(&next.payloads, &next.terms) {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.waiting_bytes -= next.bytes();
        Some(next)
    }

    /// Takes the publishes that have waited since before a time, in µs, if several servers share the topic: the broker may not be
    /// available for long.
    pub(in crate::shard) fn take_late(&mut self, before_us: u64) -> Vec<WaitingPublish> {
        let is_late = |publish: &WaitingPublish| publish.since_us < before_us;
        let late = self.waiting.iter().take_while(|publish| self.is_shared && is_late(publish));
        let count = late.count();
        let late: Vec<_> = self.waiting.drain(..count).collect();
        self.waiting_bytes -= late.iter().map(WaitingPublish::bytes).sum::<usize>();
        late
    }

    /// Takes all publishes that wait.
    pub(in crate::shard) fn take_waiting(&mut self) -> VecDeque<WaitingPublish> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Adds a read that waits. Forgets those whose readers are gone when there are many.
    pub(in crate::shard) fn read(&mut self, read: oneshot::Sender<Result<(), Refusal>>) {
        if self.reads.len() == self.reads.capacity() {
            self.reads.retain(|read| !read.is_closed());
        }
        self.reads.push(read);
    }

    /// Returns whether a publish waits for events that are on their way.
    pub(in crate::shard) fn must_wait(&self, payloads: &Payloads, terms: &PublishTerms) -> bool {
        let is_pending = |(key, _): (&[u8], &[u8])| self.pending(key).is_some();
        // A publish that is checked again comes before later ones.
        self.ends > 0
            || self.compared.is_some()
            || match terms.is_conditional() {
                true if self.is_shared => !self.pending.is_empty() || self.newest > self.seen,
                true => payloads.keyed_events().any(is_pending),
                false => false,
            }
    }

    /// Returns whether publishers have answers to events that were not delivered. A read waits for those.
    pub(in crate::shard) fn has_undelivered(&self) -> bool {
        !self.stored.is_empty()
    }

    /// Returns whether somebody waits for the topic.
    pub(in crate::shard) fn is_awaited(&self) -> bool {
        !(self.waiting.is_empty() && self.reads.is_empty() && self.stored.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use thalweg_wire::Condition;

    use super::*;

    fn payloads(events: &[(&str, &str)]) -> Payloads {
        let lines = events.iter().map(|(_, event)| *event).collect::<Vec<_>>().join("\n");
        let mut payloads = Payloads::from_lines(lines.into()).expect("events");
        events.iter().for_each(|(key, _)| payloads.push_key(key));
        payloads
    }

    fn wait(order: &mut KeyedOrder, key: &str, condition: Option<Condition>) {
        order.wait(WaitingPublish {
            payloads: payloads(&[(key, "1")]),
            terms: PublishTerms { condition, ..PublishTerms::default() },
            answer: StoreAnswer::Nowhere,
            since_us: 0,
        });
    }

    #[test]
    fn a_condition_waits_until_the_events_of_its_key_have_come() {
        let mut order = KeyedOrder::default();
        let message = payloads(&[("a", "1"), ("b", "2"), ("a", "null")]);
        order.push(&message);
        order.sent(7, &message);
        assert!(order.pending(b"\"a\"").is_some_and(|pending| pending.is_removal));
        assert_eq!(order.pending_puts(), 1);
        wait(&mut order, "a", Some(Condition::New));
        wait(&mut order, "c", None);
        assert!(order.take_next().is_none());
        order.settle(7, Some(300), 300);
        assert!(order.take_next().is_none(), "it is stored, and has not come");
        order.has_come(302);
        assert!(order.take_next().is_none());
        order.has_come(303);
        assert!(order.take_next().is_some() && order.take_next().is_some());
        assert_eq!((order.pending_puts(), order.pending.len()), (0, 0));
        assert!(!order.is_awaited());
    }

    #[test]
    fn keys_on_their_way_are_counted_only_if_that_can_change_the_answer() {
        let looks = Cell::new(0);
        let has_room = |order: &mut KeyedOrder, added: usize| {
            looks.set(0);
            let is_live = |key: &[u8]| {
                looks.update(|looks| looks + 1);
                key != b"\"new\""
            };
            (order.has_room(added, 10, 9, is_live), looks.get())
        };
        let mut order = KeyedOrder::default();
        let push = |order: &mut KeyedOrder, number: u64, key: &str, event: &str| {
            let message = payloads(&[(key, event)]);
            order.push(&message);
            order.sent(number, &message);
        };
        ["a", "b", "c"].iter().for_each(|key| push(&mut order, 1, key, "1"));
        assert_eq!(has_room(&mut order, 0), (true, 0), "an update");
        assert_eq!(has_room(&mut order, 1), (true, 3));
        push(&mut order, 2, "new", "1");
        assert_eq!(has_room(&mut order, 1), (false, 4));
        push(&mut order, 3, "d", "1");
        assert_eq!(has_room(&mut order, 1), (false, 0), "no key has gone since");
        assert_eq!(has_room(&mut order, 0), (true, 0), "an update");
        push(&mut order, 4, "a", "null");
        assert_eq!(has_room(&mut order, 1), (true, 5));
        push(&mut order, 5, "a", "1");
        assert_eq!(has_room(&mut order, 1), (false, 5));
        order.settle(2, None, 300);
        assert_eq!(has_room(&mut order, 1), (true, 4), "a new key is not stored");
        assert_eq!(has_room(&mut order, 2), (false, 0));
        order.has_seen(300);
        assert_eq!(has_room(&mut order, 2), (false, 4), "another server may have removed a key");
    }

    #[test]
    fn a_condition_on_a_shared_topic_waits_for_all_known_records() {
        let mut order = KeyedOrder::new(true);
        order.has_seen(300);
        let (one, condition) = (payloads(&[("a", "1")]), Some(Condition::New));
        order.push(&one);
        wait(&mut order, "b", condition);
        assert!(order.take_next().is_none(), "another key may be on its way, too");
        order.sent(7, &one);
        order.settle(7, Some(400), 301);
        assert!(order.take_next().is_none(), "it is stored, and has not come");
        order.has_seen(400);
        order.has_come(401);
        let publish = order.take_next().expect("no event is on its way");
        let terms = publish.terms.clone();
        assert_eq!(order.compare(publish.payloads.clone(), terms, 0), 400);
        order.push(&publish.payloads);
        order.end_compare();
        order.sent(8, &publish.payloads);
        order.settle(8, None, 401);
        let again = order.take_compared().expect("the publish").again(publish.answer);
        order.is_outdated(Some(500));
        order.wait_first(again);
        assert!(order.take_next().is_none(), "a newer record has not come");
        order.has_seen(500);
        let again = order.take_next().expect("it has come");
        // The broker has lost it, or a former leader answers.
        order.is_outdated(Some(450));
        assert_eq!(order.compare(again.payloads, again.terms, 0), 450);
        order.end_compare();
        assert!(order.take_compared().is_none(), "it was not sent");
    }

    #[test]
    fn events_that_are_not_stored_are_not_awaited() {
        let mut order = KeyedOrder::default();
        for (number, first) in [(1, None), (2, Some(290))] {
            let message = payloads(&[("a", "1")]);
            order.push(&message);
            order.sent(number, &message);
            wait(&mut order, "a", Some(Condition::Exists));
            assert!(order.take_next().is_none());
            order.settle(number, first, 300);
            assert!(order.take_next().is_some(), "message {number}");
        }
    }

    #[test]
    fn a_state_that_does_not_fit_is_read_again_less_and_less_often() {
        let mut order = KeyedOrder::default();
        let mut now_us = 1;
        let mut delays = Vec::new();
        for _ in 0..40 {
            order.refuse(now_us);
            let delay_us = order.retry_us - now_us;
            assert!(!order.may_retry(now_us + delay_us - 1));
            now_us += delay_us;
            assert!(order.may_retry(now_us) && order.was_refused_lately(now_us));
            delays.push(delay_us / 1_000_000);
        }
        assert_eq!(delays[..8], [2, 4, 8, 16, 32, 64, 128, 256]);
        assert!(delays[8..].iter().all(|delay| *delay == 300));
        order.has_fitted();
        order.refuse(now_us);
        assert_eq!(order.retry_us - now_us, REFUSED_US_MIN);
    }

    #[test]
    fn the_waiting_publishes_of_a_topic_leave_room_for_other_topics() {
        let mut order = KeyedOrder { ends: 1, ..KeyedOrder::default() };
        let large = "1".repeat(1 << 20);
        let publish = || WaitingPublish {
            payloads: payloads(&[("a", &large)]),
            terms: PublishTerms::default(),
            answer: StoreAnswer::Nowhere,
            since_us: 0,
        };
        while order.may_wait(&publish()) {
            order.wait(publish());
        }
        assert_eq!(order.waiting.len(), 7);
        order.ends = 0;
        assert!(order.take_next().is_some() && order.may_wait(&publish()));
        order.take_waiting();
        assert_eq!(order.waiting_bytes, 0);
    }

    #[test]
    fn reads_whose_readers_are_gone_are_forgotten() {
        let mut order = KeyedOrder::default();
        (0..1000).for_each(|_| order.read(oneshot::channel().0));
        assert!(order.reads.len() < 10, "{}", order.reads.len());
    }

    #[test]
    fn publishes_to_a_shared_topic_wait_for_a_limited_time() {
        for (is_shared, count) in [(true, 1), (false, 0)] {
            let mut order = KeyedOrder { ends: 1, ..KeyedOrder::new(is_shared) };
            wait(&mut order, "a", None);
            wait(&mut order, "a", None);
            order.waiting[1].since_us = 7;
            assert_eq!(order.take_late(7).len(), count);
            order.take_late(8);
            assert_eq!(order.waiting_bytes > 0, !is_shared);
        }
    }

    #[test]
    fn all_publishes_wait_for_an_end() {
        let mut order = KeyedOrder { ends: 1, ..KeyedOrder::default() };
        wait(&mut order, "a", None);
        assert!(order.take_next().is_none());
        order.ends = 0;
        assert!(order.take_next().is_some());
    }
}
