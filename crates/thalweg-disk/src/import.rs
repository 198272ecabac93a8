//! Reads the lines of an export into a directory.
//!
//! A new directory gets runs and a state, so that all positions are kept. A directory with topics gets the events as from
//! a publisher: behind its own, with new positions.

use std::{
    collections::VecDeque,
    io::{BufRead, Read as _},
    path::Path,
};

use thalweg_broker::{Append, AppendError, Content};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_wire::{
    EndCode, Epoch, Offset, Pattern, Position, Topic,
    event::{EventError, push_value},
    key::check_key,
    limits::OFFSET_MAX,
};
use tokio::sync::oneshot;

use crate::{
    batch::{Job, Outcome},
    broker::Handle,
    check::in_directory,
    disk::{Directory, Disk},
    log::Bounds,
    new_log::{NewLog, NewLogError},
    portable::{Line, VERSION, parse_hole},
    record::{Record, RecordKind, extension_of},
    recovery::{Found, NoLog, find},
    settings::Settings,
    state::StoreState,
};

/// The most bytes of events of one record.
const RECORD_BYTES_MAX: usize = 8 << 20;

/// The most bytes of a line.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Appends that are in flight.
const IN_FLIGHT_MAX: usize = 256;

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Events that were read.
    pub events: u64,
    /// Whether they have the positions that they had.
    pub keeps_positions: bool,
}

/// Reads the lines of an export into a directory: a new one, or one that no process uses. `renews_epochs`: a new
/// directory gets new epochs, so that all subscribers get a gap.
///
/// # Errors
/// One sentence with the remedy.
pub fn import(
    directory: &Path,
    input: &mut dyn BufRead,
    renews_epochs: bool,
) -> Result<Imported, String> {
    let disk = Directory::open(directory)?;
    let imported = match find(&disk) {
        Ok(_) if renews_epochs => Err(ImportFailure::Directory(
            "has topics, whose epochs stay: name a new directory, or leave out --new-epochs".into(),
        )),
        Ok(found) => import_behind(disk, &found, input),
        Err(NoLog::Empty) => import_new(&disk, input, renews_epochs),
        Err(reason) => Err(ImportFailure::Directory(reason.into())),
    };
    imported.map_err(|failure| match failure {
        ImportFailure::Line(number, reason) => format!("line {number} {reason}"),
        ImportFailure::Directory(reason) => in_directory(directory, &reason),
    })
}

/// The reason why an import ends: the end of a sentence that begins with the line or the directory.
#[derive(Debug)]
pub(crate) enum ImportFailure {
    Line(u64, String),
    Directory(String),
}

/// The directory that gets the records.
enum Target<'a, D: Disk> {
    New(NewLog<'a, D>),
    Old(OldLog<D>),
}

/// A log with topics.
struct OldLog<D: Disk> {
    handle: Handle<D>,
    patterns: Vec<(Pattern, FeedKind)>,
    answers: VecDeque<oneshot::Receiver<Outcome>>,
}

/// An input and the records in it.
struct Reading<'a, D: Disk> {
    /// `None` before the first line.
    target: Option<Target<'a, D>>,
    disk: Option<&'a D>,
    renews_epochs: bool,
    head: Offset,
    number: u64,
    /// The pattern, the kind and the epoch of the store whose lines are read.
    store: Option<(Pattern, FeedKind, Epoch)>,
    /// A record whose next events may follow.
    record: Option<OpenRecord>,
    events: u64,
    has_ended: bool,
}

/// The result of reading lines.
struct Read<'a, D: Disk> {
    events: u64,
    keeps_epochs: bool,
    target: Option<Target<'a, D>>,
}

struct OpenRecord {
    /// Its first line.
    number: u64,
    topic: Topic,
    first: Offset,
    time_ms: u64,
    kind: RecordKind,
    offsets: u32,
    /// The number of events that may follow.
    left: u32,
    payload: Vec<u8>,
    /// The keys of the events, if they have any, and when they expire.
    keys: Vec<(String, i64)>,
}

impl OpenRecord {
    fn extension(&self) -> Vec<u8> {
        if self.keys.is_empty() {
            return Vec::new();
        }
        let mut payloads = Payloads::from_lines(self.payload.clone()).unwrap_or_default();
        self.keys.iter().for_each(|(key, _)| payloads.push_key(key));
        for (at, (_, expires)) in self.keys.iter().enumerate().filter(|(_, (_, at))| *at > 0) {
            payloads.set_expiry(at, *expires);
        }
        extension_of(&Content::Events(payloads))
    }
}

