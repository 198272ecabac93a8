//! All connections to an endpoint: opened a few at a time, then read as they get
//! ready.

use super::connection::{Connection, Stage, Turn, unreachable};
use super::recorder::{Pace, Recorder};
use super::resolver::Resolver;
use crate::measure::{Answer, Heard, Latency, Spread};
use crate::scenario::Endpoint;
use crate::swarm::read_buffer::ReadBuffer;
use crate::swarm::socket::{Poller, Ready, now_us};
use anyhow::{Context, anyhow, bail};

/// Handshakes under way at once: below the queue that most listeners have
/// (100 with asyncio, 128 with much else). Beyond it the kernel drops connections,
/// and asks again after a second, which would pass for the endpoint's set-up time.
const OPENING_MAX: usize = 64;
/// A TLS handshake is work for both sides: so many do not wait for each other.
const OPENING_TLS_MAX: usize = 32;
/// How long a connection may take to stand.
const OPEN_WITHIN_US: u64 = 10_000_000;
/// Reads of one connection before the others get their turn.
const READS_MAX: usize = 4;

/// The connections, numbered from 0.
#[derive(Debug)]
pub(super) struct ConnectionPool<'a> {
    endpoint: &'a Endpoint,
    resolver: Resolver,
    wanted: usize,
    connections: Vec<Connection>,
    /// Somebody has connected: the address is one that answers.
    is_reached: bool,
    opening: usize,
    /// None before this one is opening.
    oldest: usize,
    standing: usize,
    /// Those with more to read, and whether their end has been told.
    busy: Vec<(usize, bool)>,
    buffer: ReadBuffer,
    set_up: Latency,
    heard: Heard,
    pub(super) recorder: Recorder,
}

