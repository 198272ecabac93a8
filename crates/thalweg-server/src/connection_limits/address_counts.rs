use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::Address;

/// Counts per address: its connections, or the topics that it has created by subscribing.
#[derive(Debug)]
pub(crate) struct AddressCounts {
    of_one_address: AtomicUsize,
    by_address: Mutex<HashMap<Address, usize>>,
}

impl AddressCounts {
    /// Allows each address at most `of_one_address`.
    pub(crate) fn new(of_one_address: usize) -> Self {
        Self { of_one_address: of_one_address.into(), by_address: Mutex::default() }
    }

    /// Changes the limit. Existing counts stay.
    pub(crate) fn change(&self, of_one_address: usize) {
        self.of_one_address.store(of_one_address, Relaxed);
    }

    /// Counts one for an address, until it is given back. Returns `false` at the limit.
    pub(crate) fn take(&self, address: Address) -> bool {
        let mut by_address = self.lock();
        let count = by_address.get(&address).copied().unwrap_or(0);
        let is_taken = count < self.of_one_address.load(Relaxed);
        if is_taken {
            by_address.insert(address, count + 1);
        }
        is_taken
    }

    pub(crate) fn is_exhausted(&self, address: Address) -> bool {
        let most = self.of_one_address.load(Relaxed);
        self.lock().get(&address).is_some_and(|count| *count >= most)
    }

    pub(crate) fn give_back(&self, address: Address) {
        if let Entry::Occupied(mut count) = self.lock().entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<Address, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_permits_can_be_taken_again() {
        let shares = AddressCounts::new(1);
        let [one, other] =
            ["192.0.2.1", "192.0.2.2"].map(|ip| Address::from_ip(ip.parse().unwrap()));
        assert!(shares.take(one));
        assert!(!shares.take(one));
        assert!(shares.is_exhausted(one) && !shares.is_exhausted(other));
        assert!(shares.take(other));
        shares.give_back(one);
        assert!(shares.take(one));
        shares.change(2);
        assert!(shares.take(one) && !shares.take(one));
        shares.change(0);
        shares.give_back(one);
        assert!(!shares.take(one));
        [one, other].into_iter().for_each(|address| shares.give_back(address));
        assert!(shares.lock().is_empty());
    }
}
