//! Where a request came from.

use std::{cell::Cell, sync::Arc};

use crate::{
    answers::Holder,
    connection_limits::{Address, ConnectionPermit},
};

/// The connection that a request came on.
pub(super) struct On {
    pub(super) permit: ConnectionPermit,
    pub(super) holder: Arc<Holder>,
    /// Of its client, which is another for each request of a proxy.
    pub(super) address: Cell<Address>,
}

impl On {
    pub(super) fn new(permit: ConnectionPermit, holder: &Arc<Holder>) -> Self {
        let address = Cell::new(permit.address());
        Self { permit, holder: Arc::clone(holder), address }
    }
}
