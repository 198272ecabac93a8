use std::{cell::RefCell, collections::HashMap, sync::Arc};

use tokio::{
    sync::{Mutex, MutexGuard, Notify, OwnedMutexGuard, Semaphore},
    task::yield_now,
};

use crate::{config::READS_PER_SHARD, transport::Client};

/// Reads run one after the other, with turns of the shard between them, because each takes as
/// long as many visits. Clients take turns: another client waits for only one read of a client,
/// however much that client reads.
#[derive(Debug)]
pub(super) struct ReadQueue {
    one: Mutex<()>,
    /// For each waiting client: lets one of its reads run at a time.
    clients: RefCell<HashMap<Client, Arc<Mutex<()>>>>,
    /// Wakes those who wait when a history has been sent.
    pub(super) is_sent: Notify,
    /// Pages that are read from the backend at a time, so that subscribers' pages have room there.
    pub(super) pages: Semaphore,
}

impl Default for ReadQueue {
    fn default() -> Self {
        Self {
            one: Mutex::default(),
            clients: RefCell::default(),
            is_sent: Notify::default(),
            pages: Semaphore::new(READS_PER_SHARD),
        }
    }
}

impl ReadQueue {
    /// Waits until a read is the first of its client. It stays the first until this is dropped.
    pub(super) async fn first_of(&self, client: Client) -> QueuedRead<'_> {
        let mut queued = self.enqueue(client);
        queued.first = Some(Arc::clone(&queued.own).lock_owned().await);
        queued
    }

    /// Waits for a turn to read. The turn lasts until the guard is dropped. A read for a client
    /// must call `first_of` first.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        let one = self.one.lock().await;
        yield_now().await;
        one
    }

    fn enqueue(&self, client: Client) -> QueuedRead<'_> {
        let mut clients = self.clients.borrow_mut();
        let own = clients.entry(client).or_default();
        QueuedRead { queue: self, client, own: Arc::clone(own), first: None }
    }
}

/// One read of a client. When the last one is dropped, the client is removed from the table.
#[derive(Debug)]
pub(super) struct QueuedRead<'a> {
    queue: &'a ReadQueue,
    client: Client,
    own: Arc<Mutex<()>>,
    /// It is the first of them.
    first: Option<OwnedMutexGuard<()>>,
}

impl Drop for QueuedRead<'_> {
    fn drop(&mut self) {
        self.first = None;
        // The other reference is in the table.
        if Arc::strong_count(&self.own) == 2 {
            self.queue.clients.borrow_mut().remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::IpAddr,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;
    use crate::{
        access::{Identity, Kind},
        connection_limits::Address,
    };

    fn client(number: u8) -> Client {
        let address = Address::of(IpAddr::from([127, 0, 0, number]));
        Client { address, identity: Identity::of(Kind::Nobody, ""), is_counted: false }
    }

    async fn turn(queue: &ReadQueue, client: Client) -> (MutexGuard<'_, ()>, QueuedRead<'_>) {
        let queued = queue.first_of(client).await;
        (queue.turn().await, queued)
    }

    #[test]
    fn clients_come_in_turn_and_are_forgotten() {
        let queue = ReadQueue::default();
        let context = &mut Context::from_waker(Waker::noop());
        {
            let (mut first, mut again) =
                (pin!(turn(&queue, client(1))), pin!(turn(&queue, client(1))));
            let mut other = pin!(turn(&queue, client(2)));
            assert!(first.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(first_turn) = first.as_mut().poll(context) else {
                panic!("it is its turn")
            };
            assert!(again.as_mut().poll(context).is_pending());
            assert!(other.as_mut().poll(context).is_pending());
            drop(first_turn);
            assert!(again.as_mut().poll(context).is_pending(), "it was not first in the queue");
            assert!(other.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(_turn) = other.as_mut().poll(context) else {
                panic!("another's turn comes before the same client's")
            };
            assert!(again.as_mut().poll(context).is_pending());
        }
        assert!(queue.clients.borrow().is_empty());
    }
}
