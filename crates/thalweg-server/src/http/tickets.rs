//! Issues tickets for tokens, and redeems tickets in URLs. The first broker that can keep tickets keeps all of them, so
//! that any server can redeem the tickets of the others. Without such a broker, this server keeps the tickets in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_broker::{TicketDigest, TicketError};
use thalweg_wire::ErrorCode;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::{
    access::{AccessPolicy, Holder, IssueRates, Ticket, Tickets},
    broker::{TicketReply, TicketRequest},
    clock::{Now, now_us},
    config::{TICKET_WAIT, TICKETS_UNDER_WAY_MAX, TICKETS_WAITING_MAX},
    refusal::Refusal,
};

pub(crate) enum TicketStore {
    /// The server itself. Locked only for a lookup or an insertion.
    Own(Mutex<Tickets>),
    Shared(SharedTickets),
}

pub(crate) struct SharedTickets {
    requests: mpsc::Sender<TicketRequest>,
    /// Issuing has its own slots, because redeeming needs no token and may be a flood.
    keeps: Slots,
    redemptions: Slots,
    rates: Mutex<IssueRates>,
}

/// Slots for requests that the broker has not answered, and for those that wait for a slot.
struct Slots {
    under_way: Arc<Semaphore>,
    waiting: Semaphore,
}

impl TicketStore {
    /// Returns the store and, if a broker keeps tickets, the receiver of its requests.
    pub(crate) fn new(is_shared: bool) -> (Self, Option<mpsc::Receiver<TicketRequest>>) {
        if !is_shared {
            return (Self::Own(Mutex::default()), None);
        }
        let (shared, asked) = Self::shared();
        (shared, Some(asked))
    }

    fn shared() -> (Self, mpsc::Receiver<TicketRequest>) {
        // A request with a slot finds room in the queue.
        let (requests, asked) = mpsc::channel(2 * TICKETS_UNDER_WAY_MAX);
        let (keeps, redemptions, rates) = (Slots::new(), Slots::new(), Mutex::default());
        (Self::Shared(SharedTickets { requests, keeps, redemptions, rates }), asked)
    }

    /// Keeps a new ticket. Returns whether this invalidated an older one of the same identity. Fails with `Busy` if there are too
    /// many tickets, and with `Unavailable` if it is unknown whether the ticket is kept.
    pub(crate) async fn keep(
        &self,
        access: &AccessPolicy,
        ticket: Ticket,
        holder: Arc<Holder>,
    ) -> Result<bool, Refusal> {
        match self {
            Self::Own(tickets) => lock(tickets).keep(ticket, holder, now_us()),
            Self::Shared(shared) => {
                if !lock(&shared.rates).take(&holder, now_us()) {
                    let message =
                        "this token has too many unused tickets: use them, or try again in 30 s";
                    return Err(Refusal::busy(message));
                }
                let place = shared.keeps.take().await?;
                let (reply, answer) = TicketReply::channel(Some(place));
                let ticket = TicketDigest::new(access.ticket_digest(ticket));
                let holder = holder.to_text(Now::get());
                shared.ask(TicketRequest::Keep { ticket, holder, reply }, answer).await.map_err(
                    |_| {
                        unavailable(
                            "no ticket can be issued now, because the store of tickets does not respond: try again",
                        )
                    },
                )?;
                Ok(false)
            }
        }
    }

