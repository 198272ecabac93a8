//! The loop: wait, read, send.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::time::Timespec;
use slab::Slab;
use socket2::SockRef;

use crate::body::{Lines, Piece};
use crate::connection::{Connection, Link, Lost, Plain, Publisher, Received, Role, Sent};
use crate::fanout::Fanout;
use crate::frame::answer;
use crate::http::{self, HEAD_BYTES_MAX, Refusal, Request};
use crate::options::{LimitError, Options, SourcePlan};
use crate::source::Source;
use crate::tls::{self, Tls};

/// Ten thousand connections may arrive at once.
const LISTEN_BACKLOG: i32 = 4096;

/// Sockets handled in one turn.
const READY_MAX: usize = 1024;

/// Size of the memory for one read; a publisher may fill it each time.
const READ_BYTES_MAX: usize = 256 << 10;

/// Maximum number of reads from one connection in one turn, so that a flood does not delay the events of others.
const READS_PER_TURN_MAX: usize = 4;

/// The kernel holds no more unsent bytes than this. Waiting events stay in the log, and are sent together with newer ones; an
/// echo overtakes them. This is Thalweg's default, too.
const UNSENT_BYTES: u32 = 16 << 10;

/// Keys of the epoll that do not belong to a connection.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// A WebSocket frame's opcode for close (RFC 6455 §5.5.1), under its mask.
const OPCODE_MASK: u8 = 0x0f;
const OPCODE_CLOSE: u8 = 0x8;

pub(crate) fn run(options: Options) -> Result<(), LimitError> {
    if !options.is_tls {
        return Server::start(options, |socket| Ok(Plain(socket)))?.run();
    }
    let config = tls::self_signed()?;
    Server::start(options, move |socket| Tls::new(socket, &config))?.run()
}

struct Server<L, M> {
    epoll: OwnedFd,
    listener: TcpListener,
    make_link: M,
    connections: Slab<Connection<L>>,
    fanout: Fanout,
    source: Option<(usize, Source)>,
    /// Whether more ticks of the source are due than the last turn could process.
    is_behind: bool,
    input: Vec<u8>,
    ready: Vec<Event>,
}

/// The reason to close a connection: a refusal to send before, or `None`.
pub(crate) struct Hangup(pub(crate) Option<Refusal>);

