use std::{io::IoSlice, task::Waker};

use thalweg_core::fanout::{Sent, Sink};

use super::{Polls, Received, Socket, pipe::PipeEnd, tls::TlsSocket, tunnel::Tunnel};

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
    /// A stream of HTTP/2 in both directions.
    Tunnel(Box<Tunnel>),
}

impl Writer {
    /// Returns the socket to watch; a pipe, polls and a tunnel have none.
    pub(crate) fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Tls(tls) => Some(tls.socket()),
            Self::Pipe(_) | Self::Polls(_) | Self::Tunnel(_) => None,
        }
    }

    /// Returns whether HTTP sends its bytes, on a stream or as a response.
    pub(crate) fn is_piped(&self) -> bool {
        matches!(self, Self::Pipe(_) | Self::Tunnel(_))
    }

    /// Returns whether the shard ends the connection if its peer reads too little. The stream of a pipe has a deadline of its own
    /// (`http/timeouts.rs`).
    pub(crate) fn has_write_timeout(&self) -> bool {
        matches!(self, Self::Tcp(_) | Self::Tls(_) | Self::Tunnel(_))
    }

    /// Sets the waker of a tunnel. Sockets are watched by epoll, and pipes have listeners.
    pub(crate) fn watch(&mut self, waker: impl FnOnce() -> Waker) {
        if let Self::Tunnel(tunnel) = self {
            tunnel.watch(waker());
        }
    }

    /// Returns whether a woken tunnel takes more.
    pub(crate) fn has_room(&mut self) -> bool {
        match self {
            Self::Tunnel(tunnel) => tunnel.has_room(),
            Self::Tcp(_) | Self::Tls(_) | Self::Pipe(_) | Self::Polls(_) => false,
        }
    }

    /// Sends earlier bytes; `false` while some of them wait for the peer.
    pub(crate) fn flush(&mut self) -> bool {
        match self {
            Self::Tcp(_) | Self::Pipe(_) | Self::Polls(_) | Self::Tunnel(_) => true,
            Self::Tls(tls) => tls.flush(),
        }
    }

    /// Returns the maximum memory that it cannot free until its peer reads.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Polls(_) => 0,
            Self::Tls(tls) => tls.held_bytes(),
            Self::Pipe(pipe) => pipe.held_bytes(),
            Self::Tunnel(tunnel) => tunnel.held_bytes(),
        }
    }

    /// Returns the bytes written to the peer's socket since the last call. `sent` bytes were added now: without TLS
    /// these are written at once.
    pub(crate) fn take_taken(&mut self, sent: usize) -> usize {
        match self {
            Self::Tcp(_) | Self::Pipe(_) | Self::Polls(_) | Self::Tunnel(_) => sent,
            Self::Tls(tls) => tls.take_flushed(),
        }
    }

    /// Makes its client reconnect on another connection. A connection with a single subscriber ends anyway.
    pub(crate) fn retire(&self) {
        match self {
            Self::Pipe(pipe) => pipe.retire(),
            Self::Tunnel(tunnel) => tunnel.retire(),
            Self::Tcp(_) | Self::Tls(_) | Self::Polls(_) => {}
        }
    }

    /// Ends the sending direction. Returns whether to wait for the peer's close.
    pub(crate) fn finish(&mut self) -> bool {
        match self {
            Self::Tcp(socket) => socket.finish(),
            Self::Tls(tls) => tls.finish(),
            Self::Tunnel(tunnel) => tunnel.finish(),
            Self::Pipe(pipe) => {
                pipe.finish();
                return false;
            }
            Self::Polls(_) => return false,
        }
        true
    }

    /// Makes a socket end with a reset. A tunnel is reset if it is dropped before its end.
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
            Self::Tunnel(tunnel) => tunnel.read(buffer),
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
            Self::Tunnel(tunnel) => tunnel.send(slices),
        }
    }
}
