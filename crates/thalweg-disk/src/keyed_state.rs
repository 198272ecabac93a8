//! The newest event of each key, among the records of a keyed topic. Pure.

use std::{collections::HashMap, io};

use thalweg_broker::Content;
use thalweg_core::stream::Payloads;
use thalweg_wire::Offset;

use crate::{
    disk::damaged,
    record::{Record, RecordKind},
};

/// The records of a keyed topic since its last end.
pub(crate) struct KeyedState<'a> {
    end: Option<Record<'a>>,
    records: Vec<(Record<'a>, Payloads)>,
    /// The newest event of each key.
    newest: HashMap<Vec<u8>, NewestEvent>,
}

#[derive(Clone, Copy)]
struct NewestEvent {
    offset: Offset,
    time_ms: u64,
    is_removal: bool,
}

/// The events that a merge keeps.
pub(crate) struct KeptEvents {
    /// Removals before this offset that are older than this time are left out, but for the newest of them.
    removals: Option<(u64, Offset)>,
    /// Whether nothing of the topic is kept.
    is_nothing: bool,
}

impl<'a> KeyedState<'a> {
    /// Takes a topic's records, the oldest first. A record without keys is damage.
    pub(crate) fn new(records: &[Record<'a>]) -> io::Result<Self> {
        let end = records.iter().rposition(|record| record.kind == RecordKind::End);
        let mut state =
            Self { end: end.map(|end| records[end]), records: Vec::new(), newest: HashMap::new() };
        for record in &records[end.map_or(0, |end| end + 1)..] {
            match record.content().ok_or_else(damaged)? {
                Content::Events(payloads) if payloads.has_keys() => state.push(record, payloads),
                Content::Events(_) => return Err(damaged()),
                // Queries do not read keyed topics.
                Content::Paused(_) | Content::End(_) => {}
            }
        }
        Ok(state)
    }

    fn push(&mut self, record: &Record<'a>, payloads: Payloads) {
        for (offset, (key, event)) in (record.first..).zip(payloads.keyed_events()) {
            let is_removal = event == b"null";
            let newest = NewestEvent { offset, time_ms: record.time_ms, is_removal };
            self.newest.insert(key.to_vec(), newest);
        }
        self.records.push((*record, payloads));
    }

    /// Returns the keys that are not removed, with the times of their events.
    pub(crate) fn live(&self) -> impl Iterator<Item = u64> {
        self.newest.values().filter(|newest| !newest.is_removal).map(|newest| newest.time_ms)
    }

    /// Returns the events that a merge of all records of the topic keeps, and the offset after the last removal or end that it leaves
    /// out. The newest of the removals before `removed_ms` stays: it tells a reader that it may lack others. A topic without keys is
    /// forgotten when its newest record is older than `ended_ms`.
    pub(crate) fn compact(
        &self,
        removed_ms: Option<u64>,
        ended_ms: Option<u64>,
    ) -> (KeptEvents, Offset) {
        let newest_ms = self.newest.values().map(|newest| newest.time_ms);
        let newest_ms = newest_ms.chain(self.end.map(|end| end.time_ms)).max().unwrap_or(0);
        let is_nothing =
            self.live().next().is_none() && ended_ms.is_some_and(|ended_ms| newest_ms < ended_ms);
        let removals = self.newest.values().filter(|newest| newest.is_removal);
        let old = removals.filter(|newest| {
            is_nothing || removed_ms.is_some_and(|removed_ms| newest.time_ms < removed_ms)
        });
        let old: Vec<Offset> = old.map(|newest| newest.offset).collect();
        // A key that has come back may have had the newest of them.
        let marker = removed_ms.filter(|_| !is_nothing).and_then(|ms| self.newest_removal(ms));
        let left_out = old.into_iter().filter(|offset| Some(*offset) != marker);
        let end = self.end.filter(|_| is_nothing).map(|end| end.first);
        let left_out = left_out.chain(end).max();
        let compacted = left_out.map_or(0, |last| last + 1);
        let removals = removed_ms.zip(marker);
        (KeptEvents { removals, is_nothing }, compacted)
    }

    /// Returns the newest removal before a time, also of a key that has a newer event.
    fn newest_removal(&self, before_ms: u64) -> Option<Offset> {
        let old = self.records.iter().filter(|(record, _)| record.time_ms < before_ms);
        let removals = old.flat_map(|(record, payloads)| {
            let events = (record.first..).zip(payloads.iter());
            events.filter(|(_, event)| *event == b"null").map(|(offset, _)| offset)
        });
        removals.max()
    }

    /// Returns the events that are newest of their keys.
    pub(crate) fn all(&self) -> KeptEvents {
        KeptEvents { removals: None, is_nothing: false }
    }

    /// Appends the bytes of the kept records, with their first offsets.
    pub(crate) fn write(&self, kept: &KeptEvents, out: &mut Vec<(Offset, Vec<u8>)>) {
        if kept.is_nothing {
            return;
        }
        if let Some(end) = self.end {
            let mut bytes = Vec::new();
            end.write(&mut bytes);
            out.push((end.first, bytes));
        }
        for (record, payloads) in &self.records {
            let keys: Vec<&[u8]> = payloads.keyed_events().map(|(key, _)| key).collect();
            let is_kept = |at: usize| {
                let Some(newest) = self.newest.get(keys[at]) else { return false };
                let is_old = kept.removals.is_some_and(|(removed_ms, marker)| {
                    newest.is_removal && newest.time_ms < removed_ms && newest.offset != marker
                });
                let offset = record.first + at as Offset;
                let is_marker = kept.removals.is_some_and(|(_, marker)| marker == offset);
                is_marker || (newest.offset == offset && !is_old)
            };
            for bytes in record.with_events(payloads, is_kept) {
                if let Some((record, _)) = Record::parse(&bytes) {
                    out.push((record.first, bytes));
                }
            }
        }
    }
}
