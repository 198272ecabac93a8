//! The crate as a server of Thalweg has it.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc as blocking,
    },
    thread::JoinHandle,
};

use thalweg_core::stream::Payloads;
use thalweg_nats::{
    Counts, Nats, Settings,
    end::{Answer, PageAnswer, Target, Wanted, Work},
    open,
};
use thalweg_server::{
    backend::{
        Backend, Content, ReadPage, StoreError, Stored, Stream, TicketDigest, TicketError,
        TicketReply, TicketRequest, Unreadable, offset_of,
    },
    now_us,
};
use thalweg_testing::receive;
use thalweg_wire::{Epoch, Topic};
use tokio::sync::{mpsc, watch};

use super::wait_for;

/// What a server of Thalweg is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    Batch { sequence: u64, topic: String, events: String },
    Restarted { epoch: Epoch, from: u64 },
}

impl Heard {
    pub(crate) fn batch(sequence: u64, topic: &str, events: &str) -> Self {
        Self::Batch { sequence, topic: topic.to_owned(), events: events.to_owned() }
    }
}

/// One such server, with one stream. Ends with it.
pub(crate) struct Node {
    pub(crate) stream: Stream,
    pub(crate) counts: Arc<Counts>,
    writer: Option<Writer>,
    reads: mpsc::Sender<(Wanted, Reader)>,
    pub(crate) tickets: Tickets,
    heard: blocking::Receiver<Heard>,
    ready: Arc<AtomicBool>,
    open: watch::Sender<bool>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    kept: VecDeque<Heard>,
}

/// What stores are asked of. The node runs as long as there is one.
#[derive(Clone)]
pub(crate) struct Writer(mpsc::Sender<(Work, Asked)>);

/// What is asked about tickets.
#[derive(Clone)]
pub(crate) struct Tickets(mpsc::Sender<TicketRequest>);

/// Who waits for the answer to a store.
pub(crate) struct Asked(blocking::Sender<Result<Stored, StoreError>>);

impl Answer for Asked {
    fn send(self, result: Result<Stored, StoreError>) {
        let _ = self.0.send(result);
    }
}

/// Who waits for a page.
pub(crate) struct Reader(blocking::Sender<Result<ReadPage, Unreadable>>);

impl PageAnswer for Reader {
    fn send(self, result: Result<ReadPage, Unreadable>) {
        let _ = self.0.send(result);
    }
}

#[derive(Clone)]
struct Ear {
    heard: blocking::Sender<Heard>,
    ready: Arc<AtomicBool>,
    open: watch::Receiver<bool>,
}

impl Target for Ear {
    async fn message(&self, _: usize, sequence: u64, topic: Topic, content: Content) {
        let mut open = self.open.clone();
        let _ = open.wait_for(|open| *open).await;
        let events = match content {
            Content::Events(payloads) => {
                String::from_utf8(payloads.joined().to_vec()).expect("UTF-8")
            }
            Content::Paused(ms) => format!("paused: {ms}"),
            Content::End(code) => format!("ended: {}", code.name()),
        };
        let _ = self.heard.send(Heard::batch(sequence, topic.as_str(), &events));
    }

    async fn restarted(&self, _: usize, epoch: Epoch, from: u64) {
        let _ = self.heard.send(Heard::Restarted { epoch, from });
    }

    fn set_ready(&self, is_ready: bool) {
        self.ready.store(is_ready, Relaxed);
    }
}

impl Node {
    /// Opens, and runs.
    pub(crate) fn start(settings: &Settings) -> Self {
        Self::run(open(settings).expect("open the stream"))
    }

    pub(crate) fn run(nats: Nats) -> Self {
        let stream = nats.streams().remove(0);
        let counts = nats.own_counts();
        let (stores, work) = mpsc::channel(16);
        let (reads, to_read) = mpsc::channel(16);
        let (tickets, asked) = mpsc::channel(16);
        let tickets = Tickets(tickets);
        let (sender, heard) = blocking::channel();
        let ready = Arc::new(AtomicBool::new(false));
        let (open, is_open) = watch::channel(true);
        let ear = Ear { heard: sender, ready: ready.clone(), open: is_open };
        let thread = std::thread::spawn(move || {
            nats.run_for((work, |store| store), (to_read, |read| read), asked, &ear)
        });
        let (writer, thread, kept) = (Some(Writer(stores)), Some(thread), VecDeque::new());
        Self { stream, counts, writer, reads, tickets, heard, ready, open, thread, kept }
    }

