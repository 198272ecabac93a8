//! Topics that clients have made by subscribing, counted by address over all shards.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use thalweg_wire::ErrorCode;

use crate::{connection_limits::Address, refusal::Refusal};

/// How many of them each address has.
#[derive(Debug)]
pub(crate) struct Shares {
    of_one_address: usize,
    by_address: Mutex<HashMap<Address, usize>>,
}

impl Shares {
    /// With so many for one address.
    pub(crate) fn new(of_one_address: usize) -> Self {
        Self { of_one_address, by_address: Mutex::default() }
    }

    /// One more of an address, to be given back later.
    ///
    /// # Errors
    /// When it has all that it may have.
    pub(crate) fn take(&self, address: Address) -> Result<(), Refusal> {
        let mut by_address = self.lock();
        let count = by_address.entry(address).or_default();
        if *count >= self.of_one_address {
            return Err(Self::refusal());
        }
        *count += 1;
        Ok(())
    }

    /// Whether an address has all that it may have.
    pub(crate) fn is_exhausted(&self, address: Address) -> bool {
        self.lock().get(&address).is_some_and(|count| *count >= self.of_one_address)
    }

    /// Said to one that has.
    pub(crate) fn refusal() -> Refusal {
        let message = "this address subscribes to all the topics without events that it may: \
                       unsubscribe from some, or if it is a proxy's, start the server with \
                       --trusted-proxy";
        Refusal::new(ErrorCode::TooManyTopics, message)
    }

    /// One fewer.
    pub(crate) fn give_back(&self, address: Address) {
        if let Entry::Occupied(mut count) = self.lock().entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let shares = Shares::new(1);
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| Address::of(ip.parse().unwrap()));
        shares.take(one).unwrap();
        assert_eq!(shares.take(one).unwrap_err().code, ErrorCode::TooManyTopics);
        assert!(shares.is_exhausted(one) && !shares.is_exhausted(other));
        shares.take(other).unwrap();
        shares.give_back(one);
        shares.take(one).unwrap();
        [one, other].into_iter().for_each(|address| shares.give_back(address));
        assert!(shares.by_address.lock().unwrap().is_empty());
    }
}
