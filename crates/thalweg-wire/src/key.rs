//! The keys of events, and the conditions of their publishers. Form: `docs/reference/http.md`, "Keyed topics".

use std::{borrow::Cow, fmt, str::FromStr};

use serde_json::value::RawValue;

use crate::{Excerpt, Position, event::member, position::CursorError};

/// Maximum bytes of a key.
pub const KEY_BYTES_MAX: usize = 256;

/// The reason why a text is no key, or an event has none: one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key is empty, too long, or has control characters.
    #[error("a key has 1 to {KEY_BYTES_MAX} bytes and no control characters: use another key")]
    BadText,
    /// The event has no member where its key should be, or that member is neither a string nor an integer.
    #[error("the event has no string or integer at {0}: add its key there, or publish with key=")]
    Missing(KeyPointer),
    /// The event has another key than its publisher named.
    #[error(
        "key= is {:?}, but the event has {:?} at {pointer}: send equal keys, or only one",
        Excerpt(.named),
        Excerpt(.found)
    )]
    Differs {
        /// The place of the key in the event.
        pointer: KeyPointer,
        /// The key that the publisher named.
        named: Box<str>,
        /// The key in the event.
        found: Box<str>,
    },
}

/// A JSON Pointer (RFC 6901) to the key in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPointer(Box<str>);

/// The condition of a publish to a keyed topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The key is new.
    New,
    /// The key exists.
    Exists,
    /// The newest event of the key has this position.
    At(Position),
}

/// Checks a key.
///
/// # Errors
/// [`KeyError::BadText`].
pub fn check_key(key: &str) -> Result<(), KeyError> {
    let is_valid = (1..=KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control);
    if is_valid { Ok(()) } else { Err(KeyError::BadText) }
}

/// Appends a key as a JSON string. The key must have no control characters.
pub fn push_key(key: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in key.bytes() {
        if let b'"' | b'\\' = byte {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

impl KeyPointer {
    /// Returns the key in an event of valid JSON: a string's text, or an integer's digits. The event `null` has no key.
    ///
    /// # Errors
    /// When there is no key.
    pub fn key_of(&self, event: &[u8]) -> Result<String, KeyError> {
        let missing = || KeyError::Missing(self.clone());
        let key = self.member(event).and_then(|key| match key {
            [b'"', ..] => serde_json::from_slice(key).ok(),
            [b'-' | b'0'..=b'9', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => {
                std::str::from_utf8(key).ok().map(str::to_owned)
            }
            _ => None,
        });
        let key = key.ok_or_else(missing)?;
        check_key(&key)?;
        Ok(key)
    }

    /// Checks that an event of valid JSON has no other key than `named`. The event may have no key.
    ///
    /// # Errors
    /// [`KeyError::Differs`].
    pub fn check_same(&self, named: &str, event: &[u8]) -> Result<(), KeyError> {
        match self.key_of(event) {
            Ok(found) if found != named => Err(KeyError::Differs {
                pointer: self.clone(),
                named: named.into(),
                found: found.into(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the JSON of the member.
    fn member<'a>(&self, event: &'a [u8]) -> Option<&'a [u8]> {
        let mut at = event;
        for name in self.0.split('/').skip(1) {
            let name = match name.contains('~') {
                true => Cow::Owned(name.replace("~1", "/").replace("~0", "~")),
                false => Cow::Borrowed(name),
            };
            at = match at.trim_ascii_start().first()? {
                b'{' => member(at, &name)?,
                b'[' => {
                    let items: Vec<&RawValue> = serde_json::from_slice(at).ok()?;
                    items.get(name.parse::<usize>().ok()?)?.get().as_bytes()
                }
                _ => return None,
            };
        }
        Some(at)
    }
}

impl FromStr for KeyPointer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_escaped = |part: &str| {
            part.split('~').skip(1).all(|rest| rest.starts_with('0') || rest.starts_with('1'))
        };
        match text.starts_with('/') && is_escaped(text) {
            true => Ok(Self(text.into())),
            false => Err(format!(
                "{:?} is not a JSON Pointer (RFC 6901): write /id for the member id",
                Excerpt(text)
            )),
        }
    }
}

impl fmt::Display for KeyPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Condition {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        match text {
            "new" => Ok(Self::New),
            "exists" => Ok(Self::Exists),
            position => position.parse().map(Self::At),
        }
    }
}

/// Returns a key, given as the JSON string of an envelope, as text.
pub fn key_text(json: &[u8]) -> Cow<'_, str> {
    serde_json::from_slice(json).map_or(Cow::Borrowed(""), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_string_or_an_integer() {
        let pointer: KeyPointer = "/a/b~1c".parse().unwrap();
        let key = |event: &str| pointer.key_of(event.as_bytes()).ok();
        assert_eq!(key(r#"{"a":{"b/c":"x\"y"}}"#).as_deref(), Some("x\"y"));
        assert_eq!(key(r#"{"a":{"b/c":-7}}"#).as_deref(), Some("-7"));
        // JSON has numbers and strings that few programs can represent.
        let large = r#"{"x":1e999,"y":"\ud800","a":{"b/c":18446744073709551616}}"#;
        assert_eq!(key(large).as_deref(), Some("18446744073709551616"));
        for event in ["null", "1", "{}", r#"{"a":{"b/c":1.5}}"#, r#"{"a":{"b/c":true}}"#] {
            assert_eq!(key(event), None, "{event}");
        }
        assert_eq!(pointer.key_of(br#"{"a":{"b/c":""}}"#), Err(KeyError::BadText));
        assert_eq!(pointer.key_of(br#"{"a":{"b/c":"a\nb"}}"#), Err(KeyError::BadText));
    }

    #[test]
    fn a_named_key_equals_the_key_of_the_event() {
        let pointer: KeyPointer = "/id".parse().unwrap();
        for event in [r#"{"id":"7"}"#, r#"{"id":7}"#, "{}", "null", r#"{"id":true}"#] {
            assert_eq!(pointer.check_same("7", event.as_bytes()), Ok(()), "{event}");
        }
        let error = pointer.check_same("7", br#"{"id":"8"}"#).unwrap_err();
        let sentence = r#"key= is "7", but the event has "8" at /id: send equal keys, or only one"#;
        assert_eq!(error.to_string(), sentence);
    }

    #[test]
    fn a_pointer_begins_with_a_slash_and_escapes_are_valid() {
        for bad in ["", "id", "/a~2", "/~"] {
            assert!(bad.parse::<KeyPointer>().is_err(), "{bad}");
        }
    }
}
