//! The golden vectors in `vectors/`, whose README explains each case.

mod commands;
mod messages;
mod text;

use serde::{Deserialize, de::DeserializeOwned};
use text::Text;
use thalweg_wire::{
    Epoch, ErrorCode, Offset, Pattern, Position, StartAt, Topic,
    event::{EventError, push_json, push_text},
    limits::EVENT_BYTES,
    topic::TopicError,
};

/// Parses a file of vectors; an unknown member is an error.
fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("vectors as README says")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topics {
    valid: Vec<ValidTopic>,
    invalid: Vec<InvalidTopic>,
    paths: Vec<TopicPath>,
    no_paths: Vec<String>,
    queries: Vec<TopicQuery>,
    no_queries: Vec<String>,
    no_nats_image: Vec<NatsSubject>,
    patterns: Vec<Matching>,
    no_patterns: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Matching {
    pattern: String,
    matches: Vec<String>,
    others: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidTopic {
    topic: Text,
    nats: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidTopic {
    topic: Text,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicPath {
    path: String,
    topic: String,
    /// Whether clients write the text in this form.
    is_written: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicQuery {
    query: String,
    topic: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NatsSubject {
    nats: String,
}

#[test]
fn topics() {
    let topics: Topics = read(include_str!("../../../../vectors/topics.json"));
    for ValidTopic { topic, nats } in topics.valid {
        let (text, nats) = (topic.string(), nats.string());
        let topic: Topic = text.parse().expect("a topic");
        assert_eq!(topic.as_str(), text);
        assert_eq!(topic.to_nats_subject(), nats);
        assert_eq!(Topic::from_nats_subject(&nats), Ok(topic));
    }
    for InvalidTopic { topic, why } in topics.invalid {
        let topic = topic.string();
        let actual = match topic.parse::<Topic>() {
            Ok(topic) => panic!("{topic} is a topic"),
            Err(TopicError::Empty) => "empty",
            Err(TopicError::TooLong(_)) => "too_long",
            Err(TopicError::Character(_)) => "character",
            Err(TopicError::EmptySegment) => "empty_segment",
            Err(TopicError::DotSegment) => "dot_segment",
            Err(TopicError::EncodedSlash) => "encoded_slash",
        };
        assert_eq!(actual, why, "{topic:?}");
    }
    for TopicPath { path, topic, is_written } in topics.paths {
        let found = Topic::from_path(&path).expect("a topic");
        assert_eq!(found.as_str(), topic, "{path}");
        if is_written {
            assert_eq!(found.to_path(), path);
        }
    }
    for path in topics.no_paths {
        assert!(Topic::from_path(&path).is_err(), "{path:?}");
    }
    let named = |query: &str| {
        let (name, value) = form_urlencoded::parse(query.as_bytes()).next().expect("a parameter");
        assert_eq!(name, "topic", "{query}");
        value.parse::<Topic>()
    };
    for TopicQuery { query, topic } in topics.queries {
        assert_eq!(named(&query).expect("a topic").as_str(), topic, "{query}");
    }
    for query in topics.no_queries {
        assert!(named(&query).is_err(), "{query:?}");
    }
    for NatsSubject { nats } in topics.no_nats_image {
        assert!(Topic::from_nats_subject(&nats).is_err(), "{nats:?}");
    }
    for Matching { pattern, matches, others } in topics.patterns {
        let parsed: Pattern = pattern.parse().expect("a pattern");
        assert_eq!(parsed.as_str(), pattern);
        let all = matches.iter().map(|topic| (topic, true));
        for (topic, expected) in all.chain(others.iter().map(|topic| (topic, false))) {
            let topic = topic.parse().expect("a topic");
            assert_eq!(parsed.matches(&topic), expected, "{pattern} and {topic}");
        }
    }
    for pattern in topics.no_patterns {
        assert!(pattern.parse::<Pattern>().is_err(), "{pattern:?}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Positions {
    valid: Vec<ValidPosition>,
    invalid: Vec<InvalidPosition>,
    cursors: Vec<Cursor>,
    no_cursors: Vec<NoCursor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ValidPosition {
    position: String,
    epoch: String,
    offset: Offset,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvalidPosition {
    position: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    cursor: String,
    start: Start,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Start {
    Latest,
    Earliest,
    Newest(u32),
    Since(u64),
    After(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoCursor {
    cursor: String,
}

#[test]
fn positions() {
    let positions: Positions = read(include_str!("../../../../vectors/positions.json"));
    for ValidPosition { position, epoch, offset } in positions.valid {
        let epoch: Epoch = epoch.parse().expect("an epoch");
        assert_eq!(position.parse(), Ok(Position { epoch, offset }));
        assert_eq!(Position { epoch, offset }.to_string(), position);
    }
    for InvalidPosition { position } in positions.invalid {
        assert!(position.parse::<Position>().is_err(), "{position:?}");
    }
    for Cursor { cursor, start } in positions.cursors {
        let start = match start {
            Start::Latest => StartAt::Latest,
            Start::Earliest => StartAt::Earliest,
            Start::Newest(count) => StartAt::Newest(count),
            Start::Since(unix_ms) => StartAt::Since(unix_ms),
            Start::After(position) => StartAt::After(position.parse().expect("a position")),
        };
        assert_eq!(cursor.parse(), Ok(start));
    }
    for NoCursor { cursor } in positions.no_cursors {
        assert!(cursor.parse::<StartAt>().is_err(), "{cursor:?}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Events {
    accepted: Vec<AcceptedJson>,
    rejected: Vec<RejectedJson>,
    text: Vec<AcceptedText>,
    text_rejected: Vec<RejectedText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedJson {
    json: Text,
    event: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectedJson {
    json: Text,
    code: ErrorCode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedText {
    text: Text,
    event: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RejectedText {
    text: Text,
    code: ErrorCode,
}

type Push = fn(&[u8], usize, &mut Vec<u8>) -> Result<(), EventError>;

fn check_event(push: Push, published: &Text, expected: Result<&Text, ErrorCode>) {
    let mut out = b"before ".to_vec();
    let pushed = push(&published.bytes(), EVENT_BYTES, &mut out);
    let event = out.strip_prefix(b"before ").expect("what was there");
    let actual = match pushed {
        Ok(()) => Ok(event.to_vec()),
        Err(error) => Err(error.code()),
    };
    assert!(actual == expected.map(Text::bytes), "{published:?}: {}", event.escape_ascii());
    assert!(actual.is_ok() || event.is_empty(), "{published:?} leaves a trace");
}

#[test]
fn events() {
    let events: Events = read(include_str!("../../../../vectors/events.json"));
    for AcceptedJson { json, event } in events.accepted {
        check_event(push_json, &json, Ok(&event));
    }
    for RejectedJson { json, code } in events.rejected {
        check_event(push_json, &json, Err(code));
    }
    for AcceptedText { text, event } in events.text {
        check_event(push_text, &text, Ok(&event));
    }
    for RejectedText { text, code } in events.text_rejected {
        check_event(push_text, &text, Err(code));
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Errors {
    errors: Vec<Error>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Error {
    code: ErrorCode,
    status: u16,
}

#[test]
fn errors() {
    let Errors { errors } = read(include_str!("../../../../vectors/errors.json"));
    let codes: Vec<_> = errors.iter().map(|error| error.code).collect();
    assert_eq!(codes, ErrorCode::ALL, "every code, in the order of docs/reference/errors.md");
    for (index, Error { code, status }) in errors.into_iter().enumerate() {
        assert_eq!(code as usize, index);
        assert_eq!(code.status(), status);
    }
}
