//! Periodic work for subscribers: heartbeats, stalled connections, reconnects.

use smallvec::SmallVec;
use thalweg_core::{fanout::FeedKey, stream::ColumnCounts};
use thalweg_wire::{GapReason, SharedContext, close};

use super::{Connection, ConnectionPhase, ReconnectReason, Subscribers, Timer};
use crate::{config::RECONNECT_SPACING_US, shard::topics::Topics};

/// The steps in which the heartbeat visits all connections, so that they do not all get one at the same time.
const HEARTBEAT_SLOTS: usize = 64;

/// How long a peer may take to answer a close, in µs.
const CLOSE_WAIT_US: u64 = 2_000_000;

impl Subscribers {
    /// Sends a heartbeat to the connections of the next slot to which no data was sent since the last pass.
    pub(super) fn heartbeat(&mut self, now_us: u64) {
        let slot = self.heartbeat_slot;
        self.heartbeat_slot = (slot + 1) % HEARTBEAT_SLOTS;
        for key in (slot..self.flags.len()).step_by(HEARTBEAT_SLOTS) {
            let flags = &mut self.flags[key];
            let was_sent = std::mem::take(&mut flags.sent) && !flags.always_beats;
            if was_sent || flags.blocked || flags.phase == ConnectionPhase::Closing {
                continue;
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.heartbeat() {
                self.counts.heartbeats.add(1);
                self.mark_dirty(key as u32);
            }
        }
        // There are two passes per interval, because a heartbeat counts as data at the next pass.
        let half_us = self.common.config.heartbeat().as_micros() as u64 / 2;
        let step_us = (half_us / HEARTBEAT_SLOTS as u64).max(1);
        self.heartbeat_due_us = next_step_us(self.heartbeat_due_us, step_us, now_us);
        self.timers.set(self.heartbeat_due_us, Timer::Heartbeat);
    }

    pub(in crate::shard) fn sweep(&mut self, topics: &mut Topics, now_us: u64) {
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
        self.counts.contexts_primed.set(SharedContext::primed_frames());
        self.counts.unfinished_bytes.set(self.unfinished_bytes as u64);
    }

    fn sweep_connections(&mut self, topics: &mut Topics, now_us: u64) {
        let limits = self.common.config.limits;
        let stall_us = limits.write_timeout.as_micros() as u64;
        let body_wait_us = limits.body_timeout.as_micros() as u64;
        let (mut over, mut holders, mut unfinished) = (Vec::new(), Vec::new(), Vec::new());
        let mut silent = Vec::new();
        let mut lag = 0;
        for (key, flags) in self.flags.iter().enumerate() {
            let is_silent = |connection: &Connection| {
                (connection.is_polled() || !flags.read_paused) && connection.is_silent(now_us)
            };
            if flags.has_client_timeout && self.connections.get(key).is_some_and(is_silent) {
                silent.push(key as u32);
                continue;
            }
            if !flags.blocked && flags.phase == ConnectionPhase::Serving && !flags.unfinished {
                continue;
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let begun_us = connection.unfinished_us;
            if flags.unfinished && begun_us > 0 && now_us.saturating_sub(begun_us) > body_wait_us {
                unfinished.push(key as u32);
            }
            lag = lag.max(connection.subscriber.lag(topics));
            let stalled_us = now_us.saturating_sub(connection.stalled_us);
            if flags.phase.is_over(connection) && stalled_us > CLOSE_WAIT_US {
                over.push(key as u32);
            } else if flags.blocked && connection.holds_memory() {
                let is_over = connection.writer.has_write_timeout()
                    && connection.is_stalled(topics, now_us, stall_us);
                holders.push((stalled_us, key as u32, is_over));
            }
        }
        self.counts.lag_events_max.set(lag);
        over.into_iter().for_each(|key| self.remove(topics, key));
        unfinished.into_iter().for_each(|key| self.close(key, close::TOO_SLOW));
        silent.into_iter().for_each(|key| self.close_silent(topics, key, now_us));
        if holders.is_empty() {
            return;
        }
        // The connections that have stalled longest come first.
        holders.sort_unstable_by(|a, b| b.cmp(a));
        let mut pinned = topics.all_pinned_bytes();
        for (_, key, is_over) in holders {
            if !is_over && pinned <= limits.pinned_bytes {
                continue;
            }
            let connection = &self.connections[key as usize];
            let mut feeds: SmallVec<[FeedKey; 8]> = connection.subscriber.feeds().collect();
            // A feed that is being left and was subscribed to again is listed twice.
            feeds.sort_unstable();
            feeds.dedup();
            // The kernel drops the unsent bytes, too.
            connection.writer.reset();
            let before = topics.pinned_bytes(&feeds);
            self.cut(topics, key, close::STALLED);
            pinned -= before - topics.pinned_bytes(&feeds);
        }
    }

    /// Closes a connection whose client has sent nothing for too long. A polled connection is removed at once:
    /// its messages have no receiver any more.
    fn close_silent(&mut self, topics: &mut Topics, key: u32, now_us: u64) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        connection.forgive_silence(now_us);
        if connection.subscriber.is_ending() || connection.is_polled() {
            return self.cut(topics, key, close::SILENT);
        }
        self.close(key, close::SILENT);
    }

    /// Tells connections to reconnect, spread over at most `most_us`, so that they do not all reconnect in the same instant.
    pub(in crate::shard) fn tell_to_reconnect(
        &mut self,
        reason: ReconnectReason,
        keys: &[u32],
        now_us: u64,
        most_us: u64,
    ) {
        let span_us = most_us.min(keys.len() as u64 * RECONNECT_SPACING_US);
        for (nth, key) in keys.iter().enumerate() {
            let Some(connection) = self.connections.get(*key as usize) else { continue };
            let at_us = now_us + span_us * nth as u64 / keys.len() as u64;
            self.reconnects.set(at_us, (reason, *key, connection.serial));
        }
    }

    /// Sends the reconnects that are due.
    pub(super) fn send_reconnects(&mut self, now_us: u64) {
        while let Some((reason, key, serial)) = self.reconnects.take_due(now_us) {
            let connection = self.connections.get(key as usize);
            if connection.is_some_and(|connection| {
                connection.serial == serial && !connection.subscriber.is_ending()
            }) {
                self.close(key, reason.close());
            }
        }
    }
}

/// Returns when the next slot is due. A timer that fires late does not lengthen the interval. Only one of several
/// missed steps is made up for, because many connections would otherwise get a heartbeat at the same time.
fn next_step_us(due_us: u64, step_us: u64, now_us: u64) -> u64 {
    (due_us + step_us).max(now_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many slots are visited at each of these times, with a step of 100 µs from time 0.
    fn visits(times_us: &[u64]) -> Vec<u32> {
        let mut due_us = 0;
        let visited = |now_us: &u64| {
            let mut slots = 0;
            while due_us <= *now_us {
                due_us = next_step_us(due_us, 100, *now_us);
                slots += 1;
            }
            slots
        };
        times_us.iter().map(visited).collect()
    }

    #[test]
    fn late_timers_lengthen_no_interval_and_cause_no_burst() {
        assert_eq!(visits(&[30, 110, 210, 390, 400]), [1, 1, 1, 1, 1]);
        assert_eq!(visits(&[0, 150, 300, 450, 600]), [1, 1, 2, 1, 2]);
        assert_eq!(visits(&[0, 5000, 5001, 5099, 5100]), [1, 2, 0, 0, 1]);
    }
}
