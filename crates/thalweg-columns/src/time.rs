//! Instants: date and time of RFC 3339 §5.6, and numbers of a unit since 1970, as milliseconds.

const MS_PER_DAY: i64 = 86_400_000;
const MS_PER_MINUTE: i64 = 60_000;

/// The first instant of a time column, in ms since 1970: the year 1. Python and others have no earlier year.
const MS_MIN: i64 = -62_135_596_800_000;

/// The last instant: the end of the year 9999, the last year of RFC 3339 and Python.
const MS_MAX: i64 = 253_402_300_799_999;

/// The unit of integers in a time column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds, the default.
    #[default]
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl TimeUnit {
    /// Returns the decimal places between the unit and milliseconds.
    fn places(self) -> i32 {
        match self {
            Self::Seconds => 3,
            Self::Milliseconds => 0,
            Self::Microseconds => -3,
            Self::Nanoseconds => -6,
        }
    }

    /// Returns the instant of an integer of this unit; `None` if it is outside the years 1 to 9999.
    pub(crate) fn ms(self, number: i64) -> Option<i64> {
        let power = 10_i64.pow(self.places().unsigned_abs());
        let ms = match self.places() >= 0 {
            true => number.checked_mul(power)?,
            false => number.div_euclid(power),
        };
        in_range(ms)
    }

    /// Returns the exact instant of a number of this unit, which may have a fraction or an exponent. A double could be off by a ms.
    pub(crate) fn ms_of_text(self, number: &[u8]) -> Option<i64> {
        in_range(floor_scaled(str::from_utf8(number).ok()?, self.places())?)
    }
}

/// Returns `ms` if a time column can hold it.
#[inline]
pub fn in_range(ms: i64) -> Option<i64> {
    (MS_MIN..=MS_MAX).contains(&ms).then_some(ms)
}

/// Returns a decimal number times ten to the power of `places`, rounded down; `None` if it exceeds 64 bits.
fn floor_scaled(text: &str, places: i32) -> Option<i64> {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (is_negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        // "-" and "." are no numbers.
        return (!number.is_empty() && digits.is_empty() && whole.ends_with('0')).then_some(0);
    }
    let exponent: i64 = exponent.parse().ok()?;
    let shift = exponent.checked_add(i64::from(places))?.checked_sub(fraction.len() as i64)?;
    let kept = i64::try_from(digits.len()).ok()?.checked_add(shift.min(0))?;
    let kept = usize::try_from(kept.max(0)).ok()?;
    let magnitude: i64 = if kept == 0 { 0 } else { digits[..kept].parse().ok()? };
    let power = 10_i64.checked_pow(u32::try_from(shift.max(0)).ok()?)?;
    let magnitude = magnitude.checked_mul(power)?;
    let is_cut = digits[kept..].bytes().any(|digit| digit != b'0');
    Some(if is_negative { -magnitude - i64::from(is_cut) } else { magnitude })
}

/// Returns the milliseconds since 1970 of `2022-07-13T21:04:08.419Z` and every `date-time` of RFC 3339 §5.6:
///
/// - Letters may be lower case, and a space may replace the `T`.
/// - A second may have any number of decimals; those after the third are cut off.
/// - Offsets are `+02:00`, or `+0200` and `+02` as Python and PostgreSQL write them. Without an offset the time is UTC.
/// - Seconds may be missing: Java omits them where they are zero.
/// - A leap second, `23:59:60` (UTC) on the last day of a month, is the first second of the next day.
///
/// `None` for any other text, and outside the years 1 to 9999 (UTC).
#[inline]
pub fn parse_ms(text: &[u8]) -> Option<i64> {
    let (minute, rest) = text.split_first_chunk::<16>()?;
    let minute_ms = minute_ms(minute)?;
    match ms_of_minute(rest) {
        Some(ms) => in_range(minute_ms + ms),
        None => after_minute(minute_ms, rest),
    }
}

/// Returns the milliseconds since 1970 of a text with an instant, or with a date, which means its midnight (UTC).
pub fn parse_instant_or_date(text: &[u8]) -> Option<i64> {
    match <&[u8; 10]>::try_from(text) {
        Ok(date) => in_range(date_days(date)? * MS_PER_DAY),
        Err(_) => parse_ms(text),
    }
}

/// Returns the days since 1970 of `2022-07-13`.
#[inline]
fn date_days(text: &[u8; 10]) -> Option<i64> {
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (number(&text[..4])?, number(&text[5..7])?, number(&text[8..])?);
    if month == 0 || month > 12 || day == 0 || day > days_of(year, month) {
        return None;
    }
    Some(days_since_1970(year, month, day))
}

