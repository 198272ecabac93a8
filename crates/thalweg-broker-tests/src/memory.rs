//! A broker in memory, which several servers share.

mod faults;

use std::{
    collections::HashMap,
    time::{Duration, Instant, SystemTime},
};

use thalweg_broker::{
    Append, AppendError, BoxFuture, Broker, CompareAndSet, Follower, LogCursor, OFFSET_FIRST,
    ReadPage, ReadRange, RecordLog, Stored, Stream, TicketDigest, TicketError, Tickets, TopicIndex,
    TopicRange, Unreadable,
};
use thalweg_core::stream::FeedKind;
use thalweg_wire::{Epoch, Offset, Pattern, Topic};
use tokio::sync::watch;

pub use faults::{Bug, Fault, FaultyBroker, Streams};

const PAGE_RECORDS: usize = 8;

const TICKET_LIFE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Log {
    /// The pattern of each stream, and the kind of its topics.
    patterns: Vec<(Pattern, FeedKind)>,
    records: RecordLog,
    /// Servers that start now follow from this offset on.
    from: Offset,
    /// The holder of each ticket, and when the ticket expires.
    tickets: HashMap<TicketDigest, (String, Instant)>,
}

impl Log {
    fn new(patterns: Vec<(Pattern, FeedKind)>, spacing: u64, epoch: Epoch) -> Self {
        let records = RecordLog::new(epoch).with_spacing(spacing).with_page_records(PAGE_RECORDS);
        let keyed = patterns.iter().enumerate().filter(|(_, (_, kind))| kind.has_keys());
        let records = records.with_keyed(keyed.map(|(stream, _)| stream));
        Self { patterns, records, from: OFFSET_FIRST, tickets: HashMap::new() }
    }

    fn append(&mut self, append: Append, newest: Option<Offset>) -> Result<Stored, AppendError> {
        if let Some(answer) = self.records.answer(&append, newest) {
            return answer;
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let content = append.content.stored_at(now.as_nanos() as u64);
        Ok(self.records.push(Append { content, ..append }))
    }
}

#[derive(Debug)]
struct MemoryBroker {
    log: watch::Sender<Log>,
    /// The epoch when the server started.
    epoch: Epoch,
    from: Offset,
}

impl MemoryBroker {
    fn open(log: watch::Sender<Log>) -> Self {
        let (epoch, from) = {
            let log = log.borrow();
            (log.records.epoch(), log.from.max(log.records.stored_from()))
        };
        Self { log, epoch, from }
    }

    fn store(&self, append: Append, newest: Option<Offset>) -> Result<Stored, AppendError> {
        let mut result = Err(AppendError::Unavailable);
        self.log.send_modify(|log| result = log.append(append, newest));
        result
    }
}

impl Broker for MemoryBroker {
    fn streams(&self) -> Vec<Stream> {
        let stream = |(pattern, kind): &(Pattern, FeedKind)| Stream {
            in_flight_max: 16,
            ..Stream::new(pattern.clone(), *kind, self.epoch, self.from)
        };
        self.log.borrow().patterns.iter().map(stream).collect()
    }

    async fn append(&self, append: Append) -> Result<Stored, AppendError> {
        self.store(append, None)
    }

    async fn read(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.log.borrow().records.read(&range)
    }

    async fn newest(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.log.borrow().records.newest(&range)
    }

    async fn follow<F: Follower>(&self, follower: F) -> String {
        let mut changes = self.log.subscribe();
        let streams = self.streams().len();
        let mut cursor = LogCursor::new(self.epoch, self.from);
        loop {
            let news = cursor.news(&changes.borrow_and_update().records);
            if !cursor.tell(news, streams, &follower).await {
                // `self` holds the sender, so the wait cannot fail.
                let _ = changes.changed().await;
            }
        }
    }

    fn compare_and_set(&self) -> Option<&dyn CompareAndSet> {
        Some(self)
    }

    fn topic_index(&self) -> Option<&dyn TopicIndex> {
        Some(self)
    }

    fn tickets(&self) -> Option<&dyn Tickets> {
        Some(self)
    }
}

impl TopicIndex for MemoryBroker {
    fn topics(&self, range: TopicRange) -> BoxFuture<'_, Result<Vec<Topic>, Unreadable>> {
        Box::pin(async move { Ok(self.log.borrow().records.topics(range)) })
    }
}

impl CompareAndSet for MemoryBroker {
    fn append_after(
        &self,
        append: Append,
        newest: Offset,
    ) -> BoxFuture<'_, Result<Stored, AppendError>> {
        Box::pin(async move { self.store(append, Some(newest)) })
    }
}

impl Tickets for MemoryBroker {
    fn keep(&self, ticket: TicketDigest, holder: String) -> BoxFuture<'_, Result<(), TicketError>> {
        let kept = (holder, Instant::now() + TICKET_LIFE);
        self.log.send_modify(|log| _ = log.tickets.insert(ticket, kept));
        Box::pin(async { Ok(()) })
    }

    fn redeem(&self, ticket: TicketDigest) -> BoxFuture<'_, Result<Option<String>, TicketError>> {
        let mut found = None;
        self.log.send_modify(|log| found = log.tickets.remove(&ticket));
        let valid = found.filter(|(_, end)| Instant::now() < *end).map(|(holder, _)| holder);
        Box::pin(async { Ok(valid) })
    }
}
