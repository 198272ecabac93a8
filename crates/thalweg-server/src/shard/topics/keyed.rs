//! Publishes to keyed topics: their keys, conditions and limits.

use std::collections::HashMap;

use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Feed as _, KeyedEvent, Memory as _, Payloads},
};
use thalweg_wire::{Condition, ErrorCode, Position, Topic, key::key_text};

use super::{
    Topics,
    expiries::{Expiry, TIMER_BYTES},
    local_topic::LocalTopic,
};
use crate::{
    broker::PublishTerms, config::GROUP_ROWS_SHARE, refusal::Refusal, shard::broker::StoreAnswer,
    source::EventKeys, transport::parameters::bad,
};

/// The time between two exact counts of the memory of keys, and between two searches for removals in all topics, in µs.
const RECOUNT_US: u64 = 10_000;

/// The same for each topic, in µs. A count looks at all topics, and must take a small part of the time although publishers fill the memory.
const RECOUNT_US_PER_TOPIC: u64 = 1;

/// An exact count follows if forgotten removals had more than the memory for keys divided by this.
const FREED_PART: usize = 16;

/// An update that makes a key grow by less is accepted even slightly above the limit.
const SLIGHT_BYTES: usize = 1024;

/// The approximate memory of a key besides its event, in bytes.
pub(super) const KEY_BYTES: usize = 256;

impl Topics {
    /// Gives events of a keyed topic their keys, if they have none yet. Fails if they cannot have keys, or if the terms do not suit
    /// the topic.
    pub(in crate::shard) fn give_keys(
        &self,
        topic: &Topic,
        payloads: &mut Payloads,
        terms: &PublishTerms,
    ) -> Result<(), Refusal> {
        let Some(settings) = self.common.config.keys(topic) else {
            let is_for_keys = terms.condition.is_some() || terms.ttl_us.is_some();
            return match payloads.has_keys() || is_for_keys {
                true => Err(bad(format!(
                    "{topic} is not a keyed topic: publish without key, if and ttl, or declare it with --topic '{topic},kind=keyed'"
                ))),
                false => Ok(()),
            };
        };
        let stream = self.origin(topic).stream().map(|stream| self.feeds.streams.get(stream));
        let can_compare =
            stream.is_none_or(|stream| !stream.stream.is_shared || stream.can_compare);
        if terms.condition.is_some() && !can_compare {
            return Err(bad(format!(
                "the broker of {topic} cannot compare and set: publish without if"
            )));
        }
        if terms.condition.is_some() && payloads.count() != 1 {
            return Err(bad("a condition applies to one event: publish each event alone".into()));
        }
        match &settings.pointer {
            _ if payloads.has_keys() || payloads.is_empty() => Ok(()),
            Some(pointer) => {
                let keys = EventKeys::Within(pointer.clone());
                let mut given = Payloads::default();
                for event in payloads.iter() {
                    given.push(|out| {
                        out.extend_from_slice(event);
                        Ok::<_, Refusal>(())
                    })?;
                    keys.give(&mut given)?;
                }
                *payloads = given;
                Ok(())
            }
            None => Err(Refusal::new(
                ErrorCode::BadKey,
                format!("{topic} is a keyed topic: name the key of the event with key="),
            )),
        }
    }

    /// Checks that a topic has keys, which a filter can select.
    pub(in crate::shard) fn check_filter(&self, topic: &Topic) -> Result<(), Refusal> {
        match self.common.config.has_keys(topic) {
            true => Ok(()),
            false => Err(bad(format!(
                "{topic} is not a keyed topic: read it without key and prefix, or declare it with --topic '{topic},kind=keyed'"
            ))),
        }
    }

    /// Checks that the events of a command have no other keys than the command names.
    pub(in crate::shard) fn check_named_keys(
        &self,
        topic: &Topic,
        payloads: &Payloads,
    ) -> Result<(), Refusal> {
        let keys = self.common.config.keys(topic);
        let Some(pointer) = keys.and_then(|keys| keys.pointer.as_ref()) else { return Ok(()) };
        for (key, event) in payloads.keyed_events() {
            pointer.check_same(&key_text(key), event)?;
        }
        Ok(())
    }

