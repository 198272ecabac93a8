//! Durations and sizes with a unit: `500us`, `1h`, `10KB`, `64KiB`. A number without a unit has the unit at the end of its key.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::marker::PhantomData;
use std::time::Duration;

/// The unit of a key's numbers, with the factors of the units that a string may have.
pub(super) struct QuantityUnit {
    factors: &'static [(&'static str, u64)],
    /// Number of smallest units in one unit of the key.
    divisor: u64,
    example: &'static str,
}

const TIMES: &[(&str, u64)] = &[
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];
const MICROSECONDS: QuantityUnit = time(1);
const MILLISECONDS: QuantityUnit = time(1_000);
const SECONDS: QuantityUnit = time(1_000_000);
const BYTES: QuantityUnit = QuantityUnit {
    factors: SIZES,
    divisor: 1,
    example: "bytes, or a number and B, KB, MB, GB, KiB, MiB or GiB",
};

const fn time(divisor: u64) -> QuantityUnit {
    QuantityUnit { factors: TIMES, divisor, example: "a number and us, ms, s, m, h or d" }
}

impl QuantityUnit {
    /// Returns the number of a string in the key's unit. Only whole numbers are valid.
    fn parse(&self, text: &str) -> Result<u64, String> {
        let wrong = || format!("`{text}` needs {}", self.example);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, factor) = self.factors.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let smallest = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
        let smallest = smallest.ok_or_else(wrong)?;
        if !smallest.is_multiple_of(self.divisor) {
            return Err(format!("`{text}` is too precise for this key"));
        }
        Ok(smallest / self.divisor)
    }

    /// Replaces strings with units by numbers.
    fn number(&self, value: toml::Value) -> Result<toml::Value, String> {
        Ok(match value {
            toml::Value::String(text) => {
                let number = self.parse(&text)?;
                i64::try_from(number).map_err(|_| format!("`{text}` is too much"))?.into()
            }
            toml::Value::Array(values) => {
                let numbers: Result<Vec<_>, _> =
                    values.into_iter().map(|value| self.number(value)).collect();
                toml::Value::Array(numbers?)
            }
            other => other,
        })
    }

    fn read<'de, T: DeserializeOwned, D: Deserializer<'de>>(&self, from: D) -> Result<T, D::Error> {
        let custom = |error: &dyn Display| D::Error::custom(error);
        let value = self.number(toml::Value::deserialize(from)?).map_err(|error| custom(&error))?;
        value.try_into().map_err(|error: toml::de::Error| custom(&error.message()))
    }
}

/// Parses a time with a unit, such as `250ms`.
///
/// # Errors
/// Returns a sentence with the units.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    MICROSECONDS.parse(text).map(Duration::from_micros)
}

/// Parses a size, such as `64KiB` or `512`.
///
/// # Errors
/// Returns a sentence with the units.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().or_else(|_| BYTES.parse(text))?;
    usize::try_from(bytes).map_err(|_| format!("`{text}` is too much"))
}

/// Reads a number of microseconds.
pub(super) fn us<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    MICROSECONDS.read(from)
}

/// Reads a number of bytes.
pub(super) fn bytes<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    BYTES.read(from)
}

/// Reads a number of milliseconds.
pub(super) fn ms<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    MILLISECONDS.read(from)
}

/// Reads a number of seconds.
pub(super) fn s<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    SECONDS.read(from)
}

/// The unit of a key's numbers, as a type.
pub(super) trait Unit {
    const OF: Option<QuantityUnit>;

    /// Replaces strings with units by numbers.
    fn number(value: toml::Value) -> Result<toml::Value, String> {
        match Self::OF {
            Some(unit) => unit.number(value),
            None => Ok(value),
        }
    }
}

macro_rules! units {
    ($($(#[$doc:meta])* $name:ident = $of:expr;)*) => {
        $($(#[$doc])* #[derive(Clone, Debug)]
        pub(super) enum $name {}

        impl Unit for $name {
            const OF: Option<QuantityUnit> = $of;
        })*
    };
}

units! {
    /// Words, and numbers without a unit.
    Plain = None;
    Us = Some(MICROSECONDS);
    Ms = Some(MILLISECONDS);
    Bytes = Some(BYTES);
}

/// One value or a list of values, with the unit of their numbers.
#[derive(Clone, Debug)]
pub(super) struct Axis<T, U = Plain>(pub(super) Vec<T>, pub(super) PhantomData<U>);

impl<'de, T: DeserializeOwned, U: Unit> Deserialize<'de> for Axis<T, U> {
    // By hand rather than `untagged`, which would swallow the reason why a
    // value was refused.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = toml::Value::deserialize(deserializer)?;
        let values = match U::number(value).map_err(D::Error::custom)? {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        if values.is_empty() {
            return Err(D::Error::custom("an empty list leaves no cell"));
        }
        let parsed: Result<Vec<T>, toml::de::Error> =
            values.into_iter().map(toml::Value::try_into).collect();
        parsed
            .map(|values| Axis(values, PhantomData))
            .map_err(|error| D::Error::custom(error.message()))
    }
}

pub(super) fn bytes_label(bytes: u32) -> String {
    if bytes >= 1024 && bytes.is_multiple_of(1024) {
        format!("{} KiB", bytes / 1024)
    } else if bytes >= 1_000_000 && bytes.is_multiple_of(1_000_000) {
        format!("{} MB", bytes / 1_000_000)
    } else if bytes >= 1000 && bytes.is_multiple_of(1000) {
        format!("{} kB", bytes / 1000)
    } else {
        format!("{bytes} B")
    }
}

/// The schema of these keys.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum Quantity {
    Number(u64),
    WithUnit(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_units() {
        for (text, expected) in [("500us", 500), ("10ms", 10_000), ("1h", 3_600_000_000)] {
            assert_eq!(MICROSECONDS.parse(text), Ok(expected));
        }
        for (text, expected) in [("10KB", 10_000), ("1MB", 1_000_000), ("64KiB", 65_536)] {
            assert_eq!(BYTES.parse(text), Ok(expected));
        }
        assert_eq!(SECONDS.parse("2m"), Ok(120));
        assert_eq!(parse_duration("2d"), Ok(Duration::from_secs(2 * 86_400)));
        assert_eq!((parse_bytes("512"), parse_bytes("1KiB")), (Ok(512), Ok(1024)));
    }

    #[test]
    fn other_strings_are_refused() {
        for text in ["", "us", "1", "1 us", "-1us", "1.5us", "10KB", "18446744073709551615h"] {
            assert!(MICROSECONDS.parse(text).is_err(), "{text}");
        }
        assert!(parse_duration("5").is_err() && parse_bytes("1kb").is_err());
        assert_eq!(MILLISECONDS.parse("500us"), Err("`500us` is too precise for this key".into()));
    }
}
