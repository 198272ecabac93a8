//! The subscribers of a shard: a slab of connections. Each is visited when something is due to
//! it, and read when it has sent something.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
};

use slab::Slab;
use thalweg_wire::{Close, EndCode, Format, close};

use super::{
    Common,
    goodbyes::Goodbyes,
    history_query::HistoryQuery,
    local_topic::Moved,
    poll::{Poll, Ready},
    slice::Slice,
    timers::Timers,
    topics::Topics,
};
use crate::{
    access::Holder,
    answers::{AnswerAccount, Answers},
    config::SOCKET_READ_BYTES,
    metrics::Counts,
    transport::Connection,
};
use thalweg_core::fanout::{FeedKey, Scratch};

/// Connections whose tokens have ended that are closed in one turn.
const TOKEN_ENDS_PER_TURN: usize = 16;

pub(super) struct Subscribers {
    pub(super) common: Common,
    pub(super) connections: Slab<Connection>,
    /// What a walk must know about a connection before it touches it. It is small, so that
    /// marking ten thousand connections dirty stays in the cache.
    pub(super) flags: Vec<Flags>,
    /// Connections to visit, each at most once.
    pub(super) dirty: VecDeque<u32>,
    /// Connections to read from.
    pub(super) readable: VecDeque<u32>,
    /// Connections taken over since the start.
    serials: u64,
    pub(super) timers: Timers<Timer>,
    /// When tokens end: the connection's place, and its serial.
    token_ends: Timers<(u32, u64)>,
    /// When connections are told to reconnect.
    pub(super) goodbyes: Goodbyes,
    /// Memory of WebSocket messages that are unfinished or not processed yet.
    pub(super) unfinished_bytes: usize,
    pub(super) answers: Answers,
    /// Subscribers whose control messages hold more than `control_bytes`.
    pub(super) control_accounts: HashMap<u32, Arc<AnswerAccount>>,
    /// Histories that are being sent.
    pub(super) history_queries: Vec<HistoryQuery>,
    pub(super) poll: Poll,
    pub(super) scratch: Scratch,
    pub(super) read_buffer: Vec<u8>,
    /// The time that this turn may still spend on reading.
    pub(super) slice: Slice,
    pub(super) heartbeat_slot: usize,
    pub(super) counts: Arc<Counts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A subscription's interval has passed.
    Visit(u32),
    Heartbeat,
}

/// Identifies a subscriber. A later one in the same place of the slab has another id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubscriberId {
    pub(super) key: u32,
    pub(super) serial: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) phase: Phase,
    /// In the queue of visits.
    pub(super) dirty: bool,
    /// In the queue of reads.
    pub(super) readable: bool,
    /// Its socket is full.
    pub(super) blocked: bool,
    /// Something was sent to it since the last pass of the heartbeat.
    pub(super) sent: bool,
    /// There is more to read when it may be read again.
    pub(super) read_paused: bool,
    /// It has sent a part of a message, or something that is not processed yet.
    pub(super) unfinished: bool,
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Serving,
    /// The close was sent. Waits for the peer's close.
    Closing,
    /// Its peer sends no more: it is read until its end.
    PeerClosed,
}

impl Subscribers {
    /// # Errors
    /// When the kernel has no epoll or timer left.
    pub(super) fn new(common: Common, counts: &Arc<Counts>) -> io::Result<Self> {
        Ok(Self {
            common,
            connections: Slab::new(),
            flags: Vec::new(),
            dirty: VecDeque::new(),
            readable: VecDeque::new(),
            serials: 0,
            timers: Timers::default(),
            token_ends: Timers::default(),
            goodbyes: Timers::default(),
            unfinished_bytes: 0,
            answers: Answers::default(),
            control_accounts: HashMap::new(),
            history_queries: Vec::new(),
            poll: Poll::new()?,
            scratch: Scratch::default(),
            read_buffer: vec![0; SOCKET_READ_BYTES],
            slice: Slice::default(),
            heartbeat_slot: 0,
            counts: Arc::clone(counts),
        })
    }

