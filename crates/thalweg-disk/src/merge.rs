//! Merges runs of a store into one, in slices: other work of the keeper does not wait for a long merge.

use std::{collections::HashMap, io, vec::IntoIter};

use thalweg_core::stream::FeedKind;
use thalweg_wire::Offset;

use crate::{
    disk::Disk,
    keyed_merge::{Forgotten, NewestEvents},
    log::Log,
    record::{Record, RecordKind},
    run::{Entry, Fences, RunReader, RunWriter, each_record},
    state::{Run, StoreState},
    wal::kept_values,
};

/// A merge of consecutive runs into a new one.
#[derive(Debug)]
pub(crate) struct Merge {
    /// The number of the store.
    pub(crate) store: u16,
    pub(crate) inputs: Vec<Run>,
    /// The number of the new run.
    pub(crate) serial: u64,
    kind: FeedKind,
    /// Records of log topics before this offset are deleted.
    deleted: Offset,
    forgotten: Forgotten,
    /// The keyed topics that are being merged.
    keyed: Option<KeyedTopics>,
    entries: Vec<Entries>,
    writer: RunWriter,
    /// The offset after the last end that is forgotten.
    start: Offset,
    /// The offset after the last removal of a key that is left out.
    compacted: Offset,
}

/// The keyed topics with one hash, whose chunks are read twice.
#[derive(Debug)]
struct KeyedTopics {
    /// The chunks and their inputs, the oldest first.
    chunks: Vec<(usize, Entry)>,
    next: usize,
    /// Whether the first pass has ended.
    is_known: bool,
    newest: NewestEvents,
}

/// The result of a merge.
pub(crate) struct Merged {
    /// `None` if no record is left.
    pub(crate) run: Option<Run>,
    /// The store forgets ends of topics before this offset.
    pub(crate) start: Offset,
    /// Removals of keys before this offset are left out.
    pub(crate) compacted: Offset,
}

/// The entries of a run, one block at a time.
#[derive(Debug)]
struct Entries {
    run: Run,
    fences: Fences,
    block: IntoIter<Entry>,
    next_block: usize,
    next: Option<Entry>,
}

impl Entries {
    fn reader<'a, D>(&self, disk: &'a D) -> RunReader<'a, D> {
        RunReader { disk, run: self.run, fences: Fences::clone(&self.fences) }
    }

    fn advance(&mut self, disk: &impl Disk) -> io::Result<Option<Entry>> {
        let next = self.next.take();
        self.next = self.block.next();
        if self.next.is_none() && self.next_block < self.fences.len() {
            self.block = self.reader(disk).block(self.next_block)?.into_iter();
            self.next_block += 1;
            self.next = self.block.next();
        }
        Ok(next)
    }
}

impl Merge {
    /// Begins to write the records of consecutive runs into a new run. Value topics keep their newest records only, and keyed topics the
    /// newest event of each key, but for those that are `forgotten`.
    ///
    /// # Errors
    /// Also if an input is damaged: then the inputs stay as they are.
    pub(crate) fn begin<D: Disk>(
        log: &Log<D>,
        store: &StoreState,
        inputs: &[Run],
        serial: u64,
        forgotten: Forgotten,
    ) -> io::Result<Self> {
        let mut entries = Vec::new();
        for run in inputs {
            let RunReader { fences, .. } = log.reader(run)?;
            let block = Vec::new().into_iter();
            let mut input = Entries { run: *run, fences, block, next_block: 0, next: None };
            input.advance(&log.disk)?;
            entries.push(input);
        }
        let first = inputs.first().map_or(0, |run| run.first);
        let end = inputs.last().map_or(0, |run| run.end);
        Ok(Self {
            store: store.id,
            inputs: inputs.to_vec(),
            serial,
            kind: store.kind,
            deleted: store.start,
            forgotten,
            keyed: None,
            entries,
            writer: RunWriter::create(&log.disk, serial, first, end)?,
            start: 0,
            compacted: 0,
        })
    }

