//! Where a request came from.

use std::{cell::Cell, sync::Arc};

use crate::{
    answers::Holder,
    seats::{Address, Seat},
};

/// The connection that a request came on.
pub(super) struct On {
    pub(super) seat: Seat,
    pub(super) holder: Arc<Holder>,
    /// Of its client, which is another for each request of a proxy.
    pub(super) address: Cell<Address>,
}

impl On {
    pub(super) fn new(seat: Seat, holder: &Arc<Holder>) -> Self {
        let address = Cell::new(seat.address());
        Self { seat, holder: Arc::clone(holder), address }
    }
}
