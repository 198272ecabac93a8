//! The committer: gives offsets to appends, and writes them in groups.
//!
//! An append is answered and delivered after its group is written and synced. A group whose write or sync has failed is
//! never tried again: its appends are answered "unknown", the file is given up, and the next group, in another file,
//! declares the offsets void.

use std::{collections::VecDeque, io, sync::Arc, time::Instant};

use thalweg_broker::{AppendError, TicketError};
use thalweg_wire::Offset;
use tokio::sync::oneshot;

use crate::{
    batch::{Batch, Job, Outcome, Request, apply_ticket, bytes_of, stage},
    counts::Counts,
    disk::Disk,
    group::{GROUP_HEAD, GroupHead, group_bytes},
    log::{Bounds, Log, note_durable},
    record::Record,
    wal::{WalFile, place_of},
};

/// Time between two removals of expired tickets, in ms.
const TICKETS_SWEEP_MS: u64 = 1000;

/// The result of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    /// There was nothing to do.
    Idle,
    /// Requests were taken from the queue and answered.
    Some,
    /// Requests wait for the keeper, which makes room.
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
    /// When expired tickets were last removed, in ms since 1970.
    swept_ms: u64,
}

#[derive(Debug)]
struct OpenFile {
    generation: u64,
    position: usize,
}

impl<D: Disk> Committer<D> {
    /// Creates the committer of a log whose groups end at `previous`, all durable.
    pub(crate) fn new(log: Arc<Log<D>>, previous: Offset) -> Self {
        Self { log, file: None, previous, durable: previous, unsynced: None, swept_ms: 0 }
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
                extension: &staged.extension,
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
        // Not at each commit: publishers would wait while a hundred thousand tickets are compared. An expired ticket is void
        // before it is removed.
        let sweeps = time_ms.abs_diff(self.swept_ms) >= TICKETS_SWEEP_MS;
        if sweeps {
            self.swept_ms = time_ms;
        }
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
            if sweeps {
                shared.tickets.retain(|_, (_, until_ms)| *until_ms > time_ms);
            }
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
                "the disk may have lost events that were confirmed before they were durable: restart the server, \
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
            Err(error) => self.failed(Batch::new(self.previous), &error),
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

fn answer(answers: Vec<(oneshot::Sender<Outcome>, Outcome)>) {
    for (reply, outcome) in answers {
        // The caller may be gone.
        let _ = reply.send(outcome);
    }
}
