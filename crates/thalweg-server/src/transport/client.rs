use crate::{
    access::{Holder, Identity},
    connection_limits::{Address, Requester},
};

/// The client of a request or a connection, by which all per-client limits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) identity: Identity,
    pub(crate) address: Address,
    /// Whether limits of the address apply.
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
