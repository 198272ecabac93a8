//! Tickets in a bucket. Only one caller on all servers can redeem a ticket: it writes an empty message to the
//! subject of the ticket, on condition that the ticket's message is still the last one there. The stream's
//! leader checks the condition. Before that, the caller reads the ticket from the leader, because a replica
//! may lack a ticket that was issued just now.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::{HeaderMap, HeaderName};
use bytes::Bytes;
use thalweg_broker::{BoxFuture, LogThrottle, TicketDigest, TicketError, Tickets};

use crate::{
    ack::Ack,
    api::{Api, ApiError},
    bucket::{self, Bucket, subject_of},
    counts::{Counts, add},
    now_us,
    requests::{Requests, Unanswered},
    store::{EXPECTED_LAST, EXPECTED_STREAM},
};

/// The timeout of storing or redeeming a ticket. It is short, because a client waits, and can retry.
const TICKET_TIMEOUT: Duration = Duration::from_secs(2);

/// Tells clients of the bucket that a key was deleted.
const OPERATION: HeaderName = HeaderName::from_static("KV-Operation");
const DELETED: &str = "DEL";

#[derive(Debug)]
pub(crate) struct TicketStore {
    pub(crate) requests: Requests,
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
    pub(crate) bucket: Bucket,
    pub(crate) failures: Mutex<LogThrottle>,
}

struct TicketFailure {
    error: TicketError,
    why: String,
}

impl Tickets for TicketStore {
    fn keep(&self, ticket: TicketDigest, holder: String) -> BoxFuture<'_, Result<(), TicketError>> {
        Box::pin(async move { self.answer(self.try_keep(ticket, &holder).await) })
    }

    fn redeem(&self, ticket: TicketDigest) -> BoxFuture<'_, Result<Option<String>, TicketError>> {
        Box::pin(async move { self.answer(self.try_redeem(ticket).await) })
    }
}

impl TicketStore {
    fn answer<T>(&self, result: Result<T, TicketFailure>) -> Result<T, TicketError> {
        result.map_err(|TicketFailure { error, why }| {
            add(&self.counts.tickets_failed);
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(times) = failures.take(1, now_us()) {
                tracing::warn!(times, "cannot keep or redeem a ticket: {why}");
            }
            error
        })
    }

    async fn try_keep(&self, ticket: TicketDigest, holder: &str) -> Result<(), TicketFailure> {
        let body = Bytes::copy_from_slice(holder.as_bytes());
        match self.store(ticket, HeaderMap::new(), body).await? {
            Ack::Stored { .. } => {
                add(&self.counts.tickets_kept);
                Ok(())
            }
            other => Err(TicketFailure::from_ack(&other)),
        }
    }

    async fn try_redeem(&self, ticket: TicketDigest) -> Result<Option<String>, TicketFailure> {
        let found = self.api.last_message(bucket::STREAM, &subject_of(ticket)).await;
        let found = found.map_err(|error| {
            if error.is_not_found() {
                self.bucket.suspect();
            }
            TicketFailure { error: TicketError::Unavailable, why: error.to_string() }
        })?;
        // The message that replaces a ticket is empty.
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
            // Another caller was first, or the ticket has expired meanwhile.
            Ack::Outdated => {
                add(&self.counts.tickets_void);
                Ok(None)
            }
            other => Err(TicketFailure::from_ack(&other)),
        }
    }

    async fn store(
        &self,
        ticket: TicketDigest,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Ack, TicketFailure> {
        headers.insert(EXPECTED_STREAM, bucket::STREAM);
        let sent = self.requests.send(subject_of(ticket), headers, body, TICKET_TIMEOUT).await;
        let answer = sent.map_err(|unanswered| {
            if unanswered == Unanswered::NoResponders {
                self.bucket.suspect();
            }
            let error = match unanswered {
                Unanswered::NotSent | Unanswered::NoResponders | Unanswered::TooLarge => {
                    TicketError::Unavailable
                }
                Unanswered::Lost | Unanswered::Timeout => TicketError::Unknown,
            };
            TicketFailure { error, why: ApiError::Unanswered(unanswered).to_string() }
        })?;
        Ok(Ack::read(&answer.payload))
    }
}

impl TicketFailure {
    fn from_ack(ack: &Ack) -> Self {
        let (error, why) = match ack {
            Ack::NotNow => (TicketError::Unavailable, "the bucket has no leader now"),
            Ack::Refused(why) => (TicketError::Unavailable, why.as_str()),
            _ => (TicketError::Unknown, "the answer is not valid"),
        };
        Self { error, why: why.to_owned() }
    }
}
