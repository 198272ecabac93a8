//! Reads all records of a directory that no process uses, and finds what is damaged.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, ErrorKind},
};

use thalweg_wire::Offset;

use crate::{
    disk::{self, Disk, damaged},
    record::{RECORD_HEAD, Record, RecordKind, topic_hash, u16_at, u32_at},
    recovery::Found,
    run::{Entry, RunReader, each_record, read_fences},
    state::{Hole, Run, StoreState},
    wal::{RecordPlace, WalFile},
};

/// The most topics of one damaged part that are named.
const NAMES_MAX: usize = 20;

/// A part of a run.
pub(crate) enum RunPart {
    /// A chunk whose records are whole.
    Chunk(Entry, Vec<u8>),
    /// Records that are lost.
    Lost(LostPart),
}

/// Lost records of a run, and the bytes that they are in.
pub(crate) struct LostPart {
    pub(crate) hole: Hole,
    from: u64,
    until: u64,
}

/// Reads a run from its beginning to its end.
pub(crate) struct RunScan<'a, D> {
    reader: RunReader<'a, D>,
    store: u16,
    has_index: bool,
    block: std::vec::IntoIter<Entry>,
    next_block: usize,
    /// The end of the newest chunk in the file.
    position: u64,
}

impl<'a, D: Disk> RunScan<'a, D> {
    pub(crate) fn open(disk: &'a D, run: Run, store: u16) -> io::Result<Self> {
        let fences = soft(read_fences(disk, &run))?;
        let has_index = fences.is_some();
        let reader = RunReader { disk, run, fences: fences.unwrap_or_default() };
        let block = Vec::new().into_iter();
        Ok(Self { reader, store, has_index, block, next_block: 0, position: 0 })
    }

    /// Returns the next part; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<RunPart>> {
        let run = self.reader.run;
        if !self.has_index {
            let is_first = std::mem::replace(&mut self.position, run.data) == 0;
            let hole = Hole::of_all(run.first, run.end);
            let lost = LostPart { hole, from: 0, until: run.data };
            return Ok(is_first.then_some(RunPart::Lost(lost)));
        }
        loop {
            if let Some(entry) = self.block.next() {
                self.position = entry.end();
                return self.chunk(entry).map(Some);
            }
            let number = self.next_block;
            let Some((low, _)) = self.reader.fences.get(number).copied() else { return Ok(None) };
            self.next_block += 1;
            match soft(self.reader.block(number))? {
                Some(block) => self.block = block.into_iter(),
                None => {
                    let high = self.reader.fences.get(number + 1).map_or(u64::MAX, |next| next.0);
                    let hole = Hole { low, high, ..Hole::of_all(run.first, run.end) };
                    let next = match self.next_block < self.reader.fences.len() {
                        true => soft(self.reader.block(self.next_block))?,
                        false => None,
                    };
                    let until = next.and_then(|next| next.first().map(Entry::begin));
                    let (from, until) = (self.position, until.unwrap_or(run.data));
                    return Ok(Some(RunPart::Lost(LostPart { hole, from, until })));
                }
            }
        }
    }

    /// Reads a chunk again.
    pub(crate) fn read_again(&self, entry: &Entry) -> io::Result<Vec<u8>> {
        self.reader.chunk(entry)
    }

    fn chunk(&self, entry: Entry) -> io::Result<RunPart> {
        let (run, hash) = (self.reader.run, entry.hash);
        let read = self.reader.chunk(&entry).and_then(|bytes| {
            each_record(&bytes, |record, _| {
                let is_here = topic_hash(record.topic) == hash
                    && record.store == self.store
                    && record.first >= entry.first
                    && record.end() <= run.end;
                let is_whole = is_here && record.content().is_some() && record.topic().is_some();
                if is_whole { Ok(()) } else { Err(damaged()) }
            })?;
            Ok(bytes)
        });
        Ok(match soft(read)? {
            Some(bytes) => RunPart::Chunk(entry, bytes),
            None => {
                let until = self.reader.end_of(&entry);
                let hole = Hole { from: entry.first, until, low: hash, high: hash };
                RunPart::Lost(LostPart { hole, from: entry.begin(), until: entry.end() })
            }
        })
    }
}

/// Returns `None` instead of damage, and if the file is missing.
fn soft<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if disk::is_damage(&error) || error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a record of the write-ahead log; `None` if it is lost.
pub(crate) fn read_place<D: Disk>(
    disk: &D,
    file: &WalFile,
    place: &RecordPlace,
) -> io::Result<Option<Vec<u8>>> {
    let bytes = disk.read_at(&file.name(), place.position.into(), place.length as usize);
    let bytes = bytes.and_then(|bytes| match Record::parse(&bytes) {
        Some((record, _)) if record.first == place.first && record.content().is_some() => Ok(bytes),
        _ => Err(damaged()),
    });
    soft(bytes)
}

