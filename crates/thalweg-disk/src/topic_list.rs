//! Lists of topics. A run is sorted by the hashes of its topics, and only records have their names, so a list reads the index of each
//! run and one record of each topic.

use std::{
    collections::HashMap,
    io,
    time::{Duration, Instant},
};

use thalweg_broker::{FirstTopics, TopicRange, Unreadable};
use thalweg_wire::{Offset, Pattern, Topic};

use crate::{
    disk::{self, Disk, damaged},
    log::{Log, Shared},
    record::{RECORD_HEAD, Record, RecordKind, topic_hash, u16_at},
    run::{Entry, RunReader, each_record},
    state::{Hole, Run},
};

/// The time that a list may take. Reading a topic's name takes microseconds, or a tenth of a millisecond if its file is not in the
/// kernel's memory.
const LIST_TIME: Duration = Duration::from_secs(3);

/// How often a list begins again because a merge has removed a run.
const TRIES_MAX: usize = 8;

/// Topics between two readings of the clock.
const TOPICS_PER_LOOK: u32 = 256;

/// Bytes of a record that are read for its topic's name, which is hardly ever longer.
const NAME_BYTES: usize = 256;

/// A store of the settings as it was when the list began.
struct ListedStore {
    /// Its place among the stores of the settings.
    place: usize,
    id: u16,
    pattern: Pattern,
    /// Records before this offset are deleted.
    start: Offset,
    runs: Vec<Run>,
    /// Holes that may have an end, which hides older records.
    holes: Vec<Hole>,
}

/// The topics of the write-ahead log that a list may have, and whether their newest record is an end.
type Unsealed = HashMap<Topic, bool>;

/// A run, entry by entry, in the order of the topics' hashes.
struct RunCursor<'a, D> {
    reader: RunReader<'a, D>,
    block: Vec<Entry>,
    at: usize,
    next_block: usize,
}

/// The chunks of one topic in one run.
#[derive(Clone, Copy)]
struct TopicChunks {
    first: Entry,
    last: Entry,
}

impl<'a, D: Disk> RunCursor<'a, D> {
    fn new(reader: RunReader<'a, D>) -> Self {
        Self { reader, block: Vec::new(), at: 0, next_block: 0 }
    }

    /// Returns the next entry. Skips damaged blocks, and calls `note_damage` for each.
    fn peek(&mut self, note_damage: &mut impl FnMut()) -> io::Result<Option<Entry>> {
        while self.at == self.block.len() {
            if self.next_block == self.reader.fences.len() {
                return Ok(None);
            }
            self.next_block += 1;
            self.at = 0;
            self.block = match self.reader.block(self.next_block - 1) {
                Ok(block) => block,
                Err(error) if disk::is_damage(&error) => {
                    note_damage();
                    Vec::new()
                }
                Err(error) => return Err(error),
            };
        }
        Ok(Some(self.block[self.at]))
    }

    /// Takes the entries of a topic, if they are next.
    fn take(
        &mut self,
        hash: u64,
        note_damage: &mut impl FnMut(),
    ) -> io::Result<Option<TopicChunks>> {
        let mut found: Option<TopicChunks> = None;
        while let Some(entry) = self.peek(note_damage)?.filter(|entry| entry.hash == hash) {
            let first = found.map_or(entry, |found| found.first);
            found = Some(TopicChunks { first, last: entry });
            self.at += 1;
        }
        Ok(found)
    }

    /// Returns the topic of a chunk's first record. The hash of the name shows that it is whole.
    fn name(&self, entry: &Entry) -> io::Result<Option<Topic>> {
        let name = Run::name(self.reader.run.serial);
        let length = (entry.end() - entry.begin()) as usize;
        let read = |bytes| self.reader.disk.read_at(&name, entry.begin(), length.min(bytes));
        let mut head = read(NAME_BYTES)?;
        let end = RECORD_HEAD + usize::from(u16_at(&head, 32).ok_or_else(damaged)?);
        if head.len() < end {
            head = read(end)?;
        }
        let topic = head.get(RECORD_HEAD..end).and_then(|bytes| str::from_utf8(bytes).ok());
        let topic = topic.filter(|topic| topic_hash(topic) == entry.hash);
        Ok(topic.and_then(|topic| topic.parse().ok()))
    }

    /// Returns whether the newest record of a topic in its last chunk is readable: no end, and not deleted.
    fn is_live(&self, chunks: TopicChunks, topic: &Topic, store: &ListedStore) -> io::Result<bool> {
        let entry = chunks.last;
        let is_hidden = store.holes.iter().any(|hole| {
            hole.has(entry.hash) && hole.hides_all_before() && entry.first < hole.until
        });
        if is_hidden {
            return Ok(false);
        }
        if !entry.has_end && entry.first >= store.start {
            return Ok(true);
        }
        let chunk = self.reader.chunk(&entry)?;
        let mut is_live = false;
        each_record(&chunk, |record: Record<'_>, _| {
            if record.topic == topic.as_str() {
                is_live = record.kind != RecordKind::End && record.end() > store.start;
            }
            Ok::<_, io::Error>(())
        })?;
        Ok(is_live)
    }
}

