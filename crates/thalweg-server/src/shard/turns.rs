use std::{cell::RefCell, collections::HashMap, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    task::yield_now,
};

use crate::{refusal::Refusal, transport::Client};

/// Reads come one after the other, with turns of the shard between: each takes as long as
/// many visits. Clients come in turn: however much one reads, another waits for one read
/// of it.
#[derive(Debug)]
pub(super) struct Reads {
    one: Semaphore,
    /// Has the reads of each client that waits wait for each other.
    clients: RefCell<HashMap<Client, Arc<Semaphore>>>,
}

/// A turn to read, until this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _one: SemaphorePermit<'a>,
    _place: Option<Place<'a>>,
}

impl Default for Reads {
    fn default() -> Self {
        Self { one: Semaphore::new(1), clients: RefCell::default() }
    }
}

impl Reads {
    /// Waits for a client's turn to read.
    ///
    /// # Errors
    /// `Draining`, which does not happen as long as the shard is there.
    pub(super) async fn turn(&self, client: Client) -> Result<Turn<'_>, Refusal> {
        let mut place = self.place(client);
        place.first = Arc::clone(&place.own).acquire_owned().await.ok();
        let one = self.one.acquire().await.map_err(|_| Refusal::draining())?;
        yield_now().await;
        Ok(Turn { _one: one, _place: Some(place) })
    }

    /// The same for what is of no client: it comes in turn with the clients.
    ///
    /// # Errors
    /// As [`Self::turn`].
    pub(super) async fn turn_of_nobody(&self) -> Result<Turn<'_>, Refusal> {
        let one = self.one.acquire().await.map_err(|_| Refusal::draining())?;
        yield_now().await;
        Ok(Turn { _one: one, _place: None })
    }

    fn place(&self, client: Client) -> Place<'_> {
        let mut clients = self.clients.borrow_mut();
        let own = clients.entry(client).or_insert_with(|| Arc::new(Semaphore::new(1)));
        Place { reads: self, client, own: Arc::clone(own), first: None }
    }
}

/// A place among the reads of a client; the last one's end has the client forgotten.
#[derive(Debug)]
struct Place<'a> {
    reads: &'a Reads,
    client: Client,
    own: Arc<Semaphore>,
    /// It is the first of them.
    first: Option<OwnedSemaphorePermit>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.first = None;
        // The other is in the table.
        if Arc::strong_count(&self.own) == 2 {
            self.reads.clients.borrow_mut().remove(&self.client);
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
    use crate::{access::Identity, seats::Address};

    fn client(number: u8) -> Client {
        let address = Address::of(IpAddr::from([127, 0, 0, number]));
        Client { address, identity: Identity::Nobody, is_counted: false }
    }

    #[test]
    fn clients_come_in_turn_and_are_forgotten() {
        let reads = Reads::default();
        let context = &mut Context::from_waker(Waker::noop());
        {
            let (mut first, mut again) = (pin!(reads.turn(client(1))), pin!(reads.turn(client(1))));
            let mut other = pin!(reads.turn(client(2)));
            assert!(first.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(Ok(turn)) = first.as_mut().poll(context) else {
                panic!("it is its turn")
            };
            assert!(again.as_mut().poll(context).is_pending());
            assert!(other.as_mut().poll(context).is_pending());
            drop(turn);
            assert!(again.as_mut().poll(context).is_pending(), "it was not first in the queue");
            assert!(other.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(Ok(_turn)) = other.as_mut().poll(context) else {
                panic!("another's turn comes before the same client's")
            };
            assert!(again.as_mut().poll(context).is_pending());
        }
        assert!(reads.clients.borrow().is_empty());
    }
}
