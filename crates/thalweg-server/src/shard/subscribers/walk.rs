use std::io::IoSlice;

use smallvec::SmallVec;
use thalweg_core::fanout::{AtOnce, Budget, Delivered, Feeds, Sent, Sink, Step};
use thalweg_wire::close;

use super::{ConnectionPhase, Subscribers, Timer, connection::Connection};
use crate::{clock::now_us, metrics::Counts, shard::topics::Topics, transport::Writer};

/// Visits between two readings of the clock.
const VISITS_PER_LOOK: usize = 16;

/// Connections that keep up, and the bytes that are due to each.
type Together<'f> = SmallVec<[(u32, AtOnce<'f>); VISITS_PER_LOOK]>;

type Sends = SmallVec<[(u32, Step, Sent); VISITS_PER_LOOK]>;

impl Subscribers {
    /// Runs one slice of the walk: visits dirty connections, each once, until the slice's time is over. Batches that
    /// are sealed between two slices are sent with the next slice.
    pub(in crate::shard) fn walk(&mut self, topics: &mut Topics) {
        let start_us = now_us();
        let end_us = start_us + self.common.config.limits.delivery_slice.as_micros() as u64;
        let mut look_us = start_us;
        let mut visits = 0;
        while !self.dirty.is_empty() {
            let (visited, is_long) = self.visit_some(topics, look_us);
            visits += visited;
            if is_long || visits >= VISITS_PER_LOOK {
                visits = 0;
                look_us = now_us();
                if look_us >= end_us {
                    break;
                }
            }
        }
    }

    /// Sends together to the connections at the front of the queue that keep up, which get about as many bytes in
    /// total as one visit may send. Then visits the first that does not keep up. Returns the number of visits, and whether
    /// they may have taken long.
    #[inline]
    fn visit_some(&mut self, topics: &mut Topics, now_us: u64) -> (usize, bool) {
        let bytes_max = self.common.config.limits.visit_bytes;
        let mut due = Together::new();
        let mut bytes = 0;
        let mut other = None;
        while due.len() < VISITS_PER_LOOK
            && bytes < bytes_max
            && let Some(key) = self.dirty.pop_front()
        {
            let Some(at_once) = self.due_at_once(topics, key, now_us) else {
                other = Some(key);
                break;
            };
            self.flags[key as usize].dirty = false;
            bytes += at_once.bytes.len();
            due.push((key, at_once));
        }
        let sent = self.send_together(due);
        let mut is_long = bytes >= bytes_max;
        for (key, step, sent) in &sent {
            is_long |= self.sent_at_once(topics, *key, *step, *sent, now_us);
        }
        is_long |= other.is_some_and(|key| self.visit(topics, key, now_us));
        (sent.len() + usize::from(other.is_some()), is_long)
    }

