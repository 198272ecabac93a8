use std::io::IoSlice;

use fastrand::Rng;
use thalweg_core::fanout::{Sent, Sink};

/// A socket: a bounded send buffer that its peer empties at random.
pub(super) struct Socket {
    capacity: usize,
    /// Bytes that the peer has not read.
    buffered: usize,
    /// Whether it sometimes takes less than it could.
    is_moody: bool,
    pub(super) is_gone: bool,
    /// Whether the last send was cut short and the peer has not read since.
    pub(super) is_full: bool,
    /// The bytes taken since this was last emptied.
    pub(super) taken: Vec<u8>,
    rng: Rng,
}

impl Socket {
    pub(super) fn new(capacity: usize, mut rng: Rng) -> Self {
        let is_moody = rng.u8(0..4) == 0;
        Self {
            capacity,
            buffered: 0,
            is_moody,
            is_gone: false,
            is_full: false,
            taken: Vec::new(),
            rng,
        }
    }

    /// From now on it takes everything.
    pub(super) fn relax(&mut self) {
        self.capacity = usize::MAX;
        self.is_moody = false;
    }

    /// The peer reads up to `bytes`. Returns how many it read.
    pub(super) fn drain(&mut self, bytes: usize) -> usize {
        let drained = self.buffered.min(bytes);
        self.buffered -= drained;
        drained
    }
}

impl Sink for Socket {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        if self.is_gone {
            return Sent::Gone;
        }
        assert!(slices.iter().all(|slice| !slice.is_empty()), "an empty slice");
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered > 0, "an empty send");
        let mut room = offered.min(self.capacity - self.buffered);
        if self.is_moody && self.rng.u8(0..4) == 0 {
            room = self.rng.usize(0..=room);
        }
        self.buffered += room;
        self.is_full = room < offered;
        let taken = room;
        for slice in slices {
            let part = room.min(slice.len());
            self.taken.extend_from_slice(&slice[..part]);
            room -= part;
        }
        Sent::Bytes(taken)
    }
}
