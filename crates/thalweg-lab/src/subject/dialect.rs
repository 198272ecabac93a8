//! What is said on top of a transport: requests, and what an envelope holds.
//! Both subjects speak Thalweg's wire (`docs/wire.md`).

use super::command::topic_name;
use crate::scenario::{Dialect, Transport};
use std::net::SocketAddr;

/// The key of RFC 6455 §1.3, so that the right answer is a constant: the lab
/// proves speed, not that a handshake was computed afresh.
const WEBSOCKET_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const WEBSOCKET_ACCEPT: &[u8] = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// About what a Runner of Thalweg has.
const RUNNER_BYTES: usize = 200;

/// What a connection speaks, as TLS names it (RFC 7301).
pub const HTTP_1: &str = "http/1.1";
/// The same, of HTTP/2 (RFC 9113 §3.2).
pub const HTTP_2: &str = "h2";

/// What a subscriber asks for.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    /// How it wants to be sent to.
    pub transport: Transport,
    /// Whom it asks.
    pub host: SocketAddr,
    /// Where it is to be found, if not where topics are.
    pub path: Option<&'a str>,
    /// It subscribes to the first so many topics.
    pub topics: u32,
    /// More of the query, e.g. `cursor=earliest`.
    pub query: &'a str,
}

impl Subscription<'_> {
    /// Path and query.
    pub fn target(&self) -> String {
        let mut query: Vec<String> = Vec::new();
        let path = if let Some(path) = self.path {
            path.to_owned()
        } else if self.topics == 1 {
            format!("/v1/topics/{}", topic_name(0))
        } else {
            query.extend((0..self.topics).map(|index| format!("topic={}", topic_name(index))));
            "/v1/topics".to_owned()
        };
        if matches!(self.transport, Transport::ForeverFrame | Transport::LongPolling) {
            query.push(format!("transport={}", self.transport));
        }
        if !self.query.is_empty() {
            query.push(self.query.to_owned());
        }
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// What the `Accept` header asks for.
    pub fn accept(&self) -> &'static str {
        match self.transport {
            Transport::Sse => "text/event-stream",
            Transport::HttpStreaming => "application/x-ndjson",
            _ => "*/*",
        }
    }

    /// The request over HTTP/1.1.
    pub fn request(&self) -> Vec<u8> {
        format!("GET {}{}", self.target(), self.behind_target()).into_bytes()
    }

    /// What follows the target in a request over HTTP/1.1.
    pub fn behind_target(&self) -> String {
        let wanted = match self.transport {
            Transport::Websocket => format!(
                "Upgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\nSec-WebSocket-Version: 13\r\n"
            ),
            _ => format!("Accept: {}\r\n", self.accept()),
        };
        format!(" HTTP/1.1\r\nHost: {}\r\n{wanted}\r\n", self.host)
    }
}

/// The head of a long publish request: one event a line, in chunks.
pub fn publish_request(host: SocketAddr, topic: u32) -> Vec<u8> {
    format!(
        "POST /v1/topics/{} HTTP/1.1\r\nHost: {host}\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
        topic_name(topic)
    )
    .into_bytes()
}

/// The head of a request that publishes one event.
pub fn single_request(host: SocketAddr, event_bytes: u32) -> Vec<u8> {
    format!(
        "POST /v1/topics/{} HTTP/1.1\r\nHost: {host}\r\n\
         Content-Type: application/json\r\nContent-Length: {event_bytes}\r\n\r\n",
        topic_name(0)
    )
    .into_bytes()
}

/// The request that acks a Runner where the transport has no way back: the same
/// object, published.
pub fn ack_request(host: SocketAddr, runner: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST /v1/topics/{}/acks HTTP/1.1\r\nHost: {host}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        topic_name(0),
        runner.len()
    )
    .into_bytes();
    request.extend_from_slice(runner);
    request
}

