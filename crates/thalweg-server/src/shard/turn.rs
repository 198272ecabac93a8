use std::{cmp::Reverse, io, rc::Rc, sync::Arc};

use thalweg_wire::close;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::{spawn_local, yield_now},
};

use super::{Flags, Handle, Mail, Shard, Timer, feeds::RemoteReader, mail::Reader, poll::Ready};
use crate::{clock::now_us, fanout::FeedKey, transport::Heard};

/// Ticks a source makes up for in one turn, so that one that cannot keep up
/// does not keep its shard from everything else.
const TICKS_PER_TURN: u32 = 64;

/// Until what did not fit into another shard's mail is tried again.
const POST_AGAIN_US: u64 = 1_000;

/// Pieces of mail taken in one turn.
const MAIL_PER_TURN: usize = 256;

/// Sockets read in one turn, once each.
const READS_PER_TURN: usize = 64;

/// The shard's loop, until it has drained.
///
/// # Errors
/// When the runtime cannot watch the shard's epoll.
pub(crate) async fn run(handle: Rc<Handle>, mut mail: mpsc::Receiver<Mail>) -> io::Result<()> {
    let readiness = handle.readiness()?;
    handle.step(Shard::start_upkeep);
    let mut letters = Vec::with_capacity(MAIL_PER_TURN);
    loop {
        for letter in letters.drain(..) {
            handle.open(letter);
        }
        let busy = handle.shard.borrow_mut().turn(&handle);
        if handle.is_drained() {
            return Ok(());
        }
        if busy {
            // Requests and accepts get their turn; what they publish goes out
            // with the next slice.
            yield_now().await;
            while letters.len() < MAIL_PER_TURN
                && let Ok(letter) = mail.try_recv()
            {
                letters.push(letter);
            }
            continue;
        }
        tokio::select! {
            biased;
            ready = readiness.readable() => ready?.clear_ready(),
            () = handle.wake.notified() => {}
            _ = mail.recv_many(&mut letters, MAIL_PER_TURN) => {}
        }
    }
}

impl Handle {
    fn open(self: &Rc<Self>, letter: Mail) {
        match letter {
            Mail::Connection(socket) => {
                spawn_local(super::serve_connection(Rc::clone(self), socket));
            }
            Mail::Append { topic, payloads, answer } => {
                let placed = self.step(|shard| shard.append(&topic, &payloads));
                // The publisher may have gone meanwhile.
                let _ = answer.send(placed);
            }
            Mail::Attach(reader) => self.step(|shard| shard.attach(&reader)),
            Mail::Detach(reader) => self.step(|shard| shard.detach(&reader)),
            Mail::Batches { topic, attachment, epoch, from, batches } => self.step(|shard| {
                let key = shard.feeds.find(&topic);
                let Some((key, feed)) = key.and_then(|key| Some((key, shard.feeds.get(key)?)))
                else {
                    return;
                };
                if feed.attachment == attachment {
                    shard.feeds.receive(key, epoch, from, batches, now_us());
                    shard.mark_subscribers(key);
                }
            }),
            Mail::Drain => {
                self.draining.set(true);
                self.drain.notify_waiters();
                self.step(Shard::close_all);
            }
        }
    }

    fn is_drained(&self) -> bool {
        self.draining.get()
            && self.requests.get() == 0
            && self.shard.borrow().connections.is_empty()
    }
}

impl Shard {
    /// One turn; `true` if there is more to do at once.
    fn turn(&mut self, handle: &Rc<Handle>) -> bool {
        let more_ready = self.take_ready();
        self.read(handle);
        self.ring(now_us());
        // Not the time of `ring`: what its sources appended is due after that.
        self.seal(now_us());
        self.post();
        self.ask();
        self.walk();
        self.common.metrics.store(self.id, &self.counts);
        if let Some(Reverse((at_us, _))) = self.timers.peek() {
            self.poll.wake_at(*at_us);
        }
        more_ready || !self.dirty.is_empty() || !self.readable.is_empty() || !self.due.is_empty()
    }

    /// Sees what happened to the sockets.
    fn take_ready(&mut self) -> bool {
        let mut ready = Vec::new();
        let more = self.poll.take(&mut ready);
        for Ready { key, readable, writable } in ready {
            if !self.connections.contains(key as usize) {
                continue;
            }
            if writable {
                self.unblock(key);
            }
            if readable {
                self.readable.push_back(key);
            }
        }
        more
    }

    /// Hears what subscribers say, each once.
    fn read(&mut self, handle: &Rc<Handle>) {
        for _ in 0..self.readable.len().min(READS_PER_TURN) {
            let Some(key) = self.readable.pop_front() else { return };
            let Some(connection) = self.connections.get(key as usize) else { continue };
            if !connection.may_be_read(&self.common.config.limits) {
                self.flags[key as usize].unread = true;
                continue;
            }
            match self.hear(handle, key, None) {
                Heard::More => self.readable.push_back(key),
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
                Timer::Flush(feed) => self.due.push(feed),
                Timer::Visit(key) => {
                    if let Some(connection) = self.connections.get_mut(key as usize) {
                        connection.timer_rang();
                        self.mark_dirty(key);
                    }
                }
                Timer::Heartbeat => self.heartbeat(now_us),
                Timer::Sweep => self.sweep(now_us),
                Timer::Post => {}
            }
        }
    }

