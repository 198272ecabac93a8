//! Parts of times, in UTC and the Gregorian calendar.

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;
const DAY: i64 = 86_400_000;

pub(crate) const PARTS: [&str; 14] = [
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "isoyear",
    "dow",
    "isodow",
    "doy",
    EPOCH,
];

/// The only part that is not an integer: seconds since 1970.
pub(crate) const EPOCH: &str = "epoch";

pub(crate) const UNITS: [&str; 8] =
    ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];

/// Returns a part of an instant in ms since 1970. Milliseconds count from the beginning of the minute.
pub(crate) fn part(part: &str, ms: i64) -> Option<i64> {
    if !is_in_calendar(ms) {
        return None;
    }
    let in_unit = |of: i64, unit: i64| ms.rem_euclid(of) / unit;
    Some(match part {
        "millisecond" => in_unit(MINUTE, 1),
        "second" => in_unit(MINUTE, SECOND),
        "minute" => in_unit(HOUR, MINUTE),
        "hour" => in_unit(DAY, HOUR),
        "day" => date(ms).2,
        "month" => date(ms).1,
        "year" => date(ms).0,
        "quarter" => (date(ms).1 + 2) / 3,
        // 1970 began on a Thursday.
        "dow" => (ms.div_euclid(DAY) + 4).rem_euclid(7),
        "isodow" => (ms.div_euclid(DAY) + 3).rem_euclid(7) + 1,
        // A week belongs to the year of its Thursday.
        "isoyear" => date(thursday(ms)).0,
        "week" => (day_of_year(thursday(ms)) - 1) / 7 + 1,
        "doy" => day_of_year(ms),
        _ => return None,
    })
}

pub(crate) fn epoch(ms: i64) -> f64 {
    ms as f64 / SECOND as f64
}

pub(crate) fn day_start(ms: i64) -> Option<i64> {
    is_in_calendar(ms).then(|| ms - ms.rem_euclid(DAY))
}

fn is_in_calendar(ms: i64) -> bool {
    ms.unsigned_abs() <= 1 << 60
}

fn day_of_year(ms: i64) -> i64 {
    ms.div_euclid(DAY) - days(date(ms).0, 1, 1) + 1
}

/// Returns the same time on Thursday of the same week, which begins on Monday.
fn thursday(ms: i64) -> i64 {
    ms - ((ms.div_euclid(DAY) + 3).rem_euclid(7) - 3) * DAY
}

/// Returns the start of the unit around an instant; `None` for an unknown unit, or outside of the calendar.
pub(crate) fn truncated(unit: &str, ms: i64) -> Option<i64> {
    if !is_in_calendar(ms) {
        return None;
    }
    let (year, month, _) = date(ms);
    Some(match unit {
        "second" => ms - ms.rem_euclid(SECOND),
        "minute" => ms - ms.rem_euclid(MINUTE),
        "hour" => ms - ms.rem_euclid(HOUR),
        "day" => day_start(ms)?,
        // Weeks begin on Monday, and 1970 on a Thursday.
        "week" => ms - (ms + 3 * DAY).rem_euclid(7 * DAY),
        "month" => days(year, month, 1) * DAY,
        "quarter" => days(year, (month - 1) / 3 * 3 + 1, 1) * DAY,
        "year" => days(year, 1, 1) * DAY,
        _ => return None,
    })
}

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
        let parts = |at: i64| PARTS.map(|name| part(name, at));
        let expected = [58_123, 58, 59, 23, 29, 9, 2, 1, 2024, 2024, 4, 4, 60];
        assert_eq!(parts(at)[..13], expected.map(Some));
        let expected = [59_999, 59, 59, 23, 31, 1, 12, 4, 1969, 1970, 3, 3, 365];
        assert_eq!(parts(-1)[..13], expected.map(Some));
        let sunday = ms("2021-01-03T12:00:00Z");
        assert_eq!(["dow", "isodow"].map(|name| part(name, sunday)), [Some(0), Some(7)]);
        assert_eq!(["week", "isoyear"].map(|name| part(name, sunday)), [Some(53), Some(2020)]);
        assert_eq!((epoch(at), epoch(-1)), (1_709_251_198.123, -0.001));
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
            "2024-01-01T00:00:00Z",
        ];
        assert_eq!(UNITS.map(|unit| truncated(unit, at).unwrap()), expected.map(ms));
    }
}
