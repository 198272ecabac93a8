use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;
use thalweg_wire::Offset;

use super::{Batch, Feed};

/// Consecutive events, joined by commas, read from their batches. It keeps these batches alive,
/// and copies only small parts and parts that cross two batches.
///
/// Take it piece by piece ([`Self::next_piece`]) as fast as the reader does. Batches that the
/// feed trims before the end are kept by this slice alone ([`Self::pinned`]), so its owner must
/// bound how long this takes.
#[derive(Debug, Default)]
pub struct Slice {
    /// The batches with the events that are left.
    batches: VecDeque<Arc<Batch>>,
    first: Offset,
    end: Offset,
    /// Bytes of the front batch's part that were already returned.
    given: usize,
    /// A comma comes next.
    is_between: bool,
    bytes: usize,
}

impl Slice {
    /// At most `limit` events of a feed from `first` on. No more batches are added once they
    /// have `bytes_max` bytes.
    pub fn new(feed: &Feed, first: Offset, limit: usize, bytes_max: usize) -> Self {
        let first = first.max(feed.first_retained());
        let last = first.saturating_add(limit as Offset);
        let mut slice = Self { first, end: first, ..Self::default() };
        for batch in feed.batches_from(first) {
            if slice.end >= last || slice.bytes >= bytes_max {
                break;
            }
            slice.end = last.min(batch.end());
            let comma = usize::from(!slice.batches.is_empty());
            slice.bytes += comma + slice.part(batch).len();
            slice.batches.push_back(Arc::clone(batch));
        }
        slice
    }

    /// Offset one past its last event.
    pub fn end(&self) -> Offset {
        self.end
    }

    /// Bytes that are left.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its own memory, in bytes, without the shared batches.
    pub fn own_bytes(&self) -> usize {
        self.batches.capacity() * size_of::<Arc<Batch>>()
    }

    /// Batches that no feed retains any more and that this slice still needs.
    pub fn pinned(&self) -> impl Iterator<Item = &Arc<Batch>> {
        self.batches.iter().take_while(|batch| !batch.is_retained())
    }

    /// The next at most `bytes_max` bytes; `None` at the end.
    pub fn next_piece(&mut self, bytes_max: usize) -> Option<Bytes> {
        let mut piece = Vec::new();
        while piece.len() < bytes_max
            && let Some(batch) = self.batches.front()
        {
            if std::mem::take(&mut self.is_between) {
                piece.push(b',');
                continue;
            }
            let part = self.part(batch);
            let from = part.start + self.given;
            let end = part.end.min(from + bytes_max - piece.len());
            let is_last = end == part.end;
            let shared = (end - from == bytes_max)
                .then(|| Bytes::from_owner(Part { batch: Arc::clone(batch), range: from..end }));
            if shared.is_none() {
                piece.extend_from_slice(&batch.joined()[from..end]);
            }
            self.given = end - part.start;
            if is_last {
                self.batches.pop_front();
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

    /// The range of a batch's bytes that belongs to it.
    fn part(&self, batch: &Batch) -> Range<usize> {
        batch.range_of(self.first.max(batch.first())..self.end.min(batch.end()))
    }
}

/// Some bytes of a batch.
struct Part {
    batch: Arc<Batch>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.batch.joined()[self.range.clone()]
    }
}