pub(crate) fn import_new<D: Disk>(
    disk: &D,
    input: &mut dyn BufRead,
    renews_epochs: bool,
) -> Result<Imported, ImportFailure> {
    let read = Reading::new(None, Some(disk), renews_epochs).read(input)?;
    if let Some(Target::New(log)) = read.target {
        log.finish().map_err(|error| failed(0, error))?;
    }
    Ok(Imported { events: read.events, keeps_positions: read.keeps_epochs })
}

pub(crate) fn import_behind<D: Disk>(
    disk: D,
    found: &Found,
    input: &mut dyn BufRead,
) -> Result<Imported, ImportFailure> {
    let stores = found.state.configured();
    let patterns = stores.iter().map(|store| (store.pattern.clone(), store.kind)).collect();
    let settings = Settings {
        directory: Default::default(),
        stores,
        bytes: None,
        log_bytes: None,
        event_bytes: RECORD_BYTES_MAX,
        ticket_life: None,
    };
    let handle = Handle::open(disk, Bounds::default(), &settings);
    let handle = handle.map_err(ImportFailure::Directory)?;
    let log = OldLog { handle, patterns, answers: VecDeque::new() };
    let read = Reading::new(Some(Target::Old(log)), None, false).read(input)?;
    Ok(Imported { events: read.events, keeps_positions: false })
}

fn failed(number: u64, error: NewLogError) -> ImportFailure {
    match error {
        NewLogError::Order => ImportFailure::Line(
            number,
            "has a position that does not follow the line before: keep the order of the export"
                .into(),
        ),
        NewLogError::NoStore => ImportFailure::Line(
            number,
            "has no line of its store before it: keep those lines".into(),
        ),
        NewLogError::Disk(error) => ImportFailure::Directory(format!(
            "cannot be written ({error}): free the disk, remove the directory, and import again"
        )),
    }
}

impl<'a, D: Disk> Reading<'a, D> {
    fn new(target: Option<Target<'a, D>>, disk: Option<&'a D>, renews_epochs: bool) -> Self {
        let (head, number, store, record) = (0, 0, None, None);
        let (events, has_ended) = (0, false);
        Self { target, disk, renews_epochs, head, number, store, record, events, has_ended }
    }

