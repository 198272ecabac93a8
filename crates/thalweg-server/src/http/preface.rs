//! The first bytes of a connection of HTTP/2.

use std::{io, time::Duration};

use tokio::{io::Interest, net::TcpStream, time::sleep};

/// The first bytes of every HTTP/2 client (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first wait between two checks for the rest of the preface; each further wait is twice as long. The checks only peek, so
/// the bytes stay in the socket, which gives no new signal.
const PREFACE_POLL: Duration = Duration::from_millis(1);
const PREFACE_POLL_MAX: Duration = Duration::from_millis(200);

/// Returns whether a client begins with the preface. The bytes stay in the socket. Fails when the socket fails, or ends within
/// the preface.
pub(super) async fn begins_with_preface(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    let mut look = PREFACE_POLL;
    loop {
        let bytes = stream.peek(&mut first).await?;
        if bytes == 0 || !PREFACE.starts_with(&first[..bytes]) {
            return Ok(false);
        }
        if bytes == PREFACE.len() {
            return Ok(true);
        }
        if stream.ready(Interest::READABLE).await?.is_read_closed() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sleep(look).await;
        look = PREFACE_POLL_MAX.min(look * 2);
    }
}
