//! Runs: immutable files of one store's records, sorted by topic and offset, with an index on disk.
//!
//! ```text
//! records    in the order of their topics' hashes and their offsets
//! index      entries, each of a chunk of one topic's records; blocks of 64, each with a checksum
//! fences     hash and offset of the first entry of each block, and a checksum
//! ```
//!
//! A lookup reads the fences once, and then one block. Memory holds sixteen bytes for 64 entries.

use std::{io, sync::Arc};

use thalweg_wire::Offset;

use crate::{
    disk::{Disk, damaged},
    record::{Record, RecordKind, topic_hash, u32_at, u64_at},
    state::Run,
};

const ENTRY_BYTES: usize = 28;

const BLOCK_ENTRIES: usize = 64;

/// Maximum bytes of a chunk that has more than one record: those that a reader of one record reads.
const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of one write.
const WRITE_BYTES: usize = 1 << 20;

/// Set in the length of a chunk that has an end.
const HAS_END: u32 = 1 << 31;

/// The order of entries: the hash of a topic, and the first offset of a chunk.
pub(crate) type Place = (u64, Offset);

/// The places of the first entries of a run's blocks.
pub(crate) type Fences = Arc<[Place]>;

/// A chunk of one topic's records. Topics with the same hash share chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    pub(crate) first: Offset,
    position: u64,
    length: u32,
    pub(crate) has_end: bool,
}

impl Entry {
    pub(crate) fn place(&self) -> Place {
        (self.hash, self.first)
    }

    /// Returns where the chunk begins in the file.
    pub(crate) fn begin(&self) -> u64 {
        self.position
    }

    /// Returns where the chunk ends in the file.
    pub(crate) fn end(&self) -> u64 {
        self.position + u64::from(self.length)
    }

    fn write(&self, out: &mut Vec<u8>) {
        for number in [self.hash, self.first, self.position] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let length = self.length | if self.has_end { HAS_END } else { 0 };
        out.extend_from_slice(&length.to_le_bytes());
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let length = u32_at(bytes, 24)?;
        Some(Self {
            hash: u64_at(bytes, 0)?,
            first: u64_at(bytes, 8)?,
            position: u64_at(bytes, 16)?,
            length: length & !HAS_END,
            has_end: length & HAS_END != 0,
        })
    }
}

impl Run {
    pub(crate) fn name(serial: u64) -> String {
        format!("run-{serial}")
    }

    /// Returns the length of its file.
    pub(crate) fn bytes(&self) -> u64 {
        self.fences_at() + 16 * self.blocks() + 4
    }

    fn blocks(&self) -> u64 {
        self.entries.div_ceil(BLOCK_ENTRIES as u64)
    }

    fn fences_at(&self) -> u64 {
        self.data + ENTRY_BYTES as u64 * self.entries + 4 * self.blocks()
    }
}

/// Returns `bytes` without the checksum at their end, which must be that of the rest.
fn checked(bytes: &[u8]) -> io::Result<&[u8]> {
    let (body, checksum) =
        bytes.split_at_checked(bytes.len().wrapping_sub(4)).ok_or_else(damaged)?;
    if u32_at(checksum, 0) == Some(crc32fast::hash(body)) { Ok(body) } else { Err(damaged()) }
}

