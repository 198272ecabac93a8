//! JSON that was checked before, value by value. It is valid and has no whitespace between tokens.
//! What is not as promised gives a wrong value and no panic.

use memchr::memchr2;

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// A number without fraction and exponent that 64 bits hold.
    Int(i64),
    /// Another number.
    Double(f64),
    /// A number that neither of them holds exactly: an integer of more than 64 bits.
    Huge,
    /// A string, without its quotes. `true`: it has escapes.
    String(&'a [u8], bool),
    /// An object or array.
    Nested,
}

/// Reads values one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips the next byte if it is `byte`.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Where the next byte is.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What was read since the byte at `from`.
    #[inline]
    pub(crate) fn since(&self, from: usize) -> &'a [u8] {
        &self.bytes[from..self.at]
    }

    /// The next value.
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

    /// The string that comes next, without its quotes, and whether it has escapes.
    #[inline]
    pub(crate) fn string(&mut self) -> (&'a [u8], bool) {
        let start = self.bytes.len().min(self.at + 1);
        let (mut at, mut has_escapes) = (start, false);
        while let Some(found) = find_special(&self.bytes[at.min(self.bytes.len())..]) {
            at += found;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return (&self.bytes[start..at], has_escapes);
            }
            (at, has_escapes) = (at + 2, true);
        }
        self.at = self.bytes.len();
        (&self.bytes[start..], has_escapes)
    }

    fn word(&mut self, len: usize, value: Value<'a>) -> Value<'a> {
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

    /// The number that comes next.
    #[inline]
    fn number(&mut self) -> Value<'a> {
        let start = self.at;
        let negative = self.take(b'-');
        let (mut digits, mut count) = (0_u64, 0);
        count += self.digits(&mut digits);
        let mut fraction = 0;
        if self.take(b'.') {
            fraction = self.digits(&mut digits);
            count += fraction;
        }
        let has_exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if has_exponent {
            self.skip_exponent();
        }
        let is_integer = fraction == 0 && !has_exponent;
        if count > DIGITS_MAX || has_exponent {
            return parsed(self.since(start), is_integer);
        }
        match (is_integer, i64::try_from(digits)) {
            // JSON's -0 is a double.
            (true, Ok(digits)) if !(negative && digits == 0) => {
                Value::Int(if negative { -digits } else { digits })
            }
            // Both are exact in a double, so their quotient is the nearest (Clinger, "How to read
            // floating point numbers accurately", PLDI 1990).
            _ if digits <= EXACT_MAX && fraction < POWERS.len() => {
                let magnitude = digits as f64 / POWERS[fraction];
                Value::Double(if negative { -magnitude } else { magnitude })
            }
            _ => parsed(self.since(start), is_integer),
        }
    }

    /// Reads digits into `number`, which may overflow. Returns how many there were.
    #[inline]
    fn digits(&mut self, number: &mut u64) -> usize {
        let start = self.at;
        while let Some(digit) = self.peek().map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            *number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        self.at - start
    }

    fn skip_exponent(&mut self) {
        self.at += 1;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'+' | b'-')) {
            self.at += 1;
        }
    }
}

/// So many decimal digits never overflow 64 bits.
const DIGITS_MAX: usize = 19;

/// Integers up to this one are exact in a double.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// Powers of ten that are exact in a double.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

fn parsed(text: &[u8], is_integer: bool) -> Value<'static> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    if is_integer && text != "-0" {
        return text.parse().map_or(Value::Huge, Value::Int);
    }
    Value::Double(text.parse().unwrap_or(f64::NAN))
}

/// Where the next quote or backslash is. Most strings are shorter than a search in blocks is worth.
#[inline]
fn find_special(rest: &[u8]) -> Option<usize> {
    const NEAR: usize = 24;
    let near = &rest[..rest.len().min(NEAR)];
    near.iter()
        .position(|byte| matches!(byte, b'"' | b'\\'))
        .or_else(|| Some(near.len() + memchr2(b'"', b'\\', &rest[near.len()..])?))
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
    fn numbers_keep_what_they_are() {
        assert_eq!(value("-12"), Value::Int(-12));
        assert_eq!(value("9223372036854775807"), Value::Int(i64::MAX));
        assert_eq!(value("-9223372036854775808"), Value::Int(i64::MIN));
        assert_eq!(value("9223372036854775808"), Value::Huge);
        assert_eq!(value("123456789012345678901234567890"), Value::Huge);
        assert_eq!(value("1e3"), Value::Double(1000.0));
        assert_eq!(value("16.64609333871044"), Value::Double(16.646_093_338_710_44));
        assert!(matches!(value("-0"), Value::Double(zero) if zero.is_sign_negative()));
    }

    #[test]
    fn what_is_nested_is_skipped_as_a_whole() {
        for nested in [r#"{"a":[1,{"b":"]}\""}]}"#, "[]", "[[[]],{}]"] {
            assert_eq!(value(nested), Value::Nested);
        }
        assert_eq!(value(r#""a\"b""#), Value::String(br#"a\"b"#, true));
    }

    proptest! {
        #[test]
        fn doubles_are_read_as_by_the_standard_library(number: f64, digits in "-?(0|[1-9][0-9]{0,19})(\\.[0-9]{1,24})?") {
            for text in [serde_json::to_string(&number).unwrap_or_default(), digits] {
                if text.contains('.') {
                    let expected: f64 = text.parse().unwrap();
                    prop_assert_eq!(value(&text), Value::Double(expected));
                }
            }
        }

        #[test]
        fn what_is_no_json_does_not_panic(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            for _ in 0..3 {
                reader.value();
            }
        }
    }
}
