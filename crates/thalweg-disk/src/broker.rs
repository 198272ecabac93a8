//! The log as a broker.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use thalweg_broker::{
    Append, AppendError, BoxFuture, Broker, BrokerCounts, CompareAndSet, Family, FamilyValue,
    Follower, ReadPage, ReadRange, Stored, Stream, TicketDigest, TicketError, Tickets, TopicIndex,
    TopicRange, Unreadable,
};
use thalweg_wire::{Epoch, Offset, Topic};

use crate::{
    batch::{Condition, Job, Outcome},
    disk::{Directory, Disk},
    follow::FollowCursor,
    log::{Bounds, Log},
    recovery,
    settings::{Settings, StoreSettings, SyncMode},
    threads::Threads,
};

/// Maximum events of a record.
const EVENTS_MAX: usize = 8192;

/// Maximum bytes of a record's events, unless one event is larger.
const BYTES_MAX: usize = 1 << 20;

/// Appends with a key that are in flight for a topic: a group takes all of them.
const IN_FLIGHT_MAX: usize = 256;

/// Topics in a directory.
#[derive(Debug)]
pub struct DiskBroker(Handle<Directory>);

/// The broker of a log on any disk.
#[derive(Debug)]
pub(crate) struct Handle<D: Disk> {
    pub(crate) threads: Threads<D>,
    pub(crate) streams: Vec<Stream>,
    ticket_life: Option<Duration>,
}

/// Opens the topics of a directory.
///
/// # Errors
/// One sentence with the remedy.
pub async fn open(settings: &Settings) -> Result<DiskBroker, String> {
    settings.check()?;
    let directory = Directory::open(&settings.directory)?;
    let Settings { bytes: total_bytes, log_bytes, .. } = *settings;
    let bounds = Bounds { total_bytes, log_bytes, ..Bounds::default() };
    let handle = Handle::open(directory, bounds, settings);
    let path = settings.directory.display();
    handle.map(DiskBroker).map_err(|reason| format!("the data directory {path} {reason}"))
}

impl<D: Disk> Handle<D> {
    pub(crate) fn open(disk: D, bounds: Bounds, settings: &Settings) -> Result<Self, String> {
        let Settings { stores, event_bytes, ticket_life, .. } = settings;
        let opened = recovery::open(disk, bounds, stores)?;
        let streams = opened.log.with(|shared| {
            let stream = |(place, given): (usize, &StoreSettings)| {
                let store = shared.store_at(place)?;
                Some(Stream {
                    events_max: EVENTS_MAX,
                    bytes_max: BYTES_MAX.max(*event_bytes).min(bounds.wal_bytes / 4),
                    in_flight_max: IN_FLIGHT_MAX,
                    ..Stream::new(given.pattern.clone(), given.kind, store.epoch, shared.head)
                })
            };
            stores.iter().enumerate().filter_map(stream).collect()
        });
        let interval = stores.iter().filter_map(|store| match store.sync {
            SyncMode::Every(interval) => Some(interval),
            SyncMode::Always | SyncMode::Never => None,
        });
        let threads = Threads::start(opened, interval.min());
        let threads = threads.map_err(|error| {
            format!("cannot be used, because the server cannot start a thread ({error})")
        })?;
        Ok(Self { threads, streams, ticket_life: *ticket_life })
    }

    pub(crate) fn log(&self) -> &Arc<Log<D>> {
        self.threads.log()
    }

    pub(crate) async fn append(
        &self,
        append: Append,
        newest: Option<Offset>,
    ) -> Result<Stored, AppendError> {
        if append.key.as_ref().is_some_and(|key| key.len() > usize::from(u16::MAX)) {
            return Err(AppendError::Refused("the idempotency key is too long".to_owned()));
        }
        loop {
            let mut condition = None;
            if let Some(newest) = newest {
                let (in_runs, sealed) = self.newest_in_runs(&append).await?;
                condition = Some(Condition { newest, in_runs, sealed });
            }
            if self.threads.is_closed() {
                return Err(AppendError::Unavailable);
            }
            let answer =
                self.threads.request(Job::Append(append.clone(), condition), append.waited);
            match answer.await {
                Ok(Outcome::Append(answer)) => return answer,
                Ok(Outcome::Stale) => {}
                Ok(Outcome::Ticket(_)) | Err(_) => return Err(AppendError::Unknown),
            }
        }
    }

    async fn newest_in_runs(&self, append: &Append) -> Result<(Offset, Offset), AppendError> {
        let log = Arc::clone(self.log());
        let (stream, topic) = (append.stream, append.topic.clone());
        let found = tokio::task::spawn_blocking(move || {
            let epoch = log.with(|shared| shared.store_at(stream).map(|store| store.epoch));
            let range =
                ReadRange { stream, topic, epoch: epoch.ok_or(Unreadable)?, from: 0, until: 0 };
            log.newest_in_runs(&range)
        });
        found.await.unwrap_or(Err(Unreadable)).map_err(|Unreadable| AppendError::Unavailable)
    }

    pub(crate) async fn read(
        &self,
        range: ReadRange,
        is_newest: bool,
    ) -> Result<ReadPage, Unreadable> {
        let log = Arc::clone(self.log());
        let read = tokio::task::spawn_blocking(move || log.read(&range, is_newest));
        read.await.unwrap_or(Err(Unreadable))
    }

    pub(crate) async fn topics(&self, range: TopicRange) -> Result<Vec<Topic>, Unreadable> {
        let log = Arc::clone(self.log());
        let listed = tokio::task::spawn_blocking(move || log.topics(&range));
        listed.await.unwrap_or(Err(Unreadable))
    }

