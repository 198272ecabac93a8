//! Writes the readable records of a directory as lines.

use std::{collections::HashMap, io, io::Write, path::Path};

use thalweg_wire::{Pattern, Topic};

use crate::{
    check::{Progress, in_directory, total_bytes, unreadable},
    disk::{Directory, Disk, damaged},
    keyed_merge::{Forgotten, NewestEvents},
    portable::{Line, VERSION, hole_line, store_line, write_record},
    record::{Record, topic_hash},
    recovery::{Found, find},
    run::{Entry, each_record},
    scan::{Ends, RunPart, RunScan, read_place},
    state::{Hole, StoreState},
    wal::{RecordPlace, WalFile, kept_values},
};

/// The result of an export.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Events that were written.
    pub events: u64,
    /// Damaged parts, whose events are missing.
    pub damage: u64,
}

/// Writes the events of a directory that no process uses, with the topics that match `pattern`.
///
/// # Errors
/// One sentence with the remedy.
pub fn export(
    directory: &Path,
    pattern: &Pattern,
    out: &mut dyn Write,
    progress: Progress<'_>,
) -> Result<Exported, String> {
    let disk = Directory::open_to_read(directory)?;
    export_log(&disk, pattern, out, progress).map_err(|reason| in_directory(directory, &reason))
}

pub(crate) fn export_log(
    disk: &impl Disk,
    pattern: &Pattern,
    out: &mut dyn Write,
    progress: Progress<'_>,
) -> Result<Exported, String> {
    let found = find(disk)?;
    let total = total_bytes(&found);
    let mut exporting = Exporting {
        disk,
        found: &found,
        pattern,
        out,
        progress,
        done: 0,
        total,
        exported: Exported::default(),
    };
    exporting.run().map_err(|failure| match failure {
        ExportFailure::Read(error) => unreadable(&error),
        ExportFailure::Write(error) => {
            format!("is not exported, because its lines cannot be written ({error})")
        }
    })?;
    Ok(exporting.exported)
}

/// The reason why an export ends.
enum ExportFailure {
    Read(io::Error),
    Write(io::Error),
}

impl From<io::Error> for ExportFailure {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

struct Exporting<'a, D> {
    disk: &'a D,
    found: &'a Found,
    pattern: &'a Pattern,
    out: &'a mut dyn Write,
    progress: Progress<'a>,
    done: u64,
    total: u64,
    exported: Exported,
}

/// A run of values, and its next chunk.
struct ValueRun<'a, D> {
    scan: RunScan<'a, D>,
    next: Option<(Entry, Vec<u8>)>,
}

/// The place of a chunk of records.
enum Chunk<'a> {
    /// In a run, by its index.
    InRun(usize, Entry),
    InLog(&'a WalFile, &'a RecordPlace),
}

/// A value topic's records in a file of the write-ahead log.
type WalValues<'a> = (u64, &'a WalFile, &'a [RecordPlace]);

/// A hash of topics, all runs, and the records of these topics in the write-ahead log.
type OfHash<'r, 'a, D> = (u64, &'r mut [ValueRun<'a, D>], &'r [(&'a WalFile, &'a RecordPlace)]);

impl<'a, D: Disk> Exporting<'a, D> {
    fn run(&mut self) -> Result<(), ExportFailure> {
        let head = self.found.state.head;
        let topics = Some(self.pattern.as_str()).filter(|pattern| *pattern != "**");
        self.line(&Line {
            thalweg_data: Some(VERSION),
            head: Some(head),
            topics: topics.map(Into::into),
            ..Line::default()
        })?;
        let mut stores: Vec<&StoreState> = self.found.state.stores.iter().collect();
        stores.sort_by_key(|store| (store.place.is_none(), store.place));
        for store in stores.into_iter().filter(|store| store.pattern.overlaps(self.pattern)) {
            self.line(&store_line(store))?;
            store.holes.iter().try_for_each(|hole| self.line(&hole_line(hole)))?;
            match store.kind.is_state() {
                true => self.values(store)?,
                false => self.log(store)?,
            }
        }
        let (holes, is_lost) = (self.found.holes.len() as u64, self.found.is_lost);
        self.exported.damage += holes + u64::from(is_lost);
        self.line(&Line { end_of_data: Some(true), ..Line::default() })
    }