    /// Returns the bytes that are due to a queued connection, if one send completes its visit.
    #[inline]
    fn due_at_once<'f>(&self, feeds: &'f impl Feeds, key: u32, now_us: u64) -> Option<AtOnce<'f>> {
        let (connection, flags) = (self.connections.get(key as usize)?, &self.flags[key as usize]);
        let is_plain = flags.dirty
            && flags.phase == ConnectionPhase::Serving
            && !flags.read_paused
            && connection.has_nothing_pending();
        is_plain.then(|| connection.subscriber.due_at_once(feeds, now_us)).flatten()
    }

    /// Sends to each connection. No other code runs between two sends, because it would evict the kernel's code from the cache.
    #[inline]
    fn send_together(&mut self, due: Together<'_>) -> Sends {
        let mut bytes = 0;
        let mut sends = Sends::new();
        // With `collect` the compiler makes the send a function of its own, and fan-out takes about 4 % more CPU
        // (`loop-fanout` against `final-fanout` in lab/runs/README.md).
        for (key, AtOnce { bytes: slice, step }) in due {
            let sent = self.connections[key as usize].writer.send(&[IoSlice::new(slice)]);
            if let Sent::Bytes(taken) = sent {
                bytes += taken as u64;
            }
            sends.push((key, step, sent));
        }
        self.counts.visits.add(sends.len() as u64);
        self.counts.sends.add(sends.len() as u64);
        self.counts.sent_bytes.add(bytes);
        sends
    }

    /// Moves a connection's cursor after a send. Returns whether its socket is full.
    #[inline]
    fn sent_at_once(
        &mut self,
        topics: &mut Topics,
        key: u32,
        step: Step,
        sent: Sent,
        now_us: u64,
    ) -> bool {
        self.flags[key as usize].sent |= matches!(sent, Sent::Bytes(1..));
        let subscriber = &mut self.connections[key as usize].subscriber;
        match subscriber.sent_at_once(topics, step, sent, now_us) {
            Delivered::Gone => self.remove(topics, key),
            Delivered::Full => {
                self.counts.full_sends.add(1);
                self.block(topics, key, now_us);
                return true;
            }
            Delivered::CaughtUp(_) | Delivered::More | Delivered::Closed => {}
        }
        false
    }

    /// Visits all dirty connections once, however long that takes.
    pub(in crate::shard) fn walk_round(&mut self, topics: &mut Topics) {
        for _ in 0..self.dirty.len() {
            if let Some(key) = self.dirty.pop_front() {
                self.visit(topics, key, now_us());
            }
        }
    }

    /// Ends a long poll whose client can learn a later position, although there are no events for it.
    pub(in crate::shard) fn tell_positions(&mut self, topics: &mut Topics, key: u32) {
        let connection = self.connections.get_mut(key as usize);
        if connection.is_some_and(|connection| connection.subscriber.tell_positions()) {
            self.mark_dirty(key);
            self.visit(topics, key, now_us());
        }
    }

    /// Visits one connection. Returns whether that may have taken long. It is not inlined, so that the loop over
    /// connections that keep up, which are most, stays small.
    #[inline(never)]
    fn visit(&mut self, topics: &mut Topics, key: u32, now_us: u64) -> bool {
        let Some(connection) = self.connections.get_mut(key as usize) else { return false };
        let flags = &mut self.flags[key as usize];
        // The connection of a queued key may be gone, and the key may belong to another one.
        if !std::mem::take(&mut flags.dirty) || flags.phase.is_over(connection) {
            return false;
        }
        let sent_before = self.counts.sent_bytes.get();
        self.counts.visits.add(1);
        if !connection.writer.flush() {
            self.block(topics, key, now_us);
            return false;
        }
        let mut sink = Counting { writer: &mut connection.writer, counts: &self.counts };
        let budget = Budget { socket_bytes: self.common.config.limits.visit_bytes };
        let delivered =
            connection.subscriber.deliver(topics, &mut sink, now_us, budget, &mut self.scratch);
        for (feed, from) in self.scratch.take_backfills() {
            topics.want_backfill(feed, from, Some(key));
        }
        let sent = self.counts.sent_bytes.get() - sent_before;
        flags.sent |= sent > 0;
        let is_read_again = flags.read_paused && connection.may_be_read(&self.common.config.limits);
        flags.read_paused &= !is_read_again;
        connection.moved(sent as usize);
        flags.is_paced = matches!(delivered, Delivered::CaughtUp(Some(_)))
            && connection.subscriber.feeds().count() == 1;
        if let Delivered::CaughtUp(due_us) = delivered
            && let Some(due_us) = due_us.into_iter().chain(connection.subscriber.tells_us()).min()
            && connection.wants_timer(due_us)
        {
            self.timers.set(due_us, Timer::Visit(key));
        }
        // Bytes that still wait in the writer count as a full socket.
        let waits = !connection.writer.flush();
        if !waits && delivered != Delivered::Full {
            connection.clear_pending();
        }
        if !self.control_accounts.is_empty() {
            self.count_control(key, sent as usize);
        }
        // A connection that ends needs this too, because the feeds that it left are not among those that it reads.
        self.take_left(topics, key);
        match delivered {
            Delivered::Gone => {
                self.remove(topics, key);
                return false;
            }
            Delivered::Full => {
                self.counts.full_sends.add(1);
                self.block(topics, key, now_us);
            }
            _ if waits => self.block(topics, key, now_us),
            Delivered::Closed => {
                self.finish(topics, key, now_us);
                return false;
            }
            Delivered::More => self.mark_dirty(key),
            Delivered::CaughtUp(_) => {}
        }
        if is_read_again {
            self.mark_readable(key);
        }
        matches!(delivered, Delivered::More | Delivered::Full)
    }

    /// Marks a connection as blocked: its writer is full until its peer has read. The write timeout begins again.
    fn block(&mut self, topics: &Topics, key: u32, now_us: u64) {
        self.connections[key as usize].block(topics, now_us);
        if !std::mem::replace(&mut self.flags[key as usize].blocked, true) {
            self.counts.blocked_connections.add(1);
        }
    }

    /// Finishes a connection after everything was sent: waits for the peer's close, or removes the connection at once.
    fn finish(&mut self, topics: &mut Topics, key: u32, now_us: u64) {
        let connection = &mut self.connections[key as usize];
        if let Some(code) = connection.subscriber.close_code() {
            self.counts.count_closed(code);
            if code == close::CUT_OFF.code {
                connection.writer.retire();
            }
        }
        if !connection.writer.finish() {
            return self.remove(topics, key);
        }
        connection.stalled_us = now_us;
        let phase = &mut self.flags[key as usize].phase;
        if *phase == ConnectionPhase::Serving {
            *phase = ConnectionPhase::Closing;
        }
    }
}

impl ConnectionPhase {
    /// Returns whether the close was sent, after which no data may follow.
    pub(super) fn is_over(self, connection: &Connection) -> bool {
        match self {
            Self::Serving => false,
            Self::Closing => true,
            Self::PeerClosed => connection.subscriber.is_close_sent(),
        }
    }
}

/// A writer that counts its sends.
struct Counting<'a> {
    writer: &'a mut Writer,
    counts: &'a Counts,
}

impl Sink for Counting<'_> {
    fn send(&mut self, slices: &[std::io::IoSlice<'_>]) -> Sent {
        let sent = self.writer.send(slices);
        self.counts.sends.add(1);
        if let Sent::Bytes(bytes) = sent {
            self.counts.sent_bytes.add(bytes as u64);
        }
        sent
    }
}
