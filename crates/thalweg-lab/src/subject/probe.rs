//! Whether a subject answers.

use super::tls;
use rustls::{ClientConnection, Stream};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_millis(200);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Whether `GET` of this path is answered with 200.
pub(super) fn answers(address: SocketAddr, path: &str, is_tls: bool) -> bool {
    let probe = || -> io::Result<bool> {
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        if !is_tls {
            return ask(&mut socket, address, path);
        }
        let config = tls::client_config(tls::HTTP_1).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, tls::server_name());
        let mut session = session.map_err(io::Error::other)?;
        ask(&mut Stream::new(&mut session, &mut socket), address, path)
    };
    probe().unwrap_or(false)
}

/// Whether whoever listens there begins as a NATS server does.
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

fn ask(connection: &mut (impl Read + Write), address: SocketAddr, path: &str) -> io::Result<bool> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    // One write: the request is one TLS record, too.
    connection.write_all(request.as_bytes())?;
    let mut status = [0; 12];
    connection.read_exact(&mut status)?;
    Ok(&status == b"HTTP/1.1 200")
}
