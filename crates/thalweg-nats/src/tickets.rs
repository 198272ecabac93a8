//! Tickets: kept in a bucket, and used up there. Of all who redeem a ticket, on all servers, one gets
//! it: the one whose message replaces the ticket's under the condition that this is still the last one
//! of its subject. That is checked by the stream's leader, which is also asked for the ticket before:
//! a replica may not have one that was issued just now.

use std::{sync::Arc, time::Duration};

use async_nats::{HeaderMap, HeaderName};
use bytes::Bytes;
use thalweg_server::{
    LogThrottle,
    backend::{TicketDigest, TicketError, TicketReply, TicketRequest},
    now_us,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    ack::Ack,
    api::{Api, ApiError},
    bucket::{self, Bucket, subject_of},
    counts::{Counts, add},
    requests::{Requests, Unanswered},
    store::{EXPECTED_LAST, EXPECTED_STREAM},
};

/// How long a ticket may take to be stored, or replaced: its client waits for it, and asks again.
const TICKET_TIMEOUT: Duration = Duration::from_secs(2);

/// By which clients of the bucket know that there is nothing more under a key.
const OPERATION: HeaderName = HeaderName::from_static("KV-Operation");
const DELETED: &str = "DEL";

/// What it takes to keep tickets. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Keeping {
    pub(crate) requests: Requests,
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
    /// Where they are. `None` if the server needs none.
    pub(crate) bucket: Option<Bucket>,
}

/// Why something is not known of a ticket, in words.
struct Failed {
    error: TicketError,
    why: String,
}

/// Answers what is asked, until nothing more can be. Who asks bounds how much is under way.
pub(crate) async fn run(keeping: Keeping, mut asked: mpsc::Receiver<TicketRequest>) {
    if let Some(bucket) = &keeping.bucket {
        tokio::spawn(bucket.clone().watch(Arc::clone(&keeping.counts)));
    }
    let mut under_way = JoinSet::new();
    let mut failed = LogThrottle::default();
    loop {
        tokio::select! {
            request = asked.recv() => {
                let Some(request) = request else { break };
                let keeping = keeping.clone();
                under_way.spawn(async move { keeping.answer(request).await });
            }
            Some(answered) = under_way.join_next() => {
                if let Ok(Err(why)) = answered
                    && let Some(times) = failed.take(1, now_us())
                {
                    tracing::warn!(times, "cannot keep or redeem a ticket: {why}");
                }
            }
        }
    }
}

impl Keeping {
    /// Answers one request.
    ///
    /// # Errors
    /// In words, if it is answered with an error.
    async fn answer(&self, request: TicketRequest) -> Result<(), String> {
        match request {
            TicketRequest::Keep { ticket, holder, reply } if reply.is_awaited() => {
                let kept = self.keep(ticket, &holder).await;
                self.give(reply, kept)
            }
            TicketRequest::Redeem { ticket, reply } if reply.is_awaited() => {
                let holder = self.redeem(ticket).await;
                self.give(reply, holder)
            }
            // Nobody waits for the answer any more.
            _ => Ok(()),
        }
    }

    fn give<T>(&self, reply: TicketReply<T>, result: Result<T, Failed>) -> Result<(), String> {
        match result {
            Ok(it) => {
                reply.send(Ok(it));
                Ok(())
            }
            Err(Failed { error, why }) => {
                add(&self.counts.tickets_failed);
                reply.send(Err(error));
                Err(why)
            }
        }
    }

    async fn keep(&self, ticket: TicketDigest, holder: &str) -> Result<(), Failed> {
        let body = Bytes::copy_from_slice(holder.as_bytes());
        match self.store(ticket, HeaderMap::new(), body).await? {
            Ack::Stored { .. } => {
                add(&self.counts.tickets_kept);
                Ok(())
            }
            other => Err(Failed::by(&other)),
        }
    }

    async fn redeem(&self, ticket: TicketDigest) -> Result<Option<String>, Failed> {
        let Some(bucket) = &self.bucket else { return Err(Failed::without_a_bucket()) };
        let found = self.api.last_message(bucket::STREAM, &subject_of(ticket)).await;
        let found = found.map_err(|error| {
            if error.is_not_found() {
                bucket.suspect();
            }
            Failed { error: TicketError::Unavailable, why: error.to_string() }
        })?;
        // What has replaced a ticket is empty.
        let Some((sequence, holder)) = found.filter(|(_, holder)| !holder.is_empty()) else {
            add(&self.counts.tickets_void);
            return Ok(None);
        };
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST, sequence.to_string());
        headers.insert(OPERATION, DELETED);
        match self.store(ticket, headers, Bytes::new()).await? {
            Ack::Stored { .. } => {
                add(&self.counts.tickets_redeemed);
                Ok(Some(String::from_utf8_lossy(&holder).into_owned()))
            }
            // Somebody else was first, or it has expired meanwhile.
            Ack::Outdated => {
                add(&self.counts.tickets_void);
                Ok(None)
            }
            other => Err(Failed::by(&other)),
        }
    }

    async fn store(
        &self,
        ticket: TicketDigest,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Ack, Failed> {
        let Some(bucket) = &self.bucket else { return Err(Failed::without_a_bucket()) };
        headers.insert(EXPECTED_STREAM, bucket::STREAM);
        let sent = self.requests.send(subject_of(ticket), headers, body, TICKET_TIMEOUT).await;
        let answer = sent.map_err(|unanswered| {
            if unanswered == Unanswered::NoResponders {
                bucket.suspect();
            }
            let error = match unanswered {
                Unanswered::NotSent | Unanswered::NoResponders | Unanswered::TooLarge => {
                    TicketError::Unavailable
                }
                Unanswered::Lost | Unanswered::Timeout => TicketError::Unknown,
            };
            Failed { error, why: ApiError::Unanswered(unanswered).to_string() }
        })?;
        Ok(Ack::read(&answer.payload))
    }
}

impl Failed {
    /// An answer that was not expected.
    fn by(ack: &Ack) -> Self {
        let (error, why) = match ack {
            Ack::NotNow => (TicketError::Unavailable, "the bucket has no leader now"),
            Ack::Refused(why) => (TicketError::Unavailable, why.as_str()),
            _ => (TicketError::Unknown, "the answer cannot be read"),
        };
        Self { error, why: why.to_owned() }
    }

    fn without_a_bucket() -> Self {
        let why = "there is no bucket, because none was asked for at the start".to_owned();
        Self { error: TicketError::Unavailable, why }
    }
}
