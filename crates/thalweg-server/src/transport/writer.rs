use std::io::IoSlice;

use thalweg_core::fanout::{Sent, Sink};

use super::{Polls, Received, Socket, pipe::PipeEnd, tls::TlsSocket};

/// The destination of a subscriber's bytes.
pub(crate) enum Writer {
    /// A separate socket.
    Tcp(Socket),
    /// A separate socket with TLS.
    Tls(Box<TlsSocket>),
    /// The body of a response that HTTP sends: a stream of HTTP/2, or the answer to a long poll.
    Pipe(PipeEnd),
    /// The answers to a client's polls.
    Polls(Polls),
}

impl Writer {
    /// Returns its socket, to watch; a pipe and polls have none.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Tls(tls) => Some(tls.socket()),
            Self::Pipe(_) | Self::Polls(_) => None,
        }
    }

    /// Returns whether it writes to a response that HTTP sends.
    pub(crate) fn is_pipe(&self) -> bool {
        matches!(self, Self::Pipe(_))
    }

    /// Sends earlier bytes; `false` while some of them wait for the peer.
    pub(crate) fn flush(&mut self) -> bool {
        match self {
            Self::Tcp(_) | Self::Pipe(_) | Self::Polls(_) => true,
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// Returns the maximum memory that it cannot free until its peer reads.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Polls(_) => 0,
            Self::Tls(tls) => tls.held_bytes(),
            Self::Pipe(pipe) => pipe.held_bytes(),
        }
    }

    /// Returns the bytes written to the peer's socket since the last call. `sent` bytes were added now: without TLS
    /// these are written at once.
    pub(crate) fn take_taken(&mut self, sent: usize) -> usize {
        match self {
            Self::Tcp(_) | Self::Pipe(_) | Self::Polls(_) => sent,
            Self::Tls(tls) => tls.take_flushed(),
        }
    }

    /// Makes its client reconnect on another connection. A connection with a single subscriber ends anyway.
    pub(crate) fn retire(&self) {
        if let Self::Pipe(pipe) = self {
            pipe.retire();
        }
    }

    /// Ends the sending direction. Returns whether to wait for the peer's close.
    pub(crate) fn finish(&mut self) -> bool {
        match self {
            Self::Tcp(socket) => socket.finish(),
            Self::Tls(tls) => tls.finish(),
            Self::Pipe(pipe) => {
                pipe.finish();
                return false;
            }
            Self::Polls(_) => return false,
        }
        true
    }

    pub(crate) fn reset(&self) {
        if let Some(socket) = self.socket() {
            socket.reset();
        }
    }

    /// Reads once. Returns the number of bytes and the result.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> (usize, Received) {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
            Self::Pipe(_) | Self::Polls(_) => (0, Received::Nothing),
        }
    }
}

impl Sink for Writer {
    #[inline]
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        match self {
            Self::Tcp(socket) => socket.send(slices),
            Self::Tls(tls) => tls.send(slices),
            Self::Pipe(pipe) => pipe.send(slices),
            Self::Polls(polls) => polls.send(slices),
        }
    }
}
