//! Connects to running servers, on a machine that may be busy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Patience;

/// A slower attempt to connect was probably dropped, e.g. from a full queue. A new attempt is faster than the kernel's next one.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Connects to a listening server. A refusal is an answer; an attempt without an answer is repeated.
#[track_caller]
pub fn connect(address: SocketAddr) -> TcpStream {
    let mut patience = Patience::new();
    let stream = loop {
        match TcpStream::connect_timeout(&address, ATTEMPT) {
            Ok(stream) => break stream,
            Err(error) if is_timeout(&error) || error.kind() == ErrorKind::Interrupted => {
                patience.check("a connection");
            }
            Err(error) => panic!("connect to {address}: {error}"),
        }
    };
    stream.set_nodelay(true).expect("set TCP_NODELAY");
    stream.set_write_timeout(Some(patience.slice())).expect("set a write timeout");
    stream
}

/// Writes all bytes to a socket of [`connect`] while the peer continues to read.
pub fn write_all(stream: &mut (impl Write + ?Sized), mut bytes: &[u8]) -> io::Result<()> {
    let mut patience = Patience::new();
    loop {
        let written =
            if bytes.is_empty() { stream.flush().map(|()| 0) } else { stream.write(bytes) };
        match written {
            Ok(0) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                patience.renew();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && !patience.is_over() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads to the end of a connection while the peer continues to write.
pub fn read_to_end(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut patience = Patience::new();
    stream.set_read_timeout(Some(patience.slice()))?;
    let (mut stream, mut bytes, mut piece) = (stream, Vec::new(), [0; 16 << 10]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => {
                bytes.extend_from_slice(&piece[..count]);
                patience.renew();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && !patience.is_over() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether a socket's timeout has passed.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
