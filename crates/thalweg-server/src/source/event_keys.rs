//! The keys that a publisher's events get.

use thalweg_core::stream::Payloads;
use thalweg_wire::{KeyError, KeyPointer};

/// The way in which the events of a request get their keys.
#[derive(Debug, Clone, Default)]
pub(crate) enum EventKeys {
    /// They have none, or the owner shard refuses them.
    #[default]
    None,
    /// All have the same key, which is valid.
    Same(Box<str>),
    /// Each has its key in it.
    Within(KeyPointer),
}

impl EventKeys {
    /// Gives the event that was appended last its key.
    ///
    /// # Errors
    /// When it has none. Then it is removed.
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
