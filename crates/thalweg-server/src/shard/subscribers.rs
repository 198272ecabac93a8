//! The subscribers of a shard: a slab of connections. A connection is visited when there may be data to send
//! to it, and read when it has sent data.

mod answering;
mod connection;
mod history_query;
mod key_filters;
mod poll;
mod read_budget;
mod reading;
mod requests;
mod showing;
mod tunnels;
mod upkeep;
mod walk;

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
    task::Context,
};

use slab::Slab;
use thalweg_core::fanout::{FeedKey, Left, Scratch};
use thalweg_wire::{Close, EndCode, KeyFilter, close};

use super::{
    common::Common,
    message::MemberChange,
    session_input::SubscriberId,
    timers::Timers,
    topics::{Moved, Topics},
};
use crate::{
    access::Holder,
    answers::{AnswerAccount, Answers},
    clock::now_us,
    config::SOCKET_READ_BYTES,
    connection_limits::Address,
    metrics::{CountedTransport, Counts},
    refusal::Refusal,
    traces::Action,
};
pub(super) use connection::Connection;
use history_query::HistoryQuery;
use key_filters::KeyFilters;
use poll::{Poll, Ready};
use read_budget::ReadBudget;
use tunnels::Tunnels;

/// Connections with expired tokens that one turn closes.
const TOKEN_ENDS_PER_TURN: usize = 16;

/// Timers of tokens that a shard keeps in any case, beside two for each connection. Above this, those of connections that
/// have gone are removed.
const TOKEN_TIMERS_SPARE: usize = 1024;

pub(super) struct Subscribers {
    common: Common,
    connections: Slab<Connection>,
    /// The flags of each connection, in an array of their own: a walk reads them first, and ten thousand of
    /// them fit into the CPU's cache.
    flags: Vec<Flags>,
    /// Connections to visit, each at most once.
    dirty: VecDeque<u32>,
    /// Connections to read from.
    readable: VecDeque<u32>,
    /// The number of connections since the start.
    serials: u64,
    timers: Timers<Timer>,
    /// When tokens expire: the connection's key and serial.
    token_ends: Timers<(u32, u64)>,
    reconnects: Reconnects,
    /// Memory of WebSocket messages that are unfinished or unprocessed.
    unfinished_bytes: usize,
    answers: Answers,
    /// Accounts of subscribers whose control messages hold more than `control_bytes`.
    control_accounts: HashMap<u32, Arc<AnswerAccount>>,
    /// History queries whose answers are being sent.
    history_queries: Vec<HistoryQuery>,
    filters: KeyFilters,
    poll: Poll,
    tunnels: Tunnels,
    scratch: Scratch,
    read_buffer: Vec<u8>,
    read_budget: ReadBudget,
    heartbeat_slot: usize,
    /// When the next slot is due, in µs.
    heartbeat_due_us: u64,
    counts: Arc<Counts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A subscription's interval is over.
    Visit(u32),
    Heartbeat,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    phase: ConnectionPhase,
    /// The connection is queued for a visit.
    dirty: bool,
    /// The connection is queued for a read.
    readable: bool,
    /// Its socket is full.
    blocked: bool,
    /// The interval of its only subscription is not over, and a timer will cause the visit: batches need not.
    is_paced: bool,
    /// Something was sent to it since the last pass of the heartbeat.
    sent: bool,
    /// Its protocol expects heartbeats at a fixed interval, so they are sent even if other data was sent.
    always_beats: bool,
    /// Reading is paused, although its socket may have more data.
    read_paused: bool,
    /// The server has a part of a message from it, or data that it has not processed.
    unfinished: bool,
    /// It is closed if its client sends nothing for a while.
    has_client_timeout: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ConnectionPhase {
    #[default]
    Serving,
    /// The close was sent, and the connection waits for the peer's close.
    Closing,
    /// The peer sends no more data. The connection is read until its end.
    PeerClosed,
}

/// The reason why the server tells connections to reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReconnectReason {
    Draining,
    /// The server receives nothing from its broker. Another server may.
    CutOff,
}

/// When the server tells connections to reconnect, with the reason and the key and serial of each.
type Reconnects = Timers<(ReconnectReason, u32, u64)>;

impl ReconnectReason {
    pub(super) fn close(self) -> Close {
        match self {
            Self::Draining => close::DRAINING,
            Self::CutOff => close::CUT_OFF,
        }
    }
}

