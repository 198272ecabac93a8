//! How connections are established, and how they end: ends by an external endpoint are recorded, early ends
//! by a subject are errors or cuts.

use super::{Connection, Subscribers};
use crate::scenario::Transport;
use crate::swarm::carrier::websocket;
use crate::swarm::parser::{Over, Stage};
use crate::swarm::protocol_session::{ProtocolSession, Shape};
use crate::swarm::socket::{Poller, now_us};
use anyhow::{anyhow, bail};
use std::io;

impl Subscribers {
    /// Checks whether a connection is now established or over.
    #[inline]
    pub(super) fn settle(
        &mut self,
        index: usize,
        before: Stage,
        over: Option<Over>,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        if before == Stage::Established && over.is_none() {
            return Ok(());
        }
        if before.is_opening() && self.connections[index].session.stage == Stage::Established {
            self.opening -= 1;
            self.established += 1;
            if let Some(newly_established) = &mut self.newly_established {
                newly_established.push(index);
            }
            if let Some(recorder) = self.receiver.recorder() {
                recorder.reached(index, self.dialer.address().to_string(), now_us());
            }
            self.open_more(poller)?;
        }
        if let Some(Over::Refused(_) | Over::Ended(_) | Over::Completed) = &over
            && before.is_unanswered()
            && self.redial(index, poller)?
        {
            return Ok(());
        }
        match over {
            None => Ok(()),
            Some(over) if self.url.is_some() => self.record(index, &over, poller),
            Some(Over::Refused(reason)) => bail!("connection {index} was refused: {reason}"),
            Some(Over::Closed(how)) => bail!("the subject closed connection {index}: {how}"),
            Some(Over::Ended(_) | Over::Completed) => self.end(index, poller),
        }
    }

