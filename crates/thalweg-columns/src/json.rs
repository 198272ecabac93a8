//! Reads validated JSON, value by value. The JSON has no whitespace between tokens. Invalid input gives a wrong value,
//! but no panic.

mod number;

use memchr::memchr2;

use crate::{time::Minute, words};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// A number without fraction and exponent that fits 64 bits.
    Int(i64),
    Double(f64),
    /// A number that fits neither: an integer of more than 64 bits, or a number beyond all doubles.
    Huge,
    /// A string without its quotes, and whether it has escapes.
    String(&'a [u8], bool),
    Nested,
}

#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips the next byte if it is `byte`; returns whether it was.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        // A branch is predicted, so the next read need not wait for this byte.
        if is_next {
            self.at += 1;
        }
        is_next
    }

    /// Enters an array or object whose last byte is `end`. Returns whether it has a value.
    #[inline]
    pub(crate) fn opens(&mut self, end: u8) -> bool {
        self.at = self.bytes.len().min(self.at + 1);
        self.peek().is_some() && !self.take(end)
    }

    /// Skips the byte after a value of an array or object. Returns whether another value follows.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> bool {
        let next = self.peek();
        if next.is_some() {
            self.at += 1;
        }
        next == Some(b',')
    }

    #[inline]
    pub(crate) fn take_null(&mut self) -> bool {
        let is_next = self.peek() == Some(b'n');
        if is_next {
            self.word(4, Value::Null);
        }
        is_next
    }

    #[inline]
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.peek() {
            Some(b't') => self.word(4, Some(true)),
            Some(b'f') => self.word(5, Some(false)),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn since(&self, from: usize) -> &'a [u8] {
        &self.bytes[from..self.at]
    }

    #[inline]
    pub(crate) fn value(&mut self) -> Value<'a> {
        match self.peek() {
            Some(b'"') => {
                let (text, has_escapes) = self.string();
                Value::String(text, has_escapes)
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'{' | b'[') => {
                self.skip_nested();
                Value::Nested
            }
            Some(b't') => self.word(4, Value::Bool(true)),
            Some(b'f') => self.word(5, Value::Bool(false)),
            _ => self.word(4, Value::Null),
        }
    }

    /// Reads the next string; returns it without its quotes, and whether it has escapes.
    #[inline]
    pub(crate) fn string(&mut self) -> (&'a [u8], bool) {
        let start = self.bytes.len().min(self.at + 1);
        let (mut at, mut has_escapes) = (start, false);
        while let Some(found) = find_special(self.bytes, at) {
            at = found;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return (&self.bytes[start..at], has_escapes);
            }
            (at, has_escapes) = (at + 2, true);
        }
        self.at = self.bytes.len();
        (&self.bytes[start..], has_escapes)
    }

    /// Skips the next string if it is `text`, without escapes; returns whether it was.
    #[inline]
    pub(crate) fn take_string(&mut self, text: &[u8]) -> bool {
        let (first, last) = (self.at + 1, self.at + 1 + text.len());
        let is_next = self.peek() == Some(b'"')
            && self.bytes.get(last) == Some(&b'"')
            && self.bytes.get(first..last).is_some_and(|next| words::is_same(next, text));
        if is_next {
            self.at = last + 1;
        }
        is_next
    }

    #[inline]
    pub(crate) fn skip(&mut self) {
        match self.peek() {
            Some(b'"') => drop(self.string()),
            Some(b'{' | b'[') => self.skip_nested(),
            _ => {
                let rest = &self.bytes[self.at..];
                let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}');
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
    }

    fn word<T>(&mut self, len: usize, value: T) -> T {
        self.at = self.bytes.len().min(self.at + len);
        value
    }

    fn skip_nested(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Reads the next string if it is an instant of a common length. Otherwise reads nothing, and [`Self::value`] must read the string.
    #[inline]
    pub(crate) fn time(&mut self, minute: &mut Minute) -> Option<i64> {
        // First UTC with milliseconds or without decimals, then with microseconds, as Java and Python write them.
        [24, 20]
            .into_iter()
            .find_map(|len| self.time_of(len, minute))
            .or_else(|| self.other_time(minute))
    }

    #[inline(never)]
    fn other_time(&mut self, minute: &mut Minute) -> Option<i64> {
        [27, 32, 26].into_iter().find_map(|len| self.time_of(len, minute))
    }

    /// Reads the next instant if it has this many bytes.
    #[inline]
    fn time_of(&mut self, len: usize, minute: &mut Minute) -> Option<i64> {
        let ([b'"', text @ .., b'"'], _) = self.bytes.get(self.at..)?.split_at_checked(len + 2)?
        else {
            return None;
        };
        let ms = minute.parse_ms(text)?;
        self.at += len + 2;
        Some(ms)
    }
}

/// Returns the index of the next quote or backslash. Most strings are too short for a search in large blocks.
#[inline]
fn find_special(bytes: &[u8], start: usize) -> Option<usize> {
    const NEAR: usize = 32;
    let mut at = start;
    while at < start + NEAR {
        let found = words::find_special(words::load(bytes, at));
        at += found;
        if found < 8 {
            return Some(at);
        }
    }
    memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(json: &str) -> Value<'_> {
        let mut reader = Reader::new(json.as_bytes());
        let value = reader.value();
        assert_eq!(reader.at(), json.len(), "{json}");
        value
    }

    #[test]
    fn nested_values_are_skipped_as_a_whole() {
        for nested in [r#"{"a":[1,{"b":"]}\""}]}"#, "[]", "[[[]],{}]"] {
            assert_eq!(value(nested), Value::Nested);
        }
        assert_eq!(value(r#""a\"b""#), Value::String(br#"a\"b"#, true));
    }

    proptest! {
        #[test]
        fn strings_end_at_their_quote(
            before in 0..9_usize, plain in "[a-z]{0,70}", escaped in "(\\\\[\\\\\"n])?", more in "[a-z]{0,20}", cut in 0..9_usize,
        ) {
            let text = format!("{plain}{escaped}{more}");
            let json = format!("{}\"{text}\"", ",".repeat(before));
            for behind in ["", ",\"\\", "]]]]]]]]]]"] {
                let json = format!("{json}{behind}");
                let mut reader = Reader { bytes: json.as_bytes(), at: before };
                let mut again = reader.clone();
                prop_assert_eq!(reader.string(), (text.as_bytes(), !escaped.is_empty()));
                let half = &text[..plain.len() / 2];
                prop_assert!(text.is_empty() || !again.take_string(half.as_bytes()));
                if escaped.is_empty() {
                    prop_assert!(again.take_string(text.as_bytes()));
                    prop_assert_eq!(again.at(), reader.at());
                }
            }
            let cut = &json.as_bytes()[..json.len().saturating_sub(cut)];
            Reader { bytes: cut, at: before.min(cut.len()) }.string();
        }

        #[test]
        fn malformed_json_does_not_panic(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            for _ in 0..3 {
                let mut minute = Minute::default();
                let found = (reader.int(true), reader.double(true), reader.time(&mut minute), reader.bool());
                let _ = (found, reader.take_null(), reader.take_string(b"ab"), reader.goes_on());
                reader.value();
            }
        }
    }
}
