//! The generated load: rows of experiment A, `[SEQ,DUE,…]`. Column 0 counts up, column 1 is the intended time in µs of
//! `CLOCK_MONOTONIC`, the rest is the same in every row.
//!
//! Within a batch only column 0 differs, so each whole row is compared with the previous one and its number plus one. This checks every
//! byte of every row at the speed of memory, and parses numbers once per batch.

use super::event::number;
use super::span_statistics::{EARLY_US, SpanStatistics};
use super::timetable::Timetable;
use crate::measure::Ledger;

#[derive(Debug)]
pub(super) struct Rows {
    /// The next row, if it belongs to the same batch.
    expected: Vec<u8>,
    /// Place of the comma after column 0 in `expected`.
    seq_end: usize,
    /// Intended time of the batch, from its stamps.
    stamp_us: u64,
    /// Intended time of the batch, from the schedule.
    due_us: u64,
    pub(super) timetable: Timetable,
    /// Columns from 2 on, of the first row seen.
    constant: Vec<u8>,
}

impl Rows {
    pub(super) fn new(timetable: Timetable) -> Rows {
        Rows {
            expected: Vec::new(),
            seq_end: 0,
            stamp_us: 0,
            due_us: 0,
            timetable,
            constant: Vec::new(),
        }
    }

    /// Enters the rows that reached a subscription, separated by commas or in an array.
    pub(super) fn receive(
        &mut self,
        subscription: usize,
        rows: &[u8],
        now_us: u64,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) {
        let array = rows.strip_prefix(b"[").filter(|rows| rows.starts_with(b"["));
        let mut rest = array.and_then(|rows| rows.strip_suffix(b"]")).unwrap_or(rows);
        self.expect(ledger.next(subscription));
        let mut in_order = 0;
        while !rest.is_empty() {
            if let Some(after) = self.next_of_batch(rest) {
                rest = after;
                in_order += 1;
                self.count_up();
                continue;
            }
            self.enter(now_us, in_order, ledger, statistics);
            ledger.in_order(subscription, in_order);
            in_order = 0;
            rest = self.first_of_batch(subscription, rest, now_us, ledger, statistics);
        }
        self.enter(now_us, in_order, ledger, statistics);
        ledger.in_order(subscription, in_order);
    }

    fn enter(&self, now_us: u64, rows: u64, ledger: &mut Ledger, statistics: &mut SpanStatistics) {
        statistics.record(self.due_us, now_us, rows);
        if self.stamp_us > now_us + EARLY_US {
            ledger.early(rows);
        }
    }

    #[inline]
    fn next_of_batch<'a>(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        if self.expected.is_empty() {
            return None;
        }
        match rest.strip_prefix(self.expected.as_slice())? {
            [] => Some(&[]),
            [b',', after @ ..] if !after.is_empty() => Some(after),
            _ => None,
        }
    }

    /// Checks a row that is not the successor of the last one: a new batch, or a fault.
    fn first_of_batch<'a>(
        &mut self,
        subscription: usize,
        rest: &'a [u8],
        now_us: u64,
        ledger: &mut Ledger,
        statistics: &mut SpanStatistics,
    ) -> &'a [u8] {
        // No column of experiment A holds a bracket.
        let end = memchr::memchr(b']', rest).map_or(rest.len(), |at| at + 1);
        let (row, after) = rest.split_at(end);
        match columns(row) {
            Some((seq, stamp_us, constant)) if self.is_constant(constant) => {
                self.stamp_us = stamp_us;
                self.due_us = self.timetable.due_us(seq, stamp_us);
                self.expected.clear();
                self.expected.extend_from_slice(row);
                self.seq_end = 1 + decimal_digits(seq);
                ledger.arrived(subscription, seq);
                self.enter(now_us, 1, ledger, statistics);
                self.expect(ledger.next(subscription));
            }
            _ => ledger.corrupt(),
        }
        after.strip_prefix(b",").unwrap_or(after)
    }

    fn is_constant(&mut self, constant: &[u8]) -> bool {
        if self.constant.is_empty() {
            self.constant.extend_from_slice(constant);
        }
        self.constant == constant
    }

    /// Expects row `seq` next, or any row without a number: another subscription's last row says nothing about the next one.
    fn expect(&mut self, seq: Option<u64>) {
        let Some(seq) = seq.filter(|_| !self.expected.is_empty()) else {
            self.expected.clear();
            return;
        };
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(seq).as_bytes();
        if self.seq_end == 1 + digits.len() {
            self.expected[1..self.seq_end].copy_from_slice(digits);
        } else {
            self.expected.splice(1..self.seq_end, digits.iter().copied());
            self.seq_end = 1 + digits.len();
        }
    }

    /// Adds one to the expected row's number, in decimal.
    #[inline]
    fn count_up(&mut self) {
        for digit in self.expected[1..self.seq_end].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.expected.insert(1, b'1');
        self.seq_end += 1;
    }
}

