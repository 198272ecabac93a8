//! A batch as JSON: the one envelope that every transport carries.

use crate::{
    Epoch, Offset, Topic,
    position::{write_decimal, write_position},
};

/// Consecutive events of one stream, ready to be written.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The stream's topic.
    pub topic: &'a Topic,
    /// The stream's incarnation.
    pub epoch: Epoch,
    /// Offset of the first event; without events, of the next one.
    pub first: Offset,
    /// Offset of the last event.
    pub last: Offset,
    /// One offset for each event, where they are not consecutive.
    pub offsets: Option<&'a [Offset]>,
    /// Of a value topic: what comes before this version, and what `events` are.
    pub version: Option<Version>,
    /// The events as JSON, joined by commas; or the operations of a patch.
    pub events: &'a [u8],
}

/// A version of a value topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Offset of the version that the subscriber was given before; 0 if none.
    pub previous: Offset,
    /// Whether the events are the operations of a JSON Patch (RFC 6902) that makes this version
    /// of the one before.
    pub is_patch: bool,
}

const TOPIC: &[u8] = br#"{"topic":""#;
const POSITION: &[u8] = br#"","position":""#;
const FIRST: &[u8] = br#"","first":"#;
const PREVIOUS: &[u8] = br#","previous":"#;
const OFFSETS: &[u8] = br#","offsets":["#;
const EVENTS: &[u8] = br#","events":["#;
const PATCH: &[u8] = br#","patch":["#;
const END: &[u8] = b"]}";

impl Envelope<'_> {
    /// Exactly how many bytes [`Self::write`] appends.
    pub fn len(&self) -> usize {
        let fixed = TOPIC.len() + POSITION.len() + FIRST.len() + self.list().len() + END.len();
        let previous = |version: Version| PREVIOUS.len() + decimal_len(version.previous);
        let offsets = self.offsets.map_or(0, |offsets| {
            let digits: usize = offsets.iter().map(|offset| decimal_len(*offset)).sum();
            OFFSETS.len() + digits + offsets.len().saturating_sub(1) + 1
        });
        fixed
            + self.topic.as_str().len()
            + self.position_len()
            + decimal_len(self.first)
            + self.version.map_or(0, previous)
            + offsets
            + self.events.len()
    }

    /// Whether it carries no events (it still has bytes).
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Appends the envelope to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_before(out);
        out.extend_from_slice(self.events);
        out.extend_from_slice(END);
    }

    /// Appends the envelope without its events; returns where in `out` they belong.
    pub fn write_around(&self, out: &mut Vec<u8>) -> usize {
        self.write_before(out);
        let events_at = out.len();
        out.extend_from_slice(END);
        events_at
    }

    fn write_before(&self, out: &mut Vec<u8>) {
        write_head(self.topic, self.epoch, self.last, out);
        out.extend_from_slice(FIRST);
        write_decimal(self.first, out);
        if let Some(version) = self.version {
            out.extend_from_slice(PREVIOUS);
            write_decimal(version.previous, out);
        }
        if let Some(offsets) = self.offsets {
            out.extend_from_slice(OFFSETS);
            for (index, offset) in offsets.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_decimal(*offset, out);
            }
            out.push(b']');
        }
        out.extend_from_slice(self.list());
    }

    /// What the events are called.
    fn list(&self) -> &'static [u8] {
        match self.version {
            Some(Version { is_patch: true, .. }) => PATCH,
            _ => EVENTS,
        }
    }

    /// Bytes of its position, e.g. `9f3c21.1042`.
    pub(crate) fn position_len(&self) -> usize {
        self.epoch.text_len() + 1 + decimal_len(self.last)
    }
}

/// Appends `{"topic":"…","position":"…` without the closing quote: how every
/// message about a topic begins.
pub(crate) fn write_head(topic: &Topic, epoch: Epoch, offset: Offset, out: &mut Vec<u8>) {
    out.extend_from_slice(TOPIC);
    out.extend_from_slice(topic.as_str().as_bytes());
    out.extend_from_slice(POSITION);
    write_position(epoch, offset, out);
}

fn decimal_len(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}
