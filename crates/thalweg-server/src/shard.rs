//! A shard: one thread with its own runtime, sockets and topics. Wiring only:
//! what is read comes from `stream`, who gets it is `fanout`'s to say, how it
//! goes out is `transport`'s.
//!
//! ```text
//! turn        the loop: hear sockets, tick sources, seal, post, walk, sleep
//! sources     what makes events by itself: its ticks, its inputs, its output
//! peers       mail in and out: batches to shards that read along
//! walk        visits to dirty connections, within budgets
//! feeds       the topics on this shard
//! demand      whether somebody wants a topic
//! home        which shard is a topic's home
//! room        how many topics there may be
//! shares      how many topics each address holds
//! mail        what shards say to each other
//! publish     events in: from requests, commands, sources and other shards
//! placed      what became of them
//! retries     publishes that may come twice
//! subscribe   a request becomes a slab entry
//! hearing     what connections say, in the order they say it
//! commands    what a client asks for
//! reading     history and topics, for who does not subscribe
//! turns       whose turn it is to read
//! answering   what a shard does about answers that clients do not take
//! upkeep      heartbeats, stalls, and giving memory back
//! poll        the shard's own epoll and timer
//! ```

mod answering;
mod commands;
mod demand;
mod feeds;
#[cfg(fuzzing)]
mod fuzzing;
mod hearing;
mod home;
mod mail;
mod peers;
mod placed;
mod poll;
mod publish;
mod reading;
mod retries;
mod room;
mod shares;
mod sources;
mod subscribe;
mod turn;
mod turns;
mod upkeep;
mod walk;

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    io,
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
};

use slab::Slab;
use thalweg_wire::Topic;
use tokio::{
    io::unix::AsyncFd,
    sync::{Notify, futures::Notified, mpsc},
};

pub(crate) use commands::{Context, Request};
#[cfg(fuzzing)]
pub(crate) use fuzzing::read_command;
pub(crate) use home::home_of;
pub(crate) use mail::{Arrival, Mail};
pub(crate) use placed::Placed;
pub(crate) use reading::{Listing, Sending};
pub(crate) use retries::{Retry, RetryHasher};
pub(crate) use shares::Shares;
pub(crate) use subscribe::{Newcomer, SubscriberId};
pub(crate) use turn::run;

use crate::{
    access::Gate,
    answers::{Answers, Holder},
    config::{Config, SOCKET_READ_BYTES},
    fanout::{FeedKey, Scratch},
    metrics::{Counts, Metrics},
    source::{Inputs, Scheduled},
    transport::Connection,
};
use feeds::FeedTable;
use hearing::Slice;
use poll::Poll;
use reading::Reading;
use retries::Retries;
use sources::Sources;
use turns::Reads;

/// What all shards of a server have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Metrics,
    /// Where each shard's mail goes.
    pub(crate) peers: Vec<Peer>,
    /// Who may do what.
    pub(crate) gate: Arc<Gate>,
    /// What sources take in, wherever they are.
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) retry_hasher: RetryHasher,
    /// Whose topics they are that only subscribers hold.
    pub(crate) shares: Arc<Shares>,
}

/// How to reach a shard.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Everything but publishes.
    pub(crate) mail: mpsc::Sender<Mail>,
    /// Publishes: bounded more tightly, because each may be large, and apart, so
    /// that publishers who wait do not make batches wait.
    pub(crate) publishes: mpsc::Sender<Mail>,
}

/// The receiving end of a [`Peer`].
#[derive(Debug)]
pub(crate) struct Letterbox {
    pub(crate) mail: mpsc::Receiver<Mail>,
    pub(crate) publishes: mpsc::Receiver<Mail>,
}

/// A shard, as the tasks on its thread share it. Nothing holds the borrow
/// across an await: each use is one synchronous step.
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) common: Common,
    pub(crate) counts: Rc<Counts>,
    shard: RefCell<Shard>,
    /// Rouses the turn after a step that made work for it.
    wake: Notify,
    draining: Cell<bool>,
    /// Ends the tasks of requests once draining.
    drain: Notify,
    /// Connections that are not subscribers' yet, or serve several.
    serving: Cell<usize>,
    /// Has reads wait for each other.
    reads: Reads,
}

