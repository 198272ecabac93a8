//! The sockets over which requests may arrive.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use tokio::sync::Notify;

/// Counts the sockets of all shards over which requests may arrive: they do not belong to one subscriber.
#[derive(Debug, Default)]
pub(crate) struct OpenSockets {
    count: AtomicUsize,
    none_left: Notify,
}

impl OpenSockets {
    /// Counts a socket until the result is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> OpenSocket {
        self.count.fetch_add(1, SeqCst);
        OpenSocket(Arc::clone(self))
    }

    /// Completes when no socket is counted. Once the server accepts no connections, it counts no further ones.
    pub(super) async fn all_closed(&self) {
        loop {
            // A notification between the check and the wait must not be missed.
            let notified = self.none_left.notified();
            if self.count.load(SeqCst) == 0 {
                return;
            }
            notified.await;
        }
    }
}

/// One counted socket.
#[derive(Debug)]
pub(crate) struct OpenSocket(Arc<OpenSockets>);

impl Drop for OpenSocket {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, SeqCst) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}
