use thalweg_wire::{Epoch, Offset};

use super::{Batch, Payloads};

/// The bounds of an open batch, at which it is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBounds {
    /// Maximum time after the first event of the batch, in µs. 0: within the same turn.
    pub flush_us: u64,
    /// Maximum number of events.
    pub events_max: usize,
    /// Maximum bytes. A single event may exceed this.
    pub bytes_max: usize,
}

/// The offsets of appended events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The first event's offset; without events, the next one.
    pub first: Offset,
    /// One past the last event's offset.
    pub end: Offset,
}

/// The part of an owner shard that assigns offsets to the events of one topic, decides their order, and seals them into batches. The
/// owner of the sequencer appends all events and takes the due batches ([`Self::due_us`], [`Self::seal`]) at the end of each
/// turn, so that events of one turn share a batch.
#[derive(Debug)]
pub struct Sequencer {
    epoch: Epoch,
    bounds: BatchBounds,
    next: Offset,
    open: Payloads,
    opened_us: u64,
    /// Bytes and events of the last batch; the next batch probably has as many. Memory for the next batch is reserved
    /// only with its first event, because a topic may never have another event.
    room: (usize, usize),
    full: Vec<Batch>,
    /// Whether the open batch is due before its time.
    is_urgent: bool,
}

/// From this many bytes on, a publish that is one batch is not copied. Also the most bytes for which a batch reserves memory at its
/// first event.
const WHOLE_BYTES_MIN: usize = 64 << 10;

impl Sequencer {
    /// Creates the sequencer of an empty stream.
    pub fn new(epoch: Epoch, bounds: BatchBounds) -> Self {
        Self {
            epoch,
            bounds,
            next: 1,
            open: Payloads::default(),
            opened_us: 0,
            room: (0, 0),
            full: Vec::new(),
            is_urgent: false,
        }
    }

    /// Returns the epoch of the stream.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Appends events to the open batch and leaves `payloads` empty. Full batches are sealed.
    pub fn append(&mut self, payloads: &mut Payloads, now_us: u64) -> Appended {
        let first = self.next;
        let mut from = 0;
        while from < payloads.count() {
            if from == 0 && self.takes_whole(payloads) {
                std::mem::swap(&mut self.open, payloads);
                self.opened_us = now_us;
                self.next += self.open.count() as Offset;
                break;
            }
            let fitting = self.room_for(payloads, from);
            if fitting == 0 {
                self.seal_open(now_us);
                continue;
            }
            if self.open.is_empty() {
                self.opened_us = now_us;
                self.open.reserve(self.room.0.min(WHOLE_BYTES_MIN), self.room.1);
            }
            self.open.extend(payloads, from..from + fitting);
            self.next += fitting as Offset;
            from += fitting;
            if self.open.count() >= self.bounds.events_max {
                self.seal_open(now_us);
            }
        }
        payloads.clear();
        Appended { first, end: self.next }
    }

    /// Returns whether the open batch can take over the memory of these events. Few bytes are copied, to leave room for more events.
    fn takes_whole(&self, payloads: &Payloads) -> bool {
        let (bytes, events) = (payloads.joined_bytes(), payloads.count());
        self.open.is_empty()
            && bytes >= WHOLE_BYTES_MIN
            && (bytes <= self.bounds.bytes_max || events == 1)
            && events < self.bounds.events_max
    }

    /// Returns how many events the open batch can take, at least one if it is empty.
    fn room_for(&self, payloads: &Payloads, from: usize) -> usize {
        let is_empty = self.open.is_empty();
        // Include the commas before the next event and its key.
        let taken = if is_empty { 0 } else { self.open.joined_bytes() + 2 };
        let fitting = match self.bounds.bytes_max.checked_sub(taken) {
            Some(bytes) => payloads.fitting(from, bytes),
            None => 0,
        };
        let fitting = fitting.min(self.bounds.events_max.saturating_sub(self.open.count()));
        if is_empty { fitting.max(1) } else { fitting }
    }

    /// Returns when a batch is due, in µs. `None` if there is no batch.
    pub fn due_us(&self) -> Option<u64> {
        if !self.full.is_empty() {
            return Some(self.opened_us);
        }
        (!self.open.is_empty()).then(|| self.flush_at_us())
    }

    /// Takes the batches that are due, in order.
    pub fn seal(&mut self, now_us: u64) -> Vec<Batch> {
        let is_urgent = std::mem::take(&mut self.is_urgent);
        if !self.open.is_empty() && (is_urgent || self.flush_at_us() <= now_us) {
            self.seal_open(now_us);
        }
        std::mem::take(&mut self.full)
    }

    /// Makes the open batch due.
    pub fn make_due(&mut self) {
        self.is_urgent = true;
    }

    /// Makes each later batch due without a wait for more events.
    pub fn stop_waiting(&mut self) {
        self.bounds.flush_us = 0;
    }

    fn flush_at_us(&self) -> u64 {
        self.opened_us.saturating_add(self.bounds.flush_us)
    }

    fn seal_open(&mut self, now_us: u64) {
        if self.open.is_empty() {
            return;
        }
        let first = self.next - self.open.count() as Offset;
        self.room = (self.open.joined().len(), self.open.count());
        let sealed = std::mem::take(&mut self.open);
        let batch = Batch::seal(first, first, sealed, now_us).opened_at(self.opened_us);
        self.full.push(batch);
    }
}
