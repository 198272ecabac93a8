//! Dates of the archive, UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-21T00:43:29Z`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let second = seconds(time) % 86_400;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{}T{hour:02}:{minute:02}:{:02}Z", day(time), second % 60)
}

/// `2026-11-21`.
pub(super) fn day(time: SystemTime) -> String {
    // Days to a civil date, after Howard Hinnant's `civil_from_days`: years
    // begin in March, so that the leap day is the last.
    let days = seconds(time) / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_days() {
        let check = |second, expected| {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(second)), expected);
        };
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_795_221_809, "2026-11-21T00:43:29Z");
        check(4_107_542_399, "2100-02-28T23:59:59Z");
    }
}
