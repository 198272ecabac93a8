//! A client's commands, sent over a WebSocket or as a `POST`. Form: `docs/reference/http.md`, "Commands".

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{
    excerpt::{Excerpt, told},
    limits::ID_BYTES_MAX,
};

/// A command as received, borrowed from its text. Topics, cursors and positions are unchecked.
#[derive(Debug)]
pub enum Command<'a> {
    /// Append events to a topic.
    Publish {
        /// The topic.
        topic: Cow<'a, str>,
        /// The events, in order.
        events: Vec<&'a RawValue>,
        /// The key of the events, in a keyed topic.
        key: Option<Cow<'a, str>>,
        /// The condition of the publish: `new`, `exists` or a position.
        condition: Option<Cow<'a, str>>,
        /// How long the keys stay, such as `30s`.
        ttl: Option<Cow<'a, str>>,
    },
    /// Subscribe this connection to one more topic.
    Subscribe(Subscribe<'a>),
    /// End a subscription of this connection.
    Unsubscribe {
        /// The topic.
        topic: Cow<'a, str>,
    },
    /// Answer with the same value.
    Echo {
        /// Any JSON value.
        data: &'a RawValue,
    },
    /// Replace this connection's token.
    Refresh {
        /// The new token.
        token: Cow<'a, str>,
    },
    /// Acknowledge all events up to a position.
    Ack {
        /// The topic.
        topic: Cow<'a, str>,
        /// The position of the last event that the client has processed.
        position: Cow<'a, str>,
    },
}

/// The parameters of a subscription, named as in the query of a URL.
#[derive(Debug)]
pub struct Subscribe<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// The position to start after, or a word such as `latest`.
    pub cursor: Option<Cow<'a, str>>,
    /// The policy for a subscriber that falls behind the history.
    pub policy: Option<Cow<'a, str>>,
    /// Minimum time between two sends.
    pub interval: Option<Cow<'a, str>>,
    /// Maximum bytes in flight without an ack.
    pub window: Option<Cow<'a, str>>,
    /// The keys that the client gets.
    pub keys: Vec<Cow<'a, str>>,
    /// The prefix of further keys that the client gets.
    pub prefix: Option<Cow<'a, str>>,
}

/// A text, parsed as a command.
#[derive(Debug)]
pub struct ParsedCommand<'a> {
    /// The id, which the answer repeats: at most [`ID_BYTES_MAX`] bytes.
    pub id: Option<&'a RawValue>,
    /// The command, or one sentence with the problem.
    pub command: Result<Command<'a>, String>,
}

/// The shortest text with an id to answer.
const SHORTEST: &str = r#"{"id":1}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandFields<'a> {
    #[serde(borrow)]
    command: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    topic: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    event: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    events: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "present")]
    key: Option<BorrowedText<'a>>,
    #[serde(borrow, default, rename = "if", deserialize_with = "present")]
    condition: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    ttl: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    position: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    policy: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    interval: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    window: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    keys: Option<Vec<BorrowedText<'a>>>,
    #[serde(borrow, default, deserialize_with = "present")]
    prefix: Option<BorrowedText<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    token: Option<BorrowedText<'a>>,
}

/// A string that serde borrows if possible. Without this type, serde always copies a `Cow` inside an `Option`.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// The id alone, for a text whose other members are wrong.
#[derive(Deserialize)]
struct IdOnly<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
}

/// Distinguishes `null`, which is a value, from an absent field.
fn present<'de, D, T>(value: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(value).map(Some)
}

impl<'a> ParsedCommand<'a> {
    /// Parses a text. The id survives an error in the rest of the command.
    pub fn parse(text: &'a str) -> Self {
        // serde reads a list's elements as an object's members in their declared order, and a failed parse costs more
        // than a successful one.
        let is_object = text.trim_ascii_start().starts_with('{');
        if !is_object || text.len() < SHORTEST.len() {
            return Self {
                id: None,
                command: Err("the command is not a JSON object: send {\"command\":…}".into()),
            };
        }
        let (id, command) = match serde_json::from_str::<CommandFields<'a>>(text) {
            Ok(fields) => (fields.id, fields.command()),
            Err(error) => {
                let id = serde_json::from_str::<IdOnly<'a>>(text).ok().and_then(|only| only.id);
                (id, Err(format!("this is not a command ({}): correct it", told(&error))))
            }
        };
        if id.is_some_and(|id| id.get().len() > ID_BYTES_MAX) {
            let message = format!("an id has at most {ID_BYTES_MAX} bytes: use a shorter one");
            return Self { id: None, command: Err(message) };
        }
        Self { id, command }
    }
}

