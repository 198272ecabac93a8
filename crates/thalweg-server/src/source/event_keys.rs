//! The keys that a publisher's events get.

use thalweg_core::stream::Payloads;
use thalweg_wire::{KeyError, KeyPointer};

/// How the events of a request get their keys.
#[derive(Debug, Clone, Default)]
pub(crate) enum EventKeys {
    /// The events have no keys. The owner shard of a keyed topic refuses them.
    #[default]
    None,
    /// All events have the same key, which is valid. The pointer is the place where an event may repeat it.
    Same(Box<str>, Option<KeyPointer>),
    /// Each event contains its key.
    Within(KeyPointer),
}

impl EventKeys {
    /// Gives the last appended event its key.
    ///
    /// # Errors
    /// Fails if the event has no key, or another one than its publisher named, and removes the event.
    #[inline]
    pub(crate) fn give(&self, payloads: &mut Payloads) -> Result<(), KeyError> {
        // Most topics have no keys, and a publish has up to millions of lines.
        if matches!(self, Self::None) {
            return Ok(());
        }
        let last = payloads.count().saturating_sub(1);
        let given = self.give_key(payloads);
        if given.is_err() {
            payloads.truncate(last);
        }
        given
    }

    fn give_key(&self, payloads: &mut Payloads) -> Result<(), KeyError> {
        match self {
            Self::None => {}
            Self::Same(key, pointer) => {
                if let Some(pointer) = pointer {
                    pointer.check_same(key, payloads.last_event())?;
                }
                payloads.push_key(key);
            }
            Self::Within(pointer) => {
                let key = pointer.key_of(payloads.last_event())?;
                payloads.push_key(&key);
            }
        }
        Ok(())
    }
}
