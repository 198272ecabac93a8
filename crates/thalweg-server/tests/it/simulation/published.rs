use std::sync::{Arc, Weak};

use fastrand::Rng;
use thalweg_server::stream::{Appended, Batch, FeedKind, Payloads, Sequencer};
use thalweg_wire::{Epoch, Offset, Topic};

use super::{
    conditions::{Conditions, magnitude},
    documents::Document,
};

/// One topic as its publishers know it: what every subscriber's reading is
/// judged by.
pub(super) struct Published {
    pub(super) topic: Topic,
    pub(super) epoch: Epoch,
    /// A value topic's documents.
    document: Option<Document>,
    sequencer: Sequencer,
    /// Of event 1, 2, …
    payloads: Vec<String>,
    sealed: Offset,
    batches: Vec<Weak<Batch>>,
}

impl Published {
    pub(super) fn new(index: usize, conditions: &Conditions, rng: &mut Rng) -> Self {
        let epoch_max = u64::MAX >> rng.u32(0..64);
        let epoch = Epoch::new(rng.u64(1..=epoch_max)).expect("from 1 on");
        let is_value = conditions.values && rng.bool();
        Self {
            document: is_value.then(|| Document::new(conditions.event_bytes_max)),
            topic: format!("topics/{index}").parse().expect("a topic"),
            epoch,
            sequencer: Sequencer::new(epoch, conditions.batch),
            payloads: Vec::new(),
            sealed: 0,
            batches: Vec::new(),
        }
    }

    pub(super) fn kind(&self) -> FeedKind {
        if self.document.is_some() { FeedKind::Value } else { FeedKind::Log }
    }

    /// The payload of the event at `offset`.
    pub(super) fn payload(&self, offset: Offset) -> &str {
        &self.payloads[offset as usize - 1]
    }

    /// Offset one past the newest event, sealed or not.
    pub(super) fn end(&self) -> Offset {
        self.payloads.len() as Offset + 1
    }

    pub(super) fn publish(&mut self, conditions: &Conditions, now_us: u64, rng: &mut Rng) {
        let first = self.end();
        let mut payloads = Payloads::default();
        for _ in 0..rng.usize(0..=conditions.events_max) {
            let offset = self.payloads.len() + 1;
            let payload = match &mut self.document {
                Some(document) => document.next(rng),
                None => payload(&self.topic, offset, conditions.event_bytes_max, rng),
            };
            let pushed: Result<(), ()> = payloads.push(|bytes| {
                bytes.extend_from_slice(payload.as_bytes());
                Ok(())
            });
            assert_eq!(pushed, Ok(()));
            self.payloads.push(payload);
        }
        let appended = self.sequencer.append(&mut payloads.clone(), now_us);
        assert_eq!(appended, Appended { first, end: self.end() });
    }

    /// Whether something waits to be sealed, now or later.
    pub(super) fn due_us(&self) -> Option<u64> {
        self.sequencer.due_us()
    }

    /// What is due, sealed: consecutive batches.
    pub(super) fn seal(&mut self, now_us: u64) -> Vec<Arc<Batch>> {
        let is_due = self.sequencer.due_us().is_some_and(|due_us| due_us <= now_us);
        let batches = self.sequencer.seal(now_us);
        assert_eq!(is_due, !batches.is_empty(), "sealed when due and only then");
        let batches: Vec<_> = batches.into_iter().map(Arc::new).collect();
        for batch in &batches {
            assert_eq!(batch.first(), self.sealed + 1, "batches follow one another");
            self.sealed = batch.end() - 1;
            self.batches.push(Arc::downgrade(batch));
        }
        batches
    }

    /// Whether any batch is still in memory.
    pub(super) fn is_held(&self) -> bool {
        self.batches.iter().any(|batch| batch.strong_count() > 0)
    }
}

/// A JSON value that no other event has, unless it is very short.
fn payload(topic: &Topic, offset: usize, bytes_max: usize, rng: &mut Rng) -> String {
    let bytes = magnitude(rng, bytes_max);
    if bytes < 10 {
        return offset.to_string();
    }
    // What could be taken for the end of an event, an envelope or a character.
    let paddings = ["x", ",", "]}", "é", "data:", r"\n", "</script>", "\u{2028}"];
    let padding = match paddings.get(rng.usize(0..=paddings.len())) {
        Some(padding) => padding.repeat(bytes / padding.len()),
        // Or what does not become much smaller.
        None => std::iter::repeat_with(|| rng.alphanumeric()).take(bytes).collect(),
    };
    format!(r#"["{topic}",{offset},"{padding}"]"#)
}
