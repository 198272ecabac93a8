//! A message as a record of its topic: events, a pause, or an end.

use std::fmt;

use async_nats::{HeaderMap, HeaderName};
use thalweg_broker::Content;
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_wire::{
    EndCode, Topic,
    event::{EventError, push_json},
    topic::TopicError,
};

use crate::{
    offsets::{EVENTS_MAX, SEQUENCE_MAX},
    settings::topic_of,
};

/// Marks a message that Thalweg stored: its lines are valid events, and are taken as they are.
pub(crate) const MARK: HeaderName = HeaderName::from_static("Thalweg");

/// The value of [`MARK`]: the version of the layout.
pub(crate) const MARK_VALUE: &str = "1";

/// The header that ends the topic; its value is an [`EndCode`]'s name. Such a message has no body, and has [`MARK`].
pub(crate) const END: HeaderName = HeaderName::from_static("Thalweg-End");

/// The ms for which the topic has had no events. Such a message has no body, and has [`MARK`].
pub(crate) const PAUSED: HeaderName = HeaderName::from_static("Thalweg-Paused");

#[derive(Debug)]
pub(crate) enum Skipped {
    Topic(TopicError),
    Event(EventError),
    /// No keyed events as Thalweg stores them.
    Keys,
    /// No event, or too many.
    Count,
    EmptyLine,
    /// An end with an unknown code.
    End,
    /// A pause without a number of ms.
    Paused,
    /// A sequence number too large for an offset.
    Sequence,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(error) => error.fmt(f),
            Self::Event(error) => error.fmt(f),
            Self::Count => write!(f, "a message has 1 to {EVENTS_MAX} lines, each an event"),
            Self::End => write!(f, "its {END} is unknown to this release"),
            Self::Paused => write!(f, "its {PAUSED} is not a number of ms"),
            Self::Keys => f.write_str("only Thalweg publishes to topics with keys"),
            Self::EmptyLine => f.write_str("a line is empty: each line must be an event"),
            Self::Sequence => write!(f, "sequence numbers go up to {SEQUENCE_MAX}"),
        }
    }
}

/// Parses a message of a stream with topics of this kind. An event from other publishers has at most `event_bytes_max`.
pub(crate) fn read(
    (kind, subject): (FeedKind, &str),
    sequence: u64,
    headers: Option<&HeaderMap>,
    body: &[u8],
    event_bytes_max: usize,
) -> Result<(Topic, Content), Skipped> {
    if sequence > SEQUENCE_MAX {
        return Err(Skipped::Sequence);
    }
    let topic = topic_of(subject).map_err(Skipped::Topic)?;
    let header = |name| headers.and_then(|headers| headers.get(name));
    let payloads = if is_own(headers) {
        if let Some(end) = header(END) {
            let code = EndCode::ALL.into_iter().find(|code| code.name() == end.as_str());
            return Ok((topic, Content::End(code.ok_or(Skipped::End)?)));
        }
        if let Some(paused) = header(PAUSED) {
            let ms = paused.as_str().parse().map_err(|_| Skipped::Paused)?;
            return Ok((topic, Content::Paused(ms)));
        }
        match kind.has_keys() {
            true => keyed(body)?,
            // This is the only copy of the body, which is a slice of the read buffer.
            false => Payloads::from_lines(body.to_vec()).ok_or(Skipped::EmptyLine)?,
        }
    } else if kind.has_keys() {
        return Err(Skipped::Keys);
    } else {
        checked(body, event_bytes_max)?
    };
    if (1..=EVENTS_MAX).contains(&payloads.count()) {
        Ok((topic, Content::Events(payloads)))
    } else {
        Err(Skipped::Count)
    }
}

/// Returns the body of a message of keyed events.
pub(crate) fn keyed_body(payloads: Payloads) -> Vec<u8> {
    Content::Events(payloads).to_line()
}

fn keyed(body: &[u8]) -> Result<Payloads, Skipped> {
    match Content::from_line(body) {
        Some(Content::Events(payloads)) if payloads.has_keys() => Ok(payloads),
        _ => Err(Skipped::Keys),
    }
}

/// Returns whether Thalweg stored a message with these headers.
pub(crate) fn is_own(headers: Option<&HeaderMap>) -> bool {
    let mark = headers.and_then(|headers| headers.get(MARK));
    mark.is_some_and(|mark| mark.as_str() == MARK_VALUE)
}

/// Returns whether a message with these raw headers ends its topic.
pub(crate) fn is_end(headers: &[u8]) -> bool {
    let name = END.to_string();
    headers
        .split(|byte| *byte == b'\n')
        .any(|line| line.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b":")))
}