impl Subscribers {
    /// Creates a slab without connections. Fails if the kernel has no epoll left.
    pub(super) fn new(shard: usize, common: Common, counts: &Arc<Counts>) -> io::Result<Self> {
        // A connection without an id is a member by this number, also on servers that share members.
        let is_shared = common.streams.iter().any(|stream| stream.shares_keys());
        let first_serial = if is_shared { fastrand::u64(..1 << 47) } else { 0 };
        Ok(Self {
            common,
            connections: Slab::new(),
            flags: Vec::new(),
            dirty: VecDeque::new(),
            readable: VecDeque::new(),
            // No two connections of the server have the same serial number.
            serials: (shard as u64) << 48 | first_serial,
            timers: Timers::default(),
            token_ends: Timers::default(),
            reconnects: Timers::default(),
            unfinished_bytes: 0,
            answers: Answers::default(),
            control_accounts: HashMap::new(),
            history_queries: Vec::new(),
            filters: KeyFilters::default(),
            poll: Poll::new()?,
            tunnels: Tunnels::default(),
            scratch: Scratch::default(),
            read_buffer: vec![0; SOCKET_READ_BYTES],
            read_budget: ReadBudget::default(),
            heartbeat_slot: 0,
            heartbeat_due_us: 0,
            counts: Arc::clone(counts),
        })
    }

    /// Returns the filter that subscriptions with this filter share. Fails with `Busy` if there is no room for another filter.
    pub(super) fn share_filter(
        &mut self,
        filter: &Arc<KeyFilter>,
        address: Option<Address>,
    ) -> Result<Arc<KeyFilter>, Refusal> {
        self.filters.share(filter, address, now_us()).ok_or_else(|| {
            self.counts.filters_refused.add(1);
            Refusal::busy(
                "too many different filters of keys are in use: try again, or subscribe with a prefix or without key",
            )
        })
    }

    /// Returns whether a connection must be visited or read now.
    pub(super) fn has_work(&self) -> bool {
        !self.dirty.is_empty() || !self.readable.is_empty()
    }

    pub(super) fn start(&mut self, now_us: u64) {
        self.heartbeat_due_us = now_us;
        self.timers.set(now_us, Timer::Heartbeat);
    }

    /// Returns whether sockets or tunnels have become ready since the last call. If not, the task of `cx` is
    /// woken when they have. Fails if the runtime shuts down.
    pub(super) fn has_events(&self, cx: &mut Context<'_>) -> io::Result<bool> {
        // Call both, so that each registers the task: `||` would skip the second.
        let has_woken = self.tunnels.has_woken(cx);
        Ok(self.poll.has_events(cx)? || has_woken)
    }

    pub(super) fn run_timers(&mut self, now_us: u64) {
        while let Some(timer) = self.timers.take_due(now_us) {
            match timer {
                Timer::Heartbeat => self.heartbeat(now_us),
                Timer::Visit(key) => {
                    if let Some(connection) = self.connections.get_mut(key as usize) {
                        connection.timer_fired();
                        self.flags[key as usize].is_paced = false;
                        self.mark_dirty(key);
                    }
                }
            }
        }
        self.end_tokens(now_us);
        self.send_reconnects(now_us);
    }

    /// Closes connections with expired tokens, a few in each turn. Thousands may expire in the same second.
    fn end_tokens(&mut self, now_us: u64) {
        for _ in 0..TOKEN_ENDS_PER_TURN {
            let Some((key, serial)) = self.token_ends.take_due(now_us) else { return };
            let connection = self.connections.get_mut(key as usize);
            let Some(connection) = connection.filter(|found| found.serial == serial) else {
                continue;
            };
            if connection.holder.is_over(now_us) {
                self.close(key, close::EXPIRED);
            } else if connection.token_watched_us <= now_us {
                // The token was refreshed: set a timer for the new one. Later timers of earlier tokens set none.
                self.watch_token(key);
            }
        }
    }

    /// Sets a timer for the expiry of a connection's token.
    fn watch_token(&mut self, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let ends_us = connection.holder.ends_us;
        connection.token_watched_us = ends_us;
        if ends_us != u64::MAX {
            self.token_ends.set(ends_us, (key, connection.serial));
            self.remove_stale_token_timers();
        }
    }

    /// Removes the timers of connections that have gone, if they are many. Each poll is a connection, and its token may be
    /// valid for years.
    fn remove_stale_token_timers(&mut self) {
        let Self { token_ends, connections, .. } = self;
        if token_ends.len() <= 2 * connections.len() + TOKEN_TIMERS_SPARE {
            return;
        }
        // A connection needs only its earliest timer, which sets the next one.
        token_ends.retain(|at_us, &(key, serial)| {
            connections
                .get(key as usize)
                .is_some_and(|found| found.serial == serial && found.token_watched_us == at_us)
        });
    }

