//! Whether a message is missing.
//!
//! A consumer numbers what it delivers. Where its numbers have a hole, something was lost between it
//! and us, and it is made again from there. Where its numbers are whole and the stream's have a hole,
//! the stream itself had no such message any more: it was removed before it was read.

/// What is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    stream_next: u64,
    consumer_next: u64,
}

/// What a message is to the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next one.
    Next,
    /// The next one there is: so many before it were removed from the stream.
    Removed(u64),
    /// One that was there before: a consumer may begin earlier than it was asked to.
    Old,
    /// Not the next one: something was lost on the way.
    Hole,
}

impl Sequence {
    /// All before `stream_next` has been read.
    pub(crate) fn new(stream_next: u64) -> Self {
        Self { stream_next, consumer_next: 1 }
    }

    /// The sequence number in the stream from which on nothing has been read.
    pub(crate) fn stream_next(self) -> u64 {
        self.stream_next
    }

    /// There is a new consumer.
    pub(crate) fn restart_consumer(&mut self) {
        self.consumer_next = 1;
    }

    /// Takes a message in. A hole changes nothing.
    pub(crate) fn take(&mut self, stream_sequence: u64, consumer_sequence: u64) -> Step {
        if consumer_sequence != self.consumer_next {
            return Step::Hole;
        }
        self.consumer_next += 1;
        self.take_in_order(stream_sequence)
    }

    /// Takes in a message that no consumer delivered, and before which none is missing.
    pub(crate) fn take_in_order(&mut self, stream_sequence: u64) -> Step {
        if stream_sequence < self.stream_next {
            return Step::Old;
        }
        let removed = stream_sequence - self.stream_next;
        self.stream_next = stream_sequence + 1;
        if removed == 0 { Step::Next } else { Step::Removed(removed) }
    }

    /// From `stream_next` on nothing was read after all.
    pub(crate) fn take_back(&mut self, stream_next: u64) {
        self.stream_next = stream_next;
    }

    /// Whether a heartbeat agrees, which names the consumer's last delivery.
    pub(crate) fn agrees(self, consumer_last: u64) -> bool {
        consumer_last + 1 == self.consumer_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comes_after_the_other() {
        let mut sequence = Sequence::new(10);
        assert!(sequence.agrees(0));
        assert_eq!(sequence.take(10, 1), Step::Next);
        assert_eq!(sequence.take(11, 2), Step::Next);
        assert!(sequence.agrees(2));
        assert_eq!(sequence.stream_next(), 12);
    }

    #[test]
    fn what_was_lost_on_the_way_is_a_hole() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(10, 1), Step::Next);
        assert_eq!(sequence.take(12, 3), Step::Hole);
        assert!(!sequence.agrees(3), "a heartbeat shows it too");
        assert_eq!(sequence.stream_next(), 11, "there the next consumer begins");
        sequence.restart_consumer();
        assert_eq!(sequence.take(11, 1), Step::Next);
        assert_eq!(sequence.take(12, 2), Step::Next);
    }

    #[test]
    fn a_repetition_of_the_consumer_is_a_hole_too() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(10, 1), Step::Next);
        assert_eq!(sequence.take(10, 1), Step::Hole);
    }

    #[test]
    fn what_was_removed_is_not_waited_for() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(15, 1), Step::Removed(5));
        assert_eq!(sequence.take(16, 2), Step::Next);
    }

    #[test]
    fn what_was_read_before_a_consumer_delivers_it_is_old() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take_in_order(10), Step::Next);
        assert_eq!(sequence.take_in_order(12), Step::Removed(1));
        assert_eq!(sequence.take(10, 1), Step::Old);
        assert_eq!(sequence.take(12, 2), Step::Old);
        assert_eq!(sequence.take(13, 3), Step::Next);
    }

    #[test]
    fn what_a_consumer_brings_again_is_old() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(8, 1), Step::Old);
        assert_eq!(sequence.take(9, 2), Step::Old);
        assert_eq!(sequence.take(10, 3), Step::Next);
    }
}
