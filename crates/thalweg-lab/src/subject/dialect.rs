//! What is said on top of a transport: requests, and what an envelope holds.
//! Both subjects speak Thalweg's wire (`docs/wire.md`).

use super::command::topic_name;
use crate::scenario::Transport;
use std::net::SocketAddr;

/// The key of RFC 6455 §1.3, so that the right answer is a constant: the lab
/// proves speed, not that a handshake was computed afresh.
const WEBSOCKET_KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const WEBSOCKET_ACCEPT: &[u8] = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// The request that subscribes to the first `topics` topics.
pub fn subscribe_request(transport: Transport, host: SocketAddr, topics: u32) -> Vec<u8> {
    let path = if topics == 1 {
        format!("/v1/topics/{}", topic_name(0))
    } else {
        let names: Vec<String> =
            (0..topics).map(|index| format!("topic={}", topic_name(index))).collect();
        format!("/v1/topics?{}", names.join("&"))
    };
    let wanted = match transport {
        Transport::Websocket => format!(
            "Upgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\nSec-WebSocket-Version: 13\r\n"
        ),
        Transport::Sse => "Accept: text/event-stream\r\n".to_owned(),
        Transport::HttpStreaming => "Accept: application/x-ndjson\r\n".to_owned(),
    };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{wanted}\r\n").into_bytes()
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

/// Whether the answer's head (with its empty line) opens the transport; if not,
/// the reason.
pub fn check_answer(transport: Transport, head: &[u8]) -> Result<(), String> {
    let status = match transport {
        Transport::Websocket => "101",
        Transport::Sse | Transport::HttpStreaming => "200",
    };
    let text = String::from_utf8_lossy(head);
    let first = text.lines().next().unwrap_or_default();
    if first.split(' ').nth(1) != Some(status) {
        return Err(format!("the subject answered {first:?} to a subscription"));
    }
    if transport == Transport::Websocket && memchr::memmem::find(head, WEBSOCKET_ACCEPT).is_none() {
        return Err("the subject's Sec-WebSocket-Accept is wrong (RFC 6455 §4.2.2)".to_owned());
    }
    if text.to_ascii_lowercase().contains("transfer-encoding") {
        return Err("a streaming answer in chunks is not Thalweg's wire".to_owned());
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
        /// The events, separated by commas.
        events: &'a [u8],
    },
    /// Events that will not come.
    Gap {
        /// Name of the topic.
        topic: &'a [u8],
        /// How many; `None` if unknown.
        missed: Option<u64>,
    },
    /// Nothing, but still there.
    Heartbeat,
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
            _ => message.starts_with(b"{\"close\":").then_some(Said::Close),
        };
    };
    let (topic, rest) = until(rest, b'"')?;
    let (_, rest) = until(rest.strip_prefix(b",\"position\":\"")?, b'"')?;
    if let Some(gap) = rest.strip_prefix(b",\"gap\":{\"missed\":") {
        let (digits, _) = until(gap, b',')?;
        return Some(Said::Gap { topic, missed: number(digits) });
    }
    let (_, rest) = until(rest.strip_prefix(b",\"first\":")?, b',')?;
    let rest = match rest.strip_prefix(b"\"offsets\":[") {
        Some(offsets) => until(offsets, b']')?.1.strip_prefix(b",")?,
        None => rest,
    };
    let events = rest.strip_prefix(b"\"events\":[")?.strip_suffix(b"]}")?;
    Some(Said::Events { topic, events })
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

    fn events<'a>(topic: &'a str, events: &'a str) -> Option<Said<'a>> {
        Some(Said::Events { topic: topic.as_bytes(), events: events.as_bytes() })
    }

    #[test]
    fn messages_of_the_wire() {
        let said = |message: &'static str| unwrap(message.as_bytes());
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.1042","first":1041,"events":[{"id":7},{"id":8}]}"#
            ),
            events("cars", r#"{"id":7},{"id":8}"#)
        );
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.1050","first":1041,"offsets":[1041,1050],"events":[1,[2]]}"#
            ),
            events("cars", "1,[2]")
        );
        assert_eq!(
            said(r#"{"topic":"a","position":"1.0","first":1,"events":[]}"#),
            events("a", "")
        );
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.900","gap":{"missed":400,"reason":"slow"}}"#
            ),
            Some(Said::Gap { topic: b"cars", missed: Some(400) })
        );
        assert_eq!(
            said(
                r#"{"topic":"cars","position":"9f3c21.900","gap":{"missed":null,"reason":"epoch"}}"#
            ),
            Some(Said::Gap { topic: b"cars", missed: None })
        );
        assert_eq!(said(r#"{"heartbeat":{}}"#), Some(Said::Heartbeat));
        assert_eq!(
            said(r#"{"close":{"code":1001,"reason":"draining","reconnect":true}}"#),
            Some(Said::Close)
        );
        assert_eq!(said("[1]"), None);
        assert_eq!(said(r#"{"topic":"cars","position":"1.1","first":1,"events":[1}"#), None);
    }

    #[test]
    fn an_answer_that_refuses_is_quoted() {
        let refusal = check_answer(Transport::Sse, b"HTTP/1.1 406 Not Acceptable\r\n\r\n");
        assert!(refusal.unwrap_err().contains("406 Not Acceptable"));
        assert!(check_answer(Transport::Sse, b"HTTP/1.1 200 OK\r\n\r\n").is_ok());
        assert!(check_answer(Transport::Websocket, b"HTTP/1.1 101 X\r\n\r\n").is_err());
    }
}
