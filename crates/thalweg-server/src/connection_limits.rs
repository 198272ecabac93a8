//! Limits of connections: in total, and per address.
//!
//! - `address`: addresses that count together
//! - `forwarded`: the client named by a trusted proxy
//! - `address_counts`: counts per address
//! - `address_rates`: counts per address and second
//!
//! A connection counts for its address while it is open, unless it comes from loopback or a trusted proxy. Each request
//! through a trusted proxy counts for the client that the proxy names, until it is answered, or until its subscription ends.

mod address;
mod address_counts;
mod address_rates;
mod forwarded;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use http::HeaderMap;
use thalweg_wire::ErrorCode;

use crate::{
    config::{ADMIN_CONNECTIONS, Limits, Network},
    refusal::Refusal,
};

pub(crate) use address::Address;
pub(crate) use address_counts::AddressCounts;
pub(crate) use address_rates::AddressRates;
pub(crate) use forwarded::Forwarded;

#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    /// Maximum number of connections.
    connections: AtomicUsize,
    /// Whether this is the admin listener.
    pub(crate) is_admin: bool,
    trusted_proxies: Vec<Network>,
    /// Number of sockets of each shard.
    loads: Vec<AtomicUsize>,
    taken: AtomicUsize,
    by_address: AddressCounts,
}

/// One connection's permit, for its lifetime.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    address_permit: AddressPermit,
    shard: u32,
    is_of_proxy: bool,
}

/// The client of a request, while the request is processed.
#[derive(Debug)]
pub(crate) struct Requester {
    /// The client's address for limits: the connection's, or the one that its trusted proxy names. It is set for loopback too.
    pub(crate) address: Address,
    /// Whether the request counts for that address. A loopback connection does not count, unless it is a trusted proxy's.
    pub(crate) is_counted: bool,
    /// A separate permit, if the connection is a proxy's.
    address_permit: Option<AddressPermit>,
}

impl Requester {
    /// Returns the address that the request counts for, if any.
    pub(crate) fn counted(&self) -> Option<Address> {
        self.is_counted.then_some(self.address)
    }
}

#[derive(Debug)]
struct AddressPermit {
    connection_limits: Arc<ConnectionLimits>,
    address: Address,
    is_counted: bool,
}

impl ConnectionLimits {
    pub(crate) fn new(shards: usize, limits: Limits, trusted_proxies: &[Network]) -> Self {
        Self {
            connections: limits.connections.into(),
            is_admin: false,
            trusted_proxies: trusted_proxies.to_vec(),
            loads: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            taken: AtomicUsize::new(0),
            by_address: AddressCounts::new(limits.connections_of_one_address()),
        }
    }

    /// Changes the limits. Existing connections stay.
    pub(crate) fn change(&self, limits: &Limits) {
        self.connections.store(limits.connections, Relaxed);
        self.by_address.change(limits.connections_of_one_address());
    }

    /// Returns the limits of the admin listener: few connections, separate from all others.
    pub(crate) fn new_admin() -> Self {
        let limits = Limits { connections: ADMIN_CONNECTIONS, ..Limits::default() };
        Self { is_admin: true, ..Self::new(1, limits, &[]) }
    }

    /// Takes a permit for a connection from `address` on the least-loaded shard. Only the accepting thread calls it. Fails when a
    /// limit is reached.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<ConnectionPermit, Refusal> {
        let address = address.to_canonical();
        let is_of_proxy = self.trusted_proxies.iter().any(|network| network.contains(address));
        let is_counted = !is_of_proxy && !address.is_loopback();
        let address_permit = self.address_permit(Address::from_ip(address), is_counted)?;
        let load = |shard: &usize| self.loads[*shard].load(Relaxed);
        let shard = (0..self.loads.len()).min_by_key(load).unwrap_or_default();
        ConnectionPermit::new(address_permit, shard as u32, is_of_proxy)
    }

    /// Takes another permit for an address, if it counts.
    fn address_permit(
        self: &Arc<Self>,
        address: Address,
        is_counted: bool,
    ) -> Result<AddressPermit, Refusal> {
        if is_counted && !self.by_address.take(address) {
            let message = "this address has reached its limit of connections: close some, or if the address is that of a proxy, start the server with --trusted-proxy";
            return Err(Refusal::new(ErrorCode::TooManyFromAddress, message));
        }
        Ok(AddressPermit { connection_limits: Arc::clone(self), address, is_counted })
    }

    /// Counts a connection against the limit of all connections.
    fn take_room(&self) -> Result<(), Refusal> {
        let most = self.connections.load(Relaxed);
        let one_more = |taken| (taken < most).then_some(taken + 1);
        if self.taken.fetch_update(Relaxed, Relaxed, one_more).is_ok() {
            return Ok(());
        }
        let message = "the server has reached its limit of connections: try again later";
        Err(Refusal::new(ErrorCode::TooManyConnections, message))
    }
}

impl ConnectionPermit {
    /// Returns the maximum number of connections of the server.
    pub(crate) fn connections_max(&self) -> usize {
        self.address_permit.connection_limits.connections.load(Relaxed)
    }

    fn new(address_permit: AddressPermit, shard: u32, is_of_proxy: bool) -> Result<Self, Refusal> {
        address_permit.connection_limits.take_room()?;
        address_permit.connection_limits.loads[shard as usize].fetch_add(1, Relaxed);
        Ok(Self { address_permit, shard, is_of_proxy })
    }

