//! What a shard reads back of streams.

use std::collections::{HashMap, HashSet, VecDeque};

use thalweg_wire::Offset;

use crate::fanout::FeedKey;

/// What a shard reads back.
#[derive(Debug, Default)]
pub(super) struct Recalls {
    /// What is wanted and not asked for yet: of each feed the oldest.
    pub(super) wanted: HashMap<FeedKey, Offset>,
    /// Whether there is more of that than when it was asked for last.
    pub(super) is_new: bool,
    /// Feeds of which a page is being read. One at a time of each.
    pub(super) under_way: HashSet<FeedKey>,
    /// Feeds that could not be read: their readers are asked again what they want.
    pub(super) failed: Vec<FeedKey>,
    /// Feeds in the order of the pages that came, and the memory of all that is read back.
    pub(super) pages: VecDeque<FeedKey>,
    pub(super) bytes: usize,
}
