//! Epochs of streams.
//!
//! Sequence numbers are valid within one incarnation of a stream. A stream that was deleted and created again
//! has another time of creation. A stream can lose messages that servers have already read, for example if an
//! older backup is restored, or all replicas lose their newest writes. It then gives their sequence numbers
//! to other messages. The server that notices this raises the **generation**, a number in the stream's
//! metadata.

use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_wire::Epoch;

/// Number of generations that an epoch can tell apart for each millisecond of creation.
const GENERATIONS: u64 = 256;

/// Returns the epoch of a stream from its time of creation and its generation; `None` before 1970.
pub(crate) fn epoch_of(created: SystemTime, generation: u64) -> Option<Epoch> {
    let created_ms = created.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let created_ms = u64::try_from(created_ms).ok()?;
    Epoch::new(created_ms.checked_mul(GENERATIONS)? + generation % GENERATIONS)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    /// The stream has another epoch.
    Other,
    /// The stream has the same epoch, and fewer messages than were read.
    WentBack,
}

/// Compares the stream that is being read with the one that was found. `next` is the first sequence number
/// that was not read. The removal of messages does not lower the last sequence number, so a lower number is a
/// loss.
pub(crate) fn judge(reading: Epoch, next: u64, found: Epoch, last_sequence: u64) -> Verdict {
    if found != reading {
        Verdict::Other
    } else if last_sequence + 1 < next {
        Verdict::WentBack
    } else {
        Verdict::Same
    }
}

/// Number of failed checks in a row, at four a second, after which the stream counts as having lost messages.
/// A new leader may not have all messages in its store yet; raising a generation costs all subscribers of all
/// servers a gap.
pub(crate) const WENT_BACK_CHECKS: u32 = 20;

#[derive(Debug, Default)]
pub(crate) struct Suspicion(u32);

impl Suspicion {
    /// Adds a check. Returns whether the stream has lost messages.
    pub(crate) fn is_confirmed(&mut self, verdict: Verdict) -> bool {
        self.0 = if verdict == Verdict::WentBack { self.0 + 1 } else { 0 };
        self.0 >= WENT_BACK_CHECKS
    }
}

/// Number of checks, one a second, after which a stream counts as stalled: no message arrived, but a replica
/// has more.
const STALL_CHECKS: u32 = 3;

/// Number of checks in a row, in which no replica has more messages, after which a stall is over. One check
/// is not enough, because any replica answers, and it may be behind.
const NOT_STALLED_CHECKS: u32 = 10;

#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// The first sequence number that was not read at the last check.
    next: u64,
    ahead: u32,
    /// Checks since a replica had more.
    not_ahead: u32,
}

impl Stall {
    /// Sets the first sequence number that was not read. Returns whether it is the same as at the last check,
    /// which means that a stall is possible.
    pub(crate) fn may_be(&mut self, next: u64) -> bool {
        if next != self.next {
            *self = Self { next, ..Self::default() };
            return false;
        }
        true
    }

    /// Records whether a replica has more messages. (A replica that has no more may itself be behind.)
    /// Returns `true` once after every [`STALL_CHECKS`] checks in which a replica had more.
    pub(crate) fn is_confirmed(&mut self, is_ahead: bool) -> bool {
        self.ahead += u32::from(is_ahead);
        self.not_ahead = if is_ahead { 0 } else { self.not_ahead + 1 };
        let is_confirmed = self.ahead >= STALL_CHECKS;
        if is_confirmed {
            self.ahead = 0;
        }
        is_confirmed
    }

    pub(crate) fn is_over(&self) -> bool {
        self.not_ahead >= NOT_STALLED_CHECKS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn epoch(created_ms: u64, generation: u64) -> Epoch {
        epoch_of(UNIX_EPOCH + Duration::from_millis(created_ms), generation).unwrap()
    }

    #[test]
    fn creation_and_generation_make_an_epoch() {
        assert_eq!(epoch(1_700_000_000_000, 1).get(), 1_700_000_000_000 * 256 + 1);
        assert_ne!(epoch(1_700_000_000_000, 1), epoch(1_700_000_000_000, 2));
        assert_ne!(epoch(1_700_000_000_000, 1), epoch(1_700_000_000_001, 1));
        assert_eq!(epoch(5, 256), epoch(5, 0));
        assert_eq!(epoch_of(UNIX_EPOCH - Duration::from_secs(1), 1), None);
    }

    #[test]
    fn a_stream_is_the_same_another_or_went_back() {
        let (a, b) = (epoch(1000, 1), epoch(1000, 2));
        assert_eq!(judge(a, 11, a, 10), Verdict::Same);
        assert_eq!(judge(a, 11, a, 12), Verdict::Same);
        assert_eq!(judge(a, 11, a, 9), Verdict::WentBack);
        assert_eq!(judge(a, 11, b, 10), Verdict::Other);
        assert_eq!(judge(a, 11, b, 9), Verdict::Other, "another server has raised it");
        assert_eq!(judge(a, 1, a, 0), Verdict::Same, "an empty stream");
    }

    #[test]
    fn a_stall_is_silence_while_there_is_more() {
        let mut stall = Stall::default();
        assert!(!stall.may_be(7), "the first check proves nothing");
        let looks = [true, false, true, true, true, true, true];
        let confirmed = looks.map(|is_ahead| stall.may_be(7) && stall.is_confirmed(is_ahead));
        assert_eq!(confirmed, [false, false, false, true, false, false, true]);
        assert!(!stall.is_over());
        assert!((0..NOT_STALLED_CHECKS).all(|_| !stall.is_confirmed(false)));
        assert!(stall.is_over());
        assert!(!stall.may_be(8) && !stall.is_over(), "a message has arrived");
        assert!(stall.may_be(8) && !stall.is_confirmed(true));
    }

    #[test]
    fn going_back_must_be_seen_several_times_in_a_row() {
        let mut suspicion = Suspicion::default();
        for verdict in [Verdict::WentBack, Verdict::WentBack, Verdict::WentBack, Verdict::Same] {
            assert!(!suspicion.is_confirmed(verdict));
        }
        let mut seen = (0..WENT_BACK_CHECKS).map(|_| suspicion.is_confirmed(Verdict::WentBack));
        assert_eq!(seen.position(|is_confirmed| is_confirmed), Some(WENT_BACK_CHECKS as usize - 1));
    }
}
