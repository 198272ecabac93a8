//! Whether this server has caught up with a stream. Pure: time comes in.

use std::time::Duration;

use tokio::time::Instant;

/// How long nothing may be heard of a stream, neither a message nor a heartbeat, before this server says
/// that it is not ready: others may hear something. A lost consumer is noticed within a second, and then
/// the stream is read without one, as long as any replica answers.
pub(crate) const UNHEARD_MAX: Duration = Duration::from_secs(5);

/// How long too much may be unread before that.
const BEHIND_MAX: Duration = Duration::from_secs(5);

/// So many messages behind are what a busy stream has under way.
const BEHIND_MESSAGES: u64 = 4096;

/// One stream's.
#[derive(Debug)]
pub(crate) struct Health {
    /// Whether everything was read once.
    has_caught_up: bool,
    /// When something of it came last: a message, a heartbeat, or a page that was read without a
    /// consumer.
    heard: Instant,
    /// Since when too much is unread.
    behind_since: Option<Instant>,
    pending: u64,
    /// When the newest message that was read was stored, in ns since the Unix epoch.
    newest_ns: u64,
    /// Messages are stored, and do not come.
    is_stalled: bool,
}

impl Health {
    /// Of a stream of which nothing was read.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            has_caught_up: false,
            heard: now,
            behind_since: None,
            pending: 0,
            newest_ns: 0,
            is_stalled: false,
        }
    }

    /// Something of it has come. That a consumer was made says nothing about that.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Whether something has come in the last second.
    pub(crate) fn is_heard(&self, now: Instant) -> bool {
        now - self.heard <= Duration::from_secs(1)
    }

    /// It is another stream from now on.
    pub(crate) fn restarted(&mut self) {
        self.has_caught_up = false;
        self.is_stalled = false;
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
        self.is_stalled = false;
    }

    /// Messages are stored, and do not come, whatever its consumer says.
    pub(crate) fn stalled(&mut self) {
        self.is_stalled = true;
    }

    /// No replica has more than was read: the messages were removed, if they have not come.
    pub(crate) fn has_all(&mut self) {
        self.is_stalled = false;
    }

    /// When the newest message that was read was stored, in ns since the Unix epoch; 0 if none was.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.newest_ns
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
        let is_behind = self.behind_since.is_some_and(|since| now - since > BEHIND_MAX);
        self.has_caught_up && !self.is_stalled && now - self.heard <= UNHEARD_MAX && !is_behind
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
    fn silence_counts_after_a_while() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.pending(0, now);
        health.heard(now + SECOND);
        assert!(health.is_ready(now + SECOND + UNHEARD_MAX));
        let later = now + 2 * SECOND + UNHEARD_MAX;
        assert!(!health.is_ready(later));
        // A consumer that can be made, and of which nothing comes, changes nothing.
        health.pending(0, later);
        assert!(!health.is_ready(later));
        health.heard(later);
        assert!(health.is_ready(later));
    }

    #[test]
    fn heartbeats_are_not_believed_while_stored_messages_do_not_come() {
        let now = Instant::now();
        let mut health = Health::new(now);
        health.pending(0, now);
        health.stalled();
        health.heard(now);
        health.pending(0, now);
        assert!(!health.is_ready(now));
        health.read(1);
        assert!(health.is_ready(now));
        // Messages that were removed, or whose stream is another one now, never come.
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
        health.heard(now + 5 * SECOND);
        health.pending(BEHIND_MESSAGES + 2, now + 5 * SECOND);
        assert!(!health.is_ready(now + 6 * SECOND));
        health.pending(BEHIND_MESSAGES, now + 6 * SECOND);
        assert!(health.is_ready(now + 7 * SECOND));
    }
}
