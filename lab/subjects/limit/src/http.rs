//! Request heads and responses: as much of HTTP/1.1 as the limit needs.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};

use crate::body::Body;
use crate::frame::Framing;
use crate::topic::is_topic;

/// Largest size of a request head. Longer ones are refused.
pub(crate) const HEAD_BYTES_MAX: usize = 8 << 10;

/// Appended to the client's key (RFC 6455 §1.3).
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

#[derive(Debug)]
pub(crate) enum Request {
    Health,
    Subscribe {
        topics: Vec<String>,
        framing: Framing,
        /// The response head, without the frames that follow.
        response: String,
    },
    Publish {
        topic: String,
        body: Body,
        /// Whether the client waits for `100 Continue` (RFC 9110 §10.1.1).
        expects_continue: bool,
    },
}

/// The reason of a refusal: the status, and a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) &'static str, pub(crate) &'static str);

const BAD_TOPIC: Refusal = Refusal("400 Bad Request", "not in the topic grammar");
const NOT_HTTP: Refusal = Refusal("400 Bad Request", "not an HTTP/1.1 request head");

pub(crate) fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let head = Head::parse(head).ok_or(NOT_HTTP)?;
    let topic = head.path.strip_prefix("/v1/topics/");
    match (head.method, topic) {
        ("GET", None) if head.path == "/healthz" => Ok(Request::Health),
        ("GET", Some(topic)) => subscribe(&head, vec![topic.to_owned()]),
        ("GET", None) if head.path == "/v1/topics" => subscribe(&head, head.topics()),
        ("POST", Some(topic)) => publish(&head, topic),
        _ => Err(Refusal("404 Not Found", "only /healthz and /v1/topics")),
    }
}

fn subscribe(head: &Head<'_>, mut topics: Vec<String>) -> Result<Request, Refusal> {
    topics.sort_unstable();
    topics.dedup();
    if topics.is_empty() || !topics.iter().all(|topic| is_topic(topic)) {
        return Err(BAD_TOPIC);
    }
    let accepts = |kind| head.header("accept").is_some_and(|value| value.contains(kind));
    let (framing, response) = if let Some(key) = head.header("sec-websocket-key") {
        (Framing::WebSocket, switching_protocols(key))
    } else if accepts("text/event-stream") {
        let framing = if topics.len() == 1 { Framing::Sse } else { Framing::SseSeveral };
        (framing, streaming("text/event-stream"))
    } else if accepts("application/x-ndjson") {
        (Framing::Ndjson, streaming("application/x-ndjson"))
    } else {
        return Err(Refusal(
            "406 Not Acceptable",
            "ask for a WebSocket, text/event-stream or application/x-ndjson",
        ));
    };
    Ok(Request::Subscribe { topics, framing, response })
}

fn publish(head: &Head<'_>, topic: &str) -> Result<Request, Refusal> {
    if !is_topic(topic) {
        return Err(BAD_TOPIC);
    }
    let is_chunked = head
        .header("transfer-encoding")
        .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
    let body = if is_chunked {
        Body::chunked()
    } else {
        let length = head.header("content-length").unwrap_or("0");
        Body::with_length(length.parse().map_err(|_| NOT_HTTP)?)
    };
    Ok(Request::Publish {
        topic: topic.to_owned(),
        body,
        expects_continue: head.header("expect").is_some(),
    })
}

fn switching_protocols(key: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(WEBSOCKET_GUID);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        BASE64_STANDARD.encode(hash.finalize())
    )
}

/// Returns the head of a response that ends with the connection.
fn streaming(content_type: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
}

/// Returns a whole response, after which the connection stays open.
pub(crate) fn response(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    out.extend_from_slice(body);
    out
}

struct Head<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    fields: &'a str,
}

impl<'a> Head<'a> {
    fn parse(head: &'a [u8]) -> Option<Self> {
        let (line, fields) = std::str::from_utf8(head).ok()?.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        if words.next() != Some("HTTP/1.1") || words.next().is_some() {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Self { method, path, query, fields })
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        self.fields.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Returns the topics of the query. `/` is the only character of a topic that clients percent-encode.
    fn topics(&self) -> Vec<String> {
        self.query
            .split('&')
            .filter_map(|pair| pair.strip_prefix("topic="))
            .map(|topic| topic.replace("%2F", "/").replace("%2f", "/"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing_of(request: &str) -> Result<(Vec<String>, Framing), Refusal> {
        match parse(request.as_bytes())? {
            Request::Subscribe { topics, framing, .. } => Ok((topics, framing)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_transport_is_negotiated() {
        let check = |head: &str, topics: &[&str], framing| {
            let (seen, chosen) = framing_of(&format!("{head}\r\n\r\n")).unwrap();
            assert_eq!(seen, topics);
            assert_eq!(chosen, framing);
        };
        check("GET /v1/topics/a/b HTTP/1.1\r\naccept: text/event-stream", &["a/b"], Framing::Sse);
        check(
            "GET /v1/topics?topic=b&topic=a%2Fc HTTP/1.1\r\nAccept: text/event-stream",
            &["a/c", "b"],
            Framing::SseSeveral,
        );
        check("GET /v1/topics/a HTTP/1.1\r\nAccept:application/x-ndjson", &["a"], Framing::Ndjson);
        check("GET /v1/topics/a HTTP/1.1\r\nSec-WebSocket-Key: x", &["a"], Framing::WebSocket);
    }

    #[test]
    fn the_websocket_answer_is_that_of_the_rfc() {
        // RFC 6455 §1.3.
        let response = switching_protocols("dGhlIHNhbXBsZSBub25jZQ==");
        assert!(response.contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    }

    #[test]
    fn malformed_requests_are_refused() {
        for bad in [
            "\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET  /healthz HTTP/1.1\r\n\r\n",
            "GET /v1/topics HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n",
            "GET /v1/topics/.. HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n",
            "GET /v1/topics/a HTTP/1.1\r\nAccept: */*\r\n\r\n",
            "POST /v1/topics/a HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST /v1/topics HTTP/1.1\r\n\r\n",
            "\u{1F980} / HTTP/1.1\r\n\r\n",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(parse(b"GET \xff HTTP/1.1\r\n\r\n").is_err());
    }
}
