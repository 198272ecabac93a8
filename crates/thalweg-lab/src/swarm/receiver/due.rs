//! Events that are due and have not arrived.

use super::{Expected, Receiver};
use crate::swarm::published::Topic;

impl Receiver {
    pub(in crate::swarm) fn on_all_established(&mut self, now_us: u64) {
        if let Expected::Rows(rows) = &mut self.expected {
            rows.timetable.on_all_established(now_us);
        }
    }

    /// Returns the last due event's number for each topic: of the last published one or, in a subject's schedule, the
    /// last one due before `time_us`.
    pub(in crate::swarm) fn last_due(&self, time_us: u64) -> Vec<u64> {
        match &self.expected {
            Expected::Published(topics) => topics.iter().map(Topic::published).collect(),
            Expected::Rows(rows) => match rows.timetable.due_before(time_us) {
                Some(last) => vec![last; self.topic_names.len()],
                None => Vec::new(),
            },
            Expected::Anything(_) | Expected::Nothing => Vec::new(),
        }
    }

    /// Returns whether the first `readers` connections have everything up to these, or were told of a gap.
    pub(in crate::swarm) fn have(&self, readers: usize, last_due: &[u64]) -> bool {
        last_due.iter().enumerate().all(|(topic, &last)| {
            let count = self.topic_names.len();
            let subscriptions = self.subscriptions(readers).skip(topic).step_by(count);
            self.ledger.have(subscriptions, last)
        })
    }

    /// Counts rows of the span up to these that the first `readers` connections lack: they are late at least until now.
    pub(in crate::swarm) fn count_late(&mut self, readers: usize, last: &[u64], now_us: u64) {
        let Receiver { expected: Expected::Rows(rows), ledger, statistics, .. } = self else {
            return;
        };
        let before = rows.timetable.due_before(statistics.begun_us());
        let first = before.map_or(0, |last| last.saturating_add(1));
        for subscription in 0..readers * last.len() {
            let Some(next) = ledger.next(subscription) else { continue };
            let last = last[subscription % last.len()];
            for (due_us, count) in rows.timetable.batches(next.max(first), last) {
                statistics.late(due_us, now_us, count);
            }
        }
    }

    /// Counts rows up to these that have not arrived as missing.
    pub(in crate::swarm) fn count_missing(&mut self, readers: usize, last: &[u64]) {
        for subscription in 0..readers * last.len() {
            self.ledger.close(subscription, last[subscription % last.len()]);
        }
    }

    /// Returns whether rows were due by this time, and no connection has received any.
    pub(in crate::swarm) fn is_silent(&self, time_us: u64) -> bool {
        match &self.expected {
            Expected::Rows(rows) => rows.timetable.is_silent(time_us),
            _ => false,
        }
    }

    /// Closes a connection that was established at `stood_us`: events due to it by `time_us` that have not arrived are missing.
    pub(in crate::swarm) fn close(&mut self, connection: usize, stood_us: u64, time_us: u64) {
        for subscription in self.subscriptions_of(connection) {
            let Receiver { expected, ledger, .. } = self;
            let (last, has_due) = match expected {
                // The first row may still be in flight.
                Expected::Rows(rows) => {
                    (rows.timetable.due_before(time_us), rows.timetable.has_due(stood_us, time_us))
                }
                Expected::Published(topics) => {
                    let last =
                        topics[subscription % topics.len()].last_due_to(subscription, time_us);
                    (last, last.is_some())
                }
                Expected::Anything(_) | Expected::Nothing => return,
            };
            match (ledger.next(subscription), last) {
                (Some(_), Some(last)) => ledger.close(subscription, last),
                (None, Some(_)) if has_due => ledger.got_nothing(),
                _ => {}
            }
        }
    }

    /// Returns why a subject did not keep its own schedule, if it did not.
    pub(in crate::swarm) fn broken_schedule(&self) -> Option<String> {
        match &self.expected {
            Expected::Rows(rows) => rows.timetable.broken(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Drive, Settings};

    #[test]
    fn only_rows_of_the_span_are_late_whatever_their_numbers() {
        let settings =
            Settings { connections: 2, batch: 2, interval_us: 10_000, ..Settings::default() };
        let mut receiver = Receiver::new(&settings, Drive::GeneratedLoad, 1_000_000, false);
        // The first row's number is far from those of the other connection.
        let far = format!(r#"[{},1000000,"rest"]"#, 1u64 << 60);
        receiver.receive(0, 0, true, (b"", far.as_bytes()));
        receiver.receive(1, 0, true, (b"", br#"[1,1000000,"rest"]"#));
        receiver.begin_span(2_000_000);
        receiver.statistics.end(2_100_000);
        let last = receiver.last_due(2_100_000);
        assert!(!receiver.have(2, &last));
        receiver.count_late(2, &last, 2_200_000);
        // Two rows in each of ten ticks, on both.
        let buckets: Vec<_> = receiver.statistics.latency.buckets().collect();
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 40);
        assert_eq!(receiver.statistics.traffic.events, 0);
        assert!(buckets.iter().all(|(us, _)| (109_900..200_200).contains(us)), "{buckets:?}");
        receiver.count_missing(2, &last);
        assert!(receiver.have(2, &last));
    }
}
