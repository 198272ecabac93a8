//! Time of an event, by its text: seconds, ms, µs or ns since 1970, told apart by their magnitude, or RFC 3339.

use crate::measure::TimestampUnit;
use crate::swarm::event::number;
use crate::swarm::json_value::Scalar;

const UNITS: [(TimestampUnit, u64); 4] = [
    (TimestampUnit::Seconds, 1_000_000_000),
    (TimestampUnit::Milliseconds, 1_000_000),
    (TimestampUnit::Microseconds, 1000),
    (TimestampUnit::Nanoseconds, 1),
];

/// Times between the years 2001 and 2286, in ns. In seconds these have ten digits, so no number is a time in two units.
const NS: std::ops::Range<u64> = 1_000_000_000_000_000_000..10_000_000_000_000_000_000;

/// Nanoseconds since 1970; `None` if the value is no time.
pub(super) fn read(value: &Scalar) -> Option<(u64, TimestampUnit)> {
    match value {
        Scalar::Whole(number) => in_unit(|ns| number.checked_mul(ns)),
        Scalar::Float(number) => float(*number),
        Scalar::Text(text) if text.as_bytes().get(4) == Some(&b'-') => {
            rfc3339(text.as_bytes()).map(|ns| (ns, TimestampUnit::Rfc3339))
        }
        // Some servers write long numbers as strings, because JavaScript loses digits.
        Scalar::Text(text) => match text.parse() {
            Ok(number) => read(&Scalar::Whole(number)),
            Err(_) => float(text.parse().ok()?),
        },
    }
}

/// Reads a number with a fraction, as precise as in JavaScript, or an exponent: `1.7e12`.
fn float(number: f64) -> Option<(u64, TimestampUnit)> {
    in_unit(|ns| Some((number * ns as f64) as u64))
}

/// Returns the number in ns and the only unit in which it is a time.
#[inline]
fn in_unit(to_ns: impl Fn(u64) -> Option<u64>) -> Option<(u64, TimestampUnit)> {
    UNITS.iter().find_map(|&(unit, ns)| Some((to_ns(ns).filter(|ns| NS.contains(ns))?, unit)))
}

/// Returns a decimal fraction's first nine digits.
fn billionths(fraction: &[u8]) -> u64 {
    let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(9);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// Parses `2026-11-21T12:00:00.123+01:00`, also with a space for the `T`, which is common.
fn rfc3339(text: &[u8]) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.split_at_checked(9)?;
    let [y @ .., b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let [b'T' | b't' | b' ', h1, h2, b':', i1, i2, b':', s1, s2] = time else { return None };
    let year = number(y)?;
    let month = two(*m1, *m2).filter(|month| (1..=12).contains(month))?;
    let day = two(*d1, *d2).filter(|day| (1..=31).contains(day))?;
    let hour = two(*h1, *h2).filter(|hour| *hour < 24)?;
    let minute = two(*i1, *i2).filter(|minute| *minute < 60)?;
    // A leap second counts as the first of the next minute.
    let second = two(*s1, *s2).filter(|second| *second <= 60)?;
    let (fraction, zone) = match rest {
        [b'.', rest @ ..] => {
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest.split_at(length)
        }
        _ => (&[][..], rest),
    };
    let offset_minutes = match zone {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let minutes = (two(*h1, *h2)? * 60 + two(*m1, *m2)?) as i64;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let seconds = (days(year as i64, month as i64, day as i64) * 86_400)
        + ((hour * 60 + minute) as i64 - offset_minutes) * 60
        + second as i64;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(billionths(fraction))
}

fn two(tens: u8, ones: u8) -> Option<u64> {
    let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
    is_number.then(|| u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
}

/// Returns the days since 1970 in the Gregorian calendar. If a year begins in March, its leap day is at the end, and
/// every five months have 153 days.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the time of a JSON text.
    fn at(json: &str) -> Option<(u64, TimestampUnit)> {
        read(&crate::swarm::json_value::find(json.as_bytes(), &[])?)
    }

    #[test]
    fn a_time_is_known_by_its_magnitude() {
        let check = |text: &str, ns: u64, unit| {
            let (found_ns, found_unit) = at(text).expect(text);
            // A number with a fraction is a double.
            assert!(found_ns.abs_diff(ns) <= 256, "{text}: {found_ns}");
            assert_eq!(found_unit, unit, "{text}");
        };
        const NS: u64 = 1_795_262_400_123_456_789;
        check("1795262400123456789", NS, TimestampUnit::Nanoseconds);
        check("\"1795262400123456789\"", NS, TimestampUnit::Nanoseconds);
        check("1795262400123456", NS - 789, TimestampUnit::Microseconds);
        check("1795262400123456.789", NS, TimestampUnit::Microseconds);
        check("1795262400123", NS - 456_789, TimestampUnit::Milliseconds);
        check("1795262400123.5", NS + 43_211, TimestampUnit::Milliseconds);
        check("1795262400", NS - 123_456_789, TimestampUnit::Seconds);
        check("1795262400.123456789123", NS, TimestampUnit::Seconds);
        check("1.7952624e9", NS - 123_456_789, TimestampUnit::Seconds);
        check("1.7952624E12", NS - 123_456_789, TimestampUnit::Milliseconds);
        check("\"2026-11-21T12:00:00.123456789Z\"", NS, TimestampUnit::Rfc3339);
        check("\"2026-11-21 13:30:00.123+01:30\"", NS - 456_789, TimestampUnit::Rfc3339);
        check("\"2026-11-21t11:59:60-00:00\"", NS - 123_456_789, TimestampUnit::Rfc3339);
        check("\"2004-02-29T00:00:00Z\"", 1_078_012_800_000_000_000, TimestampUnit::Rfc3339);
        check("\"2100-03-01T00:00:00Z\"", 4_107_542_400_000_000_000, TimestampUnit::Rfc3339);
    }

    #[test]
    fn malformed_times_are_none() {
        for text in [
            "",
            "\"",
            "\"\"",
            "null",
            "-1795262400",
            "0",
            "17",
            "98273",
            "179526240012",
            "12345678901234567890123",
            "\"1795262400x\"",
            "{}",
            "\"2026-11-21\"",
            "\"2026-13-21T12:00:00Z\"",
            "\"2026-11-21T12:00:00\"",
            "\"2026-11-21T24:00:00Z\"",
            "\"2026-11-21T12:00:00.5\"",
            "\"yesterday\"",
            "\"1969-12-31T23:59:59Z\"",
            "NaN",
            "1e999",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_unit_comes_back(ns in NS) {
            for (unit, in_ns) in UNITS {
                let text = (ns / in_ns).to_string();
                prop_assert_eq!(at(&text), Some((ns / in_ns * in_ns, unit)));
            }
        }

        #[test]
        fn any_bytes_are_an_answer(bytes in "[\"0-9TZ:.eE+-]{0,32}") {
            let _ = read(&Scalar::Text(bytes));
        }
    }
}
