//! Finds the oldest of the newest events of a broker topic. Pure.
//!
//! A broker reads forwards only. The search reads ranges that end where the known events begin, each longer than the one before, and a
//! shorter one if a range has more than a page.

use thalweg_broker::ReadPage;
use thalweg_wire::Offset;

/// A range of a topic grows by this factor while it has too few events.
const GROWTH: u64 = 4;

/// The search for the newest events.
#[derive(Debug)]
pub(super) struct NewestSearch {
    /// The number of events that are not found yet.
    left: u64,
    stored_from: Offset,
    /// The events from this offset on are known.
    high: Offset,
    length: u64,
    /// The length of the next ranges while they have events. Set after a range that had more than a page.
    fitting: Option<u64>,
}

impl NewestSearch {
    /// Begins a search for `count` events in the offsets from `stored_from` on, before `head`.
    pub(super) fn new(count: u32, stored_from: Offset, head: Offset) -> Self {
        let count = u64::from(count);
        Self { left: count, stored_from, high: head, length: count.max(1), fitting: None }
    }

    /// Returns the range that comes next; `None` at the end.
    pub(super) fn next(&self) -> Option<(Offset, Offset)> {
        let from = self.high.saturating_sub(self.length).max(self.stored_from);
        (self.left > 0 && from < self.high).then_some((from, self.high))
    }

    /// Takes the first page of the range that begins at `from`.
    pub(super) fn take(&mut self, from: Offset, page: &ReadPage) {
        self.stored_from = self.stored_from.max(page.stored_from);
        if !page.is_whole {
            // A range of one offset has one page.
            self.length = (self.length / GROWTH).max(1);
            self.fitting = Some(self.length);
            return;
        }
        for (first, payloads) in page.records.iter().rev() {
            let end = (first + payloads.count() as u64).min(self.high);
            let begin = (*first).max(from);
            let taken = end.saturating_sub(begin).min(self.left);
            self.left -= taken;
            if self.left == 0 {
                self.high = end - taken;
                return;
            }
        }
        self.high = from;
        self.length = match self.fitting.filter(|_| !page.records.is_empty()) {
            Some(fitting) => fitting,
            None => self.length.saturating_mul(GROWTH),
        };
    }

    /// Returns the offset of the oldest of the newest events. `None` if there are fewer.
    pub(super) fn found(&self) -> Option<Offset> {
        (self.left == 0).then_some(self.high)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use thalweg_core::stream::Payloads;

    use super::*;

    #[test]
    fn the_newest_events_are_found_with_few_reads() {
        let mut rng = Rng::with_seed(9);
        for _ in 0..2000 {
            let (mut records, mut at) = (Vec::new(), 256);
            for _ in 0..rng.usize(0..300) {
                let distance = 1 << rng.u32(0..20);
                at += rng.u64(0..distance);
                let count = rng.usize(1..4);
                let lines = vec!["1"; count].join("\n").into_bytes();
                records.push((at, Payloads::from_lines(lines).expect("events")));
                at += count as u64;
            }
            let (head, most, count) = (at + rng.u64(0..9), rng.usize(1..20), rng.u32(1..500));
            let mut search = NewestSearch::new(count, 256, head);
            let mut steps = 0;
            while let Some((from, until)) = search.next() {
                let ends_after =
                    |first: u64, events: &Payloads| first + events.count() as u64 > from;
                let its = records
                    .iter()
                    .filter(|(first, events)| ends_after(*first, events) && *first < until);
                let is_whole = its.clone().count() <= most;
                let page = its.take(most).cloned().collect();
                let (holes, pauses) = (vec![], vec![]);
                let (stored_from, newest) = (0, 0);
                search.take(
                    from,
                    &ReadPage {
                        records: page,
                        holes,
                        pauses,
                        is_whole,
                        stored_from,
                        newest,
                        head,
                        compacted: 0,
                    },
                );
                steps += 1;
            }
            let offsets = records
                .iter()
                .flat_map(|(first, events)| *first..first + events.count() as u64)
                .collect::<Vec<_>>();
            let oldest = offsets.len().checked_sub(count as usize).map(|at| offsets[at]);
            assert_eq!(search.found(), oldest, "{count} of {offsets:?}");
            // Few, if the distances are alike.
            assert!(steps < 100 + 10 * records.len(), "{steps} reads");
        }
    }
}