    /// Checks the condition of a publish to a keyed topic that this shard owns, and that there is room for its keys. If so, sets
    /// when the keys expire, as the terms say.
    pub(in crate::shard) fn check_keyed(
        &mut self,
        key: FeedKey,
        payloads: &Payloads,
        terms: &PublishTerms,
        now_us: u64,
    ) -> Result<(), Refusal> {
        self.check_room(key, payloads, terms, now_us)?;
        self.set_expiries(key, payloads, self.ttl_us(key, terms), now_us);
        Ok(())
    }

    /// Returns how long the keys of a publish stay, in µs.
    pub(super) fn ttl_us(&self, key: FeedKey, terms: &PublishTerms) -> Option<u64> {
        let local = self.feeds.get(key);
        let keys = local.and_then(|local| self.common.config.keys(&local.topic));
        terms.ttl_us.or(keys.and_then(|keys| keys.ttl_us))
    }

    /// Returns the most bytes that the keys of this shard may have.
    pub(super) fn keyed_bytes_max(&self) -> usize {
        self.common.config.limits.history_bytes / self.common.peers.len() / 2
    }

    pub(super) fn check_room(
        &mut self,
        key: FeedKey,
        payloads: &Payloads,
        terms: &PublishTerms,
        now_us: u64,
    ) -> Result<(), Refusal> {
        let (condition, expires) = (terms.condition, self.ttl_us(key, terms).is_some());
        let Some(local) = self.feeds.get(key) else { return Err(Refusal::draining()) };
        let topic = local.topic.clone();
        let count_max = self.common.config.keys(&topic).map_or(0, |keys| keys.count_max);
        let timer_bytes = |name_bytes| if expires { TIMER_BYTES + name_bytes } else { 0 };
        let timers: usize = match expires {
            true => payloads.keyed_events().map(|(name, _)| timer_bytes(name.len())).sum(),
            false => 0,
        };
        let bytes = payloads.joined_bytes() + payloads.count() * KEY_BYTES + timers;
        let bytes_max = self.keyed_bytes_max();
        let has_room = self.keyed_bytes + bytes <= bytes_max
            && local.keys_at_most() + payloads.count() <= count_max;
        if has_room && condition.is_none() {
            self.has_appended_keys(key, payloads.count(), bytes);
            return Ok(());
        }
        // The feed must have all earlier events.
        self.settle(key, now_us);
        let local = self.feeds.get(key);
        let Some((local, feed)) = local.and_then(|local| Some((local, local.feed.as_ref()?)))
        else {
            return Err(Refusal::draining());
        };
        let serial = local.owner.as_ref().map_or(0, |owner| owner.serial);
        let has_timer =
            |name: &[u8]| self.expiries.has(&Expiry { feed: key, serial, key: name.into() });
        let pending = local.owner.as_ref().and_then(|owner| owner.keyed_order());
        let (mut added, mut removed) = (0_usize, 0);
        let (mut grown, mut is_slight) = (0, true);
        // The size of each key after the preceding events, and whether it exists.
        let mut after: HashMap<&[u8], (usize, bool)> = HashMap::new();
        for (name, event) in payloads.keyed_events() {
            let before = feed.keyed_event(name);
            if let Some(condition) = condition {
                let position =
                    |event: &KeyedEvent| Position { epoch: feed.epoch(), offset: event.offset() };
                let newest = before.filter(|before| !before.is_removal());
                let is_met = match condition {
                    Condition::New => newest.is_none(),
                    Condition::Exists => newest.is_some(),
                    Condition::At(wanted) => newest.map(position) == Some(wanted),
                };
                if !is_met {
                    let newest = newest.map(|newest| (position(newest), newest));
                    return Err(not_met(name, newest, terms.may_read));
                }
            }
            let known = || {
                let bytes = |before: &KeyedEvent| before.event().len() + KEY_BYTES;
                let on_its_way = pending.and_then(|order| order.pending(name));
                match on_its_way {
                    Some(pending) => (pending.bytes + KEY_BYTES, !pending.is_removal),
                    None => {
                        before.map_or((0, false), |before| (bytes(before), !before.is_removal()))
                    }
                }
            };
            let is_removal = event == b"null";
            let gets_timer =
                expires && !is_removal && !after.contains_key(name) && !has_timer(name);
            let (had_bytes, was_live) = *after.entry(name).or_insert_with(known);
            let bytes = event.len() + KEY_BYTES + if had_bytes == 0 { name.len() } else { 0 };
            let timer = if gets_timer { timer_bytes(name.len()) } else { 0 };
            let growth = bytes.saturating_sub(had_bytes) + timer;
            is_slight &= had_bytes > 0 && growth < SLIGHT_BYTES;
            grown += growth;
            added += usize::from(!is_removal && !was_live);
            removed += usize::from(is_removal && was_live);
            after.insert(name, (bytes, !is_removal));
        }
        if !self.has_room_for_keys(key, added.saturating_sub(removed), count_max) {
            return Err(Refusal::new(
                ErrorCode::TooManyKeys,
                format!(
                    "{topic} has reached its limit of {count_max} keys: remove some, or set keys to a larger number"
                ),
            ));
        }
        // Counters may still be updated, and keys may always be removed.
        let bytes_max = bytes_max + if is_slight { bytes_max / 16 } else { 0 };
        if grown > 0 && self.keyed_bytes + grown > bytes_max {
            self.recount_keys(now_us);
        }
        let is_over = |topics: &Self| grown > 0 && topics.keyed_bytes + grown > bytes_max;
        if is_over(self)
            && let Some(feed) = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut())
        {
            // Readers that lack the removals begin again.
            let before = feed.state_bytes();
            feed.forget_removals();
            let freed = before - feed.state_bytes();
            self.keyed_bytes = self.keyed_bytes.saturating_sub(freed);
            // The publishes before paid for this count: they made the removals.
            if freed > self.keyed_bytes_max() / FREED_PART {
                self.count_keys(now_us);
            }
        }
        // Otherwise a publisher that has filled the memory would make the readers of all topics begin again, for nothing.
        if is_over(self) && self.keyed_bytes + grown <= bytes_max + self.removal_bytes {
            self.forget_all_removals(now_us);
        }
        if is_over(self) {
            return Err(Refusal::new(
                ErrorCode::TooManyKeys,
                "the memory for keys is full: remove keys or topics, or set limits.history-bytes to a larger size",
            ));
        }
        self.has_appended_keys(key, payloads.count(), grown);
        Ok(())
    }

    /// Returns whether a topic may have `added` more keys, with those that are on their way to a broker.
    fn has_room_for_keys(&mut self, key: FeedKey, added: usize, count_max: usize) -> bool {
        let feed = self.feeds.get(key).and_then(|local| local.feed.as_ref());
        let live = feed.map_or(0, |feed| feed.retained_events());
        let Some((feed, order)) = self.keyed_order(key) else {
            return added == 0 || live + added <= count_max;
        };
        let is_live = |name: &[u8]| feed.keyed_event(name).is_some_and(|event| !event.is_removal());
        order.has_room(added, count_max, live, is_live)
    }

    /// Counts the memory of keys exactly, if the last count is old enough. Between two such counts, each update of a key counts as a new key.
    fn recount_keys(&mut self, now_us: u64) {
        if now_us >= self.recount_us {
            self.count_keys(now_us);
        }
    }

    /// Returns whether there is room for more rows of groups of ad hoc queries, or of the settings' queries. The rows are the keys of
    /// the queries' topics, and a sweep counts them.
    pub(in crate::shard) fn has_room_for_rows(&self, is_ad_hoc: bool) -> bool {
        self.row_bytes[usize::from(is_ad_hoc)] < self.row_bytes_max()
    }

    /// Returns the most bytes that the rows of ad hoc queries may have on this shard, and those of the settings' queries each.
    pub(super) fn row_bytes_max(&self) -> usize {
        self.common.config.limits.history_bytes / self.common.peers.len() / GROUP_ROWS_SHARE
    }

    fn count_keys(&mut self, now_us: u64) {
        (self.keyed_bytes, self.removal_bytes) = (self.expiries.memory_bytes(), 0);
        let mut topics = 0;
        for (_, local) in self.feeds.iter_mut() {
            topics += 1;
            let bytes = local.counted_bytes();
            self.keyed_bytes += bytes;
            let removals = local.feed.as_ref().map_or(0, |feed| feed.removal_bytes());
            self.removal_bytes += removals.min(bytes);
        }
        self.recount_us = now_us + RECOUNT_US.max(topics * RECOUNT_US_PER_TOPIC);
    }

    /// Forgets the removals of all topics that this shard owns, unless it has just done so. Readers that lack them begin again.
    pub(super) fn forget_all_removals(&mut self, now_us: u64) {
        if now_us < self.forget_us {
            return;
        }
        for (_, local) in self.feeds.iter_mut().filter(|(_, local)| local.owner.is_some()) {
            local.feed.iter_mut().for_each(AnyFeed::forget_removals);
        }
        self.count_keys(now_us);
        self.forget_us = self.recount_us;
    }

    /// Counts events that are about to be appended. The next sweep counts exactly.
    fn has_appended_keys(&mut self, key: FeedKey, count: usize, bytes: usize) {
        self.keyed_bytes += bytes;
        if let Some(owner) = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut()) {
            owner.open_keys += count as u32;
        }
    }

    /// Appends one event of a key.
    pub(super) fn append_key(&mut self, feed: FeedKey, key: &str, event: &[u8], now_us: u64) {
        let mut payloads = Payloads::default();
        payloads.push_keyed(key, event);
        if self.is_broker_topic(feed) {
            // A removal that is not stored is published again later.
            return self.store_in(feed, &mut payloads, None, StoreAnswer::Nowhere);
        }
        self.append(feed, &mut payloads, now_us);
    }

    /// Seals the events of a topic that are not in its feed yet.
    pub(super) fn settle(&mut self, key: FeedKey, now_us: u64) {
        if let Some(owner) = self.feeds.get_mut(key).and_then(|local| local.owner.as_mut()) {
            owner.order.make_due();
        }
        self.seal_feed(key, now_us);
    }
}

