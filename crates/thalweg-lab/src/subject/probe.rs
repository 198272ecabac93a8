//! Whether a subject answers.

use super::tls;
use rustls::{ClientConnection, Stream};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_millis(200);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Whether `GET /healthz` is answered with 200.
pub(super) fn is_ready(address: SocketAddr, is_tls: bool) -> bool {
    let probe = || -> io::Result<bool> {
        let mut socket = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        if !is_tls {
            return ask(&mut socket, address);
        }
        let config = tls::client_config(tls::HTTP_1).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, tls::server_name());
        let mut session = session.map_err(io::Error::other)?;
        ask(&mut Stream::new(&mut session, &mut socket), address)
    };
    probe().unwrap_or(false)
}

fn ask(connection: &mut (impl Read + Write), address: SocketAddr) -> io::Result<bool> {
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    // One write: the request is one TLS record, too.
    connection.write_all(request.as_bytes())?;
    let mut status = [0; 12];
    connection.read_exact(&mut status)?;
    Ok(&status == b"HTTP/1.1 200")
}
