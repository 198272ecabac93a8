//! Requests that publish, in every supported form. Pure.

use memchr::memchr_iter;
use std::net::SocketAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Publishing {
    /// A chunked request without an end, with one line per event.
    Ndjson {
        /// Target of the request.
        target: String,
    },
    /// One request per event, pipelined (RFC 9112 §9.3.2).
    Requests(Requests),
    /// One message per event to a NATS server, which does not store it.
    Nats {
        /// The NATS subject.
        subject: String,
    },
}

/// Requests that differ only in the event in their body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    pub(super) target: String,
    /// `Name: value` of fields beside `Host` and those that describe the body.
    pub(super) fields: Vec<String>,
    /// The body before the event.
    pub(super) before: String,
    /// The body after it.
    pub(super) behind: String,
    /// Whether the body is a form, in which the event is percent-encoded
    /// (<https://url.spec.whatwg.org/#application/x-www-form-urlencoded>), or JSON.
    pub(super) is_form: bool,
}

impl Requests {
    /// Returns the head of each request, without the length of its body.
    pub(super) fn head(&self, host: SocketAddr) -> Vec<u8> {
        let media_type =
            if self.is_form { "application/x-www-form-urlencoded" } else { "application/json" };
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {media_type}\r\n",
            self.target
        );
        for field in &self.fields {
            head.extend([field, "\r\n"]);
        }
        head += "Content-Length: ";
        head.into_bytes()
    }

    /// Appends the request for an event, beginning with this head.
    pub(super) fn write(&self, head: &[u8], event: &[u8], out: &mut Vec<u8>) {
        let encoded = self.is_form.then(|| percent_encoded(event));
        let event = encoded.as_deref().unwrap_or(event);
        let length = self.before.len() + event.len() + self.behind.len();
        out.extend_from_slice(head);
        out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(self.before.as_bytes());
        out.extend_from_slice(event);
        out.extend_from_slice(self.behind.as_bytes());
    }
}

/// Appends lines in chunks of `events` lines (RFC 9112 §7.1); 0 makes one chunk of all.
pub(super) fn write_chunks(lines: &[u8], events: u32, out: &mut Vec<u8>) {
    let mut rest = lines;
    while !rest.is_empty() {
        let nth = (events as usize).checked_sub(1);
        let end = nth.and_then(|nth| memchr_iter(b'\n', rest).nth(nth));
        let (chunk, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        rest = after;
    }
}

fn percent_encoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4);
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => out.push(byte),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_into_chunks() {
        let written = |events| {
            let mut out = Vec::new();
            write_chunks(b"1\n22\n3\n", events, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(0), "7\r\n1\n22\n3\n\r\n");
        assert_eq!(written(1), "2\r\n1\n\r\n3\r\n22\n\r\n2\r\n3\n\r\n");
        assert_eq!(written(2), "5\r\n1\n22\n\r\n2\r\n3\n\r\n");
        assert_eq!(written(9), written(0));
    }

    #[test]
    fn a_request_has_the_length_of_its_body() {
        let written = |requests: &Requests, event: &str| {
            let mut out = Vec::new();
            requests.write(&requests.head(([127, 0, 0, 1], 9).into()), event.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let json = Requests {
            target: "/api/publish".to_owned(),
            fields: vec!["X-API-Key: k".to_owned()],
            before: r#"{"channel":"a","data":"#.to_owned(),
            behind: "}".to_owned(),
            is_form: false,
        };
        assert_eq!(
            written(&json, r#"{"b":1}"#),
            "POST /api/publish HTTP/1.1\r\nHost: 127.0.0.1:9\r\nContent-Type: application/json\r\n\
             X-API-Key: k\r\nContent-Length: 30\r\n\r\n{\"channel\":\"a\",\"data\":{\"b\":1}}"
        );
        let form = Requests {
            target: "/hub".to_owned(),
            before: "topic=a%2F0&data=".to_owned(),
            is_form: true,
            ..Requests::default()
        };
        let request = written(&form, r#"{"a":"45+2 é"}"#);
        assert!(
            request.ends_with("\r\n\r\ntopic=a%2F0&data=%7B%22a%22%3A%2245%2B2%20%C3%A9%22%7D")
        );
        assert!(request.contains("x-www-form-urlencoded\r\nContent-Length: 54\r\n"), "{request}");
    }
}
