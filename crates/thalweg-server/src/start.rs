//! The start of a subscription as people write it.

use std::{str::FromStr as _, time::UNIX_EPOCH};

use thalweg_wire::{StartAt, position::SINCE};

use crate::{clock::unix_ms, config::parse_duration};

/// Parses the start of a subscription. In addition to the forms of [`StartAt`], `since.` may be followed by a time of RFC 3339 or a
/// duration before now. Fails with the allowed forms.
pub fn parse_start(text: &str) -> Result<StartAt, String> {
    match (StartAt::from_str(text), text.strip_prefix(SINCE)) {
        (Err(_), Some(time)) => parse_since(time),
        (start, _) => start.map_err(|error| error.to_string()),
    }
}

/// Parses the time from which on events are wanted: RFC 3339, or a duration before now. Fails with the allowed forms.
pub(crate) fn parse_since(text: &str) -> Result<StartAt, String> {
    if let Some(unix_ms) = rfc3339_ms(text) {
        return Ok(StartAt::Since(unix_ms));
    }
    let Ok(back) = parse_duration(text) else {
        return Err(
            "since: write a time as 2026-11-29T17:00:00Z, or a duration before now such as 10m"
                .into(),
        );
    };
    let now_ms = u64::try_from(unix_ms()).unwrap_or_default();
    let back_ms = u64::try_from(back.as_millis()).unwrap_or(u64::MAX);
    Ok(StartAt::Since(now_ms.saturating_sub(back_ms)))
}

/// Parses a time of RFC 3339, section 5.6, in ms since 1970.
fn rfc3339_ms(text: &str) -> Option<u64> {
    let (local, offset_ms) =
        match text.len().checked_sub(6).and_then(|at| text.split_at_checked(at)) {
            Some((local, zone)) if zone.starts_with(['+', '-', ' ']) => {
                let (hours, minutes) = zone[1..].split_once(':')?;
                let number = |digits: &str| {
                    let are_digits =
                        digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
                    digits.parse::<i64>().ok().filter(|_| are_digits)
                };
                let offset_ms = (number(hours)? * 60 + number(minutes)?) * 60_000;
                // A plus sign in a URL is a space.
                (local, if zone.starts_with('-') { -offset_ms } else { offset_ms })
            }
            _ => (text.strip_suffix(['Z', 'z'])?, 0),
        };
    let time = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(i64::try_from(since.as_millis()).ok()? - offset_ms).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_or_a_duration_before_now() {
        for (text, unix_ms) in [
            ("1970-01-01T00:00:01Z", 1000),
            ("1970-01-01T00:00:01.25Z", 1250),
            ("1970-01-01T02:00:01+02:00", 1000),
            ("1970-01-01T02:00:01 02:00", 1000),
            ("1970-01-01T00:00:01-00:30", 1_801_000),
        ] {
            assert_eq!(parse_since(text).expect(text), StartAt::Since(unix_ms));
            assert_eq!(parse_start(&format!("since.{text}")).expect(text), StartAt::Since(unix_ms));
        }
        let now_ms = u64::try_from(unix_ms()).expect("after 1970");
        let StartAt::Since(back_ms) = parse_since("10m").expect("a duration") else { panic!() };
        assert!((now_ms - 600_000..now_ms - 590_000).contains(&back_ms), "{back_ms}");
        assert_eq!(parse_start("since.1250").expect("a time"), StartAt::Since(1250));
        let bad = [
            "",
            "yesterday",
            "2026-11-29",
            "1970-01-01T00:00:01",
            "-10m",
            "1970-01-01T00:00:01+2:00",
        ];
        for text in bad {
            assert!(parse_since(text).is_err(), "{text}");
        }
    }
}
