//! The committer: gives offsets to appends, and writes them in groups.
//!
//! An append is answered and delivered after its group is written and synced. A group whose write or sync has failed is
//! never tried again: its appends are answered "unknown", the file is given up, and the next group, in another file,
//! declares the offsets void.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
    time::Instant,
};

use thalweg_broker::{Append, AppendError, Content, Stored, TicketError};
use thalweg_wire::{Epoch, Offset, Topic};
use tokio::sync::oneshot;

use crate::{
    counts::Counts,
    disk::Disk,
    group::{GROUP_HEAD, GroupHead, group_bytes},
    known_keys::event_digest,
    log::{Bounds, Log, Shared, note_durable},
    record::{RECORD_HEAD, Record, RecordKind, payload_of},
    wal::{WalFile, place_of},
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

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// There was nothing to do.
    Idle,
    /// Requests were taken from the queue and answered.
    Some,
    /// Requests wait for the keeper, who makes room.
    NoRoom,
}

/// Writes groups. There is one per log.
#[derive(Debug)]
pub(crate) struct Committer<D> {
    log: Arc<Log<D>>,
    file: Option<OpenFile>,
    /// The end of the newest group that was written.
    previous: Offset,
    /// The end of the newest group that was synced.
    durable: Offset,
    /// When the oldest group without a sync was written. The clock of the records may be wrong.
    unsynced: Option<Instant>,
}

#[derive(Debug)]
struct OpenFile {
    generation: u64,
    position: usize,
}

/// A record that gets an offset, and its answer.
struct Staged {
    topic: Topic,
    store: u16,
    kind: RecordKind,
    first: Offset,
    offsets: u32,
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
    /// The digest of its event, if it has a key to remember.
    digest: Option<u64>,
}

/// The records of the next group, and the answers that its sync allows.
#[derive(Default)]
struct Batch {
    records: Vec<Staged>,
    bytes: usize,
    head: Offset,
    needs_sync: bool,
    answers: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    /// The record of each key.
    keys: HashMap<(Topic, Vec<u8>), usize>,
    /// The newest record of each topic.
    newest: HashMap<Topic, Offset>,
    redeemed: Vec<String>,
}

impl<D: Disk> Committer<D> {
    /// Creates the committer of a log whose groups end at `previous`, all durable.
    pub(crate) fn new(log: Arc<Log<D>>, previous: Offset) -> Self {
        Self { log, file: None, previous, durable: previous, unsynced: None }
    }

    /// Commits one group of the oldest requests. `now_ms` is the time in ms since 1970.
    pub(crate) fn commit(&mut self, queue: &mut VecDeque<Request>, now_ms: u64) -> Committed {
        if queue.is_empty() {
            return Committed::Idle;
        }
        if self.log.with(|shared| shared.failed.is_some()) {
            return Committed::NoRoom;
        }
        let needed = queue.front().map_or(0, |request| group_bytes(bytes_of(&request.job)));
        if !self.open_file(needed) {
            return Committed::NoRoom;
        }
        let Some(OpenFile { generation, position }) = self.file else { return Committed::NoRoom };
        let Bounds { wal_bytes, group_bytes: bytes_max, .. } = self.log.bounds;
        let has_room = |records: usize, bytes: usize| {
            position + group_bytes(bytes) <= wal_bytes && (records == 0 || bytes <= bytes_max)
        };
        let (batch, time_ms) = self.log.with(|shared| {
            shared.set_time(now_ms);
            (stage(shared, queue, has_room), shared.time_ms)
        });
        if batch.records.is_empty() {
            answer(batch.answers);
            return Committed::Some;
        }
        self.write(batch, generation, position, time_ms);
        Committed::Some
    }

    /// Opens a file with room for a group. Returns `false` if there is none.
    fn open_file(&mut self, needed: usize) -> bool {
        let has_room = |file: &OpenFile| file.position + needed <= self.log.bounds.wal_bytes;
        if self.file.as_ref().is_some_and(has_room) {
            return true;
        }
        if self.log.with(|shared| shared.ready.is_empty()) {
            return false;
        }
        // Groups of the next file say that those of this one are durable.
        self.sync_all();
        if self.log.with(|shared| shared.failed.is_some()) {
            return false;
        }
        self.close_file(false);
        let opened = self.log.with(|shared| {
            let generation = shared.ready.pop_front()?;
            shared.wal.push_back(WalFile::new(generation));
            Some(generation)
        });
        // The first group, which is empty, says that the file is in use.
        let position = group_bytes(0);
        self.file = opened.map(|generation| OpenFile { generation, position });
        self.file.is_some()
    }

