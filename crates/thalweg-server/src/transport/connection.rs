use thalweg_wire::{
    Close, Framing, close,
    format::Compression,
    limits::COMMAND_BYTES_MAX,
    websocket::{self, Decoder, Message},
};

use super::Writer;
use crate::{
    access::Identity,
    config::{ECHO_BYTES, Limits, UNANSWERED_MAX, is_share},
    connection_limits::{Address, Caller, ConnectionPermit},
    fanout::{Feeds, Subscriber},
};

/// A subscriber's connection: a slab entry, no task.
pub(crate) struct Connection {
    /// Where its bytes go.
    pub(crate) writer: Writer,
    /// What it gets.
    pub(crate) subscriber: Subscriber,
    /// Of what a WebSocket says; what others say is thrown away.
    decoder: Option<Decoder>,
    /// Every message is said back as it is.
    echoes: bool,
    /// What it said and is not processed yet: its answers wait for it.
    deferred: Vec<u8>,
    /// When it last could not be sent everything, in µs; 0: it could.
    pub(crate) stalled_us: u64,
    /// What it was owed when it was first found that it takes too little, and since.
    owing: Owing,
    /// When a timer will have it visited, in µs; 0: none will.
    timer_us: u64,
    /// How many timers will.
    timers: u8,
    /// When the message that it has not finished began, in µs; 0: there is none.
    pub(crate) unfinished_us: u64,
    /// Tells it from another one that had its place in the slab.
    pub(crate) serial: u64,
    /// Publishes that other shards have not answered.
    pub(crate) unanswered: u32,
    /// It is not read until another shard has room for one of them, or has found a topic.
    pub(crate) waits: bool,
    /// Whose commands it brings.
    pub(crate) client: Client,
    /// Its place among the server's, held as long as it lives.
    _permit: Option<ConnectionPermit>,
}

/// Whose a request or a connection is: by what is a share of anything counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// Whose token it presented.
    pub(crate) identity: Identity,
    /// Where it is.
    pub(crate) address: Address,
    /// What it takes for long counts for that address.
    pub(crate) is_counted: bool,
}

impl Client {
    /// The one that makes a request.
    pub(crate) fn new(identity: Identity, caller: &Caller) -> Self {
        Self { identity, address: caller.address, is_counted: caller.is_counted }
    }

    /// The address that it counts for, if it does for any.
    pub(crate) fn counted(&self) -> Option<Address> {
        self.is_counted.then_some(self.address)
    }
}

/// What a peer that does not take everything is owed.
#[derive(Debug, Clone, Copy, Default)]
struct Owing {
    /// In µs; 0: it takes everything.
    since_us: u64,
    owed_bytes: usize,
    taken_bytes: usize,
}

/// What a client may say over a WebSocket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MaySay {
    /// Commands without events, for it may not publish.
    Commands,
    /// Commands of so many bytes.
    Events(u32),
    /// Whatever it likes: it is said back.
    Anything,
}

/// Timers of one connection: earlier ones are added as they are wanted, and a client
/// that goes on wanting earlier ones waits for those it has.
const TIMERS_MAX: u8 = 16;

impl Connection {
    /// A connection taken over.
    pub(crate) fn new(
        writer: Writer,
        subscriber: Subscriber,
        serial: u64,
        client: Client,
        may_say: MaySay,
        permit: Option<ConnectionPermit>,
    ) -> Self {
        let format = subscriber.format();
        let inflates = format.compression() == Compression::Deflate;
        let commands = COMMAND_BYTES_MAX as u32;
        let decoder = (format.framing() == Framing::WebSocket).then(|| match (may_say, inflates) {
            (MaySay::Anything, _) => Decoder::new(ECHO_BYTES as u32),
            (MaySay::Commands, false) => Decoder::new(commands),
            (MaySay::Commands, true) => Decoder::inflating_in_proportion(commands),
            (MaySay::Events(max), false) => Decoder::new(max),
            (MaySay::Events(max), true) => Decoder::inflating(max),
        });
        Self {
            writer,
            subscriber,
            decoder,
            echoes: matches!(may_say, MaySay::Anything),
            deferred: Vec::new(),
            stalled_us: 0,
            owing: Owing::default(),
            timer_us: 0,
            timers: 0,
            unfinished_us: 0,
            serial,
            unanswered: 0,
            waits: false,
            client,
            _permit: permit,
        }
    }

    /// Whether what it says can be answered; until then it waits unread, so that
    /// a peer that asks and does not listen costs no more than its socket.
    pub(crate) fn may_be_read(&self, limits: &Limits) -> bool {
        !self.waits
            && self.unanswered < UNANSWERED_MAX
            && self.subscriber.control_bytes() <= limits.control_bytes
    }

    /// Whether it holds more than its place while its peer does not read.
    pub(crate) fn holds_memory(&self) -> bool {
        self.subscriber.holds_memory() || self.writer.held_bytes() > 0
    }

    /// Its writer takes no more: its peer is owed what it holds.
    pub(crate) fn block(&mut self, feeds: &impl Feeds, now_us: u64) {
        self.stalled_us = now_us;
        if self.owing.since_us == 0 {
            self.begin_owing(feeds, now_us);
        }
    }

    fn begin_owing(&mut self, feeds: &impl Feeds, now_us: u64) {
        // Of an earlier time.
        self.writer.take_taken(0);
        let owed_bytes = self.subscriber.held_bytes(feeds) + self.writer.held_bytes();
        self.owing = Owing { since_us: now_us, owed_bytes, taken_bytes: 0 };
    }

    /// Its writer took `sent` bytes.
    pub(crate) fn moved(&mut self, sent: usize) {
        self.stalled_us = 0;
        if self.owing.since_us > 0 {
            self.owing.taken_bytes += self.writer.take_taken(sent);
        }
    }

    /// Its writer took everything.
    pub(crate) fn owes_nothing(&mut self) {
        self.owing.since_us = 0;
    }

    /// Whether its peer has taken too little of what it was owed for `stall_us`.
    pub(crate) fn is_stalled(&mut self, feeds: &impl Feeds, now_us: u64, stall_us: u64) -> bool {
        // What was encrypted goes out without a visit.
        self.owing.taken_bytes += self.writer.take_taken(0);
        let Owing { since_us, owed_bytes, taken_bytes } = self.owing;
        if now_us.saturating_sub(self.stalled_us) > stall_us {
            return true;
        }
        if now_us.saturating_sub(since_us) <= stall_us {
            return false;
        }
        let is_stalled = !is_share(taken_bytes, owed_bytes);
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

    /// One of its timers is spent.
    pub(crate) fn timer_fired(&mut self) {
        self.timer_us = 0;
        self.timers = self.timers.saturating_sub(1);
    }

    /// Keeps what was read and cannot be processed yet.
    pub(crate) fn defer(&mut self, bytes: &[u8]) {
        if self.decoder.is_some() {
            self.deferred.extend_from_slice(bytes);
        }
    }

    /// Gives it back.
    pub(crate) fn take_deferred(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.deferred)
    }

    /// Takes bytes in up to the end of a message, or all of them; `bytes` is what is left.
    /// A text message goes to `on_text`.
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

    /// Memory of what it said and is not done with, in bytes.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        let decoder = self.decoder.as_ref();
        decoder.map_or(0, |decoder| decoder.held_bytes() + self.deferred.capacity())
    }

    /// Says good-bye; what it says from now on is thrown away.
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
