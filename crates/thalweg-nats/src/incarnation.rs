//! Which stream it is.
//!
//! Sequence numbers mean something within one incarnation of a stream. A stream that was deleted and
//! made again has another time of creation. One that lost messages that were read already (an older
//! backup was restored, or all replicas lost their newest writes) gives their numbers again, to other
//! messages: whoever sees that raises the **generation**, a number in the stream's metadata.

use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_wire::Epoch;

/// Generations in one millisecond of creation.
const GENERATIONS: u64 = 256;

/// The epoch of a stream, by its time of creation and its generation. `None` before 1970.
pub(crate) fn epoch_of(created: SystemTime, generation: u64) -> Option<Epoch> {
    let created_ms = created.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let created_ms = u64::try_from(created_ms).ok()?;
    Epoch::new(created_ms.checked_mul(GENERATIONS)? + generation % GENERATIONS)
}

/// What a look at a stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the one that is being read.
    Same,
    /// It is another one.
    Other,
    /// It is the same one by its epoch, and has fewer messages than were read.
    WentBack,
}

/// Compares what is being read with what there is. `next` is the first sequence number that was not
/// read. Messages that were removed do not make the last sequence number smaller.
pub(crate) fn judge(reading: Epoch, next: u64, found: Epoch, last_sequence: u64) -> Verdict {
    if found != reading {
        Verdict::Other
    } else if last_sequence + 1 < next {
        Verdict::WentBack
    } else {
        Verdict::Same
    }
}

/// Looks in a row, four a second, that must say that a stream went back. A server that has just become the leader may
/// not have all messages in its store yet; raising a generation costs all subscribers of all servers a gap.
pub(crate) const WENT_BACK_LOOKS: u32 = 20;

/// Counts those looks.
#[derive(Debug, Default)]
pub(crate) struct Suspicion(u32);

impl Suspicion {
    /// Takes in a look. Says whether the stream did go back.
    pub(crate) fn is_confirmed(&mut self, verdict: Verdict) -> bool {
        self.0 = if verdict == Verdict::WentBack { self.0 + 1 } else { 0 };
        self.0 >= WENT_BACK_LOOKS
    }
}

/// Looks in a row, one a second, in which nothing has come, and a replica had more.
const STALL_LOOKS: u32 = 3;

/// Looks in a row that must find no more before the stall is over: any replica answers, and one may be behind.
const NOT_STALLED_LOOKS: u32 = 10;

/// Whether messages do not come although they are stored.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// The first sequence number that was not read at the last look.
    next: u64,
    ahead: u32,
    /// Looks since a replica had more.
    not_ahead: u32,
}

impl Stall {
    /// Takes in how far was read. Says whether nothing has come since the look before.
    pub(crate) fn may_be(&mut self, next: u64) -> bool {
        if next != self.next {
            *self = Self { next, ..Self::default() };
            return false;
        }
        true
    }

    /// Takes in whether a replica has more. One that has not may be behind itself, and says nothing. Says whether the
    /// messages do not come: once for so many looks.
    pub(crate) fn is_confirmed(&mut self, is_ahead: bool) -> bool {
        self.ahead += u32::from(is_ahead);
        self.not_ahead = if is_ahead { 0 } else { self.not_ahead + 1 };
        let is_confirmed = self.ahead >= STALL_LOOKS;
        if is_confirmed {
            self.ahead = 0;
        }
        is_confirmed
    }

    /// Whether no replica has more.
    pub(crate) fn is_over(&self) -> bool {
        self.not_ahead >= NOT_STALLED_LOOKS
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
        assert_eq!(judge(a, 11, b, 9), Verdict::Other, "somebody else has raised it");
        assert_eq!(judge(a, 1, a, 0), Verdict::Same, "nothing was read of an empty one");
    }

    #[test]
    fn a_stall_is_nothing_that_comes_while_there_is_more() {
        let mut stall = Stall::default();
        assert!(!stall.may_be(7), "the first look says nothing");
        let looks = [true, false, true, true, true, true, true];
        let confirmed = looks.map(|is_ahead| stall.may_be(7) && stall.is_confirmed(is_ahead));
        assert_eq!(confirmed, [false, false, false, true, false, false, true]);
        assert!(!stall.is_over());
        assert!((0..NOT_STALLED_LOOKS).all(|_| !stall.is_confirmed(false)));
        assert!(stall.is_over());
        assert!(!stall.may_be(8) && !stall.is_over(), "something has come");
        assert!(stall.may_be(8) && !stall.is_confirmed(true));
    }

    #[test]
    fn going_back_must_be_seen_several_times_in_a_row() {
        let mut suspicion = Suspicion::default();
        for verdict in [Verdict::WentBack, Verdict::WentBack, Verdict::WentBack, Verdict::Same] {
            assert!(!suspicion.is_confirmed(verdict));
        }
        let mut seen = (0..WENT_BACK_LOOKS).map(|_| suspicion.is_confirmed(Verdict::WentBack));
        assert_eq!(seen.position(|is_confirmed| is_confirmed), Some(WENT_BACK_LOOKS as usize - 1));
    }
}
