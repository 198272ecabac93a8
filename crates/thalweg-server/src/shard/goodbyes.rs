//! Why connections are told to reconnect, and when. Pure.

use thalweg_wire::{Close, close};

use super::timers::Timers;
use crate::config::CUT_OFF_AFTER_US;

/// Why connections are told to reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Goodbye {
    /// The server ends.
    Draining,
    /// The server hears nothing of streams, and another one may.
    CutOff,
}

/// Connections, by when they are told: their place and their serial.
pub(super) type Goodbyes = Timers<(Goodbye, u32, u64)>;

/// Whether the server hears of its streams, as one shard has seen it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It has not caught up since it started.
    #[default]
    Starting,
    Ready,
    /// It has not been ready since then, in µs.
    Deaf(u64),
    /// Its subscribers were told at that time, in µs. Those who come back find no better one.
    Told(u64),
}

impl Goodbye {
    pub(super) fn close(self) -> Close {
        match self {
            Self::Draining => close::DRAINING,
            Self::CutOff => close::CUT_OFF,
        }
    }
}

impl Hearing {
    /// Returns what it is after a look, and whether subscribers are to be told now: once per outage.
    pub(super) fn after(self, is_ready: bool, now_us: u64) -> (Self, bool) {
        match (self, is_ready) {
            (_, true) => (Self::Ready, false),
            (Self::Ready, false) => (Self::Deaf(now_us), false),
            (Self::Deaf(since_us), false) if now_us - since_us >= CUT_OFF_AFTER_US => {
                (Self::Told(now_us), true)
            }
            (same, false) => (same, false),
        }
    }

    /// Whether a client that polls on a connection opened at `opened_us` may not have been told: it is nobody's subscriber
    /// between two polls. A client that was told comes back on another connection.
    pub(super) fn is_untold(self, opened_us: u64) -> bool {
        matches!(self, Self::Told(at_us) if opened_us <= at_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_told_once_per_outage() {
        let (mut hearing, mut told) = (Hearing::default(), Vec::new());
        let second = 1_000_000;
        let ready = |second: u64| (3..10).contains(&second) || (30..32).contains(&second);
        for nth in 0..60 {
            let (next, is_time) = hearing.after(ready(nth), nth * second);
            hearing = next;
            told.extend(is_time.then_some(nth));
        }
        let after = CUT_OFF_AFTER_US / second;
        assert_eq!(told, [10 + after, 32 + after], "not before it was ready for the first time");
    }

    #[test]
    fn connections_of_before_are_told_and_later_ones_are_not() {
        let told = Hearing::Told(7);
        assert_eq!([6, 7, 8].map(|opened_us| told.is_untold(opened_us)), [true, true, false]);
        assert_eq!(told.after(false, 100), (told, false), "the same outage");
        for hearing in [Hearing::Starting, Hearing::Ready, Hearing::Deaf(7)] {
            assert!(!hearing.is_untold(0), "{hearing:?}");
        }
    }

    #[test]
    fn a_short_outage_is_not_told() {
        let hearing = Hearing::Deaf(7);
        assert_eq!(hearing.after(false, 6 + CUT_OFF_AFTER_US), (hearing, false));
        assert_eq!(hearing.after(true, 7 + CUT_OFF_AFTER_US), (Hearing::Ready, false));
    }
}