    fn record(&mut self, index: usize, over: &Over, poller: &Poller) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        let stage = std::mem::replace(&mut connection.session.stage, Stage::Ended);
        connection.link.shut_down();
        if let Some(recorder) = self.receiver.recorder() {
            match over {
                Over::Completed => recorder.completed(index, now_us()),
                Over::Refused(reason) => recorder.refused(reason),
                Over::Closed(how) | Over::Ended(how) if stage.is_opening() => recorder.refused(how),
                Over::Closed(how) | Over::Ended(how) => recorder.ended(index, how),
            }
        }
        self.renewals.add(index, *over == Over::Completed, now_us());
        if stage.is_opening() {
            self.opening -= 1;
        } else if stage == Stage::Established {
            self.established -= 1;
        }
        self.open_more(poller)
    }

    /// Handles a connection that cannot be opened or written to. If it is the first to an external endpoint, another address may work.
    pub(super) fn fail(
        &mut self,
        index: usize,
        error: &anyhow::Error,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        if self.connections[index].session.stage.is_unanswered() && self.redial(index, poller)? {
            return Ok(());
        }
        if self.url.is_none() {
            bail!("connection {index} was refused: {error:#}");
        }
        if !self.dialer.is_reached() {
            if self.dialer.turn_to_next() {
                self.connections.clear();
                self.busy.clear();
                self.opening = 0;
                return self.open_more(poller);
            }
            return match error.downcast_ref::<io::Error>() {
                Some(cause) => Err(self.unreachable(cause)),
                None => Err(anyhow!("{} cannot be reached: {error:#}", self.name())),
            };
        }
        let over = self.connections[index].session.give_up(format!("{error:#}"));
        self.record(index, &over, poller)
    }

    /// Dials a connection to a subject a second time, because the first attempt failed before the subject answered. Returns `false` after
    /// the second attempt, and for an external endpoint, whose failures are part of the measurement.
    fn redial(&mut self, index: usize, poller: &Poller) -> anyhow::Result<bool> {
        if self.url.is_some() || !self.redialed.insert(index) {
            return Ok(false);
        }
        self.redialed_new += 1;
        self.disconnect(index, poller)?;
        let session = &mut self.connections[index].session;
        match self.resumes {
            true => session.reconnect(),
            false => *session = ProtocolSession::new(index, &self.settings, false),
        }
        self.opening -= 1;
        self.open_more(poller)?;
        Ok(true)
    }

    /// Dials all connections that the subject has not answered a second time.
    pub(in crate::swarm) fn redial_unanswered(&mut self, poller: &Poller) -> anyhow::Result<()> {
        let is_waiting = |index: &usize| {
            self.connections[*index].session.stage.is_unanswered()
                && !self.returning.contains(index)
        };
        let waiting: Vec<usize> = (0..self.connections.len()).filter(is_waiting).collect();
        for index in waiting {
            self.redial(index, poller)?;
        }
        Ok(())
    }

    /// Returns how many connections were dialed a second time since the last call.
    pub(in crate::swarm) fn take_redialed(&mut self) -> u32 {
        std::mem::take(&mut self.redialed_new)
    }

    /// Returns the error for a server that cannot be reached.
    pub(super) fn unreachable(&self, error: &io::Error) -> anyhow::Error {
        let name = self.name();
        match error.kind() {
            io::ErrorKind::ConnectionRefused if self.url.is_some() => {
                anyhow!("nothing listens at {name}: start the server first, or check the port")
            }
            io::ErrorKind::AddrNotAvailable => anyhow!(
                "this machine has no local port left for {name}: take fewer connections, or let \
                 them stay longer"
            ),
            _ => anyhow!("{name} cannot be reached: {error}"),
        }
    }

    fn name(&self) -> &str {
        self.url.as_deref().unwrap_or("the subject")
    }

    /// Adds the connection to an error, if the server is an external endpoint.
    pub(super) fn with_connection(&self, index: usize, error: anyhow::Error) -> anyhow::Error {
        match &self.url {
            Some(url) => error.context(format!("{url}, connection {index}")),
            None => error,
        }
    }

    /// Handles the end of a connection by the subject, and opens it again if the subject announced that.
    fn end(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let Connection { session, link, carry, .. } = &mut self.connections[index];
        let is_reload = match session.shape.as_deref_mut() {
            Some(Shape::Resumable(cursors, _)) => cursors.take_reload(),
            _ => false,
        };
        if !is_reload || session.stage != Stage::Established {
            return self.cut(index, poller);
        }
        poller.remove(link.socket())?;
        session.reconnect();
        *carry = Vec::new();
        self.established -= 1;
        self.returning.push_back(index);
        self.open_more(poller)
    }

    /// Handles a connection that the subject ended and that should have lasted.
    fn cut(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        let Connection { session, link, .. } = &mut self.connections[index];
        if session.stage != Stage::Established {
            bail!("connection {index} was ended before its subscription was established");
        }
        session.stage = Stage::Ended;
        let subscribers = match session.shape.as_deref() {
            Some(Shape::Streams(streams)) => streams.count(),
            _ => 1,
        };
        for _ in 0..subscribers {
            self.receiver.ledger.cut();
        }
        Ok(poller.remove(link.socket())?)
    }

    /// Returns why no connection is established; `None` if one is.
    pub(in crate::swarm) fn why_nobody(&mut self) -> Option<String> {
        if self.established > 0 {
            return None;
        }
        let why = self.receiver.recorder()?.why_nobody()?;
        Some(format!("{} {why}", self.name()))
    }

    /// Leaves an external endpoint: closes each WebSocket with a close frame.
    pub(in crate::swarm) fn leave(&mut self, poller: &Poller) {
        if self.settings.transport != Transport::Websocket {
            return;
        }
        let mut close = Vec::new();
        websocket::close(&mut close);
        for (index, connection) in self.connections.iter_mut().enumerate() {
            if connection.session.stage == Stage::Established {
                // The rest may be lost.
                let _ = connection.send(index, &close, poller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Received;
    use crate::scenario::{Drive, Endpoint, Program, Settings, Typed};
    use crate::swarm::Load;
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};
    use std::time::Duration;

    /// Opens three connections to these addresses.
    fn open(addresses: Vec<SocketAddr>) -> anyhow::Result<Received> {
        let url = "http://localhost:1/".to_owned();
        let endpoint = Endpoint::read(&Typed { url, ..Typed::default() })?;
        let settings =
            Settings { transport: endpoint.transport, connections: 3, ..Settings::default() };
        let program = Program::Url(Box::new(endpoint));
        let mut subscribers = Subscribers::new(&Load {
            address: addresses[0],
            program: &program,
            settings: &settings,
            drive: Drive::Listen,
            start_us: 0,
            warm_up: Duration::ZERO,
            measured: Duration::ZERO,
            cluster: crate::load_generator::Cluster::default(),
        })?;
        subscribers.dialer.redirect(addresses);
        let mut poller = Poller::new()?;
        subscribers.open_more(&poller)?;
        while !subscribers.is_settled() {
            for index in 0..poller.wait(1000)? {
                subscribers.on_ready(poller.ready(index), &poller)?;
            }
        }
        subscribers.receiver().end_recording(0, 0)
    }

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || -> io::Result<()> {
            let mut peers = Vec::new();
            loop {
                let (mut peer, _) = listener.accept()?;
                peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")?;
                peers.push(peer);
            }
        });
        let received = open(vec![nobody, nobody, address, nobody]).unwrap();
        assert_eq!((received.established, received.refused.count), (3, 0));
        assert_eq!(received.answer.address, address.to_string());
        let error = open(vec![nobody, nobody]).unwrap_err().to_string();
        assert!(error.contains("nothing listens at http://localhost:1/"), "{error}");
    }
}
