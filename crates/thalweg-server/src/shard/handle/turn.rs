use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use thalweg_core::fanout::FeedKey;
use thalweg_wire::{ErrorCode, close};
use tokio::task::{unconstrained, yield_now};

use super::{Handle, Shard, wake::Settling};
use crate::{
    clock::now_us,
    shard::{
        common::ShardQueues,
        message::{Arrival, Ending, ShardMessage},
    },
};

/// Messages that one turn takes from the queues `messages` and `publishes`: at most half of them from each.
const MESSAGES_PER_TURN: usize = 256;

/// Fetched documents taken in one turn. Each may have the largest size, and is only appended.
const FETCHED_PER_TURN: usize = 16;

/// Messages of brokers taken in one turn. Each has up to 256 events.
const FROM_BROKER_PER_TURN: usize = 64;

/// Answers of brokers taken in one turn. Each is for up to 256 publishers.
const ANSWERS_PER_TURN: usize = 64;

const SWEEP_US: u64 = 1_000_000;

/// The time before a message is sent again to a queue that was full, in µs.
const AGAIN_US: u64 = 1_000;

/// Runs the shard's loop until the shard has drained. `accept` gets each socket to serve. Fails if the runtime shuts down.
pub(crate) async fn run(
    handle: Rc<Handle>,
    mut queues: ShardQueues,
    accept: impl Fn(Arrival),
) -> io::Result<()> {
    handle.with_shard(Shard::start);
    let mut messages = Vec::with_capacity(MESSAGES_PER_TURN);
    // Whether sockets may have events. A check costs a system call, and most turns run because of a publish.
    let mut is_ready = true;
    loop {
        // Without `with_shard`, which would wake the loop once more.
        handle.shard.borrow_mut().topics.begin_turn();
        for message in messages.drain(..) {
            match message {
                ShardMessage::Connection(arrival) => accept(arrival),
                message => handle.receive(message),
            }
        }
        // Forget earlier wakes: this turn processes the work that the messages left.
        handle.wake.forget();
        handle.planning.begin_turn();
        let busy = handle.shard.borrow_mut().turn(&handle, is_ready);
        if handle.is_drained() {
            return Ok(());
        }
        is_ready = busy;
        if busy {
            // Requests and accepts run now. The next turn sends their events.
            yield_now().await;
        }
        let (mut is_woken, mut settling) = (false, Settling::default());
        poll_fn(|cx| {
            if handle.wake.is_woken(cx) {
                is_woken = true;
                let is_full = handle.wake.is_full();
                if !is_full && settling.goes_on() {
                    // This queues the task behind all that are ready. `yield_now` would also look at all sockets.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                handle.counts.turns_forced.add(u64::from(!is_full));
            }
            let Shard { subscribers, alarm, .. } = &mut *handle.shard.borrow_mut();
            is_ready |= subscribers.has_events(cx)?;
            let has_rung = alarm.has_rung(cx)?;
            queues.take(cx, &mut messages);
            let has_work = is_ready || has_rung || is_woken || !messages.is_empty();
            if has_work { Poll::Ready(io::Result::Ok(())) } else { Poll::Pending }
        })
        .await?;
    }
}

impl ShardQueues {
    /// Takes some messages of each queue, so that no queue waits for another.
    fn take(&mut self, cx: &mut Context<'_>, messages: &mut Vec<ShardMessage>) {
        // A task of tokio receives at most 128 messages per poll, of all queues together: the first queue alone would use them up.
        let taking = unconstrained(poll_fn(|cx| {
            self.take_some_of_each(cx, messages);
            Poll::Ready(())
        }));
        let _ = pin!(taking).poll(cx);
    }

    fn take_some_of_each(&mut self, cx: &mut Context<'_>, taken: &mut Vec<ShardMessage>) {
        let Self { messages, publishes, fetched, from_broker, answers, watched } = self;
        let half = MESSAGES_PER_TURN / 2;
        watched[0] = (watched[0] && messages.is_empty())
            || take_some(taken, half, |message| message, || messages.poll_recv(cx));
        watched[1] = (watched[1] && publishes.is_empty())
            || take_some(taken, half, |message| message, || publishes.poll_recv(cx));
        // A topic's end must not come before the answer to its deletion: the events that still wait to be stored
        // would create the topic again for a moment.
        let from = ShardMessage::FromBroker;
        watched[4] = (watched[4] && answers.is_empty())
            || take_some(taken, ANSWERS_PER_TURN, from, || answers.poll_recv(cx));
        watched[3] = (watched[3] && from_broker.is_empty())
            || take_some(taken, FROM_BROKER_PER_TURN, from, || from_broker.poll_recv(cx));
        let from = ShardMessage::Fetched;
        watched[2] = (watched[2] && fetched.is_empty())
            || take_some(taken, FETCHED_PER_TURN, from, || fetched.poll_recv(cx));
    }
}

/// Takes at most `count` messages. Returns whether the queue was empty at last, and will wake the task.
fn take_some<T>(
    taken: &mut Vec<ShardMessage>,
    count: usize,
    wrap: fn(T) -> ShardMessage,
    mut next: impl FnMut() -> Poll<Option<T>>,
) -> bool {
    for _ in 0..count {
        match next() {
            Poll::Ready(Some(message)) => taken.push(wrap(message)),
            Poll::Ready(None) => return false,
            Poll::Pending => return true,
        }
    }
    false
}

impl Shard {
    /// Starts the periodic work.
    fn start(&mut self) {
        let now_us = now_us();
        self.sweep_us = now_us + SWEEP_US;
        self.subscribers.start(now_us);
    }

    /// Runs one turn. `is_ready`: sockets may have events. Returns whether there is more to do at once.
    fn turn(&mut self, handle: &Rc<Handle>, is_ready: bool) -> bool {
        let more_ready = is_ready && self.subscribers.take_ready();
        let read_us = now_us();
        self.read(handle, read_us);
        self.subscribers.run_timers(read_us);
        self.ingest.tick(&mut self.topics, read_us);
        if self.sweep_us <= read_us {
            self.sweep(read_us);
        }
        // Events that sources have appended since are due after `read_us`.
        let sealed_us = now_us();
        self.seal(sealed_us);
        if self.ingest.has_pending_inputs() {
            // The rows and events that this makes are sent in the same turn.
            self.ingest.take_inputs(&mut self.topics, sealed_us);
            self.seal(sealed_us);
        }
        let is_posted = self.post();
        self.subscribers.walk(&mut self.topics);
        let looks_again = self.subscribers.keep_answers_within(&mut self.topics);
        self.set_alarm(is_posted);
        let has_more = self.subscribers.has_work()
            || self.topics.has_due()
            || (is_posted && self.topics.has_backfills_due());
        more_ready || looks_again || has_more || self.ingest.has_pending_inputs()
    }

    fn set_alarm(&mut self, is_posted: bool) {
        let again_us = (!is_posted).then(|| now_us() + AGAIN_US);
        let due =
            [self.topics.next_us(), self.subscribers.next_us(), self.ingest.next_us(), again_us];
        self.alarm.wake_at(due.into_iter().flatten().fold(self.sweep_us, u64::min));
    }

    /// Seals the batches that are due, and marks their readers.
    fn seal(&mut self, now_us: u64) {
        let Self { topics, subscribers, ingest, .. } = self;
        topics.seal(now_us);
        let mut batches = std::mem::take(&mut topics.news.batches);
        for key in batches.drain(..) {
            let Some((readers, is_input)) = topics.readers(key) else { continue };
            if is_input {
                ingest.has_input(key);
            }
            readers.iter().for_each(|key| subscribers.mark_for_batch(*key));
        }
        // Keep the memory of the list for the next turn.
        topics.news.batches = batches;
        topics.news.inputs.drain(..).for_each(|key| ingest.has_query_input(key));
        topics.news.backfilled.drain(..).for_each(|key| subscribers.mark_dirty(key));
        for (feed, ending) in std::mem::take(&mut topics.news.ends) {
            // The topic may have gone, and another topic may have its key.
            let ended = topics.readers(feed).filter(|_| topics.is_ended(feed));
            for key in ended.into_iter().flat_map(|(readers, _)| readers) {
                match ending {
                    Ending::Ended(code) => subscribers.end_topic(topics, *key, feed, code),
                    Ending::Restarted => subscribers.close(*key, close::RESTARTED),
                }
            }
        }
        ingest.follow_demand(topics, now_us);
    }

    /// Sends the messages to other shards, the fetcher and the brokers. Returns `false` if a queue is full.
    fn post(&mut self) -> bool {
        let subscribers = &self.subscribers;
        let counted = |key| subscribers.get(key)?.client.counted();
        let is_exchanged = self.topics.replicate(counted);
        let is_stored = self.topics.post_to_broker();
        self.ingest.post() && is_exchanged && is_stored
    }

    /// Sends all published events. A later close comes after them. If one visit cannot send all that a
    /// subscriber lacks, the subscriber reconnects at its cursor.
    pub(super) fn flush(&mut self) {
        self.topics.make_all_due();
        self.seal(now_us());
        self.post();
        self.subscribers.walk_round(&mut self.topics);
    }

    fn sweep(&mut self, now_us: u64) {
        for key in self.topics.sweep(now_us) {
            self.evict_subscribers(key);
        }
        self.subscribers.sweep(&mut self.topics, now_us);
        self.ingest.sweep(now_us);
        if self.is_first {
            self.common.rates.sweep(now_us);
        }
        self.reconnect_if_cut_off(now_us);
        self.sweep_us = now_us + SWEEP_US;
    }

    /// Closes the subscribers of a topic for which there is no room, here and on other shards.
    pub(super) fn evict_subscribers(&mut self, key: FeedKey) {
        for key in self.topics.evict_subscribers(key) {
            if self
                .subscribers
                .get(key)
                .is_some_and(|subscriber| !subscriber.subscriber.is_ending())
            {
                self.counts.count_refused(ErrorCode::TooManyTopics);
                self.subscribers.close(key, close::BUSY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Wake, Waker},
    };

    use tokio::sync::mpsc;

    use super::*;

    type Senders = (mpsc::Sender<ShardMessage>, mpsc::Sender<ShardMessage>);

    /// The queues of a shard, of which only the first two have a sender.
    fn queues(count: usize) -> (Senders, ShardQueues) {
        let (to_messages, messages) = mpsc::channel(count);
        let (to_publishes, publishes) = mpsc::channel(1);
        let (fetched, from_broker) = (mpsc::channel(1).1, mpsc::channel(1).1);
        let answers = mpsc::unbounded_channel().1;
        let watched = [false; 5];
        let queues = ShardQueues { messages, publishes, fetched, from_broker, answers, watched };
        ((to_messages, to_publishes), queues)
    }

    fn flush() -> ShardMessage {
        ShardMessage::Flush(tokio::sync::oneshot::channel().0)
    }

    #[tokio::test]
    async fn no_queue_waits_while_another_is_full() {
        let ((to_messages, to_publishes), mut queues) = queues(2 * MESSAGES_PER_TURN);
        while to_messages.try_send(ShardMessage::Drain).is_ok() {}
        to_publishes.try_send(flush()).expect("the queue is empty");
        let mut taken = Vec::new();
        poll_fn(|cx| {
            queues.take(cx, &mut taken);
            Poll::Ready(())
        })
        .await;
        assert_eq!(taken.len(), MESSAGES_PER_TURN / 2 + 1);
        assert!(matches!(taken.last(), Some(ShardMessage::Flush(_))));
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_message_for_an_empty_queue_wakes_the_task() {
        let half = MESSAGES_PER_TURN / 2;
        let ((to_messages, to_publishes), mut queues) = queues(half);
        // As many as a turn takes of this queue.
        while to_messages.try_send(ShardMessage::Drain).is_ok() {}
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut take_all = || {
            let mut taken = Vec::new();
            loop {
                let before = taken.len();
                queues.take(&mut Context::from_waker(&waker), &mut taken);
                if taken.len() == before {
                    return before;
                }
            }
        };
        assert_eq!(take_all(), half);
        for round in 0..3 {
            to_messages.try_send(ShardMessage::Drain).expect("the queue is empty");
            assert_eq!((wakes.0.load(Ordering::Relaxed), take_all()), (2 * round + 1, 1));
            to_publishes.try_send(flush()).expect("the queue is empty");
            assert_eq!((wakes.0.load(Ordering::Relaxed), take_all()), (2 * round + 2, 1));
        }
    }
}
