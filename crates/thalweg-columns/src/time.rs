//! Instants in RFC 3339, as far as a timestamp of milliseconds holds them exactly: in UTC (`Z`), with at
//! most three decimals of a second.

const MS_PER_DAY: i64 = 86_400_000;
const MS_PER_MINUTE: i64 = 60_000;

/// Milliseconds since 1970 of `2022-07-13T21:04:08.419Z`. `None` if `text` is anything else.
#[inline]
pub fn parse_ms(text: &[u8]) -> Option<i64> {
    if !(20..=24).contains(&text.len()) || text[text.len() - 1] != b'Z' {
        return None;
    }
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let (year, month, day) = (number(&text[..4])?, number(&text[5..7])?, number(&text[8..10])?);
    let (hour, minute, second) =
        (number(&text[11..13])?, number(&text[14..16])?, number(&text[17..19])?);
    if month == 0 || month > 12 || day == 0 || day > days_of(year, month) {
        return None;
    }
    // A leap second has no place among milliseconds since 1970.
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let ms = match &text[19..text.len() - 1] {
        [] => 0,
        [b'.', decimals @ ..] if !decimals.is_empty() => {
            number(decimals)? * [100, 10, 1][decimals.len() - 1]
        }
        _ => return None,
    };
    let in_day = ((hour * 60 + minute) * 60 + second) * 1000 + ms;
    Some(days_since_1970(year, month, day) * MS_PER_DAY + in_day)
}

/// A minute that an instant of a column was in. The next one is probably in the same.
#[derive(Debug)]
pub(crate) struct Minute {
    /// As in `2022-07-13T21:04`.
    text: [u8; 16],
    ms: i64,
}

impl Default for Minute {
    fn default() -> Self {
        Self { text: *b"1970-01-01T00:00", ms: 0 }
    }
}

impl Minute {
    /// The same as [`parse_ms`].
    #[inline]
    pub(crate) fn parse_ms(&mut self, text: &[u8]) -> Option<i64> {
        let (minute, rest) = text.split_first_chunk::<16>()?;
        if *minute == self.text
            && let Some(ms) = ms_of_minute(rest)
        {
            return Some(self.ms + ms);
        }
        let ms = parse_ms(text)?;
        *self = Self { text: *minute, ms: ms - ms.rem_euclid(MS_PER_MINUTE) };
        Some(ms)
    }
}

/// Milliseconds of `:08.419Z` or `:08Z`. Others are for [`parse_ms`].
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

/// An instant in RFC 3339, in UTC, with milliseconds if it has some; `None`: RFC 3339 does not have its year.
pub fn text(ms: i64) -> Option<String> {
    let (year, month, day) = date(ms.div_euclid(MS_PER_DAY));
    if !(0..=9999).contains(&year) {
        return None;
    }
    let of_day = ms.rem_euclid(MS_PER_DAY);
    let (hour, minute) = (of_day / 3_600_000, of_day / MS_PER_MINUTE % 60);
    let (second, ms) = (of_day / 1000 % 60, of_day % 1000);
    let decimals = if ms == 0 { String::new() } else { format!(".{ms:03}") };
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{decimals}Z"))
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

/// Days since 1970 of a date of the proleptic Gregorian calendar. Years begin in March here, so that the leap day is a year's
/// last, and 400 of them are always as many days.
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let years = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (years.div_euclid(400), years.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// Year, month and day of a day since 1970: the inverse of [`days_since_1970`].
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
        // The second time the minute is known.
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
        assert_eq!(ms("0000-01-01T00:00:00Z"), Some(-62_167_219_200_000));
        assert_eq!(ms("9999-12-31T23:59:59.999Z"), Some(253_402_300_799_999));
    }

    #[test]
    fn what_milliseconds_do_not_hold_is_text() {
        for text in [
            "",
            "2022-07-13",
            "2022-07-13T21:04:08.4191Z",
            "2022-07-13T21:04:08.419+00:00",
            "2022-07-13T21:04:08.Z",
            "2022-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2022-13-01T00:00:00Z",
            "2022-00-01T00:00:00Z",
            "2022-07-13T24:00:00Z",
            "2016-12-31T23:59:60Z",
            "2022-07-13t21:04:08Z",
            "2022-07-13T21:04:0xZ",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn days_and_dates_are_each_others() {
        for day in (-800_000..3_000_000).step_by(13) {
            let (year, month, of_month) = date(day);
            assert_eq!(days_since_1970(year, month, of_month), day, "{year}-{month}-{of_month}");
        }
    }

    proptest! {
        #[test]
        fn a_text_says_the_same_instant(ms in -62_167_219_200_000..253_402_300_800_000_i64) {
            let text = super::text(ms).unwrap();
            prop_assert_eq!(parse_ms(text.as_bytes()), Some(ms), "{}", text);
        }

        #[test]
        fn an_instant_is_the_same_after_any_other(
            texts in proptest::collection::vec((0..3_usize, 0..70, "(\\.[0-9]{0,4})?", 0..40_usize, "[0-9Zx:.]"), 1..20),
        ) {
            let mut minute = Minute::default();
            for (of, seconds, decimals, at, byte) in texts {
                let before = ["2022-07-13T21:04", "1970-01-01T00:00", "1969-12-31T23:59"][of];
                let mut text = format!("{before}:{seconds:02}{decimals}Z");
                if at < text.len() {
                    text.replace_range(at..=at, &byte);
                }
                prop_assert_eq!(minute.parse_ms(text.as_bytes()), parse_ms(text.as_bytes()), "{}", text);
            }
        }
    }
}