    fn line(&mut self, line: &Line<'_>) -> Result<(), ExportFailure> {
        line.write(self.out).map_err(ExportFailure::Write)
    }

    fn lost(&mut self, hole: &Hole) -> Result<(), ExportFailure> {
        self.exported.damage += 1;
        self.line(&hole_line(hole))
    }

    fn read(&mut self, bytes: usize) {
        self.done += bytes as u64;
        (self.progress)(self.done, self.total);
    }

    fn record(&mut self, store: &StoreState, record: &Record<'_>) -> Result<(), ExportFailure> {
        let start = if store.kind.is_state() { 0 } else { store.start };
        let is_wanted = record.topic().is_some_and(|topic| self.pattern.matches(&topic));
        if is_wanted && record.end() > start {
            let written = write_record(record, store.epoch, start, self.out);
            self.exported.events += written.map_err(ExportFailure::Write)?;
        }
        Ok(())
    }

    /// Writes the records of log topics, in the order of their offsets.
    fn log(&mut self, store: &StoreState) -> Result<(), ExportFailure> {
        let ends = Ends::read(self.disk, self.found, store)?;
        let is_readable = |record: &Record<'_>| record.first >= ends.last(record.topic);
        for run in &store.runs {
            let mut scan = RunScan::open(self.disk, *run, store.id)?;
            let mut chunks = Vec::new();
            while let Some(part) = scan.next()? {
                match part {
                    RunPart::Chunk(_, chunk) => chunks.push(chunk),
                    RunPart::Lost(lost) => self.lost(&lost.hole)?,
                }
            }
            let mut records = Vec::new();
            for chunk in &chunks {
                each_record(chunk, |record, _| {
                    records.push(record);
                    Ok::<_, io::Error>(())
                })?;
                self.read(chunk.len());
            }
            records.sort_unstable_by_key(|record| record.first);
            for record in records.iter().filter(|record| is_readable(record)) {
                self.record(store, record)?;
            }
        }
        for file in &self.found.wal {
            let mut places = Vec::new();
            for (topic, of_topic) in &file.topics {
                if of_topic.store == store.id {
                    places.extend(of_topic.records.iter().map(|place| (place, topic)));
                }
            }
            places.sort_unstable_by_key(|(place, _)| place.first);
            for (place, topic) in places {
                let bytes = read_place(self.disk, file, place)?;
                self.read(place.length as usize);
                match bytes.as_deref().and_then(Record::parse) {
                    Some((record, _)) if is_readable(&record) => self.record(store, &record)?,
                    Some(_) => {}
                    None => self.lost(&hole_of(topic_hash(topic.as_str()), place))?,
                }
            }
        }
        Ok(())
    }

    /// Writes the newest records of value topics, or the newest events of keys, in the order of their hashes.
    fn values(&mut self, store: &StoreState) -> Result<(), ExportFailure> {
        let mut runs = Vec::new();
        for run in &store.runs {
            let scan = RunScan::open(self.disk, *run, store.id)?;
            let mut run = ValueRun { scan, next: None };
            self.advance(&mut run)?;
            runs.push(run);
        }
        let mut in_log: Vec<WalValues<'a>> = Vec::new();
        for file in &self.found.wal {
            for (topic, of_topic) in file.topics.iter().filter(|(_, topic)| topic.store == store.id)
            {
                in_log.push((topic_hash(topic.as_str()), file, &of_topic.records));
            }
        }
        // Files stay in their order.
        in_log.sort_by_key(|(hash, ..)| *hash);
        let mut in_log = in_log.into_iter().peekable();
        loop {
            let next = runs.iter().filter_map(|run| run.next.as_ref());
            let next = next.map(|(entry, _)| entry.hash);
            let next = next.chain(in_log.peek().map(|(hash, ..)| *hash)).min();
            let Some(hash) = next else { return Ok(()) };
            let mut of_hash = Vec::new();
            while let Some((_, file, places)) = in_log.next_if(|(next, ..)| *next == hash) {
                of_hash.extend(places.iter().map(|place| (file, place)));
            }
            of_hash.sort_unstable_by_key(|(_, place)| place.first);
            match store.kind.has_keys() {
                true => self.newest_keys(store, (hash, &mut runs, &of_hash))?,
                false => self.newest_values(store, (hash, &mut runs, &of_hash))?,
            }
        }
    }

