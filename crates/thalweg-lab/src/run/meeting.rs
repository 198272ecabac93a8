//! Samples that are taken at the same time begin their spans together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of those who meet. Whoever goes away without having come is not waited for.
#[derive(Debug)]
pub(super) struct Seat {
    /// How many are still to come.
    missing: Arc<AtomicUsize>,
    has_come: bool,
}

/// A seat for each of so many.
pub(super) fn meeting(seats: usize) -> Vec<Seat> {
    let missing = Arc::new(AtomicUsize::new(seats));
    (0..seats).map(|_| Seat { missing: Arc::clone(&missing), has_come: false }).collect()
}

impl Seat {
    /// Comes, if this has not happened yet; whether everybody is there.
    pub(super) fn come(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_come, true) {
            self.missing.fetch_sub(1, Ordering::AcqRel);
        }
        self.missing.load(Ordering::Acquire) == 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.come();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_when_the_last_has_come() {
        let mut seats = meeting(3);
        assert!(!seats[0].come());
        assert!(!seats[0].come(), "nobody comes twice");
        assert!(!seats[1].come());
        assert!(seats[2].come());
        assert!(seats[0].come());
    }

    #[test]
    fn whoever_fails_is_not_waited_for() {
        let mut seats = meeting(2);
        assert!(!seats[0].come());
        drop(seats.pop());
        assert!(seats[0].come());
    }

    #[test]
    fn one_alone_waits_for_nobody() {
        assert!(meeting(1)[0].come());
    }
}