impl<'a> CommandFields<'a> {
    fn command(mut self) -> Result<Command<'a>, String> {
        let name = std::mem::take(&mut self.command);
        let command = match &*name {
            "publish" => Command::Publish {
                topic: self.topic(&name)?,
                events: self.events()?,
                key: text(&mut self.key),
                condition: text(&mut self.condition),
                ttl: text(&mut self.ttl),
            },
            "subscribe" => Command::Subscribe(Subscribe {
                topic: self.topic(&name)?,
                cursor: text(&mut self.cursor),
                policy: text(&mut self.policy),
                interval: text(&mut self.interval),
                window: text(&mut self.window),
                keys: self.keys()?,
                prefix: text(&mut self.prefix),
            }),
            "unsubscribe" => Command::Unsubscribe { topic: self.topic(&name)? },
            "echo" => Command::Echo {
                data: self.data.take().ok_or("echo has no data: add the member data")?,
            },
            "refresh" => Command::Refresh {
                token: text(&mut self.token).ok_or("refresh has no token: add the member token")?,
            },
            "ack" => Command::Ack {
                topic: self.topic(&name)?,
                position: text(&mut self.position)
                    .ok_or("ack has no position: add the member position")?,
            },
            _ => {
                return Err(format!(
                    "unknown command {:?}: use publish, subscribe, unsubscribe, echo, ack or refresh",
                    Excerpt(&name)
                ));
            }
        };
        match self.left() {
            Some(member) => Err(format!("{name} does not take {member:?}: remove this member")),
            None => Ok(command),
        }
    }

    fn topic(&mut self, command: &str) -> Result<Cow<'a, str>, String> {
        text(&mut self.topic).ok_or_else(|| format!("{command} has no topic: add the member topic"))
    }

    fn keys(&mut self) -> Result<Vec<Cow<'a, str>>, String> {
        match self.keys.take() {
            Some(keys) if keys.is_empty() => {
                Err("keys has no key: add one, or remove the member".into())
            }
            keys => Ok(keys.into_iter().flatten().map(|key| key.0).collect()),
        }
    }

    fn events(&mut self) -> Result<Vec<&'a RawValue>, String> {
        match (self.event.take(), self.events.take()) {
            (Some(event), None) => Ok(vec![event]),
            (None, Some(events)) => Ok(events),
            _ => Err("publish takes either event or events: send one of them".into()),
        }
    }

    /// Returns a member that this command does not take.
    fn left(&self) -> Option<&'static str> {
        let members = [
            ("topic", self.topic.is_some()),
            ("event", self.event.is_some()),
            ("events", self.events.is_some()),
            ("key", self.key.is_some()),
            ("if", self.condition.is_some()),
            ("ttl", self.ttl.is_some()),
            ("data", self.data.is_some()),
            ("position", self.position.is_some()),
            ("cursor", self.cursor.is_some()),
            ("policy", self.policy.is_some()),
            ("interval", self.interval.is_some()),
            ("window", self.window.is_some()),
            ("keys", self.keys.is_some()),
            ("prefix", self.prefix.is_some()),
            ("token", self.token.is_some()),
        ];
        members.into_iter().find(|(_, is_left)| *is_left).map(|(member, _)| member)
    }
}

fn text<'a>(member: &mut Option<BorrowedText<'a>>) -> Option<Cow<'a, str>> {
    member.take().map(|text| text.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_object_is_no_command_and_has_no_id() {
        let list = r#"["unsubscribe",7,"a"]"#;
        for text in [list, " \n[[1],2]", "[", "[]", "", "  ", "1", "{}", r#"{"":1}"#] {
            let ParsedCommand { id, command } = ParsedCommand::parse(text);
            assert!(id.is_none(), "{text}");
            assert!(command.is_err_and(|error| error.contains("object")), "{text}");
        }
    }

    #[test]
    fn an_id_that_is_too_long_does_not_come_back() {
        for (digits, rest) in [(256, ""), (257, r#","other":1"#), (257, "")] {
            let id = "1".repeat(digits);
            let text = format!(r#"{{"command":"echo","data":1,"id":{id}{rest}}}"#);
            let ParsedCommand { id: asked, command } = ParsedCommand::parse(&text);
            assert_eq!(asked.map(RawValue::get), (digits == 256).then_some(&*id));
            assert_eq!(command.is_err_and(|error| error.contains("256 bytes")), digits > 256);
        }
    }
}
