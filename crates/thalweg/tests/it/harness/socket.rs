//! Bytes to and from the server. Every wait ends when progress stops.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use thalweg_testing::{Patience, connect, is_timeout, write_all};

use super::chunks::Chunks;

/// A source of bytes: a connection, or a stream of one.
pub(crate) trait Channel: Debug + Send {
    /// Reads once. 0 is the end.
    fn read(&mut self, piece: &mut [u8], wait: Duration) -> io::Result<usize>;
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn finish(&mut self);
}

#[derive(Debug)]
pub(crate) struct Socket {
    channel: Box<dyn Channel>,
    /// Received bytes that are not used yet.
    input: Vec<u8>,
    /// Bytes read in total.
    read: usize,
    /// Set while the input is a chunked body: it then has the data of the chunks.
    chunks: Option<Chunks>,
}

impl Channel for TcpStream {
    fn read(&mut self, piece: &mut [u8], wait: Duration) -> io::Result<usize> {
        self.set_read_timeout(Some(wait))?;
        Read::read(self, piece)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all(self, bytes)
    }

    fn finish(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Socket {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::new(connect(address))
    }

    /// Does the same with small receive buffers in the kernel.
    pub(crate) fn connect_narrow(address: SocketAddr) -> Self {
        let stream = connect(address);
        set_socket_recv_buffer_size(&stream, 32 << 10).expect("set SO_RCVBUF");
        Self::new(stream)
    }

    pub(crate) fn new(channel: impl Channel + 'static) -> Self {
        Self { channel: Box::new(channel), input: Vec::new(), read: 0, chunks: None }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.channel.write(bytes.as_ref()).expect("send");
    }

    /// Sends bytes, although the server may close the connection meanwhile.
    pub(crate) fn send_if_open(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.channel.write(bytes.as_ref());
    }

    pub(crate) fn finish(&mut self) {
        self.channel.finish();
    }

    pub(crate) fn used(&self) -> usize {
        let unread = self.chunks.as_ref().map_or(0, |chunks| chunks.unread.len());
        self.read - unread - self.input.len()
    }

    pub(super) fn begin_chunks(&mut self) {
        let mut chunks = Chunks::default();
        let read = std::mem::take(&mut self.input);
        chunks.take(&read, &mut self.input);
        self.chunks = Some(chunks);
    }

    /// Reads the rest of a chunked body. Another response may follow.
    pub(super) fn end_chunks(&mut self) -> Vec<u8> {
        let mut patience = Patience::new();
        while !self.has_ended_well() {
            assert!(self.fill(&mut patience, "a chunk"), "the body was cut");
        }
        let chunks = self.chunks.take().expect("chunks");
        std::mem::replace(&mut self.input, chunks.unread)
    }

    pub(crate) fn has_ended_well(&self) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.has_ended)
    }

    /// Reads everything up to and including `mark`. Returns `None` if the connection ends before. `what` is for failures.
    pub(crate) fn until(&mut self, mark: &[u8], what: &str) -> Option<Vec<u8>> {
        let mut patience = Patience::new();
        let mut searched = 0;
        loop {
            if let Some(at) = find(&self.input[searched..], mark) {
                return Some(self.input.drain(..searched + at + mark.len()).collect());
            }
            searched = self.input.len().saturating_sub(mark.len() - 1);
            if !self.fill(&mut patience, what) {
                return None;
            }
        }
    }

    /// Reads exactly `count` bytes. Returns `None` if the connection ends before.
    pub(crate) fn exact(&mut self, count: usize, what: &str) -> Option<Vec<u8>> {
        let mut patience = Patience::new();
        while self.input.len() < count {
            if !self.fill(&mut patience, what) {
                return None;
            }
        }
        Some(self.input.drain(..count).collect())
    }

    pub(crate) fn rest(&mut self, what: &str) -> Vec<u8> {
        let mut patience = Patience::new();
        while self.fill(&mut patience, what) {}
        std::mem::take(&mut self.input)
    }

    pub(crate) fn is_silent(&mut self, time: Duration) -> bool {
        let mut piece = [0; 4096];
        if !self.input.is_empty() {
            return false;
        }
        match self.channel.read(&mut piece, time) {
            Ok(read) => {
                self.take(&piece[..read]);
                false
            }
            Err(error) => is_timeout(&error),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.read += bytes.len();
        match &mut self.chunks {
            Some(chunks) => chunks.take(bytes, &mut self.input),
            None => self.input.extend_from_slice(bytes),
        }
    }

    /// Reads once. Returns whether more may come. A reset counts as an end.
    fn fill(&mut self, patience: &mut Patience, what: &str) -> bool {
        let mut piece = [0; 64 << 10];
        match self.channel.read(&mut piece, patience.slice()) {
            Ok(read) => {
                self.take(&piece[..read]);
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

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    let (first, rest) = mark.split_first()?;
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|byte| byte == first)?;
        if bytes[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}
