//! Pages of a topic's records, from runs and from the write-ahead log.
//!
//! A page is planned under one lock, read without it, and planned again if the files or the start of the store have changed
//! meanwhile.

use std::{io, ops::ControlFlow};

use thalweg_broker::{PageBuilder, ReadPage, ReadRange, Unreadable};
use thalweg_core::stream::FeedKind;
use thalweg_wire::Offset;

use crate::{
    counts::Counts,
    disk::{self, Disk, damaged},
    log::{Log, Shared},
    record::{Record, RecordKind, topic_hash},
    run::{Entry, RunReader, each_record},
    state::{Hole, Run},
    wal::{RecordPlace, WalFile, kept_values},
};

/// How often a page is planned before the reader has to ask again.
const PLANS_MAX: usize = 16;

/// Maximum records of events of the write-ahead log in a plan: more than a page has.
const PLACES_MAX: usize = 1024;

/// Where the records of a page are.
#[derive(Debug)]
pub(crate) struct Plan {
    hash: u64,
    store: u16,
    kind: FeedKind,
    start: Offset,
    compacted: Offset,
    head: Offset,
    /// Records before this one are in runs.
    pub(crate) sealed: Offset,
    runs: Vec<Run>,
    holes: Vec<Hole>,
    /// Records that are not in runs, in order, with the generations of their files.
    places: Vec<(u64, RecordPlace)>,
    /// Whether there are more of them.
    has_more_places: bool,
    /// The topic's last end that is not in runs; 0 if there is none.
    last_end: Offset,
}

/// The reason why a page could not be read as it was planned.
#[derive(Debug)]
enum Failure {
    /// The file is gone or used for something else. It is damage if the file should be there.
    Gone(FileNumber),
    /// The disk could not be read now.
    Disk(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// A file of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileNumber {
    /// A run, by its serial number.
    Run(u64),
    /// A file of the write-ahead log, by its generation.
    Wal(u64),
}

/// The last end of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LastEnd {
    offset: Offset,
    /// Whether there may be an end here, because records are lost.
    is_lost: bool,
}

impl LastEnd {
    /// Returns the last possible end in records before `until` that are lost.
    fn lost(until: Offset) -> Self {
        Self { offset: until - 1, is_lost: true }
    }
}

/// The first lost records in a part of a range.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// The state has them.
    Known(Hole),
    /// The read has found them.
    New(Hole),
}

impl Plan {
    /// Plans a page; `None` if the store has another epoch.
    pub(crate) fn new(shared: &Shared, range: &ReadRange, is_newest: bool) -> Option<Self> {
        let store = shared.store_at(range.stream).filter(|store| store.epoch == range.epoch)?;
        let hash = topic_hash(range.topic.as_str());
        let (mut places, mut last_end) = (Vec::new(), 0);
        let (mut events, mut has_more) = (0, false);
        let of_topic = || {
            let topics =
                shared.unsealed().filter_map(|file| Some((file, file.topics.get(&range.topic)?)));
            topics.filter(|(_, topic)| topic.store == store.id)
        };
        for (_, topic) in of_topic() {
            last_end = last_end.max(topic.last_end);
        }
        // Records before this offset are not read, so a plan leaves them out.
        let from = range.from.max(store.start).max(last_end);
        for (file, topic) in of_topic() {
            let placed = |place: &RecordPlace| (file.generation, *place);
            if is_newest {
                let kept = kept_values(&topic.records, |place| place.kind);
                places.extend(kept.iter().map(placed));
                continue;
            }
            // The last record that begins before the range may reach into it.
            let before = topic.records.partition_point(|place| place.first <= from);
            let records = &topic.records[before.saturating_sub(1)..];
            for place in records.iter().take_while(|place| place.first < range.until) {
                has_more |= events == PLACES_MAX;
                if has_more {
                    break;
                }
                events += usize::from(place.kind == RecordKind::Events);
                places.push(placed(place));
            }
        }
        let holes = store.holes.iter().filter(|hole| hole.has(hash));
        Some(Self {
            hash,
            store: store.id,
            kind: store.kind,
            start: store.start,
            compacted: store.compacted,
            head: shared.head,
            sealed: shared.state.sealed,
            runs: store.runs.clone(),
            holes: holes.copied().collect(),
            places,
            has_more_places: has_more,
            last_end,
        })
    }
}

