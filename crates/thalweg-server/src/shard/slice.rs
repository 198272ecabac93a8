//! The time that a turn may spend on reading what connections send.

use std::time::Duration;

use crate::clock::now_us;

/// Bytes read between two readings of the clock.
const BYTES_PER_LOOK: usize = 16 << 10;

/// A read or a message counts as this many bytes more than it has: refusing a command takes
/// about as long as processing this many bytes of an accepted one.
const MESSAGE_BYTES: usize = 1 << 10;

/// The time that a turn has for reading.
#[derive(Debug, Default)]
pub(super) struct Slice {
    end_us: u64,
    /// Bytes since the clock was last read.
    read_bytes: usize,
    is_over: bool,
}

impl Slice {
    /// Begins a slice of this length.
    pub(super) fn begin(&mut self, now_us: u64, length: Duration) {
        *self = Self { end_us: now_us + length.as_micros() as u64, ..Self::default() };
    }

    /// Whether the time is over. The rest waits for the next turn.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Ends it: what was done last takes as long as a slice may.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Counts a read, or a message of this many bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.read_bytes += bytes + MESSAGE_BYTES;
        if self.read_bytes >= BYTES_PER_LOOK {
            self.read_bytes = 0;
            self.is_over = now_us() >= self.end_us;
        }
    }
}
