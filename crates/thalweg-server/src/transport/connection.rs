use std::sync::Arc;

use thalweg_wire::{
    Close, Framing, close,
    format::Compression,
    limits::COMMAND_BYTES_MAX,
    websocket::{self, Decoder, Message},
};

use super::Writer;
use crate::{
    access::{Holder, Identity},
    config::{ECHO_BYTES, Limits, UNANSWERED_MAX, has_read_enough},
    connection_limits::{Address, ConnectionPermit, Requester},
    rates::ConnectionBuckets,
};
use thalweg_core::fanout::{Feeds, Subscriber};

/// A subscriber's connection: a slab entry, no task.
pub(crate) struct Connection {
    /// Where its bytes go.
    pub(crate) writer: Writer,
    /// What it gets.
    pub(crate) subscriber: Subscriber,
    /// Decodes what a WebSocket client sends. What other clients send is thrown away.
    decoder: Option<Decoder>,
    /// Every message is sent back unchanged.
    echoes: bool,
    /// What the client sent that is not processed yet, for example because it must read earlier
    /// answers first.
    deferred: Vec<u8>,
    /// When sending to it last stopped because it was full, in µs; 0: it is not full.
    pub(crate) stalled_us: u64,
    /// What was pending when the peer first could not take everything, and what it has read
    /// since.
    progress: ReadProgress,
    /// When a timer will visit it, in µs; 0: there is none.
    timer_us: u64,
    /// Number of its timers.
    timers: u8,
    /// When its unfinished message began, in µs; 0: there is none.
    pub(crate) unfinished_us: u64,
    /// Distinguishes it from other connections that had the same place in the slab.
    pub(crate) serial: u64,
    /// Publishes that other shards have not answered.
    pub(crate) unanswered: u32,
    /// It is not read until another shard has room for a publish, or has answered whether a
    /// topic exists.
    pub(crate) waits: bool,
    /// The client that sends the commands.
    pub(crate) client: Client,
    /// Whose rights it has.
    pub(crate) holder: Arc<Holder>,
    /// Whether it may publish to any topic: else its events are not read.
    pub(crate) may_publish: bool,
    /// How often it may do something, once it has done something that counts.
    pub(crate) buckets: Option<Box<ConnectionBuckets>>,
    /// When it is looked whether its token has ended, in µs; `u64::MAX`: never.
    pub(crate) token_watched_us: u64,
    /// Its place among the server's, held as long as it lives.
    _permit: Option<ConnectionPermit>,
}

/// Who sent a request or owns a connection. All per-client limits are counted by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Whose token it presented.
    pub(crate) identity: Identity,
    /// Where it is.
    pub(crate) address: Address,
    /// Whether what it uses counts for that address.
    pub(crate) is_counted: bool,
}

impl Client {
    /// The client that makes a request.
    pub(crate) fn new(holder: &Holder, requester: &Requester) -> Self {
        let Requester { address, is_counted, .. } = *requester;
        Self { identity: holder.identity, address, is_counted }
    }

    /// The address that it is counted for, if any.
    pub(crate) fn counted(&self) -> Option<Address> {
        self.is_counted.then_some(self.address)
    }
}

/// What is pending for a peer that could not take everything.
#[derive(Debug, Clone, Copy, Default)]
struct ReadProgress {
    /// Since when, in µs; 0: nothing is pending.
    since_us: u64,
    pending_bytes: usize,
    read_bytes: usize,
}

/// What a client may send over a WebSocket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InboundMode {
    /// Commands without events: the client may not publish.
    CommandsOnly,
    /// Commands with events, of at most this many bytes.
    Publish(u32),
    /// Anything: it is sent back.
    Echo,
}

/// Timers of one connection. A new timer is added when an earlier time is needed. At the
/// maximum no more are added; the existing timers must do.
const TIMERS_MAX: u8 = 16;

impl Connection {
    /// A connection taken over.
    pub(crate) fn new(
        writer: Writer,
        subscriber: Subscriber,
        serial: u64,
        client: Client,
        holder: Arc<Holder>,
        inbound_mode: InboundMode,
        permit: Option<ConnectionPermit>,
    ) -> Self {
        let format = subscriber.format();
        let inflates = format.compression() == Compression::Deflate;
        let commands = COMMAND_BYTES_MAX as u32;
        let decoder =
            (format.framing() == Framing::WebSocket).then(|| match (inbound_mode, inflates) {
                (InboundMode::Echo, _) => Decoder::new(ECHO_BYTES as u32),
                (InboundMode::CommandsOnly, false) => Decoder::new(commands),
                (InboundMode::CommandsOnly, true) => Decoder::inflating_in_proportion(commands),
                (InboundMode::Publish(max), false) => Decoder::new(max),
                (InboundMode::Publish(max), true) => Decoder::inflating(max),
            });
        Self {
            writer,
            subscriber,
            decoder,
            echoes: matches!(inbound_mode, InboundMode::Echo),
            deferred: Vec::new(),
            stalled_us: 0,
            progress: ReadProgress::default(),
            timer_us: 0,
            timers: 0,
            unfinished_us: 0,
            serial,
            unanswered: 0,
            waits: false,
            client,
            holder,
            may_publish: matches!(inbound_mode, InboundMode::Publish(_)),
            buckets: None,
            token_watched_us: u64::MAX,
            _permit: permit,
        }
    }

    /// Whether it may be read: its answers have room. Otherwise its commands stay in the
    /// socket, so that a peer that does not read its answers costs no more than its socket.
    pub(crate) fn may_be_read(&self, limits: &Limits) -> bool {
        !self.waits
            && self.unanswered < UNANSWERED_MAX
            && self.subscriber.control_bytes() <= limits.control_bytes
    }

