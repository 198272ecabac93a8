//! Sources at work: their ticks, their rest, and what they publish beside their topic.

use std::cmp::Reverse;

use thalweg_wire::Topic;
use tokio::sync::{mpsc::error::TrySendError, oneshot};

use super::{Mail, Running, Shard, Timer, demand::Change, home_of, room::Maker};
use crate::{clock::now_us, fanout::FeedKey, source::Scheduled, stream::Payloads};

/// Ticks a source makes up for in one turn, so that one that cannot keep up
/// does not keep its shard from everything else.
const TICKS_PER_TURN: u32 = 64;

/// The same for its bytes, after which no further tick begins: an answer should wait for
/// no more than one of the largest events, and what two of them need is never at hand.
const TICKED_BYTES_PER_TURN: usize = 1 << 19;

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
        let is_timed = !rests && scheduled.interval_us.is_some();
        self.counts.sources_resting += u64::from(rests);
        if is_timed {
            self.set_timer(next_us, Timer::Source(self.sources.len()));
        }
        let payloads = Payloads::default();
        self.sources.push(Running { feed, scheduled, next_us, rests, is_timed, payloads });
    }

    pub(super) fn tick(&mut self, index: usize, now_us: u64) {
        let running = &mut self.sources[index];
        if running.rests {
            running.is_timed = false;
            return;
        }
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

    /// Somebody subscribes to a topic. That nobody does any more is found by the sweep.
    pub(super) fn want(&mut self, key: FeedKey, now_us: u64) {
        let change = self.feeds.get_mut(key).and_then(|feed| feed.update_demand(now_us));
        if let Some(change) = change {
            self.tell_sources(key, change, now_us);
        }
    }

    /// Has the sources of a topic that tick only while it is wanted go by that. One that
    /// begins anew does so an interval from now: what it would have made meanwhile is not
    /// made up for.
    pub(super) fn tell_sources(&mut self, feed: FeedKey, change: Change, now_us: u64) {
        for (index, running) in self.sources.iter_mut().enumerate() {
            if running.feed != feed || !running.scheduled.while_subscribed {
                continue;
            }
            running.rests = change == Change::Stop;
            if running.rests {
                self.counts.sources_resting += 1;
                continue;
            }
            self.counts.sources_resting -= 1;
            running.scheduled.source.pause();
            let interval_us = running.scheduled.interval_us.unwrap_or_default();
            running.next_us = now_us.saturating_add(interval_us);
            // A timer of before it rested is earlier, and finds nothing to do.
            if !std::mem::replace(&mut running.is_timed, true) {
                self.timers.push(Reverse((running.next_us, Timer::Source(index))));
            }
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
