//! The parameters of a subscription, in a query or in a command. This is the only place that parses them.

use std::{sync::Arc, time::Duration};

use serde_json::value::RawValue;
use thalweg_core::fanout::{Policy, Terms};
use thalweg_wire::{
    Condition, ErrorCode, Excerpt, KeyFilter, StartAt, Topic, event, limits::MEMBER_INFO_BYTES,
    topic::TopicError,
};

use crate::{
    config::{nearest, parse_bytes, parse_duration},
    refusal::Refusal,
    start::{parse_since, parse_start},
};

const POLICIES: [&str; 3] = ["skip", "latest", "close"];

const DELTAS: [&str; 2] = ["patch", "none"];

/// The longest time in a parameter. The timer of an ended connection stays until it is due, so the time is bounded.
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
    parse_start(text).map_err(|message| Refusal::new(ErrorCode::BadCursor, message))
}

pub(crate) fn since(text: &str) -> Result<StartAt, Refusal> {
    parse_since(text).map_err(|message| Refusal::new(ErrorCode::BadCursor, message))
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

/// Parses a topic of a list, which may have a filter of its own: `TOPIC?key=KEY&prefix=PREFIX`, in the encoding of URLs.
pub(crate) fn filtered_topic(text: &str) -> Result<(Topic, Option<Arc<KeyFilter>>), Refusal> {
    let Some((name, filter)) = text.split_once('?') else { return Ok((topic(text)?, None)) };
    let (mut keys, mut prefix) = (Vec::new(), None);
    for (parameter, value) in form_urlencoded::parse(filter.as_bytes()) {
        match &*parameter {
            "key" => keys.push(value),
            "prefix" if prefix.is_none() => prefix = Some(value),
            "prefix" => return Err(two_prefixes()),
            other => return Err(unknown("parameter of a topic", other, &["key", "prefix"])),
        }
    }
    let filter = self::filter(&keys, prefix.as_deref())?;
    if filter.is_none() {
        return Err(bad("a topic has ? without key= or prefix=: add one, or remove the ?".into()));
    }
    Ok((topic(name)?, filter))
}

/// Returns the refusal of a second prefix.
pub(super) fn two_prefixes() -> Refusal {
    bad("a filter has one prefix: remove the others".into())
}

/// Returns the filter of a subscription or a read. `None` if it names neither keys nor a prefix.
pub(crate) fn filter(
    keys: &[impl AsRef<str>],
    prefix: Option<&str>,
) -> Result<Option<Arc<KeyFilter>>, Refusal> {
    let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
    Ok(KeyFilter::new(&keys, prefix)?.map(Arc::new))
}

/// Parses a client's description of itself, for the members of its topics. Fails if it is not JSON, or too large.
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

/// Parses the condition of a publish. The error lists the valid forms.
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
