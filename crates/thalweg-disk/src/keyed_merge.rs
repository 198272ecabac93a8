//! The newest event of each key of keyed topics, in two passes over their records: a topic may have more events than memory. Pure.
//!
//! The first pass notes the newest event of each key, the second one keeps these events. Merges and exports make these passes.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    io,
};

use thalweg_broker::Content;
use thalweg_wire::Offset;

use crate::{
    disk::damaged,
    record::{Record, RecordKind},
    run::each_record,
};

/// The bounds of the records that a merge of whole topics leaves out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forgotten {
    /// A topic without keys whose newest record is older than this time, in ms since 1970.
    pub(crate) ended_ms: Option<u64>,
    /// Removals that are older than this time, but for the newest of a topic: it tells a reader that it may lack others.
    pub(crate) removed_ms: Option<u64>,
}

/// The newest event of each key of the topics with one hash.
#[derive(Debug)]
pub(crate) struct NewestEvents {
    topics: HashMap<String, Topic>,
    forgotten: Forgotten,
    /// Keys are compared by two of their hashes.
    hashers: [RandomState; 2],
}

/// The events of a topic since its last end.
#[derive(Debug, Default)]
struct Topic {
    /// The offset and the time of the end.
    end: Option<(Offset, u64)>,
    newest: HashMap<u128, NewestEvent>,
    /// The newest of the removals that may be left out, also of a key that has a newer event. It stays.
    marker: Option<Offset>,
    /// The first removal that is not old. Later ones stay, too: the clock may have gone back.
    first_young: Option<Offset>,
    /// Whether nothing of the topic stays.
    is_nothing: bool,
}

#[derive(Debug, Clone, Copy)]
struct NewestEvent {
    offset: Offset,
    time_ms: u64,
    is_removal: bool,
}

impl NewestEvents {
    pub(crate) fn new(forgotten: Forgotten) -> Self {
        let hashers = [RandomState::new(), RandomState::new()];
        Self { topics: HashMap::new(), forgotten, hashers }
    }

    /// Takes the records of the next chunk in the first pass, the oldest chunk first. A record without keys is damage.
    pub(crate) fn note(&mut self, chunk: &[u8]) -> io::Result<()> {
        each_record(chunk, |record, _| self.note_record(&record))
    }

    /// Ends the first pass.
    pub(crate) fn end_pass(&mut self) {
        let forgotten = self.forgotten;
        self.topics.values_mut().for_each(|topic| topic.end_pass(forgotten));
    }