/// Returns the names of topics that have lost records in a part of a run, as far as they are readable.
pub(crate) fn names_of<D: Disk>(
    disk: &D,
    found: &Found,
    (store, run): (&StoreState, &Run),
    lost: &LostPart,
) -> Vec<String> {
    let Hole { low, high, .. } = lost.hole;
    let mut names = BTreeSet::new();
    let length = (lost.until - lost.from).min(8 << 20) as usize;
    if let Ok(bytes) = disk.read_at(&Run::name(run.serial), lost.from, length) {
        names_in(&bytes, lost.hole, &mut names);
    }
    let topics = found.wal.iter().flat_map(|file| file.topics.keys());
    let of_range =
        |topic: &&thalweg_wire::Topic| low == high && lost.hole.has(topic_hash(topic.as_str()));
    names.extend(topics.filter(of_range).map(|topic| topic.as_str().to_owned()));
    for run in store.runs.iter().filter(|_| low == high) {
        if !names.is_empty() {
            break;
        }
        let Ok(fences) = read_fences(disk, run) else { continue };
        let reader = RunReader { disk, run: *run, fences };
        if let Ok(Some(entry)) = reader.entry_at(low, Offset::MAX)
            && let Ok(bytes) = reader.chunk(&entry)
        {
            names_in(&bytes, lost.hole, &mut names);
        }
    }
    names.into_iter().take(NAMES_MAX).collect()
}

/// Adds the names of the topics of records, damaged ones included if the hash says that the name is right.
fn names_in(mut bytes: &[u8], hole: Hole, names: &mut BTreeSet<String>) {
    while !bytes.is_empty() && names.len() <= NAMES_MAX {
        let whole = Record::parse(bytes).map(|(record, length)| (record.topic, length));
        let damaged = || {
            let topic = bytes.get(RECORD_HEAD..RECORD_HEAD + usize::from(u16_at(bytes, 32)?))?;
            let length = u32_at(bytes, 4)?.max(RECORD_HEAD as u32) as usize;
            Some((std::str::from_utf8(topic).ok().filter(|_| hole.low == hole.high)?, length))
        };
        let Some((topic, length)) = whole.or_else(damaged) else { return };
        if hole.has(topic_hash(topic)) {
            names.insert(topic.to_owned());
        }
        bytes = bytes.get(length..).unwrap_or_default();
    }
}

/// The last ends of topics, before which no record is readable.
#[derive(Default)]
pub(crate) struct Ends {
    topics: HashMap<String, Offset>,
    /// Ends that may be in damage: of the topics whose hashes are in a range.
    damaged: Vec<(u64, u64, Offset)>,
}

impl Ends {
    /// Reads the ends of a store's topics.
    pub(crate) fn read<D: Disk>(disk: &D, found: &Found, store: &StoreState) -> io::Result<Self> {
        let mut ends = Self::default();
        // A hole of an end reaches back to the beginning.
        for hole in store.holes.iter().filter(|hole| hole.hides_all_before()) {
            ends.damaged.push((hole.low, hole.high, hole.until - 1));
        }
        for run in store.runs.iter().filter(|run| run.has_ends) {
            let Some(fences) = soft(read_fences(disk, run))? else {
                ends.damaged.push((0, u64::MAX, run.end - 1));
                continue;
            };
            let reader = RunReader { disk, run: *run, fences };
            for (number, (low, _)) in reader.fences.iter().enumerate() {
                let Some(block) = soft(reader.block(number))? else {
                    let high = reader.fences.get(number + 1).map_or(u64::MAX, |next| next.0);
                    ends.damaged.push((*low, high, run.end - 1));
                    continue;
                };
                for entry in block.iter().filter(|entry| entry.has_end) {
                    let chunk = reader.chunk(entry).and_then(|chunk| {
                        each_record(&chunk, |record, _| {
                            if record.kind == RecordKind::End {
                                ends.insert(record.topic, record.first);
                            }
                            Ok::<_, io::Error>(())
                        })
                    });
                    if soft(chunk)?.is_none() {
                        ends.damaged.push((entry.hash, entry.hash, reader.end_of(entry) - 1));
                    }
                }
            }
        }
        for file in &found.wal {
            let topics = file.topics.iter().filter(|(_, topic)| topic.store == store.id);
            topics
                .filter(|(_, topic)| topic.last_end > 0)
                .for_each(|(name, topic)| ends.insert(name.as_str(), topic.last_end));
        }
        Ok(ends)
    }

    fn insert(&mut self, topic: &str, end: Offset) {
        match self.topics.get_mut(topic) {
            Some(known) => *known = end.max(*known),
            None => _ = self.topics.insert(topic.to_owned(), end),
        }
    }

    /// Returns the last end of a topic; 0 if there is none.
    pub(crate) fn last(&self, topic: &str) -> Offset {
        let known = self.topics.get(topic).copied().unwrap_or(0);
        if self.damaged.is_empty() {
            return known;
        }
        let hash = topic_hash(topic);
        let may_end = self.damaged.iter().filter(|(low, high, _)| (*low..=*high).contains(&hash));
        may_end.fold(known, |last, (_, _, end)| last.max(*end))
    }
}
