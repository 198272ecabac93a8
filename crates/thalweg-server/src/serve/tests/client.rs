//! A client of a WebSocket, and of plain requests.

use std::{
    io::Read,
    net::{SocketAddr, TcpStream},
};

use thalweg_testing::{Patience, connect, is_timeout, read_to_end, write_all};

const TEXT: u8 = 0x1;

/// Final and masked with zeros, which change nothing.
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

pub(super) struct TestClient {
    stream: TcpStream,
    input: Vec<u8>,
}

impl TestClient {
    /// Sends a handshake.
    pub(super) fn connect(address: SocketAddr, path: &str, headers: &[&str]) -> Self {
        let upgrade = [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ];
        let stream = send(address, "GET", path, &[&upgrade, headers].concat());
        Self { stream, input: Vec::new() }
    }

    /// Sends a request without a body. Returns the status and the body of its answer.
    pub(super) fn ask(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[&str],
    ) -> (u16, String) {
        let close = ["Connection: close", "Content-Length: 0"];
        let stream = send(address, method, path, &[&close, headers].concat());
        let answer = String::from_utf8(read_to_end(&stream).expect("an answer")).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (status(head), body.to_owned())
    }

    pub(super) fn head_status(&mut self) -> u16 {
        loop {
            if let Some(end) = self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.input.drain(..end + 4).collect();
                return status(&String::from_utf8(head).expect("text"));
            }
            assert!(self.read(), "the connection ended in the head");
        }
    }

    pub(super) fn shake_hands(&mut self) {
        assert_eq!(self.next(), "hello, who are you?", "the first message comes with the head");
        self.say("i am lines/1");
        assert_eq!(self.next(), "welcome");
    }

    pub(super) fn say(&mut self, text: &str) {
        let mut frame = vec![FIN | TEXT];
        match u8::try_from(text.len()) {
            Ok(length) if length < 126 => frame.push(MASKED | length),
            _ => {
                frame.push(MASKED | 126);
                frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        write_all(&mut self.stream, &frame).expect("send");
    }

    /// Returns the next text message that is not a heartbeat.
    pub(super) fn next(&mut self) -> String {
        loop {
            let text = self.next_or_beat();
            if text != "beat" {
                return text;
            }
        }
    }

    /// Returns the next text message.
    pub(super) fn next_or_beat(&mut self) -> String {
        let (opcode, payload) = self.next_frame().expect("a message");
        assert_eq!(opcode, TEXT);
        String::from_utf8(payload).expect("text")
    }

    /// Returns the next text message that is not the position of a topic without events.
    pub(super) fn next_but_positions(&mut self) -> String {
        loop {
            let text = self.next();
            if !text.ends_with(r#""events":[]}"#) {
                return text;
            }
        }
    }

    /// Returns the next frame: its opcode and payload. `None` at the end.
    pub(super) fn next_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let (length, start) = match *self.input {
                [_, 126, high, low, ..] => (usize::from(u16::from_be_bytes([high, low])), 4),
                [_, length, ..] if length < 126 => (usize::from(length), 2),
                _ => (usize::MAX / 2, 0),
            };
            if self.input.len() >= start + length {
                let frame: Vec<u8> = self.input.drain(..start + length).collect();
                return Some((frame[0] & 0xf, frame[start..].to_vec()));
            }
            if !self.read() {
                return None;
            }
        }
    }

    /// Reads the available bytes; `false` at the end.
    fn read(&mut self) -> bool {
        let (mut patience, mut piece) = (Patience::new(), [0; 4096]);
        self.stream.set_read_timeout(Some(patience.slice())).expect("set a read timeout");
        loop {
            match self.stream.read(&mut piece) {
                Ok(count) => {
                    self.input.extend_from_slice(&piece[..count]);
                    return count > 0;
                }
                Err(error) if is_timeout(&error) => patience.check("bytes"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str]) -> TcpStream {
    let mut stream = connect(address);
    let host = match headers.iter().any(|header| header.starts_with("Host:")) {
        true => "",
        false => "Host: localhost\r\n",
    };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{host}{headers}\r\n");
    write_all(&mut stream, request.as_bytes()).expect("send");
    stream
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}