    fn tick(&mut self, index: usize, now_us: u64) {
        let running = &mut self.sources[index];
        let feed = running.feed;
        let mut payloads = std::mem::take(&mut running.payloads);
        let mut ticks = 0;
        while running.next_us <= now_us && ticks < TICKS_PER_TURN {
            let late_us = now_us - running.next_us;
            self.counts.source_ticks += 1;
            self.counts.source_ticks_late += u64::from(late_us > 1_000);
            self.counts.source_lateness_us_max = self.counts.source_lateness_us_max.max(late_us);
            running.scheduled.source.tick(running.next_us, &mut payloads);
            running.next_us += running.scheduled.interval_us;
            ticks += 1;
        }
        let next_us = running.next_us;
        self.append_to(feed, &payloads);
        payloads.clear();
        self.sources[index].payloads = payloads;
        self.set_timer(next_us.max(now_us + 1), Timer::Source(index));
    }

    /// Seals the batches that are due, into the log and every hot tail.
    fn seal(&mut self, now_us: u64) {
        for key in std::mem::take(&mut self.due) {
            let Some(feed) = self.feeds.get_mut(key) else { continue };
            let (Some(home), Some(log)) = (&mut feed.home, &mut feed.log) else { continue };
            let batches = home.sequencer.seal(now_us);
            let has_readers = !home.readers.is_empty();
            let again_us = home.sequencer.due_us();
            if let Some(again_us) = again_us {
                self.timers.push(Reverse((again_us, Timer::Flush(key))));
            }
            if batches.is_empty() {
                continue;
            }
            self.counts.batches_sealed += batches.len() as u64;
            for batch in batches {
                log.push(Arc::new(batch), now_us);
            }
            if has_readers {
                self.unposted.push(key);
            }
            self.mark_subscribers(key);
        }
    }

    pub(super) fn mark_subscribers(&mut self, key: FeedKey) {
        let Some(feed) = self.feeds.get(key) else { return };
        for connection in &feed.subscribers {
            let flags: &mut Flags = &mut self.flags[*connection as usize];
            if !flags.dirty && !flags.blocked {
                flags.dirty = true;
                self.dirty.push_back(*connection);
            }
        }
    }

    /// Posts other shards what they have not seen.
    fn post(&mut self) {
        for key in std::mem::take(&mut self.unposted) {
            let Some(feed) = self.feeds.get_mut(key) else { continue };
            let (Some(home), Some(log)) = (&mut feed.home, &feed.log) else { continue };
            for reader in &mut home.readers {
                if reader.greeted && reader.next == log.head() {
                    continue;
                }
                let letter = Mail::Batches {
                    topic: feed.topic.clone(),
                    attachment: reader.attachment,
                    epoch: home.sequencer.epoch(),
                    from: reader.next,
                    batches: log.batches_from(reader.next).cloned().collect(),
                };
                match self.common.peers[reader.shard].try_send(letter) {
                    Ok(()) => {
                        reader.next = log.head();
                        reader.greeted = true;
                    }
                    Err(TrySendError::Full(_)) => {
                        self.unposted.push(key);
                        self.timers.push(Reverse((now_us() + POST_AGAIN_US, Timer::Post)));
                    }
                    // That shard has drained.
                    Err(TrySendError::Closed(_)) => reader.next = log.head(),
                }
            }
        }
    }

    /// Asks homes for the topics that subscribers here wait for.
    fn ask(&mut self) {
        for key in std::mem::take(&mut self.unattached) {
            let Some(feed) = self.feeds.get_mut(key) else { continue };
            let home = super::home_of(&feed.topic, self.common.peers.len());
            let attachment = self.attachments + 1;
            let reader = Reader { topic: feed.topic.clone(), shard: self.id, attachment };
            if self.common.peers[home].try_send(Mail::Attach(reader)).is_ok() {
                self.attachments = attachment;
                feed.attachment = attachment;
            } else {
                self.unattached.push(key);
                self.timers.push(Reverse((now_us() + POST_AGAIN_US, Timer::Post)));
            }
        }
    }

    fn attach(&mut self, reader: &Reader) {
        let Ok(key) = self.feeds.open(&reader.topic, true) else {
            // The subscribers there wait; the limit is logged where it is met.
            tracing::warn!(topic = %reader.topic, "too many topics: a subscription waits");
            return;
        };
        let Some(feed) = self.feeds.get_mut(key) else { return };
        let (Some(home), Some(log)) = (&mut feed.home, &feed.log) else { return };
        home.readers.retain(|other| other.shard != reader.shard);
        home.readers.push(RemoteReader {
            shard: reader.shard,
            attachment: reader.attachment,
            next: log.first_retained(),
            greeted: false,
        });
        self.unposted.push(key);
    }

    fn detach(&mut self, reader: &Reader) {
        let key = self.feeds.find(&reader.topic);
        if let Some(home) = key.and_then(|key| self.feeds.get_mut(key)?.home.as_mut()) {
            home.readers.retain(|other| other.attachment != reader.attachment);
        }
    }

    pub(super) fn close_all(&mut self) {
        let keys: Vec<u32> = self.connections.iter().map(|(key, _)| key as u32).collect();
        for key in keys {
            self.connections[key as usize].subscriber.close(close::DRAINING);
            self.mark_dirty(key);
        }
    }
}
