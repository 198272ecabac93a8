//! A broker's thread: passes shards' requests to the broker, and its answers back.

use std::{io, sync::Arc, time::Duration};

use thalweg_broker::{Append, AppendError, Broker, BrokerCounts, Follower, Stream, TicketError};
use tokio::{runtime::Builder, sync::mpsc, task::JoinSet};

use super::{ListRequest, Read, Shards, Store, TicketRequest};
use crate::{
    clock::now_us,
    config::{LISTS_IN_FLIGHT_MAX, READS_IN_FLIGHT_MAX, STORES_IN_FLIGHT_MAX},
};

/// An open broker for [`serve`](crate::serve()).
pub struct BrokerService {
    pub(crate) streams: Vec<Stream>,
    pub(crate) counts: Arc<dyn BrokerCounts>,
    pub(crate) can_compare: bool,
    pub(crate) keeps_tickets: bool,
    pub(crate) lists_topics: bool,
    run: Box<dyn FnOnce(Inbox, Shards) -> io::Result<()> + Send>,
}

/// The requests of shards to a broker.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Has at most as many records of a topic as the topic may have in flight.
    pub(crate) stores: mpsc::Receiver<Store>,
    pub(crate) reads: mpsc::Receiver<Read>,
    pub(crate) lists: mpsc::Receiver<ListRequest>,
    /// `None` if another broker, or the server, keeps the tickets. A bounded number is in flight.
    pub(crate) tickets: Option<mpsc::Receiver<TicketRequest>>,
}

impl BrokerService {
    /// Opens a broker in its own runtime. Blocks; do not call it within a tokio runtime.
    ///
    /// # Errors
    /// Fails if the broker does not open, or if no runtime can be created.
    pub fn open<B: Broker>(open: impl Future<Output = Result<B, String>>) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| format!("cannot start a broker's runtime: {error}"))?;
        let broker = Arc::new(runtime.block_on(open)?);
        Ok(Self {
            streams: broker.streams(),
            counts: broker.counts(),
            can_compare: broker.compare_and_set().is_some(),
            keeps_tickets: broker.tickets().is_some(),
            lists_topics: broker.topic_index().is_some(),
            run: Box::new(move |inbox, shards| runtime.block_on(drive(broker, inbox, shards))),
        })
    }

    /// Runs until no more stores can come and all are answered. Fails when the broker fails permanently.
    pub(crate) fn run(self, inbox: Inbox, shards: Shards) -> io::Result<()> {
        (self.run)(inbox, shards)
    }
}

async fn drive<B: Broker>(broker: Arc<B>, inbox: Inbox, shards: Shards) -> io::Result<()> {
    let Inbox { mut stores, reads, lists, tickets } = inbox;
    tokio::spawn(shards.clone().send_waiting());
    let reader = Arc::clone(&broker);
    tokio::spawn(run_each(reads, READS_IN_FLIGHT_MAX, move |request| {
        read(Arc::clone(&reader), request)
    }));
    let lister = Arc::clone(&broker);
    tokio::spawn(run_each(lists, LISTS_IN_FLIGHT_MAX, move |request| {
        list(Arc::clone(&lister), request)
    }));
    if let Some(tickets) = tickets {
        let keeper = Arc::clone(&broker);
        // The caller bounds the number in flight.
        let answer = move |request| answer_ticket(Arc::clone(&keeper), request);
        tokio::spawn(run_each(tickets, usize::MAX, answer));
    }
    let ended = tokio::select! {
        () = run_each_of(&mut stores, STORES_IN_FLIGHT_MAX, |request| store(Arc::clone(&broker), request)) => Ok(()),
        why = broker.follow(shards.clone()) => Err(io::Error::other(why)),
    };
    shards.set_ready(false);
    // A shard may have reserved a place and not sent its request yet. A channel whose receiver is dropped would
    // keep this request, without an answer.
    stores.close();
    while let Some(Store { reply, .. }) = stores.recv().await {
        // The broker has never had the request.
        reply.send(Err(AppendError::Unavailable));
    }
    ended
}

/// Runs a task for each request, at most `most` in flight, until no more can come and all are done. Tasks begin in the
/// order of the requests. If a task panics, its dropped reply answers.
async fn run_each<R, T>(mut requests: mpsc::Receiver<R>, most: usize, task: impl Fn(R) -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    run_each_of(&mut requests, most, task).await;
}

/// Does the same, and leaves the receiver to the caller.
async fn run_each_of<R, T>(requests: &mut mpsc::Receiver<R>, most: usize, task: impl Fn(R) -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.recv(), if tasks.len() < most => match request {
                Some(request) => _ = tasks.spawn(task(request)),
                None => break,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    while tasks.join_next().await.is_some() {}
}

async fn store<B: Broker>(broker: Arc<B>, store: Store) {
    let Store { append, after, arrived_us, reply } = store;
    let waited = Duration::from_micros(now_us().saturating_sub(arrived_us));
    let append = Append { waited, ..append };
    reply.send(match (after, broker.compare_and_set()) {
        (None, _) => broker.append(append).await,
        (Some(newest), Some(broker)) => broker.append_after(append, newest).await,
        // A shard requests this only from a broker that can compare.
        (Some(_), None) => Err(AppendError::Unavailable),
    });
}

async fn read<B: Broker>(broker: Arc<B>, read: Read) {
    let Read { range, is_value, reply } = read;
    reply.send(match is_value && range.from <= range.until {
        true => broker.newest(range).await,
        false => broker.read(range).await,
    });
}

async fn list<B: Broker>(broker: Arc<B>, request: ListRequest) {
    let ListRequest { range, answer } = request;
    if answer.is_closed() {
        return;
    }
    let listed = match broker.topic_index() {
        Some(index) => index.topics(range).await,
        // Such a broker gets no requests for lists.
        None => Ok(Vec::new()),
    };
    let _ = answer.send(listed);
}

async fn answer_ticket<B: Broker>(broker: Arc<B>, request: TicketRequest) {
    let tickets = broker.tickets();
    match request {
        TicketRequest::Keep { ticket, holder, reply } if reply.is_awaited() => {
            reply.send(match tickets {
                Some(tickets) => tickets.keep(ticket, holder).await,
                None => Err(TicketError::Unavailable),
            });
        }
        TicketRequest::Redeem { ticket, reply } if reply.is_awaited() => {
            reply.send(match tickets {
                Some(tickets) => tickets.redeem(ticket).await,
                None => Err(TicketError::Unavailable),
            });
        }
        // Nobody waits for the answer any more.
        TicketRequest::Keep { .. } | TicketRequest::Redeem { .. } => {}
    }
}
