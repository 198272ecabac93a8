use std::io::{ErrorKind, IoSlice, Read as _, Write as _};

use rustls::ServerConnection;
use smallvec::SmallVec;
use thalweg_core::fanout::{Sent, Sink};

use super::{Received, Socket, socket::is_later};

/// A subscriber's socket with TLS: plaintext slices in, records out, no task. It holds only unsent encrypted bytes,
/// which are bounded.
pub(crate) struct TlsSocket {
    socket: Socket,
    tls: ServerConnection,
    /// Bytes written to the socket since the last call of `take_flushed`.
    flushed: usize,
}

/// Plaintext encrypted ahead of the socket: four records, one system call. A client that stops reading holds as much memory.
const AHEAD_BYTES: usize = 64 << 10;

/// Attempts to get data in one read: the records of a peer may contain none.
const RECORDS_PER_READ: u32 = 16;

impl TlsSocket {
    /// Takes over a connection after its handshake.
    pub(crate) fn new(socket: Socket, mut tls: ServerConnection) -> Self {
        tls.set_buffer_limit(Some(AHEAD_BYTES));
        Self { socket, tls, flushed: 0 }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn take_flushed(&mut self) -> usize {
        std::mem::take(&mut self.flushed)
    }

    pub(super) fn held_bytes(&self) -> usize {
        if self.tls.wants_write() { AHEAD_BYTES } else { 0 }
    }

    pub(super) fn flush(&mut self) -> bool {
        while self.tls.wants_write() {
            // Rust's runtime ignores SIGPIPE: a vanished peer is an error.
            match self.tls.write_tls(&mut self.socket.0) {
                // Reading the socket gives the error again.
                Ok(0) | Err(_) => return false,
                Ok(bytes) => self.flushed += bytes,
            }
        }
        true
    }

    pub(super) fn finish(&mut self) {
        self.tls.send_close_notify();
        if self.flush() {
            self.socket.finish();
        }
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> (usize, Received) {
        for _ in 0..RECORDS_PER_READ {
            match self.tls.reader().read(buffer) {
                Ok(0) => return (0, Received::Gone),
                // More data may already be decrypted.
                Ok(bytes) => return (bytes, Received::More),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return (0, Received::Gone),
            }
            match self.tls.read_tls(&mut self.socket.0) {
                Ok(0) => return (0, Received::Gone),
                Ok(_) => {}
                Err(error) if is_later(&error) => return (0, Received::Nothing),
                Err(error) => return (0, Received::end(&error)),
            }
            if self.tls.process_new_packets().is_err() {
                // Sends the TLS alert with the reason.
                self.flush();
                return (0, Received::Gone);
            }
        }
        // Only records without data: other connections are read first.
        (0, Received::More)
    }
}

impl Sink for TlsSocket {
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let mut taken = 0;
        let mut rest: SmallVec<[IoSlice<'_>; 8]> = SmallVec::from_slice(slices);
        let mut rest = rest.as_mut_slice();
        while self.flush() && !rest.is_empty() {
            match self.tls.writer().write_vectored(rest) {
                Ok(0) => break,
                Ok(bytes) => {
                    taken += bytes;
                    IoSlice::advance_slices(&mut rest, bytes);
                }
                Err(_) => return Sent::Gone,
            }
        }
        Sent::Bytes(taken)
    }
}
