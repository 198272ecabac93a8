//! Answers to commands and publishes.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    ErrorCode, Offset, Position, Topic,
    position::{write_decimal, write_position},
};

/// The result of a publish: the body of an HTTP answer, or the answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The topic of the events.
    pub topic: Topic,
    /// Position of the last event.
    pub position: Position,
    /// Offset of the first event.
    pub first: Offset,
    /// Number of events.
    pub count: u64,
}

#[derive(Default, Serialize)]
struct AnswerFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in_s: Option<u64>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    code: ErrorCode,
    message: &'a str,
}

#[derive(Serialize)]
struct Answer<'a> {
    answer: AnswerFields<'a>,
}

#[derive(Serialize)]
struct Refusal<'a> {
    error: ErrorFields<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<NewestFields<'a>>,
}

#[derive(Serialize)]
struct NewestFields<'a> {
    position: String,
    event: &'a RawValue,
}

impl Published {
    /// Returns the JSON body of a `POST`'s answer.
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(MEMBERS_BYTES + self.topic.as_str().len());
        json.push(b'{');
        self.write_members(&mut json);
        json.push(b'}');
        json
    }

    /// Returns the JSON answer to the command with this id.
    pub fn to_answer(&self, id: Option<&RawValue>) -> Vec<u8> {
        let id = id.map_or("", RawValue::get);
        let mut json = Vec::with_capacity(MEMBERS_BYTES + self.topic.as_str().len() + id.len());
        json.extend_from_slice(br#"{"answer":{"#);
        if !id.is_empty() {
            json.extend_from_slice(br#""id":"#);
            json.extend_from_slice(id.as_bytes());
            json.push(b',');
        }
        self.write_members(&mut json);
        json.extend_from_slice(b"}}");
        json
    }

    /// Each publish has such an answer, so serde does not write it. No character of a topic or a position needs an escape.
    fn write_members(&self, json: &mut Vec<u8>) {
        json.extend_from_slice(br#""topic":""#);
        json.extend_from_slice(self.topic.as_str().as_bytes());
        json.extend_from_slice(br#"","position":""#);
        write_position(self.position.epoch, self.position.offset, json);
        json.extend_from_slice(br#"","first":"#);
        write_decimal(self.first, json);
        json.extend_from_slice(br#","count":"#);
        write_decimal(self.count, json);
    }
}

/// Space for an answer without its topic and id: names, and numbers of usual length.
const MEMBERS_BYTES: usize = 128;

/// Returns the answer to `subscribe` and `unsubscribe` and, with a position, to `ack`.
pub fn done(id: Option<&RawValue>, topic: &Topic, position: Option<Position>) -> Vec<u8> {
    let position = position.map(|position| position.to_string());
    answer(AnswerFields { id, topic: Some(topic.as_str()), position, ..AnswerFields::default() })
}

/// Returns the answer to `refresh`: the token's remaining lifetime in seconds, if it is limited.
pub fn refreshed(id: Option<&RawValue>, expires_in_s: Option<u64>) -> Vec<u8> {
    answer(AnswerFields { id, expires_in_s, ..AnswerFields::default() })
}

/// Returns the answer to `echo`.
pub fn echo(id: Option<&RawValue>, data: &RawValue) -> Vec<u8> {
    answer(AnswerFields { id, data: Some(data), ..AnswerFields::default() })
}

/// Returns a refusal of the command `id`; `published` is the part of a publish that the server stored before the refusal.
pub fn refusal(
    code: ErrorCode,
    message: &str,
    id: Option<&RawValue>,
    published: Option<&Published>,
) -> Vec<u8> {
    let published = published.map(Published::to_json);
    let published = published.as_deref().and_then(|json| serde_json::from_slice(json).ok());
    json(&Refusal { error: ErrorFields { id, code, message }, published, newest: None })
}

/// Returns a refusal of the command `id`, a publish whose condition is not met: the newest event of its key has another position.
pub fn refusal_with_newest(
    code: ErrorCode,
    message: &str,
    id: Option<&RawValue>,
    (position, event): (Position, &[u8]),
) -> Vec<u8> {
    let event = serde_json::from_slice(event).ok();
    let newest = event.map(|event| NewestFields { position: position.to_string(), event });
    json(&Refusal { error: ErrorFields { id, code, message }, published: None, newest })
}

fn answer(fields: AnswerFields<'_>) -> Vec<u8> {
    json(&Answer { answer: fields })
}

/// Returns an answer as JSON. Serializing these structs cannot fail, because each of their values has a JSON form.
fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
