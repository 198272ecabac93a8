//! Patterns that select topics by name.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    Topic,
    limits::TOPIC_BYTES_MAX,
    topic::{TopicError, check_segment, is_topic_character},
};

/// A pattern of topics, cheap to clone. Grammar: `docs/reference/topics.md`, "Pattern".
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern(Arc<str>);

/// The reason why a text is not a pattern: one sentence with the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Apart from its wildcards, the text is not a topic.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// `*` stands beside other characters, or `**` before the end.
    #[error("\"*\" must be a whole segment, and \"**\" the last one: write it as in a/*/b or a/**")]
    Wildcard,
}

/// Matches one segment.
const ANY: &str = "*";
/// Matches all remaining segments, at least one.
const REST: &str = "**";

impl Pattern {
    /// Returns the pattern's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text before the first wildcard, which every matching topic begins with.
    pub fn beginning(&self) -> &str {
        self.0.split('*').next().unwrap_or_default()
    }

    /// Returns the pattern that matches every topic: `**`.
    pub fn all() -> Self {
        Self(REST.into())
    }

    /// Returns whether the pattern matches every topic.
    pub fn is_all(&self) -> bool {
        &*self.0 == REST
    }

    /// Returns whether the pattern matches a topic.
    pub fn matches(&self, topic: &Topic) -> bool {
        if self.is_all() {
            return true;
        }
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

    /// Returns whether some topic matches both patterns.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mut own, mut others) = (self.0.split('/'), other.0.split('/'));
        loop {
            match (own.next(), others.next()) {
                (None, None) => return true,
                (None, _) | (_, None) => return false,
                (Some(REST), Some(_)) | (Some(_), Some(REST)) => return true,
                (Some(ANY), Some(_)) | (Some(_), Some(ANY)) => {}
                (Some(one), Some(other)) if one == other => {}
                _ => return false,
            }
        }
    }
}

impl From<Topic> for Pattern {
    fn from(topic: Topic) -> Self {
        Self(topic.as_str().into())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern() -> impl Strategy<Value = Pattern> {
        let segment = prop::sample::select(vec!["a", "b", "*", "**"]);
        prop::collection::vec(segment, 1..4)
            .prop_filter_map("** comes last", |segments| segments.join("/").parse().ok())
    }

    proptest! {
        #[test]
        fn patterns_overlap_if_a_topic_matches_both(one in pattern(), other in pattern()) {
            // All relevant topics: combinations of these segments, with up to one more segment than a pattern.
            let mut topics = vec![String::new()];
            let mut is_found = false;
            for _ in 0..4 {
                let longer = |topic: &String| {
                    ["a", "b", "c"].map(|segment| match topic.as_str() {
                        "" => segment.to_owned(),
                        topic => format!("{topic}/{segment}"),
                    })
                };
                topics = topics.iter().flat_map(longer).collect();
                is_found |= topics.iter().any(|topic| {
                    let topic = topic.parse().unwrap();
                    one.matches(&topic) && other.matches(&topic)
                });
            }
            prop_assert_eq!(one.overlaps(&other), is_found);
        }
    }
}
