use std::time::Duration;

use thalweg_core::stream::FeedKind;
use thalweg_wire::Pattern;

/// A stream of the broker: the server creates a missing one, and an existing one must be the same.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Its name, for operators.
    pub name: String,
    /// The topics in it.
    pub pattern: Pattern,
    /// The kind of its topics. It stores the newest version of a value topic, without a time limit.
    pub kind: FeedKind,
    /// NATS servers that store each event.
    pub replicas: usize,
    /// The age at which events are deleted, but for value topics.
    pub age: Duration,
    /// Bytes on each replica. Above this the oldest events are deleted; a stream of value topics rejects new versions.
    pub bytes: Option<u64>,
}

impl StreamConfig {
    /// A stream of events with three replicas, for an hour.
    pub fn new(name: impl Into<String>, pattern: Pattern) -> Self {
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
