//! Due times of the rows of a subject that generates its load, by the schedule it was given: a batch at start + n × interval.
//! Pure.
//!
//! A row's own stamp has its due time, but a late subject may stamp late. Rows are numbered, so the schedule is known without stamps:
//! from the first row on, every batch of numbers is one interval later than the previous batch.

use crate::scenario::Settings;

/// A stamp may be this much later than one interval after the schedule, because timers slip. The interval is needed because the first
/// row may be anywhere in its batch.
const SLIP_US: u64 = 1000;

#[derive(Clone, Debug)]
pub(super) struct Timetable {
    start_us: u64,
    batch: u64,
    interval_us: u64,
    /// Whether all subscriptions were established before the start, so that the first row is the first tick's.
    is_seen_from_start: bool,
    first: Option<FirstRow>,
    /// The stamp that was the furthest behind.
    behind: Option<Stamped>,
}

#[derive(Clone, Copy, Debug)]
struct FirstRow {
    seq: u64,
    /// By the schedule.
    due_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamped {
    late_us: u64,
    seq: u64,
}

impl Timetable {
    pub(super) fn new(settings: &Settings, start_us: u64) -> Timetable {
        Timetable {
            start_us,
            batch: u64::from(settings.batch).max(1),
            interval_us: settings.interval_us.max(1),
            is_seen_from_start: false,
            first: None,
            behind: None,
        }
    }

    pub(super) fn on_all_established(&mut self, now_us: u64) {
        self.is_seen_from_start = now_us < self.start_us;
    }

    /// Returns the due time of row `seq` with this stamp: by the schedule, or by the stamp if that is earlier.
    pub(super) fn due_us(&mut self, seq: u64, stamp_us: u64) -> u64 {
        let first = self.first_or(seq, stamp_us);
        let scheduled_us = self.scheduled_us(first, seq);
        let late_us = stamp_us.saturating_sub(scheduled_us);
        if late_us > self.interval_us + SLIP_US
            && self.behind.is_none_or(|found| found.late_us < late_us)
        {
            self.behind = Some(Stamped { late_us, seq });
        }
        stamp_us.min(scheduled_us)
    }

    /// Returns the number of the last row that was due before this time; `None` before the first.
    pub(super) fn due_before(&self, time_us: u64) -> Option<u64> {
        let FirstRow { seq, due_us } = self.first?;
        let ticks = time_us.checked_sub(due_us)?.div_ceil(self.interval_us);
        seq.saturating_add(ticks.saturating_mul(self.batch)).checked_sub(1)
    }

    /// Returns whether rows were due by this time, and no connection has received any.
    pub(super) fn is_silent(&self, time_us: u64) -> bool {
        self.first.is_none() && time_us > self.start_us.saturating_add(2 * self.interval_us)
    }

    /// Returns whether a batch was certainly due between these times.
    pub(super) fn has_due(&self, from_us: u64, until_us: u64) -> bool {
        until_us.saturating_sub(from_us.max(self.start_us)) > 2 * self.interval_us
    }

    /// Returns the batches in rows `from..=last`: due time and number of rows of each.
    pub(super) fn batches(&self, from: u64, last: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.first.into_iter();
        first.flat_map(move |first| {
            (from..=last).step_by(self.batch as usize).map(move |seq| {
                (self.scheduled_us(first, seq), self.batch.min((last - seq).saturating_add(1)))
            })
        })
    }

    /// Returns why the subject did not keep the schedule, if it did not.
    pub(super) fn broken(&self) -> Option<String> {
        let Stamped { late_us, seq } = self.behind?;
        let short = (late_us / self.interval_us).saturating_mul(self.batch);
        Some(format!(
            "the subject did not keep its schedule: the stamp of row {seq} is {late_us} µs late, \
             and by then {short} rows more were due"
        ))
    }

