//! Records as lines of JSON, to move topics to another directory. Pure.
//!
//! ```text
//! {"thalweg_data":1,"head":1043}
//! {"store":"orders/**","kind":"log","epoch":"9f3c21","start":256}
//! {"topic":"orders/7","position":"9f3c21.1042","time":1764437455123,"event":{"id":7}}
//! {"topic":"cars","position":"9f3c21.1043","time":1764437455124,"key":"a","expires":1764437485124,"event":{"id":"a"}}
//! {"end_of_data":true}
//! ```
//!
//! An event has the bytes that are stored, which are JSON without insignificant whitespace. Records of log topics come in
//! the order of their offsets, those of value topics and keyed topics in the order of their topics' hashes.

use std::{borrow::Cow, io, io::Write};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use thalweg_broker::Content;
use thalweg_wire::{Epoch, Position, key::key_text};

use crate::{
    record::{Record, RecordKind, u64_at},
    state::{Hole, StoreState},
};

/// The version of the lines.
pub(crate) const VERSION: u32 = 1;

/// A line. Members that it does not have are `None`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thalweg_data: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<u64>,
    /// The pattern of the exported topics; `None` if all are exported.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) topics: Option<Cow<'a, str>>,
    /// Set in the last line: an export without it has ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end_of_data: Option<bool>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) age_ms: Option<u64>,
    /// Removals of keys before this offset are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compacted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Whether the settings no longer have the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unused: Option<bool>,
    /// The first lost offset, and the one after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<[u64; 2]>,
    /// The lowest and the highest hash of the topics that have lost events, in hex digits.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) hashes: Option<[Cow<'a, str>; 2]>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<Cow<'a, str>>,
    /// When it was stored, in ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<u64>,
    /// The number of events that were published together, in the line of the first one, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<u32>,
    /// The key of the event, in a keyed topic.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Cow<'a, str>>,
    /// When the key expires, in ms since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<i64>,
    #[serde(borrow, deserialize_with = "any_json", skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<&'a RawValue>,
    /// The topic had no events for this many ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<u64>,
    /// The code with which the topic has ended.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<Cow<'a, str>>,
}

/// Parses a member that may be `null`.
fn any_json<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

impl Line<'_> {
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }
}

/// Returns the line of a store.
pub(crate) fn store_line(store: &StoreState) -> Line<'_> {
    Line {
        store: Some(store.pattern.as_str().into()),
        kind: Some(store.kind.name().into()),
        epoch: Some(store.epoch.to_string().into()),
        start: Some(store.start),
        age_ms: store.age_ms,
        compacted: Some(store.compacted).filter(|compacted| *compacted > 0),
        bytes: store.bytes,
        unused: store.place.is_none().then_some(true),
        ..Line::default()
    }
}

/// Returns the line of a hole.
pub(crate) fn hole_line(hole: &Hole) -> Line<'static> {
    Line {
        lost: Some([hole.from, hole.until]),
        hashes: Some([hole.low, hole.high].map(|hash| format!("{hash:x}").into())),
        ..Line::default()
    }
}

/// Parses the hashes of a hole.
pub(crate) fn parse_hole(line: &Line<'_>) -> Option<Hole> {
    let ([from, until], [low, high]) = (line.lost?, line.hashes.as_ref()?);
    let hash = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Hole { from, until, low: hash(low)?, high: hash(high)? })
}

/// Writes the lines of a record, one for each event from `start` on. Returns the number of events.
pub(crate) fn write_record(
    record: &Record<'_>,
    epoch: Epoch,
    start: u64,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let line = |offset| Line {
        topic: Some(record.topic.into()),
        position: Some(Position { epoch, offset }.to_string().into()),
        time: Some(record.time_ms),
        ..Line::default()
    };
    match record.kind {
        RecordKind::Events => {
            let events = record.payload.split(|byte| *byte == b'\n').zip(record.first..);
            let events = events.filter(|(_, offset)| *offset >= start);
            let mut count = 0;
            let mut batch = (record.end() - record.first.max(start)) as u32;
            let content = if record.has_keys() { record.content() } else { None };
            let keyed = match &content {
                Some(Content::Events(payloads)) => Some(payloads),
                _ => None,
            };
            let keys: Vec<Cow<'_, str>> = keyed
                .map(|keyed| keyed.keyed_events().map(|(key, _)| key_text(key)).collect())
                .unwrap_or_default();
            let expiries = keyed.map_or(&[][..], |keyed| keyed.expiries());
            for (event, offset) in events {
                let event = serde_json::from_slice::<&RawValue>(event)?;
                let several = (batch > 1).then_some(batch);
                let at = (offset - record.first) as usize;
                let key = keys.get(at).cloned();
                let expires = expiries.get(at).copied().filter(|expires| *expires > 0);
                let line = Line { batch: several, event: Some(event), ..line(offset) };
                Line { key, expires, ..line }.write(out)?;
                (batch, count) = (0, count + 1);
            }
            Ok(count)
        }
        RecordKind::Paused => {
            Line { pause: u64_at(record.payload, 0), ..line(record.first) }.write(out)?;
            Ok(0)
        }
        RecordKind::End => {
            let end = String::from_utf8_lossy(record.payload);
            Line { end: Some(end), ..line(record.first) }.write(out)?;
            Ok(0)
        }
        RecordKind::Ticket | RecordKind::Redeemed | RecordKind::Key => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_bytes_that_are_stored() {
        let payload =
            "{\"a\":1.50,\"b\":\"\u{e9}\\u00e9\"}\n12345678901234567890.0\nnull".as_bytes();
        let record = Record {
            first: 300,
            time_ms: 7,
            offsets: 3,
            store: 0,
            kind: RecordKind::Events,
            topic: "a",
            key: None,
            extension: b"",
            payload,
        };
        let mut out = Vec::new();
        let epoch = Epoch::new(0x9f).expect("not 0");
        assert_eq!(write_record(&record, epoch, 0, &mut out).expect("written"), 3);
        let text = String::from_utf8(out).expect("text");
        let lines: Vec<Line<'_>> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
        let events = lines.iter().map(|line| line.event.expect("an event").get());
        assert_eq!(events.collect::<Vec<_>>().join("\n").as_bytes(), payload);
        let positions = lines.iter().map(|line| line.position.clone().unwrap_or_default());
        assert_eq!(positions.collect::<Vec<_>>(), ["9f.300", "9f.301", "9f.302"]);
        assert_eq!([lines[0].batch, lines[1].batch], [Some(3), None]);
    }
}
