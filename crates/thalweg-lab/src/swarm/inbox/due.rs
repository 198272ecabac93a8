//! What has to come, and has not.

use super::{Expected, Inbox};
use crate::swarm::posted::Topic;

impl Inbox {
    /// All subscriptions stand.
    pub(in crate::swarm) fn stand(&mut self, now_us: u64) {
        if let Expected::Rows(rows) = &mut self.expected {
            rows.timetable.stand(now_us);
        }
    }

    /// Number of the last event of each topic that has to come: everything published,
    /// and of a subject's own schedule what was due before `time_us`.
    pub(in crate::swarm) fn last_due(&self, time_us: u64) -> Vec<u64> {
        match &self.expected {
            Expected::Posted(topics) => topics.iter().map(Topic::published).collect(),
            Expected::Rows(rows) => match rows.timetable.due_before(time_us) {
                Some(last) => vec![last; self.topic_names.len()],
                None => Vec::new(),
            },
            Expected::Nothing => Vec::new(),
        }
    }

    /// Whether the first `readers` connections have everything up to these, or were
    /// told of a gap.
    pub(in crate::swarm) fn have(&self, readers: usize, last_due: &[u64]) -> bool {
        last_due.iter().enumerate().all(|(topic, &last)| {
            let subscriptions = (0..readers).map(|reader| reader * last_due.len() + topic);
            self.ledger.have(subscriptions, last)
        })
    }

    /// Rows up to these that the first `readers` connections do not have: they are at
    /// least so late as they are now.
    pub(in crate::swarm) fn count_late(&mut self, readers: usize, last: &[u64], now_us: u64) {
        let Inbox { expected: Expected::Rows(rows), ledger, tally, .. } = self else { return };
        for subscription in 0..readers * last.len() {
            let Some(next) = ledger.next(subscription) else { continue };
            let last = last[subscription % last.len()];
            for (due_us, count) in rows.timetable.batches(next, last) {
                tally.late(due_us, now_us, count);
            }
        }
    }

    /// Rows up to these will not come any more.
    pub(in crate::swarm) fn count_missing(&mut self, readers: usize, last: &[u64]) {
        for subscription in 0..readers * last.len() {
            self.ledger.close(subscription, last[subscription % last.len()]);
        }
    }

    /// Why a subject's own schedule was not kept, if it was not.
    pub(in crate::swarm) fn broken_schedule(&self) -> Option<String> {
        match &self.expected {
            Expected::Rows(rows) => rows.timetable.broken(),
            _ => None,
        }
    }
}
