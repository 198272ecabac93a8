//! Thalweg's wire (`docs/reference/messages.md`).

use super::{Dialect, Encoding, Message, Version, VersionBody, Wanted, alone, echo, unknown};
use crate::scenario::Transport;
use crate::subject::topic_name;
use crate::swarm::carrier::Kind;
use crate::swarm::event::number;

#[derive(Debug)]
pub(super) struct Thalweg;

impl Dialect for Thalweg {
    #[inline]
    fn on_message<'a>(
        &self,
        kind: Kind,
        message: &'a [u8],
        _replies: &mut Vec<u8>,
    ) -> anyhow::Result<(Message<'a>, &'a [u8])> {
        unwrap(kind, message)
            .or_else(|| message.starts_with(ANSWER).then_some(Message::Answer(message)))
            .map(alone)
            .ok_or_else(|| unknown("not an envelope of the wire", message))
    }

    fn resumes(&self) -> bool {
        true
    }

    fn echo(&self, number: u64) -> (Vec<u8>, Vec<u8>) {
        let data = echo::uuid(number);
        (
            format!(r#"{{"command":"echo","id":{number},"data":"{data}"}}"#).into_bytes(),
            format!(r#"{{"answer":{{"id":{number},"data":"{data}"}}}}"#).into_bytes(),
        )
    }

    fn echo_number(&self, answer: &[u8]) -> Option<u64> {
        let number =
            number(until(answer.strip_prefix(ANSWER)?.strip_prefix(b"\"id\":")?, b',')?.0)?;
        (self.echo(number).1 == answer).then_some(number)
    }

    fn window(&self, bytes: u32) -> Option<String> {
        Some(format!("window={bytes}"))
    }

    fn earliest_query(&self) -> &'static str {
        "cursor=earliest"
    }

    fn ack(&self, position: &[u8]) -> Vec<u8> {
        let topic = topic_name(0);
        let position = String::from_utf8_lossy(position);
        format!(r#"{{"command":"ack","topic":"{topic}","position":"{position}"}}"#).into_bytes()
    }

    fn ack_runner(&self, runner: &[u8]) -> Vec<u8> {
        let topic = acks_topic();
        let mut command =
            format!(r#"{{"command":"publish","topic":"{topic}","event":"#).into_bytes();
        command.extend_from_slice(runner);
        command.push(b'}');
        command
    }

    fn makes_runners(&self) -> bool {
        true
    }
}

const ANSWER: &[u8] = b"{\"answer\":{";

pub(super) fn target(wanted: &Wanted<'_>) -> String {
    let mut query: Vec<String> = Vec::new();
    let path = if wanted.topics.len() == 1 {
        format!("/v1/topics/{}", topic_name(wanted.topics.start))
    } else {
        query.extend(wanted.topics.clone().map(|index| format!("topic={}", topic_name(index))));
        "/v1/topics".to_owned()
    };
    if matches!(wanted.transport, Transport::ForeverFrame | Transport::LongPolling) {
        query.push(format!("transport={}", wanted.transport));
    }
    if !wanted.query.is_empty() {
        query.push(wanted.query.to_owned());
    }
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

/// Returns the target of a post to a topic.
pub(super) fn publish_target(topic: u32) -> String {
    format!("/v1/topics/{}", topic_name(topic))
}

/// Returns the target of acks if Runners arrive on a one-way transport.
pub(in crate::swarm) fn acks_target() -> String {
    format!("/v1/topics/{}", acks_topic())
}

/// Returns the topic to which a client publishes each Runner that it has received.
fn acks_topic() -> String {
    format!("{}/acks", topic_name(0))
}

/// Reads one message; `None` if the wire has no such message. Keys have a fixed order and there is no whitespace, so a few
/// comparisons find the events without parsing them.
#[inline]
pub(super) fn unwrap(kind: Kind, message: &[u8]) -> Option<Message<'_>> {
    if kind != Kind::Text {
        return None;
    }
    let Some(rest) = message.strip_prefix(b"{\"topic\":\"") else {
        return match message {
            b"{\"heartbeat\":{}}" => Some(Message::Heartbeat),
            _ if message.starts_with(b"{\"close\":{\"code\":4003,") => Some(Message::Reload),
            _ => message.starts_with(b"{\"close\":").then_some(Message::Close),
        };
    };
    let (topic, rest) = until(rest, b'"')?;
    let (position, rest) = until(rest.strip_prefix(b",\"position\":\"")?, b'"')?;
    if let Some(gap) = rest.strip_prefix(b",\"gap\":{\"missed\":") {
        let (digits, _) = until(gap, b',')?;
        return Some(Message::Gap { topic, position, missed: number(digits) });
    }
    let (first, rest) = until(rest.strip_prefix(b",\"first\":")?, b',')?;
    if let Some(rest) = rest.strip_prefix(b"\"previous\":") {
        let (previous, rest) = until(rest, b',')?;
        let (number, previous) = (number(first)?, number(previous)?);
        let body = match rest.strip_prefix(b"\"patch\":") {
            Some(patch) => VersionBody::Encoded(Encoding::Patch, patch.strip_suffix(b"}")?),
            None => match rest.strip_prefix(b"\"events\":[")?.strip_suffix(b"]}")? {
                b"" => return Some(Message::Events { topic, position, first, events: b"" }),
                document => VersionBody::Document(document),
            },
        };
        let version = Version { number, previous, body };
        return Some(Message::Version { topic, position, version });
    }
    let rest = match rest.strip_prefix(b"\"after\":") {
        Some(after) => until(after, b',')?.1,
        None => rest,
    };
    let rest = match rest.strip_prefix(b"\"offsets\":[") {
        Some(offsets) => until(offsets, b']')?.1.strip_prefix(b",")?,
        None => rest,
    };
    let events = rest.strip_prefix(b"\"events\":[")?.strip_suffix(b"]}")?;
    Some(Message::Events { topic, position, first, events })
}

fn until(bytes: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    // The parts that are searched are short.
    let at = bytes.iter().position(|&byte| byte == end)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events<'a>(topic: &'a str, at: [&'a str; 2], events: &'a str) -> Option<Message<'a>> {
        let [position, first] = at.map(str::as_bytes);
        Some(Message::Events {
            topic: topic.as_bytes(),
            position,
            first,
            events: events.as_bytes(),
        })
    }

    #[test]
    fn messages_of_the_wire() {
        let parsed = |message: &'static str| unwrap(Kind::Text, message.as_bytes());
        assert_eq!(
            parsed(
                r#"{"topic":"cars","position":"9f3c21.1042","first":1041,"events":[{"id":7},{"id":8}]}"#
            ),
            events("cars", ["9f3c21.1042", "1041"], r#"{"id":7},{"id":8}"#)
        );
        assert_eq!(
            parsed(
                r#"{"topic":"cars","position":"9f3c21.1050","first":1041,"offsets":[1041,1050],"events":[1,[2]]}"#
            ),
            events("cars", ["9f3c21.1050", "1041"], "1,[2]")
        );
        assert_eq!(
            parsed(
                r#"{"topic":"cars","position":"9f.769","first":768,"after":257,"events":[1,2]}"#
            ),
            events("cars", ["9f.769", "768"], "1,2")
        );
        assert_eq!(
            parsed(r#"{"topic":"a","position":"1.0","first":1,"events":[]}"#),
            events("a", ["1.0", "1"], "")
        );
        let version = |number, body| {
            let (topic, position) = (&b"a"[..], &b"1.7"[..]);
            Some(Message::Version {
                topic,
                position,
                version: Version { number, previous: number - 2, body },
            })
        };
        assert_eq!(
            parsed(r#"{"topic":"a","position":"1.7","first":7,"previous":5,"events":[{"b":[]}]}"#),
            version(7, VersionBody::Document(br#"{"b":[]}"#))
        );
        assert_eq!(
            parsed(r#"{"topic":"a","position":"1.7","first":7,"previous":5,"patch":[{"op":1}]}"#),
            version(7, VersionBody::Encoded(Encoding::Patch, br#"[{"op":1}]"#))
        );
        assert_eq!(
            parsed(r#"{"topic":"a","position":"1.0","first":0,"previous":0,"events":[]}"#),
            events("a", ["1.0", "0"], "")
        );
        let gap = |missed| Some(Message::Gap { topic: b"cars", position: b"9f3c21.900", missed });
        assert_eq!(
            parsed(
                r#"{"topic":"cars","position":"9f3c21.900","gap":{"missed":400,"reason":"slow"}}"#
            ),
            gap(Some(400))
        );
        assert_eq!(
            parsed(
                r#"{"topic":"cars","position":"9f3c21.900","gap":{"missed":null,"reason":"epoch"}}"#
            ),
            gap(None)
        );
        assert_eq!(parsed(r#"{"heartbeat":{}}"#), Some(Message::Heartbeat));
        assert_eq!(
            parsed(r#"{"close":{"code":1001,"reason":"draining","reconnect":true}}"#),
            Some(Message::Close)
        );
        assert_eq!(
            parsed(r#"{"close":{"code":4003,"reason":"reload","reconnect":true}}"#),
            Some(Message::Reload)
        );
        assert_eq!(parsed("[1]"), None);
        assert_eq!(parsed(r#"{"topic":"cars","position":"1.1","first":1,"events":[1}"#), None);
        assert_eq!(unwrap(Kind::Binary, b"{\"heartbeat\":{}}"), None);
    }

    #[test]
    fn every_transport_asks_in_its_way() {
        let target = |transport, topics, query| target(&Wanted { transport, topics, query });
        assert_eq!(target(Transport::Sse, 3..4, ""), "/v1/topics/bench/3");
        assert_eq!(
            target(Transport::Websocket, 0..2, "window=1"),
            "/v1/topics?topic=bench/0&topic=bench/1&window=1"
        );
        assert_eq!(
            target(Transport::LongPolling, 0..1, "wait=25s"),
            "/v1/topics/bench/0?transport=long-polling&wait=25s"
        );
    }
}
