//! Requests and responses, as bytes.

use serde::Deserialize;
use serde_json::Value;

use super::Socket;

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names are lower-case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Deserialize, PartialEq)]
pub(crate) struct Published {
    pub(crate) topic: String,
    pub(crate) position: String,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

pub(crate) fn request(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += "Host: localhost\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Encodes a chunk of a body (RFC 9112 §7.1). The empty one ends it.
pub(crate) fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

pub(crate) fn offset(position: &str) -> u64 {
    let (_, offset) = position.split_once('.').expect("a position is EPOCH.OFFSET");
    offset.parse().expect("an offset is a number")
}

pub(crate) fn at(position: &str, offset: u64) -> String {
    let (epoch, _) = position.split_once('.').expect("a position is EPOCH.OFFSET");
    format!("{epoch}.{offset}")
}

impl Socket {
    pub(crate) fn response_head(&mut self) -> Response {
        self.response_head_if_open().expect("a response, not the end")
    }

    pub(crate) fn response_head_if_open(&mut self) -> Option<Response> {
        let head = self.until(b"\r\n\r\n", "a response head")?;
        let head = String::from_utf8(head).expect("a head is text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let headers = head.lines().skip(1).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        let headers = headers.collect();
        let status = status.expect("a status line");
        let head = Response { status, headers, body: Vec::new() };
        if head.header("transfer-encoding") == Some("chunked") {
            self.begin_chunks();
        }
        Some(head)
    }

    pub(crate) fn response(&mut self) -> Response {
        self.response_if_open().expect("a response, not the end")
    }

    pub(crate) fn response_if_open(&mut self) -> Option<Response> {
        let mut response = self.response_head_if_open()?;
        response.body = self.body(&response);
        Some(response)
    }

    /// Reads the body, whose end follows from the head (RFC 9112 §6.3).
    pub(crate) fn body(&mut self, head: &Response) -> Vec<u8> {
        if let Some(length) = head.header("content-length") {
            let length = length.parse().expect("a length");
            self.exact(length, "a response body").expect("the whole body")
        } else if head.header("transfer-encoding") == Some("chunked") {
            self.end_chunks()
        } else if head.status >= 200 && !matches!(head.status, 204 | 304) {
            self.rest("the rest of a response")
        } else {
            Vec::new()
        }
    }
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut same = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        same.next().map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{error} in {:?} of status {}", self.text(), self.status)
        })
    }

    pub(crate) fn published(&self) -> Published {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("a publish answer")
    }

    /// Asserts a refusal with this status and code. Returns its message.
    pub(crate) fn refused(&self, status: u16, code: &str) -> String {
        let json = self.json();
        assert_eq!((self.status, json["error"]["code"].as_str()), (status, Some(code)), "{json}");
        json["error"]["message"].as_str().expect("a message").to_owned()
    }
}
