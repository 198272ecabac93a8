use std::{cell::RefCell, collections::HashMap, hash::Hash, sync::Arc};

use tokio::{
    sync::{Mutex, MutexGuard, OwnedMutexGuard},
    task::yield_now,
};

/// Work that runs one after the other, with turns of the shard between. Clients take turns: another client waits for only
/// one work of a client, however much that client asks for.
#[derive(Debug)]
pub(super) struct FairTurns<K: Hash + Eq + Copy> {
    one: Mutex<()>,
    /// For each waiting client: lets one of its works run at a time.
    clients: RefCell<HashMap<K, Arc<Mutex<()>>>>,
}

impl<K: Hash + Eq + Copy> Default for FairTurns<K> {
    fn default() -> Self {
        Self { one: Mutex::default(), clients: RefCell::default() }
    }
}

impl<K: Hash + Eq + Copy> FairTurns<K> {
    /// Waits until a work is the first of its client. It stays the first until this is dropped.
    pub(super) async fn first_of(&self, client: K) -> QueuedTurn<'_, K> {
        let mut queued = self.enqueue(client);
        queued.first = Some(Arc::clone(&queued.own).lock_owned().await);
        queued
    }

    /// Waits for a turn, with a turn of the shard before it. It lasts until the guard is dropped. Work for a client must call
    /// `first_of` first.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        let one = self.next().await;
        yield_now().await;
        one
    }

    /// The same without a turn of the shard: at once, if nobody else has one or waits for one.
    pub(super) async fn next(&self) -> MutexGuard<'_, ()> {
        self.one.lock().await
    }

    /// How many works of a client wait, or run.
    pub(super) fn queued(&self, client: K) -> usize {
        // Each has two references, one of them for its lock, and the table has one.
        self.clients.borrow().get(&client).map_or(0, |own| Arc::strong_count(own) / 2)
    }

    fn enqueue(&self, client: K) -> QueuedTurn<'_, K> {
        let mut clients = self.clients.borrow_mut();
        let own = clients.entry(client).or_default();
        QueuedTurn { turns: self, client, own: Arc::clone(own), first: None }
    }
}

/// One work of a client. When the last one is dropped, the client is removed from the table.
#[derive(Debug)]
pub(super) struct QueuedTurn<'a, K: Hash + Eq + Copy> {
    turns: &'a FairTurns<K>,
    client: K,
    own: Arc<Mutex<()>>,
    /// It is the first of them.
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
