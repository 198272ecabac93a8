//! A backend in memory, which several servers share.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Instant,
};

use thalweg_server::backend::{
    Backend, BackendCounts, Content, EVENTS_MAX, Family, FamilyValue, Link, Read, ReadPage, Store,
    StoreError, Stored, Stream, TICKET_LIFE, TicketDigest, TicketError, TicketRequest, Unreadable,
    offset_of,
};
use thalweg_wire::{Epoch, Pattern, Topic};
use tokio::sync::watch;

use crate::running::{Running, wait_for};

/// Messages that are read at a time.
const PAGE_MESSAGES: usize = 8;

/// What goes wrong with a message to store.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Unavailable,
    /// It is stored, and nobody is told.
    Unknown,
    /// Whoever has to answer panics.
    Panic,
}

/// Streams that live as long as the test.
#[derive(Clone)]
pub(crate) struct Streams {
    shared: Arc<Mutex<Shared>>,
    /// Raised when something was stored.
    changes: watch::Sender<u64>,
}

struct Shared {
    /// Whether each has value topics.
    patterns: Vec<(Pattern, bool)>,
    epoch: u64,
    is_ready: bool,
    /// Which stream, in the order of all; the sequence number is the place, from 1.
    messages: Vec<(usize, Topic, Content)>,
    /// Older messages are gone.
    first_sequence: u64,
    /// Where new servers begin.
    from_sequence: u64,
    /// Pages that were read.
    reads: usize,
    keys: HashMap<(Topic, Vec<u8>), (u64, Vec<u8>)>,
    faults: VecDeque<Fault>,
    /// Whose each is, and when it expires.
    tickets: HashMap<TicketDigest, (String, Instant)>,
    /// Nothing is known of them now.
    has_lost_tickets: bool,
}

impl Streams {
    /// Streams of the topics of these patterns: value topics where one begins with `=`.
    pub(crate) fn new(patterns: &[&str]) -> Self {
        let pattern = |text: &&str| {
            let plain = text.strip_prefix('=');
            (plain.unwrap_or(text).parse().expect("a pattern"), plain.is_some())
        };
        let shared = Shared {
            patterns: patterns.iter().map(pattern).collect(),
            epoch: 0x9f,
            is_ready: true,
            messages: Vec::new(),
            first_sequence: 1,
            from_sequence: 1,
            reads: 0,
            keys: HashMap::new(),
            faults: VecDeque::new(),
            tickets: HashMap::new(),
            has_lost_tickets: false,
        };
        Self { shared: Arc::new(Mutex::new(shared)), changes: watch::Sender::new(0) }
    }

    pub(crate) fn backend(&self) -> Box<dyn Backend> {
        Box::new(Memory(self.clone()))
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.lock().is_ready = is_ready;
        self.changed();
    }

    /// Servers that start from now on are brought only what is stored from now on.
    pub(crate) fn forget_for_new(&self) {
        let mut shared = self.lock();
        shared.from_sequence = shared.messages.len() as u64 + 1;
    }

    /// Time goes by: the oldest messages go.
    pub(crate) fn expire(&self, messages: u64) {
        self.lock().first_sequence += messages;
    }

    /// Tickets that are not used yet.
    pub(crate) fn tickets(&self) -> usize {
        self.lock().tickets.len()
    }

    /// The tickets cannot be reached any more, or again.
    pub(crate) fn lose_tickets(&self, are_lost: bool) {
        self.lock().has_lost_tickets = are_lost;
    }

    /// How often something was read.
    pub(crate) fn reads(&self) -> usize {
        self.lock().reads
    }

    /// All is lost, and begins again.
    pub(crate) fn restart(&self) {
        let mut shared = self.lock();
        shared.epoch += 1;
        shared.messages.clear();
        drop(shared);
        self.changed();
    }

