use std::{cmp::Reverse, io, rc::Rc, sync::Arc};

use tokio::task::yield_now;

use super::{Arrival, Handle, Letterbox, Mail, Shard, Timer, poll::Ready};
use crate::{clock::now_us, fanout::FeedKey, transport::Heard};

/// Pieces of mail taken in one turn.
const MAIL_PER_TURN: usize = 256;

/// Sockets read in one turn, once each.
const READS_PER_TURN: usize = 64;

/// The shard's loop, until it has drained. `accept` is given the sockets to serve.
///
/// # Errors
/// When the runtime cannot watch the shard's epoll.
pub(crate) async fn run(
    handle: Rc<Handle>,
    letterbox: Letterbox,
    accept: impl Fn(Arrival),
) -> io::Result<()> {
    let Letterbox { mut mail, mut publishes } = letterbox;
    let readiness = handle.readiness()?;
    handle.step(Shard::start_upkeep);
    let mut letters = Vec::with_capacity(MAIL_PER_TURN);
    loop {
        for letter in letters.drain(..) {
            match letter {
                Mail::Connection(arrival) => accept(arrival),
                letter => handle.open(letter),
            }
        }
        let busy = handle.shard.borrow_mut().turn(&handle);
        if handle.is_drained() {
            return Ok(());
        }
        if busy {
            // Requests and accepts get their turn; what they publish goes out
            // with the next slice.
            yield_now().await;
        } else {
            tokio::select! {
                biased;
                ready = readiness.readable() => ready?.clear_ready(),
                () = handle.wake.notified() => {}
                Some(letter) = mail.recv() => letters.push(letter),
                Some(letter) = publishes.recv() => letters.push(letter),
            }
        }
        // A share for each: neither is to keep the other waiting.
        for queue in [&mut mail, &mut publishes] {
            let share = letters.len() + MAIL_PER_TURN / 2;
            while letters.len() < share
                && let Ok(letter) = queue.try_recv()
            {
                letters.push(letter);
            }
        }
    }
}

impl Shard {
    /// One turn; `true` if there is more to do at once.
    fn turn(&mut self, handle: &Rc<Handle>) -> bool {
        let more_ready = self.take_ready();
        let heard_us = now_us();
        self.read(handle, heard_us);
        self.ring(heard_us);
        // Not the time of `ring`: what its sources appended is due after that.
        let now_us = now_us();
        self.seal(now_us);
        if self.sources.has_unread() {
            // What sources make of it goes out with it.
            self.take_inputs(now_us);
            self.seal(now_us);
        }
        self.post();
        self.post_acks();
        self.ask();
        self.walk();
        let looks_again = self.keep_answers_within();
        self.common.metrics.store(self.id, &self.counts);
        if let Some(Reverse((at_us, _))) = self.timers.peek() {
            self.poll.wake_at(*at_us);
        }
        let has_more = !self.dirty.is_empty() || !self.readable.is_empty() || !self.due.is_empty();
        more_ready || looks_again || has_more || self.sources.has_unread()
    }

    /// Sees what happened to the sockets.
    fn take_ready(&mut self) -> bool {
        let mut ready = Vec::new();
        let more = self.poll.take(&mut ready);
        for Ready { key, readable, writable, gone } in ready {
            if !self.connections.contains(key as usize) {
                continue;
            }
            if writable {
                self.unblock(key);
            }
            self.flags[key as usize].gone |= gone;
            if readable {
                self.mark_readable(key);
            }
        }
        more
    }

    /// Hears what subscribers say, each once, until its time is spent.
    fn read(&mut self, handle: &Rc<Handle>, now_us: u64) {
        self.slice.begin(now_us, self.common.config.limits.read_slice);
        for _ in 0..self.readable.len().min(READS_PER_TURN) {
            // What is held is sent and judged first.
            if self.slice.is_over() || self.has_too_many_answers() {
                return;
            }
            let Some(key) = self.readable.pop_front() else { return };
            self.flags[key as usize].readable = false;
            let Some(connection) = self.connections.get(key as usize) else { continue };
            if !connection.may_be_read(&self.common.config.limits) {
                self.flags[key as usize].unread = true;
                continue;
            }
            match self.hear(handle, key, now_us) {
                Heard::More => self.mark_readable(key),
                // An end that came before this read has had its edge.
                Heard::Nothing if self.flags[key as usize].gone => self.mark_readable(key),
                Heard::Nothing => {}
                Heard::Gone => self.remove(key),
            }
        }
    }

