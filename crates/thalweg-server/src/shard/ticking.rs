//! Sources at work: their ticks, their rest, and what they publish beside their topic.

use std::cmp::Reverse;

use thalweg_wire::Topic;
use tokio::sync::{mpsc::error::TrySendError, oneshot};

use super::{Mail, Running, Shard, Timer, feeds::Feed, home_of, room::Maker};
use crate::{clock::now_us, fanout::FeedKey, source::Scheduled, stream::Payloads};

/// Ticks a source makes up for in one turn, so that one that cannot keep up
/// does not keep its shard from everything else.
const TICKS_PER_TURN: u32 = 64;

/// The same for its bytes, after which no further tick begins: an answer should wait for
/// no more than one of the largest events, and what two of them need is never at hand.
const TICKED_BYTES_PER_TURN: usize = 1 << 19;

/// How long nobody must have subscribed for a source to rest, in µs: who polls is away
/// between two polls, and another shard says within a second that it has nobody left.
const REST_AFTER_US: u64 = 1_000_000;

/// Publishes of sources beside their topics that wait for other shards: some minutes'
/// worth. A shard that takes none for so long has other troubles.
const BESIDE_MAX: usize = 256;

impl Shard {
    /// Puts a source to work on its home shard.
    pub(super) fn start_source(&mut self, topic: &Topic, scheduled: Scheduled) {
        let Ok(feed) = self.feeds.open(topic, true, Maker::Publisher) else {
            tracing::error!(%topic, "too many topics: the source does not run");
            return;
        };
        if let Some(home) = self.feeds.get_mut(feed).and_then(|feed| feed.home.as_mut()) {
            home.is_fed = true;
        }
        let next_us = scheduled.start_us.unwrap_or_else(now_us);
        let rests = scheduled.while_subscribed;
        if rests {
            self.counts.sources_resting += 1;
        } else if scheduled.interval_us.is_some() {
            self.set_timer(next_us, Timer::Source(self.sources.len()));
        }
        let payloads = Payloads::default();
        self.sources.push(Running { feed, scheduled, next_us, rests, unread_us: None, payloads });
    }

    pub(super) fn tick(&mut self, index: usize, now_us: u64) {
        if self.begins_to_rest(index, now_us) {
            return;
        }
        let running = &mut self.sources[index];
        let Some(interval_us) = running.scheduled.interval_us else { return };
        let feed = running.feed;
        let mut payloads = std::mem::take(&mut running.payloads);
        let mut ticks = 0;
        while running.next_us <= now_us
            && ticks < TICKS_PER_TURN
            && payloads.joined().len() < TICKED_BYTES_PER_TURN
        {
            let late_us = now_us - running.next_us;
            self.counts.source_ticks += 1;
            self.counts.source_ticks_late += u64::from(late_us > 1_000);
            let lateness = &mut self.counts.source_lateness_seconds_max;
            *lateness = late_us.max(*lateness);
            running.scheduled.source.tick(running.next_us, &mut payloads);
            // An interval may be longer than the clock is.
            running.next_us = running.next_us.saturating_add(interval_us);
            ticks += 1;
        }
        let next_us = running.next_us;
        let beside = running.scheduled.take_beside();
        self.append_to(feed, &mut payloads, now_us);
        self.sources[index].payloads = payloads;
        self.set_timer(next_us.max(now_us + 1), Timer::Source(index));
        if let Some((topic, payloads)) = beside {
            self.publish_beside(topic, payloads);
        }
    }

    /// Has a source rest that only ticks while somebody subscribes, if nobody does any
    /// more; whether it rests now.
    fn begins_to_rest(&mut self, index: usize, now_us: u64) -> bool {
        let running = &mut self.sources[index];
        if !running.scheduled.while_subscribed {
            return false;
        }
        if self.feeds.get(running.feed).is_some_and(Feed::is_read) {
            running.unread_us = None;
            return false;
        }
        let unread_us = *running.unread_us.get_or_insert(now_us);
        running.rests = now_us - unread_us >= REST_AFTER_US;
        self.counts.sources_resting += u64::from(running.rests);
        running.rests
    }

    /// Somebody subscribes: a source that rested begins anew, an interval from now. What
    /// it would have made meanwhile is not made up for.
    pub(super) fn rouse(&mut self, feed: FeedKey) {
        if self.counts.sources_resting == 0 {
            return;
        }
        let now_us = now_us();
        for (index, running) in self.sources.iter_mut().enumerate() {
            if running.feed != feed || !std::mem::take(&mut running.rests) {
                continue;
            }
            self.counts.sources_resting -= 1;
            running.scheduled.source.pause();
            running.unread_us = None;
            let interval_us = running.scheduled.interval_us.unwrap_or_default();
            running.next_us = now_us.saturating_add(interval_us);
            self.timers.push(Reverse((running.next_us, Timer::Source(index))));
        }
    }

    fn publish_beside(&mut self, topic: Topic, mut payloads: Payloads) {
        if !self.is_home_of(&topic) {
            if self.unposted_beside.len() < BESIDE_MAX {
                self.unposted_beside.push_back((topic, payloads));
            }
        } else if let Err(refusal) = self.append(&topic, &mut payloads, None) {
            self.counts.count_refused(refusal.code);
        }
    }

    /// Posts what sources publish to other shards' topics, in its order.
    pub(super) fn post_beside(&mut self) {
        while let Some((topic, payloads)) = self.unposted_beside.pop_front() {
            let home = home_of(&topic, self.common.peers.len());
            // Nobody waits for the answer.
            let (answer, _) = oneshot::channel();
            let letter = Mail::Append { topic, payloads, retry: None, answer };
            // A shard that has drained needs it no more.
            let posted = self.common.peers[home].publishes.try_send(letter);
            if let Err(TrySendError::Full(Mail::Append { topic, payloads, .. })) = posted {
                self.unposted_beside.push_front((topic, payloads));
                return self.try_again();
            }
        }
    }
}
