//! Requests and responses, as bytes.

use serde::Deserialize;
use serde_json::Value;

use super::Socket;

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

/// The answer to a publish request.
#[derive(Debug, Deserialize)]
pub(crate) struct Published {
    pub(crate) topic: String,
    pub(crate) position: String,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// A request with a body of known length.
pub(crate) fn request(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// One chunk of a chunked body (RFC 9112 §7.1); the empty one ends it.
pub(crate) fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// The offset in a position.
pub(crate) fn offset(position: &str) -> u64 {
    let (_, offset) = position.split_once('.').expect("a position is EPOCH.OFFSET");
    offset.parse().expect("an offset is a number")
}

impl Socket {
    /// The next response's head.
    pub(crate) fn response_head(&mut self) -> Response {
        let head = self.until(b"\r\n\r\n", "a response head").expect("a response, not the end");
        let head = String::from_utf8(head).expect("a head is text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Response { status: status.expect("a status line"), head, body: Vec::new() }
    }

    /// The next response with its body.
    pub(crate) fn response(&mut self) -> Response {
        let mut response = self.response_head();
        if let Some(length) = response.header("content-length") {
            let length = length.parse().expect("a length");
            response.body = self.exact(length, "a response body").expect("the whole body");
        }
        response
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {:?} of status {}", self.text(), self.status)
        })
    }

    /// What a successful publish answered.
    pub(crate) fn published(&self) -> Published {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("a publish answer")
    }

    /// Asserts a refusal with this status and code; returns its sentence.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let json = self.json();
        assert_eq!((self.status, json["error"]["code"].as_str()), (status, Some(code)), "{json}");
        json["error"]["message"].as_str().expect("a message").to_owned()
    }
}
