//! JSON that was checked before, value by value. It is valid and has no whitespace between tokens.
//! What is not as promised gives a wrong value and no panic.

use memchr::memchr2;

use crate::{
    decimal::{DIGITS_MAX, EXACT_MAX, nearest},
    time::Minute,
    words,
};

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
        // A branch, because it is foreseen: what comes next need not wait for this byte.
        if is_next {
            self.at += 1;
        }
        is_next
    }

    /// Enters an array or object, of which `end` is the last byte. Returns whether there is something in it.
    #[inline]
    pub(crate) fn opens(&mut self, end: u8) -> bool {
        self.at = self.bytes.len().min(self.at + 1);
        self.peek().is_some() && !self.take(end)
    }

    /// Takes what comes behind a value of an array or object. Returns whether another one comes.
    #[inline]
    pub(crate) fn goes_on(&mut self) -> bool {
        let next = self.peek();
        if next.is_some() {
            self.at += 1;
        }
        next == Some(b',')
    }

    /// Skips `null` if that is next.
    #[inline]
    pub(crate) fn take_null(&mut self) -> bool {
        let is_next = self.peek() == Some(b'n');
        if is_next {
            self.word(4, Value::Null);
        }
        is_next
    }

    /// Reads `true` or `false` if that is next.
    #[inline]
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.peek() {
            Some(b't') => self.word(4, Some(true)),
            Some(b'f') => self.word(5, Some(false)),
            _ => None,
        }
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

    /// Skips the string that comes next if it is `text`, of which nothing is escaped.
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

    /// The number that comes next.
    #[inline]
    fn number(&mut self) -> Value<'a> {
        let start = self.at;
        let number = self.decimal(start);
        self.at = number.end;
        let has_exponent = matches!(self.peek(), Some(b'e' | b'E'));
        if has_exponent {
            self.skip_exponent();
        }
        let is_integer = number.fraction == 0 && !has_exponent;
        if number.count > DIGITS_MAX || has_exponent {
            return parsed(self.since(start), is_integer);
        }
        match is_integer {
            true => number.int().map_or_else(|| parsed(self.since(start), true), Value::Int),
            false => Value::Double(number.double()),
        }
    }

    /// The integer that comes next, if it is one of at most 18 digits, in quotes or not. Otherwise nothing
    /// is read: [`Self::value`] knows what it is.
    #[inline]
    pub(crate) fn int(&mut self, may_have_quotes: bool) -> Option<i64> {
        let number = self.short_decimal(may_have_quotes).filter(|number| !number.has_point)?;
        let int = number.int()?;
        self.at = number.end;
        Some(int)
    }

    /// The same for a number that is not rounded twice as a double.
    #[inline]
    pub(crate) fn double(&mut self, may_have_quotes: bool) -> Option<f64> {
        let number = self.short_decimal(may_have_quotes)?;
        if number.fraction == 0 && number.digits > EXACT_MAX {
            return None;
        }
        self.at = number.end;
        Some(number.double())
    }

    /// The same for a string that is an instant.
    #[inline]
    pub(crate) fn time(&mut self, minute: &mut Minute) -> Option<i64> {
        // With milliseconds or without decimals.
        [24, 20].into_iter().find_map(|len| {
            let ([b'"', text @ .., b'"'], _) =
                self.bytes.get(self.at..)?.split_at_checked(len + 2)?
            else {
                return None;
            };
            let ms = minute.parse_ms(text)?;
            self.at += len + 2;
            Some(ms)
        })
    }

    /// A number without exponent that does not overflow.
    #[inline(always)]
    fn short_decimal(&self, may_have_quotes: bool) -> Option<Decimal> {
        let has_quotes = may_have_quotes && self.peek() == Some(b'"');
        let number = self.decimal(self.at + usize::from(has_quotes));
        let is_short = (1..=DIGITS_MAX).contains(&number.count);
        let next = self.bytes.get(number.end).copied();
        match has_quotes {
            true if is_short && next == Some(b'"') => {
                Some(Decimal { end: number.end + 1, ..number })
            }
            false if is_short && !matches!(next, Some(b'e' | b'E')) => Some(number),
            _ => None,
        }
    }

    /// What is at `start` up to its exponent.
    #[inline(always)]
    fn decimal(&self, start: usize) -> Decimal {
        let is_negative = self.bytes.get(start) == Some(&b'-');
        let start = start + usize::from(is_negative);
        let (digits, mut end) = self.whole(start);
        let (mut number, mut fraction) = (digits, 0);
        let mut count = end - start;
        let has_point = self.bytes.get(end) == Some(&b'.');
        if has_point {
            let start = end + 1;
            (number, end) = self.digits(start, digits);
            fraction = end - start;
            count += fraction;
        }
        Decimal { is_negative, digits: number, count, fraction, has_point, end }
    }

    /// The digits at `at`, which a point may follow, and where they end.
    #[inline]
    fn whole(&self, at: usize) -> (u64, usize) {
        let word = words::load(self.bytes, at);
        let (digits, count) = words::digits(word);
        // The doubles of a column mostly have one number of digits here. Such a branch is foreseen, and what
        // comes behind the point need not wait for the count.
        let is_point = |place: usize| count == place && (word >> (8 * place)) as u8 == b'.';
        match count {
            _ if is_point(2) => (digits, at + 2),
            _ if is_point(3) => (digits, at + 3),
            8 => self.digits(at + 8, digits),
            _ => (digits, at + count),
        }
    }

    /// Appends the digits at `at` to `number`, which may overflow. Returns where they end.
    #[inline]
    fn digits(&self, mut at: usize, mut number: u64) -> (u64, usize) {
        loop {
            let (more, count) = words::digits(words::load(self.bytes, at));
            number = number.wrapping_mul(TENS[count]).wrapping_add(more);
            at += count;
            if count < 8 {
                return (number, at);
            }
        }
    }

    fn skip_exponent(&mut self) {
        self.at += 1;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'+' | b'-')) {
            self.at += 1;
        }
    }
}

/// A number up to its exponent.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    is_negative: bool,
    /// Without the point. They overflow where there are more than [`DIGITS_MAX`].
    digits: u64,
    count: usize,
    /// How many of them come behind the point.
    fraction: usize,
    has_point: bool,
    /// Where it ends.
    end: usize,
}

impl Decimal {
    /// Without its fraction. JSON's -0 is none.
    #[inline]
    fn int(&self) -> Option<i64> {
        let digits = i64::try_from(self.digits).ok()?;
        let is_zero = digits == 0;
        (!(self.is_negative && is_zero)).then_some(if self.is_negative { -digits } else { digits })
    }

    #[inline]
    fn double(&self) -> f64 {
        let magnitude = nearest(self.digits, self.fraction);
        if self.is_negative { -magnitude } else { magnitude }
    }
}

const TENS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

fn parsed(text: &[u8], is_integer: bool) -> Value<'static> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    if is_integer && text != "-0" {
        return text.parse().map_or(Value::Huge, Value::Int);
    }
    Value::Double(text.parse().unwrap_or(f64::NAN))
}

/// Where the next quote or backslash is. Most strings are shorter than a search in large blocks is worth.
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
