//! What a subscriber says on a two-way transport, and what it is answered.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ErrorCode, Offset, Position, Topic};

/// A command as received. Form: `docs/wire.md`, "Commands over WebSocket".
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Append events to a topic.
    Publish {
        /// Comes back with the answer.
        id: Option<Box<RawValue>>,
        /// Where to.
        topic: String,
        /// One event …
        event: Option<Box<RawValue>>,
        /// … or several.
        events: Option<Vec<Box<RawValue>>>,
    },
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

impl Command {
    /// Reads a text message.
    ///
    /// # Errors
    /// One sentence saying what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("not a command: {error}"))
    }
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
