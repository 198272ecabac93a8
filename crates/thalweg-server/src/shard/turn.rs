use std::{io, rc::Rc};

use thalweg_wire::{ErrorCode, close};
use tokio::task::yield_now;

use super::{Arrival, Handle, Mail, Mailbox, Shard, subscribers::Timer};
use crate::{clock::now_us, fanout::FeedKey};

/// Pieces of mail taken in one turn.
const MAIL_PER_TURN: usize = 256;

/// From sweep to sweep, in µs.
const SWEEP_US: u64 = 1_000_000;

/// Until what did not fit into another shard's mail is tried again, in µs.
const AGAIN_US: u64 = 1_000;

/// The shard's loop, until it has drained. `accept` is given the sockets to serve.
///
/// # Errors
/// When the runtime cannot watch the shard's epoll.
pub(crate) async fn run(
    handle: Rc<Handle>,
    mailbox: Mailbox,
    accept: impl Fn(Arrival),
) -> io::Result<()> {
    let Mailbox { mut mail, mut publishes } = mailbox;
    let readiness = handle.shard.borrow().subscribers.poll.readiness()?;
    handle.step(Shard::start);
    let mut messages = Vec::with_capacity(MAIL_PER_TURN);
    // Whether something may have happened to the sockets: to look costs a system call, and
    // most turns come because somebody has published.
    let mut is_ready = true;
    loop {
        for message in messages.drain(..) {
            match message {
                Mail::Connection(arrival) => accept(arrival),
                message => handle.open(message),
            }
        }
        let busy = handle.shard.borrow_mut().turn(&handle, is_ready);
        if handle.is_drained() {
            return Ok(());
        }
        if busy {
            // Requests and accepts get their turn; what they publish goes out
            // with the next slice.
            yield_now().await;
            is_ready = true;
        } else {
            is_ready = false;
            tokio::select! {
                biased;
                ready = readiness.readable() => {
                    ready?.clear_ready();
                    is_ready = true;
                }
                () = handle.wake.notified() => {}
                Some(message) = mail.recv() => messages.push(message),
                Some(message) = publishes.recv() => messages.push(message),
            }
        }
        // A share for each: neither is to keep the other waiting.
        for queue in [&mut mail, &mut publishes] {
            let share = messages.len() + MAIL_PER_TURN / 2;
            while messages.len() < share
                && let Ok(message) = queue.try_recv()
            {
                messages.push(message);
            }
        }
    }
}

impl Shard {
    /// Begins what is done again and again.
    fn start(&mut self) {
        let now_us = now_us();
        self.sweep_us = now_us + SWEEP_US;
        self.subscribers.timers.set(now_us, Timer::Heartbeat);
    }

    /// One turn, which looks at the sockets if `is_ready`; `true` if there is more to do at
    /// once.
    fn turn(&mut self, handle: &Rc<Handle>, is_ready: bool) -> bool {
        let more_ready = is_ready && self.subscribers.take_ready();
        let read_us = now_us();
        self.read(handle, read_us);
        self.subscribers.run_timers(read_us);
        self.ingest.sources.tick(&mut self.topics, read_us);
        if self.sweep_us <= read_us {
            self.sweep(read_us);
        }
        // Not the time before: what sources appended is due after that.
        let sealed_us = now_us();
        self.seal(sealed_us);
        if self.ingest.sources.has_unread() {
            // What sources make of it goes out with it.
            self.ingest.sources.take_inputs(&mut self.topics, sealed_us);
            self.seal(sealed_us);
        }
        let is_posted = self.post();
        self.subscribers.walk(&mut self.topics);
        let looks_again = self.subscribers.keep_answers_within(&mut self.topics);
        handle.common.metrics.store(handle.id, &handle.counts);
        self.set_alarm(is_posted);
        let has_more = self.subscribers.has_work() || !self.topics.due.is_empty();
        more_ready || looks_again || has_more || self.ingest.sources.has_unread()
    }

    /// Has the next turn come when something is due by time.
    fn set_alarm(&mut self, is_posted: bool) {
        let again_us = (!is_posted).then(|| now_us() + AGAIN_US);
        let due = [
            self.topics.timers.next_us(),
            self.subscribers.timers.next_us(),
            self.ingest.sources.timers.next_us(),
            again_us,
        ];
        self.subscribers.poll.wake_at(due.into_iter().flatten().fold(self.sweep_us, u64::min));
    }

    /// Seals what is due, and tells whoever reads it.
    fn seal(&mut self, now_us: u64) {
        let Self { topics, subscribers, ingest, .. } = self;
        topics.seal(now_us);
        for key in topics.news.batches.drain(..) {
            let Some(feed) = topics.feeds.get(key) else { continue };
            if feed.is_input {
                ingest.sources.has_input(key);
            }
            feed.subscribers.iter().for_each(|key| subscribers.mark_dirty(*key));
        }
        for (key, change) in topics.news.demand.drain(..) {
            ingest.sources.demand_changed(key, change, now_us);
        }
    }

    /// Posts what is for other shards; `false` if one of them has no room for it now.
    fn post(&mut self) -> bool {
        let connections = &self.subscribers.connections;
        let counted = |key| connections.get(key as usize)?.client.counted();
        let is_exchanged = self.topics.exchange(|key: u32| counted(key));
        self.ingest.sources.post_acks() && is_exchanged
    }

    /// What has been published is sent to whoever can take it: a good-bye after this is
    /// one after it. Whoever is behind by more than a visit sends is told to come back
    /// where it is.
    pub(super) fn settle(&mut self) {
        self.topics.make_all_due();
        self.seal(now_us());
        self.post();
        self.subscribers.walk_round(&mut self.topics);
    }

    /// Gives back what time has made superfluous.
    fn sweep(&mut self, now_us: u64) {
        for key in self.topics.sweep(now_us) {
            self.evict_subscribers(key);
        }
        self.subscribers.sweep(&mut self.topics, now_us);
        self.ingest.retries.sweep(now_us, &self.common.config.limits);
        self.sweep_us = now_us + SWEEP_US;
    }

    /// There is no room for a topic: its subscribers go, here and on other shards.
    pub(super) fn evict_subscribers(&mut self, key: FeedKey) {
        for key in self.topics.evict_subscribers(key) {
            if !self.subscribers.connections[key as usize].subscriber.is_ending() {
                self.subscribers.counts.count_refused(ErrorCode::TooManyTopics);
                self.subscribers.close(key, close::BUSY);
            }
        }
    }
}
