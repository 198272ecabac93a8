use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use thalweg_wire::{ErrorCode, close};
use tokio::task::yield_now;

use super::{
    Arrival, Handle, Mail, Mailbox, Shard, local_topic::Ending, settling::Settling,
    subscribers::Timer,
};
use crate::{clock::now_us, config::READS_PER_SHARD};
use thalweg_core::fanout::FeedKey;

/// Pieces of mail taken in one turn.
const MAIL_PER_TURN: usize = 256;

/// Fetched documents taken in one turn: each may be of the largest size, and is only appended.
const FETCHED_PER_TURN: usize = 16;

/// Messages of the backend taken in one turn: each is up to 256 events.
const FROM_BACKEND_PER_TURN: usize = 64;

/// Answers of the backend taken in one turn: each is that of up to 256 publishers.
const ANSWERS_PER_TURN: usize = 64;

/// Time between two sweeps, in µs.
const SWEEP_US: u64 = 1_000_000;

/// Wait before mail that did not fit into another shard's queue is tried again, in µs.
const AGAIN_US: u64 = 1_000;

/// The shard's loop, until it has drained. It calls `accept` with each socket to serve.
///
/// # Errors
/// When the runtime is shutting down.
pub(crate) async fn run(
    handle: Rc<Handle>,
    mut mailbox: Mailbox,
    accept: impl Fn(Arrival),
) -> io::Result<()> {
    handle.with_shard(Shard::start);
    let mut messages = Vec::with_capacity(MAIL_PER_TURN);
    // Whether something may have happened to the sockets. Looking costs a system call, and most
    // turns run because somebody has published.
    let mut is_ready = true;
    loop {
        for message in messages.drain(..) {
            match message {
                Mail::Connection(arrival) => accept(arrival),
                message => handle.open(message),
            }
        }
        // What the messages left is processed now.
        handle.wake.forget();
        handle.planning.begin_turn();
        let busy = handle.shard.borrow_mut().turn(&handle, is_ready);
        if handle.is_drained() {
            return Ok(());
        }
        is_ready = busy;
        if busy {
            // Let requests and accepts run. The next slice sends what they publish.
            yield_now().await;
        }
        let (mut is_woken, mut settling) = (false, Settling::default());
        poll_fn(|cx| {
            if handle.wake.is_woken(cx) {
                is_woken = true;
                let is_full = handle.wake.is_full();
                if !is_full && settling.goes_on() {
                    // Behind whatever is ready now, and without a look at all sockets, which
                    // `yield_now` would bring.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                handle.counts.turns_forced.add(u64::from(!is_full));
            }
            let Shard { subscribers, alarm, .. } = &mut *handle.shard.borrow_mut();
            is_ready |= subscribers.poll.has_events(cx)?;
            let has_rung = alarm.has_rung(cx)?;
            mailbox.take(cx, &mut messages);
            let has_work = is_ready || has_rung || is_woken || !messages.is_empty();
            if has_work { Poll::Ready(io::Result::Ok(())) } else { Poll::Pending }
        })
        .await?;
    }
}

impl Mailbox {
    /// Takes mail. Each queue gets its share, so that neither waits for the other.
    fn take(&mut self, cx: &mut Context<'_>, messages: &mut Vec<Mail>) {
        for queue in [&mut self.mail, &mut self.publishes] {
            let share = messages.len() + MAIL_PER_TURN / 2;
            while messages.len() < share
                && let Poll::Ready(Some(message)) = queue.poll_recv(cx)
            {
                messages.push(message);
            }
        }
        // Answers first: a topic whose end comes before its deletion is answered is there again for a
        // moment, because something of it is still to be stored.
        let share = messages.len() + ANSWERS_PER_TURN;
        while messages.len() < share
            && let Poll::Ready(Some(message)) = self.answers.poll_recv(cx)
        {
            messages.push(Mail::FromBackend(message));
        }
        let share = messages.len() + FROM_BACKEND_PER_TURN;
        while messages.len() < share
            && let Poll::Ready(Some(message)) = self.from_backend.poll_recv(cx)
        {
            messages.push(Mail::FromBackend(message));
        }
        let share = messages.len() + FETCHED_PER_TURN;
        while messages.len() < share
            && let Poll::Ready(Some(fetched)) = self.fetched.poll_recv(cx)
        {
            messages.push(Mail::Fetched(fetched));
        }
    }
}

impl Shard {
    /// Starts the periodic work.
    fn start(&mut self) {
        let now_us = now_us();
        self.sweep_us = now_us + SWEEP_US;
        self.subscribers.timers.set(now_us, Timer::Heartbeat);
    }

    /// One turn. Looks at the sockets if `is_ready`. Returns `true` if there is more to do at
    /// once.
    fn turn(&mut self, handle: &Rc<Handle>, is_ready: bool) -> bool {
        let more_ready = is_ready && self.subscribers.take_ready();
        let read_us = now_us();
        self.read(handle, read_us);
        self.subscribers.run_timers(read_us);
        self.subscribers.end_tokens(read_us);
        self.subscribers.end_goodbyes(read_us);
        let moved = std::mem::take(&mut self.topics.news.moved);
        self.ingest.queries.follow(&mut self.topics, &moved, read_us);
        self.ingest.sources.follow(moved.into_iter());
        self.ingest.queries.tick(&mut self.topics, read_us);
        self.ingest.sources.tick(&mut self.topics, read_us);
        if self.sweep_us <= read_us {
            self.sweep(read_us);
        }
        // Read the clock again: what sources appended is due after `read_us`.
        let sealed_us = now_us();
        self.seal(sealed_us);
        if self.ingest.has_pending_inputs() {
            // The events that sources and queries make of it are sent in the same turn.
            self.ingest.sources.take_inputs(&mut self.topics, sealed_us);
            self.ingest.queries.take_inputs(&mut self.topics, sealed_us);
            self.seal(sealed_us);
        }
        let is_posted = self.post();
        self.subscribers.walk(&mut self.topics);
        let looks_again = self.subscribers.keep_answers_within(&mut self.topics);
        self.set_alarm(is_posted);
        let has_more = self.subscribers.has_work()
            || !self.topics.due.is_empty()
            || (is_posted && self.topics.recalls.is_due(READS_PER_SHARD));
        more_ready || looks_again || has_more || self.ingest.has_pending_inputs()
    }

    /// Sets the timer for the time when something is due next.
    fn set_alarm(&mut self, is_posted: bool) {
        let again_us = (!is_posted).then(|| now_us() + AGAIN_US);
        let due = [
            self.topics.timers.next_us(),
            self.subscribers.next_us(),
            self.ingest.sources.timers.next_us(),
            self.ingest.queries.timers.next_us(),
            again_us,
        ];
        self.alarm.wake_at(due.into_iter().flatten().fold(self.sweep_us, u64::min));
    }

    /// Seals what is due, and marks its readers.
    fn seal(&mut self, now_us: u64) {
        let Self { topics, subscribers, ingest, .. } = self;
        topics.seal(now_us);
        for key in topics.news.batches.drain(..) {
            let Some(feed) = topics.feeds.get(key) else { continue };
            if feed.is_input {
                ingest.sources.has_input(key);
                ingest.queries.has_input(key);
            }
            feed.subscribers.iter().for_each(|key| subscribers.mark_dirty(*key));
        }
        topics.news.inputs.drain(..).for_each(|key| ingest.queries.has_input(key));
        topics.news.recalled.drain(..).for_each(|key| subscribers.mark_dirty(key));
        for (feed, ending) in topics.news.ends.drain(..) {
            // It may be gone, and another topic be in its place.
            let ended = topics.feeds.get(feed).filter(|local| local.end.is_some());
            let readers = ended.map(|local| &local.subscribers);
            for key in readers.into_iter().flatten() {
                match ending {
                    Ending::Told(code) => subscribers.end_topic(*key, feed, code),
                    Ending::Restarted => subscribers.close(*key, close::RESTARTED),
                }
            }
        }
        // Before another one under its name is wanted.
        topics.news.unfetched.drain(..).for_each(|topic| ingest.fetching.stop(topic));
        for (key, change) in std::mem::take(&mut topics.news.demand) {
            ingest.sources.demand_changed(key, change, now_us);
            ingest.queries.demand_changed(topics, key, change, now_us);
            ingest.fetching.demand_changed(topics, key, change);
        }
        // After their beginning.
        topics.news.shared.drain(..).for_each(|topic| ingest.fetching.share(topic));
    }

    /// Posts mail to other shards. `false` if one of them has no room for it now.
    fn post(&mut self) -> bool {
        let connections = &self.subscribers.connections;
        let counted = |key| connections.get(key as usize)?.client.counted();
        let is_exchanged = self.topics.replicate(|key: u32| counted(key));
        let is_told = self.ingest.fetching.post_demands();
        let is_stored = self.topics.post_stores() & self.topics.post_reads();
        self.ingest.sources.post_acks() && is_exchanged && is_told && is_stored
    }

    /// Sends all published events. A close sent after this comes after all published events. A
    /// subscriber that is further behind than one visit can send reconnects at its cursor.
    pub(super) fn flush(&mut self) {
        self.topics.make_all_due();
        self.seal(now_us());
        self.post();
        self.subscribers.walk_round(&mut self.topics);
    }

    /// Frees what is no longer needed.
    fn sweep(&mut self, now_us: u64) {
        for key in self.topics.sweep(now_us) {
            self.evict_subscribers(key);
        }
        self.subscribers.sweep(&mut self.topics, now_us);
        self.ingest.queries.sweep(now_us);
        if self.is_first {
            self.common.rates.sweep(now_us);
        }
        self.ingest.idempotency_cache.sweep(now_us, &self.common.config.limits);
        self.leave_if_deaf(now_us);
        self.sweep_us = now_us + SWEEP_US;
    }

    /// There is no room for a topic: closes its subscribers, here and on other shards.
    pub(super) fn evict_subscribers(&mut self, key: FeedKey) {
        for key in self.topics.evict_subscribers(key) {
            if !self.subscribers.connections[key as usize].subscriber.is_ending() {
                self.subscribers.counts.count_refused(ErrorCode::TooManyTopics);
                self.subscribers.close(key, close::BUSY);
            }
        }
    }
}