/// Returns the milliseconds of `2022-07-13T21:04` in UTC.
#[inline]
fn minute_ms(text: &[u8; 16]) -> Option<i64> {
    let (date, time) = text.split_first_chunk::<10>()?;
    if !matches!(time[0], b'T' | b't' | b' ') || time[3] != b':' {
        return None;
    }
    let (hour, minute) = (number(&time[1..3])?, number(&time[4..])?);
    if hour > 23 || minute > 59 {
        return None;
    }
    Some(date_days(date)? * MS_PER_DAY + (hour * 60 + minute) * MS_PER_MINUTE)
}

/// The minute of a column's last instant. The next instant is probably in the same minute.
#[derive(Debug)]
pub(crate) struct Minute {
    /// The text, as in `2022-07-13T21:04`, without an offset.
    text: [u8; 16],
    ms: i64,
}

impl Default for Minute {
    fn default() -> Self {
        Self { text: *b"1970-01-01T00:00", ms: 0 }
    }
}

impl Minute {
    #[inline]
    pub(crate) fn parse_ms(&mut self, text: &[u8]) -> Option<i64> {
        let (minute, rest) = text.split_first_chunk::<16>()?;
        if *minute == self.text
            && let Some(ms) = ms_of_minute(rest)
        {
            return Some(self.ms + ms);
        }
        self.parse_other(minute, rest)
    }

    /// Parses an instant in another minute, or with another offset.
    #[inline(never)]
    fn parse_other(&mut self, minute: &[u8; 16], rest: &[u8]) -> Option<i64> {
        if *minute != self.text {
            let ms = minute_ms(minute)?;
            if in_range(ms).is_none() {
                // An offset may bring the instant into the range.
                return after_minute(ms, rest);
            }
            *self = Self { text: *minute, ms };
        }
        after_minute(self.ms, rest)
    }
}

/// Returns the milliseconds of `:08.419Z` or `:08Z`. [`after_minute`] parses other forms.
#[inline]
fn ms_of_minute(rest: &[u8]) -> Option<i64> {
    let (seconds, decimals) = match *rest {
        [b':', tens, ones, b'Z'] => ([tens, ones], [b'0'; 3]),
        [b':', tens, ones, b'.', a, b, c, b'Z'] => ([tens, ones], [a, b, c]),
        _ => return None,
    };
    let seconds = number(&seconds).filter(|seconds| *seconds < 60)?;
    Some(seconds * 1000 + number(&decimals)?)
}

/// Returns the instant of a minute and the text after it: seconds, decimals and offset, each optional.
#[inline(never)]
fn after_minute(minute_ms: i64, rest: &[u8]) -> Option<i64> {
    let (second, rest) = match rest {
        [b':', tens, ones, rest @ ..] => (number(&[*tens, *ones])?, rest),
        _ => (0, rest),
    };
    let (ms, rest) = match rest {
        [b'.', rest @ ..] if !matches!(rest.first(), Some(b'0'..=b'9')) => return None,
        [b'.', rest @ ..] => decimals(rest),
        _ => (0, rest),
    };
    let minute_ms = minute_ms - offset_minutes(rest)? * MS_PER_MINUTE;
    let is_leap = second == 60 && is_last_of_month(minute_ms);
    if second > 59 && !is_leap {
        return None;
    }
    in_range(minute_ms + second * 1000 + ms)
}

/// Returns the milliseconds of decimals, and the text after them.
fn decimals(text: &[u8]) -> (i64, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(count);
    let digit = |place: usize| digits.get(place).map_or(0, |digit| i64::from(digit - b'0'));
    (digit(0) * 100 + digit(1) * 10 + digit(2), rest)
}

