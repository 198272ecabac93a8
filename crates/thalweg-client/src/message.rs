//! Parsed messages to a subscriber.

use std::ops::Range;

use thalweg_wire::{
    Offset, Position,
    incoming::{GapFields, Incoming, Kind},
};

use crate::ending::Ending;

/// A message. Spans are the places of events in its text.
#[derive(Debug)]
pub(crate) enum Message {
    Events {
        topic: String,
        position: Position,
        /// Offset of the event before the first, if the offsets are not consecutive.
        after: Option<Offset>,
        spans: Vec<(Offset, Range<usize>)>,
        keyed: Option<Keyed>,
    },
    /// A version of a value topic: a document, at its place in the text, or a patch of the version before.
    Version {
        topic: String,
        position: Position,
        previous: Offset,
        content: Content,
    },
    Gap {
        topic: String,
        position: Position,
        gap: GapFields,
    },
    TopicEnd {
        topic: String,
        position: Position,
        code: String,
        reason: String,
    },
    Heartbeat,
    Close(Ending),
    /// A refused command: the error object.
    Refused(String),
    /// A command's answer, or a message that this version does not know.
    Other,
}

/// The members of an envelope that only keyed topics have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyed {
    /// The key of each event.
    pub(crate) keys: Vec<String>,
    pub(crate) until: Option<Offset>,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// None: the message confirms the subscription.
    Nothing,
    Document(Range<usize>),
    Patch(String),
}

impl Message {
    /// Parses a message, or returns the problem as one clause.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let incoming =
            Incoming::parse(text).map_err(|error| format!("invalid message: {error}"))?;
        let about = || {
            let topic = incoming.topic.as_deref().ok_or("a message without a topic")?;
            let position = incoming.position.as_deref().unwrap_or_default();
            let position: Position =
                position.parse().map_err(|_| "a message has an invalid position")?;
            Ok::<_, String>((topic.to_owned(), position))
        };
        Ok(match incoming.kind() {
            Kind::Events(events) if incoming.previous.is_some() => {
                let (topic, position) = about()?;
                let previous = incoming.previous.unwrap_or(0);
                if events.is_empty() {
                    let content = Content::Nothing;
                    return Ok(Self::Version { topic, position, previous, content });
                }
                let [(offset, document)] = &*events else {
                    return Err("an envelope has several versions".to_owned());
                };
                if *offset != position.offset {
                    return Err("a version's offset is not its envelope's position".to_owned());
                }
                let content = Content::Document(span(text, document));
                Self::Version { topic, position, previous, content }
            }
            Kind::Patch(_, patch) => {
                let (topic, position) = about()?;
                let previous = incoming.previous.ok_or("a patch has no previous version")?;
                let content = Content::Patch(patch.to_owned());
                Self::Version { topic, position, previous, content }
            }
            Kind::Events(events) => {
                let (topic, position) = about()?;
                let spans = events.iter().map(|(offset, event)| (*offset, span(text, event)));
                let spans: Vec<_> = spans.collect();
                let keyed = incoming.keys.as_ref().map(|keys| Keyed {
                    keys: keys.iter().map(|key| key.to_string()).collect(),
                    until: incoming.until,
                });
                if keyed.as_ref().is_some_and(|keyed| keyed.keys.len() != spans.len()) {
                    return Err("an envelope does not have one key for each event".to_owned());
                }
                check_offsets(incoming.after, &spans, position, keyed.is_some())?;
                Self::Events { topic, position, after: incoming.after, spans, keyed }
            }
            Kind::Gap(gap) => {
                let (topic, position) = about()?;
                Self::Gap { topic, position, gap }
            }
            Kind::End(end) => {
                let (topic, position) = about()?;
                let (code, reason) = (end.code.to_string(), end.reason.to_string());
                Self::TopicEnd { topic, position, code, reason }
            }
            Kind::Heartbeat => Self::Heartbeat,
            Kind::Close(close) => Self::Close(Ending::Close {
                code: close.code,
                reason: close.reason.to_string(),
                reconnect: Some(close.reconnect),
            }),
            Kind::Error(error) => Self::Refused(error.to_owned()),
            Kind::Answer(_) | Kind::Unknown => Self::Other,
        })
    }
}

