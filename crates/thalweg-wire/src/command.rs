//! What a client asks for, over a WebSocket or as a `POST`. Form: `docs/wire.md`,
//! "Commands".

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{
    excerpt::{Excerpt, told},
    limits::ID_BYTES_MAX,
};

/// A command as received, borrowed from its text. Texts are not checked yet.
#[derive(Debug)]
pub enum Command<'a> {
    /// Append events to a topic.
    Publish {
        /// Where to.
        topic: Cow<'a, str>,
        /// In order.
        events: Vec<&'a RawValue>,
    },
    /// Subscribe this connection to one more topic.
    Subscribe(Subscribe<'a>),
    /// End a subscription of this connection.
    Unsubscribe {
        /// Which.
        topic: Cow<'a, str>,
    },
    /// Say the same back.
    Echo {
        /// Any value.
        data: &'a RawValue,
    },
    /// Another token, in place of this connection's.
    Refresh {
        /// It.
        token: Cow<'a, str>,
    },
    /// Everything up to the position has been processed.
    Ack {
        /// Of this topic.
        topic: Cow<'a, str>,
        /// The last event processed.
        position: Cow<'a, str>,
    },
}

/// What a subscription can be told, as the query's parameters of the same names.
#[derive(Debug)]
pub struct Subscribe<'a> {
    /// Which topic.
    pub topic: Cow<'a, str>,
    /// Where to start.
    pub cursor: Option<Cow<'a, str>>,
    /// What to do when it falls behind.
    pub policy: Option<Cow<'a, str>>,
    /// At least this long between two sends.
    pub interval: Option<Cow<'a, str>>,
    /// Bytes under way and not acked.
    pub window: Option<Cow<'a, str>>,
}

/// A text that is a command, or not.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Comes back with the answer: at most [`ID_BYTES_MAX`] bytes.
    pub id: Option<&'a RawValue>,
    /// The command, or one sentence saying what is wrong with it.
    pub command: Result<Command<'a>, String>,
}

/// The shortest text that is answered with an id.
const SHORTEST: &str = r#"{"id":1}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    command: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    topic: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    event: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    events: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    position: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    policy: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    interval: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    window: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    token: Option<Text<'a>>,
}

/// A bare `Cow` inside an `Option` would always be copied.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The only field that is of use when the others are wrong.
#[derive(Deserialize)]
struct IdOnly<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
}

/// `null` is a value like any other: it must not read as an absent field.
fn present<'de, D, T>(value: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(value).map(Some)
}

impl<'a> Asked<'a> {
    /// Reads a text.
    pub fn parse(text: &'a str) -> Self {
        // Not only for the sentence: serde would take a list's elements for the members of an
        // object, in our order, and what fails to parse costs more than what does not.
        let is_object = text.trim_ascii_start().starts_with('{');
        if !is_object || text.len() < SHORTEST.len() {
            return Self { id: None, command: Err("a command is a JSON object".into()) };
        }
        let (id, command) = match serde_json::from_str::<Fields<'a>>(text) {
            Ok(fields) => (fields.id, fields.command()),
            Err(error) => {
                let id = serde_json::from_str::<IdOnly<'a>>(text).ok().and_then(|only| only.id);
                (id, Err(format!("not a command: {}", told(&error))))
            }
        };
        if id.is_some_and(|id| id.get().len() > ID_BYTES_MAX) {
            let message = format!("an id has at most {ID_BYTES_MAX} bytes, because it comes back");
            return Self { id: None, command: Err(message) };
        }
        Self { id, command }
    }
}

impl<'a> Fields<'a> {
    fn command(mut self) -> Result<Command<'a>, String> {
        let name = std::mem::take(&mut self.command);
        let command = match &*name {
            "publish" => Command::Publish { topic: self.topic(&name)?, events: self.events()? },
            "subscribe" => Command::Subscribe(Subscribe {
                topic: self.topic(&name)?,
                cursor: text(&mut self.cursor),
                policy: text(&mut self.policy),
                interval: text(&mut self.interval),
                window: text(&mut self.window),
            }),
            "unsubscribe" => Command::Unsubscribe { topic: self.topic(&name)? },
            "echo" => Command::Echo { data: self.data.take().ok_or("echo needs data")? },
            "refresh" => {
                Command::Refresh { token: text(&mut self.token).ok_or("refresh needs a token")? }
            }
            "ack" => Command::Ack {
                topic: self.topic(&name)?,
                position: text(&mut self.position).ok_or("ack needs a position")?,
            },
            _ => {
                return Err(format!(
                    "unknown command {:?}: there is publish, subscribe, unsubscribe, echo, ack, refresh",
                    Excerpt(&name)
                ));
            }
        };
        match self.left() {
            Some(member) => Err(format!("{name} has no member {member:?}")),
            None => Ok(command),
        }
    }

    fn topic(&mut self, command: &str) -> Result<Cow<'a, str>, String> {
        text(&mut self.topic).ok_or_else(|| format!("{command} needs a topic"))
    }

    fn events(&mut self) -> Result<Vec<&'a RawValue>, String> {
        match (self.event.take(), self.events.take()) {
            (Some(event), None) => Ok(vec![event]),
            (None, Some(events)) => Ok(events),
            _ => Err("publish needs either event or events".into()),
        }
    }

    /// A member that the command has not taken.
    fn left(&self) -> Option<&'static str> {
        let members = [
            ("topic", self.topic.is_some()),
            ("event", self.event.is_some()),
            ("events", self.events.is_some()),
            ("data", self.data.is_some()),
            ("position", self.position.is_some()),
            ("cursor", self.cursor.is_some()),
            ("policy", self.policy.is_some()),
            ("interval", self.interval.is_some()),
            ("window", self.window.is_some()),
            ("token", self.token.is_some()),
        ];
        members.into_iter().find(|(_, is_left)| *is_left).map(|(member, _)| member)
    }
}

fn text<'a>(member: &mut Option<Text<'a>>) -> Option<Cow<'a, str>> {
    member.take().map(|text| text.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_no_command_and_has_no_id() {
        let list = r#"["unsubscribe",7,"a"]"#;
        for text in [list, " \n[[1],2]", "[", "[]", "", "  ", "1", "{}", r#"{"":1}"#] {
            let Asked { id, command } = Asked::parse(text);
            assert!(id.is_none(), "{text}");
            assert!(command.is_err_and(|error| error.contains("object")), "{text}");
        }
    }

    #[test]
    fn an_id_that_is_too_long_does_not_come_back() {
        for (digits, rest) in [(256, ""), (257, r#","other":1"#), (257, "")] {
            let id = "1".repeat(digits);
            let text = format!(r#"{{"command":"echo","data":1,"id":{id}{rest}}}"#);
            let Asked { id: asked, command } = Asked::parse(&text);
            assert_eq!(asked.map(RawValue::get), (digits == 256).then_some(&*id));
            assert_eq!(command.is_err_and(|error| error.contains("256 bytes")), digits > 256);
        }
    }
}