    fn close_file(&mut self, is_broken: bool) {
        let Some(file) = self.file.take() else { return };
        self.log.with(|shared| {
            let last = shared.wal.back_mut().filter(|last| last.generation == file.generation);
            if let Some(last) = last {
                last.is_open = false;
                last.is_broken = is_broken;
            }
        });
    }

    fn write(&mut self, batch: Batch, generation: u64, position: usize, time_ms: u64) {
        let mut bytes = Vec::with_capacity(group_bytes(batch.bytes));
        bytes.resize(GROUP_HEAD, 0);
        let mut places = Vec::with_capacity(batch.records.len());
        for staged in &batch.records {
            let at = bytes.len();
            let record = Record {
                first: staged.first,
                time_ms,
                offsets: staged.offsets,
                store: staged.store,
                kind: staged.kind,
                topic: staged.topic.as_str(),
                key: staged.key.as_deref(),
                payload: &staged.payload,
            };
            record.write(&mut bytes);
            places.push(place_of(&record, position + at, bytes.len() - at));
        }
        let first = batch.records.first().map_or(batch.head, |record| record.first);
        let head = GroupHead {
            length: bytes.len() - GROUP_HEAD,
            count: places.len() as u32,
            generation,
            first,
            end: batch.head,
            previous: self.previous,
            durable: self.durable,
            time_ms,
        };
        head.finish(&mut bytes);
        let name = WalFile::name_of(generation);
        let mut written = self.log.disk.write_at(&name, position as u64, &bytes);
        if written.is_ok() && batch.needs_sync {
            written = self.sync(&name);
        }
        if let Err(error) = written {
            return self.failed(batch, &error);
        }
        if batch.needs_sync {
            (self.durable, self.unsynced) = (head.end, None);
            note_durable(&self.log.disk, self.durable);
        } else {
            self.unsynced.get_or_insert_with(Instant::now);
        }
        self.previous = head.end;
        self.file = Some(OpenFile { generation, position: position + bytes.len() });
        Counts::add(&self.log.counts.commits, 1);
        Counts::add(&self.log.counts.written, bytes.len() as u64);
        let Batch { records, answers, .. } = batch;
        self.log.with(|shared| {
            (shared.head, shared.durable) = (head.end, self.durable);
            for (staged, place) in records.into_iter().zip(&places) {
                let has_key = staged.key.is_some();
                if let Some(key) = staged.key {
                    apply_ticket(&mut shared.tickets, staged.kind, &key, &staged.payload);
                    if let Some(digest) = staged.digest {
                        let topic = staged.topic.clone();
                        shared.keys.insert(topic, key, digest, staged.first, time_ms);
                    }
                }
                if let Some(file) = shared.wal.back_mut() {
                    file.push_record(staged.topic, staged.store, *place, has_key);
                }
            }
            if let Some(file) = shared.wal.back_mut() {
                file.push_group(position, &head);
            }
            let time_ms = shared.time_ms;
            shared.tickets.retain(|_, (_, until_ms)| *until_ms > time_ms);
        });
        self.log.changes.send_replace(());
        answer(answers);
    }

    /// Gives up a group and its file. Its offsets are void.
    fn failed(&mut self, batch: Batch, error: &io::Error) {
        self.log
            .warn("a write has failed, and the outcome of some publishes is unknown", Some(error));
        Counts::add(&self.log.counts.failures, 1);
        self.close_file(true);
        self.log.with(|shared| shared.head = batch.head);
        if self.unsynced.take().is_some() {
            // Records that were answered and delivered may be lost: the next start begins new epochs.
            self.log.fail(
                "the disk may have lost events that were answered before they were durable: start again, \
                 and set sync=\"always\" to rule this out",
            );
        }
        for (reply, outcome) in batch.answers {
            // The caller may be gone.
            let _ = reply.send(match outcome {
                Outcome::Append(_) | Outcome::Stale => Outcome::Append(Err(AppendError::Unknown)),
                Outcome::Ticket(_) => Outcome::Ticket(Err(TicketError::Unknown)),
            });
        }
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let start = Instant::now();
        self.log.disk.sync(name)?;
        self.log.counts.synced(start.elapsed().as_micros() as u64);
        Ok(())
    }

