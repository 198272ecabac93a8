//! Messages published to NATS, in the form that nodes store (docs/how-to/cluster.md).

use std::{
    io::{self, BufRead, BufReader, Write},
    net::TcpStream,
};

/// The maximum of messages without an acknowledgement.
const WINDOW: u64 = 1000;
const HEADERS: &str = "NATS/1.0\r\nThalweg: 1\r\n\r\n";

/// A connection that publishes. It waits if too many messages are not acknowledged.
pub(crate) struct Nats {
    socket: BufReader<TcpStream>,
    pending: Vec<u8>,
    sent: u64,
    acked: u64,
}

impl Nats {
    pub(crate) fn open(url: &str) -> io::Result<Nats> {
        let socket = TcpStream::connect(url.trim_start_matches("nats://"))?;
        socket.set_nodelay(true)?;
        let pending =
            b"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB i 1\r\n";
        Ok(Nats { socket: BufReader::new(socket), pending: pending.to_vec(), sent: 0, acked: 0 })
    }

    /// Publishes a message of events, one per line without a line break at the end, to the subject of a
    /// topic.
    pub(crate) fn publish(&mut self, subject: &str, lines: &str) -> io::Result<()> {
        let (head, all) = (HEADERS.len(), HEADERS.len() + lines.len());
        write!(self.pending, "HPUB thalweg.{subject} i {head} {all}\r\n{HEADERS}{lines}\r\n")?;
        self.sent += 1;
        if self.sent - self.acked >= WINDOW { self.settle(WINDOW / 2) } else { Ok(()) }
    }

    /// Sends all, and waits until at most this many messages are not acknowledged.
    pub(crate) fn settle(&mut self, left: u64) -> io::Result<()> {
        self.socket.get_mut().write_all(&self.pending)?;
        self.pending.clear();
        let mut line = String::new();
        while self.sent - self.acked > left {
            line.clear();
            if self.socket.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line.starts_with("PING") {
                self.socket.get_mut().write_all(b"PONG\r\n")?;
            } else if line.starts_with("MSG") {
                line.clear();
                self.socket.read_line(&mut line)?;
                if line.contains("\"error\"") {
                    return Err(io::Error::other(line));
                }
                self.acked += 1;
            } else if line.starts_with("HMSG") || line.starts_with("-ERR") {
                return Err(io::Error::other(line));
            }
        }
        Ok(())
    }
}