    /// Whether it holds more than its place while its peer does not read.
    pub(crate) fn holds_memory(&self) -> bool {
        self.subscriber.holds_memory() || self.writer.held_bytes() > 0
    }

    /// Its writer is full: what it holds is pending for the peer.
    pub(crate) fn block(&mut self, feeds: &impl Feeds, now_us: u64) {
        self.stalled_us = now_us;
        if self.progress.since_us == 0 {
            self.begin_owing(feeds, now_us);
        }
    }

    fn begin_owing(&mut self, feeds: &impl Feeds, now_us: u64) {
        // Drops the count of bytes taken before.
        self.writer.take_taken(0);
        let pending_bytes = self.subscriber.held_bytes(feeds) + self.writer.held_bytes();
        self.progress = ReadProgress { since_us: now_us, pending_bytes, read_bytes: 0 };
    }

    /// Its writer took `sent` bytes.
    pub(crate) fn moved(&mut self, sent: usize) {
        self.stalled_us = 0;
        if self.progress.since_us > 0 {
            self.progress.read_bytes += self.writer.take_taken(sent);
        }
    }

    /// Whether its bytes go to a socket as they are, and it took all of them the last time.
    #[inline]
    pub(crate) fn owes_nothing(&self) -> bool {
        matches!(self.writer, Writer::Tcp(_)) && (self.stalled_us | self.progress.since_us) == 0
    }

    /// Its writer took everything.
    pub(crate) fn clear_pending(&mut self) {
        self.progress.since_us = 0;
    }

    /// Whether its peer has read too little of what was pending for `stall_us`.
    pub(crate) fn is_stalled(&mut self, feeds: &impl Feeds, now_us: u64, stall_us: u64) -> bool {
        // Encrypted bytes may be sent without a visit.
        self.progress.read_bytes += self.writer.take_taken(0);
        let ReadProgress { since_us, pending_bytes, read_bytes } = self.progress;
        if now_us.saturating_sub(self.stalled_us) > stall_us {
            return true;
        }
        if now_us.saturating_sub(since_us) <= stall_us {
            return false;
        }
        let is_stalled = !has_read_enough(read_bytes, pending_bytes);
        self.begin_owing(feeds, now_us);
        is_stalled
    }

    /// Whether a visit at `due_us` needs a timer: not if one comes by then.
    pub(crate) fn wants_timer(&mut self, due_us: u64) -> bool {
        let is_earlier = due_us < self.timer_us && self.timers < TIMERS_MAX;
        let wants = self.timer_us == 0 || is_earlier;
        if wants {
            self.timer_us = due_us;
            self.timers += 1;
        }
        wants
    }

    /// One of its timers has fired.
    pub(crate) fn timer_fired(&mut self) {
        self.timer_us = 0;
        self.timers = self.timers.saturating_sub(1);
    }

    /// Keeps bytes that were read and cannot be processed yet.
    pub(crate) fn defer(&mut self, bytes: &[u8]) {
        if self.decoder.is_some() {
            self.deferred.extend_from_slice(bytes);
        }
    }

    /// Takes these bytes out.
    pub(crate) fn take_deferred(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.deferred)
    }

    /// Decodes bytes up to the end of a message, or all of them. What is left stays in `bytes`.
    /// A text message is passed to `on_text`.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut &[u8],
        now_us: u64,
        on_text: &mut dyn FnMut(&str),
    ) {
        let (subscriber, echoes) = (&mut self.subscriber, self.echoes);
        let Some(decoder) = self.decoder.as_mut().filter(|_| !subscriber.is_ending()) else {
            *bytes = &[];
            return;
        };
        let mut ending: Option<Close> = None;
        let decoded = decoder.next(bytes, &mut |message| match message {
            Message::Text(_) | Message::Binary(_) if echoes => {
                subscriber.send_control(|_, out| say_back(message, out));
            }
            Message::Text(text) => on_text(text),
            Message::Binary(_) => ending = Some(close::BINARY),
            Message::Ping(payload) => {
                subscriber.send_control(|_, out| websocket::pong(payload, out));
            }
            Message::Pong(_) => {}
            Message::Close { .. } => ending = Some(close::DONE),
        });
        if let Err(error) = decoded {
            ending = Some(close::for_code(error.close_code()));
        }
        match decoder.is_unfinished() {
            false => self.unfinished_us = 0,
            true if self.unfinished_us == 0 => self.unfinished_us = now_us,
            true => {}
        }
        if let Some(close) = ending {
            self.close(close);
        }
    }

    /// Memory of what it sent that is not processed yet, in bytes.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        let decoder = self.decoder.as_ref();
        decoder.map_or(0, |decoder| decoder.held_bytes() + self.deferred.capacity())
    }

    /// Sends a close. What the client sends from now on is thrown away.
    pub(crate) fn close(&mut self, close: Close) {
        self.subscriber.close(close);
        self.decoder = None;
        self.deferred = Vec::new();
        self.unfinished_us = 0;
    }

    /// Appends an answer's JSON as a frame.
    pub(crate) fn answer(&mut self, json: &[u8]) {
        if !self.subscriber.is_ending() {
            self.subscriber.send_control(|_, out| {
                websocket::text_header(json.len(), out);
                out.extend_from_slice(json);
            });
        }
    }
}

fn say_back(message: Message<'_>, out: &mut Vec<u8>) {
    match message {
        Message::Text(text) => {
            websocket::text_header(text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Message::Binary(bytes) => {
            websocket::binary_header(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        _ => {}
    }
}
