//! Why a request or a command is refused.

use std::time::Duration;

use thalweg_query::QueryError;
use thalweg_wire::{
    ErrorCode, Excerpt, Topic, event::EventError, limits::MESSAGE_BYTES_MAX, position::CursorError,
    topic::TopicError,
};

/// A refusal: over HTTP it is sent with its status, to a command as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error's name, and status.
    pub(crate) code: ErrorCode,
    /// One sentence with the remedy.
    pub(crate) message: String,
    /// Boxed, because few refusals have it, and every result has room for one.
    about: Option<Box<About>>,
}

/// What else is known of a refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct About {
    /// Whom it concerns, for the log: the subject of a signed token, or the name of another.
    subject: Box<str>,
    token: Box<str>,
    topic: Box<str>,
    /// How long to wait before it is tried again.
    retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal with its sentence.
    ///
    /// Text of the peer in the message is shortened by the caller ([`thalweg_wire::Excerpt`]).
    /// Here the whole message is limited too.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
            message.truncate(end.unwrap_or_default());
            message.push('…');
        }
        Self { code, message, about: None }
    }

    /// The same, with the time to wait.
    pub(crate) fn after(mut self, wait: Duration) -> Self {
        self.about.get_or_insert_default().retry_after = Some(wait);
        self
    }

    /// How long to wait before it is tried again, if that is known.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.about.as_ref()?.retry_after
    }

    /// The same, of this subject or token, and topic.
    pub(crate) fn of(mut self, [subject, token]: [&str; 2], topic: &str) -> Self {
        let about = self.about.get_or_insert_default();
        (about.subject, about.token, about.topic) = (subject.into(), token.into(), topic.into());
        self
    }

    /// Subject, token and topic; empty if they are not known.
    pub(crate) fn about(&self) -> [&str; 3] {
        self.about.as_ref().map_or([""; 3], |it| [&it.subject, &it.token, &it.topic])
    }

    /// Who it is was not said, or is not believed.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unauthorized, message)
    }

    /// The server is draining and begins nothing new.
    pub(crate) fn draining() -> Self {
        Self::new(ErrorCode::Draining, "the server is shutting down: try again")
    }

    /// The server has not got all that its streams have.
    pub(crate) fn catching_up() -> Self {
        let message = "the server has not caught up with its streams, or cannot reach them";
        Self::new(ErrorCode::Unavailable, message)
    }

    /// A connection has reached its limit of topics.
    pub(crate) fn too_many_subscriptions(max: usize) -> Self {
        let message = format!("a connection has at most {max} topics: open another");
        Self::new(ErrorCode::TooManyTopics, message)
    }

    /// A topic does not exist: it cannot be read, or a subscriber may not create it.
    pub(crate) fn no_such_topic(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!("there is no topic {topic} now: it is made by publishing to it");
        Self::new(ErrorCode::NoSuchTopic, message)
    }

    /// A topic whose events the server itself makes, or reads.
    pub(crate) fn in_use(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!(
            "the server itself makes or reads the events of {topic}: take its source away first"
        );
        Self::new(ErrorCode::InUse, message)
    }

    /// A topic's events come from its upstream alone.
    pub(crate) fn fetched(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message = format!(
            "{topic} is fetched from an upstream: change it there, or publish to a topic that no \
             --upstream means"
        );
        Self::new(ErrorCode::InUse, message)
    }

    /// A topic's events are the rows of a query.
    pub(crate) fn derived(topic: &Topic) -> Self {
        let topic = Excerpt(topic.as_str());
        let message =
            format!("{topic} has the rows of a query: publish to the topic that this reads");
        Self::new(ErrorCode::InUse, message)
    }

    /// Nobody knows whether it was stored.
    pub(crate) fn unknown() -> Self {
        let message = "it may have been stored, nobody knows: read the topic, or publish with an \
                       Idempotency-Key, which may be repeated";
        Self::new(ErrorCode::Unknown, message)
    }

    /// An idempotency key came with another body.
    pub(crate) fn key_reused() -> Self {
        let message = "this idempotency key came with another body: use a new key for each event";
        Self::new(ErrorCode::KeyReused, message)
    }

    /// There are too many of these at a time.
    pub(crate) fn busy(what: &str) -> Self {
        Self::new(ErrorCode::Busy, format!("too many {what} at a time: try again"))
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
}
