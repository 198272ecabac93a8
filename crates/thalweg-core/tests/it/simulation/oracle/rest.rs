//! The frames that a connection must have received when it is at rest, or at its end.

use thalweg_core::fanout::ResponseMode;

use super::{Oracle, Visit};
use crate::simulation::{
    published::Published,
    reading::{Reading, TopicEnd},
    shard::{Feeding, Shard},
};

impl Oracle {
    /// Whether a document is as large as it may become after `bytes`.
    pub(super) fn is_spent(&self, bytes: u64) -> bool {
        self.document_bytes.is_some_and(|bytes_max| bytes >= bytes_max)
    }

    /// Whether a poll must end: it has received a whole answer.
    pub(super) fn is_answered(&self) -> bool {
        self.mode == ResponseMode::Once
            && self.is_told
            && !self.owes_end()
            && !self.is_in_frame()
            && self.head.is_empty()
    }

    /// Whether a page of a keyed topic may be due. A visit makes one, and sends it unless a window does not
    /// admit it.
    pub(in crate::simulation) fn owes_page(&self, has_sent: bool) -> bool {
        let has_window = self.readings.iter().any(|reading| reading.window.is_some());
        (has_sent || has_window) && self.readings.iter().any(Reading::may_owe_page)
    }

    /// Checks that the connection goes on for a reason.
    pub(in crate::simulation) fn check_goes_on(&self) {
        let owes = self.may_owe_end();
        assert!(!self.is_answered() || owes, "a poll that was answered goes on");
    }

    pub(in crate::simulation) fn check_is_content(
        &self,
        shard: &Shard<impl Feeding>,
        visit: &mut Visit<'_>,
        wake_us: Option<u64>,
    ) {
        assert!(!self.is_in_frame(), "at rest within a frame");
        assert!(self.head.is_empty() && self.own.is_empty(), "at rest with {:?} unsent", self.own);
        let is_closing = self.asked_to_close.is_some() || self.has_no_topic;
        assert!(self.closed.is_none() && !is_closing, "at rest, not closed");
        assert!(!self.owes_end(), "at rest, and a topic has ended");
        assert!(self.leaving.is_empty(), "at rest with {:?} not left", self.leaving);
        assert!(!self.is_spent(self.taken), "a document grows on");
        for reading in self.readings.iter().filter(|reading| reading.end != TopicEnd::Received) {
            let topic = reading.subscribe.feed as usize;
            if shard.is_open(topic) {
                let frame = |next| shard.frame_bytes(topic, next, self.format);
                let epoch = visit.published[topic].epoch;
                reading.check_is_content(epoch, visit.now_us, wake_us, frame, visit.tally);
            }
        }
    }

    /// Checks that all frames were received: a close last, or a poll's answer.
    pub(in crate::simulation) fn check_is_closed(&self) {
        assert!(!self.is_in_frame(), "closed in mid-frame");
        assert!(self.own.is_empty(), "closed before {:?}", self.own);
        assert!(self.has_ended || self.is_answered(), "closed without saying so");
    }

    pub(in crate::simulation) fn check_has_begun(&self) {
        assert!(self.own.is_empty() && self.has_begun(), "begun, not told");
    }

    pub(in crate::simulation) fn has_begun(&self) -> bool {
        let is_told =
            |reading: &Reading| reading.next().is_some() || reading.end == TopicEnd::Received;
        self.readings.iter().all(is_told)
    }

    /// Returns by how much it is behind at most. `None` while the connection is ahead of the received frames.
    pub(in crate::simulation) fn lag(&self, shard: &Shard<impl Feeding>) -> Option<u64> {
        let lag_of = |reading: &Reading| {
            if reading.end == TopicEnd::Received {
                return None;
            }
            let retained = shard.retained(reading.subscribe.feed as usize)?;
            Some(retained.head.saturating_sub(reading.next()?))
        };
        let is_settled = !self.is_in_frame() && self.own.is_empty() && self.leaving.is_empty();
        let is_settled = is_settled && !self.may_owe_end();
        // The count is not exact if offsets are not consecutive, or if only the newest event of each key
        // counts.
        let is_counted = self.readings.iter().all(|reading| {
            let retained = shard.retained(reading.subscribe.feed as usize);
            retained
                .is_none_or(|retained| retained.missed(0, 0).is_some() && retained.keyed.is_none())
        });
        (is_settled && is_counted)
            .then(|| self.readings.iter().filter_map(lag_of).max().unwrap_or(0))
    }

    pub(in crate::simulation) fn check_has_everything(
        &self,
        shard: &Shard<impl Feeding>,
        published: &[Published],
    ) {
        for reading in self.readings.iter().filter(|reading| reading.end != TopicEnd::Received) {
            let topic = reading.subscribe.feed as usize;
            let retained = shard.retained(topic).expect("a feed");
            let head = if retained.owes_nothing() { 0 } else { retained.head };
            let next = reading.next().expect("begun");
            assert!(!retained.needs_backfill(next), "topic {topic}: {next} needs a backfill");
            assert!(next >= head, "topic {topic}: at {next}, the head is at {head}");
            let is_whole = reading.is_whole(&published[topic]);
            assert!(is_whole, "topic {topic}: not the state at {head}");
        }
    }
}
