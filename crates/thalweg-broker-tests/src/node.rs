//! A server that uses a broker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use thalweg_broker::{
    Append, AppendError, Broker, Content, Delivery, Follower, ReadPage, ReadRange, Stored, Stream,
    TicketDigest, TicketError, TopicRange, Unreadable,
};
use thalweg_core::stream::Payloads;
use thalweg_testing::{receive, wait_for};
use thalweg_wire::{Epoch, Offset};
use tokio::{
    runtime::{Builder, Handle},
    sync::{oneshot, watch},
};

/// A call of a [`Follower`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// [`Follower::deliver`].
    Record {
        /// The index of its stream.
        stream: usize,
        /// Its first offset.
        first: Offset,
        /// Its topic.
        topic: String,
        /// Its content: the events with commas between them, `paused: MS`, or `ended: CODE`.
        content: String,
        /// When its events were stored, in ms since 1970.
        stored_ms: Option<i64>,
    },
    /// [`Follower::restarted`].
    Restarted {
        /// The index of the stream.
        stream: usize,
        /// Its new epoch.
        epoch: Epoch,
        /// The offset from which on records follow.
        from: Offset,
    },
}

/// A server that uses a broker. A thread follows the broker until the node is dropped.
pub struct Node<B: Broker> {
    /// The streams, as they were at the start.
    pub streams: Vec<Stream>,
    caller: Caller<B>,
    calls: Receiver<Call>,
    is_ready: Arc<AtomicBool>,
    delivering: Arc<AtomicUsize>,
    records_taken: watch::Sender<u64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

/// A handle that calls a broker from any thread. Clones share the broker.
pub struct Caller<B> {
    /// The broker.
    pub broker: Arc<B>,
    handle: Handle,
}

impl<B> Clone for Caller<B> {
    fn clone(&self) -> Self {
        Self { broker: Arc::clone(&self.broker), handle: self.handle.clone() }
    }
}

#[derive(Clone)]
struct Recorder {
    calls: Sender<Call>,
    is_ready: Arc<AtomicBool>,
    delivering: Arc<AtomicUsize>,
    /// The number of records that the server still takes.
    records_taken: watch::Sender<u64>,
}

impl Follower for Recorder {
    async fn deliver(&self, delivery: Delivery) {
        self.delivering.fetch_add(1, Relaxed);
        // `self` holds the sender, so the wait cannot fail.
        let _ = self.records_taken.subscribe().wait_for(|count| *count > 0).await;
        self.records_taken.send_modify(|count| *count = count.saturating_sub(1));
        let Delivery { stream, first, topic, content } = delivery;
        let (topic, stored_ms) = (topic.as_str().to_owned(), stored_ms(&content));
        let call = Call::Record { stream, first, topic, content: text(&content), stored_ms };
        // The node may have ended.
        let _ = self.calls.send(call);
        self.delivering.fetch_sub(1, Relaxed);
    }

    async fn restarted(&self, stream: usize, epoch: Epoch, from: Offset) {
        let _ = self.calls.send(Call::Restarted { stream, epoch, from });
    }

    fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Relaxed);
    }
}

fn stored_ms(content: &Content) -> Option<i64> {
    match content {
        Content::Events(payloads) => payloads.published_ms(),
        Content::Paused(_) | Content::End(_) => None,
    }
}

fn text(content: &Content) -> String {
    match content {
        Content::Events(payloads) => String::from_utf8_lossy(payloads.joined()).into_owned(),
        Content::Paused(ms) => format!("paused: {ms}"),
        Content::End(code) => format!("ended: {}", code.name()),
    }
}