    /// Whether some must be visited or read at once.
    pub(super) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.readable.is_empty()
    }

    /// Does what is due by time.
    pub(super) fn run_timers(&mut self, now_us: u64) {
        while let Some(timer) = self.timers.take_due(now_us) {
            match timer {
                Timer::Heartbeat => self.heartbeat(now_us),
                Timer::Visit(key) => {
                    if let Some(connection) = self.connections.get_mut(key as usize) {
                        connection.timer_fired();
                        self.mark_dirty(key);
                    }
                }
            }
        }
    }

    /// Closes those whose tokens have ended, a few in each turn: thousands may end in the same second.
    pub(super) fn end_tokens(&mut self, now_us: u64) {
        for _ in 0..TOKEN_ENDS_PER_TURN {
            let Some((key, serial)) = self.token_ends.take_due(now_us) else { return };
            let connection = self.connections.get_mut(key as usize);
            let Some(connection) = connection.filter(|it| it.serial == serial) else { continue };
            if connection.holder.is_over(now_us) {
                self.close(key, close::EXPIRED);
            } else {
                // It has another one.
                self.watch_token(key);
            }
        }
    }

    /// Looks at a connection again when its token ends.
    fn watch_token(&mut self, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let ends_us = connection.holder.ends_us;
        if ends_us != u64::MAX {
            connection.token_watched_us = ends_us;
            self.token_ends.set(ends_us, (key, connection.serial));
        }
    }

    /// Gives a connection another token in place of its own.
    pub(super) fn refresh(&mut self, key: u32, holder: Arc<Holder>, may_publish: bool) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let is_earlier = holder.ends_us < connection.token_watched_us;
        connection.holder = holder;
        connection.may_publish = may_publish;
        if is_earlier {
            self.watch_token(key);
        }
    }

    /// When something is due by time.
    pub(super) fn next_us(&self) -> Option<u64> {
        let next = [self.timers.next_us(), self.token_ends.next_us(), self.goodbyes.next_us()];
        next.into_iter().flatten().min()
    }

    /// Takes the events of the sockets from epoll; `true` if there may be more.
    pub(super) fn take_ready(&mut self) -> bool {
        let mut ready = Vec::new();
        let more = self.poll.take(&mut ready);
        for Ready { key, readable, writable, gone } in ready {
            if !self.connections.contains(key as usize) {
                continue;
            }
            if writable {
                self.unblock(key);
            }
            if gone {
                self.flags[key as usize].phase = Phase::PeerClosed;
            }
            if readable {
                self.mark_readable(key);
            }
        }
        more
    }

    /// A new number for a connection.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// Serves one more connection.
    ///
    /// # Errors
    /// When its socket cannot be watched.
    pub(super) fn insert(&mut self, connection: Connection) -> io::Result<SubscriberId> {
        let is_piped = connection.writer.socket().is_none();
        if let Some(socket) = connection.writer.socket() {
            self.poll.add(socket, self.connections.vacant_key() as u32)?;
        }
        let serial = connection.serial;
        let key = self.connections.insert(connection) as u32;
        if self.flags.len() <= key as usize {
            self.flags.resize(key as usize + 1, Flags::default());
        }
        self.flags[key as usize] = Flags::default();
        self.watch_token(key);
        self.counts.connections.add(1);
        self.counts.piped_connections.add(u64::from(is_piped));
        self.counts.subscribed.add(1);
        Ok(SubscriberId { key, serial })
    }

    /// A subscriber's connection, if it is still there.
    pub(super) fn get_mut(&mut self, id: SubscriberId) -> Option<&mut Connection> {
        self.connections.get_mut(id.key as usize).filter(|other| other.serial == id.serial)
    }

    /// Ends a connection at once.
    pub(super) fn remove(&mut self, topics: &mut Topics, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let format = connection.subscriber.format();
        connection.subscriber.leave(&mut topics.feeds);
        // The connection is still in the slab: another of its subscriptions may move to the
        // place of the removed one.
        while let Some((feed, place)) = self.connections[key as usize].subscriber.pop() {
            self.unlist(topics, feed, place, format);
        }
        self.forget_control(key);
        let connection = self.connections.remove(key as usize);
        self.unfinished_bytes -= connection.unfinished_bytes();
        let is_piped = connection.writer.socket().is_none();
        self.counts.piped_connections.sub(u64::from(is_piped));
        self.counts.blocked_connections.sub(u64::from(self.flags[key as usize].blocked));
        self.flags[key as usize] = Flags::default();
        self.counts.connections.sub(1);
    }

    /// A connection begins to read a feed.
    pub(super) fn join(&mut self, topics: &mut Topics, key: u32, feed: FeedKey, now_us: u64) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        if let Some(place) = topics.join(feed, key, connection.subscriber.format(), now_us) {
            connection.subscriber.listed(feed, place);
        }
        self.mark_dirty(key);
    }

    /// Removes a subscription that has left from its feed's list.
    pub(super) fn take_left(&mut self, topics: &mut Topics, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let Some((feed, place)) = connection.subscriber.take_left() else { return };
        let format = connection.subscriber.format();
        self.unlist(topics, feed, place, format);
        topics.forget_unread(feed);
    }

    /// Removes a subscription from a feed's list.
    fn unlist(&mut self, topics: &mut Topics, feed: FeedKey, place: u32, format: Format) {
        if let Some(Moved { connection, from }) = topics.leave(feed, place, format)
            && let Some(connection) = self.connections.get_mut(connection as usize)
        {
            connection.subscriber.moved(feed, from, place);
        }
    }

    /// A topic that a connection reads has ended.
    pub(super) fn end_topic(&mut self, key: u32, feed: FeedKey, code: EndCode) {
        if let Some(connection) = self.connections.get_mut(key as usize) {
            connection.subscriber.end_topic(feed, code);
            self.mark_dirty(key);
        }
    }

    /// Closes a connection with a close message.
    pub(super) fn close(&mut self, key: u32, close: Close) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        self.unfinished_bytes -= connection.unfinished_bytes();
        connection.close(close);
        self.flags[key as usize].unfinished = false;
        self.mark_dirty(key);
    }

    /// Its socket drained.
    pub(super) fn unblock(&mut self, key: u32) {
        if std::mem::take(&mut self.flags[key as usize].blocked) {
            self.counts.blocked_connections.sub(1);
            self.mark_dirty(key);
        }
    }

    /// Something is due to a connection: queues it for a visit, unless it is queued already or
    /// its socket is full.
    #[inline]
    pub(super) fn mark_dirty(&mut self, key: u32) {
        let flags = &mut self.flags[key as usize];
        if !flags.blocked && !std::mem::replace(&mut flags.dirty, true) {
            self.dirty.push_back(key);
        }
    }

    pub(super) fn mark_readable(&mut self, key: u32) {
        if !std::mem::replace(&mut self.flags[key as usize].readable, true) {
            self.readable.push_back(key);
        }
    }
}