    /// Does what is due by time.
    fn ring(&mut self, now_us: u64) {
        while let Some(Reverse((at_us, timer))) = self.timers.peek().copied() {
            if at_us > now_us {
                return;
            }
            self.timers.pop();
            match timer {
                Timer::Source(index) => self.tick(index, now_us),
                Timer::Flush(feed) => self.ring_flush(feed),
                Timer::Visit(key) => {
                    if let Some(connection) = self.connections.get_mut(key as usize) {
                        connection.timer_rang();
                        self.mark_dirty(key);
                    }
                }
                Timer::Heartbeat => self.heartbeat(now_us),
                Timer::Sweep => self.sweep(now_us),
                Timer::Again => self.is_again_timed = false,
            }
        }
    }

    /// What has been published is sent to whoever can take it: a good-bye after this is
    /// one after it. Whoever is behind by more than a visit sends is told to come back
    /// where it is.
    pub(super) fn settle(&mut self) {
        for (key, feed) in self.feeds.iter_mut() {
            let Some(home) = &mut feed.home else { continue };
            home.sequencer.stop_waiting();
            if !std::mem::replace(&mut home.is_due, true) {
                self.due.push(key);
            }
        }
        self.seal(now_us());
        self.post();
        self.walk_round();
    }

    fn ring_flush(&mut self, key: FeedKey) {
        let Some(home) = self.feeds.get_mut(key).and_then(|feed| feed.home.as_mut()) else {
            return;
        };
        home.is_timed = false;
        if !std::mem::replace(&mut home.is_due, true) {
            self.due.push(key);
        }
    }

    /// Seals the batches that are due, into the log and every hot tail.
    fn seal(&mut self, now_us: u64) {
        for key in std::mem::take(&mut self.due) {
            let Some(feed) = self.feeds.get_mut(key) else { continue };
            let (Some(home), Some(log)) = (&mut feed.home, &mut feed.log) else { continue };
            home.is_due = false;
            let batches = home.sequencer.seal(now_us);
            if let Some(again_us) = home.sequencer.due_us()
                && !std::mem::replace(&mut home.is_timed, true)
            {
                self.timers.push(Reverse((again_us, Timer::Flush(key))));
            }
            if batches.is_empty() {
                continue;
            }
            self.counts.batches_sealed.add(batches.len() as u64);
            let before = log.history_bytes();
            for batch in batches {
                log.push(Arc::new(batch), now_us);
            }
            if !home.readers.is_empty() && !std::mem::replace(&mut home.is_unposted, true) {
                self.unposted.push(key);
            }
            self.keep_within(key, before);
            self.mark_subscribers(key);
        }
        // Of many topics each may have grown by its only batch.
        let over = self.history_bytes_over();
        if over > 0 {
            self.history_bytes -= self.feeds.shed(over, now_us);
        }
    }

    /// Counts what a topic's history has grown by since it had `before` bytes, and has it
    /// give way if all are too large together. A copy of another shard's topic counts as
    /// much: it may outlive the original.
    pub(super) fn keep_within(&mut self, key: FeedKey, before: usize) {
        self.history_bytes = self.history_bytes + self.feeds.history_bytes(key) - before;
        let over = self.history_bytes_over();
        let log = self.feeds.get_mut(key).and_then(|feed| feed.log.as_mut());
        if let Some(log) = log.filter(|_| over > 0) {
            self.history_bytes -= log.shed(over);
        }
    }

    /// How far the histories are over the memory that they may have on this shard.
    fn history_bytes_over(&self) -> usize {
        let shards = self.common.peers.len();
        self.history_bytes.saturating_sub(self.common.config.limits.history_bytes / shards)
    }
}
