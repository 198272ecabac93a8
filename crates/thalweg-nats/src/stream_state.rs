//! The state of a stream, for reader, store and readiness.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use thalweg_core::stream::FeedKind;
use thalweg_wire::Epoch;
use tokio::{sync::Notify, time::Instant};

use crate::health::Health;

#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) name: String,
    pub(crate) kind: FeedKind,
    epoch: Mutex<Epoch>,
    next: AtomicU64,
    /// Starts a check, because the stream may have another epoch.
    pub(crate) suspect: Notify,
    /// Ends the consumer, because the stream has another epoch or is stalled.
    pub(crate) changed: Notify,
    /// Wakes the watch of the leader, because an append waits longer than usual for its answer.
    pub(crate) unanswered: Notify,
    leader_since: Mutex<Option<Instant>>,
    health: Mutex<Health>,
}

impl StreamState {
    pub(crate) fn new(name: String, kind: FeedKind, epoch: Epoch, next: u64) -> Self {
        Self {
            name,
            kind,
            epoch: Mutex::new(epoch),
            next: AtomicU64::new(next),
            suspect: Notify::new(),
            changed: Notify::new(),
            unanswered: Notify::new(),
            leader_since: Mutex::new(None),
            health: Mutex::new(Health::new(Instant::now())),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    pub(crate) fn set_next(&self, next: u64) {
        self.next.store(next, Relaxed);
    }

    /// Sets the new epoch, and the first sequence number that was not read.
    pub(crate) fn restart(&self, epoch: Epoch, next: u64) {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
        self.set_next(next);
        self.health().restarted();
    }

    /// Returns since when the stream has its leader, as far as is known.
    pub(crate) fn leader_since(&self) -> Option<Instant> {
        *self.leader_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_leader_since(&self, since: Option<Instant>) {
        *self.leader_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
