use thalweg_wire::{Epoch, Offset};

use super::{Batch, Payloads};

/// When an open batch is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBounds {
    /// At most this long after its first event, in µs; 0: in the same turn.
    pub flush_us: u64,
    /// At the latest when it holds this many events.
    pub events_max: usize,
    /// At the latest when it holds this many bytes (one event may exceed it).
    pub bytes_max: usize,
}

/// The offsets that were given to appended events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Of the first; without events, the next to be given.
    pub first: Offset,
    /// One past the last.
    pub end: Offset,
}

/// Gives a topic's events their offsets and seals them into batches. There is
/// one for each topic, on its home shard: that alone makes the order.
#[derive(Debug)]
pub struct Sequencer {
    epoch: Epoch,
    bounds: BatchBounds,
    next: Offset,
    open: Payloads,
    opened_us: u64,
    full: Vec<Batch>,
}

impl Sequencer {
    /// An empty stream's.
    pub fn new(epoch: Epoch, bounds: BatchBounds) -> Self {
        Self { epoch, bounds, next: 1, open: Payloads::default(), opened_us: 0, full: Vec::new() }
    }

    /// This incarnation of the stream.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Appends events to the open batch; batches that are full are sealed.
    pub fn append(&mut self, payloads: &Payloads, now_us: u64) -> Appended {
        let first = self.next;
        for payload in payloads.iter() {
            // With the comma between.
            if self.open.joined().len() + 1 + payload.len() > self.bounds.bytes_max {
                self.seal_open(now_us);
            }
            if self.open.is_empty() {
                self.opened_us = now_us;
            }
            let _: Result<(), std::convert::Infallible> = self.open.push(|bytes| {
                bytes.extend_from_slice(payload);
                Ok(())
            });
            self.next += 1;
            if self.open.count() >= self.bounds.events_max {
                self.seal_open(now_us);
            }
        }
        Appended { first, end: self.next }
    }

    /// When there is something to seal, in µs; `None` while there is nothing.
    pub fn due_us(&self) -> Option<u64> {
        if !self.full.is_empty() {
            return Some(self.opened_us);
        }
        (!self.open.is_empty()).then(|| self.flush_at_us())
    }

    /// Takes the batches that are due, sealed, in order.
    pub fn seal(&mut self, now_us: u64) -> Vec<Batch> {
        if !self.open.is_empty() && self.flush_at_us() <= now_us {
            self.seal_open(now_us);
        }
        std::mem::take(&mut self.full)
    }

    fn flush_at_us(&self) -> u64 {
        self.opened_us.saturating_add(self.bounds.flush_us)
    }

    fn seal_open(&mut self, now_us: u64) {
        if self.open.is_empty() {
            return;
        }
        let first = self.next - self.open.count() as Offset;
        self.full.push(Batch::seal(first, &self.open, now_us));
        self.open.clear();
    }
}
