//! Bytes to and from the server. Every wait has a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Whatever is to happen happens within this time, on a busy machine too.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    /// Read and not used yet.
    input: Vec<u8>,
}

impl Socket {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, DEADLINE).expect("connect");
        stream.set_nodelay(true).expect("set TCP_NODELAY");
        stream.set_write_timeout(Some(DEADLINE)).expect("set a write timeout");
        Self { stream, input: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("send");
    }

    /// Sends what the server may refuse by closing in the middle.
    pub(crate) fn send_if_open(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Everything up to and including `mark`; `None` if the connection ends
    /// before it. `what` says what is waited for.
    pub(crate) fn until(&mut self, mark: &[u8], what: &str) -> Option<Vec<u8>> {
        let deadline = Instant::now() + DEADLINE;
        let mut searched = 0;
        loop {
            let found = self.input[searched..].windows(mark.len()).position(|at| at == mark);
            if let Some(at) = found {
                return Some(self.input.drain(..searched + at + mark.len()).collect());
            }
            searched = self.input.len().saturating_sub(mark.len() - 1);
            if !self.fill(deadline, what) {
                return None;
            }
        }
    }

    /// Exactly `count` bytes; `None` if the connection ends before.
    pub(crate) fn exact(&mut self, count: usize, what: &str) -> Option<Vec<u8>> {
        let deadline = Instant::now() + DEADLINE;
        while self.input.len() < count {
            if !self.fill(deadline, what) {
                return None;
            }
        }
        Some(self.input.drain(..count).collect())
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self, what: &str) -> Vec<u8> {
        let deadline = Instant::now() + DEADLINE;
        while self.fill(deadline, what) {}
        std::mem::take(&mut self.input)
    }

    /// Reads once; whether anything came. A reset is an end like any other.
    fn fill(&mut self, deadline: Instant, what: &str) -> bool {
        let mut piece = [0; 64 << 10];
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left)).expect("set a read timeout");
        match self.stream.read(&mut piece) {
            Ok(read) => {
                self.input.extend_from_slice(&piece[..read]);
                read > 0
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let start = String::from_utf8_lossy(&self.input[..self.input.len().min(500)]);
                panic!("waited {DEADLINE:?} in vain for {what}; so far: {start:?}")
            }
            Err(_) => false,
        }
    }
}
