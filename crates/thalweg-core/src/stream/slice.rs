use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;
use thalweg_wire::{Before, Offset};

use super::{Batch, Feed};

/// Consecutive events of a feed, joined by commas. A slice keeps their batches alive. It copies only small parts
/// and parts that cross two batches.
///
/// Take the slice piece by piece ([`Self::next_piece`]) as fast as the reader reads. If the feed trims batches in
/// the meantime, only the slice keeps them ([`Self::pinned`]), so its owner must bound how long this takes.
#[derive(Debug, Default)]
pub struct Slice {
    parts: VecDeque<Part>,
    before: Option<Before>,
    end: Offset,
    /// Bytes of the first part that were returned.
    given: usize,
    is_between: bool,
    bytes: usize,
}

#[derive(Debug)]
struct Part {
    batch: Arc<Batch>,
    range: Range<usize>,
    offsets: Range<Offset>,
}

impl Slice {
    /// Takes at most `limit` events of a feed from `first` on, and adds no batch after `bytes_max` bytes.
    pub fn new(feed: &impl Feed, first: Offset, limit: usize, bytes_max: usize) -> Self {
        let first = first.max(feed.first_retained());
        let mut slice = Self { end: first, ..Self::default() };
        let mut room = limit;
        for batch in feed.batches_from(first) {
            if room == 0 || slice.bytes >= bytes_max {
                break;
            }
            let from = batch.index_of(first);
            let to = batch.count().min(from.saturating_add(room));
            let range = batch.range_of(from..to);
            room -= to - from;
            let offsets = batch.first() + from as Offset..batch.first() + to as Offset;
            let before = if feed.is_state() { Before::Adjacent } else { batch.before(first) };
            slice.before.get_or_insert(before);
            slice.end = offsets.end;
            slice.bytes += usize::from(!slice.parts.is_empty()) + range.len();
            slice.parts.push_back(Part { batch: Arc::clone(batch), range, offsets });
        }
        slice
    }

    /// Returns the offset of the first event, if there is one. Call this method before the first piece is taken.
    pub fn first(&self) -> Option<Offset> {
        self.parts.front().map(|part| part.offsets.start)
    }

    /// Returns the field that says what precedes the first event.
    pub fn before(&self) -> Before {
        self.before.unwrap_or(Before::Adjacent)
    }

    /// Returns the offsets of the events, if they are not consecutive. Call this method before the first piece is taken.
    pub fn offsets(&self) -> Option<Vec<Offset>> {
        let parts = || self.parts.iter().map(|part| part.offsets.clone());
        let is_consecutive = parts().zip(parts().skip(1)).all(|(a, b)| a.end == b.start);
        (!is_consecutive).then(|| parts().flatten().collect())
    }

    /// Returns the offset after the last event.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Returns how many bytes are left.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the memory of the slice without the shared batches, in bytes.
    pub fn own_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Part>()
    }

    /// Returns the batches that no feed retains and that this slice still needs.
    pub fn pinned(&self) -> impl Iterator<Item = &Arc<Batch>> {
        self.parts.iter().map(|part| &part.batch).take_while(|batch| !batch.is_retained())
    }

    /// Returns the next piece of at most `bytes_max` bytes. `None` at the end.
    pub fn next_piece(&mut self, bytes_max: usize) -> Option<Bytes> {
        let mut piece = Vec::new();
        while piece.len() < bytes_max
            && let Some(part) = self.parts.front()
        {
            if std::mem::take(&mut self.is_between) {
                piece.push(b',');
                continue;
            }
            let from = part.range.start + self.given;
            let end = part.range.end.min(from + bytes_max - piece.len());
            let is_last = end == part.range.end;
            let batch = &part.batch;
            let shared = (end - from == bytes_max)
                .then(|| Bytes::from_owner(Piece { batch: Arc::clone(batch), range: from..end }));
            if shared.is_none() {
                piece.extend_from_slice(&batch.joined()[from..end]);
            }
            self.given = end - part.range.start;
            if is_last {
                self.parts.pop_front();
                self.given = 0;
                self.is_between = true;
            }
            if let Some(shared) = shared {
                self.bytes -= shared.len();
                return Some(shared);
            }
        }
        self.bytes -= piece.len();
        (!piece.is_empty()).then(|| piece.into())
    }
}

struct Piece {
    batch: Arc<Batch>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.batch.joined()[self.range.clone()]
    }
}
