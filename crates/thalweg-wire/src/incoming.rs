//! Parses messages to subscribers, for clients and tests: the inverse of `envelope`, `notice` and `answer`.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Deref};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{GapReason, Offset};

/// Returns whether a JSON text is an array. The parsers reject arrays, because serde would accept one in
/// place of an object and assign its elements to the fields in order.
fn is_list(json: &str) -> bool {
    json.trim_ascii_start().starts_with('[')
}

/// A string of a message, borrowed unless it has escapes. Some encoders escape characters that need no escape (`\/`, `\u00e9`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Maximum number of events of a message. Each takes up to 64 bytes besides its text, which may be a digit: without a limit
/// a compressed message of 100 KB could take gigabytes.
pub const MESSAGE_EVENTS_MAX: usize = 1 << 20;

/// A message to a subscriber. Besides `topic` and `position` it has one content (events, a patch, a gap, an
/// end, a heartbeat, a close, an answer or an error), which [`Incoming::kind`] returns.
#[derive(Debug, Deserialize)]
pub struct Incoming<'a> {
    /// The topic of an envelope, gap or end.
    #[serde(borrow)]
    pub topic: Option<Text<'a>>,
    /// The position to resume after.
    #[serde(borrow)]
    pub position: Option<Text<'a>>,
    /// Only for value topics: the offset of the version that the subscriber had before; 0 if none.
    pub previous: Option<Offset>,
    /// Only for logs with sparse offsets: the offset of the event that precedes the first event of this
    /// message.
    pub after: Option<Offset>,
    /// Only for keyed topics: the key of each event. The confirmation of a subscription has an empty list.
    #[serde(borrow, default, deserialize_with = "bounded_list")]
    pub keys: Option<Vec<Text<'a>>>,
    /// Only for keyed topics: a subscriber before this offset may lack events of keys.
    pub until: Option<Offset>,
    first: Option<Offset>,
    #[serde(default, deserialize_with = "bounded_list")]
    offsets: Option<Vec<Offset>>,
    #[serde(borrow, default, deserialize_with = "bounded_list")]
    events: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    patch: Option<&'a RawValue>,
    gap: Option<GapFields>,
    #[serde(borrow)]
    end: Option<EndFields<'a>>,
    #[serde(borrow)]
    heartbeat: Option<&'a RawValue>,
    #[serde(borrow)]
    close: Option<CloseFields<'a>>,
    #[serde(borrow)]
    answer: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn bounded_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(BoundedList(PhantomData))
}

struct BoundedList<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MESSAGE_EVENTS_MAX} elements")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            if elements.len() == MESSAGE_EVENTS_MAX {
                return Err(A::Error::invalid_length(MESSAGE_EVENTS_MAX + 1, &self));
            }
            elements.push(element);
        }
        Ok(Some(elements))
    }
}

/// The `gap` object.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct GapFields {
    /// Number of missing events, if known.
    pub missed: Option<Offset>,
    /// The reason for the gap.
    pub reason: GapReason,
}

/// The `end` object.
#[derive(Debug, Clone, Deserialize)]
pub struct EndFields<'a> {
    /// The reason why the topic has ended; [`crate::EndCode`] has the known codes.
    #[serde(borrow)]
    pub code: Text<'a>,
    /// The reason as one short phrase.
    #[serde(borrow)]
    pub reason: Text<'a>,
}

/// The `close` object.
#[derive(Debug, Clone, Deserialize)]
pub struct CloseFields<'a> {
    /// Close code.
    pub code: u16,
    /// One short phrase.
    #[serde(borrow)]
    pub reason: Text<'a>,
    /// Whether the client should reconnect.
    pub reconnect: bool,
}

