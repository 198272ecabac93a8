//! When connections arrive, leave and return.

use super::Subscribers;
use crate::scenario::Transport;
use crate::swarm::carrier::websocket;
use crate::swarm::parser::Stage;
use crate::swarm::protocol_session::ProtocolSession;
use crate::swarm::socket::{Poller, now_us};

impl Subscribers {
    /// Opens no connection until it is due, and due ones at once.
    pub(in crate::swarm) fn come_when_due(&mut self) {
        self.allowed = 0;
        self.come_all_at_once();
    }

    pub(in crate::swarm) fn come_all_at_once(&mut self) {
        self.dialer.open_all_at_once();
    }

    /// Returns whether no due connection is in progress.
    pub(in crate::swarm) fn is_settled(&self) -> bool {
        self.opening == 0 && self.returning.is_empty() && self.connections.len() >= self.allowed
    }

    /// Makes this many connections due by now.
    pub(in crate::swarm) fn allow(
        &mut self,
        connections: usize,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        self.allowed = connections.min(self.wanted);
        self.open_more(poller)
    }

    /// Returns the connections established since the last call.
    pub(in crate::swarm) fn take_newly_established(&mut self) -> Vec<usize> {
        self.newly_established.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(in crate::swarm) fn is_established(&self, index: usize) -> bool {
        self.connections
            .get(index)
            .is_some_and(|connection| connection.session.stage == Stage::Established)
    }

    /// Closes an established connection, and dials another in its place.
    pub(in crate::swarm) fn replace(
        &mut self,
        index: usize,
        poller: &Poller,
    ) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        if self.settings.transport == Transport::Websocket {
            let mut close = Vec::new();
            websocket::close(&mut close);
            // The rest may be lost.
            let _ = connection.send(index, &close, poller);
        }
        connection.session = ProtocolSession::new(index, &self.settings, self.resumes);
        self.receiver.restart(index);
        self.lose(index, poller)?;
        self.established -= 1;
        self.open_more(poller)
    }

    /// Loses these established connections at once; they reconnect.
    pub(in crate::swarm) fn stampede(
        &mut self,
        established: &[usize],
        poller: &Poller,
    ) -> anyhow::Result<()> {
        for &index in established {
            self.connections[index].session.reconnect();
            self.lose(index, poller)?;
        }
        self.established -= established.len();
        self.open_more(poller)
    }

    /// Renews connections that are over from now on, if the endpoint is requested again and again.
    pub(in crate::swarm) fn begin_renewals(&mut self) {
        self.renewals.begin();
        if self.renewals.are_on() {
            // A request that waits for its response does not hold back those of other connections.
            self.come_all_at_once();
        }
    }

    /// Returns whether connections that are over are renewed.
    pub(in crate::swarm) fn renews(&self) -> bool {
        self.renewals.are_on()
    }

    /// Returns how long to wait for the next renewal, at most `timeout_us`.
    pub(in crate::swarm) fn wait_us(&self, timeout_us: u64) -> u64 {
        let next_us = self.renewals.next_us();
        next_us.map_or(timeout_us, |due_us| due_us.saturating_sub(now_us()).min(timeout_us))
    }

    /// Makes connections ready to be dialed again whose time has come.
    pub(super) fn renew_due(&mut self, poller: &Poller) -> anyhow::Result<()> {
        while let Some(index) = self.renewals.take(now_us()) {
            self.connections[index].session =
                ProtocolSession::new(index, &self.settings, self.resumes);
            self.lose(index, poller)?;
        }
        Ok(())
    }

    fn lose(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        self.disconnect(index, poller)?;
        if let Some(recorder) = self.receiver.recorder() {
            recorder.replaced(index);
        }
        Ok(())
    }

    /// Ends the transport connection of a subscriber, which is dialed again later.
    pub(super) fn disconnect(&mut self, index: usize, poller: &Poller) -> anyhow::Result<()> {
        self.subscribe_request.reconnect(index);
        let connection = &mut self.connections[index];
        // The key belongs to the connection that follows.
        poller.remove(connection.link.socket())?;
        connection.link.shut_down();
        connection.carry = Vec::new();
        connection.unsent = None;
        self.busy.retain(|(busy, _)| *busy != index);
        self.returning.push_back(index);
        Ok(())
    }
}
