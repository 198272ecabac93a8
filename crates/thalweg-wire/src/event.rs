//! An incoming event's payload: checked as JSON and minified to one line; numbers and strings keep their text.

use memchr::memchr2;
use serde_json::value::RawValue;

use crate::{ErrorCode, limits::EVENT_DEPTH_MAX};

/// The reason why bytes are not an event: one sentence with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// The payload has more than this many bytes.
    #[error("an event has at most {0} bytes: split it, or publish a link to it")]
    TooLarge(usize),
    /// The payload is not one JSON value.
    #[error("not a JSON value ({0}): for plain text send Content-Type: text/plain")]
    NotJson(String),
    /// The payload nests deeper than [`EVENT_DEPTH_MAX`].
    #[error(
        "the JSON is nested more than {EVENT_DEPTH_MAX} deep: flatten it, or send it as a string"
    )]
    TooDeep,
    /// The text is not UTF-8.
    #[error("not UTF-8: send UTF-8 text, or JSON with the bytes encoded in a string")]
    NotUtf8,
}

impl EventError {
    /// Returns the code of the refusal.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) => ErrorCode::EventTooLarge,
            Self::NotJson(_) | Self::TooDeep | Self::NotUtf8 => ErrorCode::BadEvent,
        }
    }
}

/// Appends the JSON value in `json` to `out` without insignificant whitespace, which makes it one line. Ignores a leading byte
/// order mark (RFC 8259 §8.1), which editors and shells write. `bytes_max` bounds `json` itself. On an error `out` is unchanged.
///
/// # Errors
/// When `json` is too large, nests too deep, or is not exactly one JSON value in UTF-8.
pub fn push_json(json: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EventError> {
    if json.len() > bytes_max {
        return Err(EventError::TooLarge(bytes_max));
    }
    let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
    let value: &RawValue =
        serde_json::from_slice(json).map_err(|error| EventError::NotJson(error.to_string()))?;
    push_minified(value, out)
}

/// Does the same for a value that serde_json has parsed, which needs no second parse.
///
/// # Errors
/// When `value` is too large or nests too deep.
pub fn push_value(value: &RawValue, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EventError> {
    if value.get().len() > bytes_max {
        return Err(EventError::TooLarge(bytes_max));
    }
    push_minified(value, out)
}

#[inline]
fn push_minified(value: &RawValue, out: &mut Vec<u8>) -> Result<(), EventError> {
    let json = value.get().as_bytes();
    if json.len() <= SHALLOW_BYTES && !has_whitespace(json) {
        out.extend_from_slice(json);
        return Ok(());
    }
    let before = out.len();
    minified(json, |part| out.extend_from_slice(part)).inspect_err(|_| out.truncate(before))
}

/// U+FEFF in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Checks that readers can parse `value`.
///
/// # Errors
/// [`EventError::TooDeep`].
pub fn check_depth(value: &RawValue) -> Result<(), EventError> {
    let json = value.get().as_bytes();
    if json.len() <= SHALLOW_BYTES { Ok(()) } else { minified(json, |_| {}) }
}

/// Shorter JSON cannot nest deeper than [`EVENT_DEPTH_MAX`]: each level takes two brackets.
const SHALLOW_BYTES: usize = 2 * EVENT_DEPTH_MAX;

/// Appends `text` to `out` as a JSON string.
///
/// # Errors
/// When `text` is too large or not UTF-8.
pub fn push_text(text: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), EventError> {
    if text.len() > bytes_max {
        return Err(EventError::TooLarge(bytes_max));
    }
    let text = std::str::from_utf8(text).map_err(|_| EventError::NotUtf8)?;
    let before = out.len();
    // Writing a string to a `Vec` cannot fail: an `io::Error` only comes from the writer.
    serde_json::to_writer(&mut *out, text).map_err(|_| EventError::NotUtf8)?;
    // Escapes can make the text larger; the quotes do not count.
    if out.len() - before > bytes_max + 2 {
        out.truncate(before);
        return Err(EventError::TooLarge(bytes_max));
    }
    Ok(())
}

/// Returns whether valid JSON has bytes that are whitespace outside of strings: in strings all control characters are
/// escaped. It looks for the least byte, because the compiler vectorizes neither a loop that stops at the first hit nor one over
/// flags.
fn has_whitespace(json: &[u8]) -> bool {
    json.iter().fold(u8::MAX, |least, byte| least.min(*byte)) <= b' '
}

/// Passes valid `json` without insignificant whitespace to `take`, part by part. Its strings have no control characters.
fn minified(json: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), EventError> {
    let (mut at, mut taken, mut depth) = (0, 0, 0);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => {
                at += string_len(&json[at..]).0;
                continue;
            }
            b'[' | b'{' if depth == EVENT_DEPTH_MAX => return Err(EventError::TooDeep),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b' ' | b'\n' | b'\t' | b'\r' => {
                take(&json[taken..at]);
                taken = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    take(&json[taken..]);
    Ok(())
}

/// Returns the length in bytes, with quotes, of the string at the front of valid JSON, and whether the string has escapes.
#[inline]
pub fn string_len(json: &[u8]) -> (usize, bool) {
    let (mut at, mut has_escapes) = (1, false);
    while let Some(found) = json.get(at..).and_then(end_or_escape) {
        at += found;
        if json[at] == b'"' {
            return (at + 1, has_escapes);
        }
        (at, has_escapes) = (at + 2, true);
    }
    (json.len(), has_escapes)
}

/// Returns the value of the member `name` of valid JSON; of several members with this name the last. Returns `None` if there is
/// none, or if the JSON is not an object. Other members are skipped, not parsed.
pub fn member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    let mut rest = json.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    while rest.first() == Some(&b'"') {
        let (len, has_escapes) = string_len(rest);
        let quoted = &rest[..len];
        let is_named = if has_escapes {
            serde_json::from_slice::<String>(quoted).is_ok_and(|text| text == name)
        } else {
            quoted.get(1..len - 1) == Some(name.as_bytes())
        };
        let value = rest[len..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let (value, after) = value.split_at(value_len(value));
        if is_named {
            found = Some(value);
        }
        let after = after.trim_ascii_start();
        rest = after.strip_prefix(b",").unwrap_or(after).trim_ascii_start();
    }
    found
}

/// Returns the length in bytes of the value at the front of valid JSON.
fn value_len(json: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at += string_len(&json[at..]).0 - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth == 0 => return at,
            b']' | b'}' => depth -= 1,
            b',' | b' ' | b'\n' | b'\t' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Returns the index of the next quote or backslash. Names and most strings are too short for a search in blocks, so it looks at
/// a few words first.
#[inline]
fn end_or_escape(rest: &[u8]) -> Option<usize> {
    let (words, _) = rest[..rest.len().min(NEAR_BYTES)].as_chunks();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let special = with_byte(word, b'"') | with_byte(word, b'\\');
        if special != 0 {
            return Some(index * size_of_val(&word) + special.trailing_zeros() as usize / 8);
        }
    }
    let near = words.as_flattened().len();
    Some(near + memchr2(b'"', b'\\', &rest[near..])?)
}

/// Returns a word whose lowest set bit is in the lowest byte of `word` that equals `byte`, or 0 if none does (Warren, Hacker's
/// Delight, §6-1).
#[inline]
fn with_byte(word: u64, byte: u8) -> u64 {
    let differing = word ^ u64::from_ne_bytes([byte; 8]);
    differing.wrapping_sub(u64::from_ne_bytes([1; 8])) & !differing & u64::from_ne_bytes([0x80; 8])
}

const NEAR_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: &str) {
        let mut out = Vec::new();
        push_json(json.as_bytes(), 1000, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn only_insignificant_whitespace_is_removed() {
        check("1", "1");
        check(" {\"a\" :\r\n\t1.50e+3 } ", "{\"a\":1.50e+3}");
        check(r#"["a b", "\" \\", "\\" , ""]"#, r#"["a b","\" \\","\\",""]"#);
        check("123456789012345678901234567890", "123456789012345678901234567890");
    }

    #[test]
    fn a_member_is_found_by_its_name() {
        let find = |json: &str, name| {
            member(json.as_bytes(), name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let json = r#" { "a\"b" : [1,"]",{"id":5}] ,"id":{"id":6}, "\u0069d" : 7 , "x" : "}" } "#;
        assert_eq!(find(json, "id").as_deref(), Some("7"));
        assert_eq!(find(json, "a\"b").as_deref(), Some(r#"[1,"]",{"id":5}]"#));
        assert_eq!(find(json, "x").as_deref(), Some("\"}\""));
        for other in ["{}", "[]", "null", "7", r#""id""#, r#"{"a":{"id":1}}"#, r#"["id",1]"#] {
            assert_eq!(find(other, "id"), None, "{other}");
        }
        for broken in
            ["", "{", r#"{"id"#, r#"{"id""#, r#"{"id":"#, r#"{"id":["#, r#"{"#, "{\"", "{\"\\"]
        {
            assert!(find(broken, "id").is_none_or(|value| value.len() < broken.len()), "{broken}");
        }
    }

    #[test]
    fn invalid_json_leaves_the_output_unchanged() {
        for bad in ["", "  ", "{", "nul", "1 2", "\"\u{1}\"", "{'a':1}", "[1,]"] {
            let mut out = b"before".to_vec();
            assert!(push_json(bad.as_bytes(), 1000, &mut out).is_err(), "{bad:?}");
            assert_eq!(out, b"before");
        }
        assert!(push_json(b"\"\xff\"", 1000, &mut Vec::new()).is_err());
    }

    #[test]
    fn deep_nesting_is_refused_and_many_brackets_are_not() {
        fn nested(depth: usize) -> String {
            format!("{}\"]}}\"{}", "[".repeat(depth), "]".repeat(depth))
        }
        fn is_accepted(json: &str) -> bool {
            push_json(json.as_bytes(), 10_000_000, &mut Vec::new()).is_ok()
        }
        let objects = |depth| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let wide = format!("[{}[]]", "[1],{\"[[\":{}},".repeat(1000));
        for json in [nested(128), objects(128), wide, format!("\"{}\"", "[".repeat(1000))] {
            assert!(is_accepted(&json), "{json}");
        }
        for json in [nested(129), nested(500_000), objects(129), format!("[{}]", objects(128))] {
            assert!(!is_accepted(&json), "{json:.300}");
        }
    }

    #[test]
    fn text_becomes_a_json_string() {
        let mut out = Vec::new();
        push_text("say \"hi\"\n".as_bytes(), 1000, &mut out).unwrap();
        assert_eq!(out, br#""say \"hi\"\n""#);
        assert!(push_text(b"\xff", 1000, &mut out).is_err());
    }

    #[test]
    fn an_event_that_is_too_large_is_refused_before_parsing() {
        let large = vec![b'1'; 1001];
        assert!(matches!(
            push_json(&large, 1000, &mut Vec::new()),
            Err(EventError::TooLarge(1000))
        ));
        assert!(matches!(
            push_text(&large, 1000, &mut Vec::new()),
            Err(EventError::TooLarge(1000))
        ));
    }
}
