use std::borrow::Cow;

use crate::{
    Kind,
    decimal::EXACT_MAX,
    json::Value,
    schema::ColumnType,
    time::{self, TimeUnit},
    unescape::unescape,
};

/// One value of a row: of its column's type, or null.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// No value, or a value that is not of its column's type.
    Null,
    /// A value of [`Kind::Bool`].
    Bool(bool),
    /// A value of [`Kind::Int`].
    Int(i64),
    /// A value of [`Kind::Double`].
    Double(f64),
    /// A value of [`Kind::Time`], in ms since 1970.
    Time(i64),
    /// A value of [`Kind::String`].
    String(Cow<'a, str>),
    /// A value of [`Kind::Json`]: its text.
    Json(Cow<'a, str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Returns a value of an inferred type, without conversion. `text` is the value's JSON.
pub(crate) fn typed_cell<'a>(
    kind: Kind,
    value: Value<'a>,
    text: &'a [u8],
) -> Result<Cell<'a>, Unreadable> {
    Ok(match (kind, value) {
        (_, Value::Null) => Cell::Null,
        (Kind::Int, Value::Int(number)) => Cell::Int(number),
        (Kind::Double, Value::Double(number)) => Cell::Double(number),
        (Kind::Double, Value::Int(number)) if number.unsigned_abs() <= EXACT_MAX => {
            Cell::Double(number as f64)
        }
        (Kind::Time, Value::String(text, has_escapes)) => {
            Cell::Time(instant(text, has_escapes).ok_or(Unreadable)?)
        }
        (Kind::String, Value::String(text, false)) => Cell::String(utf8(text)),
        (Kind::String, Value::String(text, true)) => {
            Cell::String(unescape(text).ok_or(Unreadable)?)
        }
        (Kind::Bool, Value::Bool(value)) => Cell::Bool(value),
        (Kind::Json, _) => Cell::Json(utf8(text)),
        _ => return Err(Unreadable),
    })
}

/// Returns a value of a declared type, with conversion: a string may hold a number, a number in a time column is in
/// the column's unit, and a string column holds other values as JSON.
pub(crate) fn as_declared<'a>(
    declared: ColumnType,
    value: Value<'a>,
    text: &'a [u8],
) -> Result<Cell<'a>, Unreadable> {
    let kind = declared.kind;
    Ok(match (kind, value) {
        (_, Value::Null) => Cell::Null,
        (Kind::Int, Value::Double(_) | Value::Huge) => Cell::Int(integer(text).ok_or(Unreadable)?),
        (Kind::Double, Value::Int(number)) => Cell::Double(number as f64),
        (Kind::Double, Value::Huge) => Cell::Double(double(text)?),
        (Kind::Double, Value::String(text, false)) => Cell::Double(double(text)?),
        (Kind::Int, Value::String(text, false)) => Cell::Int(parsed(text)?),
        (Kind::Bool, Value::Int(number @ 0..=1)) => Cell::Bool(number == 1),
        (Kind::Time, _) => Cell::Time(declared_ms(declared.unit, value, text).ok_or(Unreadable)?),
        (Kind::String, Value::String(..)) => return typed_cell(kind, value, text),
        (Kind::String, _) => Cell::String(utf8(text)),
        _ => return typed_cell(kind, value, text),
    })
}

/// Returns the instant in a JSON string. Some serializers escape the sign of its offset.
pub(crate) fn instant(text: &[u8], has_escapes: bool) -> Option<i64> {
    /// Bytes of an instant with every character escaped and more decimals than are significant.
    const ESCAPED_BYTES_MAX: usize = 256;
    match has_escapes {
        false => time::parse_ms(text),
        true if text.len() <= ESCAPED_BYTES_MAX => time::parse_ms(unescape(text)?.as_bytes()),
        true => None,
    }
}

/// Returns the instant of a value in a declared time column. `text` is the value's JSON.
fn declared_ms(unit: TimeUnit, value: Value<'_>, text: &[u8]) -> Option<i64> {
    match value {
        Value::Int(number) => unit.ms(number),
        Value::Double(_) => unit.ms_of_text(text),
        Value::String(text, false) => {
            time::parse_instant_or_date(text).or_else(|| unit.ms(parsed(text).ok()?))
        }
        Value::String(text, true) => instant(text, true),
        Value::Null | Value::Bool(_) | Value::Huge | Value::Nested => None,
    }
}

/// Returns bytes as text. Events are valid UTF-8; invalid bytes are replaced.
pub(crate) fn utf8(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// Parses a double. Rejects "NaN" and "inf", which Rust's parser accepts, but which are not JSON numbers.
fn double(text: &[u8]) -> Result<f64, Unreadable> {
    parsed(text)
        .and_then(|number: f64| if number.is_finite() { Ok(number) } else { Err(Unreadable) })
}

/// Returns the number in a JSON text with a fraction or an exponent if it is an integer of 64 bits. The digits decide,
/// because a double may have been rounded to an integer.
fn integer(text: &[u8]) -> Option<i64> {
    let text = str::from_utf8(text).ok()?;
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    if significant.trim_start_matches(['-', '0']).is_empty() {
        return Some(0);
    }
    let zeros = (digits.len() - significant.len()) as i64 - fraction.len() as i64;
    let zeros = zeros.checked_add(exponent.parse().ok()?)?;
    // An integer of 64 bits has 19 digits.
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros < 19)?;
    format!("{significant}{}", "0".repeat(zeros)).parse().ok()
}

fn parsed<N: std::str::FromStr>(text: &[u8]) -> Result<N, Unreadable> {
    let text = std::str::from_utf8(text).map_err(|_| Unreadable)?;
    text.trim().parse().map_err(|_| Unreadable)
}
