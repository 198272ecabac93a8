//! The state of a shard for the members that several servers share.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use thalweg_wire::Topic;

/// The time for which a server must be unknown before its members leave, in µs: the news of a server and of its members come on
/// different shards.
pub(super) const UNKNOWN_US: u64 = 3_000_000;

/// The members that this shard shares.
#[derive(Debug, Default)]
pub(super) struct SharedMembers {
    /// By the topic of the members.
    pub(super) changed: HashMap<Topic, ChangedMembers>,
    /// When servers were first found unknown, in µs.
    pub(super) unknown: HashMap<Box<str>, u64>,
    /// When this server says again that it runs, in µs.
    pub(super) beat_us: u64,
    /// Whether this server was among those that run.
    pub(super) is_listed: bool,
}

/// The members of a topic whose events may be out of date.
#[derive(Debug, Default)]
pub(super) struct ChangedMembers {
    pub(super) keys: HashSet<Arc<str>>,
    /// When the state of the topic was first found here, in µs.
    pub(super) read_us: Option<u64>,
}

impl SharedMembers {
    /// Returns whether a server has been unknown for long enough.
    pub(super) fn is_gone(&self, id: &str, now_us: u64) -> bool {
        self.unknown.get(id).is_some_and(|since_us| now_us >= since_us + UNKNOWN_US)
    }
}