impl<B: Broker> Node<B> {
    /// Opens a broker in a runtime of its own, and follows it, or returns the broker's error.
    pub fn start<O: Future<Output = Result<B, String>> + Send + 'static>(
        open: O,
    ) -> Result<Self, String> {
        Self::start_with(open, true)
    }

    /// Starts a node as [`Self::start`] does; whether it takes records is set as by [`Self::take_records`].
    pub fn start_with<O: Future<Output = Result<B, String>> + Send + 'static>(
        open: O,
        takes_records: bool,
    ) -> Result<Self, String> {
        let (call_sender, calls) = channel();
        let records_taken = watch::Sender::new(if takes_records { u64::MAX } else { 0 });
        let (stop, stopped) = oneshot::channel();
        let is_ready = Arc::<AtomicBool>::default();
        let delivering = Arc::<AtomicUsize>::default();
        let recorder = Recorder {
            calls: call_sender,
            is_ready: is_ready.clone(),
            delivering: delivering.clone(),
            records_taken: records_taken.clone(),
        };
        let (opened_sender, opened) = channel();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let broker = match runtime.block_on(open) {
                Ok(broker) => Arc::new(broker),
                Err(error) => {
                    let _ = opened_sender.send(Err(error));
                    return Ok(());
                }
            };
            let caller = Caller { broker: Arc::clone(&broker), handle: runtime.handle().clone() };
            let _ = opened_sender.send(Ok((broker.streams(), caller)));
            runtime.block_on(async move {
                tokio::select! {
                    why = broker.follow(recorder) => Err(why),
                    _ = stopped => Ok(()),
                }
            })
        });
        let (streams, caller) = receive(&opened, "a broker").ok_or("it has panicked")??;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self { streams, caller, calls, is_ready, delivering, records_taken, stop, thread })
    }

    /// Returns a handle that calls the broker from another thread.
    pub fn caller(&self) -> Caller<B> {
        self.caller.clone()
    }

    /// Appends events to a topic, and waits for the answer, which may be the broker's error.
    pub fn append(
        &self,
        topic: &str,
        events: &[&str],
        key: Option<&str>,
    ) -> Result<Stored, AppendError> {
        answer(&self.caller.start_append(self.record(topic, event_content(events), key), None))
    }

    /// Appends a record to a topic; with `newest`, only if that is the topic's newest record. Returns the broker's answer.
    pub fn append_content(
        &self,
        topic: &str,
        content: Content,
        newest: Option<Offset>,
    ) -> Result<Stored, AppendError> {
        answer(&self.caller.start_append(self.record(topic, content, None), newest))
    }

    /// Makes a record of a topic, for the first stream that matches the topic.
    pub fn record(&self, topic: &str, content: Content, key: Option<&str>) -> Append {
        let key = key.map(|key| key.as_bytes().to_vec());
        Append {
            stream: self.stream_of(topic),
            topic: topic.parse().expect("a topic"),
            content,
            key,
            waited: Duration::ZERO,
        }
    }

    /// Reads the first page of a topic's range; tries again until the broker can read it.
    pub fn read(&self, topic: &str, from: Offset, until: Offset) -> ReadPage {
        self.page(topic, from, until, false)
    }

    /// Reads the newest record of a value topic; tries again until the broker can read it.
    pub fn newest(&self, topic: &str) -> ReadPage {
        self.page(topic, 0, 0, true)
    }

    fn page(&self, topic: &str, from: Offset, until: Offset, is_newest: bool) -> ReadPage {
        let stream = self.stream_of(topic);
        let epoch = self.streams[stream].epoch;
        let topic = topic.parse().expect("a topic");
        let range = ReadRange { stream, topic, epoch, from, until };
        wait_for("a page", || self.caller.read(range.clone(), is_newest).ok())
    }

    /// Reads a whole range, page by page. Returns offsets and events.
    pub fn read_all(&self, topic: &str, from: Offset, until: Offset) -> Vec<(Offset, String)> {
        let mut read = Vec::new();
        for (from, page) in self.pages(topic, from, until) {
            for (first, payloads) in &page.records {
                let events = payloads.iter().map(|event| String::from_utf8_lossy(event).into());
                read.extend((*first..).zip(events).filter(|(offset, _)| *offset >= from));
            }
        }
        read
    }

    /// Reads the pages of a whole range. Returns each with the offset that it is read from.
    pub fn pages(&self, topic: &str, from: Offset, until: Offset) -> Vec<(Offset, ReadPage)> {
        let (mut from, mut pages) = (from, Vec::new());
        loop {
            let page = self.read(topic, from, until);
            let (end, is_whole) = (page.end(), page.is_whole);
            pages.push((from, page));
            if is_whole {
                return pages;
            }
            from = end.expect("a page that is not whole has a record or a hole");
        }
    }

    fn stream_of(&self, topic: &str) -> usize {
        let topic = topic.parse().expect("a topic");
        let found = self.streams.iter().position(|stream| stream.pattern.matches(&topic));
        found.expect("a stream has the topic")
    }

    /// Waits for the next call of the broker, and returns it.
    pub fn next_call(&mut self) -> Call {
        receive(&self.calls, "a call of the follower").expect("the node follows the broker")
    }

    /// Returns the calls that the broker has made and the test has not taken.
    pub fn calls(&mut self) -> Vec<Call> {
        self.calls.try_iter().collect()
    }

    /// Returns the next records: offsets, topics and contents. Panics if another call comes between them.
    pub fn records(&mut self, count: usize) -> Vec<(Offset, String, String)> {
        let record = |_| match self.next_call() {
            Call::Record { first, topic, content, .. } => (first, topic, content),
            other @ Call::Restarted { .. } => panic!("{other:?} instead of a record"),
        };
        (0..count).map(record).collect()
    }

    /// Waits until a stream has restarted, and skips records before that.
    pub fn restarted(&mut self) -> (usize, Epoch, Offset) {
        loop {
            if let Call::Restarted { stream, epoch, from } = self.next_call() {
                return (stream, epoch, from);
            }
        }
    }

    /// Returns whether the node has caught up.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Relaxed)
    }

    /// Waits until the node has caught up, or until it has not.
    pub fn await_ready(&self, is_ready: bool) {
        wait_for("readiness", || (self.is_ready() == is_ready).then_some(()));
    }

    /// Returns the number of deliveries that the broker waits for.
    pub fn delivering(&self) -> usize {
        self.delivering.load(Relaxed)
    }

    /// Stops taking records, or takes them again.
    pub fn take_records(&self, are_taken: bool) {
        self.records_taken.send_replace(if are_taken { u64::MAX } else { 0 });
    }

    /// Takes one record.
    pub fn take_record(&self) {
        self.records_taken.send_modify(|count| *count += 1);
    }

    /// Stops as a server that crashes does: its pending calls are dropped.
    pub fn stop(&mut self) {
        self.take_records(true);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic").expect("it follows until it is stopped");
        }
    }
}

