//! The memory of a shard's topics.

use thalweg_core::{
    fanout::FeedKey,
    stream::{AnyFeed, Backfill as _, Feed as _, Memory as _, Pinning as _},
};

use super::{Topics, limits::TopicKind, local_topic::LocalTopic};
use crate::{config::AD_HOC_TOPICS, owner_shard::hash_of};

impl Topics {
    /// Notes that a topic has new batches; it had `before` bytes of history. If all histories together are too large, the
    /// topic loses its oldest batches. A follower's copy counts, because it may outlive the original.
    pub(super) fn has_grown(&mut self, key: FeedKey, before: usize) {
        self.news.batches.push(key);
        self.history_bytes = self.history_bytes + self.feeds.history_bytes(key) - before;
        let over = self.history_bytes_over();
        let feed = self.feeds.get_mut(key).and_then(|local| local.feed.as_mut());
        if let Some(feed) = feed.filter(|_| over > 0) {
            self.history_bytes -= feed.trim_bytes(over);
        }
    }

    /// Returns by how many bytes the histories exceed the memory limit of this shard. The state of keys cannot be trimmed, and leaves
    /// at least a quarter of the limit to batches.
    pub(super) fn history_bytes_over(&self) -> usize {
        let bytes_max = self.common.config.limits.history_bytes / self.common.peers.len();
        let batches_max = bytes_max.saturating_sub(self.state_bytes).max(bytes_max / 4);
        self.history_bytes.saturating_sub(self.state_bytes + batches_max)
    }

    /// Frees memory. Returns the topics above the limit, whose subscribers must be closed.
    pub(in crate::shard) fn sweep(&mut self, now_us: u64) -> Vec<FeedKey> {
        let mut read = Vec::new();
        let (mut idle, mut emptied): (Vec<FeedKey>, Vec<FeedKey>) = Default::default();
        let (mut state, mut keyed, mut keys) = (0, 0, 0);
        let (mut rows, mut ended_rows) = ([0; 2], [0; 2]);
        let (mut history, mut tails, mut pinned, mut backfilled, mut topics) = (0, 0, 0, 0, 0);
        let is_crowded = self.feeds.topic_limits.is_crowded();
        for (key, local) in self.feeds.iter_mut() {
            let change = local.update_demand(now_us);
            self.news.demand.extend(change.map(|change| (key, change)));
            if let Some(feed) = &mut local.feed {
                feed.sweep(now_us);
                let forgotten = feed.take_forgotten_early();
                topics += 1;
                history += feed.history_bytes();
                let state_bytes = feed.state_bytes();
                state += state_bytes;
                if local.owner.is_some() && state_bytes > 0 {
                    keys += feed.retained_events() as u64;
                    if local.origin.is_derived {
                        let is_ad_hoc = local.topic.as_str().starts_with(AD_HOC_TOPICS);
                        let rows = if local.end.is_some() { &mut ended_rows } else { &mut rows };
                        rows[usize::from(is_ad_hoc)] += state_bytes;
                    }
                }
                // Copies on other shards forget removals, too. Each removal counts once, on the owner shard.
                self.counts.removals_forgotten.add(forgotten * u64::from(local.owner.is_some()));
                tails += feed.tail_bytes();
                backfilled += feed.backfilled_bytes();
                pinned += feed.pinned_bytes();
            }
            keyed += local.counted_bytes();
            if local.has_broker_readers() {
                read.push(hash_of(&local.topic));
            }
            if local.is_emptied() {
                emptied.push(key);
            }
            if local.may_go(is_crowded) && !local.was_refused_lately(now_us) {
                // The receiver of a change looks at the topic first, so the next sweep removes it.
                idle.extend(change.is_none().then_some(key));
            } else if local.needs_attaching() {
                // The owner shard has not answered. Maybe it has no room for more topics.
                self.unattached.push(key);
            }
        }
        let feeds = &self.feeds;
        self.awaited.retain(|key, _| feeds.get(*key).is_some_and(LocalTopic::needs_attaching));
        if std::mem::take(&mut self.has_stale_timers) {
            self.timers = self.feeds.timers();
        }
        if !self.common.brokers.is_empty() {
            self.common.peers[self.shard].read_topics.replace(read.into_iter());
        }
        if self.shard == 0
            && let Ok(mut samples) = self.common.samples.try_lock()
        {
            samples.sweep(now_us);
        }
        self.history_bytes = history;
        self.expiries.sweep(&self.feeds);
        let timers = self.expiries.memory_bytes();
        // The next topic of a query has the rows of the one that has ended, which slow readers keep. Those have as much room again.
        let ended_max = self.row_bytes_max();
        for (rows, ended) in rows.iter_mut().zip(ended_rows) {
            *rows += ended.saturating_sub(ended_max);
        }
        (self.state_bytes, self.keyed_bytes, self.row_bytes) = (state, keyed + timers, rows);
        // These topics exist only for their subscribers now.
        emptied.into_iter().for_each(|key| self.feeds.set_kind(key, TopicKind::Emptied(now_us)));
        // Before topics are evicted or opened: another topic may then have the key, or the topic may have events.
        for key in idle {
            if self.detach_from_owner(key) {
                self.feeds.remove(key);
            }
        }
        // Events of other servers come also if there is no room for them.
        while self.keyed_bytes > self.keyed_bytes_max() && self.evict_keys(None) {}
        self.counts.keyed_bytes.set((state + timers) as u64);
        // Updates of keys may take a sixteenth more, as `check_room` allows: removals are no reason for that.
        if self.keyed_bytes > self.keyed_bytes_max() / 16 * 17 {
            self.forget_all_removals(now_us);
        }
        self.counts.keys.set(keys);
        self.sweep_backfills(backfilled);
        self.stores.sweep();
        self.publish_changed_members(now_us);
        self.share_presence(now_us);
        self.refuse_late(now_us);
        self.counts.members.set(self.members.count() as u64);
        self.counts.topics.set(topics);
        self.counts.history_bytes.set(history as u64);
        self.counts.tail_bytes.set(tails as u64);
        self.counts.pinned_bytes.set(pinned as u64);
        self.counts.subscribed_topics.set(self.feeds.topic_limits.subscriber_only as u64);
        let mut over = self.take_overfull(now_us);
        over.extend(self.feeds.emptied_over_limit());
        over
    }

    /// Returns the memory that partly sent frames of these feeds hold, in bytes.
    pub(in crate::shard) fn pinned_bytes(&self, feeds: &[FeedKey]) -> usize {
        let feeds = feeds.iter().filter_map(|key| self.feeds.get(*key)?.feed.as_ref());
        feeds.map(AnyFeed::pinned_bytes).sum()
    }

    pub(in crate::shard) fn all_pinned_bytes(&mut self) -> usize {
        let feeds = self.feeds.iter_mut().filter_map(|(_, local)| local.feed.as_ref());
        feeds.map(|feed| feed.pinned_bytes()).sum()
    }
}
