use std::collections::VecDeque;

use fastrand::Rng;
use thalweg_server::fanout::{Budget, Delivered, Scratch, Subscribe, Subscriber};
use thalweg_wire::{Close, Framing};

use super::{
    conditions::{Conditions, magnitude},
    oracle::{Heard, Oracle, Own, Visit},
    shard::Shard,
    socket::Socket,
};

/// A subscriber, the socket it writes to, and who reads at the other end.
pub(super) struct Connection {
    pub(super) shard: usize,
    subscriber: Subscriber,
    socket: Socket,
    oracle: Oracle,
    /// Heard as far as the socket has taken it, not yet read by the peer.
    under_way: VecDeque<Heard>,
    /// Bytes read by the peer.
    read: u64,
    /// Bytes it reads at a time, at most.
    pace_bytes: usize,
    stalled_until_us: u64,
    /// Whether something happened that calls for a visit.
    is_dirty: bool,
    wake_us: Option<u64>,
    own_count: u64,
}

impl Connection {
    pub(super) fn new(
        shard: usize,
        framing: Framing,
        subscribe: &[Subscribe],
        conditions: &Conditions,
        rng: &mut Rng,
    ) -> Self {
        let head = if rng.bool() { "HTTP/1.1 200 OK\r\n\r\n" } else { "" }.as_bytes();
        let capacity = 1 + magnitude(rng, conditions.socket_bytes_max);
        Self {
            shard,
            subscriber: Subscriber::new(framing, head, subscribe),
            socket: Socket::new(capacity, rng.fork()),
            oracle: Oracle::new(framing, head, subscribe),
            under_way: VecDeque::new(),
            read: 0,
            pace_bytes: if rng.bool() { usize::MAX } else { 1 + magnitude(rng, capacity) },
            stalled_until_us: 0,
            is_dirty: true,
            wake_us: None,
            own_count: 0,
        }
    }

    pub(super) fn framing(&self) -> Framing {
        self.subscriber.framing()
    }

    pub(super) fn is_in_shared_frame(&self) -> bool {
        self.subscriber.is_in_frame()
    }

    /// Whether a visit is called for now.
    pub(super) fn wants_a_visit(&self, now_us: u64) -> bool {
        self.is_dirty || self.wake_us.is_some_and(|wake_us| wake_us <= now_us)
    }

    pub(super) fn is_full(&self) -> bool {
        self.socket.is_full
    }

    /// Whether nothing will happen until something is published.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_dirty && !self.socket.is_full && self.wake_us.is_none()
    }

    pub(super) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    pub(super) fn stall(&mut self, until_us: u64) {
        self.stalled_until_us = until_us;
    }

    /// Says something to this subscriber alone.
    pub(super) fn inject(&mut self, rng: &mut Rng) {
        if self.subscriber.is_ending() {
            return;
        }
        self.own_count += 1;
        let number = self.own_count;
        let framing = self.framing();
        let frames = self.subscriber.own_frames();
        let own = match (framing, rng.u8(0..3)) {
            (Framing::WebSocket, 0) => {
                thalweg_wire::websocket::pong(&[number as u8], frames);
                Own::Pong(number as u8)
            }
            (Framing::WebSocket, 1) => {
                let answer = format!(r#"{{"answer":{number}}}"#);
                thalweg_wire::websocket::text_header(answer.len(), frames);
                frames.extend_from_slice(answer.as_bytes());
                Own::Answer(number)
            }
            _ => {
                framing.heartbeat(frames);
                Own::Heartbeat
            }
        };
        self.oracle.will_hear(own);
        self.is_dirty = true;
    }

    pub(super) fn close(&mut self, close: Close) {
        self.subscriber.close(close);
        self.oracle.will_close(close);
        self.is_dirty = true;
    }

    /// The peer reads what it likes; returns what it has read whole.
    pub(super) fn drain(&mut self, now_us: u64, rng: &mut Rng) -> Vec<Heard> {
        if now_us < self.stalled_until_us {
            return Vec::new();
        }
        let bytes = if self.pace_bytes == usize::MAX {
            usize::MAX
        } else {
            magnitude(rng, self.pace_bytes)
        };
        self.read_up_to(bytes)
    }

    /// The peer reads everything; returns what it has read whole.
    pub(super) fn drain_all(&mut self) -> Vec<Heard> {
        self.read_up_to(usize::MAX)
    }

    /// No more backpressure.
    pub(super) fn relax(&mut self) {
        self.socket.relax();
    }

    fn read_up_to(&mut self, bytes: usize) -> Vec<Heard> {
        self.read += self.socket.drain(bytes) as u64;
        self.is_dirty |= std::mem::take(&mut self.socket.is_full);
        let whole = self.under_way.partition_point(|heard| heard.end <= self.read);
        self.under_way.drain(..whole).collect()
    }

    pub(super) fn visit(
        &mut self,
        shard: &mut Shard,
        budget: Budget,
        scratch: &mut Scratch,
        visit: &mut Visit<'_>,
    ) -> Delivered {
        self.is_dirty = false;
        self.wake_us = None;
        self.oracle.visit(shard, visit);
        let delivered =
            self.subscriber.deliver(shard, &mut self.socket, visit.now_us, budget, scratch);
        let taken = std::mem::take(&mut self.socket.taken);
        visit.tally.digest(&taken);
        self.under_way.extend(self.oracle.hear(&taken, visit));
        assert!(!self.subscriber.is_in_frame() || self.oracle.is_in_frame());
        match delivered {
            Delivered::CaughtUp(wake_us) => {
                self.oracle.check_is_content(shard, visit.now_us, wake_us);
                self.wake_us = wake_us;
            }
            Delivered::More => {
                assert!(taken.len() >= budget.socket_bytes);
                self.is_dirty = true;
            }
            Delivered::Full => assert!(self.socket.is_full),
            Delivered::Closed => self.oracle.check_is_closed(),
            Delivered::Gone => assert!(self.socket.is_gone),
        }
        delivered
    }

    /// The peer goes away without a word.
    pub(super) fn vanish(&mut self) {
        self.socket.is_gone = true;
    }

    /// The connection ends.
    pub(super) fn leave(mut self, shards: &mut [Shard]) {
        self.subscriber.leave(&mut shards[self.shard]);
    }

    /// That there is nothing left to hear.
    pub(super) fn check_has_everything(&self, shards: &[Shard]) {
        self.oracle.check_has_everything(&shards[self.shard]);
    }
}
