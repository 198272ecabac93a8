use crate::{
    access::{Holder, Identity},
    connection_limits::{Address, Requester},
};

/// The client of a request or a connection. All per-client limits count by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) identity: Identity,
    pub(crate) address: Address,
    /// Whether it counts for that address.
    pub(crate) is_counted: bool,
}

impl Client {
    pub(crate) fn new(holder: &Holder, requester: &Requester) -> Self {
        let Requester { address, is_counted, .. } = *requester;
        Self { identity: holder.identity, address, is_counted }
    }

    /// Returns the address that it counts for, if any.
    pub(crate) fn counted(&self) -> Option<Address> {
        self.is_counted.then_some(self.address)
    }
}
