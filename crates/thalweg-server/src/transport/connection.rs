use thalweg_wire::{
    Close, Framing, close,
    limits::COMMAND_ROOM_BYTES,
    websocket::{self, Decoder, Message},
};

use super::{Socket, socket::Read};
use crate::{config::Limits, fanout::Subscriber};

/// A subscriber's connection after the takeover: a slab entry, no task.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Where its bytes go.
    pub socket: Socket,
    /// What it gets.
    pub subscriber: Subscriber,
    inbound: Inbound,
    /// When it last could not be sent everything, in µs; 0: it could.
    pub stalled_us: u64,
    /// When a timer will have it visited, in µs; 0: none will.
    timer_us: u64,
    /// Tells it from another one that had its place in the slab.
    pub serial: u64,
    /// Publishes it waits for; it is not read from meanwhile.
    pub unanswered: u32,
}

#[derive(Debug)]
enum Inbound {
    /// One-way: whatever it says is thrown away.
    Ignored,
    WebSocket(Decoder),
}

/// What reading a connection came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// There may be more to read now.
    More,
    /// Nothing more now.
    Nothing,
    /// The peer is gone.
    Gone,
}

impl Connection {
    /// A connection taken over.
    pub(crate) fn new(socket: Socket, subscriber: Subscriber, serial: u64) -> Self {
        let inbound = match subscriber.framing() {
            Framing::WebSocket => {
                Inbound::WebSocket(Decoder::new((1 << 20) + COMMAND_ROOM_BYTES as u32))
            }
            Framing::Sse | Framing::SseMany | Framing::Ndjson | Framing::ForeverFrame => {
                Inbound::Ignored
            }
        };
        Self { socket, subscriber, inbound, stalled_us: 0, timer_us: 0, serial, unanswered: 0 }
    }

    /// Whether what it says can be answered; until then it waits unread, so that
    /// a peer that asks and does not listen costs no more than its socket.
    pub(crate) fn may_be_read(&self, limits: &Limits) -> bool {
        self.unanswered == 0 && self.subscriber.own_bytes() <= limits.own_bytes
    }

    /// Whether a visit at `due_us` needs a timer: not if one comes by then.
    pub(crate) fn wants_timer(&mut self, due_us: u64) -> bool {
        let wants = self.timer_us == 0 || due_us < self.timer_us;
        if wants {
            self.timer_us = due_us;
        }
        wants
    }

    /// Its timer is spent.
    pub(crate) fn timer_rang(&mut self) {
        self.timer_us = 0;
    }

    /// Reads once; whole text messages go to `command`, which may append
    /// answers to the frames it is given.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        command: &mut dyn FnMut(&str, &mut Vec<u8>),
    ) -> Heard {
        match self.socket.read(buffer) {
            Read::Bytes(bytes) => {
                self.hear(&buffer[..bytes], command);
                // Not taken for the last, short or not: an end that came with
                // these bytes has no edge of its own.
                Heard::More
            }
            Read::Empty => Heard::Nothing,
            Read::Ended => Heard::Gone,
        }
    }

    /// Takes bytes in that were read before.
    pub(crate) fn hear(&mut self, bytes: &[u8], command: &mut dyn FnMut(&str, &mut Vec<u8>)) {
        let Inbound::WebSocket(decoder) = &mut self.inbound else { return };
        if self.subscriber.is_ending() {
            return;
        }
        let own = self.subscriber.own_frames();
        let mut ending: Option<Close> = None;
        let heard = decoder.push(bytes, &mut |message| match message {
            _ if ending.is_some() => {}
            Message::Text(text) => command(text, own),
            Message::Binary(_) => ending = Some(close::BINARY),
            Message::Ping(payload) => websocket::pong(payload, own),
            Message::Pong(_) => {}
            Message::Close { .. } => ending = Some(close::DONE),
        });
        if let Err(error) = heard {
            ending.get_or_insert(close::for_code(error.close_code()));
        }
        if let Some(close) = ending {
            self.subscriber.close(close);
        }
    }

    /// Appends an answer's JSON as a frame.
    pub(crate) fn answer(&mut self, json: &[u8]) {
        if !self.subscriber.is_ending() {
            let own = self.subscriber.own_frames();
            websocket::text_header(json.len(), own);
            own.extend_from_slice(json);
        }
    }
}
