use thalweg_wire::{Envelope, Epoch, Keyed as Keys, Offset, Topic};

use super::super::{KeyedEvent, batch::before};

/// Events of several keys, joined as an envelope holds them.
#[derive(Debug, Default)]
pub struct JoinedKeys {
    keys: Vec<u8>,
    events: Vec<u8>,
    offsets: Vec<Offset>,
}

/// The bytes that a comma and an offset may take.
const OFFSET_BYTES: usize = 12;

impl JoinedKeys {
    /// Appends an event, unless the total would exceed `bytes_max`. The first event always fits. Returns whether the event was appended.
    pub fn push(&mut self, event: &KeyedEvent, bytes_max: usize) -> bool {
        if !self.offsets.is_empty() {
            let own = event.key().len() + event.event().len() + OFFSET_BYTES;
            let bytes = self.keys.len() + self.events.len() + self.offsets.len() * OFFSET_BYTES;
            if bytes + own > bytes_max {
                return false;
            }
            self.keys.push(b',');
            self.events.push(b',');
        }
        self.keys.extend_from_slice(event.key());
        self.events.extend_from_slice(event.event());
        self.offsets.push(event.offset());
        true
    }

    /// Returns one past the offset of the last event.
    pub fn end(&self) -> Option<Offset> {
        self.offsets.last().map(|last| last + 1)
    }

    /// Returns the envelope of all changes from `from` to `to`. Keys that changed between `to` and `head` may be missing.
    pub fn envelope<'a>(
        &'a self,
        (topic, epoch): (&'a Topic, Epoch),
        (from, to): (Offset, Offset),
        head: Offset,
    ) -> Envelope<'a> {
        let first = self.offsets.first().copied().unwrap_or(to);
        let is_consecutive = first + self.offsets.len() as Offset == to;
        Envelope {
            topic,
            epoch,
            first,
            last: to.saturating_sub(1),
            before: before(from, first),
            offsets: (!is_consecutive).then_some(&*self.offsets),
            keyed: Some(Keys {
                keys: &self.keys,
                until: (to < head).then_some(head.saturating_sub(1)),
            }),
            events: &self.events,
        }
    }
}
