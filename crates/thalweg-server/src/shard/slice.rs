//! How long a turn reads what connections send.

use std::time::Duration;

use crate::clock::now_us;

/// Bytes read between two looks at the clock.
const BYTES_PER_LOOK: usize = 16 << 10;

/// What a read or a message counts for besides its bytes: a command that is refused takes
/// about as long as so many bytes of one that is not.
const MESSAGE_BYTES: usize = 1 << 10;

/// The time that a turn has for reading.
#[derive(Debug, Default)]
pub(super) struct Slice {
    end_us: u64,
    /// Since the last look at the clock.
    read_bytes: usize,
    is_over: bool,
}

impl Slice {
    /// Begins a slice of this length.
    pub(super) fn begin(&mut self, now_us: u64, length: Duration) {
        *self = Self { end_us: now_us + length.as_micros() as u64, ..Self::default() };
    }

    /// Whether what is left waits for the next turn.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// A read, or a message of so many bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.read_bytes += bytes + MESSAGE_BYTES;
        if self.read_bytes >= BYTES_PER_LOOK {
            self.read_bytes = 0;
            self.is_over = now_us() >= self.end_us;
        }
    }
}
