//! Permits for reading request bodies, each client's share of them, and the memory of those bodies.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    config::{SMALL_BODY_BYTES, share_of_requests},
    metrics::Metric,
    refusal::Refusal,
    transport::Client,
};

pub(crate) struct BodyPermits {
    count: usize,
    free: Semaphore,
    /// Free permits of each client with a current request.
    by_client: Mutex<HashMap<Client, Arc<Semaphore>>>,
}

/// A client's share of the permits, while it has a request.
pub(crate) struct ClientBodyPermits<'a> {
    permits: &'a BodyPermits,
    /// Number of permits taken on this shard.
    taken: &'a Metric,
    /// `None` for a client that is not counted.
    own: Option<(Client, Arc<Semaphore>)>,
}

/// A permit that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct BodyPermit<'a> {
    taken: &'a Metric,
    _of_own: Option<SemaphorePermit<'a>>,
    _of_all: SemaphorePermit<'a>,
}

impl BodyPermits {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, free: Semaphore::new(count), by_client: Mutex::default() }
    }

    /// Returns a client's share. `taken` counts the permits taken.
    pub(crate) fn permits_of_client<'a>(
        &'a self,
        taken: &'a Metric,
        client: Client,
    ) -> ClientBodyPermits<'a> {
        let own = client.is_counted.then(|| {
            let mut by_client = self.lock();
            let own = by_client.entry(client);
            let share = || Arc::new(Semaphore::new(share_of_requests(self.count)));
            (client, Arc::clone(own.or_insert_with(share)))
        });
        ClientBodyPermits { permits: self, taken, own }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Client, Arc<Semaphore>>> {
        self.by_client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientBodyPermits<'_> {
    /// Takes a permit without waiting. Fails when the client has used up its share, or no permit is free.
    pub(crate) fn try_take(&self) -> Result<BodyPermit<'_>, Refusal> {
        let busy = |_| {
            let message = "too many requests with a body are in progress, in total or from this client: try again";
            Refusal::busy(message)
        };
        let own = self.own.as_ref().map(|(_, own)| own.try_acquire()).transpose();
        let _of_own = own.map_err(busy)?;
        let _of_all = self.permits.free.try_acquire().map_err(busy)?;
        Ok(BodyPermit::new(self.taken, _of_own, _of_all))
    }

    /// Takes a permit as soon as one is free. Fails when the server shuts down.
    pub(crate) async fn take(&self) -> Result<BodyPermit<'_>, Refusal> {
        let draining = |_| Refusal::draining();
        let _of_own = match &self.own {
            Some((_, own)) => Some(own.acquire().await.map_err(draining)?),
            None => None,
        };
        let _of_all = self.permits.free.acquire().await.map_err(draining)?;
        Ok(BodyPermit::new(self.taken, _of_own, _of_all))
    }
}

impl<'a> BodyPermit<'a> {
    fn new(
        taken: &'a Metric,
        _of_own: Option<SemaphorePermit<'a>>,
        _of_all: SemaphorePermit<'a>,
    ) -> Self {
        taken.add(1);
        Self { taken, _of_own, _of_all }
    }
}

/// The memory of a body that is being read. It counts until it is dropped.
pub(crate) struct BodyMemory<'a> {
    /// The memory of all bodies on this shard.
    all: &'a Metric,
    bytes: usize,
}

impl<'a> BodyMemory<'a> {
    pub(crate) fn new(all: &'a Metric) -> Self {
        Self { all, bytes: 0 }
    }

    /// Sets the memory of the body. Fails with `Busy` if the body is not small, and all bodies together hold more than `bytes_max`.
    pub(crate) fn set(&mut self, bytes: usize, bytes_max: usize) -> Result<(), Refusal> {
        self.all.sub(self.bytes as u64);
        self.all.add(bytes as u64);
        self.bytes = bytes;
        if bytes > SMALL_BODY_BYTES && self.all.get() > bytes_max as u64 {
            let message =
                "the memory for large request bodies is full: try again, or send a smaller body";
            return Err(Refusal::busy(message));
        }
        Ok(())
    }
}

impl Drop for BodyMemory<'_> {
    fn drop(&mut self) {
        self.all.sub(self.bytes as u64);
    }
}

impl Drop for BodyPermit<'_> {
    fn drop(&mut self) {
        self.taken.sub(1);
    }
}

impl Drop for ClientBodyPermits<'_> {
    fn drop(&mut self) {
        let Some((client, own)) = self.own.take() else { return };
        let mut by_client = self.permits.lock();
        drop(own);
        // Only the table still holds the share, so the client has no more requests.
        if by_client.get(&client).is_some_and(|own| Arc::strong_count(own) == 1) {
            by_client.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::{Identity, Kind},
        connection_limits::Address,
    };

    #[test]
    fn a_client_has_half_and_is_forgotten() {
        let (permits, taken) = (BodyPermits::new(4), Metric::default());
        let [one, other, here] = ["192.0.2.1", "192.0.2.2", "127.0.0.1"].map(|ip| {
            let address = Address::from_ip(ip.parse().unwrap());
            let is_counted = ip != "127.0.0.1";
            permits.permits_of_client(
                &taken,
                Client { identity: Identity::new(Kind::Nobody, ""), address, is_counted },
            )
        });
        let same = permits.permits_of_client(&taken, one.own.as_ref().unwrap().0);
        let held = [one.try_take().unwrap(), same.try_take().unwrap()];
        assert!(one.try_take().is_err() && same.try_take().is_err());
        let rest = [other.try_take().unwrap(), here.try_take().unwrap()];
        assert!(here.try_take().is_err());
        assert_eq!(taken.get(), 4);
        drop((held, rest));
        assert!(one.try_take().is_ok());
        drop((one, other, same, here));
        assert_eq!((taken.get(), permits.lock().len()), (0, 0));
    }
}
