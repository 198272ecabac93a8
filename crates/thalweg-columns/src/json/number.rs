//! Reads numbers of any kind, or of the kind that a column expects.

use super::{Reader, Value};
use crate::{
    decimal::{DIGITS_MAX, EXACT_MAX, nearest},
    words,
};

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn number(&mut self) -> Value<'a> {
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

    /// Reads the next integer if it is short and without exponent, in quotes or not. Otherwise reads nothing,
    /// and [`Self::value`] must read the value.
    #[inline]
    pub(crate) fn int(&mut self, may_have_quotes: bool) -> Option<i64> {
        let number = self.short_decimal(may_have_quotes).filter(|number| !number.has_point)?;
        let int = number.int()?;
        self.at = number.end;
        Some(int)
    }

    /// Reads the next double in the same way. An integer must be exact in a double.
    #[inline]
    pub(crate) fn double(&mut self, may_have_quotes: bool) -> Option<f64> {
        let number = self.short_decimal(may_have_quotes)?;
        if number.fraction == 0 && number.digits > EXACT_MAX {
            return None;
        }
        self.at = number.end;
        Some(number.double())
    }

    /// Returns a number without exponent that does not overflow.
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

    /// Returns the number at `start` up to its exponent.
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

    /// Returns the digits at `at`, which a point may follow, and where they end.
    #[inline]
    fn whole(&self, at: usize) -> (u64, usize) {
        let word = words::load(self.bytes, at);
        let (digits, count) = words::digits(word);
        // The doubles of a column mostly have the same number of digits here, so the branch is predicted, and the code
        // after it need not wait for the count.
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

#[derive(Debug, Clone, Copy)]
struct Decimal {
    is_negative: bool,
    /// The digits without the point. They overflow if there are more than [`DIGITS_MAX`].
    digits: u64,
    count: usize,
    /// Number of digits after the point.
    fraction: usize,
    has_point: bool,
    end: usize,
}

impl Decimal {
    /// Returns the integer, without its fraction. JSON's -0 is no integer.
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
    match text.parse() {
        Ok(number) if f64::is_finite(number) => Value::Double(number),
        _ => Value::Huge,
    }
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
        assert_eq!(value("1.7976931348623157e308"), Value::Double(f64::MAX));
        assert_eq!(value("-1e400"), Value::Huge);
        assert_eq!(value(&format!("{}.5", "9".repeat(400))), Value::Huge);
        assert_eq!(value("16.64609333871044"), Value::Double(16.646_093_338_710_44));
        assert!(matches!(value("-0"), Value::Double(zero) if zero.is_sign_negative()));
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
        fn the_fast_path_of_numbers_agrees_with_the_general_one(
            text in "-?[0-9]{1,21}(\\.[0-9]{0,21})?([eE]-?[0-9])?[,\\]}\"]?",
        ) {
            let (mut int, mut double, mut any) =
                (Reader::new(text.as_bytes()), Reader::new(text.as_bytes()), Reader::new(text.as_bytes()));
            let (int_value, double_value, value) = (int.int(false), double.double(false), any.value());
            match int_value {
                Some(number) => prop_assert_eq!((Value::Int(number), int.at()), (value, any.at())),
                None => prop_assert_eq!(int.at(), 0),
            }
            match (double_value, value) {
                (Some(number), Value::Int(int)) => {
                    prop_assert_eq!((number, double.at()), (int as f64, any.at()));
                    prop_assert!(int.unsigned_abs() <= EXACT_MAX);
                }
                (Some(number), value) => {
                    prop_assert_eq!((Value::Double(number), double.at()), (value, any.at()));
                }
                (None, _) => prop_assert_eq!(double.at(), 0),
            }
        }

        #[test]
        fn short_numbers_are_found_at_once(int in -999_999_999_999_999_999..=999_999_999_999_999_999_i64, decimals in "[0-9]{1,18}") {
            for (before, after) in [("", ","), ("", "]"), ("\"", "\"")] {
                let text = format!("{before}{int}{after}");
                prop_assert_eq!(Reader::new(text.as_bytes()).int(true), Some(int).filter(|_| int != 0 || !text.contains('-')));
                let number = format!("{}.{decimals}", int % 10);
                let text = format!("{before}{number}{after}");
                prop_assert_eq!(Reader::new(text.as_bytes()).double(true), number.parse().ok());
                prop_assert_eq!(Reader::new(text.as_bytes()).int(true), None);
            }
        }

        #[test]
        fn numbers_in_quotes_are_those_of_the_standard_library(
            text in "[-+]?[0-9]{0,20}\\.?[0-9]{0,20}(e[0-9])?|[ !#-~]{0,4}", end in "\"?",
        ) {
            let json = format!("\"{text}{end}");
            let mut reader = Reader::new(json.as_bytes());
            if let Some(number) = reader.int(true) {
                prop_assert_eq!((text.parse(), reader.at()), (Ok(number), json.len()));
            }
            let mut reader = Reader::new(json.as_bytes());
            if let Some(number) = reader.double(true) {
                prop_assert_eq!((text.parse(), reader.at()), (Ok(number), json.len()));
            }
        }
    }
}
