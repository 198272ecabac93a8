//! Single values of settings: one form on the command line and in a file, refused with the same words.

use std::{fmt, net::SocketAddr, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de};
use thalweg_client::Topic;
use thalweg_core::stream::FeedKind;
use thalweg_server::config::{
    KeyPointer, Network, PresenceOf, UpstreamUrl, nearest, parse_bytes, parse_duration,
};
use thalweg_token::Pattern;

use crate::address::parse_address;

/// The longest time, in µs: a day.
const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A whole number from MIN to MAX.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count<const MIN: u32 = 1, const MAX: u32 = { u32::MAX }>(u32);

/// A whole number of 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) u64);

/// Bytes, from MIN to MAX.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size<const MIN: usize = 1, const MAX: usize = { usize::MAX }>(usize);

/// A duration from MIN to MAX, in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time<const MIN_US: u64 = 1_000, const MAX_US: u64 = DAY_US>(Duration);

/// An address to listen on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(pub(super) SocketAddr);

/// A trusted proxy, or the network of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proxy(pub(super) Network);

/// A WebSocket subprotocol: a token of HTTP (RFC 9110 §5.6.2).
#[derive(Clone, Debug)]
pub(super) struct Subprotocol(pub(super) String);

/// A pattern of topics.
#[derive(Clone, Debug)]
pub(super) struct TopicPattern(pub(super) Pattern);

/// A topic.
#[derive(Clone, Debug)]
pub(super) struct TopicName(pub(super) Topic);

/// The kind of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind(FeedKind);

/// The published part of a topic's members. `None` turns presence off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed(pub(super) Option<PresenceOf>);

/// The place of the key in an event.
#[derive(Clone, Debug)]
pub(super) struct Pointer(pub(super) KeyPointer);

/// A URL with a place for the topic.
#[derive(Clone, Debug)]
pub(super) struct UpstreamAddress(pub(super) UpstreamUrl);

/// A URL of one document.
#[derive(Clone, Debug)]
pub(super) struct Url(pub(super) UpstreamUrl);

/// The level of a log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

/// The format of a log.
#[derive(Clone, Copy, Debug)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl<const MIN: u32, const MAX: u32> FromStr for Count<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().map_err(|_| not_whole(text))?;
        within(number, MIN, MAX, |bound| bound.to_string()).map(Self)
    }
}

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| not_whole(text))
    }
}

impl<const MIN: usize, const MAX: usize> FromStr for Size<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        within(parse_bytes(text)?, MIN, MAX, bytes_text).map(Self)
    }
}

impl<const MIN_US: u64, const MAX_US: u64> FromStr for Time<MIN_US, MAX_US> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [min, max] = [MIN_US, MAX_US].map(Duration::from_micros);
        within(parse_duration(text)?, min, max, time_text).map(Self)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_address(text).map(Self)
    }
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl FromStr for Subprotocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        match !text.is_empty() && text.bytes().all(is_token) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is not a subprotocol: use letters, digits and -._~")),
        }
    }
}

impl FromStr for TopicPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error| format!("{text:?}: {error}"))
    }
}

impl FromStr for TopicName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error| format!("{text:?}: {error}"))
    }
}

impl TopicName {
    /// Reads a topic that may be percent-encoded, as in a path.
    ///
    /// # Errors
    /// Returns a sentence.
    pub(super) fn from_path(text: &str) -> Result<Self, String> {
        Topic::from_path(text).map(Self).map_err(|error| format!("topic {text:?}: {error}"))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        FeedKind::parse(text).map(Self).ok_or_else(|| unknown("kind", text, &FeedKind::NAMES))
    }
}

impl FromStr for Listed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(Self(Some(PresenceOf::Users))),
            "none" | "false" => Ok(Self(None)),
            name => match PresenceOf::parse(name) {
                Some(of) => Ok(Self(Some(of))),
                None => {
                    let known = [&PresenceOf::NAMES[..], &["none"]].concat();
                    Err(unknown("presence", name, &known))
                }
            },
        }
    }
}

impl FromStr for Pointer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

impl From<Kind> for FeedKind {
    fn from(kind: Kind) -> Self {
        kind.0
    }
}

impl FromStr for UpstreamAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        UpstreamUrl::parse(text).map(Self)
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        UpstreamUrl::parse_document(text).map(Self)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err(unknown("level", text, &["error", "warn", "info", "debug"])),
        }
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(unknown("format", text, &["text", "json"])),
        }
    }
}

impl<const MIN: u32, const MAX: u32> From<Count<MIN, MAX>> for u32 {
    fn from(count: Count<MIN, MAX>) -> Self {
        count.0
    }
}

