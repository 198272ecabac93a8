//! Whether this server has caught up with a stream. Pure: time comes in.

use std::time::Duration;

use tokio::time::Instant;

/// How long a stream may be unread, or behind, before this server says that it is not ready. Making a consumer anew, after a server of NATS has
/// gone, takes less.
const PATIENCE: Duration = Duration::from_secs(5);

/// So many messages behind are what a busy stream has under way.
const BEHIND_MESSAGES: u64 = 4096;

/// One stream's.
#[derive(Debug)]
pub(crate) struct Health {
    /// Whether everything was read once.
    has_caught_up: bool,
    /// Since when it is not read: there is no consumer, and direct gets bring nothing either.
    lost_since: Option<Instant>,
    /// Since when too much is unread.
    behind_since: Option<Instant>,
    pending: u64,
    /// When the newest message that was read was stored, in ns since the Unix epoch.
    newest_ns: u64,
}

impl Health {
    /// Of a stream of which nothing was read.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            has_caught_up: false,
            lost_since: Some(now),
            behind_since: None,
            pending: 0,
            newest_ns: 0,
        }
    }

    /// It is read.
    pub(crate) fn found(&mut self) {
        self.lost_since = None;
    }

    /// It is not read any more.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.lost_since.get_or_insert(now);
    }

    /// It is another stream from now on.
    pub(crate) fn restarted(&mut self) {
        self.has_caught_up = false;
    }

    /// So many messages are left.
    pub(crate) fn pending(&mut self, messages: u64, now: Instant) {
        self.pending = messages;
        self.has_caught_up |= messages == 0;
        if messages <= BEHIND_MESSAGES {
            self.behind_since = None;
        } else {
            self.behind_since.get_or_insert(now);
        }
    }

    /// A message was read that was stored at this time.
    pub(crate) fn read(&mut self, time_ns: u64) {
        self.newest_ns = time_ns;
    }

    /// How much older than `now_ns` the newest message is that was read, in ns; 0 if none is left.
    pub(crate) fn lag_ns(&self, now_ns: u64) -> u64 {
        if self.pending == 0 { 0 } else { now_ns.saturating_sub(self.newest_ns) }
    }

    /// Messages that were left when it was last known.
    pub(crate) fn lag(&self) -> u64 {
        self.pending
    }

    /// Whether subscribers get what there is.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        let is_over = |since: Option<Instant>| since.is_some_and(|since| now - since > PATIENCE);
        self.has_caught_up && !is_over(self.lost_since) && !is_over(self.behind_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ready_is_who_has_read_everything_once() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.found();
        health.pending(10, now);
        assert!(!health.is_ready(now));
        health.pending(0, now);
        assert!(health.is_ready(now));
        health.pending(10, now);
        assert!(health.is_ready(now), "what is under way does not count");
        health.restarted();
        assert!(!health.is_ready(now));
    }

    #[test]
    fn a_lost_consumer_counts_after_a_while() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.found();
        health.pending(0, now);
        health.lost(now);
        health.lost(now + 4 * SECOND);
        assert!(health.is_ready(now + 5 * SECOND));
        assert!(!health.is_ready(now + 6 * SECOND), "since it was lost first");
        health.found();
        assert!(health.is_ready(now + 6 * SECOND));
    }

    #[test]
    fn being_far_behind_counts_after_a_while() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.found();
        health.pending(0, now);
        health.pending(BEHIND_MESSAGES + 1, now);
        assert!(health.is_ready(now + 5 * SECOND));
        health.pending(BEHIND_MESSAGES + 2, now + 5 * SECOND);
        assert!(!health.is_ready(now + 6 * SECOND));
        health.pending(BEHIND_MESSAGES, now + 6 * SECOND);
        assert!(health.is_ready(now + 60 * SECOND));
    }
}
