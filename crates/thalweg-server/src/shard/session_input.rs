//! Subscribers as other shards name them, and the requests of their sessions.

use tokio::sync::oneshot;

use crate::{refusal::Refusal, transport::PollAnswer};

/// Answers a request with records when these are processed. If it is dropped, the connection has ended.
pub(crate) type RecordsTaken = oneshot::Sender<Result<(), Refusal>>;

pub(crate) enum SessionInput {
    /// Records, to execute in order.
    Records(String, RecordsTaken),
    /// A poll that waits for messages.
    Poll(PollAnswer),
    End,
}

/// Identifies a subscriber. A later one with the same key has another serial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubscriberId {
    pub(super) key: u32,
    pub(super) serial: u64,
}
