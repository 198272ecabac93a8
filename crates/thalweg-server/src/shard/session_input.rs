//! The ids of subscribers for other shards, and the requests of their sessions.

use tokio::sync::oneshot;

use crate::{refusal::Refusal, transport::PollAnswer};

/// The sender of a request's answer, for when its records are processed. It is dropped if the connection has ended.
pub(crate) type RecordsTaken = oneshot::Sender<Result<(), Refusal>>;

pub(crate) enum SessionInput {
    /// Records, to execute in order.
    Records(String, RecordsTaken),
    /// A poll that waits for messages.
    Poll(PollAnswer),
    End,
}

/// The id of a subscriber. A later one with the same key has another serial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubscriberId {
    pub(super) key: u32,
    pub(super) serial: u64,
}