    /// Redeems a ticket. Returns the holder with its rights.
    ///
    /// # Errors
    /// `Unauthorized` if it is not valid, `Busy` if too many are redeemed at a time, `Unavailable` if it was not
    /// checked, `TicketUnknown` if it may have been redeemed.
    pub(crate) async fn redeem(
        &self,
        access: &AccessPolicy,
        ticket: &str,
    ) -> Result<Arc<Holder>, Refusal> {
        let ticket = Ticket::parse(ticket).ok_or_else(AccessPolicy::void_ticket)?;
        let holder = match self {
            Self::Own(tickets) => lock(tickets).redeem(ticket, now_us()),
            Self::Shared(shared) => {
                let place = shared.redemptions.take().await?;
                let (reply, answer) = TicketReply::channel(Some(place));
                let ticket = TicketDigest::new(access.ticket_digest(ticket));
                let redeem = TicketRequest::Redeem { ticket, reply };
                let holder = shared.ask(redeem, answer).await.map_err(not_redeemed)?;
                holder.and_then(|holder| Holder::from_text(&holder, Now::get()))
            }
        };
        let holder = holder.filter(|holder| !holder.is_over(now_us()));
        holder.ok_or_else(AccessPolicy::void_ticket)
    }
}

impl SharedTickets {
    /// Sends a request to the broker, and waits for its answer, for at most [`TICKET_WAIT`].
    async fn ask<T>(
        &self,
        request: TicketRequest,
        answer: oneshot::Receiver<Result<T, TicketError>>,
    ) -> Result<T, TicketError> {
        // This fails only if the broker has ended, which ends the server, too.
        self.requests.try_send(request).map_err(|_| TicketError::Unavailable)?;
        match timeout(TICKET_WAIT, answer).await {
            Ok(Ok(result)) => result,
            // The request was dropped, or takes too long.
            Ok(Err(_)) | Err(_) => Err(TicketError::Unknown),
        }
    }
}

impl Slots {
    fn new() -> Self {
        Self {
            under_way: Arc::new(Semaphore::new(TICKETS_UNDER_WAY_MAX)),
            waiting: Semaphore::new(TICKETS_WAITING_MAX),
        }
    }

    /// Waits for a slot; first come, first served. Fails with `Busy` if too many requests wait already, or the wait is too long.
    async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let busy = || {
            Refusal::busy("too many requests wait for the store of tickets: try again in a second")
        };
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        let place = timeout(TICKET_WAIT, Arc::clone(&self.under_way).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(busy)
    }
}

/// Returns the refusal of a ticket whose state is unknown. Such a ticket does not count as valid.
fn not_redeemed(error: TicketError) -> Refusal {
    match error {
        TicketError::Unavailable => unavailable(
            "the ticket cannot be checked now, because the store of tickets does not respond: try again",
        ),
        TicketError::Unknown => Refusal::new(
            ErrorCode::TicketUnknown,
            "the server does not know whether this ticket was used, because the store of tickets did not respond: request a new ticket",
        ),
    }
}

