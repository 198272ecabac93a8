//! Tickets are issued for a token, and redeemed in a URL. Without a backend this server keeps them
//! in its memory. With one the backend does, so that any server redeems what another one has issued.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_wire::ErrorCode;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::timeout,
};

use crate::{
    access::{AccessPolicy, Holder, IssueRates, Ticket, Tickets},
    backend::{TicketDigest, TicketError, TicketReply, TicketRequest},
    clock::{Now, now_us},
    config::{TICKET_WAIT, TICKETS_UNDER_WAY_MAX, TICKETS_WAITING_MAX},
    refusal::Refusal,
};

/// Who keeps the tickets of a server.
pub(crate) enum TicketStore {
    /// The server itself. Locked only for a lookup or an insertion.
    Own(Mutex<Tickets>),
    /// Its backend.
    Shared(SharedTickets),
}

/// Tickets that the backend keeps.
pub(crate) struct SharedTickets {
    requests: mpsc::Sender<TicketRequest>,
    /// Whoever redeems needs no token, so whoever is issued a ticket has places of its own.
    keeps: Places,
    redemptions: Places,
    rates: Mutex<IssueRates>,
}

/// Places for requests that the backend has not answered, and for those that wait for one.
struct Places {
    under_way: Arc<Semaphore>,
    waiting: Semaphore,
}

impl TicketStore {
    /// With the backend, if there is one, and where that gets what is asked.
    pub(crate) fn new(has_backend: bool) -> (Self, Option<mpsc::Receiver<TicketRequest>>) {
        if !has_backend {
            return (Self::Own(Mutex::default()), None);
        }
        let (shared, asked) = Self::shared();
        (shared, Some(asked))
    }

    fn shared() -> (Self, mpsc::Receiver<TicketRequest>) {
        // Whoever has a place finds room in the queue.
        let (requests, asked) = mpsc::channel(2 * TICKETS_UNDER_WAY_MAX);
        let (keeps, redemptions, rates) = (Places::new(), Places::new(), Mutex::default());
        (Self::Shared(SharedTickets { requests, keeps, redemptions, rates }), asked)
    }

    /// Keeps a new ticket. `true` if an older one of the same identity became void for it.
    ///
    /// # Errors
    /// `Busy` if there are too many, `Unavailable` if it is not known to be kept.
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
                    return Err(Refusal::busy("tickets for this token"));
                }
                let place = shared.keeps.take().await?;
                let (reply, answer) = TicketReply::channel(Some(place));
                let ticket = TicketDigest::new(access.ticket_digest(ticket));
                let holder = holder.to_text(Now::get());
                shared.ask(TicketRequest::Keep { ticket, holder, reply }, answer).await.map_err(
                    |_| {
                        unavailable(
                            "no ticket can be issued now, its store does not answer: try again",
                        )
                    },
                )?;
                Ok(false)
            }
        }
    }

    /// Uses a ticket up. Returns whose rights it gives.
    ///
    /// # Errors
    /// `Unauthorized` if it is not valid, `Busy` if too many are redeemed at a time, `Unavailable`
    /// if nobody can say whether it is.
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
                holder.and_then(|holder| Holder::of_text(&holder, Now::get()))
            }
        };
        let holder = holder.filter(|holder| !holder.is_over(now_us()));
        holder.ok_or_else(AccessPolicy::void_ticket)
    }
}

impl SharedTickets {
    /// Waits for the backend's answer, for [`TICKET_WAIT`] at most.
    async fn ask<T>(
        &self,
        request: TicketRequest,
        answer: oneshot::Receiver<Result<T, TicketError>>,
    ) -> Result<T, TicketError> {
        // A backend that has ended ends the server.
        self.requests.try_send(request).map_err(|_| TicketError::Unavailable)?;
        match timeout(TICKET_WAIT, answer).await {
            Ok(Ok(result)) => result,
            // It was dropped, or takes too long.
            Ok(Err(_)) | Err(_) => Err(TicketError::Unknown),
        }
    }
}

impl Places {
    fn new() -> Self {
        Self {
            under_way: Arc::new(Semaphore::new(TICKETS_UNDER_WAY_MAX)),
            waiting: Semaphore::new(TICKETS_WAITING_MAX),
        }
    }

    /// A place; first come, first served.
    ///
    /// # Errors
    /// `Busy` if too many wait already, or for too long.
    async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let busy = || Refusal::busy("requests with tickets");
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        let place = timeout(TICKET_WAIT, Arc::clone(&self.under_way).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(busy)
    }
}

/// A ticket of which nobody knows whether it was good is not taken for good.
fn not_redeemed(error: TicketError) -> Refusal {
    unavailable(match error {
        TicketError::Unavailable => {
            "the ticket cannot be checked now, because its store does not answer: try again"
        }
        TicketError::Unknown => {
            "the ticket may be used up now, because its store did not answer: ask for a new one"
        }
    })
}

fn unavailable(message: &str) -> Refusal {
    Refusal::new(ErrorCode::Unavailable, message)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::MadeOf,
        config::{Access, Secret},
    };

    fn publisher(access: &AccessPolicy) -> Arc<Holder> {
        access.holders.named("publisher").unwrap()
    }

    fn policy() -> Arc<AccessPolicy> {
        let access = Access { publish_token: Some(Secret::new("p")), ..Access::default() };
        Arc::new(
            AccessPolicy::new(&access, ([127, 0, 0, 1], 1).into(), MadeOf::default(), None)
                .unwrap(),
        )
    }

    fn code<T>(result: &Result<T, Refusal>) -> Option<ErrorCode> {
        result.as_ref().err().map(|refusal| refusal.code)
    }

    #[tokio::test]
    async fn this_server_keeps_a_ticket_for_one_who_presents_it() {
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
    async fn many_who_present_garbage_cost_a_bounded_number_of_requests() {
        let (store, mut asked) = TicketStore::shared();
        let (store, access) = (Arc::new(store), policy());
        let garbage = access.new_ticket(&publisher(&access)).unwrap().text();
        // What is no ticket costs nothing.
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
        // More of them wait here. Whoever goes leaves its place only when the backend is done with it.
        under_way[0].abort();
        let waiting: Vec<_> = (0..TICKETS_WAITING_MAX).map(|_| redeem()).collect();
        let TicketStore::Shared(shared) = &*store else { panic!("it is shared") };
        while shared.redemptions.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(asked.is_empty());
        let too_many = store.redeem(&access, &garbage).await;
        assert_eq!(code(&too_many), Some(ErrorCode::Busy));
        // Others are issued tickets meanwhile.
        let issued = tokio::spawn({
            let (store, access) = (store.clone(), access.clone());
            let ticket = access.new_ticket(&publisher(&access)).unwrap();
            async move { store.keep(&access, ticket, publisher(&access)).await }
        });
        let Some(TicketRequest::Keep { holder, reply, .. }) = asked.recv().await else {
            panic!("nothing is kept")
        };
        assert_eq!(Holder::of_text(&holder, Now::get()), Some(publisher(&access)));
        reply.send(Ok(()));
        assert_eq!(issued.await.unwrap(), Ok(false));
        // Then it is the turn of those that wait.
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
    async fn what_nobody_knows_gives_no_rights() {
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
        use ErrorCode::{Unauthorized, Unavailable};
        assert_eq!(told, [Unavailable, Unavailable, Unauthorized, Unavailable].map(Some));
    }
}
