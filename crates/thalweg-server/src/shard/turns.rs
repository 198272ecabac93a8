use std::{cell::RefCell, collections::HashMap, sync::Arc};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit},
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
    /// Tells those who wait that a history is sent.
    pub(super) is_sent: Notify,
}

impl Default for Reads {
    fn default() -> Self {
        Self { one: Semaphore::new(1), clients: RefCell::default(), is_sent: Notify::new() }
    }
}

impl Reads {
    /// Waits until a read is the first of its client's, for as long as this is kept.
    pub(super) async fn first_of(&self, client: Client) -> Place<'_> {
        let mut place = self.place(client);
        place.first = Arc::clone(&place.own).acquire_owned().await.ok();
        place
    }

    /// Waits for a turn to read, which lasts until this is dropped. Whoever reads for a client
    /// is the first of its reads before.
    ///
    /// # Errors
    /// `Draining`, which does not happen as long as the shard is there.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        let one = self.one.acquire().await.map_err(|_| Refusal::draining())?;
        yield_now().await;
        Ok(one)
    }

    fn place(&self, client: Client) -> Place<'_> {
        let mut clients = self.clients.borrow_mut();
        let own = clients.entry(client).or_insert_with(|| Arc::new(Semaphore::new(1)));
        Place { reads: self, client, own: Arc::clone(own), first: None }
    }
}

/// A place among the reads of a client; the last one's end has the client forgotten.
#[derive(Debug)]
pub(super) struct Place<'a> {
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
    use crate::{access::Identity, connection_limits::Address};

    fn client(number: u8) -> Client {
        let address = Address::of(IpAddr::from([127, 0, 0, number]));
        Client { address, identity: Identity::Nobody, is_counted: false }
    }

    async fn turn(
        reads: &Reads,
        client: Client,
    ) -> Result<(SemaphorePermit<'_>, Place<'_>), Refusal> {
        let place = reads.first_of(client).await;
        Ok((reads.turn().await?, place))
    }

    #[test]
    fn clients_come_in_turn_and_are_forgotten() {
        let reads = Reads::default();
        let context = &mut Context::from_waker(Waker::noop());
        {
            let (mut first, mut again) =
                (pin!(turn(&reads, client(1))), pin!(turn(&reads, client(1))));
            let mut other = pin!(turn(&reads, client(2)));
            assert!(first.as_mut().poll(context).is_pending(), "it yields");
            let Poll::Ready(Ok(first_turn)) = first.as_mut().poll(context) else {
                panic!("it is its turn")
            };
            assert!(again.as_mut().poll(context).is_pending());
            assert!(other.as_mut().poll(context).is_pending());
            drop(first_turn);
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