impl Plan {
    /// Returns a hole of the topic.
    fn hole(&self, from: Offset, until: Offset) -> Hole {
        Hole { from, until, low: self.hash, high: self.hash }
    }
}

impl<D: Disk> Log<D> {
    /// Reads a page, as [`thalweg_broker::Broker::read`] or `newest` returns it.
    pub(crate) fn read(&self, range: &ReadRange, is_newest: bool) -> Result<ReadPage, Unreadable> {
        self.planned(range, is_newest, |plan, missing| match is_newest {
            true => self.newest_page(plan, range, missing),
            false => self.page(plan, range, missing),
        })
    }

    /// Returns the newest record of a topic in runs, or 0, and the offset up to which records are in runs.
    pub(crate) fn newest_in_runs(&self, range: &ReadRange) -> Result<(Offset, Offset), Unreadable> {
        self.planned(range, true, |plan, missing| {
            let mut newest = 0;
            let _ = self.each_newest(plan, range, missing, false, |record| {
                newest = record.first;
                ControlFlow::Break(())
            })?;
            Ok((newest, plan.sealed))
        })
    }

    /// Reports lost records that a reader has met.
    pub(crate) fn note_damage(&self) {
        Counts::add(&self.counts.damaged, 1);
        self.warn("it is damaged, and readers of the lost events get a gap", None);
    }

    /// Plans, reads, and repeats both if a file is gone, or if records were deleted meanwhile.
    fn planned<T>(
        &self,
        range: &ReadRange,
        is_newest: bool,
        read: impl Fn(&Plan, &[FileNumber]) -> Result<T, Failure>,
    ) -> Result<T, Unreadable> {
        // Runs that should be there and are not.
        let mut missing = Vec::new();
        for _ in 0..PLANS_MAX {
            let plan = self.with(|shared| Plan::new(shared, range, is_newest)).ok_or(Unreadable)?;
            let read = read(&plan, &missing);
            let is_same = self.with(|shared| {
                let store = shared.store(plan.store);
                store.is_some_and(|store| store.start == plan.start && store.epoch == range.epoch)
            });
            match read {
                Ok(_) if !is_same => {}
                Ok(read) => {
                    Counts::add(&self.counts.pages, 1);
                    return Ok(read);
                }
                Err(Failure::Gone(file)) => {
                    let is_there = self.with(|shared| match file {
                        FileNumber::Run(serial) => shared
                            .store(plan.store)
                            .is_some_and(|store| store.runs.iter().any(|run| run.serial == serial)),
                        FileNumber::Wal(generation) => {
                            shared.unsealed().any(|file| file.generation == generation)
                        }
                    });
                    if is_there {
                        missing.push(file);
                    }
                }
                Err(Failure::Disk(error)) => {
                    self.warn("it cannot be read now", Some(&error));
                    return Err(Unreadable);
                }
            }
        }
        Err(Unreadable)
    }

