//! The parameters of a subscription, in a query or in a command. This is the only place that parses them.

use std::{
    str::FromStr,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::value::RawValue;
use thalweg_core::fanout::{Policy, Terms};
use thalweg_wire::{
    Condition, ErrorCode, Excerpt, StartAt, Topic, event, position::SINCE, topic::TopicError,
};

use crate::{
    clock::unix_ms,
    config::{MEMBER_INFO_BYTES, nearest, parse_bytes, parse_duration},
    refusal::Refusal,
};

const POLICIES: [&str; 3] = ["skip", "latest", "close"];

const DELTAS: [&str; 2] = ["patch", "none"];

/// The timer of an ended connection stays until it is due: the wait is therefore bounded.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The smallest window. With less the client would send little but acks.
const WINDOW_BYTES_MIN: usize = 1024;

/// Parses a topic. Fails when it is invalid. A `+`, which is a space in a query, has a separate remedy.
pub(crate) fn topic(name: &str) -> Result<Topic, Refusal> {
    name.parse::<Topic>().map_err(|error| match error {
        TopicError::Character(' ') => {
            let message =
                "a topic must not contain spaces, and + in a URL is a space: write %2B for +";
            Refusal::new(ErrorCode::BadTopic, message)
        }
        error => error.into(),
    })
}

pub(crate) fn start(text: &str) -> Result<StartAt, Refusal> {
    match (StartAt::from_str(text), text.strip_prefix(SINCE)) {
        (Err(_), Some(time)) => since(time),
        (start, _) => start.map_err(Refusal::from),
    }
}

/// Parses the time from which on events are wanted: RFC 3339, or a duration before now.
pub(crate) fn since(text: &str) -> Result<StartAt, Refusal> {
    if let Some(unix_ms) = rfc3339_ms(text) {
        return Ok(StartAt::Since(unix_ms));
    }
    let Ok(back) = parse_duration(text) else {
        let message =
            "since: write a time as 2026-11-29T17:00:00Z, or a duration before now such as 10m";
        return Err(Refusal::new(ErrorCode::BadCursor, message));
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

/// Parses the terms of a subscription without a stream. Terms that are missing have their defaults.
pub(crate) fn terms(
    policy: Option<&str>,
    interval: Option<&str>,
    window: Option<&str>,
) -> Result<Terms, Refusal> {
    Ok(Terms {
        policy: policy.map_or(Ok(Policy::default()), self::policy)?,
        interval_us: interval.map_or(Ok(0), |text| time_us("interval", text))?,
        window_bytes: window.map(self::window).transpose()?,
        stream: None,
    })
}

/// Parses what a client says of itself to the members of its topics. Fails if it is not JSON, or too large.
pub(crate) fn info(text: &str) -> Result<Box<RawValue>, Refusal> {
    let mut minified = Vec::new();
    event::push_json(text.as_bytes(), MEMBER_INFO_BYTES, &mut minified)
        .map_err(|error| bad(format!("info: {error}")))?;
    let minified = String::from_utf8(minified).map_err(|_| bad("info: not UTF-8".into()))?;
    RawValue::from_string(minified).map_err(|error| bad(format!("info: {error}")))
}

/// Parses how long a key stays, in µs. Fails if it is not a duration, or is 0.
pub(crate) fn ttl_us(text: &str) -> Result<u64, Refusal> {
    let ttl = parse_duration(text).map_err(|error| bad(format!("ttl: {error}")))?;
    let ttl_us = ttl.as_micros() as u64;
    match ttl_us > 0 {
        true => Ok(ttl_us),
        false => Err(bad("ttl is 0: write a time such as 30s, or publish null".into())),
    }
}

/// Parses the condition of a publish. Fails with the forms that there are.
pub(crate) fn condition(text: &str) -> Result<Condition, Refusal> {
    text.parse().map_err(|_| {
        bad(format!(
            "if={:?} is not a condition: write new, exists, or the position of the key's newest event",
            Excerpt(text)
        ))
    })
}

/// Parses the policy for a subscriber that falls behind.
pub(crate) fn policy(text: &str) -> Result<Policy, Refusal> {
    match text {
        "skip" => Ok(Policy::Skip),
        "latest" => Ok(Policy::Latest),
        "close" => Ok(Policy::Close),
        _ => Err(unknown("policy", text, &POLICIES)),
    }
}

/// Parses a time called `name`, in µs.
pub(crate) fn time_us(name: &str, text: &str) -> Result<u64, Refusal> {
    let time = parse_duration(text).map_err(|error| bad(format!("{name}: {error}")))?;
    if time > WAIT_MAX {
        return Err(bad(format!("{name} is too long: write at most 5m")));
    }
    Ok(time.as_micros() as u64)
}

pub(crate) fn window(text: &str) -> Result<u64, Refusal> {
    let bytes = parse_bytes(text).map_err(|error| bad(format!("window: {error}")))?;
    if bytes < WINDOW_BYTES_MIN {
        return Err(bad("window: the number is too small: write at least 1KiB".into()));
    }
    Ok(bytes as u64)
}

/// Parses whether versions of value topics may come as patches.
pub(crate) fn deltas(text: &str) -> Result<bool, Refusal> {
    match text {
        "patch" => Ok(true),
        "none" => Ok(false),
        _ => Err(unknown("kind of deltas", text, &DELTAS)),
    }
}

/// Parses an integer called `name`, from 1 to `max`.
pub(crate) fn number(name: &str, text: &str, max: usize) -> Result<usize, Refusal> {
    match text.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(bad(format!(
            "{name} must be a whole number from 1 to {max}, not {:?}",
            Excerpt(text)
        ))),
    }
}

pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> Refusal {
    bad(format!("unknown {what} {:?}{}", Excerpt(name), nearest(name, known)))
}

pub(crate) fn bad(message: String) -> Refusal {
    Refusal::new(ErrorCode::BadParameter, message)
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
            assert_eq!(since(text).expect(text), StartAt::Since(unix_ms));
            assert_eq!(start(&format!("since.{text}")).expect(text), StartAt::Since(unix_ms));
        }
        let now_ms = u64::try_from(unix_ms()).expect("after 1970");
        let StartAt::Since(back_ms) = since("10m").expect("a duration") else { panic!() };
        assert!((now_ms - 600_000..now_ms - 590_000).contains(&back_ms), "{back_ms}");
        assert_eq!(start("since.1250").expect("a time"), StartAt::Since(1250));
        let bad = [
            "",
            "yesterday",
            "2026-11-29",
            "1970-01-01T00:00:01",
            "-10m",
            "1970-01-01T00:00:01+2:00",
        ];
        for text in bad {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
