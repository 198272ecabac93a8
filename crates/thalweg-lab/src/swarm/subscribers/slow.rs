//! Subscribers that read slowly or not at all. A subject may send them gaps and end them, without an effect on others.

use super::{Stage, Subscribers};
use crate::swarm::read_buffer::READ_BYTES;
use crate::swarm::socket::Poller;

/// A slow subscriber reads this many times per second.
const PIECES_PER_S: u64 = 10;

#[derive(Debug, Default)]
pub(super) struct Slow {
    connections: Vec<usize>,
    next_us: u64,
    /// Connections that the subject has ended.
    cut: u64,
}

impl Subscribers {
    /// Makes the last connections stop reading, and those before them read slowly; returns the ports of the stopped ones.
    pub(in crate::swarm) fn stop_readers(&mut self, poller: &Poller) -> anyhow::Result<Vec<u16>> {
        let mut ports = Vec::new();
        let first = self.readers / self.settings.streams.max(1) as usize;
        let stopped = first + self.settings.slow as usize;
        for (index, connection) in self.connections.iter_mut().enumerate().skip(first) {
            if connection.session.stage != Stage::Established {
                continue;
            }
            poller.remove(connection.link.socket())?;
            connection.session.stage = Stage::Stopped;
            if let Some(recorder) = self.receiver.recorder() {
                recorder.slowed(index);
            }
            if index < stopped {
                self.slow.connections.push(index);
            } else {
                ports.push(connection.link.local_port()?);
            }
        }
        Ok(ports)
    }

    /// Reads a piece on each slow connection, if it is time to.
    pub(in crate::swarm) fn trickle(&mut self, now_us: u64, poller: &Poller) -> anyhow::Result<()> {
        if self.slow.connections.is_empty() || now_us < self.slow.next_us {
            return Ok(());
        }
        // Missed reads are not all made up for at once.
        let every_us = 1_000_000 / PIECES_PER_S;
        self.slow.next_us = (self.slow.next_us + every_us).max(now_us.saturating_sub(every_us));
        let piece = u64::from(self.settings.slow_bytes_per_s).div_ceil(PIECES_PER_S).max(1);
        let room = usize::try_from(piece).map_or(READ_BYTES, |bytes| bytes.min(READ_BYTES));
        for index in std::mem::take(&mut self.slow.connections) {
            let (_, over) = self.read_once(index, room, poller)?;
            match over {
                None => self.slow.connections.push(index),
                Some(_) => {
                    self.connections[index].session.stage = Stage::Ended;
                    self.slow.cut += 1;
                    if let Some(recorder) = self.receiver.recorder() {
                        recorder.ended_slow();
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns what happened to slow subscribers, if there are any.
    pub(in crate::swarm) fn slow_fact(&mut self) -> Option<(String, String)> {
        let (gaps, cut) = (self.receiver.slow_gaps, self.slow.cut);
        let fact = format!("{gaps} gaps announced, {cut} of {} cut off", self.settings.slow);
        (self.settings.slow > 0).then(|| ("slow subscribers".to_owned(), fact))
    }
}