    /// Merges the next records, until it has read more than `bytes`. Returns whether there are more.
    pub(crate) fn advance(&mut self, disk: &impl Disk, bytes: usize) -> io::Result<bool> {
        if self.kind.has_keys() {
            return self.advance_keyed(disk, bytes);
        }
        let mut read = 0;
        loop {
            let next = self.entries.iter().filter_map(|input| input.next);
            let Some(hash) = next.map(|next| next.hash).min() else { return Ok(false) };
            if read > bytes {
                self.writer.sync(disk)?;
                return Ok(true);
            }
            let mut values = Vec::new();
            for input in &mut self.entries {
                while input.next.is_some_and(|next| next.hash == hash) {
                    let Some(entry) = input.advance(disk)? else { break };
                    let chunk = input.reader(disk).chunk(&entry)?;
                    read += chunk.len();
                    if self.kind.is_state() {
                        values.push(chunk);
                        continue;
                    }
                    each_record(&chunk, |record, bytes| match record.first >= self.deleted {
                        true => self.writer.push(disk, &record, bytes),
                        false => Ok(()),
                    })?;
                }
            }
            self.push_values(disk, &values)?;
        }
    }

    /// Completes the new run.
    pub(crate) fn finish(self, disk: &impl Disk) -> io::Result<Merged> {
        let run = self.writer.finish(disk)?;
        disk.sync_directory()?;
        Ok(Merged { run, start: self.start, compacted: self.compacted })
    }

    /// Appends the newest records of value topics with the same hash.
    fn push_values(&mut self, disk: &impl Disk, chunks: &[Vec<u8>]) -> io::Result<()> {
        let mut topics: HashMap<&str, Vec<(Record<'_>, &[u8])>> = HashMap::new();
        for chunk in chunks {
            each_record(chunk, |record, bytes| {
                topics.entry(record.topic).or_default().push((record, bytes));
                Ok::<_, io::Error>(())
            })?;
        }
        let mut kept: Vec<(Record<'_>, &[u8])> = Vec::new();
        for records in topics.values() {
            let newest = kept_values(records, |(record, _)| record.kind);
            match newest.as_slice() {
                [(end, _)]
                    if end.kind == RecordKind::End
                        && self
                            .forgotten
                            .ended_ms
                            .is_some_and(|ended_ms| end.time_ms < ended_ms) =>
                {
                    self.start = self.start.max(end.end());
                }
                _ => kept.extend(newest),
            }
        }
        kept.sort_unstable_by_key(|(record, _)| record.first);
        kept.iter().try_for_each(|(record, bytes)| self.writer.push(disk, record, bytes))
    }

    /// Merges the next chunks of keyed topics, as [`Self::advance`].
    fn advance_keyed(&mut self, disk: &impl Disk, bytes: usize) -> io::Result<bool> {
        let mut read = 0;
        loop {
            let merging = match self.keyed.take() {
                Some(merging) => Some(merging),
                None => self.begin_keyed(disk)?,
            };
            let Some(mut merging) = merging else { return Ok(false) };
            while let Some((input, entry)) = merging.chunks.get(merging.next).copied() {
                if read > bytes {
                    self.keyed = Some(merging);
                    self.writer.sync(disk)?;
                    return Ok(true);
                }
                let chunk = self.entries[input].reader(disk).chunk(&entry)?;
                read += chunk.len();
                let writer = &mut self.writer;
                merging.take(&chunk, |record, bytes| writer.push(disk, record, bytes))?;
            }
            self.compacted = self.compacted.max(merging.newest.compacted());
        }
    }

    /// Begins to merge the keyed topics with the next hash; `None` if there are no more.
    fn begin_keyed(&mut self, disk: &impl Disk) -> io::Result<Option<KeyedTopics>> {
        let next = self.entries.iter().filter_map(|input| input.next);
        let Some(hash) = next.map(|next| next.hash).min() else { return Ok(None) };
        let mut chunks = Vec::new();
        for (number, input) in self.entries.iter_mut().enumerate() {
            while input.next.is_some_and(|next| next.hash == hash) {
                chunks.extend(input.advance(disk)?.map(|entry| (number, entry)));
            }
        }
        let newest = NewestEvents::new(self.forgotten);
        Ok(Some(KeyedTopics { chunks, next: 0, is_known: false, newest }))
    }
}

impl KeyedTopics {
    /// Takes the next chunk, and passes the records that stay to `keep`, with their bytes.
    fn take(
        &mut self,
        chunk: &[u8],
        keep: impl FnMut(&Record<'_>, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.is_known {
            false => self.newest.note(chunk)?,
            true => self.newest.keep(chunk, keep)?,
        }
        self.next += 1;
        if !self.is_known && self.next == self.chunks.len() {
            (self.next, self.is_known) = (0, true);
            self.newest.end_pass();
        }
        Ok(())
    }
}