    fn page(
        &self,
        plan: &Plan,
        range: &ReadRange,
        missing: &[FileNumber],
    ) -> Result<ReadPage, Failure> {
        let (ended, is_lost) = match self.last_end(plan, range, missing)? {
            Some(LastEnd { offset, is_lost }) => (Some(offset), is_lost),
            None => (None, false),
        };
        let stored_from = plan.start.max(ended.map_or(0, |ended| ended + 1));
        let mut begin = range.from.max(stored_from);
        // Readers of a keyed topic have keys of all ages.
        let shows_loss = is_lost && plan.kind.has_keys();
        let from = if shows_loss { range.from } else { begin };
        let mut page = PageBuilder::new(&ReadRange { from, ..range.clone() }, plan.head);
        if let Some(ended) = ended.filter(|ended| *ended + 1 >= plan.start) {
            page.end(ended);
        }
        page.lose(from..begin);
        while begin < range.until {
            let Some(damage) = self.fill(plan, range, missing, begin, &mut page)? else { break };
            let (Damage::Known(hole) | Damage::New(hole)) = damage;
            if let Damage::New(_) = damage {
                self.note_damage();
            }
            page.lose(hole.from..hole.until);
            if page.is_full() {
                break;
            }
            begin = hole.until.max(begin + 1);
        }
        Ok(ReadPage { compacted: plan.compacted, ..page.finish(stored_from) })
    }

    /// Adds the records from `begin` on, up to the first hole, which it returns.
    fn fill(
        &self,
        plan: &Plan,
        range: &ReadRange,
        missing: &[FileNumber],
        begin: Offset,
        page: &mut PageBuilder,
    ) -> Result<Option<Damage>, Failure> {
        let is_hole = |hole: &&Hole| hole.until > begin && hole.from < range.until;
        let known = plan.holes.iter().filter(is_hole).min_by_key(|hole| hole.from).copied();
        let until = known.map_or(range.until, |hole| hole.from.max(begin)).min(range.until);
        let known = known.map(Damage::Known);
        if begin >= until {
            return Ok(known);
        }
        for run in plan.runs.iter().filter(|run| run.end > begin && run.first < until) {
            let lost = self.fill_from_run(plan, run, range, missing, (begin, until), page)?;
            if lost.is_some() || page.is_full() {
                return Ok(lost.map(Damage::New));
            }
        }
        for (nth, (generation, place)) in plan.places.iter().enumerate() {
            if place.first >= until || page.is_full() {
                break;
            }
            // A hole may have moved the beginning past it.
            if plan.places.get(nth + 1).is_some_and(|(_, next)| next.first <= begin) {
                continue;
            }
            match self.place(plan, *generation, place, missing)? {
                Some(bytes) => push_records(&bytes, range, (begin, until), page)?,
                None => {
                    let next = plan.places.get(nth + 1).map(|(_, next)| next.first);
                    let until = next.unwrap_or(plan.head).max(place.first + 1);
                    return Ok(Some(Damage::New(plan.hole(place.first, until))));
                }
            }
        }
        if plan.has_more_places && !page.is_full() {
            page.leave_out();
        }
        Ok(if page.is_full() { None } else { known })
    }

    fn fill_from_run(
        &self,
        plan: &Plan,
        run: &Run,
        range: &ReadRange,
        missing: &[FileNumber],
        (begin, until): (Offset, Offset),
        page: &mut PageBuilder,
    ) -> Result<Option<Hole>, Failure> {
        let lost = |from: Offset, until: Offset| Some(plan.hole(from, until));
        let Some(reader) = self.run_reader(run, missing)? else {
            return Ok(lost(run.first, run.end));
        };
        let Some(first) = soft(run, reader.entry_at(plan.hash, begin))? else {
            return Ok(lost(run.first, run.end));
        };
        let mut entries: Vec<Entry> = first.into_iter().collect();
        let mut after = entries.first().map_or(begin, |entry| entry.first);
        loop {
            for entry in &entries {
                if entry.first >= until || page.is_full() {
                    return Ok(None);
                }
                let chunk = soft(run, reader.chunk(entry))?;
                let pushed = chunk.map(|chunk| push_records(&chunk, range, (begin, until), page));
                match pushed {
                    Some(Ok(())) => {}
                    Some(Err(error)) if !disk::is_damage(&error) => return Err(error.into()),
                    Some(Err(_)) | None => return Ok(lost(entry.first, reader.end_of(entry))),
                }
                after = entry.first;
            }
            match soft(run, reader.entries_after(plan.hash, after))? {
                Some(next) if next.is_empty() => return Ok(None),
                Some(next) => entries = next,
                None => return Ok(lost(after, run.end)),
            }
        }
    }

