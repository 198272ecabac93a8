//! What reader, store and readiness share of a stream.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use thalweg_wire::Epoch;
use tokio::{sync::Notify, time::Instant};

use crate::health::Health;

/// One stream's.
#[derive(Debug)]
pub(crate) struct StreamState {
    /// What JetStream calls it.
    pub(crate) name: String,
    /// Whether its topics are value topics.
    pub(crate) has_values: bool,
    /// Its incarnation.
    epoch: Mutex<Epoch>,
    /// The first sequence number that was not read.
    next: AtomicU64,
    /// It may be another stream than the one that is read: look at it now.
    pub(crate) suspect: Notify,
    /// It is another one: read it anew.
    pub(crate) changed: Notify,
    /// Somebody waits for an answer longer than usual.
    pub(crate) unanswered: Notify,
    leader_since: Mutex<Option<Instant>>,
    health: Mutex<Health>,
}

impl StreamState {
    /// A stream of which nothing was read.
    pub(crate) fn new(name: String, has_values: bool, epoch: Epoch, next: u64) -> Self {
        Self {
            name,
            has_values,
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

    /// The first sequence number that was not read.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// All before `next` was read.
    pub(crate) fn set_next(&self, next: u64) {
        self.next.store(next, Relaxed);
    }

    /// It is another stream.
    pub(crate) fn restart(&self, epoch: Epoch, next: u64) {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner) = epoch;
        self.set_next(next);
        self.health().restarted();
    }

    /// Since when it has its leader, as far as is known.
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