    /// Writes the newest events of the keys of topics with a hash. Reads their chunks twice, because a topic may have more events
    /// than memory.
    fn newest_keys(
        &mut self,
        store: &StoreState,
        (hash, runs, in_log): OfHash<'_, 'a, D>,
    ) -> Result<(), ExportFailure> {
        let mut newest = NewestEvents::new(Forgotten { ended_ms: None, removed_ms: None });
        let mut chunks = Vec::new();
        for (number, run) in runs.iter_mut().enumerate() {
            while let Some((entry, chunk)) = run.next.take_if(|(next, _)| next.hash == hash) {
                newest.note(&chunk)?;
                chunks.push(Chunk::InRun(number, entry));
                self.advance(run)?;
            }
        }
        for (file, place) in in_log {
            if let Some(bytes) = self.in_log(hash, file, place)? {
                newest.note(&bytes)?;
                chunks.push(Chunk::InLog(file, place));
            }
        }
        newest.end_pass();
        let mut topics = newest.names().filter_map(|name| name.parse::<Topic>().ok());
        if !topics.any(|topic| self.pattern.matches(&topic)) {
            return Ok(());
        }
        for chunk in chunks {
            let bytes = match chunk {
                Chunk::InRun(number, entry) => runs[number].scan.read_again(&entry)?,
                Chunk::InLog(file, place) => {
                    read_place(self.disk, file, place)?.ok_or_else(damaged)?
                }
            };
            newest.keep(&bytes, |record, _| self.record(store, record))?;
        }
        Ok(())
    }

    /// Writes the newest records of value topics with a hash.
    fn newest_values(
        &mut self,
        store: &StoreState,
        (hash, runs, in_log): OfHash<'_, 'a, D>,
    ) -> Result<(), ExportFailure> {
        let mut chunks = Vec::new();
        for run in runs {
            while let Some((_, chunk)) = run.next.take_if(|(next, _)| next.hash == hash) {
                chunks.push(chunk);
                self.advance(run)?;
            }
        }
        for (file, place) in in_log {
            chunks.extend(self.in_log(hash, file, place)?);
        }
        let mut topics: HashMap<&str, Vec<Record<'_>>> = HashMap::new();
        for chunk in &chunks {
            each_record(chunk, |record, _| {
                topics.entry(record.topic).or_default().push(record);
                Ok::<_, io::Error>(())
            })?;
        }
        let newest = topics.values().flat_map(|records| kept_values(records, |record| record.kind));
        let mut newest: Vec<_> = newest.collect();
        newest.sort_unstable_by_key(|record| record.first);
        newest.iter().try_for_each(|record| self.record(store, record))
    }

    /// Reads a record in the write-ahead log; `None` if it is lost.
    fn in_log(
        &mut self,
        hash: u64,
        file: &WalFile,
        place: &RecordPlace,
    ) -> Result<Option<Vec<u8>>, ExportFailure> {
        self.read(place.length as usize);
        let bytes = read_place(self.disk, file, place)?;
        if bytes.is_none() {
            self.lost(&hole_of(hash, place))?;
        }
        Ok(bytes)
    }

    /// Reads the next chunk of a run.
    fn advance(&mut self, run: &mut ValueRun<'_, D>) -> Result<(), ExportFailure> {
        loop {
            match run.scan.next()? {
                Some(RunPart::Chunk(entry, chunk)) => {
                    self.read(chunk.len());
                    run.next = Some((entry, chunk));
                    return Ok(());
                }
                Some(RunPart::Lost(lost)) => self.lost(&lost.hole)?,
                None => return Ok(()),
            }
        }
    }
}

fn hole_of(hash: u64, place: &RecordPlace) -> Hole {
    Hole { from: place.first, until: place.first + 1, low: hash, high: hash }
}