    /// Waits until so many subscribers are at all of these nodes together.
    pub(crate) fn until_subscribed(&self, nodes: &[Running], count: usize) {
        let of_line = |line: &str| line.rsplit(' ').next().and_then(|it| it.parse::<usize>().ok());
        let at = |node: &Running| -> usize {
            let metrics = node.get("/metrics", &[]);
            let lines =
                metrics.text().lines().filter(|it| it.starts_with("thalweg_subscribed_total{"));
            lines.filter_map(of_line).sum()
        };
        wait_for(&format!("{count} subscribers"), || {
            (nodes.iter().map(at).sum::<usize>() >= count).then_some(())
        });
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no test fails holding it")
    }

    /// Whether the next answer is one that panics.
    fn take_panic(&self) -> bool {
        let faults = &mut self.lock().faults;
        let is_next = matches!(faults.front(), Some(Fault::Panic));
        if is_next {
            faults.pop_front();
        }
        is_next
    }

    fn changed(&self) {
        self.changes.send_modify(|change| *change += 1);
    }

    fn read(&self, read: &Read) -> Result<ReadPage, Unreadable> {
        let mut shared = self.lock();
        shared.reads += 1;
        let first_sequence = shared.first_sequence;
        let first = (read.from / EVENTS_MAX as u64).max(first_sequence);
        let last_sequence = shared.messages.len() as u64;
        let (_, has_values) = shared.patterns[read.stream];
        let until = read.until.div_ceil(EVENTS_MAX as u64);
        let range = first..if has_values { last_sequence + 1 } else { until };
        let (mut messages, mut pauses, mut ended_at) = (Vec::new(), Vec::new(), None);
        let its = (1..).zip(&shared.messages).filter(|(_, (_, topic, _))| *topic == read.topic);
        for (sequence, (.., content)) in its.filter(|(sequence, _)| range.contains(sequence)) {
            match content {
                Content::Events(payloads) => {
                    if has_values {
                        messages.clear();
                    }
                    if offset_of(sequence, payloads.count()) > read.from {
                        messages.push((sequence, payloads.clone()));
                    }
                }
                Content::Paused(ms) => pauses.push((sequence, *ms)),
                Content::End(_) => {
                    messages.clear();
                    pauses.clear();
                    ended_at = Some(sequence);
                }
            }
        }
        let is_whole = messages.len() <= PAGE_MESSAGES;
        messages.truncate(PAGE_MESSAGES);
        if read.from > read.until {
            messages.clear();
        }
        Ok(ReadPage { messages, pauses, is_whole, first_sequence, ended_at, last_sequence })
    }

    fn answer_ticket(&self, request: TicketRequest) {
        let mut shared = self.lock();
        let lost = shared.has_lost_tickets.then_some(TicketError::Unavailable);
        match request {
            TicketRequest::Keep { ticket, holder, reply } => {
                let kept = lost.map_or(Ok(()), Err);
                if kept.is_ok() {
                    shared.tickets.insert(ticket, (holder, Instant::now() + TICKET_LIFE));
                }
                reply.send(kept);
            }
            TicketRequest::Redeem { reply, .. } if lost.is_some() => {
                reply.send(Err(TicketError::Unknown));
            }
            TicketRequest::Redeem { ticket, reply } => {
                let found = shared.tickets.remove(&ticket);
                let valid = found.filter(|(_, end)| Instant::now() < *end);
                reply.send(Ok(valid.map(|(holder, _)| holder)));
            }
        }
    }

