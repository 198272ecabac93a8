//! The stored state of a keyed topic: parts with the newest event of each key, and an index of the parts. Pure.
//!
//! A topic's messages before the index's `base` are replaced by the parts. Events keep their offsets, so it makes no difference to
//! a reader in which of the two an event is.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use thalweg_broker::ReadPage;
use thalweg_core::stream::Payloads;
use thalweg_wire::Offset;

/// Maximum bytes of a part, unless one event is larger.
const PART_BYTES: usize = 512 << 10;

/// The memory of a key besides its bytes and those of its event, which counts in [`MergedState::bytes`].
const ENTRY_BYTES: usize = 128;

/// The message that says which parts a state has. It is stored after all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateIndex {
    /// The sequence number of the first message of the topic that the parts do not replace.
    pub(crate) base: u64,
    /// Removals before this offset may be missing.
    pub(crate) compacted: Offset,
    /// The bytes of all parts.
    pub(crate) bytes: u64,
    /// In the order of their events.
    pub(crate) parts: Vec<PartEntry>,
}

/// A part: the offset of its last event, and the sequence number of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartEntry {
    pub(crate) last: Offset,
    pub(crate) sequence: u64,
}

impl StateIndex {
    pub(crate) fn from_body(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    pub(crate) fn to_body(&self) -> Vec<u8> {
        // Serializing numbers cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the parts that may have events from an offset on.
    pub(crate) fn parts_from(&self, from: Offset) -> &[PartEntry] {
        &self.parts[self.parts.partition_point(|part| part.last < from)..]
    }
}

/// The newest event of each key, of pages that are read one after the other.
#[derive(Debug, Default)]
pub(crate) struct MergedState {
    newest: HashMap<Box<[u8]>, Entry>,
    bytes: usize,
    compacted: Offset,
}

#[derive(Debug)]
struct Entry {
    offset: Offset,
    time_ms: i64,
    expires_ms: i64,
    event: Box<[u8]>,
}

impl MergedState {
    /// Takes the next page of the topic.
    pub(crate) fn take(&mut self, page: &ReadPage) {
        self.compacted = self.compacted.max(page.compacted);
        let is_ended = |entry: &Entry| entry.offset < page.stored_from;
        let ended = self.newest.extract_if(|_, entry| is_ended(entry));
        self.bytes -= ended.map(|(key, entry)| entry.bytes(&key)).sum::<usize>();
        for (first, payloads) in &page.records {
            let time_ms = payloads.published_ms().unwrap_or_default();
            for (at, (key, event)) in payloads.keyed_events().enumerate() {
                let expires_ms = payloads.expiries().get(at).copied().unwrap_or_default();
                let (offset, event) = (first + at as Offset, event.into());
                let entry = Entry { offset, time_ms, expires_ms, event };
                self.bytes += entry.bytes(key);
                if let Some(before) = self.newest.insert(key.into(), entry) {
                    self.bytes -= before.bytes(key);
                }
            }
        }
    }

    /// Returns the memory of the state, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bodies of parts, with the offset of the last event of each, and [`StateIndex::compacted`]. Leaves out removals up to
    /// the last one before which all are older than `removed_ms`, in ms since 1970.
    pub(crate) fn into_parts(self, removed_ms: i64) -> (Vec<(Offset, Vec<u8>)>, Offset) {
        let mut entries: Vec<_> = self.newest.into_iter().collect();
        entries.sort_unstable_by_key(|(_, entry)| entry.offset);
        let removals = entries.iter().filter(|(_, entry)| entry.is_removal());
        let old = removals.take_while(|(_, entry)| entry.time_ms < removed_ms).last();
        let compacted = old.map_or(0, |(_, entry)| entry.offset + 1).max(self.compacted);
        let stays = |entry: &Entry| !entry.is_removal() || entry.offset >= compacted;
        let mut parts: Vec<(Offset, Vec<u8>)> = Vec::new();
        for (key, entry) in entries.into_iter().filter(|(_, entry)| stays(entry)) {
            let Entry { offset, time_ms, expires_ms, event } = entry;
            let numbers = format!("{offset}\t{time_ms}\t{expires_ms}\t");
            let line = [numbers.as_bytes(), &key, b"\t", &event].concat();
            match parts.last_mut().filter(|(_, part)| part.len() + line.len() < PART_BYTES) {
                Some((last, part)) => {
                    *last = offset;
                    part.push(b'\n');
                    part.extend_from_slice(&line);
                }
                None => parts.push((offset, line)),
            }
        }
        (parts, compacted)
    }
}

impl Entry {
    fn is_removal(&self) -> bool {
        &*self.event == b"null"
    }

    fn bytes(&self, key: &[u8]) -> usize {
        key.len() + self.event.len() + ENTRY_BYTES
    }
}

/// Parses the body of a part: events with their offsets. `None` if it is no such body.
pub(crate) fn read_part(body: &[u8]) -> Option<Vec<(Offset, Payloads)>> {
    body.split(|byte| *byte == b'\n').map(read_line).collect()
}

/// Parses a line: offset, time of storing, expiry, key and event, with tabs between them. Neither keys nor events have tabs.
fn read_line(line: &[u8]) -> Option<(Offset, Payloads)> {
    let mut fields = line.splitn(5, |byte| *byte == b'\t');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (offset, time_ms, expires_ms): (_, i64, i64) =
        (text()?.parse().ok()?, text()?.parse().ok()?, text()?.parse().ok()?);
    let (key, event) = (fields.next()?, fields.next()?);
    let mut payloads = Payloads::from_lines(event.to_vec())?.with_joined_keys(key)?;
    if expires_ms > 0 {
        payloads.set_expiry(0, expires_ms);
    }
    Some((offset, payloads.published_at(time_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(compacted: Offset, records: &[(Offset, i64, &str, &str)]) -> ReadPage {
        let record = |(first, time_ms, key, event): &(Offset, i64, &str, &str)| {
            let mut payloads = Payloads::from_lines(event.as_bytes().to_vec()).unwrap();
            payloads.push_key(key);
            (*first, payloads.published_at(*time_ms))
        };
        ReadPage {
            records: records.iter().map(record).collect(),
            holes: Vec::new(),
            pauses: Vec::new(),
            is_whole: true,
            stored_from: 256,
            newest: 0,
            head: 10_000,
            compacted,
        }
    }

    fn texts(body: &[u8]) -> Vec<(Offset, String)> {
        let records = read_part(body).expect("a part");
        let text = |payloads: &Payloads| {
            let bytes = [payloads.joined_keys(), b"=", payloads.joined()].concat();
            String::from_utf8(bytes).unwrap()
        };
        records.iter().map(|(offset, payloads)| (*offset, text(payloads))).collect()
    }

    #[test]
    fn parts_have_the_newest_event_of_each_key_and_young_removals() {
        let mut state = MergedState::default();
        let records = [(300, 1, "a", "1"), (301, 1, "b\"", "2"), (302, 1, "c", "null")];
        state.take(&page(0, &records));
        state.take(&page(0, &[(400, 9, "a", "null"), (401, 9, "d", "[1]")]));
        let (parts, compacted) = state.into_parts(5);
        assert_eq!((parts.len(), compacted, parts[0].0), (1, 303, 401));
        let expected = [(301, "\"b\\\"\"=2"), (400, "\"a\"=null"), (401, "\"d\"=[1]")];
        assert_eq!(texts(&parts[0].1), expected.map(|(offset, text)| (offset, text.to_owned())));
    }

    #[test]
    fn a_state_keeps_what_was_compacted_before_and_the_times_of_its_events() {
        let mut payloads = Payloads::from_lines(b"1".to_vec()).unwrap();
        payloads.push_key("a");
        payloads.set_expiry(0, 77);
        let mut state = MergedState::default();
        let records = vec![(300, payloads.published_at(7))];
        state.take(&ReadPage { records, ..page(290, &[]) });
        let (parts, compacted) = state.into_parts(i64::MAX);
        let read = read_part(&parts[0].1).unwrap();
        assert_eq!(
            (compacted, read[0].1.expiries(), read[0].1.published_ms()),
            (290, &[77][..], Some(7))
        );
    }

    #[test]
    fn an_end_leaves_nothing_from_before_it() {
        let mut state = MergedState::default();
        state.take(&page(0, &[(300, 1, "a", "1"), (301, 1, "b", "1")]));
        let before = state.bytes();
        state.take(&ReadPage { stored_from: 501, ..page(0, &[(600, 1, "a", "2")]) });
        assert_eq!(state.bytes(), before / 2);
        let (parts, _) = state.into_parts(0);
        assert_eq!(texts(&parts[0].1), [(600, "\"a\"=2".to_owned())]);
    }

    #[test]
    fn a_large_state_has_several_parts_that_an_index_finds() {
        let mut state = MergedState::default();
        let event = format!("\"{}\"", "x".repeat(100_000));
        for nth in 0..20 {
            state.take(&page(0, &[(256 * (nth + 1), 1, &nth.to_string(), &event)]));
        }
        let (parts, compacted) = state.into_parts(0);
        assert!(parts.len() > 3 && parts.iter().all(|(_, body)| body.len() < PART_BYTES));
        let entries =
            parts.iter().zip(1..).map(|((last, _), sequence)| PartEntry { last: *last, sequence });
        let index = StateIndex { base: 21, compacted, bytes: 0, parts: entries.collect() };
        assert_eq!(StateIndex::from_body(&index.to_body()), Some(index.clone()));
        let first = index.parts[0].last;
        assert_eq!(index.parts_from(1)[0].sequence, 1);
        assert_eq!(index.parts_from(first)[0].sequence, 1);
        assert_eq!(index.parts_from(first + 1)[0].sequence, 2);
        assert!(index.parts_from(256 * 20 + 1).is_empty());
    }

    #[test]
    fn other_bodies_are_no_parts() {
        for bad in ["", "1\t2\t3\t\"a\"", "x\t2\t3\t\"a\"\t1", "1\t2\t3\ta\t1", "1\t2\t3\t\"a\"\t"]
        {
            assert!(read_part(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }
}
