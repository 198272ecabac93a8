//! The server of `--echo`, for experiments B and C: it echoes WebSocket messages before the firehose, at the next frame boundary.
//! It is a separate server, so that the fan-out does not depend on it.
//!
//! Ticks of the firehose during an unfinished frame are skipped, so that none pile up, as with a timer and blocking writes.

use std::io::IoSlice;
use std::net::TcpListener;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use slab::Slab;

use crate::connection::{Received, receive_plain, send_slices};
use crate::frame::{ENVELOPE_END, Envelope, Framing, push_websocket_header};
use crate::http::{self, Refusal, Request};
use crate::options::{DummyPlan, LimitError, Options, SourcePlan};
use crate::server::{Hangup, accept, listen, system, take_head, watch};
use crate::source::ticker;
use crate::talk::echo_messages;

/// Sockets handled in one turn.
const READY_MAX: usize = 256;

const READ_BYTES_MAX: usize = 64 << 10;

const EVENT_HEAD: &[u8] = b"{\"pad\":\"";
const EVENT_END: &[u8] = b"\"}";

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

pub(crate) fn run(options: &Options) -> Result<(), LimitError> {
    let plan = match &options.source {
        _ if options.is_tls => return Err(LimitError::EchoAlone),
        Some(SourcePlan::Constant(_)) => return Err(LimitError::EchoAlone),
        Some(SourcePlan::Dummy(plan)) => Some(plan),
        None => None,
    };
    let listener = listen(options.listen)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system("an epoll"))?;
    watch(&epoll, &listener, LISTENER).map_err(system("watching the listener"))?;
    let timer = plan.map(|plan| ticker(plan.interval_us)).transpose();
    let timer = timer.map_err(system("a timer"))?;
    if let Some(timer) = &timer {
        watch(&epoll, timer, TIMER).map_err(system("watching the timer"))?;
    }
    let mut echo = Echo {
        epoll,
        listener,
        timer,
        firehose: plan.map(Firehose::new),
        peers: Slab::new(),
        input: vec![0; READ_BYTES_MAX],
    };
    loop {
        echo.turn()?;
    }
}

struct Echo {
    epoll: OwnedFd,
    listener: TcpListener,
    timer: Option<OwnedFd>,
    firehose: Option<Firehose>,
    peers: Slab<Peer>,
    input: Vec<u8>,
}

/// The dummy event, which is always the same except for its number.
struct Firehose {
    topic: String,
    /// The padding of an event, the end of the event, and the end of its envelope.
    tail: Vec<u8>,
}

#[derive(Debug)]
struct Peer {
    socket: OwnedFd,
    /// The request's head, and later the part of a message that has arrived.
    received: Vec<u8>,
    is_open: bool,
    wants_firehose: bool,
    /// Whole frames that wait for the next boundary.
    answers: Vec<u8>,
    /// Whether a tick has passed and its frame has not begun.
    is_due: bool,
    number: u64,
    now: Sending,
    is_blocked: bool,
}

/// The bytes that are being sent, and the number already sent.
#[derive(Debug)]
enum Sending {
    Nothing,
    Answers(Vec<u8>, usize),
    /// The frame's beginning; the firehose has the rest.
    Dummy(Vec<u8>, usize),
}