fn offset_minutes(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign @ (b'+' | b'-'), a, b] => (sign, [*a, *b], [b'0'; 2]),
        [sign @ (b'+' | b'-'), a, b, c, d] | [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            (sign, [*a, *b], [*c, *d])
        }
        _ => return None,
    };
    let (hours, minutes) = (number(&hours)?, number(&minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = hours * 60 + minutes;
    Some(if *sign == b'-' { -offset } else { offset })
}

/// Returns whether a minute is the last of its month (UTC), where leap seconds occur (RFC 3339 §5.7).
fn is_last_of_month(minute_ms: i64) -> bool {
    let next = minute_ms + MS_PER_MINUTE;
    next.rem_euclid(MS_PER_DAY) == 0 && date(next.div_euclid(MS_PER_DAY)).2 == 1
}

/// Returns an instant in RFC 3339, in UTC, with milliseconds unless they are zero; `None` outside the years 1 to 9999.
pub fn text(ms: i64) -> Option<String> {
    let (year, month, day) = date(in_range(ms)?.div_euclid(MS_PER_DAY));
    let of_day = ms.rem_euclid(MS_PER_DAY);
    let (hour, minute) = (of_day / 3_600_000, of_day / MS_PER_MINUTE % 60);
    let (second, ms) = (of_day / 1000 % 60, of_day % 1000);
    // Written digit by digit, which is fast, because rows of queries have many instants.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |from: usize, digits: usize, mut number: i64| {
        for digit in text[from..from + digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    let parts = [(5, month), (8, day), (11, hour), (14, minute), (17, second)];
    parts.into_iter().for_each(|(from, number)| put(from, 2, number));
    put(20, 3, ms);
    let text = match ms {
        0 => {
            text[19] = b'Z';
            &text[..20]
        }
        _ => &text[..],
    };
    str::from_utf8(text).ok().map(str::to_owned)
}

#[inline]
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + i64::from(digit))
    })
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the days since 1970 of a date of the proleptic Gregorian calendar. The computation begins years in March,
/// so that the leap day is the last day of a year, and all periods of 400 years have the same number of days.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let years = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (years.div_euclid(400), years.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// Returns year, month and day of a day since 1970: the inverse of [`days_since_1970`].
pub fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(text: &str) -> Option<i64> {
        let (parsed, mut minute) = (parse_ms(text.as_bytes()), Minute::default());
        // The second pass finds the minute cached.
        for _ in 0..2 {
            assert_eq!(minute.parse_ms(text.as_bytes()), parsed, "{text}");
        }
        parsed
    }

    #[test]
    fn instants_are_milliseconds_since_1970() {
        assert_eq!(ms("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(ms("2022-07-13T21:04:08.419Z"), Some(1_657_746_248_419));
        assert_eq!(ms("2022-07-13T21:04:08.4Z"), Some(1_657_746_248_400));
        assert_eq!(ms("2000-02-29T23:59:59.999Z"), Some(951_868_799_999));
        assert_eq!(ms("1969-12-31T23:59:59Z"), Some(-1000));
        assert_eq!(ms("0001-01-01T00:00:00Z"), Some(MS_MIN));
        assert_eq!(ms("9999-12-31T23:59:59.999Z"), Some(MS_MAX));
    }

    #[test]
    fn instants_are_as_publishers_write_them() {
        let second = 1_657_746_248_000;
        for (text, after_ms) in [
            // Python: datetime.isoformat() and str().
            ("2022-07-13T21:04:08", 0),
            ("2022-07-13T21:04:08.419123", 419),
            ("2022-07-13T21:04:08.419123+00:00", 419),
            ("2022-07-13T23:04:08+02:00", 0),
            ("2022-07-13 21:04:08.419123+00:00", 419),
            ("2022-07-13T21:04:08+0000", 0),
            // Go: RFC3339Nano omits trailing zeros.
            ("2022-07-13T21:04:08.419123456Z", 419),
            ("2022-07-13T21:04:08.4Z", 400),
            ("2022-07-13T14:04:08.419123456-07:00", 419),
            // Java: Instant and OffsetDateTime.
            ("2022-07-13T21:04:08.419123Z", 419),
            ("2022-07-13T21:04Z", -8000),
            ("2022-07-13T23:04+02:00", -8000),
            // PostgreSQL: timestamptz and timestamp as text.
            ("2022-07-13 21:04:08.419123+00", 419),
            ("2022-07-14 02:34:08.5+05:30", 500),
            ("2022-07-13 21:04:08", 0),
            // RFC 3339 §5.6 and §4.3.
            ("2022-07-13t21:04:08z", 0),
            ("2022-07-13T21:04:08-00:00", 0),
            ("2022-07-13T21:04:08.9999999999999999999999Z", 999),
            ("2022-07-12T21:05:08.000-23:59", 0),
        ] {
            assert_eq!(ms(text), Some(second + after_ms), "{text}");
        }
        // Before 1970 decimals count forward, too.
        assert_eq!(ms("1969-12-31T23:59:59.9999Z"), Some(-1));
    }

    #[test]
    fn a_leap_second_is_the_first_of_the_next_day() {
        let next = ms("2017-01-01T00:00:00.500Z");
        assert_eq!(ms("2016-12-31T23:59:60.5Z"), next);
        assert_eq!(ms("2016-12-31T15:59:60.5-08:00"), next);
        for none in [
            "2016-12-31T23:59:61Z",
            "2016-12-31T23:58:60Z",
            "2016-12-30T23:59:60Z",
            "2016-12-31T23:59:60-08:00",
        ] {
            assert_eq!(ms(none), None, "{none}");
        }
    }

    #[test]
    fn other_texts_are_no_instants() {
        for text in [
            "",
            "2022-07-13",
            "2022-07-13T21",
            "2022-07-13T21:04:08.Z",
            "2022-07-13T21:04:08,419Z",
            "2022-07-13T21:04:8Z",
            "2022-07-13T21:04:08ZZ",
            "2022-07-13T21:04:08 Z",
            "2022-07-13T21:04:08+24:00",
            "2022-07-13T21:04:08+02:60",
            "2022-07-13T21:04:08+2",
            "2022-07-13T21:04:08+02:0",
            "2022-07-13_21:04:08Z",
            "2022-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2022-13-01T00:00:00Z",
            "2022-00-01T00:00:00Z",
            "2022-07-13T24:00:00Z",
            "2022-07-13T21:60:00Z",
            "2022-07-13T21:04:0xZ",
            "0000-12-31T23:59:59Z",
            "0001-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_midnights() {
        assert_eq!(parse_instant_or_date(b"2022-07-13"), ms("2022-07-13T00:00:00Z"));
        assert_eq!(parse_instant_or_date(b"2022-07-13 00:00"), ms("2022-07-13T00:00:00Z"));
        assert_eq!(parse_instant_or_date(b"2022-02-29"), None);
        assert_eq!(parse_instant_or_date(b"0000-12-31"), None);
    }

    #[test]
    fn numbers_are_of_their_unit() {
        use TimeUnit::{Microseconds, Milliseconds, Nanoseconds, Seconds};
        for (unit, number, expected) in [
            (Seconds, "1657746248", Some(1_657_746_248_000)),
            (Seconds, "1657746248.419", Some(1_657_746_248_419)),
            (Seconds, "1.657746248419e9", Some(1_657_746_248_419)),
            (Seconds, "-0.0001", Some(-1)),
            (Milliseconds, "1657746248419", Some(1_657_746_248_419)),
            (Milliseconds, "1657746248419.999", Some(1_657_746_248_419)),
            (Microseconds, "1657746248419999", Some(1_657_746_248_419)),
            (Microseconds, "-1", Some(-1)),
            (Nanoseconds, "1657746248419999999", Some(1_657_746_248_419)),
            (Nanoseconds, "-1000000", Some(-1)),
            (Nanoseconds, "16577462484199999990e-1", Some(1_657_746_248_419)),
            (Seconds, "0", Some(0)),
            (Seconds, "-0.0e5", Some(0)),
            (Seconds, "253402300800", None),
            (Seconds, "9223372036854775807", None),
            (Milliseconds, "-62135596800001", None),
            (Milliseconds, "1e400", None),
            (Milliseconds, "1e-400", Some(0)),
            (Milliseconds, "-", None),
            (Milliseconds, "", None),
            (Milliseconds, ".", None),
            (Milliseconds, "x1", None),
        ] {
            assert_eq!(unit.ms_of_text(number.as_bytes()), expected, "{unit:?} {number}");
            if let Ok(int) = number.parse() {
                assert_eq!(unit.ms(int), expected, "{unit:?} {number}");
            }
        }
    }

    #[test]
    fn days_and_dates_convert_into_each_other() {
        for day in (-800_000..3_000_000).step_by(13) {
            let (year, month, of_month) = date(day);
            assert_eq!(days_since_1970(year, month, of_month), day, "{year}-{month}-{of_month}");
        }
    }

    proptest! {
        #[test]
        fn a_text_says_the_same_instant(ms in MS_MIN..=MS_MAX) {
            let text = super::text(ms).unwrap();
            prop_assert_eq!(parse_ms(text.as_bytes()), Some(ms), "{}", text);
        }

        #[test]
        fn an_instant_is_the_same_after_any_other(
            texts in proptest::collection::vec(
                (0..5_usize, "(:[0-6][0-9](\\.[0-9]{0,7})?)?", "Z|z||[+-](0[0-9]|[0-9]{2}):?[0-9]{2}", 0..40_usize, "[0-9Zx:.]"),
                1..20,
            ),
        ) {
            let mut minute = Minute::default();
            for (at_minute, seconds, offset, at, byte) in texts {
                let minutes = [
                    "2022-07-13T21:04",
                    "1970-01-01T00:00",
                    "1969-12-31 23:59",
                    "0001-01-01T00:00",
                    "9999-12-31T23:59",
                ];
                let mut text = format!("{}{seconds}{offset}", minutes[at_minute]);
                if at < text.len() {
                    text.replace_range(at..=at, &byte);
                }
                prop_assert_eq!(minute.parse_ms(text.as_bytes()), parse_ms(text.as_bytes()), "{}", text);
            }
        }

        #[test]
        fn a_number_is_as_an_integer_of_its_unit(number: i64, shift in 0..64_u32) {
            let number = number >> shift;
            for unit in [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds] {
                prop_assert_eq!(unit.ms_of_text(number.to_string().as_bytes()), unit.ms(number));
            }
        }
    }
}