struct Shard {
    id: usize,
    common: Common,
    feeds: FeedTable,
    connections: Slab<Connection>,
    /// What a walk must know of a connection before it touches it: dense, so
    /// that marking ten thousand connections dirty stays in the cache.
    flags: Vec<Flags>,
    /// Connections to visit, each at most once.
    dirty: VecDeque<u32>,
    /// Connections to read from.
    readable: VecDeque<u32>,
    /// Feeds with batches to seal now.
    due: Vec<FeedKey>,
    /// Feeds with batches that other shards have not been posted.
    unposted: Vec<FeedKey>,
    /// Feeds whose home has not been asked for them.
    unattached: Vec<FeedKey>,
    attachments: u64,
    /// A timer will have mail tried again that did not fit.
    is_again_timed: bool,
    /// Connections taken over, ever.
    serials: u64,
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    sources: Sources,
    retries: Retries,
    /// Memory of WebSocket messages that are unfinished or not heard yet.
    unfinished_bytes: usize,
    answers: Answers,
    /// Subscribers whose own frames hold more than every subscriber's may.
    own_holders: HashMap<u32, Arc<Holder>>,
    /// Reads that are being sent.
    readings: Vec<Reading>,
    /// Memory of the histories, other shards' copies included.
    history_bytes: usize,
    poll: Poll,
    scratch: Scratch,
    read_buffer: Vec<u8>,
    /// How long this turn goes on reading.
    slice: Slice,
    heartbeat_slot: usize,
    counts: Rc<Counts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Source(usize),
    Flush(FeedKey),
    /// A subscription's interval has passed.
    Visit(u32),
    Heartbeat,
    Sweep,
    /// Post and ask again what did not fit.
    Again,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// In the queue of visits.
    dirty: bool,
    /// In the queue of reads.
    readable: bool,
    /// Its socket is full.
    blocked: bool,
    /// Was sent something since the heartbeat passed by.
    sent: bool,
    /// Has more to read when it may be read again.
    unread: bool,
    /// Its peer has finished: reads go on until they say so too.
    gone: bool,
    /// Said good-bye; waits for the peer's.
    lingering: bool,
    /// Has begun a message and not finished it, or said what is not heard yet.
    unfinished: bool,
}

impl Handle {
    /// A shard; call it on its own thread, in its runtime.
    ///
    /// # Errors
    /// When the kernel has no epoll or timer left.
    pub(crate) fn new(id: usize, common: Common) -> io::Result<Rc<Self>> {
        let counts = Rc::<Counts>::default();
        let shard = Shard {
            id,
            feeds: FeedTable::new(Arc::clone(&common.config), Arc::clone(&common.shares)),
            common: common.clone(),
            connections: Slab::new(),
            flags: Vec::new(),
            dirty: VecDeque::new(),
            readable: VecDeque::new(),
            due: Vec::new(),
            unposted: Vec::new(),
            unattached: Vec::new(),
            attachments: 0,
            is_again_timed: false,
            serials: 0,
            timers: BinaryHeap::new(),
            sources: Sources::default(),
            retries: Retries::default(),
            unfinished_bytes: 0,
            answers: Answers::default(),
            own_holders: HashMap::new(),
            readings: Vec::new(),
            history_bytes: 0,
            poll: Poll::new()?,
            scratch: Scratch::default(),
            read_buffer: vec![0; SOCKET_READ_BYTES],
            slice: Slice::default(),
            heartbeat_slot: 0,
            counts: Rc::clone(&counts),
        };
        Ok(Rc::new(Self {
            id,
            common,
            counts,
            shard: RefCell::new(shard),
            wake: Notify::new(),
            draining: Cell::new(false),
            drain: Notify::new(),
            serving: Cell::new(0),
            reads: Reads::default(),
        }))
    }

    /// One synchronous step, after which the turn looks at what it left.
    fn step<T>(&self, step: impl FnOnce(&mut Shard) -> T) -> T {
        let result = step(&mut self.shard.borrow_mut());
        self.wake.notify_one();
        result
    }

    /// Puts a source to work on its output's home shard.
    pub(crate) fn start_source(&self, scheduled: Scheduled) {
        self.step(|shard| shard.start_source(scheduled));
    }

    /// Makes a topic that sources take in, on its home shard.
    pub(crate) fn keep_input(&self, topic: &Topic) {
        self.step(|shard| shard.keep_input(topic));
    }

    /// Whether it ends, and nobody new is to be served.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Until it ends.
    pub(crate) fn drain(&self) -> Notified<'_> {
        self.drain.notified()
    }

    /// Has it wait at its end for a connection, for as long as this is kept.
    pub(crate) fn serve(&self) -> Serving<'_> {
        self.serving.set(self.serving.get() + 1);
        Serving(self)
    }

    fn readiness(&self) -> io::Result<AsyncFd<OwnedFd>> {
        self.shard.borrow().poll.readiness()
    }
}

/// A connection that a shard waits for at its end.
pub(crate) struct Serving<'a>(&'a Handle);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.set(self.0.serving.get() - 1);
        self.0.wake.notify_one();
    }
}

impl Shard {
    fn is_home_of(&self, topic: &Topic) -> bool {
        home_of(topic, self.common.peers.len()) == self.id
    }

    fn set_timer(&mut self, at_us: u64, timer: Timer) {
        self.timers.push(Reverse((at_us, timer)));
    }

    fn mark_dirty(&mut self, key: u32) {
        if self.flags[key as usize].begin_dirty() {
            self.dirty.push_back(key);
        }
    }

    fn mark_readable(&mut self, key: u32) {
        if !std::mem::replace(&mut self.flags[key as usize].readable, true) {
            self.readable.push_back(key);
        }
    }

    /// Something is due to all who read a feed.
    fn mark_subscribers(&mut self, key: FeedKey) {
        let Some(feed) = self.feeds.get(key) else { return };
        if feed.is_input {
            self.sources.has_input(key);
        }
        for connection in &feed.subscribers {
            if self.flags[*connection as usize].begin_dirty() {
                self.dirty.push_back(*connection);
            }
        }
    }
}

impl Flags {
    /// Marks it dirty; `true` if it is to be queued for that: it was not, and its
    /// socket takes something.
    fn begin_dirty(&mut self) -> bool {
        !self.blocked && !std::mem::replace(&mut self.dirty, true)
    }
}