/// Returns columns 0 and 1, and the bytes of the others.
fn columns(row: &[u8]) -> Option<(u64, u64, &[u8])> {
    let inner = row.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let (seq, rest) = inner.split_at(memchr::memchr(b',', inner)?);
    let rest = &rest[1..];
    let (due, constant) = rest.split_at(memchr::memchr(b',', rest)?);
    Some((number(seq)?, number(due)?, constant))
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Settings;
    use proptest::prelude::*;

    fn row(seq: u64, due_us: u64) -> String {
        format!(r#"[{seq},{due_us},1,116.92,"c00070","column 1"]"#)
    }

    fn rows() -> Rows {
        let settings = Settings { batch: 2, interval_us: 1000, ..Settings::default() };
        Rows::new(Timetable::new(&settings, 0))
    }

    fn check(envelopes: &[Vec<String>], expected: &str) -> SpanStatistics {
        let mut rows = rows();
        let mut statistics = SpanStatistics::default();
        let mut ledger = Ledger::new(1, None);
        for envelope in envelopes {
            rows.receive(0, envelope.join(",").as_bytes(), 2000, &mut ledger, &mut statistics);
        }
        assert_eq!(ledger.counts().to_string(), expected, "{envelopes:?}");
        statistics
    }

    #[test]
    fn faults_are_caught() {
        let numbered = |seqs: &[u64]| seqs.iter().map(|&seq| row(seq, 1000)).collect::<Vec<_>>();
        check(&[numbered(&[8, 9, 10, 11])], "whole");
        check(&[numbered(&[98, 99]), numbered(&[100])], "whole");
        check(&[numbered(&[8, 9, 11]), numbered(&[12])], "1 missing");
        check(&[numbered(&[8, 9]), numbered(&[9, 10])], "1 duplicated");
        check(&[numbered(&[8, 10, 9, 11])], "1 reordered");
        let mut damaged = numbered(&[8, 9, 10]);
        damaged[2] = damaged[2].replace("116", "117");
        check(&[damaged], "1 corrupt");
    }

    #[test]
    fn a_subscription_begins_at_its_own_first_row() {
        let (mut rows, mut statistics) = (rows(), SpanStatistics::default());
        let mut ledger = Ledger::new(2, None);
        let mut receive = |subscription, seqs: &[u64], ledger: &mut Ledger| {
            let sent: Vec<String> = seqs.iter().map(|&seq| row(seq, 1000)).collect();
            rows.receive(subscription, sent.join(",").as_bytes(), 2000, ledger, &mut statistics);
        };
        receive(0, &[7, 8], &mut ledger);
        // The row that the other subscription expects next.
        receive(1, &[9, 10], &mut ledger);
        receive(0, &[9, 10], &mut ledger);
        assert_eq!((ledger.next(0), ledger.next(1)), (Some(11), Some(11)));
        assert_eq!(ledger.counts().to_string(), "whole");
    }

    #[test]
    fn the_highest_number_is_one_that_no_row_has() {
        let numbered = |seqs: &[u64]| seqs.iter().map(|&seq| row(seq, 1000)).collect::<Vec<_>>();
        check(&[numbered(&[u64::MAX])], "1 corrupt");
        check(&[numbered(&[7, u64::MAX, 8])], "1 corrupt");
        check(&[numbered(&[u64::MAX - 2]), numbered(&[u64::MAX])], "1 corrupt");
    }

    #[test]
    fn rows_that_come_before_they_are_due_are_early() {
        let batch = |due_us| vec![row(1, due_us), row(2, due_us), row(3, due_us)];
        check(&[batch(2000 + EARLY_US)], "whole");
        check(&[batch(2001 + EARLY_US)], "3 early");
    }

    #[test]
    fn each_batch_has_its_own_intended_time() {
        let statistics = check(&[vec![row(1, 1000), row(2, 1000), row(3, 1900)]], "whole");
        assert_eq!(statistics.traffic.events, 3);
        let buckets: Vec<_> = statistics.latency.buckets().collect();
        assert_eq!(buckets, [(100, 1), (1000, 2)]);
    }

    proptest! {
        #[test]
        fn whole_however_batched(first in 0u64..2000, sizes in prop::collection::vec(1u64..40, 1..30)) {
            let mut seq = first;
            let envelopes: Vec<Vec<String>> = sizes
                .iter()
                .map(|&size| (0..size).map(|_| { seq += 1; row(seq, 1000 + seq / 7) }).collect())
                .collect();
            let statistics = check(&envelopes, "whole");
            prop_assert_eq!(statistics.traffic.events, sizes.iter().sum::<u64>());
        }
    }
}