/// The command that acks a position over a WebSocket.
pub fn ack_command(position: &[u8]) -> Vec<u8> {
    let topic = topic_name(0);
    let position = String::from_utf8_lossy(position);
    format!(r#"{{"command":"ack","topic":"{topic}","position":"{position}"}}"#).into_bytes()
}

/// What experiment C says under this number: no two are the same.
fn uuid(number: u64) -> String {
    format!("{number:08x}-7468-416c-8765-{:012x}", number.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF)
}

/// The message with this number that is to come back, and what comes back.
pub fn echo(dialect: Dialect, number: u64) -> (Vec<u8>, Vec<u8>) {
    let data = uuid(number);
    match dialect {
        Dialect::Thalweg => (
            format!(r#"{{"command":"echo","id":{number},"data":"{data}"}}"#).into_bytes(),
            format!(r#"{{"answer":{{"id":{number},"data":"{data}"}}}}"#).into_bytes(),
        ),
        Dialect::Limit | Dialect::Bare => (data.clone().into_bytes(), data.into_bytes()),
    }
}

/// The number of what is to come back, whether or not it was asked for; `None` of
/// anything else.
pub fn echo_number(dialect: Dialect, answer: &[u8]) -> Option<u64> {
    let found = match dialect {
        Dialect::Thalweg => number(until(answer.strip_prefix(b"{\"answer\":{\"id\":")?, b',')?.0)?,
        Dialect::Limit | Dialect::Bare => {
            // Of a megabyte of something else only so much is looked at.
            let digits = std::str::from_utf8(answer.get(..8)?).ok()?;
            u64::from_str_radix(digits, 16).ok()?
        }
    };
    (echo(dialect, found).1 == answer).then_some(found)
}

/// A Runner that the client makes itself, where the subject makes none: of the
/// size of Thalweg's.
pub fn runner(id: u64) -> Vec<u8> {
    let mut runner = format!(r#"{{"id":{id},"name":"Runner {id}","pad":""#).into_bytes();
    runner.resize(RUNNER_BYTES - 2, b'x');
    runner.extend_from_slice(b"\"}");
    runner
}

/// The number of a Runner; `None` if it is none.
pub fn runner_id(event: &[u8]) -> Option<u64> {
    let (digits, rest) = until(event.strip_prefix(b"{\"id\":")?, b',')?;
    // One object, and not several.
    (rest.ends_with(b"}") && memchr::memchr(b'{', rest).is_none()).then(|| number(digits))?
}

/// Whether the answer's head (with its empty line) opens the transport; if not,
/// the reason.
pub fn check_answer(transport: Transport, head: &[u8]) -> Result<(), String> {
    let status = match transport {
        Transport::Websocket => "101",
        _ => "200",
    };
    let text = String::from_utf8_lossy(head);
    let first = text.lines().next().unwrap_or_default();
    if first.split(' ').nth(1) != Some(status) {
        return Err(format!("the subject answered {first:?} to a subscription"));
    }
    if transport == Transport::Websocket && memchr::memmem::find(head, WEBSOCKET_ACCEPT).is_none() {
        return Err("the subject's Sec-WebSocket-Accept is wrong (RFC 6455 §4.2.2)".to_owned());
    }
    Ok(())
}

/// What a subject says to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// An envelope; without events it confirms the subscription.
    Events {
        /// Name of the topic.
        topic: &'a [u8],
        /// That of the last event.
        position: &'a [u8],
        /// The events, separated by commas.
        events: &'a [u8],
    },
    /// Events that will not come.
    Gap {
        /// Name of the topic.
        topic: &'a [u8],
        /// The next event is the one after it.
        position: &'a [u8],
        /// How many; `None` if unknown.
        missed: Option<u64>,
    },
    /// Nothing, but still there.
    Heartbeat,
    /// The last words of a document that has grown large: to be loaded again.
    Reload,
    /// The last words.
    Close,
}

/// Reads one message; `None` if it is nothing the wire knows.
///
/// Keys have a fixed order and there is no whitespace, so a few comparisons
/// find the events without parsing them.
pub fn unwrap(message: &[u8]) -> Option<Said<'_>> {
    let Some(rest) = message.strip_prefix(b"{\"topic\":\"") else {
        return match message {
            b"{\"heartbeat\":{}}" => Some(Said::Heartbeat),
            _ if message.starts_with(b"{\"close\":{\"code\":4003,") => Some(Said::Reload),
            _ => message.starts_with(b"{\"close\":").then_some(Said::Close),
        };
    };
    let (topic, rest) = until(rest, b'"')?;
    let (position, rest) = until(rest.strip_prefix(b",\"position\":\"")?, b'"')?;
    if let Some(gap) = rest.strip_prefix(b",\"gap\":{\"missed\":") {
        let (digits, _) = until(gap, b',')?;
        return Some(Said::Gap { topic, position, missed: number(digits) });
    }
    let (_, rest) = until(rest.strip_prefix(b",\"first\":")?, b',')?;
    let rest = match rest.strip_prefix(b"\"offsets\":[") {
        Some(offsets) => until(offsets, b']')?.1.strip_prefix(b",")?,
        None => rest,
    };
    let events = rest.strip_prefix(b"\"events\":[")?.strip_suffix(b"]}")?;
    Some(Said::Events { topic, position, events })
}

fn until(bytes: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == end)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// A number in decimal digits.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events<'a>(topic: &'a str, position: &'a str, events: &'a str) -> Option<Said<'a>> {
        let (topic, position) = (topic.as_bytes(), position.as_bytes());
        Some(Said::Events { topic, position, events: events.as_bytes() })
    }

    #[test]
    fn messages_of_the_wire() {
        let said = |message: &'static str| unwrap(message.as_bytes());
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.1042","first":1041,"events":[{"id":7},{"id":8}]}"#
            ),
            events("cars", "9f3c21.1042", r#"{"id":7},{"id":8}"#)
        );
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.1050","first":1041,"offsets":[1041,1050],"events":[1,[2]]}"#
            ),
            events("cars", "9f3c21.1050", "1,[2]")
        );
        assert_eq!(
            said(r#"{"topic":"a","position":"1.0","first":1,"events":[]}"#),
            events("a", "1.0", "")
        );
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.900","gap":{"missed":400,"reason":"slow"}}"#
            ),
            Some(Said::Gap { topic: b"cars", position: b"9f3c21.900", missed: Some(400) })
        );
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.900","gap":{"missed":null,"reason":"epoch"}}"#
            ),
            Some(Said::Gap { topic: b"cars", position: b"9f3c21.900", missed: None })
        );
        assert_eq!(said(r#"{"heartbeat":{}}"#), Some(Said::Heartbeat));
        assert_eq!(
            said(r#"{"close":{"code":1001,"reason":"draining","reconnect":true}}"#),
            Some(Said::Close)
        );
        assert_eq!(
            said(r#"{"close":{"code":4003,"reason":"reload","reconnect":true}}"#),
            Some(Said::Reload)
        );
        assert_eq!(said("[1]"), None);
        assert_eq!(said(r#"{"topic":"cars","position":"1.1","first":1,"events":[1}"#), None);
    }

    #[test]
    fn a_runner_is_told_by_its_number() {
        assert_eq!(runner(1042).len(), RUNNER_BYTES);
        assert_eq!(runner_id(&runner(1042)), Some(1042));
        assert_eq!(runner_id(br#"{"id":1,"a":2},{"id":2,"a":2}"#), None);
        assert_eq!(runner_id(b"[1]"), None);
    }

    #[test]
    fn what_comes_back_is_told_by_its_number() {
        for dialect in [Dialect::Thalweg, Dialect::Limit, Dialect::Bare] {
            let (_, answer) = echo(dialect, 4711);
            assert_eq!(echo_number(dialect, &answer), Some(4711));
            assert_eq!(echo_number(dialect, &answer[1..]), None);
            assert_eq!(echo_number(dialect, b"{\"pad\":\"xxxx-xxx\"}"), None);
        }
    }

    #[test]
    fn every_transport_asks_in_its_way() {
        let target = |transport, topics, query| {
            let host = SocketAddr::from(([127, 0, 0, 1], 9));
            Subscription { transport, host, path: None, topics, query }.target()
        };
        assert_eq!(target(Transport::Sse, 1, ""), "/v1/topics/bench/0");
        assert_eq!(
            target(Transport::Websocket, 2, "window=1"),
            "/v1/topics?topic=bench/0&topic=bench/1&window=1"
        );
        assert_eq!(
            target(Transport::LongPolling, 1, "wait=25s"),
            "/v1/topics/bench/0?transport=long-polling&wait=25s"
        );
    }

    #[test]
    fn an_answer_that_refuses_is_quoted() {
        let refusal = check_answer(Transport::Sse, b"HTTP/1.1 406 Not Acceptable\r\n\r\n");
        assert!(refusal.unwrap_err().contains("406 Not Acceptable"));
        assert!(check_answer(Transport::Sse, b"HTTP/1.1 200 OK\r\n\r\n").is_ok());
        assert!(check_answer(Transport::Websocket, b"HTTP/1.1 101 X\r\n\r\n").is_err());
    }
}
