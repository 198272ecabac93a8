//! A connection's bytes, plain or encrypted: one socket either way, in the same epoll.

use super::socket::{local_port, read, write};
use rustix::fd::OwnedFd;
use rustix::net::{Shutdown, shutdown};
use rustls::ClientConnection;
use std::io::{self, Read, Write};

/// Longer than any TLS record (RFC 8446 §5.2).
pub(super) const RECORD_BYTES_MAX: usize = 18 * 1024;

#[derive(Debug)]
pub(super) enum Link {
    Plain(OwnedFd),
    Tls(Box<Tls>),
}

#[derive(Debug)]
pub(super) struct Tls {
    socket: OwnedFd,
    session: ClientConnection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkRead {
    Bytes {
        /// 0 during a TLS handshake.
        length: usize,
        /// Bytes on the wire, before decryption.
        wire_bytes: usize,
        /// Whether nothing is left to read.
        is_all: bool,
    },
    Nothing,
    End,
}

impl Link {
    /// Returns a link over a connecting socket, with or without a TLS session.
    pub(super) fn over(socket: OwnedFd, session: Option<ClientConnection>) -> Link {
        match session {
            Some(session) => Link::Tls(Box::new(Tls { socket, session })),
            None => Link::Plain(socket),
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        match self {
            Link::Plain(socket) => socket,
            Link::Tls(tls) => &tls.socket,
        }
    }

    /// Returns version and cipher suite of TLS, and the protocol inside; `None` for each without TLS.
    pub(super) fn tls(&self) -> (Option<String>, Option<String>) {
        let Link::Tls(tls) = self else {
            return (None, None);
        };
        let version = tls.session.protocol_version().map(|version| format!("{version:?}"));
        let suite =
            tls.session.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
        let inside = tls.session.alpn_protocol().map(String::from_utf8_lossy);
        let both = version.zip(suite).map(|(version, suite)| format!("{version} {suite}"));
        (both, inside.map(|address| address.into_owned()))
    }

    /// Returns whether TLS, if there is any, has been negotiated.
    pub(super) fn is_agreed(&self) -> bool {
        match self {
            Link::Plain(_) => true,
            Link::Tls(tls) => !tls.session.is_handshaking(),
        }
    }

    pub(super) fn local_port(&self) -> io::Result<u16> {
        local_port(self.socket())
    }

    /// Takes bytes to send; `None` if there is no room yet. During a TLS handshake, they are sent at its end.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Link::Plain(socket) => write(socket, bytes),
            Link::Tls(tls) => {
                let taken = tls.session.writer().write(bytes)?;
                tls.flush()?;
                Ok((taken > 0).then_some(taken))
            }
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Link::Plain(_) => Ok(()),
            Link::Tls(tls) => tls.flush(),
        }
    }

    /// Ends both directions. Fails only if the connection has ended already.
    pub(super) fn shut_down(&self) {
        let _ = shutdown(self.socket(), Shutdown::Both);
    }

    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Link::Plain(_) => false,
            Link::Tls(tls) => tls.session.wants_write(),
        }
    }

    /// Reads once, at most `room` bytes off the wire; `into` must have room for these and a TLS record. `encrypted` is scratch.
    #[inline]
    pub(super) fn receive(
        &mut self,
        into: &mut [u8],
        room: usize,
        encrypted: &mut Vec<u8>,
    ) -> io::Result<LinkRead> {
        match self {
            Link::Plain(socket) => Ok(received(read(socket, &mut into[..room])?, room)),
            Link::Tls(tls) => {
                encrypted.resize(room, 0);
                let received = received(read(&tls.socket, encrypted)?, room);
                let LinkRead::Bytes { wire_bytes, is_all, .. } = received else {
                    return Ok(received);
                };
                let length = tls.decrypt(&encrypted[..wire_bytes], into)?;
                Ok(LinkRead::Bytes { length, wire_bytes, is_all })
            }
        }
    }
}

impl Tls {
    /// Decrypts into `into`; returns the length.
    fn decrypt(&mut self, mut encrypted: &[u8], into: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while !encrypted.is_empty() {
            self.session.read_tls(&mut encrypted)?;
            self.session.process_new_packets().map_err(io::Error::other)?;
            loop {
                match self.session.reader().read(&mut into[length..]) {
                    // The peer sends no more.
                    Ok(0) => return Ok(length),
                    Ok(read) => length += read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        self.flush()?;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut RawSocket(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Converts the result of a read: `None` means nothing yet, and no bytes mean the end.
pub(super) fn received(length: Option<usize>, room: usize) -> LinkRead {
    match length {
        None => LinkRead::Nothing,
        Some(0) => LinkRead::End,
        Some(length) => LinkRead::Bytes { length, wire_bytes: length, is_all: length < room },
    }
}

/// The socket under the session.
struct RawSocket<'a>(&'a OwnedFd);

impl Write for RawSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(self.0, bytes)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
