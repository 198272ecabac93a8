//! The keys that a publisher's events get.

use thalweg_core::stream::Payloads;
use thalweg_wire::{KeyError, KeyPointer};

/// How the events of a request get their keys.
#[derive(Debug, Clone, Default)]
pub(crate) enum EventKeys {
    /// The events have no keys. The owner shard of a keyed topic refuses them.
    #[default]
    None,
    /// All events have the same key, which is valid.
    Same(Box<str>),
    /// Each event contains its key.
    Within(KeyPointer),
}

impl EventKeys {
    /// Gives the last appended event its key.
    ///
    /// # Errors
    /// Fails if the event has no key, and removes the event.
    pub(crate) fn give(&self, payloads: &mut Payloads) -> Result<(), KeyError> {
        match self {
            Self::None => {}
            Self::Same(key) => payloads.push_key(key),
            Self::Within(pointer) => {
                let last = payloads.count().saturating_sub(1);
                match pointer.key_of(payloads.last_event()) {
                    Ok(key) => payloads.push_key(&key),
                    Err(error) => {
                        payloads.truncate(last);
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}