impl Echo {
    fn turn(&mut self) -> Result<(), LimitError> {
        let mut ready: Vec<Event> = Vec::with_capacity(READY_MAX);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(system("waiting")(error)),
        }
        for event in ready {
            match event.data.u64() {
                LISTENER => self.accept(),
                TIMER => self.tick(),
                key => self.serve(key as usize, event.flags),
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        while let Some(socket) = accept(&self.listener) {
            let entry = self.peers.vacant_entry();
            if watch(&self.epoll, &socket, entry.key() as u64).is_ok() {
                entry.insert(Peer::new(socket));
            }
        }
    }

    fn tick(&mut self) {
        if let Some(timer) = &self.timer {
            // The number of passed ticks is not needed: ticks in between are skipped.
            let _ = rustix::io::read(timer, &mut [0; 8]);
        }
        let keys: Vec<usize> = self.peers.iter().map(|(key, _)| key).collect();
        for key in keys {
            let peer = &mut self.peers[key];
            peer.is_due =
                peer.wants_firehose && matches!(peer.now, Sending::Nothing | Sending::Answers(..));
            self.pump(key);
        }
    }

    fn serve(&mut self, key: usize, flags: EventFlags) {
        if !self.peers.contains(key) {
            return; // closed earlier in this turn
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && self.read(key).is_err()
        {
            self.peers.remove(key);
            return;
        }
        self.pump(key);
    }

    fn read(&mut self, key: usize) -> Result<(), ()> {
        let peer = &mut self.peers[key];
        match receive_plain(&peer.socket, &mut self.input) {
            Received::Bytes { length, .. } => peer.receive(&self.input[..length], &self.firehose),
            Received::Nothing => Ok(()),
            Received::End => Err(()),
        }
    }

    /// Sends due frames until the socket is full.
    fn pump(&mut self, key: usize) {
        let peer = &mut self.peers[key];
        let is_blocked = match peer.pump(self.firehose.as_ref()) {
            Ok(is_done) => !is_done,
            Err(_) => {
                self.peers.remove(key);
                return;
            }
        };
        if is_blocked != peer.is_blocked {
            peer.is_blocked = is_blocked;
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, is_blocked);
            // This fails only for a socket that is not watched, and all sockets are watched.
            let _ = epoll::modify(&self.epoll, &peer.socket, EventData::new_u64(key as u64), flags);
        }
    }
}

impl Peer {
    fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            received: Vec::new(),
            is_open: false,
            wants_firehose: false,
            answers: Vec::new(),
            is_due: false,
            number: 0,
            now: Sending::Nothing,
            is_blocked: false,
        }
    }

    fn receive(&mut self, mut input: &[u8], firehose: &Option<Firehose>) -> Result<(), ()> {
        while !self.is_open && !input.is_empty() {
            match take_head(&mut self.received, &mut input) {
                Ok(None) => return Ok(()),
                Ok(Some(Request::Subscribe { topics, framing: Framing::WebSocket, response })) => {
                    self.received.clear();
                    self.is_open = true;
                    self.answers.extend_from_slice(response.as_bytes());
                    let topic = topics[0].as_str();
                    self.wants_firehose =
                        firehose.as_ref().is_some_and(|firehose| firehose.topic == topic);
                    let confirmation = Envelope { topic, first: 1, count: 0 };
                    confirmation.push_head(Framing::WebSocket, 0, &mut self.answers);
                    confirmation.push_tail(Framing::WebSocket, &mut self.answers);
                }
                Ok(Some(Request::Health)) => {
                    self.received.clear();
                    self.answers.extend(http::response("200 OK", b"ok\n"));
                }
                Ok(Some(_)) | Err(Hangup(None)) => return Err(()),
                Err(Hangup(Some(Refusal(status, sentence)))) => {
                    self.received.clear();
                    self.answers.extend(http::response(status, sentence.as_bytes()));
                }
            }
        }
        self.received.extend_from_slice(input);
        if self.is_open {
            echo_messages(&mut self.received, &mut self.answers).map_err(drop)
        } else {
            Ok(())
        }
    }

    /// Sends answers first, at each boundary. Returns whether everything is sent.
    fn pump(&mut self, firehose: Option<&Firehose>) -> Result<bool, Errno> {
        loop {
            let (head, tail, gone): (&[u8], &[u8], &mut usize) = match &mut self.now {
                Sending::Answers(bytes, gone) => (bytes, &[], gone),
                Sending::Dummy(head, gone) => {
                    (head, firehose.map_or(&[], |firehose| &firehose.tail), gone)
                }
                Sending::Nothing if !self.answers.is_empty() => {
                    self.now = Sending::Answers(std::mem::take(&mut self.answers), 0);
                    continue;
                }
                Sending::Nothing => match firehose {
                    Some(firehose) if self.is_due => {
                        self.is_due = false;
                        self.number += 1;
                        self.now = Sending::Dummy(firehose.head(self.number), 0);
                        continue;
                    }
                    _ => return Ok(true),
                },
            };
            let left_of_head = head.get(*gone..).unwrap_or_default();
            let left_of_tail = &tail[gone.saturating_sub(head.len())..];
            let slices = [IoSlice::new(left_of_head), IoSlice::new(left_of_tail)];
            match send_slices(&self.socket, &slices) {
                Ok(sent) => *gone += sent,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error),
            }
            if *gone == head.len() + tail.len() {
                self.now = Sending::Nothing;
            }
        }
    }
}

impl Firehose {
    fn new(plan: &DummyPlan) -> Self {
        let mut tail = vec![b'x'; plan.size - EVENT_HEAD.len() - EVENT_END.len()];
        tail.extend_from_slice(EVENT_END);
        tail.extend_from_slice(ENVELOPE_END.as_bytes());
        Self { topic: plan.topic.clone(), tail }
    }

    /// Returns the beginning of frame `number`, up to the padding that `tail` has.
    fn head(&self, number: u64) -> Vec<u8> {
        let mut envelope = Vec::new();
        Envelope { topic: &self.topic, first: number, count: 1 }.push_start(&mut envelope);
        envelope.extend_from_slice(EVENT_HEAD);
        let mut head = Vec::new();
        push_websocket_header(&mut head, envelope.len() + self.tail.len());
        head.extend(envelope);
        head
    }
}