    /// Replaces the holder of a connection that has sent another token.
    pub(super) fn refresh(
        &mut self,
        key: u32,
        holder: Arc<Holder>,
        command_bytes_max: Option<usize>,
    ) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let is_earlier = holder.ends_us < connection.token_watched_us;
        connection.set_holder(holder, command_bytes_max);
        if is_earlier {
            self.watch_token(key);
        }
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        let next = [self.timers.next_us(), self.token_ends.next_us(), self.reconnects.next_us()];
        next.into_iter().flatten().min()
    }

    /// Takes the events of sockets, from epoll, and of tunnels. Returns whether there may be more.
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
                self.flags[key as usize].phase = ConnectionPhase::PeerClosed;
            }
            if readable {
                self.mark_readable(key);
            }
        }
        for key in self.tunnels.take() {
            let Some(connection) = self.connections.get_mut(key as usize) else { continue };
            // A tunnel also wakes the shard when data arrives from its client, which does not mean that there is
            // room to write.
            if self.flags[key as usize].blocked && connection.writer.has_room() {
                self.unblock(key);
            }
            self.mark_readable(key);
        }
        more
    }

    pub(super) fn next_serial(&mut self) -> u64 {
        self.serials += 1;
        self.serials
    }

    /// Adds a connection. Fails if its socket cannot be watched.
    pub(super) fn insert(&mut self, mut connection: Connection) -> io::Result<SubscriberId> {
        let is_piped = connection.writer.is_piped();
        let key = self.connections.vacant_key() as u32;
        match connection.writer.socket() {
            Some(socket) => self.poll.add(socket, key)?,
            None => connection.writer.watch(|| self.tunnels.waker(key)),
        }
        let (serial, always_beats) = (connection.serial, connection.always_wants_heartbeats());
        let has_client_timeout = connection.has_client_timeout();
        self.counts.polled_connections.add(u64::from(connection.is_polled()));
        let key = self.connections.insert(connection) as u32;
        if self.flags.len() <= key as usize {
            self.flags.resize(key as usize + 1, Flags::default());
        }
        // The answer to its request counts as data: a heartbeat must not come before it.
        self.flags[key as usize] =
            Flags { sent: true, always_beats, has_client_timeout, ..Flags::default() };
        self.watch_token(key);
        self.counts.connections.add(1);
        let connection = &self.connections[key as usize];
        let transport = connection.counted_transport();
        self.counts.transport(transport).add(1);
        self.common.traces.note(connection.holder.subject(), || {
            let transport = Some(CountedTransport::NAMES[transport as usize]);
            Action { transport, ..Action::new("connect").by(serial) }
        });
        self.counts.piped_connections.add(u64::from(is_piped));
        self.counts.subscribed.add(1);
        Ok(SubscriberId { key, serial })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Connection)> {
        self.connections.iter().map(|(key, connection)| (key as u32, connection))
    }

    pub(super) fn get(&self, key: u32) -> Option<&Connection> {
        self.connections.get(key as usize)
    }

    pub(super) fn at_mut(&mut self, key: u32) -> Option<&mut Connection> {
        self.connections.get_mut(key as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(super) fn get_mut(&mut self, id: SubscriberId) -> Option<&mut Connection> {
        self.connections.get_mut(id.key as usize).filter(|other| other.serial == id.serial)
    }

    /// Removes a connection whose client the server does not tell that it is closed.
    pub(super) fn cut(&mut self, topics: &mut Topics, key: u32, close: Close) {
        self.counts.count_closed(close.code);
        self.remove_because(topics, key, close.reason);
    }

    /// Removes a connection at once.
    pub(super) fn remove(&mut self, topics: &mut Topics, key: u32) {
        let Some(connection) = self.connections.get(key as usize) else { return };
        let reason = match connection.subscriber.close_code() {
            Some(code) => close::for_code(code).reason,
            None if connection.subscriber.is_of_poll() => "answered",
            None => "gone",
        };
        self.remove_because(topics, key, reason);
    }

    fn remove_because(&mut self, topics: &mut Topics, key: u32, reason: &'static str) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        connection.subscriber.leave(topics);
        // Keep the connection in the slab during this loop: when a subscription is removed from a feed's
        // list, another one of the same connection may move to its index, and must be updated.
        while let Some(left) = self.connections[key as usize].subscriber.pop() {
            self.unlist(topics, key, left);
        }
        self.forget_control(key);
        let connection = self.connections.remove(key as usize);
        self.unfinished_bytes -= connection.unfinished_bytes();
        let is_piped = connection.writer.is_piped();
        self.counts.piped_connections.sub(u64::from(is_piped));
        self.counts.polled_connections.sub(u64::from(connection.is_polled()));
        self.counts.blocked_connections.sub(u64::from(self.flags[key as usize].blocked));
        self.flags[key as usize] = Flags::default();
        self.counts.connections.sub(1);
        self.counts.transport(connection.counted_transport()).sub(1);
        self.common.traces.note(connection.holder.subject(), || Action {
            reason: Some(reason),
            ..Action::new("disconnect").by(connection.serial)
        });
    }

    /// Adds a connection to a feed's list.
    pub(super) fn join(&mut self, topics: &mut Topics, key: u32, feed: FeedKey, now_us: u64) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let format = connection.subscriber.format_of_feed(feed);
        if let Some(place) = topics.join(feed, key, format, now_us) {
            connection.subscriber.listed(feed, place);
            if let Some(presence) = topics.presence(feed) {
                self.common.traces.note(connection.holder.subject(), || {
                    feed_action("join", topics, feed, connection)
                });
                let member = connection.member(presence.of);
                topics.member_changed(feed, MemberChange::Joined(member), now_us);
            }
        }
        self.mark_dirty(key);
    }

    /// Removes a subscription that has left its topic from the feed's list.
    pub(super) fn take_left(&mut self, topics: &mut Topics, key: u32) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let Some(left) = connection.subscriber.take_left() else { return };
        self.unlist(topics, key, left);
        topics.forget_unread(left.feed);
    }

    /// Removes a subscription from a feed's list.
    fn unlist(&mut self, topics: &mut Topics, key: u32, left: Left) {
        let Left { feed, place, format } = left;
        if left.was_listed()
            && let Some(presence) = topics.presence(feed)
            && let Some(connection) = self.connections.get(key as usize)
        {
            self.common.traces.note(connection.holder.subject(), || {
                feed_action("leave", topics, feed, connection)
            });
            let left = connection.member_left(presence.of);
            topics.member_changed(feed, left, now_us());
        }
        if let Some(Moved { connection, from }) = topics.leave(feed, place, format)
            && let Some(connection) = self.connections.get_mut(connection as usize)
        {
            connection.subscriber.moved(feed, from, place);
        }
    }

    pub(super) fn end_topic(&mut self, topics: &Topics, key: u32, feed: FeedKey, code: EndCode) {
        if let Some(connection) = self.connections.get_mut(key as usize) {
            self.common.traces.note(connection.holder.subject(), || Action {
                reason: Some(code.name()),
                ..feed_action("end", topics, feed, connection)
            });
            connection.subscriber.end_topic(feed, code);
            self.mark_dirty(key);
        }
    }

    pub(super) fn close(&mut self, key: u32, close: Close) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        self.unfinished_bytes -= connection.unfinished_bytes();
        connection.close(close);
        self.flags[key as usize].unfinished = false;
        self.mark_dirty(key);
    }

    /// Unblocks a connection whose socket has room again.
    pub(super) fn unblock(&mut self, key: u32) {
        if std::mem::take(&mut self.flags[key as usize].blocked) {
            self.counts.blocked_connections.sub(1);
            self.mark_dirty(key);
        }
    }

    /// Queues a connection for a visit, unless it is queued or its socket is full.
    #[inline]
    pub(super) fn mark_dirty(&mut self, key: u32) {
        let flags = &mut self.flags[key as usize];
        if !flags.blocked && !std::mem::replace(&mut flags.dirty, true) {
            self.dirty.push_back(key);
        }
    }

    /// Queues a connection for a visit because of a batch.
    #[inline]
    pub(super) fn mark_for_batch(&mut self, key: u32) {
        if !self.flags[key as usize].is_paced {
            self.mark_dirty(key);
        }
    }

    pub(super) fn mark_readable(&mut self, key: u32) {
        if !std::mem::replace(&mut self.flags[key as usize].readable, true) {
            self.readable.push_back(key);
        }
    }
}

/// Returns the line of something that happens to a connection's subscription.
fn feed_action(
    what: &'static str,
    topics: &Topics,
    feed: FeedKey,
    connection: &Connection,
) -> Action {
    let topic = topics.topic(feed).map(ToString::to_string);
    Action { topic, ..Action::new(what).by(connection.serial) }
}
