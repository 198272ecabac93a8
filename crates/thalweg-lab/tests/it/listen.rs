//! Common parts of subjects in tests: a thread for each connection, and bodies chunk by chunk.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use std::io::{BufRead, Read, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Attends to every connection until the process ends. An error on one ends its thread, not the test.
pub(crate) fn listen(
    attend: impl Fn(TcpStream) -> Result<()> + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let attend = Arc::new(attend);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let attend = Arc::clone(&attend);
            thread::spawn(move || attend(connection?));
        }
        Result::Ok(())
    });
    Ok(address)
}

/// Hands on every line of a body in chunks; the lab sends whole lines in each.
pub(crate) fn lines_in_chunks(reader: &mut impl BufRead, mut take: impl FnMut(&str)) -> Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let length = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        String::from_utf8_lossy(&chunk[..length]).lines().for_each(&mut take);
    }
}

/// A request's head, with its empty line.
pub(crate) fn read_head(reader: &mut impl BufRead) -> Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// A client's frame: its first byte, its mask and its payload.
pub(crate) fn read_frame(reader: &mut impl Read) -> Result<(u8, [u8; 4], Vec<u8>)> {
    let mut head = [0; 2];
    reader.read_exact(&mut head)?;
    let length = match head[1] & 0x7F {
        126 => {
            let mut long = [0; 2];
            reader.read_exact(&mut long)?;
            usize::from(u16::from_be_bytes(long))
        }
        short => usize::from(short),
    };
    // The tests' clients say little.
    if head[1] & 0x80 == 0 || head[1] & 0x7F == 127 {
        return Err(std::io::Error::other("a frame without a mask, or a long one"));
    }
    let mut mask = [0; 4];
    reader.read_exact(&mut mask)?;
    let mut payload = vec![0; length];
    reader.read_exact(&mut payload)?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((head[0], mask, payload))
}

pub(crate) fn read_message(reader: &mut impl Read) -> Result<String> {
    let (_, _, message) = read_frame(reader)?;
    Ok(String::from_utf8_lossy(&message).into_owned())
}

/// A text message as a server sends it.
pub(crate) fn text_frame(message: &str) -> Vec<u8> {
    let length = (message.len() as u16).to_be_bytes();
    [&[0x81, 126], &length[..], message.as_bytes()].concat()
}

/// A header of a request; empty if there is none.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
}

/// The response that opens a WebSocket, with more lines of its head (RFC 6455 §4.2.2).
pub(crate) fn upgraded(request: &str, more: &str) -> String {
    let key = header(request, "Sec-WebSocket-Key");
    let accept =
        STANDARD.encode(Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{more}\r\n"
    )
}
