use thalweg_wire::Offset;

use super::keys::Keys;

/// An event of a keyed topic. All shards share it.
#[derive(Debug)]
pub struct KeyedEvent {
    offset: Offset,
    /// The key as a JSON string, then the event.
    bytes: Box<[u8]>,
    key_len: u32,
}

/// The keys of a batch's events, and the events one by one.
#[derive(Debug)]
pub(super) struct BatchKeys {
    pub(super) keys: Keys,
    pub(super) events: Box<[std::sync::Arc<KeyedEvent>]>,
}

/// The event that removes its key.
const REMOVAL: &[u8] = b"null";

impl KeyedEvent {
    pub(super) fn new(offset: Offset, key: &[u8], event: &[u8]) -> Self {
        let bytes = [key, event].concat().into_boxed_slice();
        Self { offset, bytes, key_len: key.len() as u32 }
    }

    /// Returns the offset.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// Returns the key, as a JSON string.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len as usize]
    }

    /// Returns the event's JSON.
    pub fn event(&self) -> &[u8] {
        &self.bytes[self.key_len as usize..]
    }

    /// Returns whether the event removes its key.
    pub fn is_removal(&self) -> bool {
        self.event() == REMOVAL
    }

    /// Returns the memory of the event, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The allocations' headers, and the counts of the `Arc`.
        const OVERHEAD: usize = size_of::<KeyedEvent>() + 48;
        self.bytes.len() + OVERHEAD
    }
}

impl BatchKeys {
    pub(super) fn memory_bytes(&self) -> usize {
        let of_events: usize = self.events.iter().map(|event| event.memory_bytes()).sum();
        self.keys.memory_bytes() + self.events.len() * size_of::<usize>() + of_events
    }
}
