//! Offsets of events: the sequence number of the message times [`EVENTS_MAX`], plus the index in the message.

use thalweg_wire::{Offset, limits::OFFSET_MAX};

/// Maximum number of events in a message. Positions outlive releases, so this never changes.
pub(crate) const EVENTS_MAX: usize = 256;

/// The largest sequence number whose offsets are all at most 2^53 − 1.
pub(crate) const SEQUENCE_MAX: u64 = OFFSET_MAX / EVENTS_MAX as u64 - 1;

/// Returns the offset of the first event of the message with a sequence number (from 1); 0 for 0.
pub fn offset_of(sequence: u64) -> Offset {
    sequence * EVENTS_MAX as u64
}

/// Returns the sequence number of the message that has the event with an offset.
pub fn sequence_of(offset: Offset) -> u64 {
    offset / EVENTS_MAX as u64
}