impl<B: Broker> Drop for Node<B> {
    fn drop(&mut self) {
        match std::thread::panicking() {
            true => drop(self.stop.take()),
            false => self.stop(),
        }
    }
}

impl<B: Broker> Caller<B> {
    /// Starts to append a record, and returns the receiver of the answer.
    pub fn start_append(
        &self,
        append: Append,
        newest: Option<Offset>,
    ) -> Receiver<Result<Stored, AppendError>> {
        let (broker, (sender, answer)) = (Arc::clone(&self.broker), channel());
        self.handle.spawn(async move {
            let result = match (newest, broker.compare_and_set()) {
                (None, _) => broker.append(append).await,
                (Some(newest), Some(broker)) => broker.append_after(append, newest).await,
                (Some(_), None) => Err(AppendError::Unavailable),
            };
            // The test may have ended.
            let _ = sender.send(result);
        });
        answer
    }

    /// Reads a range, or the newest record, or returns the broker's error.
    pub fn read(&self, range: ReadRange, is_newest: bool) -> Result<ReadPage, Unreadable> {
        let broker = Arc::clone(&self.broker);
        self.wait(async move {
            match is_newest {
                true => broker.newest(range).await,
                false => broker.read(range).await,
            }
        })
        .unwrap_or(Err(Unreadable))
    }

    /// Lists topics; tries again until the broker can. `None` if it lists none.
    pub fn topics(&self, range: &TopicRange) -> Option<Vec<String>> {
        self.broker.topic_index()?;
        let topics = wait_for("a list of topics", || {
            let (broker, range) = (Arc::clone(&self.broker), range.clone());
            let listed = self.wait(async move {
                match broker.topic_index() {
                    Some(index) => index.topics(range).await,
                    None => Err(Unreadable),
                }
            });
            listed.and_then(Result::ok)
        });
        Some(topics.iter().map(|topic| topic.as_str().to_owned()).collect())
    }

    /// Keeps a ticket, or returns the broker's error: `Unavailable` if it keeps no tickets.
    pub fn keep(&self, ticket: TicketDigest, holder: &str) -> Result<(), TicketError> {
        let (broker, holder) = (Arc::clone(&self.broker), holder.to_owned());
        self.wait(async move {
            match broker.tickets() {
                Some(tickets) => tickets.keep(ticket, holder).await,
                None => Err(TicketError::Unavailable),
            }
        })
        .unwrap_or(Err(TicketError::Unknown))
    }

    /// Redeems a ticket. Errors are those of [`Self::keep`].
    pub fn redeem(&self, ticket: TicketDigest) -> Result<Option<String>, TicketError> {
        let broker = Arc::clone(&self.broker);
        self.wait(async move {
            match broker.tickets() {
                Some(tickets) => tickets.redeem(ticket).await,
                None => Err(TicketError::Unavailable),
            }
        })
        .unwrap_or(Err(TicketError::Unknown))
    }

    /// Waits for a task. `None` if it panics.
    fn wait<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, answer) = channel();
        self.handle.spawn(async move { sender.send(task.await) });
        receive(&answer, "an answer")
    }
}

/// Waits for the answer to an append. `Unknown` if its task panics.
pub(crate) fn answer(
    answer: &Receiver<Result<Stored, AppendError>>,
) -> Result<Stored, AppendError> {
    receive(answer, "an answer").unwrap_or(Err(AppendError::Unknown))
}

pub(crate) fn event_content(events: &[&str]) -> Content {
    let lines = events.join("\n").into_bytes();
    Content::Events(Payloads::from_lines(lines).expect("events"))
}