    /// Stores, and waits for the answer.
    pub(crate) fn store(
        &self,
        topic: &str,
        event: &str,
        key: Option<&str>,
    ) -> Result<Stored, StoreError> {
        self.writer().store(topic, event, key)
    }

    /// Reads a page of a topic, until that can be done.
    pub(crate) fn page(&self, topic: &str, from: u64, until: u64) -> ReadPage {
        loop {
            let (sender, answer) = blocking::channel();
            let topic = topic.parse().expect("a topic");
            let (epoch, from, until) = (self.stream.epoch, offset_of(from, 0), offset_of(until, 0));
            let wanted = Wanted { stream: 0, topic, epoch, from, until };
            assert!(self.reads.blocking_send((wanted, Reader(sender))).is_ok(), "it runs");
            if let Ok(page) = receive(&answer, "an answer").expect("an answer") {
                return page;
            }
        }
    }

    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone().expect("it runs")
    }

    /// What it is told next.
    pub(crate) fn next(&mut self) -> Heard {
        let kept = self.kept.pop_front();
        kept.unwrap_or_else(|| {
            receive(&self.heard, "to be told something").expect("a node that runs")
        })
    }

    /// What it was told already.
    pub(crate) fn heard(&mut self) -> Vec<Heard> {
        self.kept.drain(..).chain(self.heard.try_iter()).collect()
    }

    /// Waits until it is told that it has restarted.
    pub(crate) fn restarted(&mut self) -> (Epoch, u64) {
        loop {
            if let Heard::Restarted { epoch, from } = self.next() {
                return (epoch, from);
            }
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Relaxed)
    }

    pub(crate) fn await_ready(&self) {
        wait_for("ready", || self.is_ready().then_some(()));
    }

    /// Takes no batches, or takes them again.
    pub(crate) fn take_batches(&self, is_taken: bool) {
        self.open.send_replace(is_taken);
    }

    /// Ends it in order. It must have answered everything.
    pub(crate) fn end(&mut self) {
        self.writer = None;
        self.open.send_replace(true);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic").expect("an orderly end");
        }
    }
}

impl Tickets {
    /// Keeps a ticket.
    pub(crate) fn keep(&self, ticket: TicketDigest, holder: &str) -> Result<(), TicketError> {
        let (reply, answer) = TicketReply::channel(None);
        let keep = TicketRequest::Keep { ticket, holder: holder.to_owned(), reply };
        self.0.blocking_send(keep).expect("it runs");
        answer.blocking_recv().expect("an answer")
    }

    /// Redeems a ticket.
    pub(crate) fn redeem(&self, ticket: TicketDigest) -> Result<Option<String>, TicketError> {
        let (reply, answer) = TicketReply::channel(None);
        let redeem = TicketRequest::Redeem { ticket, reply };
        self.0.blocking_send(redeem).expect("it runs");
        answer.blocking_recv().expect("an answer")
    }
}

impl Writer {
    /// Asks for a store, whose answer comes later.
    pub(crate) fn ask(
        &self,
        topic: &str,
        events: &[&str],
        key: Option<&str>,
    ) -> blocking::Receiver<Result<Stored, StoreError>> {
        let mut payloads = Payloads::default();
        for event in events {
            let write = |out: &mut Vec<u8>| {
                out.extend_from_slice(event.as_bytes());
                Ok::<_, ()>(())
            };
            payloads.push(write).expect("it is written");
        }
        let (sender, answer) = blocking::channel();
        let key = key.map(|key| key.as_bytes().to_vec());
        let (topic, content) = (topic.parse().expect("a topic"), Content::Events(payloads));
        self.send(
            Work { stream: 0, topic, content, key, after: None, arrived_us: now_us() },
            sender,
        );
        answer
    }

    /// Stores what a topic says after a message, and waits for the answer.
    pub(crate) fn store_after(
        &self,
        topic: &str,
        content: Content,
        after: Option<u64>,
    ) -> Result<Stored, StoreError> {
        let (sender, answer) = blocking::channel();
        let topic = topic.parse().expect("a topic");
        self.send(
            Work { stream: 0, topic, content, key: None, after, arrived_us: now_us() },
            sender,
        );
        receive(&answer, "an answer").expect("an answer")
    }

    fn send(&self, work: Work, sender: blocking::Sender<Result<Stored, StoreError>>) {
        assert!(self.0.blocking_send((work, Asked(sender))).is_ok(), "it runs");
    }

    /// Stores, and waits for the answer.
    pub(crate) fn store(
        &self,
        topic: &str,
        event: &str,
        key: Option<&str>,
    ) -> Result<Stored, StoreError> {
        receive(&self.ask(topic, &[event], key), "an answer").expect("an answer")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}
