//! Checks whether a subject answers.

use super::tls;
use rustls::{ClientConnection, Stream};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_millis(200);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Limit of an answer; the lab requests nothing longer.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
const OK: [u8; 12] = *b"HTTP/1.1 200";

/// Returns whether the subject answers `GET` of this path with 200; without a path, whether it answers at all.
pub(super) fn answers(address: SocketAddr, path: &str, is_tls: bool) -> bool {
    let is_ready = |connection: &mut dyn ProbeConnection| {
        let mut status = [0; OK.len()];
        connection.read_exact(&mut status)?;
        Ok(status == OK || path.is_empty() && status.starts_with(b"HTTP/1.1 "))
    };
    let path = if path.is_empty() { "/" } else { path };
    ask(address, path, is_tls, is_ready).unwrap_or(false)
}

/// Returns the body of a server's answer to `GET` of a path; fails unless the status is 200.
pub fn get(address: SocketAddr, path: &str, is_tls: bool) -> io::Result<String> {
    let answer = ask(address, path, is_tls, |connection| {
        let mut answer = Vec::new();
        // A close without TLS's close_notify is an end, too.
        match connection.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(answer),
        }
    })?;
    let text = String::from_utf8_lossy(&answer);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.as_bytes().starts_with(&OK) => Ok(body.to_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns whether the server at this address greets as a NATS server.
pub(super) fn greets_as_nats(address: SocketAddr) -> bool {
    let probe = || -> io::Result<bool> {
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        let mut greeting = [0; 5];
        socket.read_exact(&mut greeting)?;
        Ok(&greeting == b"INFO ")
    };
    probe().unwrap_or(false)
}

trait ProbeConnection: Read + Write {}

impl<T: Read + Write> ProbeConnection for T {}

/// Sends a request on a new connection, and lets `read` take the answer.
fn ask<T>(
    address: SocketAddr,
    path: &str,
    is_tls: bool,
    read: impl FnOnce(&mut dyn ProbeConnection) -> io::Result<T>,
) -> io::Result<T> {
    let mut socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    if !is_tls {
        socket.write_all(request.as_bytes())?;
        return read(&mut socket);
    }
    let config = tls::client_config(tls::HTTP_1).map_err(io::Error::other)?;
    let session = ClientConnection::new(config, tls::server_name());
    let mut session = session.map_err(io::Error::other)?;
    let mut connection = Stream::new(&mut session, &mut socket);
    // One write, so that the request is a single TLS record.
    connection.write_all(request.as_bytes())?;
    read(&mut connection)
}
