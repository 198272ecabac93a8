//! The index of the write-ahead log: the records that are not in runs, in memory. Pure.

use std::collections::HashMap;

use thalweg_wire::{Offset, Topic};

use crate::{
    group::{GROUP_HEAD, GroupHead},
    record::{Record, RecordKind},
};

/// A file of the write-ahead log.
#[derive(Debug)]
pub(crate) struct WalFile {
    pub(crate) generation: u64,
    /// Whether more groups will follow.
    pub(crate) is_open: bool,
    /// Whether its records are in runs.
    pub(crate) is_sealed: bool,
    /// Whether a write or a sync has failed. Such a file is not used again.
    pub(crate) is_broken: bool,
    pub(crate) groups: Vec<Group>,
    pub(crate) topics: HashMap<Topic, WalTopic>,
    /// Records with keys, and those of tickets, in order.
    pub(crate) keyed: Vec<RecordPlace>,
}

/// A group in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) position: u32,
    pub(crate) length: u32,
    pub(crate) end: Offset,
    pub(crate) time_ms: u64,
}

/// A topic's records in a file.
#[derive(Debug)]
pub(crate) struct WalTopic {
    pub(crate) store: u16,
    pub(crate) records: Vec<RecordPlace>,
    /// The newest end of the topic in this file; 0 if there is none.
    pub(crate) last_end: Offset,
}

/// A record in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordPlace {
    pub(crate) first: Offset,
    pub(crate) position: u32,
    pub(crate) length: u32,
    pub(crate) kind: RecordKind,
}

impl WalFile {
    pub(crate) fn new(generation: u64) -> Self {
        Self {
            generation,
            is_open: true,
            is_sealed: false,
            is_broken: false,
            groups: Vec::new(),
            topics: HashMap::new(),
            keyed: Vec::new(),
        }
    }

    pub(crate) fn name_of(generation: u64) -> String {
        format!("wal-{generation}")
    }

    pub(crate) fn name(&self) -> String {
        Self::name_of(self.generation)
    }

    pub(crate) fn end(&self) -> Option<Offset> {
        self.groups.last().map(|group| group.end)
    }

    pub(crate) fn push_group(&mut self, position: usize, head: &GroupHead) {
        self.groups.push(Group {
            position: position as u32,
            length: (GROUP_HEAD + head.length) as u32,
            end: head.end,
            time_ms: head.time_ms,
        });
    }

    pub(crate) fn push_record(
        &mut self,
        topic: Topic,
        store: u16,
        place: RecordPlace,
        has_key: bool,
    ) {
        if has_key || matches!(place.kind, RecordKind::Ticket | RecordKind::Redeemed) {
            self.keyed.push(place);
        }
        if matches!(place.kind, RecordKind::Ticket | RecordKind::Redeemed) {
            return;
        }
        let new = || WalTopic { store, records: Vec::new(), last_end: 0 };
        let known = self.topics.entry(topic).or_insert_with(new);
        known.records.push(place);
        if place.kind == RecordKind::End {
            known.last_end = place.first;
        }
    }
}

/// Returns which records of a value topic are kept, in order: its last end, and the newest event and the newest pause after
/// it.
pub(crate) fn kept_values<T: Copy>(records: &[T], kind: impl Fn(&T) -> RecordKind) -> Vec<T> {
    let end = records.iter().rposition(|record| kind(record) == RecordKind::End);
    let after = end.map_or(0, |end| end + 1);
    let last = |wanted| {
        let found = records[after..].iter().rposition(|record| kind(record) == wanted);
        found.map(|at| after + at)
    };
    let mut kept: Vec<usize> =
        [end, last(RecordKind::Events), last(RecordKind::Paused)].into_iter().flatten().collect();
    kept.sort_unstable();
    kept.into_iter().map(|at| records[at]).collect()
}

/// Returns the place of a record that begins at `position`.
pub(crate) fn place_of(record: &Record<'_>, position: usize, length: usize) -> RecordPlace {
    RecordPlace {
        first: record.first,
        position: position as u32,
        length: length as u32,
        kind: record.kind,
    }
}
