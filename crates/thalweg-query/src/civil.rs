//! Parts of times, in UTC and the Gregorian calendar.

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;
const DAY: i64 = 86_400_000;

/// Parts that `extract` knows.
pub(crate) const PARTS: [&str; 10] =
    ["millisecond", "second", "minute", "hour", "day", "month", "year", "dow", "doy", "epoch"];

/// Units that `date_trunc` knows.
pub(crate) const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];

/// A part of an instant, which is in ms since 1970.
pub(crate) fn part(part: &str, ms: i64) -> Option<i64> {
    if ms.unsigned_abs() > 1 << 60 {
        return None;
    }
    let in_unit = |of: i64, unit: i64| ms.rem_euclid(of) / unit;
    Some(match part {
        "millisecond" => in_unit(SECOND, 1),
        "second" => in_unit(MINUTE, SECOND),
        "minute" => in_unit(HOUR, MINUTE),
        "hour" => in_unit(DAY, HOUR),
        "day" => date(ms).2,
        "month" => date(ms).1,
        "year" => date(ms).0,
        // 1970 began on a Thursday.
        "dow" => (ms.div_euclid(DAY) + 4).rem_euclid(7),
        "doy" => ms.div_euclid(DAY) - days(date(ms).0, 1, 1) + 1,
        "epoch" => ms.div_euclid(SECOND),
        _ => return None,
    })
}

/// The beginning of the unit that an instant is in; `None` for those that no calendar has.
pub(crate) fn truncated(unit: &str, ms: i64) -> Option<i64> {
    if ms.unsigned_abs() > 1 << 60 {
        return None;
    }
    let (year, month, _) = date(ms);
    Some(match unit {
        "second" => ms - ms.rem_euclid(SECOND),
        "minute" => ms - ms.rem_euclid(MINUTE),
        "hour" => ms - ms.rem_euclid(HOUR),
        "day" => ms - ms.rem_euclid(DAY),
        // Weeks begin on Monday, and 1970 on a Thursday.
        "week" => ms - (ms + 3 * DAY).rem_euclid(7 * DAY),
        "month" => days(year, month, 1) * DAY,
        "year" => days(year, 1, 1) * DAY,
        _ => return None,
    })
}

/// Year, month and day.
fn date(ms: i64) -> (i64, i64, i64) {
    thalweg_columns::date(ms.div_euclid(DAY))
}

fn days(year: i64, month: i64, day: i64) -> i64 {
    thalweg_columns::days_since_1970(year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        thalweg_columns::parse_time_ms(text.as_bytes()).unwrap()
    }

    #[test]
    fn parts_of_an_instant() {
        let at = ms("2024-02-29T23:59:58.123Z");
        let parts = PARTS.map(|name| part(name, at).unwrap());
        assert_eq!(parts, [123, 58, 59, 23, 29, 2, 2024, 4, 60, at / 1000]);
        assert_eq!(
            PARTS.map(|name| part(name, -1).unwrap()),
            [999, 59, 59, 23, 31, 12, 1969, 3, 365, -1]
        );
        assert_eq!(part("century", at), None);
    }

    #[test]
    fn instants_are_cut_to_their_unit() {
        let at = ms("2024-02-29T23:59:58.123Z");
        let expected = [
            "2024-02-29T23:59:58Z",
            "2024-02-29T23:59:00Z",
            "2024-02-29T23:00:00Z",
            "2024-02-29T00:00:00Z",
            "2024-02-26T00:00:00Z",
            "2024-02-01T00:00:00Z",
            "2024-01-01T00:00:00Z",
        ];
        assert_eq!(UNITS.map(|unit| truncated(unit, at).unwrap()), expected.map(ms));
    }
}
