use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown,
        sockopt::set_socket_linger,
    },
};

use crate::fanout::{Sent, Sink};

/// A subscriber's non-blocking TCP socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// What reading a socket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// This many bytes.
    Bytes(usize),
    /// Nothing now.
    Empty,
    /// The peer has finished or is gone.
    Ended,
}

impl Socket {
    /// Takes a connected, non-blocking socket over.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Reads what there is.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Read {
        match recv(&self.0, buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Read::Ended,
            Ok((bytes, _)) => Read::Bytes(bytes),
            Err(Errno::AGAIN | Errno::INTR) => Read::Empty,
            Err(_) => Read::Ended,
        }
    }

    /// Says that no more will be sent.
    pub(crate) fn finish(&self) {
        // A peer that is gone already needs no good-bye.
        let _ = shutdown(&self.0, Shutdown::Write);
    }
}

impl Socket {
    /// Has its end come as a reset, at once and with what the kernel still holds
    /// (socket(7), `SO_LINGER`).
    pub(crate) fn reset(&self) {
        // Without it the kernel goes on trying for a while.
        let _ = set_socket_linger(&self.0, Some(Duration::ZERO));
    }
}

impl Sink for Socket {
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

/// For TLS, whose records are ready to be sent and read as they are.
impl io::Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.send(slices) {
            Sent::Bytes(0) => Err(io::ErrorKind::WouldBlock.into()),
            Sent::Bytes(bytes) => Ok(bytes),
            Sent::Gone => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match Self::read(self, buffer) {
            Read::Bytes(bytes) => Ok(bytes),
            Read::Empty => Err(io::ErrorKind::WouldBlock.into()),
            Read::Ended => Ok(0),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
