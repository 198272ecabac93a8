//! The records of the next group: gives them offsets, and answers those that are not stored. Pure.

use std::collections::{HashMap, VecDeque};

use thalweg_broker::{Append, AppendError, Content, Stored, TicketError};
use thalweg_wire::{Epoch, Offset, Topic};
use tokio::sync::oneshot;

use crate::{
    known_keys::repetition,
    log::Shared,
    record::{RECORD_HEAD, RecordKind, digest_of, extension_of, payload_of},
};

/// The store of tickets, which the settings do not have.
pub(crate) const TICKET_STORE: u16 = u16::MAX;

/// The topic of tickets.
const TICKET_TOPIC: &str = "tickets";

/// A request to the committer.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) job: Job,
    pub(crate) reply: oneshot::Sender<Outcome>,
    /// When it is refused if there is no room until then, in ms since 1970.
    pub(crate) until_ms: u64,
}

#[derive(Debug)]
pub(crate) enum Job {
    /// Append a record, on a condition or without one.
    Append(Append, Option<Condition>),
    /// Keep a ticket for its holder for a time in ms.
    Keep(String, String, u64),
    Redeem(String),
}

/// The newest record of the topic must begin at `newest`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) newest: Offset,
    /// The newest record in runs, and the offset up to which records were in runs when it was looked up.
    pub(crate) in_runs: Offset,
    pub(crate) sealed: Offset,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Append(Result<Stored, AppendError>),
    /// The newest record in runs must be looked up again.
    Stale,
    Ticket(Result<Option<String>, TicketError>),
}

/// A record that gets an offset, and its answer.
pub(crate) struct Staged {
    pub(crate) topic: Topic,
    pub(crate) store: u16,
    pub(crate) kind: RecordKind,
    pub(crate) first: Offset,
    pub(crate) offsets: u32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) extension: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    /// The digest of its event, if it has a key to remember.
    pub(crate) digest: Option<u64>,
}

/// The records of the next group, and the answers that its sync allows.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) records: Vec<Staged>,
    pub(crate) bytes: usize,
    pub(crate) head: Offset,
    pub(crate) needs_sync: bool,
    pub(crate) answers: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    /// The record of each key.
    keys: HashMap<(Topic, Vec<u8>), usize>,
    /// The newest record of each topic.
    newest: HashMap<Topic, Offset>,
    redeemed: Vec<String>,
}

/// Returns the most bytes that a request takes in a group.
pub(crate) fn bytes_of(job: &Job) -> usize {
    match job {
        Job::Append(append, _) => {
            let key = append.key.as_ref().map_or(0, Vec::len);
            let extension = match &append.content {
                Content::Events(payloads) if payloads.has_keys() => {
                    payloads.joined_keys().len() + 8 * payloads.count() + 10
                }
                Content::Events(_) | Content::Paused(_) | Content::End(_) => 0,
            };
            let topic = append.topic.as_str().len();
            RECORD_HEAD + topic + key + extension + append.content.bytes().max(64)
        }
        Job::Keep(ticket, holder, _) => RECORD_HEAD + 64 + ticket.len() + holder.len(),
        Job::Redeem(ticket) => RECORD_HEAD + 64 + ticket.len(),
    }
}

/// Gives offsets to the requests at the front of the queue, as far as there is room for one more record.
pub(crate) fn stage(
    shared: &Shared,
    queue: &mut VecDeque<Request>,
    has_room: impl Fn(usize, usize) -> bool,
) -> Batch {
    let mut batch = Batch::new(shared.head);
    while let Some(request) = queue.front() {
        let bytes = bytes_of(&request.job);
        if !has_room(batch.records.len(), batch.bytes + bytes) {
            break;
        }
        let Some(Request { job, reply, .. }) = queue.pop_front() else { break };
        let (records, outcome) = (batch.records.len(), batch.take(shared, job));
        if batch.records.len() > records {
            batch.bytes += bytes;
        }
        batch.answers.push((reply, outcome));
    }
    batch
}

impl Batch {
    /// Returns a batch without records, whose first offset is `head`.
    pub(crate) fn new(head: Offset) -> Self {
        Self { head, ..Self::default() }
    }

