//! Who may connect: connections in all, and from one address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use thalweg_wire::ErrorCode;

use crate::{config::Limits, refusal::Refusal};

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Seats {
    limits: Limits,
    /// How many sockets each shard serves.
    loads: Vec<AtomicUsize>,
    taken: AtomicUsize,
    /// Only kept if it limits anything.
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection's place, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    shard: u32,
    /// Apart, because few servers limit by it and every connection has a seat.
    address: Option<Box<IpAddr>>,
}

impl Seats {
    pub(crate) fn new(shards: usize, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            loads: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            taken: AtomicUsize::new(0),
            by_address: Mutex::default(),
        })
    }

    /// A place for a connection from `address`, on the least-loaded shard. Called by
    /// the one thread that accepts.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Seat, Refusal> {
        let address = self.counts_addresses().then_some(address.to_canonical());
        let load = |shard: &usize| self.loads[*shard].load(Relaxed);
        let shard = (0..self.loads.len()).min_by_key(load).unwrap_or_default();
        self.seat(shard, address)
    }

    /// One more from an address, if it is counted.
    fn count(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(address) = address else { return Ok(()) };
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_address.entry(address).or_default();
        if *count >= self.limits.connections_per_address {
            let message = "this address has all the connections that it may have: close some";
            return Err(Refusal::new(ErrorCode::TooManyFromAddress, message));
        }
        *count += 1;
        Ok(())
    }

    /// One more in all.
    fn take_room(&self) -> Result<(), Refusal> {
        let one_more = |taken| (taken < self.limits.connections).then_some(taken + 1);
        if self.taken.fetch_update(Relaxed, Relaxed, one_more).is_ok() {
            return Ok(());
        }
        let message = "the server has all the connections that it may have: try again later";
        Err(Refusal::new(ErrorCode::TooManyConnections, message))
    }

    fn seat(self: &Arc<Self>, shard: usize, address: Option<IpAddr>) -> Result<Seat, Refusal> {
        self.take_room()?;
        if let Err(refusal) = self.count(address) {
            self.taken.fetch_sub(1, Relaxed);
            return Err(refusal);
        }
        self.loads[shard].fetch_add(1, Relaxed);
        let address = address.map(Box::new);
        Ok(Seat { seats: Arc::clone(self), shard: shard as u32, address })
    }

    fn counts_addresses(&self) -> bool {
        self.limits.connections_per_address < self.limits.connections
    }
}

impl Seat {
    /// The shard that is to serve it.
    pub(crate) fn shard(&self) -> usize {
        self.shard as usize
    }

    /// A place for one of the subscribers that share this connection. Such a one costs
    /// as much as a connection.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn beside(&self) -> Result<Self, Refusal> {
        self.seats.seat(self.shard(), self.address.as_deref().copied())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let seats = &self.seats;
        seats.loads[self.shard as usize].fetch_sub(1, Relaxed);
        seats.taken.fetch_sub(1, Relaxed);
        let Some(address) = self.address.as_deref() else { return };
        let mut by_address = seats.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_given_back_and_addresses_forgotten() {
        let limits = Limits { connections: 3, connections_per_address: 2, ..Limits::default() };
        let seats = Seats::new(2, limits);
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = seats.take(here).unwrap();
        let second = seats.take(here).unwrap();
        assert_ne!(first.shard(), second.shard());
        assert_eq!(seats.take(here).unwrap_err().code, ErrorCode::TooManyFromAddress);
        let third = seats.take(there).unwrap();
        assert_eq!(seats.take(there).unwrap_err().code, ErrorCode::TooManyConnections);
        drop((first, second));
        assert!(seats.take(here).is_ok());
        drop(third);
        assert!(seats.by_address.lock().unwrap().is_empty());
    }
}
