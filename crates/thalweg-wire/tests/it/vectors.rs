//! The golden vectors in `vectors/`, whose README says what each case means.

mod messages;
mod text;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use text::Text;
use thalweg_wire::{
    Epoch, ErrorCode, Offset, Position, StartAt, Topic,
    command::{Asked, Command, Published, refusal},
    event::{EventError, push_json, push_text},
    topic::TopicError,
};

/// A file of vectors; a member that no test knows is an error.
fn read<T: DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("vectors as README says")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Topics {
    valid: Vec<ValidTopic>,
    invalid: Vec<InvalidTopic>,
    no_nats_image: Vec<NatsSubject>,
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
        };
        assert_eq!(actual, why, "{topic:?}");
    }
    for NatsSubject { nats } in topics.no_nats_image {
        assert!(Topic::from_nats_subject(&nats).is_err(), "{nats:?}");
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

type Push = fn(&[u8], &mut Vec<u8>) -> Result<(), EventError>;

fn check_event(push: Push, published: &Text, expected: Result<&Text, ErrorCode>) {
    let mut out = b"before ".to_vec();
    let pushed = push(&published.bytes(), &mut out);
    let event = out.strip_prefix(b"before ").expect("what was there");
    let actual = match pushed {
        Ok(()) => Ok(event.to_vec()),
        Err(EventError::TooLarge) => Err(ErrorCode::EventTooLarge),
        Err(EventError::NotJson(_) | EventError::NotUtf8) => Err(ErrorCode::BadEvent),
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
struct Commands {
    commands: Vec<GoodCommand>,
    no_commands: Vec<BadCommand>,
    answers: Vec<Answer>,
    refusals: Vec<Refusal>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoodCommand {
    text: String,
    id: Option<String>,
    publish: Publish,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Publish {
    topic: String,
    events: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BadCommand {
    text: String,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: Option<String>,
    published: Told,
    body: String,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    code: ErrorCode,
    message: String,
    id: Option<String>,
    published: Option<Told>,
    json: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    topic: String,
    position: String,
    first: Offset,
    count: u64,
}

impl Told {
    fn published(&self) -> Published {
        Published {
            topic: self.topic.parse().expect("a topic"),
            position: self.position.parse().expect("a position"),
            first: self.first,
            count: self.count,
        }
    }
}

fn raw(id: Option<&String>) -> Option<&RawValue> {
    id.map(|id| serde_json::from_str(id).expect("JSON"))
}

#[test]
fn commands() {
    let commands: Commands = read(include_str!("../../../../vectors/commands.json"));
    for GoodCommand { text, id, publish } in &commands.commands {
        let asked = Asked::parse(text);
        assert_eq!(asked.id.map(RawValue::get), id.as_deref());
        let Ok(Command::Publish { topic, events }) = asked.command else {
            panic!("{text}: {asked:?}");
        };
        assert_eq!(topic, publish.topic);
        assert_eq!(events.into_iter().map(RawValue::get).collect::<Vec<_>>(), publish.events);
    }
    for BadCommand { text, id } in &commands.no_commands {
        let asked = Asked::parse(text);
        assert_eq!(asked.id.map(RawValue::get), id.as_deref(), "{text}");
        assert!(asked.command.is_err(), "{text}: {asked:?}");
    }
    let utf8 = |json| String::from_utf8(json).expect("UTF-8");
    for Answer { id, published, body, answer } in &commands.answers {
        let published = published.published();
        assert_eq!(utf8(published.to_json()), *body);
        assert_eq!(utf8(published.to_answer(raw(id.as_ref()))), *answer);
    }
    for Refusal { code, message, id, published, json } in &commands.refusals {
        let published = published.as_ref().map(Told::published);
        let refused = refusal(*code, message, raw(id.as_ref()), published.as_ref());
        assert_eq!(utf8(refused), *json);
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
    assert_eq!(errors.last().map(|error| error.code), Some(ErrorCode::Draining));
    for (index, Error { code, status }) in errors.into_iter().enumerate() {
        assert_eq!(code as usize, index, "every code, in the order of docs/wire.md");
        assert_eq!(code.status(), status);
    }
}
