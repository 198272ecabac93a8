use std::{
    io::{self, ErrorKind, IoSlice, Read as _},
    net::{self, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendFlags, send, sendmsg, sockopt::set_socket_linger},
};

use thalweg_core::fanout::{Sent, Sink};

/// A subscriber's non-blocking TCP socket.
pub(crate) struct Socket(pub(super) TcpStream);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// More bytes may be available now.
    More,
    /// No more bytes are available now.
    Nothing,
    /// The peer sends no more, or is gone.
    Gone,
    /// The peer has vanished: it has acknowledged nothing for too long.
    Vanished,
}

impl Received {
    /// Returns how a connection with this error has ended.
    pub(super) fn end(error: &io::Error) -> Self {
        if has_vanished(error) { Self::Vanished } else { Self::Gone }
    }
}

/// Returns whether the kernel has given up on a peer, after `TCP_USER_TIMEOUT` or because there is no route to
/// the peer.
pub(crate) fn has_vanished(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH))
}

impl Socket {
    /// Takes over a connected, non-blocking socket.
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self(socket)
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> (usize, Received) {
        match (&self.0).read(buffer) {
            Ok(0) => (0, Received::Gone),
            // A read that returns less than asked has emptied the socket (epoll(7)). Later data gives a new event.
            Ok(bytes) if bytes < buffer.len() => (bytes, Received::Nothing),
            Ok(bytes) => (bytes, Received::More),
            Err(error) if is_later(&error) => (0, Received::Nothing),
            Err(error) => (0, Received::end(&error)),
        }
    }

    pub(crate) fn finish(&self) {
        // An error means that the peer is already gone.
        let _ = self.0.shutdown(net::Shutdown::Write);
    }

    /// Lets the connection end with a reset: the kernel drops unsent bytes at once (socket(7), `SO_LINGER`).
    pub(crate) fn reset(&self) {
        // Without this the kernel tries to send for a while.
        let _ = set_socket_linger(&self.0, Some(Duration::ZERO));
    }
}

/// Returns whether the error only means that no bytes are available now.
pub(super) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Sink for Socket {
    #[inline]
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
        let sent = match slices {
            [one] => send(&self.0, one, FLAGS),
            many => sendmsg(&self.0, many, &mut SendAncillaryBuffer::default(), FLAGS),
        };
        match sent {
            Ok(bytes) => Sent::Bytes(bytes),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Sent::Bytes(0),
            Err(_) => Sent::Gone,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
