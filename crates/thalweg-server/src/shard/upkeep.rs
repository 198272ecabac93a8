//! Periodic work for subscribers: sends heartbeats, and ends connections that stall.

use smallvec::SmallVec;
use thalweg_wire::{GapReason, close};

use super::{
    subscribers::{Phase, Subscribers, Timer},
    topics::Topics,
};
use thalweg_core::{fanout::FeedKey, stream::ColumnCounts};

/// The heartbeat visits all connections in this many steps, so that they are not all sent one
/// at the same time.
const HEARTBEAT_SLOTS: usize = 64;

/// How long a peer may take to answer a close, in µs.
const CLOSE_WAIT_US: u64 = 2_000_000;

impl Subscribers {
    /// Sends a heartbeat to those connections of the next slot that were sent nothing since the
    /// last pass.
    pub(super) fn heartbeat(&mut self, now_us: u64) {
        let slot = self.heartbeat_slot;
        self.heartbeat_slot = (slot + 1) % HEARTBEAT_SLOTS;
        for key in (slot..self.flags.len()).step_by(HEARTBEAT_SLOTS) {
            let flags = &mut self.flags[key];
            let was_sent = std::mem::take(&mut flags.sent);
            if was_sent || flags.blocked || flags.phase == Phase::Closing {
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
        self.timers.set(now_us + step_us.max(1), Timer::Heartbeat);
    }

    /// Frees what is no longer needed.
    pub(super) fn sweep(&mut self, topics: &mut Topics, now_us: u64) {
        self.sweep_connections(topics, now_us);
        self.sweep_answers(topics, now_us);
        self.counts.gaps_slow.set(self.scratch.gaps(GapReason::Slow));
        self.counts.gaps_trimmed.set(self.scratch.gaps(GapReason::Trimmed));
        self.counts.gaps_epoch.set(self.scratch.gaps(GapReason::Epoch));
        self.counts.gaps_unknown.set(self.scratch.gaps(GapReason::Unknown));
        let ColumnCounts { frames, unreadable, changes } = self.scratch.columns();
        self.counts.columns_frames.set(frames);
        self.counts.columns_unreadable.set(unreadable);
        self.counts.columns_changed.set(changes);
        self.counts.unfinished_bytes.set(self.unfinished_bytes as u64);
    }

    fn sweep_connections(&mut self, topics: &mut Topics, now_us: u64) {
        let limits = self.common.config.limits;
        let stall_us = limits.stall.as_micros() as u64;
        let body_wait_us = limits.body_wait.as_micros() as u64;
        let (mut over, mut holders, mut unfinished) = (Vec::new(), Vec::new(), Vec::new());
        let mut lag = 0;
        for (key, flags) in self.flags.iter().enumerate() {
            if !flags.blocked && flags.phase == Phase::Serving && !flags.unfinished {
                continue;
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let begun_us = connection.unfinished_us;
            if flags.unfinished && begun_us > 0 && now_us.saturating_sub(begun_us) > body_wait_us {
                unfinished.push(key as u32);
            }
            lag = lag.max(connection.subscriber.lag(&topics.feeds));
            let stalled_us = now_us.saturating_sub(connection.stalled_us);
            if flags.phase.is_over(connection) && stalled_us > CLOSE_WAIT_US {
                over.push(key as u32);
            } else if flags.blocked && connection.holds_memory() {
                // A pipe's stream has its own deadline (`http/timeouts.rs`).
                let is_over = connection.writer.socket().is_some()
                    && connection.is_stalled(&topics.feeds, now_us, stall_us);
                holders.push((stalled_us, key as u32, is_over));
            }
        }
        self.counts.lag_events_max.set(lag);
        over.into_iter().for_each(|key| self.remove(topics, key));
        unfinished.into_iter().for_each(|key| self.close(key, close::TOO_SLOW));
        // Those stalled longest come first.
        holders.sort_unstable_by(|a, b| b.cmp(a));
        let mut pinned = topics.all_pinned_bytes();
        for (_, key, is_over) in holders {
            if !is_over && pinned <= limits.pinned_bytes {
                continue;
            }
            let connection = &self.connections[key as usize];
            let mut feeds: SmallVec<[FeedKey; 8]> = connection.subscriber.feeds().collect();
            // A feed that it leaves and has subscribed to again is listed twice.
            feeds.sort_unstable();
            feeds.dedup();
            // Nothing more is sent to it, and the kernel drops its unsent bytes too.
            connection.writer.reset();
            let before = topics.pinned_bytes(&feeds);
            self.counts.count_closed(close::STALLED.code);
            self.remove(topics, key);
            pinned -= before - topics.pinned_bytes(&feeds);
        }
    }
}
