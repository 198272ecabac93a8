//! Refusals of requests and commands.

use std::time::Duration;

use serde_json::value::RawValue;
use thalweg_query::QueryError;
use thalweg_wire::{
    ErrorCode, Excerpt, FilterError, KeyError, Position, Topic,
    answer::{self, Published},
    event::EventError,
    limits::MESSAGE_BYTES_MAX,
    position::CursorError,
    topic::TopicError,
};

/// A refusal, which the server sends over HTTP with its status, or to a command as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error's code.
    pub(crate) code: ErrorCode,
    /// One sentence with the remedy.
    pub(crate) message: String,
    /// Boxed, because few refusals have it, but every `Result` reserves room for it.
    about: Option<Box<About>>,
}

/// Further data of a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct About {
    /// The client, for the log: the subject of a signed token, or the name of another token.
    subject: Box<str>,
    token: Box<str>,
    topic: Box<str>,
    /// The time to wait before a retry.
    retry_after: Option<Duration>,
    /// The newest event of the key whose condition is not met, and its position.
    newest: Option<(Position, Box<[u8]>)>,
    /// The first events of the publish, which are stored although the others are not.
    published: Option<Published>,
}

impl Refusal {
    /// Returns a refusal with its sentence.
    ///
    /// The caller shortens a peer's text in the message ([`thalweg_wire::Excerpt`]). This function limits the whole
    /// message, too.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
            message.truncate(end.unwrap_or_default());
            message.push('…');
        }
        Self { code, message, about: None }
    }

    /// Returns the JSON of the refusal of a request, or of the command `id`. `before`: the events that the request published before.
    pub(crate) fn to_json(&self, id: Option<&RawValue>, before: Option<&Published>) -> Vec<u8> {
        let published =
            match (before, self.about.as_ref().and_then(|about| about.published.as_ref())) {
                (Some(before), Some(part)) => {
                    let is_same = before.position.epoch == part.position.epoch;
                    let first = if is_same { before.first } else { part.first };
                    Some(Published { first, count: before.count + part.count, ..part.clone() })
                }
                (before, part) => before.or(part).cloned(),
            };
        match self.newest() {
            Some(newest) => answer::refusal_with_newest(self.code, &self.message, id, newest),
            None => answer::refusal(self.code, &self.message, id, published.as_ref()),
        }
    }

    /// Adds the first events of a publish, which are stored although the others are not.
    pub(crate) fn with_published(mut self, part: Published) -> Self {
        // Not every protocol has another place for it.
        self.message = format!("{}; stored events before it: {}", self.message, part.count);
        self.about.get_or_insert_default().published = Some(part);
        self
    }

    /// Returns the number of stored events that the refusal names.
    pub(crate) fn published_count(&self) -> u64 {
        let part = self.about.as_ref().and_then(|about| about.published.as_ref());
        part.map_or(0, |part| part.count)
    }

    /// Adds the newest event of the key whose condition is not met.
    pub(crate) fn with_newest(mut self, position: Position, event: &[u8]) -> Self {
        self.about.get_or_insert_default().newest = Some((position, event.into()));
        self
    }

    /// Returns the newest event of the key whose condition is not met, and its position, if the event exists.
    fn newest(&self) -> Option<(Position, &[u8])> {
        let (position, event) = self.about.as_ref()?.newest.as_ref()?;
        Some((*position, event))
    }

    /// Adds the time to wait.
    pub(crate) fn after(mut self, wait: Duration) -> Self {
        self.about.get_or_insert_default().retry_after = Some(wait);
        self
    }

    /// Returns the time to wait before a retry, if known.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.about.as_ref()?.retry_after
    }

    /// Adds subject, token and topic.
    pub(crate) fn with_subject(mut self, [subject, token]: [&str; 2], topic: &str) -> Self {
        let about = self.about.get_or_insert_default();
        (about.subject, about.token, about.topic) = (subject.into(), token.into(), topic.into());
        self
    }

    /// Returns subject, token and topic; empty if unknown.
    pub(crate) fn about(&self) -> [&str; 3] {
        self.about.as_ref().map_or([""; 3], |about| [&about.subject, &about.token, &about.topic])
    }

    /// Returns a refusal for a missing or invalid token.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unauthorized, message)
    }

    /// Returns a refusal because the server drains and starts nothing new.
    pub(crate) fn draining() -> Self {
        Self::new(ErrorCode::Draining, "the server is shutting down: try again")
    }

    /// Returns a refusal because the server has not read all stored events yet.
    pub(crate) fn catching_up() -> Self {
        let message =
            "the server has not read all stored events yet, or cannot reach their store: try again";
        Self::new(ErrorCode::Unavailable, message)
    }

    /// Returns a refusal for a connection that has reached its limit of topics.
    pub(crate) fn too_many_subscriptions(max: usize) -> Self {
        let message =
            format!("this connection has {max} topics, the maximum: open another connection");
        Self::new(ErrorCode::TooManyTopics, message)
    }

    /// Returns a refusal for a missing topic, which cannot be read or which the subscriber may not create.
    pub(crate) fn no_such_topic(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message =
            format!("topic {topic} does not exist: check its name, or publish to it to create it");
        Self::new(ErrorCode::NoSuchTopic, message)
    }

    /// Returns a refusal for a topic to which the server itself publishes, or which it reads.
    pub(crate) fn in_use(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!(
            "a source or query in the settings of the server uses {topic}: remove it from the settings first"
        );
        Self::new(ErrorCode::InUse, message)
    }

    /// Returns a refusal for a topic to which only its upstream publishes.
    pub(crate) fn fetched(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!(
            "{topic} is fetched from an upstream: change it there, or publish to a topic that no \
             --upstream matches"
        );
        Self::new(ErrorCode::InUse, message)
    }

    /// Returns a refusal for a topic whose events are the rows of a query.
    pub(crate) fn derived(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!(
            "clients cannot publish to {topic}, because it has the rows of a query: publish to the topic that the query reads"
        );
        Self::new(ErrorCode::InUse, message)
    }

    /// Returns a refusal for a topic that lists the members of another topic.
    pub(crate) fn presence(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!(
            "clients cannot publish to {topic} or delete it, because the server lists the members of a topic there: subscribe to that topic to be listed"
        );
        Self::new(ErrorCode::InUse, message)
    }

    /// Returns a refusal for an event that may or may not be stored.
    pub(crate) fn unknown() -> Self {
        let message = "the event may or may not be stored: repeat the request only if it had an Idempotency-Key, \
                       otherwise read the topic first";
        Self::new(ErrorCode::Unknown, message)
    }

    /// Returns a refusal for an idempotency key that was reused with another body.
    pub(crate) fn key_reused() -> Self {
        let message = "an earlier request used this idempotency key with another body: use a new key for each event";
        Self::new(ErrorCode::KeyReused, message)
    }

    /// Returns a refusal because too much of a kind is in progress. `message` says of what kind, and when to try again.
    pub(crate) fn busy(message: &str) -> Self {
        Self::new(ErrorCode::Busy, message)
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        let code = match &error {
            KeyError::BadText | KeyError::Differs { .. } => ErrorCode::BadKey,
            KeyError::Missing(_) => ErrorCode::BadEvent,
        };
        Self::new(code, error.to_string())
    }
}