    pub(crate) fn shard(&self) -> usize {
        self.shard as usize
    }

    /// Returns the connection's address; for a proxy's connection, the proxy's own.
    pub(crate) fn address(&self) -> Address {
        self.address_permit.address
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.address_permit.connection_limits.is_admin
    }

    /// Parses the client in a request's headers, if the connection is a trusted proxy's. Such headers from others are ignored.
    /// Fails like [`Forwarded::read`].
    pub(crate) fn forwarded(&self, headers: &HeaderMap) -> Result<Forwarded, Refusal> {
        match self.is_of_proxy {
            true => {
                Forwarded::read(headers, &self.address_permit.connection_limits.trusted_proxies)
            }
            false => Ok(Forwarded::default()),
        }
    }

    pub(crate) fn client(&self, forwarded: &Forwarded) -> Address {
        forwarded.address.unwrap_or(self.address_permit.address)
    }

    /// Returns the client of a request with these headers. A proxy that names no client counts as its own client. Fails when the
    /// client behind a proxy has reached its limit.
    pub(crate) fn requester(&self, forwarded: &Forwarded) -> Result<Requester, Refusal> {
        if !self.is_of_proxy {
            let AddressPermit { address, is_counted, .. } = self.address_permit;
            return Ok(Requester { address, is_counted, address_permit: None });
        }
        let address = self.client(forwarded);
        let address_permit = self.address_permit.connection_limits.address_permit(address, true)?;
        Ok(Requester { address, is_counted: true, address_permit: Some(address_permit) })
    }

    /// Takes a permit for one of several subscribers on this connection. It costs as much as a connection. Fails when a limit is
    /// reached.
    pub(crate) fn for_stream(&self, requester: Requester) -> Result<Self, Refusal> {
        let own = &self.address_permit;
        let address_permit = requester
            .address_permit
            .map_or_else(|| own.connection_limits.address_permit(own.address, own.is_counted), Ok);
        Self::new(address_permit?, self.shard, false)
    }

    /// Transfers the permit to a subscriber that uses the connection alone.
    pub(crate) fn transferred_to(mut self, requester: Requester) -> Self {
        if let Some(address_permit) = requester.address_permit {
            self.address_permit = address_permit;
        }
        self
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let connection_limits = &self.address_permit.connection_limits;
        connection_limits.loads[self.shard as usize].fetch_sub(1, Relaxed);
        connection_limits.taken.fetch_sub(1, Relaxed);
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        if self.is_counted {
            self.connection_limits.by_address.give_back(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection_limits(
        connections: usize,
        of_one_address: usize,
        trusted_proxies: &[&str],
    ) -> Arc<ConnectionLimits> {
        let connections_per_address = Some(of_one_address);
        let limits = Limits { connections, connections_per_address, ..Limits::default() };
        let trusted: Vec<_> = trusted_proxies.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(ConnectionLimits::new(2, limits, &trusted))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn permits_are_given_back_and_addresses_forgotten() {
        let connection_limits = connection_limits(3, 2, &[]);
        let (here, there) = (ip("10.0.0.1"), ip("10.0.0.2"));
        let first = connection_limits.take(here).unwrap();
        let second = connection_limits.take(here).unwrap();
        assert_ne!(first.shard(), second.shard());
        assert_eq!(connection_limits.take(here).unwrap_err().code, ErrorCode::TooManyFromAddress);
        let third = connection_limits.take(there).unwrap();
        assert_eq!(connection_limits.take(there).unwrap_err().code, ErrorCode::TooManyConnections);
        drop((first, second));
        assert!(connection_limits.take(here).is_ok());
        drop(third);
        assert!(connection_limits.by_address.lock().is_empty());
    }

    #[test]
    fn loopback_is_not_counted_and_a_64_is_one_address() {
        let connection_limits = connection_limits(9, 1, &[]);
        let _there: Vec<_> = ["127.0.0.1", "127.0.0.1", "::1", "::1"]
            .map(|text| connection_limits.take(ip(text)).unwrap())
            .into();
        let _one = connection_limits.take(ip("2001:db8::1")).unwrap();
        let refused = connection_limits.take(ip("2001:db8::2")).unwrap_err();
        assert_eq!(refused.code, ErrorCode::TooManyFromAddress);
        assert!(connection_limits.take(ip("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn a_proxys_connection_counts_for_the_clients_that_it_names() {
        let connection_limits = connection_limits(9, 1, &["127.0.0.1"]);
        let [one, other] = [(); 2].map(|()| connection_limits.take(ip("127.0.0.1")).unwrap());
        let named =
            |text: &str| Forwarded { address: Some(Address::from_ip(ip(text))), is_https: None };
        let requester = one.requester(&named("192.0.2.1")).unwrap();
        assert!(other.requester(&named("192.0.2.1")).is_err());
        let subscriber = one.transferred_to(requester);
        assert!(other.requester(&named("192.0.2.1")).is_err());
        drop(subscriber);
        let beside = other.for_stream(other.requester(&named("192.0.2.1")).unwrap()).unwrap();
        assert!(other.requester(&named("192.0.2.1")).is_err());
        // A proxy that names no client is its own client.
        let itself = other.requester(&Forwarded::default()).unwrap();
        assert!(other.requester(&Forwarded::default()).is_err());
        drop((beside, itself, other));
        assert!(connection_limits.by_address.lock().is_empty());
        assert_eq!(connection_limits.taken.load(Relaxed), 0);
    }
}
