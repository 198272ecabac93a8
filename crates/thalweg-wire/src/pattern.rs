//! Which topics are meant, by their names.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    Topic,
    limits::TOPIC_BYTES_MAX,
    topic::{TopicError, check_segment, is_topic_character},
};

/// A pattern of topics, cheap to clone. Grammar: `docs/wire.md`, "Pattern".
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Arc<str>);

/// Why a text is not a pattern: one sentence with the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not what a topic may be, wildcards aside.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// `*` beside other characters, or `**` before the end.
    #[error("\"*\" stands for a whole segment, and \"**\" for all that are left, at the end")]
    Wildcard,
}

/// One segment.
const ANY: &str = "*";
/// All segments that are left, at least one.
const REST: &str = "**";

impl Pattern {
    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a topic is meant.
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut segments = topic.as_str().split('/');
        for wanted in self.0.split('/') {
            match (wanted, segments.next()) {
                (REST, Some(_)) => return true,
                (ANY, Some(_)) => {}
                (wanted, Some(segment)) if wanted == segment => {}
                _ => return false,
            }
        }
        segments.next().is_none()
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(TopicError::Empty.into());
        }
        if text.len() > TOPIC_BYTES_MAX {
            return Err(TopicError::TooLong(text.len()).into());
        }
        if let Some(bad) = text.chars().find(|c| !is_topic_character(*c) && *c != '*') {
            return Err(TopicError::Character(bad).into());
        }
        let mut segments = text.split('/').peekable();
        while let Some(segment) = segments.next() {
            match segment {
                ANY => {}
                REST if segments.peek().is_none() => {}
                _ if segment.contains('*') => return Err(PatternError::Wildcard),
                _ => check_segment(segment)?,
            }
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