fn checked(body: &[u8], event_bytes_max: usize) -> Result<Payloads, Skipped> {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    let mut payloads = Payloads::default();
    for line in body.split(|byte| *byte == b'\n') {
        if payloads.count() == EVENTS_MAX {
            return Err(Skipped::Count);
        }
        if line.trim_ascii().is_empty() {
            return Err(Skipped::EmptyLine);
        }
        payloads.push(|out| push_json(line, event_bytes_max, out)).map_err(Skipped::Event)?;
    }
    Ok(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_own(body: &str) -> Result<(Topic, Content), Skipped> {
        let mut headers = HeaderMap::new();
        headers.insert(MARK, MARK_VALUE);
        read((FeedKind::Log, "thalweg.cars.v1/2"), 1, Some(&headers), body.as_bytes(), 100)
    }

    fn parse_foreign(body: &str) -> Result<(Topic, Content), Skipped> {
        read((FeedKind::Log, "thalweg.cars.v1/2"), 1, None, body.as_bytes(), 100)
    }

    fn joined(result: Result<(Topic, Content), Skipped>) -> String {
        let (topic, content) = result.unwrap();
        assert_eq!(topic.as_str(), "cars/v1.2");
        let Content::Events(payloads) = content else { panic!("{content:?}") };
        String::from_utf8(payloads.joined().to_vec()).unwrap()
    }

    #[test]
    fn messages_of_thalweg_are_taken_as_they_are() {
        assert_eq!(joined(parse_own("1\n{\"a\": 2}")), "1,{\"a\": 2}");
        assert!(matches!(parse_own(""), Err(Skipped::EmptyLine)));
        assert!(matches!(parse_own("1\n"), Err(Skipped::EmptyLine)));
        assert!(parse_own(&["1"; 256].join("\n")).is_ok());
        assert!(matches!(parse_own(&["1"; 257].join("\n")), Err(Skipped::Count)));
    }

    #[test]
    fn messages_with_keys_are_those_of_thalweg() {
        let mut payloads = Payloads::from_lines(b"1\n2".to_vec()).unwrap();
        ["a", "b"].iter().for_each(|key| payloads.push_key(key));
        payloads.set_expiry(1, 7);
        let mut headers = HeaderMap::new();
        headers.insert(MARK, MARK_VALUE);
        let read = |kind, headers, body: &[u8]| read((kind, "thalweg.a"), 1, headers, body, 100);
        let body = keyed_body(payloads.clone());
        let (_, content) = read(FeedKind::Keyed, Some(&headers), &body).unwrap();
        let Content::Events(parsed) = content else { panic!("{content:?}") };
        assert_eq!((parsed.joined_keys(), parsed.expiries()), (&b"\"a\",\"b\""[..], &[0, 7][..]));
        assert!(matches!(read(FeedKind::Keyed, None, &body), Err(Skipped::Keys)));
        for bad in [&b""[..], b"1\n2", b"events\t\t1"] {
            let parsed = read(FeedKind::Keyed, Some(&headers), bad);
            assert!(matches!(parsed, Err(Skipped::Keys)), "{bad:?}");
        }
    }

    #[test]
    fn messages_of_others_are_checked() {
        assert_eq!(joined(parse_foreign(" 1\r\n{\"a\": 2}\n")), "1,{\"a\":2}");
        for empty in ["", "\n", "1\n\n2", "1\n \n"] {
            assert!(matches!(parse_foreign(empty), Err(Skipped::EmptyLine)), "{empty:?}");
        }
        let long = format!("\"{}\"", "x".repeat(100));
        for bad in ["{", "1 2", "nonsense", &long, &"[".repeat(90)] {
            assert!(matches!(parse_foreign(bad), Err(Skipped::Event(_))), "{bad:?}");
        }
        assert!(parse_foreign(&["1"; 256].join("\n")).is_ok());
        assert!(matches!(parse_foreign(&["1"; 257].join("\n")), Err(Skipped::Count)));
    }

    #[test]
    fn a_topic_ends() {
        let read = |end: &str, is_marked: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(END, end);
            if is_marked {
                headers.insert(MARK, MARK_VALUE);
            }
            read((FeedKind::Log, "thalweg.a"), 1, Some(&headers), b"", 9)
                .map(|(_, content)| content)
        };
        assert!(matches!(read("deleted", true), Ok(Content::End(EndCode::Deleted))));
        assert!(matches!(read("gone", true), Ok(Content::End(EndCode::Gone))));
        assert!(matches!(read("other", true), Err(Skipped::End)));
        assert!(matches!(read("deleted", false), Err(Skipped::EmptyLine)));
    }

    #[test]
    fn a_message_without_topic_or_offset_is_skipped() {
        assert!(matches!(
            read((FeedKind::Log, "thalweg.a$"), 1, None, b"1", 9),
            Err(Skipped::Topic(_))
        ));
        let subject = (FeedKind::Log, "thalweg.a");
        let last = read(subject, SEQUENCE_MAX, None, b"1", 9);
        assert!(last.is_ok());
        let beyond = read(subject, SEQUENCE_MAX + 1, None, b"1", 9);
        assert!(matches!(beyond, Err(Skipped::Sequence)));
    }
}