impl From<FilterError> for Refusal {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::Key(error) => error.into(),
            FilterError::TooMany | FilterError::TooLarge => {
                Self::new(ErrorCode::BadParameter, error.to_string())
            }
        }
    }
}

impl From<EventError> for Refusal {
    fn from(error: EventError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        Self::new(ErrorCode::BadQuery, error.to_string())
    }
}

impl From<TopicError> for Refusal {
    fn from(error: TopicError) -> Self {
        Self::new(ErrorCode::BadTopic, error.to_string())
    }
}

impl From<CursorError> for Refusal {
    fn from(error: CursorError) -> Self {
        Self::new(ErrorCode::BadCursor, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sentence_is_long() {
        let refusal = Refusal::new(ErrorCode::BadCommand, "ü".repeat(100_000));
        assert_eq!(refusal.message, "ü".repeat(512) + "…");
        let fits = "x".repeat(1024);
        assert_eq!(Refusal::new(ErrorCode::BadCommand, &*fits).message, fits);
    }

    #[test]
    fn a_refusal_names_all_events_that_its_request_published() {
        let part = |position: &str, first, count| Published {
            topic: "cars".parse().unwrap(),
            position: position.parse().unwrap(),
            first,
            count,
        };
        let refusal = Refusal::new(ErrorCode::StorageFull, "full");
        let published = |refusal: &Refusal, before: Option<&Published>| {
            let json: serde_json::Value =
                serde_json::from_slice(&refusal.to_json(None, before)).expect("JSON");
            let published = &json["published"];
            format!("{} {} {}", published["position"], published["first"], published["count"])
        };
        assert_eq!(published(&refusal, None), "null null null");
        let before = part("9f.12", 3, 10);
        assert_eq!(published(&refusal, Some(&before)), r#""9f.12" 3 10"#);
        let refusal = refusal.with_published(part("9f.20", 15, 5));
        assert_eq!(published(&refusal, None), r#""9f.20" 15 5"#);
        assert_eq!(published(&refusal, Some(&before)), r#""9f.20" 3 15"#);
        let before = part("7a.12", 3, 10);
        assert_eq!(published(&refusal, Some(&before)), r#""9f.20" 15 15"#, "another epoch");
    }
}
