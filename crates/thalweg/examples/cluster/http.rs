//! Requests, and subscribers that are read on demand.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::PATIENCE;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Sends a request. Returns status and body.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_WITHIN)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    socket.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}

/// Publishes one request after the other on a connection.
pub(crate) struct Publisher {
    socket: BufReader<TcpStream>,
    topic: String,
}

impl Publisher {
    pub(crate) fn open(address: SocketAddr, topic: &str) -> io::Result<Publisher> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Publisher { socket: BufReader::new(socket), topic: topic.to_owned() })
    }

    /// Publishes these lines. Returns the status after they are stored.
    pub(crate) fn post(&mut self, lines: &str) -> io::Result<u16> {
        let head = format!(
            "POST /v1/topics/{} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n{lines}",
            self.topic,
            lines.len()
        );
        self.socket.get_mut().write_all(head.as_bytes())?;
        let (mut line, mut status, mut length) = (String::new(), None, 0);
        while line != "\r\n" {
            line.clear();
            if self.socket.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if status.is_none() {
                status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        self.socket.read_exact(&mut vec![0; length])?;
        status.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// A subscriber over HTTP streaming: an envelope is a line.
pub(crate) struct Subscriber {
    socket: BufReader<TcpStream>,
    line: String,
}

impl Subscriber {
    /// Sends the request without waiting for the response.
    pub(crate) fn open(address: SocketAddr, target: &str) -> io::Result<Subscriber> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(
            format!(
                "GET /v1/topics{target} HTTP/1.1\r\nHost: localhost\r\n\
                 Accept: application/x-ndjson\r\n\r\n"
            )
            .as_bytes(),
        )?;
        Ok(Subscriber { socket: BufReader::new(socket), line: String::new() })
    }

    /// Returns the next envelope. It skips heartbeats.
    pub(crate) fn envelope(&mut self) -> io::Result<&str> {
        loop {
            self.line.clear();
            if self.socket.read_line(&mut self.line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // Chunks end with envelopes: all other lines are the head and sizes.
            if self.line.starts_with('{') && !self.line.starts_with("{\"heartbeat\"") {
                return Ok(self.line.trim_end());
            }
        }
    }

    /// Returns the first envelope with events.
    pub(crate) fn events(&mut self) -> io::Result<&str> {
        while !self.envelope()?.contains("\"events\":[{") {}
        Ok(self.line.trim_end())
    }
}

/// Returns the position of an envelope.
pub(crate) fn position(envelope: &str) -> Option<&str> {
    envelope.split_once("\"position\":\"")?.1.split_once('"').map(|(position, _)| position)
}
