use super::{Mail, Shard, Timer, mail::Reader};
use crate::{clock::now_us, fanout::FeedKey};
use smallvec::SmallVec;
use thalweg_wire::{GapReason, close};

/// The heartbeat passes by all connections in this many steps, so that they are
/// not all sent at once.
const HEARTBEAT_SLOTS: usize = 64;

/// From sweep to sweep, in µs.
const SWEEP_US: u64 = 1_000_000;

/// How long a peer may take to answer a good-bye, in µs.
const LINGER_US: u64 = 2_000_000;

impl Shard {
    pub(super) fn start_upkeep(&mut self) {
        let now_us = now_us();
        self.set_timer(now_us + SWEEP_US, Timer::Sweep);
        self.set_timer(now_us, Timer::Heartbeat);
    }

    /// Sends a heartbeat to those of the next slot that were sent nothing since
    /// it passed by last.
    pub(super) fn heartbeat(&mut self, now_us: u64) {
        let slot = self.heartbeat_slot;
        self.heartbeat_slot = (slot + 1) % HEARTBEAT_SLOTS;
        for key in (slot..self.flags.len()).step_by(HEARTBEAT_SLOTS) {
            let flags = &mut self.flags[key];
            let was_sent = std::mem::take(&mut flags.sent);
            if was_sent || flags.blocked || flags.lingering {
                continue;
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.subscriber.heartbeat() {
                self.counts.heartbeats.add(1);
                self.mark_dirty(key as u32);
            }
        }
        // Twice per interval, because a heartbeat counts as sent at the next pass.
        let half_us = self.common.config.heartbeat.as_micros() as u64 / 2;
        let step_us = half_us / HEARTBEAT_SLOTS as u64;
        self.set_timer(now_us + step_us.max(1), Timer::Heartbeat);
    }

    /// Gives back what time has made superfluous.
    pub(super) fn sweep(&mut self, now_us: u64) {
        self.sweep_feeds(now_us);
        self.sweep_connections(now_us);
        self.sweep_answers(now_us);
        self.retries.sweep(now_us, &self.common.config.limits);
        self.counts.gaps_slow.set(self.scratch.gaps(GapReason::Slow));
        self.counts.gaps_trimmed.set(self.scratch.gaps(GapReason::Trimmed));
        self.counts.gaps_epoch.set(self.scratch.gaps(GapReason::Epoch));
        self.counts.unfinished_bytes.set(self.unfinished_bytes as u64);
        self.set_timer(now_us + SWEEP_US, Timer::Sweep);
    }

    fn sweep_feeds(&mut self, now_us: u64) {
        let (mut idle, mut spent): (Vec<FeedKey>, Vec<FeedKey>) = Default::default();
        let (mut history, mut tails, mut pinned, mut topics) = (0, 0, 0, 0);
        let mut changes = Vec::new();
        for (key, feed) in self.feeds.iter_mut() {
            changes.extend(feed.update_demand(now_us).map(|change| (key, change)));
            if let Some(log) = &mut feed.log {
                log.sweep(now_us);
                topics += 1;
                history += log.history_bytes();
                tails += log.tail_bytes();
                pinned += log.pinned_bytes();
            }
            if feed.is_spent() {
                spent.push(key);
            }
            if feed.is_idle() {
                idle.push(key);
            } else if feed.is_wanting() {
                // Its home has not answered: it may keep no more topics.
                self.unattached.push(key);
            }
        }
        for (key, change) in changes {
            self.tell_sources(key, change, now_us);
        }
        self.history_bytes = history;
        self.counts.topics.set(topics);
        self.counts.history_bytes.set(history as u64);
        self.counts.tail_bytes.set(tails as u64);
        self.counts.pinned_bytes.set(pinned as u64);
        spent.into_iter().for_each(|key| self.feeds.spend(key, now_us));
        for key in idle {
            if self.let_go(key) {
                self.feeds.remove(key);
            }
        }
        self.counts.subscribed_topics.set(self.feeds.held() as u64);
        for key in self.feeds.spent_too_many() {
            self.give_up(key);
        }
    }

    /// Tells a topic's home that nobody here reads it any more; `false` if that
    /// has to wait.
    pub(super) fn let_go(&mut self, key: FeedKey) -> bool {
        let Some(feed) = self.feeds.get(key) else { return false };
        if feed.home.is_some() || feed.attachment == 0 {
            return true;
        }
        let home = super::home_of(&feed.topic, self.common.peers.len());
        let attachment = feed.attachment;
        let reader = Reader { topic: feed.topic.clone(), shard: self.id, attachment };
        self.common.peers[home].mail.try_send(Mail::Detach(reader)).is_ok()
    }

    fn sweep_connections(&mut self, now_us: u64) {
        let limits = self.common.config.limits;
        let stall_us = limits.stall.as_micros() as u64;
        let body_wait_us = limits.body_wait.as_micros() as u64;
        let (mut over, mut holders, mut unfinished) = (Vec::new(), Vec::new(), Vec::new());
        let mut lag = 0;
        for (key, flags) in self.flags.iter().enumerate() {
            if !flags.blocked && !flags.lingering && !flags.unfinished {
                continue;
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let begun_us = connection.unfinished_us;
            if flags.unfinished && begun_us > 0 && now_us.saturating_sub(begun_us) > body_wait_us {
                unfinished.push(key as u32);
            }
            lag = lag.max(connection.subscriber.lag(&self.feeds));
            let stalled_us = now_us.saturating_sub(connection.stalled_us);
            if flags.lingering && stalled_us > LINGER_US {
                over.push(key as u32);
            } else if flags.blocked && connection.holds_memory() {
                // A pipe's stream has its own deadline (`http/patience.rs`).
                let is_over = connection.outlet.socket().is_some()
                    && connection.is_stalled(&self.feeds, now_us, stall_us);
                holders.push((stalled_us, key as u32, is_over));
            }
        }
        self.counts.lag_events_max.set(lag);
        over.into_iter().for_each(|key| self.remove(key));
        unfinished.into_iter().for_each(|key| self.close(key, close::TOO_SLOW));
        // The longest-stalled first.
        holders.sort_unstable_by(|a, b| b.cmp(a));
        let all = self.feeds.iter_mut().filter_map(|(_, feed)| feed.log.as_ref());
        let mut pinned: usize = all.map(|log| log.pinned_bytes()).sum();
        for (_, key, is_over) in holders {
            if !is_over && pinned <= limits.pinned_bytes {
                continue;
            }
            let connection = &self.connections[key as usize];
            let mut feeds: SmallVec<[FeedKey; 8]> = connection.subscriber.feeds().collect();
            // One that it leaves and has subscribed to again is there twice.
            feeds.sort_unstable();
            feeds.dedup();
            // It gets no more, and neither does the kernel keep more for it.
            connection.outlet.reset();
            let before = self.pinned_bytes(&feeds);
            self.counts.count_closed(close::STALLED.code);
            self.remove(key);
            pinned -= before - self.pinned_bytes(&feeds);
        }
    }

    /// What partly sent frames of these feeds hold.
    fn pinned_bytes(&self, feeds: &[FeedKey]) -> usize {
        let logs = feeds.iter().filter_map(|key| self.feeds.get(*key)?.log.as_ref());
        logs.map(|log| log.pinned_bytes()).sum()
    }
}
