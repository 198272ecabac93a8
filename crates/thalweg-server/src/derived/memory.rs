//! The memory of queries per address, across shards.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::connection_limits::Address;

/// Clients on loopback share one address, and so do all clients behind an untrusted proxy.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    by_address: Mutex<HashMap<Option<Address>, Weak<Account>>>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Account {
    bytes: AtomicUsize,
    bytes_max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryShare {
    /// `None`: a query of the configuration, which belongs to no address.
    account: Option<Arc<Account>>,
    bytes: usize,
}

impl QueryMemory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { by_address: Mutex::default(), bytes_max }
    }

    /// Returns an empty share of an address.
    pub(crate) fn share(&self, address: Option<Address>) -> MemoryShare {
        let mut accounts = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let known = accounts.get(&address).and_then(Weak::upgrade);
        let account = known.unwrap_or_else(|| {
            accounts.retain(|_, account| account.strong_count() > 0);
            let account =
                Arc::new(Account { bytes: AtomicUsize::new(0), bytes_max: self.bytes_max });
            accounts.insert(address, Arc::downgrade(&account));
            account
        });
        MemoryShare { account: Some(account), bytes: 0 }
    }
}

impl MemoryShare {
    /// Returns another empty share of the same address.
    pub(crate) fn sibling(&self) -> Self {
        Self { account: self.account.clone(), bytes: 0 }
    }

    pub(crate) fn is_sibling(&self, other: &Self) -> bool {
        match (&self.account, &other.account) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets the bytes of the share. Returns `false` if that exceeds the address's limit; the share is then unchanged.
    #[must_use]
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if let Some(account) = &self.account {
            match bytes.checked_sub(self.bytes) {
                Some(more) => {
                    let grown = |held: usize| {
                        Some(held + more).filter(|held| more == 0 || *held <= account.bytes_max)
                    };
                    if account.bytes.fetch_update(Relaxed, Relaxed, grown).is_err() {
                        return false;
                    }
                }
                None => _ = account.bytes.fetch_sub(self.bytes - bytes, Relaxed),
            }
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        // Shrinking always succeeds.
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_queries_of_an_address_share_a_limit_that_ended_ones_free() {
        let memory = QueryMemory::new(100);
        let address = |last: u8| Some(Address::from_ip(std::net::IpAddr::from([192, 0, 2, last])));
        let (mut one, mut two) = (memory.share(address(1)), memory.share(address(1)));
        assert!(one.set(60) && two.set(40) && !two.set(41) && !one.set(61));
        assert_eq!((one.bytes(), two.bytes()), (60, 40));
        assert!(one.set(10) && two.sibling().set(50) && two.set(90));
        let mut other = memory.share(address(2));
        assert!(other.set(100) && memory.share(None).set(100));
        drop((one, two));
        assert!(memory.share(address(1)).set(100));
        assert!(
            MemoryShare::default().set(usize::MAX),
            "queries of the configuration have no limit"
        );
    }
}
