use std::time::Duration;

use thalweg_core::stream::FeedKind;
use thalweg_token::Pattern;

/// A stream of the broker: the server creates a missing one, and an existing one must be the same.
#[derive(Clone, Debug)]
pub(super) struct StreamConfig {
    /// Its name, for operators.
    pub(super) name: String,
    /// The topics in it.
    pub(super) pattern: Pattern,
    /// The kind of its topics. It stores the newest version of a value topic, or the newest event of each key of a keyed topic, without a
    /// time limit.
    pub(super) kind: FeedKind,
    /// NATS servers that store each event.
    pub(super) replicas: usize,
    /// The age at which events are deleted, but for value topics and keyed topics.
    pub(super) age: Duration,
    /// Bytes on each replica. Above this the oldest events are deleted; a stream of value topics or keyed topics rejects new events.
    pub(super) bytes: Option<u64>,
}

impl StreamConfig {
    /// A stream of events with three replicas, for an hour.
    pub(super) fn new(name: impl Into<String>, pattern: Pattern) -> Self {
        Self {
            name: name.into(),
            pattern,
            kind: FeedKind::default(),
            replicas: 3,
            age: Duration::from_secs(60 * 60),
            bytes: None,
        }
    }
}
