//! The health of the server's connection to its streams. Pure.

use crate::config::CUT_OFF_AFTER_US;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamHealth {
    /// The server has not caught up since its start.
    #[default]
    Starting,
    Ready,
    /// The server has not been ready since this time, in µs.
    CutOff(u64),
    /// Subscribers were told to reconnect at this time, in µs. A client that reconnects here found no better server.
    Notified(u64),
}

impl StreamHealth {
    /// Returns the next state, and whether to tell subscribers now. They are told once per outage.
    pub(super) fn after(self, is_ready: bool, now_us: u64) -> (Self, bool) {
        match (self, is_ready) {
            (_, true) => (Self::Ready, false),
            (Self::Ready, false) => (Self::CutOff(now_us), false),
            (Self::CutOff(since_us), false) if now_us - since_us >= CUT_OFF_AFTER_US => {
                (Self::Notified(now_us), true)
            }
            (same, false) => (same, false),
        }
    }

    /// Returns whether a polling client whose connection was opened at `opened_us` was not told, because it had no
    /// subscriber between two polls. A client that was told reconnects on another connection.
    pub(super) fn missed_notice(self, opened_us: u64) -> bool {
        matches!(self, Self::Notified(at_us) if opened_us <= at_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_told_once_per_outage() {
        let (mut stream_health, mut told) = (StreamHealth::default(), Vec::new());
        let second = 1_000_000;
        let ready = |second: u64| (3..10).contains(&second) || (30..32).contains(&second);
        for nth in 0..60 {
            let (next, is_time) = stream_health.after(ready(nth), nth * second);
            stream_health = next;
            told.extend(is_time.then_some(nth));
        }
        let after = CUT_OFF_AFTER_US / second;
        assert_eq!(told, [10 + after, 32 + after], "not before it was ready for the first time");
    }

    #[test]
    fn only_earlier_connections_are_notified() {
        let told = StreamHealth::Notified(7);
        assert_eq!([6, 7, 8].map(|opened_us| told.missed_notice(opened_us)), [true, true, false]);
        assert_eq!(told.after(false, 100), (told, false), "the same outage");
        for stream_health in [StreamHealth::Starting, StreamHealth::Ready, StreamHealth::CutOff(7)]
        {
            assert!(!stream_health.missed_notice(0), "{stream_health:?}");
        }
    }

    #[test]
    fn a_short_outage_is_not_told() {
        let stream_health = StreamHealth::CutOff(7);
        assert_eq!(stream_health.after(false, 6 + CUT_OFF_AFTER_US), (stream_health, false));
        assert_eq!(stream_health.after(true, 7 + CUT_OFF_AFTER_US), (StreamHealth::Ready, false));
    }
}