    /// Returns a cursor at an offset, for a server that knows the streams as they were when it started.
    pub(crate) fn cursor(&self, next: Offset, streams: &[Stream]) -> FollowCursor<D> {
        let known = streams.iter().map(|stream| (stream.epoch, stream.from));
        let known: Vec<(Epoch, Offset)> = known.collect();
        FollowCursor::new(self.log(), next, known)
    }

    pub(crate) async fn ticket(&self, job: Job) -> Result<Option<String>, TicketError> {
        match self.threads.request(job, Duration::ZERO).await {
            Ok(Outcome::Ticket(answer)) => answer,
            Ok(Outcome::Append(_) | Outcome::Stale) | Err(_) => Err(TicketError::Unknown),
        }
    }

    /// Keeps a ticket for the lifetime in the settings.
    pub(crate) async fn keep(
        &self,
        ticket: TicketDigest,
        holder: String,
    ) -> Result<(), TicketError> {
        let life = self.ticket_life.ok_or(TicketError::Unavailable)?;
        let life_ms = life.as_millis() as u64;
        self.ticket(Job::Keep(ticket.to_string(), holder, life_ms)).await.map(|_| ())
    }
}

impl Broker for DiskBroker {
    fn streams(&self) -> Vec<Stream> {
        self.0.streams.clone()
    }

    fn counts(&self) -> Arc<dyn BrokerCounts> {
        Arc::new(LogMetrics(Arc::clone(self.0.log())))
    }

    async fn append(&self, append: Append) -> Result<Stored, AppendError> {
        self.0.append(append, None).await
    }

    async fn read(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.0.read(range, false).await
    }

    async fn newest(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.0.read(range, true).await
    }

    async fn follow<F: Follower>(&self, follower: F) -> String {
        let from = self.0.streams.first().map_or(0, |stream| stream.from);
        self.0.cursor(from, &self.0.streams).follow(&follower).await
    }

    fn compare_and_set(&self) -> Option<&dyn CompareAndSet> {
        Some(self)
    }

    fn topic_index(&self) -> Option<&dyn TopicIndex> {
        Some(self)
    }

    fn tickets(&self) -> Option<&dyn Tickets> {
        self.0.ticket_life.map(|_| self as &dyn Tickets)
    }
}

impl TopicIndex for DiskBroker {
    fn topics(&self, range: TopicRange) -> BoxFuture<'_, Result<Vec<Topic>, Unreadable>> {
        Box::pin(self.0.topics(range))
    }
}

impl CompareAndSet for DiskBroker {
    fn append_after(
        &self,
        append: Append,
        newest: Offset,
    ) -> BoxFuture<'_, Result<Stored, AppendError>> {
        Box::pin(self.0.append(append, Some(newest)))
    }
}

impl Tickets for DiskBroker {
    fn keep(&self, ticket: TicketDigest, holder: String) -> BoxFuture<'_, Result<(), TicketError>> {
        Box::pin(self.0.keep(ticket, holder))
    }

    fn redeem(&self, ticket: TicketDigest) -> BoxFuture<'_, Result<Option<String>, TicketError>> {
        Box::pin(self.0.ticket(Job::Redeem(ticket.to_string())))
    }
}

/// The metrics of a log.
#[derive(Debug)]
struct LogMetrics<D>(Arc<Log<D>>);

impl<D: Disk + std::fmt::Debug> BrokerCounts for LogMetrics<D> {
    fn families(&self) -> Vec<Family> {
        let counts = &self.0.counts;
        let counter = |name, help, counter: &std::sync::atomic::AtomicU64| Family {
            name,
            help,
            value: FamilyValue::Counter(counter.load(Relaxed)),
        };
        let (bytes, all_bytes, files, age_s) = self.0.with(|shared| {
            let stores = &shared.state.stores;
            let runs = stores.iter().flat_map(|store| &store.runs);
            let oldest_ms = runs.map(|run| run.newest_ms).min().unwrap_or(shared.time_ms);
            let bytes: u64 = stores.iter().map(|store| store.run_bytes()).sum();
            let logs = stores.iter().filter(|store| !store.kind.is_state());
            let logs: u64 = logs.map(|store| store.run_bytes()).sum();
            let all_bytes = shared.fixed_bytes(&self.0.bounds) + logs;
            let age_s = shared.time_ms.saturating_sub(oldest_ms) as f64 / 1e3;
            (bytes, all_bytes, shared.unsealed().count(), age_s)
        });
        let (bounds, syncs) = counts.sync_times();
        let gauge = |name, help, value| Family { name, help, value: FamilyValue::Gauge(value) };
        let syncs = FamilyValue::Histogram {
            bounds,
            counts: syncs.buckets.to_vec(),
            sum: syncs.sum_us as f64 / 1e6,
        };
        vec![
            counter("disk_commits", "Groups written to the log on disk.", &counts.commits),
            counter("disk_written_bytes", "Bytes written to the log on disk.", &counts.written),
            counter("disk_pages", "Pages read from the log on disk.", &counts.pages),
            counter(
                "disk_refused",
                "Publishes refused because the log on disk had no room.",
                &counts.refused,
            ),
            counter("disk_damaged", "Lost parts found in the log on disk.", &counts.damaged),
            counter(
                "disk_failures",
                "Failed writes and syncs of the log on disk.",
                &counts.failures,
            ),
            Family {
                name: "disk_sync_seconds",
                help: "Time of a sync of the log on disk.",
                value: syncs,
            },
            gauge("disk_bytes", "Bytes of the directory of the log on disk.", all_bytes as f64),
            gauge(
                "disk_unsealed_files",
                "Files of the write-ahead log whose records are not in runs.",
                files as f64,
            ),
            gauge("disk_run_bytes", "Bytes of runs in the log on disk.", bytes as f64),
            gauge("disk_oldest_run_seconds", "Age of the oldest run in the log on disk.", age_s),
        ]
    }
}
