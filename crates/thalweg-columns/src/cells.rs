use std::borrow::Cow;

use crate::{Kind, decimal::EXACT_MAX, json::Value, time, unescape::unescape};

/// One value of a row, of its column's type or null.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// No value, or one that could not be read as its column's type.
    Null,
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Int`].
    Int(i64),
    /// Of [`Kind::Double`].
    Double(f64),
    /// Of [`Kind::Time`], in ms since 1970.
    Time(i64),
    /// Of [`Kind::String`].
    String(Cow<'a, str>),
    /// Of [`Kind::Json`]: its text.
    Json(Cow<'a, str>),
}

/// A value is not of its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// A value as inferred types have it: only what is of the column's type. `text` is the value's JSON.
pub(crate) fn of_type<'a>(
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
        (Kind::Time, Value::String(text, false)) => {
            Cell::Time(time::parse_ms(text).ok_or(Unreadable)?)
        }
        (Kind::String, Value::String(text, false)) => Cell::String(utf8(text)),
        (Kind::String, Value::String(text, true)) => Cell::String(unescaped(text).into()),
        (Kind::Bool, Value::Bool(value)) => Cell::Bool(value),
        (Kind::Json, _) => Cell::Json(utf8(text)),
        _ => return Err(Unreadable),
    })
}

/// The same as declared types have it: a number in a string is a number, and what is no string
/// is one as JSON.
pub(crate) fn as_declared<'a>(
    kind: Kind,
    value: Value<'a>,
    text: &'a [u8],
) -> Result<Cell<'a>, Unreadable> {
    Ok(match (kind, value) {
        (_, Value::Null) => Cell::Null,
        (Kind::Int, Value::Double(_) | Value::Huge) => Cell::Int(integer(text).ok_or(Unreadable)?),
        (Kind::Double, Value::Int(number)) => Cell::Double(number as f64),
        (Kind::Double, Value::Huge) => Cell::Double(double(text)?),
        (Kind::Double, Value::String(text, false)) => Cell::Double(double(text)?),
        (Kind::Int, Value::String(text, false)) => Cell::Int(parsed(text)?),
        (Kind::Bool, Value::Int(number @ 0..=1)) => Cell::Bool(number == 1),
        (Kind::Time, Value::Int(ms)) => Cell::Time(ms),
        (Kind::String, Value::String(..)) => return of_type(kind, value, text),
        (Kind::String, _) => Cell::String(utf8(text)),
        _ => return of_type(kind, value, text),
    })
}

/// Events are known to be UTF-8; what is not as promised is read all the same.
fn utf8(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// Rust's parser reads "NaN" and "inf", too, which are no numbers of JSON.
fn double(text: &[u8]) -> Result<f64, Unreadable> {
    parsed(text)
        .and_then(|number: f64| if number.is_finite() { Ok(number) } else { Err(Unreadable) })
}

/// The number of a JSON text that may have a fraction or an exponent, if it is an integer of 64 bits: as it is
/// written, because as a double it may have been rounded to one.
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

/// What a JSON string says. `text` is without its quotes.
pub(crate) fn unescaped(text: &[u8]) -> String {
    let mut said = Vec::new();
    unescape(text, &mut said);
    String::from_utf8_lossy(&said).into_owned()
}