    fn store(&self, store: &Store) -> Result<Stored, StoreError> {
        let mut shared = self.lock();
        let fault = shared.faults.pop_front();
        if let Some(Fault::Unavailable) = fault {
            return Err(StoreError::Unavailable);
        }
        let epoch = shared.epoch();
        let body = match &store.content {
            Content::Events(payloads) => payloads.joined().to_vec(),
            Content::Paused(_) | Content::End(_) => Vec::new(),
        };
        let key = store.key.as_ref().map(|key| (store.topic.clone(), key.to_bytes()));
        if let Some((sequence, known)) = key.as_ref().and_then(|key| shared.keys.get(key)) {
            let stored = Stored { epoch, sequence: *sequence, is_repetition: true };
            return if *known == body { Ok(stored) } else { Err(StoreError::KeyReused) };
        }
        let Store { stream, topic, content, after, .. } = store;
        let newest = shared.messages.iter().rposition(|(_, of, _)| of == topic);
        let newest = newest.map_or(0, |place| place as u64 + 1);
        if after.is_some_and(|after| after != newest) {
            return Err(StoreError::Outdated(Some(newest)));
        }
        shared.messages.push((*stream, topic.clone(), content.clone()));
        let sequence = shared.messages.len() as u64;
        shared.keys.extend(key.map(|key| (key, (sequence, body))));
        drop(shared);
        self.changed();
        match fault {
            Some(_) => Err(StoreError::Unknown),
            None => Ok(Stored { epoch, sequence, is_repetition: false }),
        }
    }
}

impl Shared {
    fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch).expect("not 0")
    }
}

#[derive(Debug)]
struct NoCounts;

impl BackendCounts for NoCounts {
    fn families(&self) -> Vec<Family> {
        let bounds = vec![0.001, 0.01];
        let value = FamilyValue::Histogram { bounds, counts: vec![1, 2, 3], sum: 0.5 };
        vec![Family { name: "memory_seconds", help: "A histogram.", value }]
    }
}

/// One server's end.
struct Memory(Streams);

impl Backend for Memory {
    fn streams(&self) -> Vec<Stream> {
        let shared = self.0.lock();
        let epoch = shared.epoch();
        let stream = |(pattern, has_values): &(Pattern, bool)| Stream {
            pattern: pattern.clone(),
            has_values: *has_values,
            epoch,
            from_sequence: shared.from_sequence,
            message_bytes_max: 100_000,
        };
        shared.patterns.iter().map(stream).collect()
    }

    fn counts(&self) -> Arc<dyn BackendCounts> {
        Arc::new(NoCounts)
    }

    fn run(self: Box<Self>, link: Link) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let Link { mut stores, mut reads, mut tickets, shards, readiness } = link;
        let mut changes = self.0.changes.subscribe();
        let (mut brought, mut epoch) = {
            let shared = self.0.lock();
            (shared.from_sequence as usize - 1, shared.epoch)
        };
        runtime.block_on(async {
            tokio::spawn(shards.clone().send_waiting());
            loop {
                let (new, now, patterns) = {
                    let shared = self.0.lock();
                    readiness.set(shared.is_ready);
                    let new = shared.messages.get(brought..).unwrap_or_default().to_vec();
                    (new, shared.epoch, shared.patterns.len())
                };
                if now != epoch {
                    (epoch, brought) = (now, 0);
                    for stream in 0..patterns {
                        let epoch = Epoch::new(epoch).expect("not 0");
                        shards.restarted(stream, epoch, 1).await;
                    }
                    continue;
                }
                for (stream, topic, content) in new {
                    brought += 1;
                    shards.message(stream, brought as u64, topic, content).await;
                }
                tokio::select! {
                    store = stores.recv() => match store {
                        Some(store) => match self.0.take_panic() {
                            true => drop(tokio::spawn(async move {
                                let _store = store;
                                panic!("as the test wants it");
                            })),
                            false => {
                                let result = self.0.store(&store);
                                store.reply.send(result);
                            }
                        },
                        None => return Ok(()),
                    },
                    Some(read) = reads.recv() => match self.0.take_panic() {
                        true => drop(tokio::spawn(async move {
                            let _read = read;
                            panic!("as the test wants it");
                        })),
                        false => {
                            let page = self.0.read(&read);
                            read.reply.send(page);
                        }
                    },
                    Some(request) = tickets.recv() => self.0.answer_ticket(request),
                    _ = changes.changed() => {}
                }
            }
        })
    }
}