impl<const MIN: u32, const MAX: u32> From<Count<MIN, MAX>> for usize {
    fn from(count: Count<MIN, MAX>) -> Self {
        count.0 as usize
    }
}

impl<const MIN: usize, const MAX: usize> From<Size<MIN, MAX>> for usize {
    fn from(size: Size<MIN, MAX>) -> Self {
        size.0
    }
}

impl<const MIN_US: u64, const MAX_US: u64> From<Time<MIN_US, MAX_US>> for Duration {
    fn from(time: Time<MIN_US, MAX_US>) -> Self {
        time.0
    }
}

/// Formats bytes in the largest unit that leaves no remainder.
pub(super) fn bytes_text(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Formats a duration in the largest unit that leaves no remainder.
pub(super) fn time_text(time: Duration) -> String {
    let us = time.as_micros();
    let units = [(60_000_000, "m"), (1_000_000, "s"), (1_000, "ms"), (1, "us")];
    let unit = units.iter().find(|(us_per_unit, _)| us != 0 && us.is_multiple_of(*us_per_unit));
    unit.map_or_else(|| "0".to_owned(), |(us_per_unit, unit)| format!("{}{unit}", us / us_per_unit))
}

/// Returns the error for a text that is not a whole number, or is too large.
fn not_whole(text: &str) -> String {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{text:?} is too large: write a smaller number"),
        false => format!("{text:?} is not a whole number: write digits only"),
    }
}

fn within<T: PartialOrd + Copy>(
    value: T,
    min: T,
    max: T,
    text: impl Fn(T) -> String,
) -> Result<T, String> {
    if value < min {
        Err(format!("{} is too small: write at least {}", text(value), text(min)))
    } else if value > max {
        Err(format!("{} is too large: write at most {}", text(value), text(max)))
    } else {
        Ok(value)
    }
}

fn unknown(kind: &str, wrong: &str, known: &[&str]) -> String {
    format!("unknown {kind} {wrong:?}{}", nearest(wrong, known))
}

/// Reads a value of a file as the flag does: `8080` and `"8080"` are the same. With `HAS_BOOL` so are `true` and `"true"`.
fn as_written<'de, const HAS_BOOL: bool, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    struct Written<const HAS_BOOL: bool, T>(std::marker::PhantomData<T>);

    impl<const HAS_BOOL: bool, T: FromStr<Err = String>> de::Visitor<'_> for Written<HAS_BOOL, T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a number")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_bool<E: de::Error>(self, flag: bool) -> Result<T, E> {
            match HAS_BOOL {
                true => self.visit_str(&flag.to_string()),
                false => Err(E::invalid_type(de::Unexpected::Bool(flag), &self)),
            }
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }

    deserializer.deserialize_any(Written::<HAS_BOOL, T>(std::marker::PhantomData))
}

/// Implements `Deserialize` and the schema of types that are read from text, or, with `true`, from `true` and `false`.
macro_rules! written {
    ($has_bool:literal: $($type:ident $(<$($name:ident: $of:ty),*>)? = $schema:tt)*) => {$(
        impl<'de, $($(const $name: $of),*)?> Deserialize<'de> for $type $(<$($name),*>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                as_written::<$has_bool, _, _>(deserializer)
            }
        }

        #[cfg(test)]
        impl $(<$(const $name: $of),*>)? schemars::JsonSchema for $type $(<$($name),*>)? {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )*};
}

written! {
    true:
    Listed = {
        "type": ["string", "boolean"],
        "enum": ["users", "connections", "count", "none", true, false]
    }
}

written! {
    false:
    Count<MIN: u32, MAX: u32> = { "type": "integer", "minimum": MIN, "maximum": MAX }
    Number = { "type": "integer", "minimum": 0 }
    Size<MIN: usize, MAX: usize> = {
        "type": ["string", "integer"], "pattern": "^[0-9]+(B|KiB|MiB|GiB)?$", "minimum": MIN
    }
    Time<MIN_US: u64, MAX_US: u64> = { "type": "string", "pattern": "^([0-9]+(us|ms|s|m|h)|0)$" }
    Address = { "type": "string" }
    Proxy = { "type": "string", "pattern": "^[0-9a-fA-F.:]+(/[0-9]+)?$" }
    Subprotocol = { "type": "string", "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" }
    TopicPattern = { "type": "string", "minLength": 1 }
    TopicName = { "type": "string", "minLength": 1 }
    Pointer = { "type": "string", "pattern": "^/" }
    Kind = { "type": "string", "enum": ["log", "value", "keyed"] }
    UpstreamAddress = { "type": "string", "pattern": "^https?://" }
    Url = { "type": "string", "pattern": "^https?://" }
    Level = { "type": "string", "enum": ["error", "warn", "info", "debug"] }
    LogFormat = { "type": "string", "enum": ["text", "json"] }
}