impl<D: Disk> Log<D> {
    /// Returns the first topics of a range, as [`thalweg_broker::TopicIndex::topics`] does. Reads the index of all runs.
    pub(crate) fn topics(&self, range: &TopicRange) -> Result<Vec<Topic>, Unreadable> {
        let until = Instant::now() + LIST_TIME;
        for _ in 0..TRIES_MAX {
            let (stores, unsealed) = self.with(|shared| planned(shared, range));
            match self.listed(&stores, &unsealed, range, until) {
                Ok(topics) => return Ok(topics),
                // A merge has removed the run, or the file was never there: then a page reports it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.warn("its topics cannot be listed now", Some(&error));
                    return Err(Unreadable);
                }
            }
        }
        Err(Unreadable)
    }

    fn listed(
        &self,
        stores: &[ListedStore],
        unsealed: &Unsealed,
        range: &TopicRange,
        until: Instant,
    ) -> io::Result<Vec<Topic>> {
        let mut first = FirstTopics::new(range.clone());
        for (topic, is_ended) in unsealed {
            if !is_ended {
                first.push(topic.clone());
            }
        }
        for store in stores.iter().filter(|store| range.may_match(&store.pattern)) {
            self.list_runs(store, stores, unsealed, until, &mut first)?;
        }
        Ok(first.finish())
    }

    fn list_runs(
        &self,
        store: &ListedStore,
        stores: &[ListedStore],
        unsealed: &Unsealed,
        until: Instant,
        first: &mut FirstTopics,
    ) -> io::Result<()> {
        let mut note_damage = || self.note_damage();
        let mut runs = Vec::new();
        for run in store.runs.iter().filter(|run| run.end > store.start) {
            match self.reader(run) {
                Ok(reader) => runs.push(RunCursor::new(reader)),
                Err(error) if disk::is_damage(&error) => note_damage(),
                Err(error) => return Err(error),
            }
        }
        let mut topics: u32 = 0;
        loop {
            let mut next = None;
            for run in &mut runs {
                let hash = run.peek(&mut note_damage)?.map(|entry| entry.hash);
                next = next.into_iter().chain(hash).min();
            }
            let Some(hash) = next else { return Ok(()) };
            topics += 1;
            if topics.is_multiple_of(TOPICS_PER_LOOK) && Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "there are too many"));
            }
            // The newest run with the topic comes last.
            let mut newest = None;
            for (number, run) in runs.iter_mut().enumerate() {
                newest =
                    run.take(hash, &mut note_damage)?.map(|chunks| (number, chunks)).or(newest);
            }
            let Some((number, chunks)) = newest else { continue };
            let run = &runs[number];
            let listed = run.name(&chunks.first).and_then(|topic| {
                let topic = topic.ok_or_else(damaged)?;
                let is_its = first.wants(topic.as_str())
                    && !unsealed.contains_key(&topic)
                    && is_first_match(stores, store, &topic);
                Ok((is_its && run.is_live(chunks, &topic, store)?).then_some(topic))
            });
            match listed {
                Ok(topic) => topic.into_iter().for_each(|topic| first.push(topic)),
                Err(error) if disk::is_damage(&error) => note_damage(),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Notes the stores, and the topics of a range that are in the write-ahead log.
fn planned(shared: &Shared, range: &TopicRange) -> (Vec<ListedStore>, Unsealed) {
    let mut stores = Vec::new();
    for store in &shared.state.stores {
        let Some(place) = store.place else { continue };
        let holes = store.holes.iter().filter(|hole| hole.hides_all_before());
        stores.push(ListedStore {
            place,
            id: store.id,
            pattern: store.pattern.clone(),
            start: if store.kind.is_state() { 0 } else { store.start },
            runs: store.runs.clone(),
            holes: holes.copied().collect(),
        });
    }
    stores.sort_by_key(|store| store.place);
    let mut unsealed = Unsealed::new();
    let all = FirstTopics::new(range.clone());
    for (topic, known) in shared.unsealed().flat_map(|file| &file.topics) {
        let store = stores.iter().find(|store| store.id == known.store);
        if let Some(last) = known.records.last()
            && all.wants(topic.as_str())
            && store.is_some_and(|store| is_first_match(&stores, store, topic))
        {
            unsealed.insert(topic.clone(), last.kind == RecordKind::End);
        }
    }
    (stores, unsealed)
}

/// Returns whether a topic belongs to a store by today's settings. Its records may be in others.
fn is_first_match(stores: &[ListedStore], store: &ListedStore, topic: &Topic) -> bool {
    let first = stores.iter().find(|store| store.pattern.matches(topic));
    first.is_some_and(|first| first.place == store.place)
}
