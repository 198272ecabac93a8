//! Writes a new directory with given records, at the offsets that they have.

use std::io;

use thalweg_broker::OFFSET_FIRST;
use thalweg_wire::Offset;

use crate::{
    disk::Disk,
    log::write_state,
    record::{Record, topic_hash},
    run::RunWriter,
    state::{Hole, Run, State, StoreState},
};

/// Bytes of the records of a run of a log store.
const RUN_BYTES: usize = if cfg!(test) { 2 << 10 } else { 16 << 20 };

/// The reason why a record is not taken.
#[derive(Debug)]
pub(crate) enum NewLogError {
    /// The record does not follow the one before.
    Order,
    /// The line has no store before it.
    NoStore,
    Disk(io::Error),
}

impl From<io::Error> for NewLogError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// A log that is written. It has no state, and is not a log, before it is finished.
pub(crate) struct NewLog<'a, D> {
    disk: &'a D,
    state: State,
    /// Records of a log store that are in no run yet: hash, first offset and bytes.
    waiting: Vec<(u64, Offset, Vec<u8>)>,
    waiting_bytes: usize,
    /// The run of a store of values.
    values: Option<RunWriter>,
    /// Hash and offset of the newest record of values.
    newest_value: (u64, Offset),
    /// The end of the newest record of the store, and of all.
    end: Offset,
    head: Offset,
}

impl<'a, D: Disk> NewLog<'a, D> {
    /// Creates a log whose next offset is `head` or later.
    pub(crate) fn new(disk: &'a D, head: Offset) -> Self {
        let head = head.max(OFFSET_FIRST);
        let (waiting, waiting_bytes) = (Vec::new(), 0);
        let (values, newest_value, end) = (None, (0, 0), OFFSET_FIRST);
        let state = State::default();
        Self { disk, state, waiting, waiting_bytes, values, newest_value, end, head }
    }

    /// Adds the store of the next records.
    pub(crate) fn add_store(&mut self, store: StoreState) -> Result<(), NewLogError> {
        self.end_store()?;
        (self.newest_value, self.end) = ((0, 0), OFFSET_FIRST);
        let id = self.state.stores.len() as u16;
        self.state.stores.push(StoreState { id, ..store });
        Ok(())
    }

    /// Returns the number of stores.
    pub(crate) fn stores(&self) -> usize {
        self.state.stores.len()
    }

    pub(crate) fn add_hole(&mut self, hole: Hole) -> Result<(), NewLogError> {
        self.state.stores.last_mut().ok_or(NewLogError::NoStore)?.add_hole(hole);
        Ok(())
    }

    /// Adds a record of the last store: for logs in the order of offsets, for values and keys in the order of hashes.
    pub(crate) fn add_record(&mut self, record: &Record<'_>) -> Result<(), NewLogError> {
        let store = self.state.stores.last().ok_or(NewLogError::NoStore)?;
        let (hash, mut bytes) = (topic_hash(record.topic), Vec::new());
        let record = Record { store: store.id, ..*record };
        record.write(&mut bytes);
        self.head = self.head.max(record.end());
        if !store.kind.is_state() {
            if record.first < self.end {
                return Err(NewLogError::Order);
            }
            self.end = record.end();
            self.waiting_bytes += bytes.len();
            self.waiting.push((hash, record.first, bytes));
            return if self.waiting_bytes >= RUN_BYTES { self.write_run() } else { Ok(()) };
        }
        if (hash, record.first) < self.newest_value || record.first < OFFSET_FIRST {
            return Err(NewLogError::Order);
        }
        self.newest_value = (hash, record.end());
        if self.values.is_none() {
            self.state.serial += 1;
            let serial = self.state.serial;
            self.values = Some(RunWriter::create(self.disk, serial, OFFSET_FIRST, self.head)?);
        }
        if let Some(values) = &mut self.values {
            values.push(self.disk, &record, &bytes)?;
        }
        Ok(())
    }

    /// Writes a run of the records that wait.
    fn write_run(&mut self) -> Result<(), NewLogError> {
        self.waiting.sort_unstable_by_key(|(hash, first, _)| (*hash, *first));
        let store = self.state.stores.last_mut().ok_or(NewLogError::NoStore)?;
        let first = store.runs.last().map_or(OFFSET_FIRST, |run| run.end);
        self.state.serial += 1;
        let mut writer = RunWriter::create(self.disk, self.state.serial, first, self.end)?;
        for (_, _, bytes) in self.waiting.drain(..) {
            if let Some((record, _)) = Record::parse(&bytes) {
                writer.push(self.disk, &record, &bytes)?;
            }
        }
        self.waiting_bytes = 0;
        store.runs.extend(writer.finish(self.disk)?);
        Ok(())
    }

    fn end_store(&mut self) -> Result<(), NewLogError> {
        if !self.waiting.is_empty() {
            self.write_run()?;
        }
        if let Some(values) = self.values.take() {
            let store = self.state.stores.last_mut().ok_or(NewLogError::NoStore)?;
            store.runs.extend(values.finish(self.disk)?);
        }
        Ok(())
    }

    /// Makes the log durable.
    pub(crate) fn finish(mut self) -> Result<(), NewLogError> {
        self.end_store()?;
        let Self { mut state, head, .. } = self;
        for store in &mut state.stores {
            // All its records are in one run, and the next one begins there.
            if let (true, [Run { end, .. }]) = (store.kind.is_state(), store.runs.as_mut_slice()) {
                *end = head;
            }
        }
        (state.sealed, state.durable, state.head, state.is_clean) = (head, head, head, true);
        self.disk.sync_directory()?;
        Ok(write_state(self.disk, &state)?)
    }
}