    fn read(mut self, input: &mut dyn BufRead) -> Result<Read<'a, D>, ImportFailure> {
        let lines = self.lines(input);
        // The lines before a wrong one are stored: the import goes on with that line.
        let ended = self.end_record();
        if let Some(Target::Old(log)) = &mut self.target {
            while !log.answers.is_empty() {
                log.take_answer()?;
            }
        }
        lines.and(ended)?;
        Ok(Read { events: self.events, keeps_epochs: !self.renews_epochs, target: self.target })
    }

    fn lines(&mut self, input: &mut dyn BufRead) -> Result<(), ImportFailure> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let read = input.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            let cannot = |error| format!("is not complete, because stdin ends early ({error})");
            read.map_err(|error| ImportFailure::Directory(cannot(error)))?;
            if bytes.is_empty() {
                break;
            }
            self.number += 1;
            if !bytes.trim_ascii().is_empty() {
                self.line(&bytes)?;
            }
        }
        if self.number == 0 {
            return Err(self.wrong("is missing: pipe the output of thalweg data export to stdin"));
        }
        if !self.has_ended && !self.renews_epochs && matches!(self.target, Some(Target::New(_))) {
            let early = "is not complete, because the export has ended early: remove the directory and export again, \
                         or set --new-epochs to keep what there is";
            return Err(ImportFailure::Directory(early.into()));
        }
        Ok(())
    }

    fn wrong(&self, reason: impl Into<String>) -> ImportFailure {
        ImportFailure::Line(self.number.max(1), reason.into())
    }

    fn line(&mut self, bytes: &[u8]) -> Result<(), ImportFailure> {
        let line: Line<'_> = serde_json::from_slice(bytes)
            .map_err(|error| self.wrong(format!("is not a line of an export ({error})")))?;
        let numbers = [line.head, line.start, line.compacted, line.lost.map(|[_, until]| until)];
        if numbers.into_iter().flatten().any(|number| number > OFFSET_MAX) {
            return Err(self.wrong("has an offset that is too large: keep the lines as they are"));
        }
        if self.number == 1 {
            if line.thalweg_data != Some(VERSION) {
                return Err(self.wrong(
                    "is not the first line of an export of this version: \
                     use the output of thalweg data export",
                ));
            }
            self.head = line.head.unwrap_or(0);
            if self.head > OFFSET_MAX / 2 {
                return Err(self.wrong(
                    "has a head that leaves no room for events: keep the lines as they are",
                ));
            }
            // Subscribers of other topics would continue without their events.
            self.renews_epochs |= line.topics.is_some();
            if let Some(disk) = self.disk {
                self.target = Some(Target::New(NewLog::new(disk, self.head)));
            }
            return Ok(());
        }
        if line.end_of_data.is_some() {
            self.has_ended = true;
            return self.end_record();
        }
        let bounds = [line.start, line.compacted, line.lost.map(|[_, until]| until)];
        if bounds.into_iter().flatten().any(|offset| offset > self.head) {
            return Err(self.wrong("has an offset behind the head: keep the lines as they are"));
        }
        if line.topic.is_some() {
            return self.event(&line);
        }
        self.end_record()?;
        if line.store.is_some() {
            return self.begin_store(&line);
        }
        let Some(hole) = parse_hole(&line) else {
            return Err(self.wrong("has neither a topic nor a store: keep the lines as they are"));
        };
        match &mut self.target {
            Some(Target::New(log)) => {
                log.add_hole(hole).map_err(|error| failed(self.number, error))
            }
            _ => Ok(()),
        }
    }

    fn begin_store(&mut self, line: &Line<'_>) -> Result<(), ImportFailure> {
        let parsed = || {
            let pattern: Pattern = line.store.as_ref()?.parse().ok()?;
            let kind = FeedKind::parse(line.kind.as_ref()?)?;
            Some((pattern, kind, line.epoch.as_ref()?.parse::<Epoch>().ok()?))
        };
        let Some((pattern, kind, epoch)) = parsed() else {
            return Err(self.wrong("has a wrong store, kind or epoch: keep the lines as they are"));
        };
        self.store = Some((pattern.clone(), kind, epoch));
        let Some(Target::New(log)) = &mut self.target else { return Ok(()) };
        let renewed = Epoch::new(fastrand::u64(1..)).expect("not 0");
        let added = log.add_store(StoreState {
            id: 0,
            epoch: if self.renews_epochs { renewed } else { epoch },
            pattern,
            kind,
            compacted: line.compacted.unwrap_or(0),
            place: (line.unused != Some(true)).then(|| log.stores()),
            start: line.start.unwrap_or(0),
            age_ms: line.age_ms,
            bytes: line.bytes,
            is_weak: false,
            runs: Vec::new(),
            holes: Vec::new(),
        });
        added.map_err(|error| failed(self.number, error))
    }

    /// Takes a line of a topic.
    fn event(&mut self, line: &Line<'_>) -> Result<(), ImportFailure> {
        let topic = line.topic.as_ref().and_then(|topic| topic.parse::<Topic>().ok());
        let position = line.position.as_ref().and_then(|text| text.parse::<Position>().ok());
        let (Some(topic), Some(Position { epoch, offset })) = (topic, position) else {
            return Err(self.wrong("has a wrong topic or position: keep the lines as they are"));
        };
        let Some((pattern, _, of_store)) = &self.store else {
            return Err(failed(self.number, NewLogError::NoStore));
        };
        if epoch != *of_store || !pattern.matches(&topic) {
            return Err(self.wrong(format!(
                "does not belong to the store {pattern} before it: keep the order of the export"
            )));
        }
        let time_ms = line.time.unwrap_or(0);
        let number = self.number;
        let new = |kind, payload| OpenRecord {
            number,
            topic: topic.clone(),
            first: offset,
            time_ms,
            kind,
            offsets: 1,
            left: line.batch.unwrap_or(1).saturating_sub(1),
            payload,
            keys: Vec::new(),
        };
        if let Some(event) = line.event {
            let mut json = Vec::new();
            let pushed = push_value(event, RECORD_BYTES_MAX, &mut json);
            pushed
                .map_err(|error: EventError| self.wrong(format!("has a wrong event: {error}")))?;
            let key = line.key.as_ref().map(|key| (key.to_string(), line.expires.unwrap_or(0)));
            let is_keyed = self.store.as_ref().is_some_and(|(_, kind, _)| kind.has_keys());
            let is_right = key.as_ref().is_none_or(|(key, _)| check_key(key).is_ok());
            if is_keyed != key.is_some() || !is_right {
                return Err(self.wrong("has a wrong key, or none: keep the lines as they are"));
            }
            self.events += 1;
            if let Some(record) = &mut self.record
                && record.left > 0
                && record.topic == topic
                && record.first + u64::from(record.offsets) == offset
                && record.payload.len() + json.len() < RECORD_BYTES_MAX
            {
                record.payload.push(b'\n');
                record.payload.extend_from_slice(&json);
                record.keys.extend(key);
                (record.offsets, record.left) = (record.offsets + 1, record.left - 1);
                return Ok(());
            }
            let keys = key.into_iter().collect();
            let record = OpenRecord { keys, ..new(RecordKind::Events, json) };
            self.end_record()?;
            self.record = Some(record);
            return Ok(());
        }
        let record = match (line.pause, &line.end) {
            (Some(ms), _) => new(RecordKind::Paused, ms.to_le_bytes().to_vec()),
            (None, Some(end)) if EndCode::ALL.into_iter().any(|code| code.name() == end) => {
                new(RecordKind::End, end.as_bytes().to_vec())
            }
            _ => return Err(self.wrong("has no event and no end: keep the lines as they are")),
        };
        self.end_record()?;
        self.record = Some(record);
        self.end_record()
    }

    /// Adds the record whose lines were read.
    fn end_record(&mut self) -> Result<(), ImportFailure> {
        let Some(open) = self.record.take() else { return Ok(()) };
        let extension = open.extension();
        let record = Record {
            first: open.first,
            time_ms: open.time_ms,
            offsets: open.offsets,
            store: 0,
            kind: open.kind,
            topic: open.topic.as_str(),
            key: None,
            extension: &extension,
            payload: &open.payload,
        };
        match &mut self.target {
            Some(Target::New(log)) => {
                log.add_record(&record).map_err(|error| failed(open.number, error))
            }
            Some(Target::Old(log)) => {
                let kind = self.store.as_ref().map_or(FeedKind::Log, |(_, kind, _)| *kind);
                log.add_record(&record, &open.topic, kind, open.number)
            }
            None => Ok(()),
        }
    }
}

