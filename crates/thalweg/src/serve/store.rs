//! The topics that the data directory keeps.

use std::{str::FromStr, time::Duration};

use thalweg_core::stream::FeedKind;
use thalweg_disk::SyncMode;
use thalweg_server::config::parse_duration;
use thalweg_token::Pattern;

/// Bytes of events that a store keeps unless its settings say how many. Without any store in the settings, those of all stores
/// together.
pub(super) const LOG_BYTES: u64 = 10 << 30;

/// The topics of a pattern, and how they are kept.
#[derive(Clone, Debug)]
pub(super) struct StoreConfig {
    /// The topics.
    pub(super) pattern: Pattern,
    /// The kind of its topics.
    pub(super) kind: FeedKind,
    /// The age at which events are deleted, but for value topics and keyed topics.
    pub(super) age: Option<Duration>,
    /// Bytes above which the oldest events are deleted, but for value topics and keyed topics.
    pub(super) bytes: Option<u64>,
    /// When events are on disk.
    pub(super) sync: StoreSync,
}

/// When events are on disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreSync(SyncMode);

impl FromStr for StoreSync {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "always" => Ok(Self(SyncMode::Always)),
            "never" => Ok(Self(SyncMode::Never)),
            time => match parse_duration(time) {
                Ok(time) => Ok(Self(SyncMode::Every(time))),
                Err(_) => Err(format!("{time:?}: write always, never, or a time such as 100ms")),
            },
        }
    }
}

impl StoreSync {
    /// Returns the mode of the broker.
    pub(super) fn mode(self) -> SyncMode {
        self.0
    }
}

impl StoreConfig {
    /// A store of all events up to a size, each on disk before it is answered.
    pub(super) fn new(pattern: Pattern, kind: FeedKind) -> Self {
        let bytes = (!kind.is_state()).then_some(LOG_BYTES);
        Self { pattern, kind, age: None, bytes, sync: StoreSync::default() }
    }
}
