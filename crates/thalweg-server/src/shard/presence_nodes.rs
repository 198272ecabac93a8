//! The servers that share the members of topics.

use std::{
    collections::HashSet,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The ids of the servers that run, as this server knows them. The owner shard of their topic writes it.
#[derive(Debug)]
pub(crate) struct PresenceNodes {
    own: Box<str>,
    running: RwLock<HashSet<Box<str>>>,
    /// When a server was last found to have gone, in µs.
    gone_us: AtomicU64,
}

impl Default for PresenceNodes {
    /// Returns what a server knows when it starts: its own random id.
    fn default() -> Self {
        let own = format!("{:08x}", fastrand::u32(..)).into();
        Self { own, running: RwLock::default(), gone_us: AtomicU64::new(0) }
    }
}

impl PresenceNodes {
    /// Returns the id of this server.
    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// Returns whether a server runs.
    pub(crate) fn runs(&self, id: &str) -> bool {
        self.running.read().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Sets the servers that run.
    pub(crate) fn set(&self, running: HashSet<Box<str>>, now_us: u64) {
        let mut before = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if !before.is_subset(&running) {
            self.gone_us.store(now_us, Relaxed);
        }
        *before = running;
    }

    /// Returns when a server was last found to have gone, in µs.
    pub(crate) fn gone_us(&self) -> u64 {
        self.gone_us.load(Relaxed)
    }
}
