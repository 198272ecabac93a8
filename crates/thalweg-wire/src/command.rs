//! What a subscriber says on a two-way transport, and what it is answered.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::{ErrorCode, Offset, Position, Topic};

/// A command as received, borrowed from its text. Form: `docs/wire.md`,
/// "Commands over WebSocket".
#[derive(Debug)]
pub enum Command<'a> {
    /// Append events to a topic.
    Publish {
        /// Where to, not checked yet.
        topic: Cow<'a, str>,
        /// In order.
        events: Vec<&'a RawValue>,
    },
}

/// A text message that is a command, or not.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Comes back with the answer.
    pub id: Option<&'a RawValue>,
    /// The command, or one sentence saying what is wrong with it.
    pub command: Result<Command<'a>, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    command: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    event: Option<&'a RawValue>,
    #[serde(borrow)]
    events: Option<Vec<&'a RawValue>>,
}

/// The only field that is of use when the others are wrong.
#[derive(Deserialize)]
struct IdOnly<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
}

/// `null` is a value like any other: it must not read as an absent field.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

impl<'a> Asked<'a> {
    /// Reads a text message.
    pub fn parse(text: &'a str) -> Self {
        match serde_json::from_str::<Fields<'a>>(text) {
            Ok(fields) => Self { id: fields.id, command: fields.command() },
            Err(error) => {
                let id = serde_json::from_str::<IdOnly<'a>>(text).ok().and_then(|only| only.id);
                Self { id, command: Err(format!("not a command: {error}")) }
            }
        }
    }
}

impl<'a> Fields<'a> {
    fn command(self) -> Result<Command<'a>, String> {
        if self.command != "publish" {
            return Err(format!("unknown command {:?}: there is \"publish\"", self.command));
        }
        let topic = self.topic.ok_or("publish needs a topic")?;
        let events = match (self.event, self.events) {
            (Some(event), None) => vec![event],
            (None, Some(events)) => events,
            _ => return Err("publish needs either event or events".into()),
        };
        Ok(Command::Publish { topic, events })
    }
}

/// What became of a publish: over HTTP the body, over a WebSocket the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Where to.
    pub topic: Topic,
    /// Position of the last event.
    pub position: Position,
    /// Offset of the first event.
    pub first: Offset,
    /// How many events.
    pub count: u64,
}

#[derive(Serialize)]
struct PublishedFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    topic: &'a str,
    position: String,
    first: Offset,
    count: u64,
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
    answer: PublishedFields<'a>,
}

#[derive(Serialize)]
struct Refusal<'a> {
    error: ErrorFields<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<PublishedFields<'a>>,
}

impl Published {
    /// The body of a `POST`'s answer.
    pub fn to_json(&self) -> Vec<u8> {
        json(&self.fields(None))
    }

    /// The answer to a command.
    pub fn to_answer(&self, id: Option<&RawValue>) -> Vec<u8> {
        json(&Answer { answer: self.fields(id) })
    }

    fn fields<'a>(&'a self, id: Option<&'a RawValue>) -> PublishedFields<'a> {
        PublishedFields {
            id,
            topic: self.topic.as_str(),
            position: self.position.to_string(),
            first: self.first,
            count: self.count,
        }
    }
}

/// A refusal as JSON: `id` where it answers a command, `published` where a part
/// of a publish was done before.
pub fn refusal(
    code: ErrorCode,
    message: &str,
    id: Option<&RawValue>,
    published: Option<&Published>,
) -> Vec<u8> {
    let published = published.map(|published| published.fields(None));
    json(&Refusal { error: ErrorFields { id, code, message }, published })
}

/// These structs hold nothing that JSON cannot say, so writing cannot fail.
fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
