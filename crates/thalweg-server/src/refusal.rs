//! Why a request or a command is refused.

use thalweg_wire::{ErrorCode, event::EventError, position::CursorError, topic::TopicError};

/// A refusal as it is told: over HTTP with its status, to a command as an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error's name, and status.
    pub(crate) code: ErrorCode,
    /// One sentence with the remedy.
    pub(crate) message: String,
}

impl Refusal {
    /// A refusal with its sentence.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Nothing is begun any more.
    pub(crate) fn draining() -> Self {
        Self::new(ErrorCode::Draining, "the server is shutting down: try again")
    }

    /// A connection has all the topics that it may have.
    pub(crate) fn too_many_subscriptions(max: usize) -> Self {
        let message = format!("a connection has at most {max} topics: open another");
        Self::new(ErrorCode::TooManyTopics, message)
    }

    /// No more of these at a time.
    pub(crate) fn busy(what: &str) -> Self {
        Self::new(ErrorCode::Busy, format!("too many {what} at a time: try again"))
    }
}

impl From<EventError> for Refusal {
    fn from(error: EventError) -> Self {
        Self::new(error.code(), error.to_string())
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