impl<L: Link, M: Fn(OwnedFd) -> Result<L, LimitError>> Server<L, M> {
    fn start(options: Options, make_link: M) -> Result<Self, LimitError> {
        let listener = listen(options.listen)?;
        let mut fanout = Fanout::new(options.mode, options.busy_wait);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system("an epoll"))?;
        watch(&epoll, &listener, LISTENER).map_err(system("watching the listener"))?;
        let source = match options.source {
            None => None,
            Some(SourcePlan::Dummy(_)) => return Err(LimitError::DummyWithoutEcho),
            Some(SourcePlan::Constant(plan)) => {
                let source = Source::start(&plan).map_err(system("a timer"))?;
                watch(&epoll, &source.timer, TIMER).map_err(system("watching the timer"))?;
                Some((fanout.topic_key(&plan.topic), source))
            }
        };
        Ok(Self {
            epoll,
            listener,
            make_link,
            connections: Slab::new(),
            fanout,
            source,
            is_behind: false,
            input: vec![0; READ_BYTES_MAX],
            ready: Vec::with_capacity(READY_MAX),
        })
    }

    fn run(mut self) -> Result<(), LimitError> {
        loop {
            self.turn()?;
        }
    }

    /// Reads all input, then sends everything that is due.
    fn turn(&mut self) -> Result<(), LimitError> {
        let mut ready = std::mem::take(&mut self.ready);
        let no_wait = self.is_behind.then(Timespec::default);
        let spare = rustix::buffer::spare_capacity(&mut ready);
        match epoll::wait(&self.epoll, spare, no_wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(system("waiting")(error)),
        }
        for event in ready.drain(..) {
            match event.data.u64() {
                LISTENER => self.accept(),
                TIMER => self.clear_timer(),
                key => self.serve(key as usize, event.flags),
            }
        }
        self.ready = ready;
        if let Some((topic, source)) = &mut self.source {
            self.is_behind = source.append_due(&mut self.fanout, *topic);
        }
        self.deliver();
        Ok(())
    }

    fn accept(&mut self) {
        while let Some(socket) = accept(&self.listener) {
            let entry = self.connections.vacant_entry();
            if watch(&self.epoll, &socket, entry.key() as u64).is_ok()
                && let Ok(link) = (self.make_link)(socket)
            {
                entry.insert(Connection::new(link));
            }
        }
    }

    fn clear_timer(&mut self) {
        if let Some((_, source)) = &self.source {
            // The clock decides which ticks are due, so the count is not needed.
            let _ = rustix::io::read(&source.timer, &mut [0; 8]);
        }
    }

    fn serve(&mut self, key: usize, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(key) else {
            return; // closed earlier in this turn
        };
        if flags.contains(EventFlags::OUT) {
            match self.fanout.resume(connection) {
                Ok(true) => {}
                Ok(false) => watch_output(&self.epoll, key, &connection.link, false),
                Err(Lost) => return self.close(key),
            }
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && let Err(Hangup(refusal)) = self.read(key)
        {
            if let Some(Refusal(status, sentence)) = refusal {
                let body = format!(r#"{{"error":{{"message":"{sentence}"}}}}"#);
                // The connection is closed in any case.
                let _ = self.reply(key, &http::response(status, body.as_bytes()));
            }
            self.close(key);
        }
    }

    fn read(&mut self, key: usize) -> Result<(), Hangup> {
        // Take the input out, so that all of `self` can be borrowed.
        let mut input = std::mem::take(&mut self.input);
        let outcome = self.read_into(key, &mut input);
        self.input = input;
        outcome
    }

    fn read_into(&mut self, key: usize, input: &mut [u8]) -> Result<(), Hangup> {
        for _ in 0..READS_PER_TURN_MAX {
            match self.connections[key].link.receive(input) {
                Received::Bytes { length, is_all } => {
                    self.consume(key, &input[..length])?;
                    if is_all {
                        return Ok(());
                    }
                }
                Received::Nothing => return Ok(()),
                Received::End => return Err(Hangup(None)),
            }
        }
        Ok(())
    }

    /// Handles input by the role of the connection.
    fn consume(&mut self, key: usize, mut input: &[u8]) -> Result<(), Hangup> {
        while !input.is_empty() {
            match &mut self.connections[key].role {
                Role::Request(head) => {
                    if let Some(request) = take_head(head, &mut input)? {
                        head.clear();
                        self.begin(key, request)?;
                    }
                }
                Role::Publisher(publisher) => {
                    let reply = publish(&mut self.fanout, publisher, &mut input)?;
                    if let Some(reply) = reply {
                        self.connections[key].role = Role::Request(Vec::new());
                        self.reply(key, &reply)?;
                    }
                }
                Role::Subscriber(subscriber) => {
                    let is_close =
                        subscriber.is_websocket && input[0] & OPCODE_MASK == OPCODE_CLOSE;
                    return if is_close { Err(Hangup(None)) } else { Ok(()) };
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, key: usize, request: Request) -> Result<(), Hangup> {
        match request {
            Request::Health => self.reply(key, &http::response("200 OK", b"ok\n"))?,
            Request::Subscribe { topics, framing, response } => {
                let topics = topics.iter().map(|topic| self.fanout.topic_key(topic)).collect();
                let (subscriber, frames) = self.fanout.subscribe(key, topics, framing);
                self.connections[key].role = Role::Subscriber(subscriber);
                self.reply(key, &[response.as_bytes(), &frames].concat())?;
            }
            Request::Publish { topic, body, expects_continue } => {
                let topic = self.fanout.topic_key(&topic);
                let mut publisher = Publisher {
                    topic,
                    body,
                    lines: Lines::default(),
                    first: self.fanout.topic(topic).head + 1,
                    position: self.fanout.topic(topic).head,
                    count: 0,
                };
                if expects_continue {
                    self.reply(key, b"HTTP/1.1 100 Continue\r\n\r\n")?;
                }
                // Without a body no further input arrives, so publish now.
                match publish(&mut self.fanout, &mut publisher, &mut &b""[..])? {
                    Some(reply) => self.reply(key, &reply)?,
                    None => self.connections[key].role = Role::Publisher(Box::new(publisher)),
                }
            }
        }
        Ok(())
    }

    /// Sends an answer at once. Fails if it does not fit into the socket, because the peer has not read enough.
    fn reply(&mut self, key: usize, bytes: &[u8]) -> Result<(), Hangup> {
        match self.connections[key].link.send(bytes) {
            Ok(Sent { is_full: false, .. }) => Ok(()),
            _ => Err(Hangup(None)),
        }
    }

    fn deliver(&mut self) {
        let watch = |key, link: &L| watch_output(&self.epoll, key, link, true);
        for key in self.fanout.deliver(&mut self.connections, watch) {
            self.close(key);
        }
    }

    fn close(&mut self, key: usize) {
        if let Some(connection) = self.connections.try_remove(key)
            && let Role::Subscriber(subscriber) = connection.role
        {
            self.fanout.unsubscribe(key, &subscriber);
        }
    }
}

/// Moves input into `head` until the head is complete, and then parses the head.
pub(crate) fn take_head(head: &mut Vec<u8>, input: &mut &[u8]) -> Result<Option<Request>, Hangup> {
    let before = head.len();
    let room = input.len().min(HEAD_BYTES_MAX - before);
    head.extend_from_slice(&input[..room]);
    let searched = before.saturating_sub(3);
    let Some(at) = memchr::memmem::find(&head[searched..], b"\r\n\r\n") else {
        *input = &input[room..];
        if head.len() == HEAD_BYTES_MAX {
            let status = "431 Request Header Fields Too Large";
            return Err(Hangup(Some(Refusal(status, "at most 8 KiB"))));
        }
        return Ok(None);
    };
    head.truncate(searched + at + 4);
    *input = &input[head.len() - before..];
    http::parse(head).map(Some).map_err(|refusal| Hangup(Some(refusal)))
}

/// Appends the events of `input`; returns the reply at the end of the body.
fn publish(
    fanout: &mut Fanout,
    publisher: &mut Publisher,
    input: &mut &[u8],
) -> Result<Option<Vec<u8>>, Hangup> {
    let refuse = |status, sentence| Hangup(Some(Refusal(status, sentence)));
    let too_long = |_| refuse("413 Content Too Large", "a line of over 1 MiB");
    let Publisher { topic, body, lines, first, position, count } = publisher;
    let mut post = |line: &[u8]| {
        *position = fanout.post(*topic, line);
        if *count == 0 {
            *first = *position;
        }
        *count += 1;
    };
    loop {
        let piece = body.next(input).map_err(|_| refuse("400 Bad Request", "a broken chunk"))?;
        match piece {
            Piece::Data(data) => lines.feed(data, &mut post).map_err(too_long)?,
            Piece::Starved => return Ok(None),
            Piece::End => break,
        }
    }
    lines.finish(post).map_err(too_long)?;
    let name = &fanout.topic(*topic).name;
    let body = answer(name, *position, *first, *count);
    Ok(Some(http::response("200 OK", &body)))
}

pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, LimitError> {
    let refused = |error: std::io::Error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        LimitError::Listen(address, errno)
    };
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    // Listen again, because the standard library's backlog is 128.
    rustix::net::listen(&listener, LISTEN_BACKLOG).map_err(system("a longer backlog"))?;
    let address = listener.local_addr().map_err(refused)?;
    // Nobody may be reading the output.
    let _ = writeln!(std::io::stdout(), "listening on http://{address}");
    Ok(listener)
}

pub(crate) fn accept(listener: &TcpListener) -> Option<OwnedFd> {
    loop {
        let socket = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC).ok()?;
        let options = SockRef::from(&socket);
        if options.set_tcp_nodelay(true).is_ok()
            && options.set_tcp_notsent_lowat(UNSENT_BYTES).is_ok()
        {
            return Some(socket);
        }
    }
}

pub(crate) fn watch(epoll: &OwnedFd, file: impl AsFd, key: u64) -> Result<(), Errno> {
    epoll::add(epoll, file, EventData::new_u64(key), EventFlags::IN)
}

/// Turns notifications of room in the socket on or off.
fn watch_output(epoll: &OwnedFd, key: usize, link: &impl Link, wanted: bool) {
    let mut flags = EventFlags::IN;
    flags.set(EventFlags::OUT, wanted);
    let data = EventData::new_u64(key as u64);
    // This fails only for a file that is not watched, and all connections are watched.
    let _ = epoll::modify(epoll, link.socket(), data, flags);
}

pub(crate) fn system(what: &'static str) -> impl Fn(Errno) -> LimitError {
    move |errno| LimitError::System(what, errno)
}
