//! TLS 1.3 on every socket: the same frames, encrypted for each connection. rustls with ring, driven by hand: a send is one pass
//! of encryption and one system call.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, version};

use crate::connection::{Link, Lost, Received, Sent, receive_plain, send_slices};
use crate::options::LimitError;

/// Maximum number of bytes encrypted ahead of a full socket: usually more than is due, so that a send is one pass and one call.
const ENCRYPTED_BYTES_MAX: usize = 256 << 10;

/// More than any TLS record has (RFC 8446 §5.2).
const RECORD_BYTES_MAX: usize = 18 << 10;

/// Returns the settings of all connections: a new self-signed certificate, and no session tickets, because no client resumes.
pub(crate) fn self_signed() -> Result<Arc<ServerConfig>, LimitError> {
    let failed = |error: &dyn ToString| LimitError::Tls(error.to_string());
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| failed(&error))?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .map_err(|error| failed(&error))?;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

#[derive(Debug)]
pub(crate) struct Tls {
    socket: OwnedFd,
    session: Box<ServerConnection>,
}

impl Tls {
    pub(crate) fn new(socket: OwnedFd, config: &Arc<ServerConfig>) -> Result<Self, LimitError> {
        let session = ServerConnection::new(Arc::clone(config));
        let mut session = session.map_err(|error| LimitError::Tls(error.to_string()))?;
        session.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX));
        Ok(Self { socket, session: Box::new(session) })
    }

    /// Writes encrypted bytes. Returns whether the socket became full first.
    fn flush(&mut self) -> Result<bool, Lost> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Raw(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(_) => return Err(Lost),
            }
        }
        Ok(false)
    }

    /// Decrypts into `input`; returns the length.
    fn decrypt(&mut self, mut encrypted: &[u8], input: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while !encrypted.is_empty() {
            self.session.read_tls(&mut encrypted)?;
            self.session.process_new_packets().map_err(io::Error::other)?;
            loop {
                match self.session.reader().read(&mut input[length..]) {
                    Ok(0) => return Ok(length),
                    Ok(read) => length += read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(length)
    }
}

impl Link for Tls {
    fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    fn send(&mut self, bytes: &[u8]) -> Result<Sent, Lost> {
        let mut taken = 0;
        loop {
            if self.flush()? {
                return Ok(Sent { taken, is_full: true });
            }
            if taken == bytes.len() {
                return Ok(Sent { taken, is_full: false });
            }
            // The session takes less only at its buffer limit.
            taken += self.session.writer().write(&bytes[taken..]).map_err(|_| Lost)?;
        }
    }

    /// Receives encrypted bytes into the back of `input`, and decrypts them into the front, with the rest of an earlier record.
    fn receive(&mut self, input: &mut [u8]) -> Received {
        let (input, encrypted) = input.split_at_mut(input.len() / 2 + RECORD_BYTES_MAX);
        let (length, is_all) = match receive_plain(&self.socket, encrypted) {
            Received::Bytes { length, is_all } => (length, is_all),
            nothing => return nothing,
        };
        let Ok(decrypted) = self.decrypt(&encrypted[..length], input) else {
            return Received::End;
        };
        // The handshake's answers are short: the rest goes out with the next send.
        if self.flush().is_err() {
            return Received::End;
        }
        Received::Bytes { length: decrypted, is_all }
    }
}

struct Raw<'a>(&'a OwnedFd);

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match send_slices(self.0, slices) {
            Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
            outcome => Ok(outcome?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