    /// Returns the topic's last end at or after `range.from`. If damage may hide an end, all before it counts as ended,
    /// because a deleted topic must not come back.
    fn last_end(
        &self,
        plan: &Plan,
        range: &ReadRange,
        missing: &[FileNumber],
    ) -> Result<Option<LastEnd>, Failure> {
        let is_end = |hole: &&Hole| hole.hides_all_before();
        let damaged = plan.holes.iter().filter(is_end).map(|hole| LastEnd::lost(hole.until)).max();
        if plan.last_end > 0 {
            return Ok(damaged.max(Some(LastEnd { offset: plan.last_end, is_lost: false })));
        }
        Ok(damaged.max(self.last_end_in_runs(plan, range, missing)?))
    }

    fn last_end_in_runs(
        &self,
        plan: &Plan,
        range: &ReadRange,
        missing: &[FileNumber],
    ) -> Result<Option<LastEnd>, Failure> {
        for run in plan.runs.iter().rev().filter(|run| run.has_ends && run.end > range.from) {
            let lost = || Ok(Some(LastEnd::lost(run.end)));
            let Some(reader) = self.run_reader(run, missing)? else { return lost() };
            let mut last = reader.last_block(plan.hash);
            // Each block is read once, the newest first.
            while let Some(number) = last {
                let Some(block) = soft(run, reader.block(number))? else { return lost() };
                let entries = block.iter().rev().filter(|entry| entry.hash == plan.hash);
                for entry in entries.filter(|entry| entry.has_end) {
                    let mut found = None;
                    let chunk = reader.chunk(entry).and_then(|chunk| {
                        each_record(&chunk, |record, _| {
                            if record.kind == RecordKind::End
                                && record.topic == range.topic.as_str()
                            {
                                found = Some(LastEnd { offset: record.first, is_lost: false });
                            }
                            Ok::<_, io::Error>(())
                        })
                    });
                    if soft(run, chunk)?.is_none() {
                        return Ok(Some(LastEnd::lost(reader.end_of(entry))));
                    }
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                // Ends before the range change nothing.
                let is_last =
                    block.first().is_none_or(|entry| entry.place() < (plan.hash, range.from));
                last = number.checked_sub(1).filter(|_| !is_last);
            }
        }
        Ok(None)
    }

    fn newest_page(
        &self,
        plan: &Plan,
        range: &ReadRange,
        missing: &[FileNumber],
    ) -> Result<ReadPage, Failure> {
        let (mut contents, mut end, mut first) = (Vec::new(), None, 0);
        let lost = self.each_newest(plan, range, missing, true, |record| {
            first = record.first;
            match record.kind {
                RecordKind::End => {
                    end = Some(record.first);
                    return ControlFlow::Break(());
                }
                _ => contents.extend(record.content().map(|content| (record.first, content))),
            }
            match record.kind {
                RecordKind::Events => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })?;
        // A newer record may be lost.
        let lost = lost.into_iter().chain(plan.holes.iter().copied());
        let lost = lost.filter(|hole| hole.until > first).map(|hole| hole.until).max();
        let mut page = PageBuilder::newest(range, plan.head);
        if let Some(lost) = lost {
            self.note_damage();
            return Ok(page.finish(lost.max(plan.start)));
        }
        if let Some(end) = end {
            page.end(end);
        }
        for (first, content) in contents.into_iter().rev() {
            page.push(first, content);
        }
        Ok(page.finish(if first == 0 { plan.start } else { 0 }))
    }

    /// Calls `each` with the records of a topic, the newest first, until it breaks. Returns the damage that was found.
    fn each_newest(
        &self,
        plan: &Plan,
        range: &ReadRange,
        missing: &[FileNumber],
        with_unsealed: bool,
        mut each: impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Hole>, Failure> {
        let lost = |from, until| Some(plan.hole(from, until));
        for (generation, place) in plan.places.iter().rev().filter(|_| with_unsealed) {
            match self.place(plan, *generation, place, missing)? {
                Some(bytes) => {
                    if let Some((record, _)) = Record::parse(&bytes)
                        && each(&record).is_break()
                    {
                        return Ok(None);
                    }
                }
                None => return Ok(lost(place.first, place.first + 1)),
            }
        }
        for run in plan.runs.iter().rev() {
            let Some(reader) = self.run_reader(run, missing)? else {
                return Ok(lost(run.first, run.end));
            };
            let mut before = Offset::MAX;
            loop {
                let Some(entry) = soft(run, reader.entry_at(plan.hash, before))? else {
                    return Ok(lost(run.first, run.end));
                };
                let Some(entry) = entry else { break };
                let Some(chunk) = soft(run, reader.chunk(&entry))? else {
                    return Ok(lost(entry.first, reader.end_of(&entry)));
                };
                let mut records = Vec::new();
                let read = each_record(&chunk, |record, _| {
                    if record.topic == range.topic.as_str() {
                        records.push(record);
                    }
                    Ok::<_, io::Error>(())
                });
                if soft(run, read)?.is_none() {
                    return Ok(lost(entry.first, reader.end_of(&entry)));
                }
                let is_deleted =
                    |record: &Record<'_>| !plan.kind.is_state() && record.first < plan.start;
                for record in records.iter().rev().filter(|record| !is_deleted(record)) {
                    if each(record).is_break() {
                        return Ok(None);
                    }
                }
                let Some(earlier) = entry.first.checked_sub(1) else { break };
                before = earlier;
            }
        }
        Ok(None)
    }

    /// Returns a run's reader; `None` if its index is damaged, or the run is missing.
    fn run_reader(
        &self,
        run: &Run,
        missing: &[FileNumber],
    ) -> Result<Option<RunReader<'_, D>>, Failure> {
        if missing.contains(&FileNumber::Run(run.serial)) {
            return Ok(None);
        }
        soft(run, self.reader(run))
    }

    /// Returns the bytes of a record of the write-ahead log; `None` if they are lost.
    fn place(
        &self,
        plan: &Plan,
        generation: u64,
        place: &RecordPlace,
        missing: &[FileNumber],
    ) -> Result<Option<Vec<u8>>, Failure> {
        let name = WalFile::name_of(generation);
        let bytes = self.disk.read_at(&name, place.position.into(), place.length as usize);
        let bytes = bytes.and_then(|bytes| match Record::parse(&bytes) {
            Some((record, _))
                if record.first == place.first
                    && record.store == plan.store
                    && topic_hash(record.topic) == plan.hash =>
            {
                Ok(bytes)
            }
            _ => Err(damaged()),
        });
        match bytes {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if disk::is_damage(&error) || error.kind() == io::ErrorKind::NotFound => {
                // The file may be used again: then the page is planned again.
                let file = FileNumber::Wal(generation);
                if missing.contains(&file) { Ok(None) } else { Err(Failure::Gone(file)) }
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Turns damage into `None`, and other errors into a [`Failure`].
fn soft<T>(run: &Run, read: io::Result<T>) -> Result<Option<T>, Failure> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if disk::is_damage(&error) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Failure::Gone(FileNumber::Run(run.serial)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds the records of a topic that are in a range.
fn push_records(
    bytes: &[u8],
    range: &ReadRange,
    (begin, until): (Offset, Offset),
    page: &mut PageBuilder,
) -> io::Result<()> {
    each_record(bytes, |record, _| {
        let is_in_range = record.end() > begin && record.first < until;
        if record.topic != range.topic.as_str() || !is_in_range || page.is_full() {
            return Ok(());
        }
        let content = record.content().ok_or_else(damaged)?;
        // Ends were looked up before.
        if record.kind != RecordKind::End {
            page.push(record.first, content);
        }
        Ok::<_, io::Error>(())
    })
}
