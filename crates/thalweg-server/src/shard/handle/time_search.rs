//! Finds the first record since a time in a broker topic. Pure.
//!
//! Times rise with offsets, so a binary search over offsets finds it. Each step reads a page, and the last page has both the
//! record and an older one.

use thalweg_broker::ReadPage;
use thalweg_wire::Offset;

/// The search for the first record since a time.
#[derive(Debug)]
pub(super) struct TimeSearch {
    since_ms: u64,
    /// Records before this offset are older.
    low: Offset,
    /// Records from this offset on are not older.
    high: Offset,
    /// Where the next page begins.
    at: Offset,
    found: Offset,
    has_older: bool,
}

impl TimeSearch {
    /// Begins a search in the offsets from `stored_from` on, before `head`.
    pub(super) fn new(since_ms: u64, stored_from: Offset, head: Offset) -> Self {
        Self {
            since_ms,
            low: stored_from,
            high: head,
            at: stored_from,
            found: head,
            has_older: false,
        }
    }

    /// Returns the range whose first page comes next; `None` at the end.
    pub(super) fn next(&self) -> Option<(Offset, Offset)> {
        (self.low < self.high).then_some((self.at, self.high))
    }

    /// Takes the first page of the range.
    pub(super) fn take(&mut self, page: &ReadPage) {
        let is_since = |ms: i64| u64::try_from(ms).is_ok_and(|ms| ms >= self.since_ms);
        let mut records = page.records.iter();
        let newer = records.position(|(_, payloads)| payloads.published_ms().is_some_and(is_since));
        self.has_older |= !page.records.is_empty() && newer != Some(0);
        let end = page.end().unwrap_or(self.at).max(self.at + 1);
        match newer.map(|nth| (nth, page.records[nth].0)) {
            Some((nth, first)) => {
                self.found = first;
                // Records between the lower bound and the page may be newer, too.
                let is_first = nth > 0 || self.at == self.low;
                self.high = if is_first { self.low } else { self.at.min(first).max(self.low) };
            }
            None if !page.records.is_empty() => {
                // Without newer records in the rest, the one that was found stays.
                self.low = if page.is_whole { self.high } else { end };
            }
            None if page.is_whole => self.high = self.at,
            // The page has only lost records.
            None => {
                self.at = end;
                return;
            }
        }
        self.at = self.low.midpoint(self.high);
    }

    /// Returns the first offset of the record, or the head if all records are older. `None` if none is older.
    pub(super) fn found(&self) -> Option<Offset> {
        self.has_older.then_some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use thalweg_core::stream::Payloads;

    use super::*;

    /// Reads the first records of a range, as a broker does.
    fn page(
        records: &[(Offset, i64)],
        from: Offset,
        until: Offset,
        most: usize,
        lost: Offset,
    ) -> ReadPage {
        let event = |ms| Payloads::from_lines(b"1\n2".to_vec()).expect("events").published_at(ms);
        let its = records
            .iter()
            .filter(|(first, _)| first + 2 > from && *first < until && *first >= lost);
        let count = its.clone().count();
        let records = its.take(most).map(|(first, ms)| (*first, event(*ms))).collect();
        let hole = from..lost.min(until);
        ReadPage {
            records,
            holes: if hole.is_empty() { vec![] } else { vec![hole] },
            pauses: vec![],
            is_whole: count <= most,
            stored_from: 0,
            newest: 0,
            head: until,
            compacted: 0,
        }
    }

    #[test]
    fn the_first_record_since_a_time_is_found_with_few_reads() {
        let mut rng = Rng::with_seed(7);
        for _ in 0..2000 {
            let (mut records, mut at, mut ms) = (Vec::new(), 256 + rng.u64(0..1000), 10);
            for _ in 0..rng.usize(0..200) {
                records.push((at, ms));
                let distance = 1 << rng.u32(0..20);
                at += 2 + rng.u64(0..distance);
                ms += rng.i64(0..3);
            }
            let (head, since, most) = (at, rng.i64(0..400), rng.usize(1..20));
            let lost = if rng.bool() { 0 } else { rng.u64(256..=head) };
            let mut search = TimeSearch::new(since as u64, 256, head);
            let mut steps = 0;
            while let Some((from, until)) = search.next() {
                search.take(&page(&records, from, until, most, lost));
                steps += 1;
            }
            let first = records.iter().find(|(first, ms)| *ms >= since && *first >= lost);
            let is_older = |(first, ms): &&(Offset, i64)| *ms < since && *first >= lost;
            let found = search.found();
            assert!(found.is_some() || !records.iter().any(|record| is_older(&record)));
            assert!(
                found.is_none_or(|found| found == first.map_or(head, |(first, _)| *first)),
                "{since} {records:?}"
            );
            assert!(steps < 80, "{steps} reads");
        }
    }
}