impl<D: Disk> OldLog<D> {
    fn add_record(
        &mut self,
        record: &Record<'_>,
        topic: &Topic,
        kind: FeedKind,
        number: u64,
    ) -> Result<(), ImportFailure> {
        // An end would delete the topic's events that were there before.
        if record.kind != RecordKind::Events {
            return Ok(());
        }
        // A server looks for a store of a keyed topic among those that keep keys, and for others among the others.
        let is_first = |(pattern, of_store): &(Pattern, FeedKind)| {
            of_store.has_keys() == kind.has_keys() && pattern.matches(topic)
        };
        let stream = self.patterns.iter().position(is_first);
        let stream = stream.filter(|stream| self.patterns[*stream].1 == kind);
        let (Some(stream), Some(content)) = (stream, record.content()) else {
            let kind = kind.name();
            let reason = format!(
                "has the topic {topic}, for which the directory has no store of kind={kind}: \
                 start a server with such a store once, or import into a new directory"
            );
            return Err(ImportFailure::Line(number, reason));
        };
        let waited = Default::default();
        let append = Append { stream, topic: topic.clone(), content, key: None, waited };
        self.answers.push_back(self.handle.threads.request(Job::Append(append, None), waited));
        if self.answers.len() > IN_FLIGHT_MAX { self.take_answer() } else { Ok(()) }
    }

    /// Awaits the oldest answer.
    fn take_answer(&mut self) -> Result<(), ImportFailure> {
        let Some(answer) = self.answers.pop_front() else { return Ok(()) };
        let reason = match answer.blocking_recv() {
            Ok(Outcome::Append(Ok(_))) => return Ok(()),
            Ok(Outcome::Append(Err(AppendError::Full))) => "is on a full disk".to_owned(),
            Ok(Outcome::Append(Err(error))) => format!("takes no events ({error:?})"),
            Ok(Outcome::Stale | Outcome::Ticket(_)) | Err(_) => "takes no events".to_owned(),
        };
        Err(ImportFailure::Directory(format!(
            "{reason}: free the disk, and import only the events that are missing"
        )))
    }
}
