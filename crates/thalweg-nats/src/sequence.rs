//! Whether a message is missing. A consumer numbers its deliveries: a hole means that a delivery was lost, and the consumer is
//! created again from there. A hole in the stream's numbers alone means that messages were removed before they were read.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    stream_next: u64,
    consumer_next: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Next,
    /// The next existing message: this many before it were removed from the stream.
    Removed(u64),
    /// A message that was read before, because a consumer may begin too early.
    Old,
    /// A message after a lost one.
    Hole,
}

impl Sequence {
    /// Returns the state in which all messages before `stream_next` were read.
    pub(crate) fn new(stream_next: u64) -> Self {
        Self { stream_next, consumer_next: 1 }
    }

    /// Returns the first sequence number of the stream that was not read.
    pub(crate) fn stream_next(self) -> u64 {
        self.stream_next
    }

    pub(crate) fn restart_consumer(&mut self) {
        self.consumer_next = 1;
    }

    /// Adds a message. A hole has no effect.
    pub(crate) fn take(&mut self, stream_sequence: u64, consumer_sequence: u64) -> Step {
        if consumer_sequence != self.consumer_next {
            return Step::Hole;
        }
        self.consumer_next += 1;
        self.take_in_order(stream_sequence)
    }

    /// Adds a message from a direct get, before which none is missing.
    pub(crate) fn take_in_order(&mut self, stream_sequence: u64) -> Step {
        if stream_sequence < self.stream_next {
            return Step::Old;
        }
        let removed = stream_sequence - self.stream_next;
        self.stream_next = stream_sequence + 1;
        if removed == 0 { Step::Next } else { Step::Removed(removed) }
    }

    /// Resets the first sequence number that was not read to `stream_next`.
    pub(crate) fn take_back(&mut self, stream_next: u64) {
        self.stream_next = stream_next;
    }

    /// Returns whether a heartbeat, which names the consumer's last delivery, agrees.
    pub(crate) fn agrees(self, consumer_last: u64) -> bool {
        consumer_last + 1 == self.consumer_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_each_other() {
        let mut sequence = Sequence::new(10);
        assert!(sequence.agrees(0));
        assert_eq!(sequence.take(10, 1), Step::Next);
        assert_eq!(sequence.take(11, 2), Step::Next);
        assert!(sequence.agrees(2));
        assert_eq!(sequence.stream_next(), 12);
    }

    #[test]
    fn a_lost_delivery_is_a_hole() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(10, 1), Step::Next);
        assert_eq!(sequence.take(12, 3), Step::Hole);
        assert!(!sequence.agrees(3), "a heartbeat shows it too");
        assert_eq!(sequence.stream_next(), 11, "the next consumer begins there");
        sequence.restart_consumer();
        assert_eq!(sequence.take(11, 1), Step::Next);
        assert_eq!(sequence.take(12, 2), Step::Next);
    }

    #[test]
    fn a_repetition_by_the_consumer_is_also_a_hole() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(10, 1), Step::Next);
        assert_eq!(sequence.take(10, 1), Step::Hole);
    }

    #[test]
    fn removed_messages_are_not_awaited() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(15, 1), Step::Removed(5));
        assert_eq!(sequence.take(16, 2), Step::Next);
    }

    #[test]
    fn a_delivery_of_a_read_message_is_old() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take_in_order(10), Step::Next);
        assert_eq!(sequence.take_in_order(12), Step::Removed(1));
        assert_eq!(sequence.take(10, 1), Step::Old);
        assert_eq!(sequence.take(12, 2), Step::Old);
        assert_eq!(sequence.take(13, 3), Step::Next);
    }

    #[test]
    fn a_repeated_delivery_is_old() {
        let mut sequence = Sequence::new(10);
        assert_eq!(sequence.take(8, 1), Step::Old);
        assert_eq!(sequence.take(9, 2), Step::Old);
        assert_eq!(sequence.take(10, 3), Step::Next);
    }
}
