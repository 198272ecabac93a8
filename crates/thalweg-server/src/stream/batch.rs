use thalweg_wire::{Envelope, Epoch, Framing, Offset, Topic};

use super::Payloads;

/// Sealed consecutive events: never changed again, shared by all shards.
#[derive(Debug)]
pub struct Batch {
    first: Offset,
    bytes: Box<[u8]>,
    /// Where each event ends in `bytes`; the comma comes after it.
    ends: Box<[u32]>,
    sealed_us: u64,
}

impl Batch {
    pub(super) fn seal(first: Offset, payloads: Payloads, now_us: u64) -> Self {
        let (bytes, ends) = payloads.into_parts();
        Self { first, bytes, ends, sealed_us: now_us }
    }

    /// Offset of the first event.
    pub fn first(&self) -> Offset {
        self.first
    }

    /// Offset one past the last event.
    pub fn end(&self) -> Offset {
        self.first + self.ends.len() as Offset
    }

    /// How many events.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// When it was sealed, in µs of the clock that appended it.
    pub fn sealed_us(&self) -> u64 {
        self.sealed_us
    }

    /// The memory it holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The allocation's own header and the pointer in the history.
        const OVERHEAD: usize = size_of::<Batch>() + 64;
        self.bytes.len() + self.ends.len() * size_of::<u32>() + OVERHEAD
    }

    /// Appends at most `limit` events from `from` on, joined; says how many.
    pub fn write_events(&self, from: Offset, limit: usize, out: &mut Vec<u8>) -> Offset {
        let skipped = from.saturating_sub(self.first) as usize;
        let end = self.ends.len().min(skipped.saturating_add(limit));
        let Some(last) = end.checked_sub(1).filter(|_| skipped < end) else { return 0 };
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(&self.bytes[self.start_of(skipped)..self.ends[last] as usize]);
        (end - skipped) as Offset
    }

    fn start_of(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize + 1)
    }

    /// Appends the frame that carries the events from `from` to the last.
    /// The same arguments always give the same bytes: a frame partly sent can
    /// be made again and finished.
    pub(super) fn write_frame(
        &self,
        from: Offset,
        topic: &Topic,
        epoch: Epoch,
        framing: Framing,
        out: &mut Vec<u8>,
    ) {
        framing.batch(&self.envelope(from, topic, epoch), out);
    }

    /// The same in parts, if the framing leaves events as they are: appends what
    /// stands around them, and returns how many bytes of it stand before them, and
    /// them.
    pub(super) fn write_around(
        &self,
        from: Offset,
        topic: &Topic,
        epoch: Epoch,
        framing: Framing,
        out: &mut Vec<u8>,
    ) -> Option<(usize, &[u8])> {
        let envelope = self.envelope(from, topic, epoch);
        Some((framing.around(&envelope, out)?, &self.bytes[self.start_of_event(from)..]))
    }

    fn envelope<'a>(&'a self, from: Offset, topic: &'a Topic, epoch: Epoch) -> Envelope<'a> {
        let events = &self.bytes[self.start_of_event(from)..];
        Envelope { topic, epoch, first: from, last: self.end() - 1, offsets: None, events }
    }

    fn start_of_event(&self, offset: Offset) -> usize {
        self.start_of((offset - self.first) as usize)
    }

    /// Bytes of its events from `from` on.
    pub(super) fn event_bytes(&self, from: Offset) -> usize {
        self.bytes.len() - self.start_of_event(from)
    }
}
