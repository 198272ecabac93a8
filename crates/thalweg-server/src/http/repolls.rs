//! Lets a request over HTTP/1.1 read its body to the end of the received bytes. hyper passes on one chunk each time the
//! connection is polled, and a publisher may send each event in its own chunk.

use std::cell::Cell;

use crate::config::REPOLLS_MAX;

/// The further polls of a connection that its request may ask for. Over HTTP/2 there are none: all received data frames
/// can be read at once.
#[derive(Debug, Default)]
pub(super) struct Repolls {
    left: Cell<u32>,
    is_wanted: Cell<bool>,
}

impl Repolls {
    /// Begins a poll of the connection's task.
    pub(super) fn begin(&self) {
        self.left.set(REPOLLS_MAX);
    }

    /// Asks for another poll of the connection before its task yields. The caller then returns `Pending`. Returns
    /// `false` if the task has to yield first.
    pub(super) fn request(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        self.is_wanted.set(left > 0);
        left > 0
    }

    /// Returns whether to poll the connection again.
    pub(super) fn take(&self) -> bool {
        self.is_wanted.take()
    }
}