impl<'a> ConnectionPool<'a> {
    pub(super) fn new(
        endpoint: &'a Endpoint,
        connections: u32,
    ) -> anyhow::Result<ConnectionPool<'a>> {
        if connections == 0 {
            bail!("an endpoint is measured over at least one connection");
        }
        Ok(ConnectionPool {
            endpoint,
            resolver: Resolver::new(endpoint)?,
            wanted: connections as usize,
            connections: Vec::with_capacity(connections as usize),
            is_reached: false,
            opening: 0,
            oldest: 0,
            standing: 0,
            busy: Vec::new(),
            buffer: ReadBuffer::new(),
            set_up: Latency::default(),
            heard: Heard { connections, ..Heard::default() },
            recorder: Recorder::new(endpoint.timestamp.clone()),
        })
    }

    /// Connections that stand.
    pub(super) fn standing(&self) -> usize {
        self.standing
    }

    /// Whether every connection stands or is known not to.
    pub(super) fn is_complete(&self) -> bool {
        self.opening == 0 && self.connections.len() == self.wanted
    }

    /// Whether there is something to read already.
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Begins as many connections as may be under way; the first alone, to find
    /// out which address answers.
    pub(super) fn open_more(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let opening_max = match self.is_reached {
            false => 1,
            true if self.resolver.is_tls() => OPENING_TLS_MAX,
            true => OPENING_MAX,
        };
        while self.opening < opening_max && self.connections.len() < self.wanted {
            let index = self.connections.len();
            match Connection::dial(&self.resolver, self.endpoint, index, poller) {
                Ok(connection) => {
                    self.connections.push(connection);
                    self.opening += 1;
                }
                // A network that is not there is known at once.
                Err(_) if !self.is_reached && self.resolver.turn_to_next() => {}
                Err(error) => {
                    let url = self.endpoint.url.to_string();
                    return Err(unreachable(&error, &url))
                        .with_context(|| format!("connection {index} of {}", self.wanted));
                }
            }
        }
        Ok(())
    }

    /// Gives up connections that take too long.
    pub(super) fn give_up_late(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let now_us = now_us();
        while let Some(connection) = self.connections.get_mut(self.oldest) {
            if connection.stage == Stage::Opening {
                if now_us - connection.dialed_us < OPEN_WITHIN_US {
                    break;
                }
                let seconds = OPEN_WITHIN_US / 1_000_000;
                self.fail(self.oldest, &anyhow!("no answer within {seconds} s"), poller)?;
            } else {
                self.oldest += 1;
            }
        }
        Ok(())
    }

    /// A connection is ready. The error is that the endpoint cannot be reached at
    /// all, or that it does not keep to what it speaks.
    #[inline]
    pub(super) fn on_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<()> {
        let index = ready.key as usize;
        if let Err(error) = self.connections[index].flush(ready, poller) {
            return self.fail(index, &error, poller);
        }
        if ready.writable && !self.is_reached {
            self.is_reached = true;
            self.open_more(poller)?;
        }
        if ready.readable { self.read(index, ready.has_ended, poller) } else { Ok(()) }
    }

    /// Goes on with those that had more to read.
    pub(super) fn go_on(&mut self, poller: &Poller) -> anyhow::Result<()> {
        for (index, has_ended) in std::mem::take(&mut self.busy) {
            self.read(index, has_ended, poller)?;
        }
        Ok(())
    }

    /// Reads a few times. The end is told once, and a read may stop just before
    /// it: then it reads until it is there.
    #[inline]
    fn read(&mut self, index: usize, has_ended: bool, poller: &Poller) -> anyhow::Result<()> {
        for _ in 0..READS_MAX {
            let connection = &mut self.connections[index];
            let turn = connection
                .receive(&mut self.buffer, &mut self.recorder, poller)
                .with_context(|| format!("{}, connection {index}", self.endpoint.url))?;
            let goes_on = turn.may_be_more || has_ended;
            if turn.opened.is_some() || connection.is_over() {
                self.note(index, turn, poller)?;
            }
            if !goes_on || self.connections[index].is_over() {
                return Ok(());
            }
        }
        if self.busy.iter().all(|(busy, _)| *busy != index) {
            self.busy.push((index, has_ended));
        }
        Ok(())
    }

    /// A connection was opened, or is over.
    fn note(&mut self, index: usize, turn: Turn, poller: &Poller) -> anyhow::Result<()> {
        if let Some(answer) = turn.opened {
            let connection = &mut self.connections[index];
            connection.stage = Stage::Standing;
            self.set_up.record(now_us() - connection.dialed_us, 1);
            self.opening -= 1;
            self.standing += 1;
            self.heard.stood += 1;
            if self.heard.stood == 1 {
                let address = self.resolver.address().to_string();
                self.heard.answer = Answer { address, ..*answer };
            }
            if let Err(error) = connection.greet(&self.endpoint.send_on_open, poller) {
                connection.fail(&error, &mut self.recorder);
            }
        }
        let connection = &mut self.connections[index];
        match connection.stage {
            Stage::Opening => {
                if let Some(reason) = connection.session.refused() {
                    self.heard.refused.add(reason);
                    connection.stage = Stage::Refused;
                    self.opening -= 1;
                }
            }
            Stage::Standing => {
                if let Some(how) = connection.session.ended() {
                    self.heard.ended_early.add(how);
                    connection.stage = Stage::Ended;
                    self.standing -= 1;
                }
            }
            Stage::Refused | Stage::Ended => {}
        }
        self.open_more(poller)
    }

    /// A connection cannot be made or written to. If it is the first, another
    /// address may be better.
    fn fail(&mut self, index: usize, error: &anyhow::Error, poller: &Poller) -> anyhow::Result<()> {
        if !self.is_reached {
            if self.resolver.turn_to_next() {
                self.connections.clear();
                self.opening = 0;
                return self.open_more(poller);
            }
            return Err(unreachable(error, &self.endpoint.url.to_string()));
        }
        self.connections[index].fail(error, &mut self.recorder);
        self.note(index, Turn::default(), poller)
    }

    /// The span begins.
    pub(super) fn begin(&mut self, begun_us: u64) {
        self.recorder.reset();
        for connection in &mut self.connections {
            connection.pace = Pace::since(begun_us);
        }
    }

    /// The span, begun at `begun_us` and `span_us` long, is over: what was heard.
    pub(super) fn end(&mut self, begun_us: u64, span_us: u64) -> Heard {
        let mut heard = std::mem::take(&mut self.heard);
        self.recorder.tell(&mut heard);
        heard.span_us = span_us;
        heard.set_up = Spread::of(&self.set_up);
        let has_lasting = self.standing > 0;
        let connections = || {
            let stage = if has_lasting { Stage::Standing } else { Stage::Ended };
            self.connections.iter().filter(move |connection| connection.stage == stage)
        };
        let events = || connections().map(|connection| connection.pace.events);
        heard.events_per_connection_min = events().min().unwrap_or(0);
        heard.events_per_connection_max = events().max().unwrap_or(0);
        let end_us = begun_us + span_us;
        let still = connections().map(|connection| end_us.saturating_sub(connection.pace.last_us));
        heard.silence_us_max = still.max().unwrap_or(0).max(self.recorder.silence_us_max);
        heard
    }

    /// Why nothing stands.
    pub(super) fn why_nobody(&self) -> String {
        let (refused, ended) = (&self.heard.refused, &self.heard.ended_early);
        match self.heard.stood {
            0 => format!("{} let no connection stand: {refused}", self.endpoint.url),
            _ => format!("{} ended every connection before the span: {ended}", self.endpoint.url),
        }
    }

    /// Takes leave of everybody.
    pub(super) fn leave(&mut self, poller: &Poller) {
        for connection in &mut self.connections {
            connection.leave(poller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Typed;
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};

    /// Opens three connections to these addresses.
    fn open(addresses: Vec<SocketAddr>) -> anyhow::Result<Heard> {
        let url = "http://localhost:1/".to_owned();
        let endpoint = Endpoint::read(&Typed { url, ..Typed::default() })?;
        let mut poller = Poller::new()?;
        let mut pool = ConnectionPool::new(&endpoint, 3)?;
        pool.resolver.addresses = addresses;
        pool.open_more(&poller)?;
        while !pool.is_complete() {
            for index in 0..poller.wait(1000)? {
                pool.on_ready(poller.ready(index), &poller)?;
            }
        }
        Ok(pool.end(now_us(), 0))
    }

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut peers = Vec::new();
            loop {
                let (mut peer, _) = listener.accept()?;
                peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")?;
                peers.push(peer);
            }
        });
        let heard = open(vec![nobody, nobody, address, nobody]).unwrap();
        assert_eq!((heard.stood, heard.refused.count), (3, 0));
        assert_eq!(heard.answer.address, address.to_string());
        let error = open(vec![nobody, nobody]).unwrap_err().to_string();
        assert!(error.contains("nothing listens at http://localhost:1/"), "{error}");
    }
}
