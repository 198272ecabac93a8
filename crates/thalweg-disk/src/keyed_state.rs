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
    /// The offset of each key's newest event.
    newest: HashMap<Vec<u8>, Offset>,
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
        for (offset, (key, _)) in (record.first..).zip(payloads.keyed_events()) {
            self.newest.insert(key.to_vec(), offset);
        }
        self.records.push((*record, payloads));
    }

    /// Appends the bytes of records with the newest events, with their first offsets.
    pub(crate) fn write(&self, out: &mut Vec<(Offset, Vec<u8>)>) {
        if let Some(end) = self.end {
            let mut bytes = Vec::new();
            end.write(&mut bytes);
            out.push((end.first, bytes));
        }
        for (record, payloads) in &self.records {
            let keys: Vec<&[u8]> = payloads.keyed_events().map(|(key, _)| key).collect();
            let is_newest =
                |at: usize| self.newest.get(keys[at]) == Some(&(record.first + at as Offset));
            for bytes in record.with_events(payloads, is_newest) {
                if let Some((record, _)) = Record::parse(&bytes) {
                    out.push((record.first, bytes));
                }
            }
        }
    }
}
