use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::Address;

/// Counts per address and second. A new second clears all counts.
#[derive(Debug)]
pub(crate) struct AddressRates {
    of_one_address: AtomicUsize,
    current: Mutex<Second>,
}

#[derive(Debug, Default)]
struct Second {
    number: u64,
    by_address: HashMap<Address, usize>,
}

impl AddressRates {
    /// Allows each address at most `of_one_address` per second.
    pub(crate) fn new(of_one_address: usize) -> Self {
        Self { of_one_address: of_one_address.into(), current: Mutex::default() }
    }

    pub(crate) fn change(&self, of_one_address: usize) {
        self.of_one_address.store(of_one_address, Relaxed);
    }

    /// Counts one for an address. Returns `false` at this second's limit.
    pub(crate) fn take(&self, address: Address, now_us: u64) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let number = now_us / 1_000_000;
        if current.number != number {
            // Frees memory after many addresses.
            *current = Second { number, by_address: HashMap::new() };
        }
        let count = current.by_address.entry(address).or_default();
        let is_taken = *count < self.of_one_address.load(Relaxed);
        *count += usize::from(is_taken);
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_limit_per_second() {
        let rates = AddressRates::new(2);
        let [one, other] =
            ["192.0.2.1", "192.0.2.2"].map(|ip| Address::from_ip(ip.parse().unwrap()));
        let at = |address, now_us| rates.take(address, now_us);
        assert_eq!([at(one, 0), at(one, 1), at(one, 2), at(other, 3)], [true, true, false, true]);
        assert!(!at(one, 999_999));
        assert_eq!(
            [at(one, 1_000_000), at(one, 1_000_001), at(one, 1_000_002)],
            [true, true, false]
        );
    }
}