    fn first_or(&mut self, seq: u64, stamp_us: u64) -> FirstRow {
        *self.first.get_or_insert_with(|| {
            let since_us = stamp_us.saturating_sub(self.start_us);
            let ticks = if self.is_seen_from_start { 0 } else { since_us / self.interval_us };
            FirstRow { seq, due_us: self.start_us + ticks * self.interval_us }
        })
    }

    fn scheduled_us(&self, first: FirstRow, seq: u64) -> u64 {
        let ticks = (i128::from(seq) - i128::from(first.seq)).div_euclid(i128::from(self.batch));
        let due_us = i128::from(first.due_us) + ticks * i128::from(self.interval_us);
        // The numbers come from the subject and may be anything.
        u64::try_from(due_us.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of two rows every 10 ms from 1 s on, all subscribed before.
    fn timetable() -> Timetable {
        let settings = Settings { batch: 2, interval_us: 10_000, ..Settings::default() };
        let mut timetable = Timetable::new(&settings, 1_000_000);
        timetable.on_all_established(999_999);
        timetable
    }

    /// Returns the finding about a subject with these stamps, from row 1 on.
    fn reported(
        timetable: &mut Timetable,
        stamps_us: impl IntoIterator<Item = u64>,
    ) -> Option<String> {
        for (index, stamp_us) in stamps_us.into_iter().enumerate() {
            timetable.due_us(index as u64 + 1, stamp_us);
        }
        timetable.broken()
    }

    fn on_schedule() -> impl Iterator<Item = u64> {
        (0..200).map(|row| 1_000_000 + row / 2 * 10_000)
    }

    #[test]
    fn a_subject_on_schedule_gets_no_warning() {
        assert_eq!(reported(&mut timetable(), on_schedule()), None);
        // A timer's slip, and one whole interval.
        assert_eq!(reported(&mut timetable(), on_schedule().map(|us| us + 11_000)), None);
        // Subscribed in the middle, and in the middle of a batch.
        let mut late = timetable();
        late.on_all_established(1_000_000);
        assert_eq!(reported(&mut late, on_schedule().skip(51)), None);
        assert_eq!(late.due_before(1_255_000), Some(2));
    }

    #[test]
    fn late_stamps_are_reported() {
        let why = reported(&mut timetable(), on_schedule().map(|us| us + 31_000)).unwrap();
        assert!(why.contains("the stamp of row 1 is 31000 µs late"), "{why}");
        assert!(why.contains("6 rows more were due"), "{why}");
        // A stall of 300 ms, after which everything is due "now".
        let stalled = on_schedule().map(|us| if us < 1_300_000 { us } else { us.max(1_600_000) });
        let why = reported(&mut timetable(), stalled).unwrap();
        assert!(why.contains("row 61 is 300000 µs late"), "{why}");
        // Latency counts from the schedule all the same.
        let mut timetable = timetable();
        assert_eq!(timetable.due_us(1, 1_031_000), 1_000_000);
        assert_eq!(timetable.due_us(3, 1_009_000), 1_009_000);
    }

    #[test]
    fn skipped_ticks_are_reported() {
        // Every second tick, each with its right time.
        let skipped = (0..100).map(|row| 1_000_000 + row / 2 * 20_000);
        let why = reported(&mut timetable(), skipped).unwrap();
        assert!(why.contains("row 99 is 490000 µs late") && why.contains("98 rows more"), "{why}");
    }

    #[test]
    fn rows_that_have_not_come_are_known() {
        let mut timetable = timetable();
        assert_eq!(timetable.due_before(2_000_000), None);
        assert_eq!(timetable.due_us(1, 1_000_000), 1_000_000);
        assert_eq!(timetable.due_before(1_000_000), Some(0));
        assert_eq!(timetable.due_before(1_010_000), Some(2));
        assert_eq!(timetable.due_before(1_010_001), Some(4));
        let batches: Vec<_> = timetable.batches(4, 7).collect();
        assert_eq!(batches, [(1_010_000, 2), (1_020_000, 2)]);
    }
}
