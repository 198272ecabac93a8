//! The time that a turn may spend on reading connections.

use std::time::Duration;

use crate::clock::now_us;

/// Bytes read between two readings of the clock.
const BYTES_PER_LOOK: usize = 16 << 10;

/// The bytes that a read or a message counts in addition: refusing a command takes as long as processing this many bytes.
const MESSAGE_BYTES: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct ReadBudget {
    end_us: u64,
    /// Bytes since the clock was last read.
    read_bytes: usize,
    /// Whether the rest waits for the next turn.
    pub(super) is_over: bool,
}

impl ReadBudget {
    pub(super) fn begin(&mut self, now_us: u64, length: Duration) {
        *self = Self { end_us: now_us + length.as_micros() as u64, ..Self::default() };
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
