//! Runs one task at a time. Clients take turns.

use std::{cell::RefCell, collections::HashMap, hash::Hash, sync::Arc};

use tokio::{
    sync::{Mutex, MutexGuard, Notify, OwnedMutexGuard, Semaphore},
    task::yield_now,
};

use crate::{config::READS_PER_SHARD, transport::Client};

/// A queue of tasks that run one at a time, with a turn of the shard in between. A client waits for at most one task of each other client.
#[derive(Debug)]
pub(super) struct FairTurns<K: Hash + Eq + Copy> {
    one: Mutex<()>,
    /// A lock for each client, so that only one of its tasks waits for its turn.
    clients: RefCell<HashMap<K, Arc<Mutex<()>>>>,
}

impl<K: Hash + Eq + Copy> Default for FairTurns<K> {
    fn default() -> Self {
        Self { one: Mutex::default(), clients: RefCell::default() }
    }
}

impl<K: Hash + Eq + Copy> FairTurns<K> {
    /// Waits until a task is the first of its client. The task stays the first until the result is dropped.
    pub(super) async fn first_of(&self, client: K) -> QueuedTurn<'_, K> {
        let mut queued = self.enqueue(client);
        queued.first = Some(Arc::clone(&queued.own).lock_owned().await);
        queued
    }

    /// Waits for a turn of the shard and for the right to run, which lasts until the guard is dropped. Call `first_of` before.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        let one = self.next().await;
        yield_now().await;
        one
    }

    /// Waits for the right to run, without a turn of the shard.
    pub(super) async fn next(&self) -> MutexGuard<'_, ()> {
        self.one.lock().await
    }

    /// Returns how many tasks of a client wait or run.
    pub(super) fn queued(&self, client: K) -> usize {
        // Each task has two references, one of them for its lock. The table has one more.
        self.clients.borrow().get(&client).map_or(0, |own| Arc::strong_count(own) / 2)
    }

    fn enqueue(&self, client: K) -> QueuedTurn<'_, K> {
        let mut clients = self.clients.borrow_mut();
        let own = clients.entry(client).or_default();
        QueuedTurn { turns: self, client, own: Arc::clone(own), first: None }
    }
}

/// A task of a client. The last task removes the client from the table.
#[derive(Debug)]
pub(super) struct QueuedTurn<'a, K: Hash + Eq + Copy> {
    turns: &'a FairTurns<K>,
    client: K,
    own: Arc<Mutex<()>>,
    /// Set if this is the client's first task.
    first: Option<OwnedMutexGuard<()>>,
}

impl<K: Hash + Eq + Copy> Drop for QueuedTurn<'_, K> {
    fn drop(&mut self) {
        self.first = None;
        // The other reference is in the table.
        if Arc::strong_count(&self.own) == 2 {
            self.turns.clients.borrow_mut().remove(&self.client);
        }
    }
}

/// A queue of reads that run one at a time, because one read takes as long as visits to many connections. Clients take turns.
#[derive(Debug)]
pub(super) struct ReadQueue {
    /// A read waits until it is the first of its client, then for its turn.
    pub(super) turns: FairTurns<Client>,
    /// Notifies waiting reads when a history has been sent.
    pub(super) is_sent: Notify,
    /// Permits for pages of a broker, so that subscribers' pages have room in its queue.
    pub(super) pages: Semaphore,
}

impl Default for ReadQueue {
    fn default() -> Self {
        Self {
            turns: FairTurns::default(),
            is_sent: Notify::default(),
            pages: Semaphore::new(READS_PER_SHARD),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    async fn turn(turns: &FairTurns<u8>, client: u8) -> (MutexGuard<'_, ()>, QueuedTurn<'_, u8>) {
        let queued = turns.first_of(client).await;
        (turns.turn().await, queued)
    }

    #[test]
    fn clients_come_in_turn_and_are_forgotten() {
        let turns = FairTurns::default();
        let context = &mut Context::from_waker(Waker::noop());
        {
            let (mut first, mut again) = (pin!(turn(&turns, 1)), pin!(turn(&turns, 1)));
            let mut other = pin!(turn(&turns, 2));
            assert!(first.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(first_turn) = first.as_mut().poll(context) else {
                panic!("it is its turn")
            };
            assert!(again.as_mut().poll(context).is_pending());
            assert!(other.as_mut().poll(context).is_pending());
            assert_eq!([1, 2, 3].map(|client| turns.queued(client)), [2, 1, 0]);
            drop(first_turn);
            assert!(again.as_mut().poll(context).is_pending(), "it was not first in the queue");
            assert!(other.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(_turn) = other.as_mut().poll(context) else {
                panic!("another's turn comes before the same client's")
            };
            assert!(again.as_mut().poll(context).is_pending());
        }
        assert!(turns.clients.borrow().is_empty());
    }
}