impl LocalTopic {
    /// Returns whether the topic's keys count towards the memory of keys: this shard owns the topic, and clients or other servers
    /// publish the keys. The rows of queries, and the members of a server that shares none, have limits of their own.
    pub(super) fn counts_keys(&self) -> bool {
        let is_unshared = self.origin.is_presence && !self.origin.is_broker_topic();
        self.owner.is_some() && !is_unshared && !self.origin.is_derived
    }

    /// Returns the memory of the topic's keys that counts towards the limit of all keys. The members of a server that shares none have a
    /// limit of their own, of which only the removals count here, and so have the rows of queries.
    pub(super) fn counted_bytes(&self) -> usize {
        match self.feed.as_ref().filter(|_| self.owner.is_some() && !self.origin.is_derived) {
            Some(feed) if self.counts_keys() => feed.state_bytes(),
            Some(feed) => feed.removal_bytes(),
            None => 0,
        }
    }

    /// Returns the maximum number of keys that the topic can have, with the events that are not in its feed yet. Removals on their way do not
    /// count: otherwise removals of keys that do not exist would make each publish count all pending keys.
    fn keys_at_most(&self) -> usize {
        let open = self.owner.as_ref().map_or(0, |owner| match owner.keyed_order() {
            Some(order) => order.pending_puts() + owner.order.arrived_events(),
            None => owner.open_keys as usize,
        });
        open + self.feed.as_ref().map_or(0, |feed| feed.retained_events())
    }
}

fn not_met(name: &[u8], newest: Option<(Position, &KeyedEvent)>, may_read: bool) -> Refusal {
    let name = key_text(name);
    let message = match newest {
        Some((position, _)) => {
            format!(
                "the newest event of the key {name:?} has the position {position}: read it, and try again"
            )
        }
        None => format!("the key {name:?} does not exist: publish it with if=new"),
    };
    let refusal = Refusal::new(ErrorCode::ConditionFailed, message);
    match newest {
        // Otherwise a client that may only publish could read each key with a condition that fails.
        Some((position, newest)) if may_read => refusal.with_newest(position, newest.event()),
        _ => refusal,
    }
}
