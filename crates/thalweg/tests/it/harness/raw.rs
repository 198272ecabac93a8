//! A connection that may misbehave: any bytes, in cleartext or over TLS, at any speed, read or not. Every
//! wait ends when progress stops.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use std::{fmt, fs};

use serde_json::Value;
use thalweg_testing::{Patience, connect, is_timeout, write_all};

use super::{request, wait_for};

/// Bytes in both directions, over a `TcpStream` or TLS.
pub(crate) trait Duplex: Read + Write + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Duplex for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

pub(crate) struct Raw {
    stream: Box<dyn Duplex>,
    input: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(connect(address))
    }

    pub(crate) fn over(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), input: Vec::new() }
    }

    /// Sends bytes. Returns whether that succeeded, as far as this end can know.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        write_all(&mut *self.stream, bytes.as_ref()).is_ok()
    }

    /// Waits until the server's kernel has received all bytes.
    pub(crate) fn await_arrival(&self) {
        let local = self.stream.tcp().local_addr().expect("a connected socket");
        let port = format!(":{:04X}", local.port());
        wait_for("what was sent to arrive", || {
            // Fields of proc_net_tcp(5): the number, both addresses, the state, and unacknowledged bytes.
            let sockets = fs::read_to_string("/proc/net/tcp").expect("the kernel's sockets");
            let mut fields = sockets.lines().map(|line| line.split_whitespace());
            let own = fields.find_map(|mut fields| {
                fields.nth(1).filter(|address| address.ends_with(&port))?;
                fields.nth(2)
            });
            own.is_some_and(|queues| queues.starts_with("00000000:")).then_some(())
        });
    }

    /// Sends until the server accepts no more for `patience`. Returns the number of accepted bytes.
    pub(crate) fn stuff(&mut self, bytes: &[u8], most: usize, patience: Duration) -> usize {
        self.stream.tcp().set_write_timeout(Some(patience)).expect("set a write timeout");
        let mut sent = 0;
        while sent < most {
            match self.stream.write(bytes) {
                Ok(0) | Err(_) => break,
                Ok(written) => sent += written,
            }
        }
        self.stream
            .tcp()
            .set_write_timeout(Some(Patience::new().slice()))
            .expect("set a write timeout");
        sent
    }

    pub(crate) fn finish(&self) {
        let _ = self.stream.tcp().shutdown(Shutdown::Write);
    }

    pub(crate) fn until(&mut self, mark: &[u8], what: &str) -> Option<Vec<u8>> {
        let mut patience = Patience::new();
        loop {
            if let Some(at) = self.input.windows(mark.len()).position(|at| at == mark) {
                return Some(self.input.drain(..at + mark.len()).collect());
            }
            if !self.fill(&mut patience, what) {
                return None;
            }
        }
    }

    /// Returns the next message of HTTP streaming, which is one chunk. Lines that do not begin as a message belong to the chunks.
    pub(crate) fn message(&mut self, what: &str) -> Value {
        loop {
            let line = self.until(b"\n", what).expect("a message");
            if line.starts_with(b"{") {
                return serde_json::from_slice(&line).expect("a whole message");
            }
        }
    }

    pub(crate) fn exact(&mut self, count: usize, what: &str) -> Option<Vec<u8>> {
        let mut patience = Patience::new();
        while self.input.len() < count {
            if !self.fill(&mut patience, what) {
                return None;
            }
        }
        Some(self.input.drain(..count).collect())
    }

    /// Reads at most this many available bytes, without waiting.
    pub(crate) fn some(&mut self, count: usize) {
        self.input.clear();
        let mut piece = vec![0; count];
        self.stream.tcp().set_nonblocking(true).expect("not to wait");
        // No data, or the end, makes no difference here.
        let _ = self.stream.read(&mut piece);
        self.stream.tcp().set_nonblocking(false).expect("to wait again");
    }

    pub(crate) fn rest(&mut self, what: &str) -> Vec<u8> {
        let mut patience = Patience::new();
        while self.fill(&mut patience, what) {}
        std::mem::take(&mut self.input)
    }

    pub(crate) fn rest_text(&mut self, what: &str) -> String {
        String::from_utf8_lossy(&self.rest(what)).into_owned()
    }

    pub(crate) fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) {
        self.send(request(method, target, headers, body.as_bytes()));
    }

    /// Reads the next response with a body of known length, or without one.
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_if_any().expect("an answer, not the end")
    }

    /// Does the same, unless the connection ends before.
    pub(crate) fn answer_if_any(&mut self) -> Option<Answer> {
        let head = self.until(b"\r\n\r\n", "a response head")?;
        let head = String::from_utf8(head).expect("a head is text").to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.expect("a status line");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().expect("a length"));
        let body = self.exact(length, "a response body")?;
        Some(Answer { status, head, body })
    }

    fn fill(&mut self, patience: &mut Patience, what: &str) -> bool {
        let mut piece = [0; 64 << 10];
        let slice = Some(patience.slice());
        self.stream.tcp().set_read_timeout(slice).expect("set a read timeout");
        match self.stream.read(&mut piece) {
            Ok(read) => {
                self.input.extend_from_slice(&piece[..read]);
                patience.renew();
                read > 0
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) if is_timeout(&error) => {
                if patience.is_over() {
                    let start = String::from_utf8_lossy(&self.input[..self.input.len().min(500)]);
                    panic!("waited without success for {what}; so far: {start:?}");
                }
                true
            }
            Err(_) => false,
        }
    }
}

impl Answer {
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let found = (self.status, json["error"]["code"].as_str());
        assert_eq!(found, (status, Some(code)), "{} {text}", self.head);
        let sentence = json["error"]["message"].as_str().expect("a message").to_owned();
        assert!(sentence.contains(' '), "{sentence:?} is no sentence");
        sentence
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("tcp", self.stream.tcp()).finish_non_exhaustive()
    }
}