/// The content of a message.
#[derive(Debug)]
pub enum Kind<'a> {
    /// Events with their offsets; an empty list confirms a subscription.
    Events(Vec<(Offset, &'a str)>),
    /// A JSON Patch (RFC 6902), which turns the version before into the version with this offset.
    Patch(Offset, &'a str),
    /// Missing events.
    Gap(GapFields),
    /// The topic has ended on this connection.
    End(EndFields<'a>),
    /// A heartbeat.
    Heartbeat,
    /// The connection closes.
    Close(CloseFields<'a>),
    /// A command's answer.
    Answer(&'a str),
    /// A command's refusal.
    Error(&'a str),
    /// A message that this version does not know.
    Unknown,
}

impl<'a> Incoming<'a> {
    /// Parses one message.
    ///
    /// # Errors
    /// When `json` is not a JSON object, or a known member has the wrong form.
    pub fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        if is_list(json) {
            return Err(Error::custom("not a message: a list, not an object"));
        }
        serde_json::from_str(json)
    }

    /// Returns the content of the message.
    pub fn kind(&self) -> Kind<'a> {
        if let (Some(first), Some(events)) = (self.first, &self.events) {
            let offset = |index: usize| match &self.offsets {
                Some(offsets) => offsets.get(index).copied().unwrap_or(first),
                // A server may send any offset.
                None => first.saturating_add(index as Offset),
            };
            let numbered = events.iter().enumerate().map(|(i, event)| (offset(i), event.get()));
            return Kind::Events(numbered.collect());
        }
        if let (Some(first), Some(patch)) = (self.first, self.patch) {
            return Kind::Patch(first, patch.get());
        }
        if let Some(gap) = self.gap {
            return Kind::Gap(gap);
        }
        if let Some(end) = &self.end {
            return Kind::End(end.clone());
        }
        if let Some(close) = &self.close {
            return Kind::Close(close.clone());
        }
        match (self.heartbeat, self.answer, self.error) {
            (Some(_), _, _) => Kind::Heartbeat,
            (_, Some(answer), _) => Kind::Answer(answer.get()),
            (_, _, Some(error)) => Kind::Error(error.get()),
            _ => Kind::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_no_message() {
        assert!(Incoming::parse(r#"["a","1.2"]"#).is_err());
        assert!(Incoming::parse(" []").is_err());
        assert!(Incoming::parse("{}").is_ok());
    }

    #[test]
    fn a_message_has_at_most_a_million_events() {
        let message = |events| {
            let events = vec!["0"; events].join(",");
            format!(r#"{{"topic":"a","position":"1.{}","first":1,"events":[{events}]}}"#, 1 << 20)
        };
        assert!(Incoming::parse(&message(MESSAGE_EVENTS_MAX)).is_ok());
        let error = Incoming::parse(&message(MESSAGE_EVENTS_MAX + 1)).unwrap_err().to_string();
        assert!(error.contains("a list of at most 1048576 elements"), "{error}");
    }

    #[test]
    fn strings_may_have_escapes() {
        let json = r#"{"topic":"a\/b","position":"9f\u002e7","end":{"code":"g\u006fne","reason":"\"x\"\n"}}"#;
        let incoming = Incoming::parse(json).unwrap();
        assert_eq!(incoming.topic.as_deref(), Some("a/b"));
        assert_eq!(incoming.position.as_deref(), Some("9f.7"));
        let Kind::End(end) = incoming.kind() else { panic!("{json}") };
        assert_eq!((&*end.code, &*end.reason), ("gone", "\"x\"\n"));
        let json = r#"{"close":{"code":1001,"reason":"a\tb","reconnect":true}}"#;
        let Kind::Close(close) = Incoming::parse(json).unwrap().kind() else { panic!("{json}") };
        assert_eq!(&*close.reason, "a\tb");
        let Kind::Gap(gap) =
            Incoming::parse(r#"{"gap":{"missed":1,"reason":"sl\u006fw"}}"#).unwrap().kind()
        else {
            panic!()
        };
        assert_eq!(gap.reason, GapReason::Slow);
    }

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        let incoming = Incoming::parse(r#"{"topic":"cars","position":"9f.7"}"#).unwrap();
        assert!(matches!(incoming.topic, Some(Text(Cow::Borrowed("cars")))));
    }

    #[test]
    fn an_offset_beyond_all_numbers_does_not_overflow() {
        let json = format!(r#"{{"first":{},"events":[1,2]}}"#, u64::MAX);
        let Kind::Events(events) = Incoming::parse(&json).unwrap().kind() else { panic!("{json}") };
        assert_eq!(events[1].0, u64::MAX);
    }
}