fn unavailable(message: &str) -> Refusal {
    Refusal::new(ErrorCode::Unavailable, message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use thalweg_token::Rights;

    use super::*;
    use crate::{
        access::MadeOf,
        config::{Access, NamedToken},
    };

    fn publisher(access: &AccessPolicy) -> Arc<Holder> {
        access.holders.named("publisher").unwrap()
    }

    fn policy() -> Arc<AccessPolicy> {
        let tokens = vec![NamedToken::new("publisher", "p", Rights::all())];
        let access = Access { tokens, ..Access::default() };
        Arc::new(
            AccessPolicy::new(&access, ([127, 0, 0, 1], 1).into(), MadeOf::default(), None)
                .unwrap(),
        )
    }

    fn code<T>(result: &Result<T, Refusal>) -> Option<ErrorCode> {
        result.as_ref().err().map(|refusal| refusal.code)
    }

    #[tokio::test]
    async fn a_ticket_of_this_server_is_redeemed_once() {
        let (store, access) = (TicketStore::new(false).0, policy());
        let ticket = access.new_ticket(&publisher(&access)).unwrap();
        assert_eq!(store.keep(&access, ticket, publisher(&access)).await, Ok(false));
        assert_eq!(store.redeem(&access, &ticket.text()).await, Ok(publisher(&access)));
        for void in [&*ticket.text(), "0", ""] {
            let again = store.redeem(&access, void).await;
            assert_eq!(code(&again), Some(ErrorCode::Unauthorized), "{void}");
        }
    }

    #[tokio::test]
    async fn invalid_tickets_cost_a_bounded_number_of_requests() {
        let (store, mut asked) = TicketStore::shared();
        let (store, access) = (Arc::new(store), policy());
        let garbage = access.new_ticket(&publisher(&access)).unwrap().text();
        // A text that is not a ticket costs no request.
        let void = store.redeem(&access, "nonsense").await;
        assert_eq!(code(&void), Some(ErrorCode::Unauthorized));
        assert!(asked.is_empty());
        let redeem = || {
            let (store, access, garbage) = (store.clone(), access.clone(), garbage.clone());
            tokio::spawn(async move { store.redeem(&access, &garbage).await })
        };
        let under_way: Vec<_> = (0..TICKETS_UNDER_WAY_MAX).map(|_| redeem()).collect();
        let mut replies = Vec::new();
        while replies.len() < TICKETS_UNDER_WAY_MAX {
            if let Some(TicketRequest::Redeem { reply, .. }) = asked.recv().await {
                replies.push(reply);
            }
        }
        // More of them wait here. A cancelled request keeps its slot until the broker has answered.
        under_way[0].abort();
        let waiting: Vec<_> = (0..TICKETS_WAITING_MAX).map(|_| redeem()).collect();
        let TicketStore::Shared(shared) = &*store else { panic!("it is shared") };
        while shared.redemptions.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(asked.is_empty());
        let too_many = store.redeem(&access, &garbage).await;
        assert_eq!(code(&too_many), Some(ErrorCode::Busy));
        // Others get tickets meanwhile.
        let issued = tokio::spawn({
            let (store, access) = (store.clone(), access.clone());
            let ticket = access.new_ticket(&publisher(&access)).unwrap();
            async move { store.keep(&access, ticket, publisher(&access)).await }
        });
        let Some(TicketRequest::Keep { holder, reply, .. }) = asked.recv().await else {
            panic!("nothing is kept")
        };
        assert_eq!(Holder::from_text(&holder, Now::get()), Some(publisher(&access)));
        reply.send(Ok(()));
        assert_eq!(issued.await.unwrap(), Ok(false));
        // Then the waiting ones take their turn.
        replies.into_iter().for_each(|reply| reply.send(Ok(None)));
        for _ in 0..TICKETS_WAITING_MAX {
            let Some(TicketRequest::Redeem { reply, .. }) = asked.recv().await else {
                panic!("nothing is redeemed")
            };
            reply.send(Ok(None));
        }
        for redeemed in under_way.into_iter().skip(1).chain(waiting) {
            assert_eq!(code(&redeemed.await.unwrap()), Some(ErrorCode::Unauthorized));
        }
    }

    #[tokio::test]
    async fn a_ticket_of_unknown_state_gives_no_rights() {
        let (store, mut asked) = TicketStore::shared();
        let (store, access) = (Arc::new(store), policy());
        let answers = [
            Some(Err(TicketError::Unavailable)),
            Some(Err(TicketError::Unknown)),
            Some(Ok(Some("somebody".to_owned()))),
            None,
        ];
        let mut told = Vec::new();
        for answer in answers {
            let redeemed = tokio::spawn({
                let (store, access) = (store.clone(), access.clone());
                let ticket = access.new_ticket(&publisher(&access)).unwrap().text();
                async move { store.redeem(&access, &ticket).await }
            });
            let Some(TicketRequest::Redeem { reply, .. }) = asked.recv().await else {
                panic!("nothing is redeemed")
            };
            match answer {
                Some(answer) => reply.send(answer),
                None => drop(reply),
            }
            told.push(code(&redeemed.await.unwrap()));
        }
        use ErrorCode::{TicketUnknown, Unauthorized, Unavailable};
        assert_eq!(told, [Unavailable, TicketUnknown, Unauthorized, TicketUnknown].map(Some));
    }
}