fn append_checksum(bytes: &mut Vec<u8>, from: usize) {
    let checksum = crc32fast::hash(&bytes[from..]);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// Writes a run. Records come in the order of their [`Place`]s.
#[derive(Debug)]
pub(crate) struct RunWriter {
    name: String,
    run: Run,
    buffer: Vec<u8>,
    entries: Vec<Entry>,
    chunk_bytes: usize,
}

impl RunWriter {
    /// Creates the file of a run with records from `first` on and before `end`.
    pub(crate) fn create(
        disk: &impl Disk,
        serial: u64,
        first: Offset,
        end: Offset,
    ) -> io::Result<Self> {
        let name = Run::name(serial);
        disk.create(&name)?;
        let run = Run { serial, first, end, newest_ms: 0, data: 0, entries: 0, has_ends: false };
        let (buffer, entries) = (Vec::new(), Vec::new());
        let chunk_bytes = if cfg!(test) { 512 } else { CHUNK_BYTES };
        Ok(Self { name, run, buffer, entries, chunk_bytes })
    }

    /// Appends a record and its bytes.
    pub(crate) fn push(
        &mut self,
        disk: &impl Disk,
        record: &Record<'_>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let hash = topic_hash(record.topic);
        let has_end = record.kind == RecordKind::End;
        let position = self.run.data;
        match self.entries.last_mut() {
            Some(entry)
                if entry.hash == hash
                    && entry.length as usize + bytes.len() <= self.chunk_bytes =>
            {
                entry.length += bytes.len() as u32;
                entry.has_end |= has_end;
            }
            _ => {
                let length = bytes.len() as u32;
                self.entries.push(Entry { hash, first: record.first, position, length, has_end });
            }
        }
        self.run.data += bytes.len() as u64;
        self.run.has_ends |= has_end;
        self.run.newest_ms = self.run.newest_ms.max(record.time_ms);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.flush(disk) } else { Ok(()) }
    }

    fn flush(&mut self, disk: &impl Disk) -> io::Result<()> {
        let at = self.run.data - self.buffer.len() as u64;
        disk.write_at(&self.name, at, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the records durable, so that the last sync of a long run is short.
    pub(crate) fn sync(&mut self, disk: &impl Disk) -> io::Result<()> {
        self.flush(disk)?;
        disk.sync(&self.name)
    }

    /// Writes the index and syncs the file. Returns `None`, and removes the file, if the run has no records.
    pub(crate) fn finish(mut self, disk: &impl Disk) -> io::Result<Option<Run>> {
        if self.entries.is_empty() {
            disk.remove(&self.name)?;
            return Ok(None);
        }
        self.flush(disk)?;
        self.run.entries = self.entries.len() as u64;
        let mut index = Vec::with_capacity((self.run.bytes() - self.run.data) as usize);
        for block in self.entries.chunks(BLOCK_ENTRIES) {
            let from = index.len();
            block.iter().for_each(|entry| entry.write(&mut index));
            append_checksum(&mut index, from);
        }
        let from = index.len();
        for entry in self.entries.iter().step_by(BLOCK_ENTRIES) {
            index.extend_from_slice(&entry.hash.to_le_bytes());
            index.extend_from_slice(&entry.first.to_le_bytes());
        }
        append_checksum(&mut index, from);
        disk.write_at(&self.name, self.run.data, &index)?;
        disk.sync(&self.name)?;
        Ok(Some(self.run))
    }
}

/// Reads the fences of a run.
pub(crate) fn read_fences(disk: &impl Disk, run: &Run) -> io::Result<Fences> {
    let length = 16 * run.blocks() as usize + 4;
    let bytes = disk.read_at(&Run::name(run.serial), run.fences_at(), length)?;
    let fence = |bytes: &[u8]| Some((u64_at(bytes, 0)?, u64_at(bytes, 8)?));
    checked(&bytes)?.chunks(16).map(fence).collect::<Option<_>>().ok_or_else(damaged)
}

/// A run with its fences.
pub(crate) struct RunReader<'a, D> {
    pub(crate) disk: &'a D,
    pub(crate) run: Run,
    pub(crate) fences: Fences,
}

impl<D: Disk> RunReader<'_, D> {
    /// Returns the entries of a block.
    pub(crate) fn block(&self, number: usize) -> io::Result<Vec<Entry>> {
        let before = number * BLOCK_ENTRIES;
        let count = (self.run.entries as usize - before).min(BLOCK_ENTRIES);
        let at = self.run.data + (before * ENTRY_BYTES + number * 4) as u64;
        let bytes = self.disk.read_at(&Run::name(self.run.serial), at, count * ENTRY_BYTES + 4)?;
        let entries = checked(&bytes)?.chunks(ENTRY_BYTES).map(Entry::parse);
        entries.collect::<Option<_>>().ok_or_else(damaged)
    }

    /// Returns the number of the last block that may have entries of a topic.
    pub(crate) fn last_block(&self, hash: u64) -> Option<usize> {
        self.fences.partition_point(|fence| *fence <= (hash, Offset::MAX)).checked_sub(1)
    }

    /// Returns the last entry of a topic that begins at or before `from`.
    pub(crate) fn entry_at(&self, hash: u64, from: Offset) -> io::Result<Option<Entry>> {
        let Some(number) =
            self.fences.partition_point(|fence| *fence <= (hash, from)).checked_sub(1)
        else {
            return Ok(None);
        };
        let block = self.block(number)?;
        let last = block.partition_point(|entry| entry.place() <= (hash, from)).checked_sub(1);
        Ok(last.map(|last| block[last]).filter(|entry| entry.hash == hash))
    }

    /// Returns the entries of a topic that begin after `after`, and those of one or two blocks at most. There are more
    /// until there are none.
    pub(crate) fn entries_after(&self, hash: u64, after: Offset) -> io::Result<Vec<Entry>> {
        let number = self.fences.partition_point(|fence| *fence <= (hash, after)).saturating_sub(1);
        let mut found = Vec::new();
        for number in number..(number + 2).min(self.fences.len()) {
            if !found.is_empty() || self.fences[number].0 > hash {
                break;
            }
            let block = self.block(number)?.into_iter();
            found.extend(block.filter(|entry| entry.hash == hash && entry.first > after));
        }
        Ok(found)
    }

    /// Returns the bytes of a chunk's records.
    pub(crate) fn chunk(&self, entry: &Entry) -> io::Result<Vec<u8>> {
        self.disk.read_at(&Run::name(self.run.serial), entry.position, entry.length as usize)
    }

    /// Returns the offset before which the records of a chunk end.
    pub(crate) fn end_of(&self, entry: &Entry) -> Offset {
        let after = self.entries_after(entry.hash, entry.first);
        let next = after.ok().and_then(|entries| entries.first().map(|next| next.first));
        next.unwrap_or(self.run.end)
    }
}

/// Calls `each` with the records in a buffer and their bytes.
///
/// # Errors
/// Those of `each`, and damage. Records before the damage were passed.
pub(crate) fn each_record<'a, E: From<io::Error>>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(Record<'a>, &'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    while !bytes.is_empty() {
        let (record, length) = Record::parse(bytes).ok_or_else(damaged)?;
        let (whole, rest) = bytes.split_at(length);
        each(record, whole)?;
        bytes = rest;
    }
    Ok(())
}