/// Returns the place of `part`, a slice of `text`.
fn span(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

/// Checks that offsets rise, from `after` up to the position. A page of a keyed topic may end after its
/// last event.
fn check_offsets(
    after: Option<Offset>,
    spans: &[(Offset, Range<usize>)],
    position: Position,
    is_keyed: bool,
) -> Result<(), String> {
    let offsets = || after.into_iter().chain(spans.iter().map(|(offset, _)| *offset));
    let rises = offsets().zip(offsets().skip(1)).all(|(before, after)| before < after);
    let ends = spans.last().is_none_or(|(last, _)| match is_keyed {
        true => *last <= position.offset,
        false => *last == position.offset,
    });
    match rises && ends {
        true => Ok(()),
        false => Err(format!("an envelope's offsets do not rise to its position {position}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_in_their_text() {
        let text = r#"{"topic":"cars","position":"9f.8","first":7,"events":[{"id": 7},"x"]}"#;
        let Ok(Message::Events { spans, .. }) = Message::read(text) else { panic!("{text}") };
        let found: Vec<_> = spans.iter().map(|(at, span)| (*at, &text[span.clone()])).collect();
        assert_eq!(found, [(7, r#"{"id": 7}"#), (8, r#""x""#)]);
    }

    #[test]
    fn malformed_messages_are_described_in_a_clause() {
        let check = |text: &str, expected: &str| {
            let said = Message::read(text).expect_err(text);
            assert!(said.contains(expected), "{text}: {said}");
        };
        check("{", "invalid message");
        check("[]", "invalid message");
        check(r#"{"first":7,"events":[1]}"#, "without a topic");
        check(r#"{"topic":"a","position":"1.07","first":7,"events":[1]}"#, "invalid position");
        check(r#"{"topic":"a","position":"1.9","first":7,"events":[1]}"#, "do not rise");
        let sinking = r#"{"topic":"a","position":"1.7","first":7,"offsets":[8,7],"events":[1,2]}"#;
        check(sinking, "do not rise");
        check(r#"{"topic":"a","position":"1.7","first":7,"offsets":[7],"events":[1,2]}"#, "rise");
        check(r#"{"topic":"a","position":"1.7","first":7,"after":7,"events":[1]}"#, "rise");
        let keyed = |position: u64, keys: &str| {
            format!(
                r#"{{"topic":"a","position":"1.{position}","first":7,"keys":[{keys}],"events":[1]}}"#
            )
        };
        check(&keyed(6, r#""k""#), "rise");
        check(&keyed(7, ""), "one key for each event");
        check(&keyed(7, "7"), "invalid message");
    }

    #[test]
    fn a_page_of_a_keyed_topic_may_end_after_its_last_event() {
        let text =
            r#"{"topic":"a","position":"1.9","first":7,"until":9,"keys":["\u006b"],"events":[1]}"#;
        let Ok(Message::Events { keyed, .. }) = Message::read(text) else { panic!("{text}") };
        assert_eq!(keyed, Some(Keyed { keys: vec!["k".to_owned()], until: Some(9) }));
    }

    #[test]
    fn other_messages_are_distinguished() {
        assert!(matches!(Message::read(r#"{"heartbeat":{}}"#), Ok(Message::Heartbeat)));
        assert!(matches!(Message::read(r#"{"answer":{}}"#), Ok(Message::Other)));
        assert!(matches!(Message::read(r#"{"novelty":1}"#), Ok(Message::Other)));
        assert!(matches!(Message::read(r#"{"error":{}}"#), Ok(Message::Refused(_))));
        let close = r#"{"close":{"code":1001,"reason":"draining","reconnect":true}}"#;
        assert!(matches!(Message::read(close), Ok(Message::Close(_))));
    }
}