    /// Returns the names of the topics that were noted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(String::as_str)
    }

    /// Passes the records of a chunk that stay to `keep`, with their bytes. The first pass has ended.
    pub(crate) fn keep<E: From<io::Error>>(
        &self,
        chunk: &[u8],
        mut keep: impl FnMut(&Record<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        each_record(chunk, |record, bytes| self.keep_record(&record, bytes, &mut keep))
    }

    /// Returns the offset after the last removal or end that is left out. The first pass has ended.
    pub(crate) fn compacted(&self) -> Offset {
        let removed_ms = self.forgotten.removed_ms;
        self.topics.values().map(|topic| topic.compacted(removed_ms)).max().unwrap_or(0)
    }

    fn digest(&self, key: &[u8]) -> u128 {
        let [high, low] = self.hashers.each_ref().map(|hasher| u128::from(hasher.hash_one(key)));
        high << 64 | low
    }

    fn note_record(&mut self, record: &Record<'_>) -> io::Result<()> {
        let payloads = match record.content().ok_or_else(damaged)? {
            Content::Events(payloads) if payloads.has_keys() => payloads,
            Content::Events(_) => return Err(damaged()),
            Content::End(_) => {
                let end = Some((record.first, record.time_ms));
                self.topics.insert(record.topic.to_owned(), Topic { end, ..Topic::default() });
                return Ok(());
            }
            // Queries do not read keyed topics.
            Content::Paused(_) => return Ok(()),
        };
        let mut events = Vec::with_capacity(payloads.count());
        for (offset, (key, event)) in (record.first..).zip(payloads.keyed_events()) {
            let (time_ms, is_removal) = (record.time_ms, event == b"null");
            events.push((self.digest(key), NewestEvent { offset, time_ms, is_removal }));
        }
        let is_old = self.forgotten.removed_ms.is_some_and(|ms| record.time_ms < ms);
        if !self.topics.contains_key(record.topic) {
            self.topics.insert(record.topic.to_owned(), Topic::default());
        }
        let Some(topic) = self.topics.get_mut(record.topic) else { return Ok(()) };
        for (key, event) in events {
            if event.is_removal && is_old {
                topic.marker = Some(event.offset);
            }
            topic.newest.insert(key, event);
        }
        Ok(())
    }

    fn keep_record<E: From<io::Error>>(
        &self,
        record: &Record<'_>,
        bytes: &[u8],
        keep: &mut impl FnMut(&Record<'_>, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(topic) = self.topics.get(record.topic).filter(|topic| !topic.is_nothing) else {
            return Ok(());
        };
        let end = topic.end.map_or(0, |(end, _)| end);
        if record.kind == RecordKind::End && record.first == end {
            return keep(record, bytes);
        }
        if record.first < end {
            return Ok(());
        }
        let Some(Content::Events(payloads)) = record.content() else { return Ok(()) };
        let keys: Vec<&[u8]> = payloads.keyed_events().map(|(key, _)| key).collect();
        let removed_ms = self.forgotten.removed_ms;
        let is_kept = |at: usize| {
            let offset = record.first + at as Offset;
            let newest = topic.newest.get(&self.digest(keys[at]));
            let is_newest = newest.is_some_and(|newest| {
                newest.offset == offset && !topic.is_left_out(newest, removed_ms)
            });
            topic.marker == Some(offset) || is_newest
        };
        for bytes in record.with_events(&payloads, is_kept) {
            each_record(&bytes, |record, bytes| keep(&record, bytes))?;
        }
        Ok(())
    }
}

impl NewestEvent {
    fn is_old(&self, removed_ms: Option<u64>) -> bool {
        removed_ms.is_some_and(|removed_ms| self.time_ms < removed_ms)
    }
}

impl Topic {
    /// Notes that all events are known.
    fn end_pass(&mut self, forgotten: Forgotten) {
        self.is_nothing = self.ended(forgotten);
        let removals = self.newest.values().filter(|newest| newest.is_removal);
        let is_young = |newest: &&NewestEvent| !newest.is_old(forgotten.removed_ms);
        self.first_young = removals.filter(is_young).map(|newest| newest.offset).min();
    }

    /// Returns whether the topic has no keys and no young records.
    fn ended(&self, forgotten: Forgotten) -> bool {
        let newest_ms = self.newest.values().map(|newest| newest.time_ms);
        let newest_ms = newest_ms.chain(self.end.map(|(_, time_ms)| time_ms)).max().unwrap_or(0);
        forgotten.ended_ms.is_some_and(|ended_ms| newest_ms < ended_ms)
            && self.newest.values().all(|newest| newest.is_removal)
    }

    fn is_left_out(&self, newest: &NewestEvent, removed_ms: Option<u64>) -> bool {
        let is_behind = |stays: Option<Offset>| stays.is_none_or(|stays| newest.offset < stays);
        let is_left_out = newest.is_old(removed_ms) && is_behind(self.marker);
        newest.is_removal && (self.is_nothing || (is_left_out && is_behind(self.first_young)))
    }

    fn compacted(&self, removed_ms: Option<u64>) -> Offset {
        let newest = self.newest.values();
        let left_out = newest.filter(|newest| self.is_left_out(newest, removed_ms));
        let end = self.end.filter(|_| self.is_nothing).map(|(end, _)| end);
        left_out.map(|newest| newest.offset).chain(end).max().map_or(0, |last| last + 1)
    }
}
