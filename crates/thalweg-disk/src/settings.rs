//! Settings of the log.

use std::{path::PathBuf, time::Duration};

use thalweg_broker::KEY_LIFE;
use thalweg_core::stream::FeedKind;
use thalweg_wire::Pattern;

/// The directory and the stores.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory. It is created if it is missing.
    pub directory: PathBuf,
    /// The stores. A topic belongs to the first one whose pattern matches.
    pub stores: Vec<StoreSettings>,
    /// The oldest events of all stores are deleted above this number of bytes in the directory, but those of value
    /// topics and of keys.
    pub bytes: Option<u64>,
    /// The oldest events of all stores are deleted above this number of bytes, those of value topics and of keys not counted.
    pub log_bytes: Option<u64>,
    /// Maximum bytes of an event.
    pub event_bytes: usize,
    /// The time for which a ticket is kept; `None` if the server needs no tickets.
    pub ticket_life: Option<Duration>,
}

/// The topics of a pattern, and how long their events are kept.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Its topics.
    pub pattern: Pattern,
    /// The kind of its topics. The newest event of a value topic, and that of each key of a keyed topic, is kept until the topic ends.
    pub kind: FeedKind,
    /// Events are deleted from this age on, but those of value topics and of keys.
    pub age: Option<Duration>,
    /// The oldest events are deleted above this number of bytes, but those of value topics and of keys.
    pub bytes: Option<u64>,
    /// When events are durable.
    pub sync: SyncMode,
}

/// When the events of a store are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// Before a publish is answered and its events are delivered.
    #[default]
    Always,
    /// After this time. A crash of the machine may lose events that were answered and delivered.
    Every(Duration),
    /// When the operating system writes them.
    Never,
}

impl Settings {
    /// Checks the settings without the directory.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        for store in &self.stores {
            let StoreSettings { pattern, kind, age, .. } = store;
            if kind.is_state() && age.is_some() {
                return Err(format!(
                    "store {pattern}: the newest event of a value topic or of a key has no age: remove age"
                ));
            }
            if age.is_some_and(|age| age < KEY_LIFE) {
                return Err(format!("store {pattern}: age is less than 5 minutes: set 5m or more"));
            }
            let is_same = |other: &&StoreSettings| other.pattern.to_string() == pattern.to_string();
            if self.stores.iter().filter(is_same).count() > 1 {
                return Err(format!("store {pattern} occurs twice: remove one"));
            }
        }
        Ok(())
    }
}
