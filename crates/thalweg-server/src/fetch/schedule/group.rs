//! Groups of topics that share capacity for fetches.

use crate::connection_limits::Address;

/// A topic's key in the fetcher.
pub(in crate::fetch) type Key = u32;

/// The topics that share capacity: those that one address alone reads. A topic that several addresses read is its own
/// group, and does not wait behind the other topics of its first address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Topics of one address; `None`: of clients that do not count for an address.
    Of(Option<Address>),
    Shared(Key),
}

/// Whether an upstream has answered for a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The upstream has answered the last fetch.
    Document,
    /// The upstream has never answered, or the last fetch has failed.
    Unproven,
}
