use tokio::sync::{MutexGuard, Notify, Semaphore};

use super::fair_turns::{FairTurns, QueuedTurn};
use crate::{config::READS_PER_SHARD, transport::Client};

/// Reads run one after the other, and clients take turns, because each read takes as long as many visits.
#[derive(Debug)]
pub(super) struct ReadQueue {
    turns: FairTurns<Client>,
    /// Wakes those who wait when a history has been sent.
    pub(super) is_sent: Notify,
    /// Pages that are read from the backend at a time, so that subscribers' pages have room there.
    pub(super) pages: Semaphore,
}

impl Default for ReadQueue {
    fn default() -> Self {
        Self {
            turns: FairTurns::default(),
            is_sent: Notify::default(),
            pages: Semaphore::new(READS_PER_SHARD),
        }
    }
}

impl ReadQueue {
    /// Waits until a read is the first of its client. It stays the first until this is dropped.
    pub(super) async fn first_of(&self, client: Client) -> QueuedTurn<'_, Client> {
        self.turns.first_of(client).await
    }

    /// Waits for a turn to read. The turn lasts until the guard is dropped. A read for a client
    /// must call `first_of` first.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.turn().await
    }
}
