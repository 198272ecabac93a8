//! The names of topics.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    str::FromStr,
    sync::Arc,
};

use crate::limits::TOPIC_BYTES_MAX;

/// A checked topic, cheap to clone. Grammar: `docs/reference/topics.md`, "Topic".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// The reason why a text is not a topic: one sentence with the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// The text is empty.
    #[error("the topic is empty: write at least one character")]
    Empty,
    /// The text is longer than [`TOPIC_BYTES_MAX`].
    #[error("a topic has at most {TOPIC_BYTES_MAX} bytes, and this one has {0}: shorten it")]
    TooLong(usize),
    /// A `/` is first, last or doubled.
    #[error("a topic's segments must not be empty: remove the leading, trailing or doubled \"/\"")]
    EmptySegment,
    /// A segment is `.` or `..`.
    #[error("a topic's segments must not be \".\" or \"..\": remove or rename them")]
    DotSegment,
    /// A character is outside the grammar.
    #[error("a topic must not contain {0:?}: use letters, digits, \"/\" and - _ . ~ @ : | + =")]
    Character(char),
    /// A path has `%2F`: proxies disagree whether it separates segments.
    #[error("a \"/\" in a topic must not be encoded: write / instead of %2F")]
    EncodedSlash,
}

impl Topic {
    /// Returns the topic's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a topic in the path of a URL, percent-decoded once.
    ///
    /// # Errors
    /// When the decoded text is not a topic, or the path encodes a `/`.
    pub fn from_path(path: &str) -> Result<Self, TopicError> {
        if !path.contains('%') {
            return path.parse();
        }
        let mut decoded = Vec::with_capacity(path.len());
        let mut bytes = path.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                decoded.push(byte);
                continue;
            }
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (Some(high), Some(low)) = (digit(), digit()) else {
                return Err(TopicError::Character('%'));
            };
            match (high << 4 | low) as u8 {
                b'/' => return Err(TopicError::EncodedSlash),
                byte => decoded.push(byte),
            }
        }
        String::from_utf8_lossy(&decoded).parse()
    }

    /// Returns the topic as a URL path: `|`, which a path cannot hold, is encoded (RFC 3986 §3.3).
    pub fn to_path(&self) -> Cow<'_, str> {
        match self.0.contains('|') {
            true => self.0.replace('|', "%7C").into(),
            false => (&*self.0).into(),
        }
    }

    /// Returns the topic's NATS subject: `/` and `.` swapped, one-to-one.
    pub fn to_nats_subject(&self) -> String {
        swap_separators(&self.0)
    }

    /// Parses a topic from its NATS subject.
    ///
    /// # Errors
    /// When no topic has this subject.
    pub fn from_nats_subject(subject: &str) -> Result<Self, TopicError> {
        swap_separators(subject).parse()
    }
}

impl FromStr for Topic {
    type Err = TopicError;

    fn from_str(text: &str) -> Result<Self, TopicError> {
        if text.is_empty() {
            return Err(TopicError::Empty);
        }
        if text.len() > TOPIC_BYTES_MAX {
            return Err(TopicError::TooLong(text.len()));
        }
        if let Some(bad) = text.chars().find(|c| !is_topic_character(*c)) {
            return Err(TopicError::Character(bad));
        }
        text.split('/').try_for_each(check_segment)?;
        Ok(Self(text.into()))
    }
}

/// Checks that a segment is valid. The caller has checked its characters.
pub(crate) fn check_segment(segment: &str) -> Result<(), TopicError> {
    match segment {
        "" => Err(TopicError::EmptySegment),
        "." | ".." => Err(TopicError::DotSegment),
        _ => Ok(()),
    }
}

pub(crate) fn is_topic_character(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '-' | '_' | '.' | '~' | '/' | '@' | ':' | '|' | '+' | '=')
}

fn swap_separators(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '/' => '.',
            '.' => '/',
            other => other,
        })
        .collect()
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}
