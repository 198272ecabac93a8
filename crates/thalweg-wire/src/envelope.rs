//! A batch as JSON: the envelope that every transport carries.

use crate::{
    Epoch, Offset, Topic,
    position::{write_decimal, write_position},
};

/// Consecutive events of one stream, ready to be written.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// The stream's topic.
    pub topic: &'a Topic,
    /// The stream's epoch.
    pub epoch: Epoch,
    /// Offset of the first event; without events, of the next event.
    pub first: Offset,
    /// Offset of the last event.
    pub last: Offset,
    /// The link to the event before the first one.
    pub before: Before,
    /// The offset of each event, if the offsets are not consecutive.
    pub offsets: Option<&'a [Offset]>,
    /// The keys of the events; `None` if the topic is not keyed.
    pub keyed: Option<Keyed<'a>>,
    /// The events as JSON, joined by commas, or the operations of a patch.
    pub events: &'a [u8],
}

/// The members of an envelope that only keyed topics have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyed<'a> {
    /// The key of each event as a JSON string, joined by commas.
    pub keys: &'a [u8],
    /// Offset of the topic's newest event when this page was made, if the page ends before it. The map of a
    /// subscriber before this offset may lack events.
    pub until: Option<Offset>,
}

/// The link from an envelope to the event before its first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// A log: the first event's offset minus one.
    Adjacent,
    /// A log: the event with this offset, 0 if none. The offsets in between have no events.
    Event(Offset),
    /// A value topic: the version with this offset, which the subscriber has; 0 if none.
    Version(Offset),
    /// A value topic: the events are the operations of a JSON Patch (RFC 6902) from the version with this offset to the envelope's.
    Patched(Offset),
}

const TOPIC: &[u8] = br#"{"topic":""#;
const POSITION: &[u8] = br#"","position":""#;
const FIRST: &[u8] = br#"","first":"#;
const AFTER: &[u8] = br#","after":"#;
const PREVIOUS: &[u8] = br#","previous":"#;
const UNTIL: &[u8] = br#","until":"#;
const OFFSETS: &[u8] = br#","offsets":["#;
const KEYS: &[u8] = br#","keys":["#;
const EVENTS: &[u8] = br#","events":["#;
const PATCH: &[u8] = br#","patch":["#;
const END: &[u8] = b"]}";

impl Envelope<'_> {
    /// Returns the exact number of bytes that [`Self::write`] appends.
    pub fn len(&self) -> usize {
        let fixed = TOPIC.len() + POSITION.len() + FIRST.len() + self.list().len() + END.len();
        let offsets = self.offsets.map_or(0, |offsets| {
            let digits: usize = offsets.iter().map(|offset| decimal_len(*offset)).sum();
            OFFSETS.len() + digits + offsets.len().saturating_sub(1) + 1
        });
        let keyed = self.keyed.map_or(0, |Keyed { keys, until }| {
            let until = until.map_or(0, |offset| UNTIL.len() + decimal_len(offset));
            until + KEYS.len() + keys.len() + 1
        });
        fixed
            + self.topic.as_str().len()
            + self.position_len()
            + decimal_len(self.first)
            + self.before().map_or(0, |(name, offset)| name.len() + decimal_len(offset))
            + offsets
            + keyed
            + self.events.len()
    }

    /// Returns whether the envelope carries no events (it still has bytes).
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Appends the envelope to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_before(out);
        out.extend_from_slice(self.events);
        out.extend_from_slice(END);
    }

    /// Appends the envelope without its events; returns where in `out` the events belong.
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
        if let Some((name, offset)) = self.before() {
            out.extend_from_slice(name);
            write_decimal(offset, out);
        }
        if let Some(until) = self.keyed.and_then(|keyed| keyed.until) {
            out.extend_from_slice(UNTIL);
            write_decimal(until, out);
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
        if let Some(Keyed { keys, .. }) = self.keyed {
            out.extend_from_slice(KEYS);
            out.extend_from_slice(keys);
            out.push(b']');
        }
        out.extend_from_slice(self.list());
    }

    fn before(&self) -> Option<(&'static [u8], Offset)> {
        match self.before {
            Before::Adjacent => None,
            Before::Event(after) => Some((AFTER, after)),
            Before::Version(previous) | Before::Patched(previous) => Some((PREVIOUS, previous)),
        }
    }

    fn list(&self) -> &'static [u8] {
        match self.before {
            Before::Patched(_) => PATCH,
            Before::Adjacent | Before::Event(_) | Before::Version(_) => EVENTS,
        }
    }

    /// Returns the length of the position's text, e.g. `9f3c21.1042`, in bytes.
    pub(crate) fn position_len(&self) -> usize {
        self.epoch.text_len() + 1 + decimal_len(self.last)
    }
}

/// Appends `{"topic":"…","position":"…` without the closing quote, the beginning of every message about a topic.
pub(crate) fn write_head(topic: &Topic, epoch: Epoch, offset: Offset, out: &mut Vec<u8>) {
    out.extend_from_slice(TOPIC);
    out.extend_from_slice(topic.as_str().as_bytes());
    out.extend_from_slice(POSITION);
    write_position(epoch, offset, out);
}

fn decimal_len(value: u64) -> usize {
    value.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}