    /// Returns when the oldest group that is not durable was written.
    pub(crate) fn unsynced(&self) -> Option<Instant> {
        self.unsynced
    }

    /// Makes all groups durable.
    pub(crate) fn sync_all(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| self.unsynced.is_some()) else { return };
        match self.sync(&WalFile::name_of(file.generation)) {
            Ok(()) => {
                (self.durable, self.unsynced) = (self.previous, None);
                self.log.with(|shared| shared.durable = self.durable);
                note_durable(&self.log.disk, self.durable);
            }
            Err(error) => self.failed(Batch { head: self.previous, ..Batch::default() }, &error),
        }
    }

    /// Refuses the requests that have waited for room too long, or all if the disk is full.
    pub(crate) fn refuse(&self, queue: &mut VecDeque<Request>, now_ms: u64) {
        let (is_full, has_failed) =
            self.log.with(|shared| (shared.is_full, shared.failed.is_some()));
        queue.retain_mut(|request| {
            let is_late = request.until_ms <= now_ms;
            if !is_full && !is_late && !has_failed {
                return true;
            }
            Counts::add(&self.log.counts.refused, 1);
            let error = if is_full { AppendError::Full } else { AppendError::Unavailable };
            let outcome = match request.job {
                Job::Append(..) => Outcome::Append(Err(error)),
                Job::Keep(..) | Job::Redeem(_) => Outcome::Ticket(Err(TicketError::Unavailable)),
            };
            let (unused, _) = oneshot::channel();
            // The caller may be gone.
            let _ = std::mem::replace(&mut request.reply, unused).send(outcome);
            false
        });
    }
}

/// Returns the most bytes that a request takes in a group.
fn bytes_of(job: &Job) -> usize {
    match job {
        Job::Append(append, _) => {
            let key = append.key.as_ref().map_or(0, Vec::len);
            RECORD_HEAD + append.topic.as_str().len() + key + append.content.bytes().max(64)
        }
        Job::Keep(ticket, holder, _) => RECORD_HEAD + 64 + ticket.len() + holder.len(),
        Job::Redeem(ticket) => RECORD_HEAD + 64 + ticket.len(),
    }
}

/// Gives offsets to the requests at the front of the queue, as far as there is room for one more record.
fn stage(
    shared: &Shared,
    queue: &mut VecDeque<Request>,
    has_room: impl Fn(usize, usize) -> bool,
) -> Batch {
    let mut batch = Batch { head: shared.head, ..Batch::default() };
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
        let digest = append.key.as_ref().map(|_| digest_of(&append.content));
        if let (Some(key), Some(digest)) = (&append.key, digest) {
            let known = shared.keys.find(&append.topic, key, digest, epoch);
            let known = known.or_else(|| self.repetition(&append.topic, key, digest, epoch));
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
            let is_deleted = !store.has_values && newest < store.start;
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
        let payload = payload_of(content);
        let first =
            self.push(Staged { topic, store: id, kind, first: 0, offsets, key, payload, digest });
        Outcome::Append(Ok(Stored { epoch, first, is_repetition: false }))
    }

    /// Returns the answer to an append whose key is in this group.
    fn repetition(
        &self,
        topic: &Topic,
        key: &[u8],
        digest: u64,
        epoch: Epoch,
    ) -> Option<Result<Stored, AppendError>> {
        let staged = &self.records[*self.keys.get(&(topic.clone(), key.to_vec()))?];
        let stored = Stored { epoch, first: staged.first, is_repetition: true };
        let is_same = staged.digest == Some(digest);
        Some(if is_same { Ok(stored) } else { Err(AppendError::KeyReused) })
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
fn digest_of(content: &Content) -> u64 {
    match content {
        Content::Events(events) => event_digest(events.joined()),
        Content::Paused(_) | Content::End(_) => 0,
    }
}

fn answer(answers: Vec<(oneshot::Sender<Outcome>, Outcome)>) {
    for (reply, outcome) in answers {
        // The caller may be gone.
        let _ = reply.send(outcome);
    }
}
