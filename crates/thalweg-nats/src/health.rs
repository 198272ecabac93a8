//! Whether this server has caught up with a stream. Pure: callers pass the time.

use std::time::Duration;

use tokio::time::Instant;

/// The time without a message or heartbeat of a stream after which this server is not ready, because other servers may still
/// receive messages. The loss of a consumer is noticed within a second, and then the stream is read without a consumer, as long as
/// any replica answers.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How long this server may lag by more than [`BEHIND_MESSAGES`] before it is not ready.
const BEHIND_MAX: Duration = Duration::from_secs(5);

/// The number of unread messages that a busy stream usually has.
const BEHIND_MESSAGES: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Health {
    has_caught_up: bool,
    /// When the last message, heartbeat or page of direct gets came.
    last_received: Instant,
    behind_since: Option<Instant>,
    pending: u64,
    /// When the newest message that was read was stored, in ns since 1970.
    newest_ns: u64,
    /// Whether the stream stores messages that do not arrive.
    is_stalled: bool,
}

impl Health {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            has_caught_up: false,
            last_received: now,
            behind_since: None,
            pending: 0,
            newest_ns: 0,
            is_stalled: false,
        }
    }

    /// Notes a message, a heartbeat, or a page. A new consumer alone does not count.
    pub(crate) fn received(&mut self, now: Instant) {
        self.last_received = now;
    }

    /// Returns whether a message, heartbeat or page came in the last second.
    pub(crate) fn is_receiving(&self, now: Instant) -> bool {
        now - self.last_received <= Duration::from_secs(1)
    }

    pub(crate) fn restarted(&mut self) {
        self.has_caught_up = false;
        self.is_stalled = false;
    }

    pub(crate) fn pending(&mut self, messages: u64, now: Instant) {
        self.pending = messages;
        self.has_caught_up |= messages == 0;
        if messages <= BEHIND_MESSAGES {
            self.behind_since = None;
        } else {
            self.behind_since.get_or_insert(now);
        }
    }

    pub(crate) fn read(&mut self, time_ns: u64) {
        self.newest_ns = time_ns;
        self.is_stalled = false;
    }

    pub(crate) fn stalled(&mut self) {
        self.is_stalled = true;
    }

    /// Notes that no replica has more messages: those that did not arrive were removed.
    pub(crate) fn has_all(&mut self) {
        self.is_stalled = false;
    }

    /// Returns when the newest message that was read was stored, in ns since 1970; 0 if none was read.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.newest_ns
    }

    /// Returns the age of the newest message that was read, in ns; 0 if all messages were read.
    pub(crate) fn lag_ns(&self, now_ns: u64) -> u64 {
        if self.pending == 0 { 0 } else { now_ns.saturating_sub(self.newest_ns) }
    }

    pub(crate) fn lag(&self) -> u64 {
        self.pending
    }

    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        let is_behind = self.behind_since.is_some_and(|since| now - since > BEHIND_MAX);
        self.has_caught_up
            && !self.is_stalled
            && now - self.last_received <= SILENCE_MAX
            && !is_behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_server_that_has_read_all_messages_once_is_ready() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.pending(10, now);
        assert!(!health.is_ready(now));
        health.pending(0, now);
        assert!(health.is_ready(now));
        health.pending(10, now);
        assert!(health.is_ready(now), "a few unread messages do not count");
        health.restarted();
        assert!(!health.is_ready(now));
    }

    #[test]
    fn silence_counts_after_a_while() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.pending(0, now);
        health.received(now + SECOND);
        assert!(health.is_ready(now + SECOND + SILENCE_MAX));
        let later = now + 2 * SECOND + SILENCE_MAX;
        assert!(!health.is_ready(later));
        // A new consumer without a message or heartbeat has no effect.
        health.pending(0, later);
        assert!(!health.is_ready(later));
        health.received(later);
        assert!(health.is_ready(later));
    }

    #[test]
    fn heartbeats_do_not_count_while_stored_messages_do_not_arrive() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.pending(0, now);
        health.stalled();
        health.received(now);
        health.pending(0, now);
        assert!(!health.is_ready(now));
        health.read(1);
        assert!(health.is_ready(now));
        // Messages that were removed, or belong to another epoch, never arrive.
        health.stalled();
        health.has_all();
        assert!(health.is_ready(now));
        health.stalled();
        health.restarted();
        health.pending(0, now);
        assert!(health.is_ready(now));
    }

    #[test]
    fn being_far_behind_counts_after_a_while() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.pending(0, now);
        health.pending(BEHIND_MESSAGES + 1, now);
        assert!(health.is_ready(now + 5 * SECOND));
        health.received(now + 5 * SECOND);
        health.pending(BEHIND_MESSAGES + 2, now + 5 * SECOND);
        assert!(!health.is_ready(now + 6 * SECOND));
        health.pending(BEHIND_MESSAGES, now + 6 * SECOND);
        assert!(health.is_ready(now + 7 * SECOND));
    }
}