    fn take(&mut self, shared: &Shared, job: Job) -> Outcome {
        match job {
            Job::Append(append, condition) => self.append(shared, append, condition),
            Job::Keep(ticket, holder, life_ms) => {
                // The clock of the log never goes back, so it may be ahead.
                let until_ms = shared.time_ms + life_ms;
                let payload = format!("{until_ms} {holder}").into_bytes();
                self.ticket(ticket, RecordKind::Ticket, payload);
                Outcome::Ticket(Ok(None))
            }
            Job::Redeem(ticket) => {
                let valid = |(_, until_ms): &&(String, u64)| *until_ms > shared.time_ms;
                let known = shared.tickets.get(&ticket).filter(valid);
                let Some((holder, _)) = known.filter(|_| !self.redeemed.contains(&ticket)) else {
                    return Outcome::Ticket(Ok(None));
                };
                self.redeemed.push(ticket.clone());
                self.ticket(ticket, RecordKind::Redeemed, Vec::new());
                Outcome::Ticket(Ok(Some(holder.clone())))
            }
        }
    }

    fn ticket(&mut self, ticket: String, kind: RecordKind, payload: Vec<u8>) {
        let topic = TICKET_TOPIC.parse().expect("a topic");
        self.push(Staged {
            topic,
            store: TICKET_STORE,
            kind,
            first: 0,
            offsets: 1,
            key: Some(ticket.into_bytes()),
            extension: Vec::new(),
            payload,
            digest: None,
        });
        self.needs_sync = true;
    }

    fn append(&mut self, shared: &Shared, append: Append, condition: Option<Condition>) -> Outcome {
        let Some(store) = shared.store_at(append.stream) else {
            return Outcome::Append(Err(AppendError::Unavailable));
        };
        let epoch = store.epoch;
        let digest = append.key.as_ref().map(|_| content_digest(&append.content));
        if let (Some(key), Some(digest)) = (&append.key, digest) {
            let known = shared.keys.find(&append.topic, key, digest, epoch);
            let known = known.or_else(|| self.repeated(&append.topic, key, digest, epoch));
            if let Some(answer) = known {
                return Outcome::Append(answer);
            }
        }
        if let Some(condition) = condition {
            let in_group = self.newest.get(&append.topic).copied();
            let here = in_group.or_else(|| shared.newest_unsealed(store.id, &append.topic));
            if here.is_none() && condition.sealed != shared.state.sealed {
                return Outcome::Stale;
            }
            let newest = here.unwrap_or(condition.in_runs);
            let is_deleted = !store.kind.is_state() && newest < store.start;
            let newest = if is_deleted { 0 } else { newest };
            if newest != condition.newest {
                return Outcome::Append(Err(AppendError::Outdated(Some(newest))));
            }
        }
        self.needs_sync |= !store.is_weak;
        let id = store.id;
        let Append { topic, content, key, .. } = append;
        let (kind, offsets) = (RecordKind::of_content(&content), content.offsets() as u32);
        if let Some(key) = &key {
            self.keys.insert((topic.clone(), key.clone()), self.records.len());
        }
        let (extension, payload) = (extension_of(&content), payload_of(content));
        let store = id;
        let first = self.push(Staged {
            topic,
            store,
            kind,
            first: 0,
            offsets,
            key,
            extension,
            payload,
            digest,
        });
        Outcome::Append(Ok(Stored { epoch, first, is_repetition: false }))
    }

    /// Returns the answer to an append whose key is in this group.
    fn repeated(
        &self,
        topic: &Topic,
        key: &[u8],
        digest: u64,
        epoch: Epoch,
    ) -> Option<Result<Stored, AppendError>> {
        let staged = &self.records[*self.keys.get(&(topic.clone(), key.to_vec()))?];
        Some(repetition(epoch, staged.first, staged.digest == Some(digest)))
    }

    fn push(&mut self, staged: Staged) -> Offset {
        let first = self.head;
        self.head += u64::from(staged.offsets);
        self.newest.insert(staged.topic.clone(), first);
        self.records.push(Staged { first, ..staged });
        first
    }
}

/// Applies a stored record to the tickets, if it is one of a ticket.
pub(crate) fn apply_ticket(
    tickets: &mut HashMap<String, (String, u64)>,
    kind: RecordKind,
    key: &[u8],
    payload: &[u8],
) {
    let [ticket, kept] = [key, payload].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match kind {
        RecordKind::Ticket => {
            let (until_ms, holder) = kept.split_once(' ').unwrap_or_default();
            tickets.insert(ticket, (holder.to_owned(), until_ms.parse().unwrap_or(0)));
        }
        RecordKind::Redeemed => _ = tickets.remove(&ticket),
        RecordKind::Events | RecordKind::Paused | RecordKind::End | RecordKind::Key => {}
    }
}

/// Returns the digest of a content with a key, which has one event.
fn content_digest(content: &Content) -> u64 {
    match content {
        Content::Events(events) => digest_of(events.joined_keys(), events.joined()),
        Content::Paused(_) | Content::End(_) => 0,
    }
}
