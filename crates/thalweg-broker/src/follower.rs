//! The receiver of a broker's records.

use thalweg_wire::{Epoch, Offset};

use crate::Delivery;

/// The server that a broker delivers records to. Clones share the server.
pub trait Follower: Clone + Send + Sync + 'static {
    /// Takes a record. Waits while the server is busy; the broker then stops reading (backpressure).
    fn deliver(&self, delivery: Delivery) -> impl Future<Output = ()> + Send;

    /// Reports that a stream has another epoch, or, with the same epoch, that records before `from` were trimmed before they were
    /// delivered. Records from `from` on follow. The server announces a gap to subscribers of all topics of the stream.
    fn restarted(
        &self,
        stream: usize,
        epoch: Epoch,
        from: Offset,
    ) -> impl Future<Output = ()> + Send;

    /// Sets whether all streams have caught up, which `/readyz` shows.
    fn set_ready(&self, is_ready: bool);
}
