//! Values and comparisons.

use std::{borrow::Cow, cmp::Ordering};

use smallvec::SmallVec;
use thalweg_columns::Cell;

use crate::{
    limits::{CALL_STEPS, CONVERSION_STEPS},
    meter::Meter,
};

/// Integers up to this one are distinct doubles.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// Compares two values of comparable types; `None` if one is NULL. Texts compare by code points, and false is less than true.
#[inline]
pub(crate) fn compare(left: &Cell<'_>, right: &Cell<'_>) -> Option<Ordering> {
    match (left, right) {
        (Cell::Int(left), Cell::Int(right)) | (Cell::Time(left), Cell::Time(right)) => {
            Some(left.cmp(right))
        }
        (Cell::Double(left), Cell::Double(right)) => left.partial_cmp(right),
        (Cell::Int(left), Cell::Double(right)) => compare_mixed(*left, *right),
        (Cell::Double(left), Cell::Int(right)) => {
            compare_mixed(*right, *left).map(Ordering::reverse)
        }
        (Cell::String(left), Cell::String(right)) => Some(left.cmp(right)),
        (Cell::Bool(left), Cell::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

#[inline]
pub(crate) fn compared(left: &Cell<'_>, right: &Cell<'_>, meter: &Meter) -> Option<Ordering> {
    match (left, right) {
        // Most values are numbers.
        (Cell::Double(left), Cell::Double(right)) => left.partial_cmp(right),
        (Cell::String(left), Cell::String(right)) => {
            meter.copy(left.len().min(right.len())).then(|| left.cmp(right))
        }
        _ => compare(left, right),
    }
}

/// Joins values as one text, with NULL as an empty text. NULL if the result is too long.
pub(crate) fn joined<'r>(cells: &[Cell<'_>], meter: &Meter) -> Cell<'r> {
    let is_number =
        |cell: &&Cell<'_>| matches!(cell, Cell::Int(_) | Cell::Double(_) | Cell::Time(_));
    let numbers = cells.iter().filter(is_number).count() as u64;
    if !meter.spend(CALL_STEPS + numbers * CONVERSION_STEPS) {
        return Cell::Null;
    }
    let parts: SmallVec<[Cow<'_, str>; 4]> = cells.iter().filter_map(text).collect();
    let bytes = parts.iter().map(|part| part.len()).sum();
    if !meter.make(bytes) {
        return Cell::Null;
    }
    let mut all = String::with_capacity(bytes);
    parts.iter().for_each(|part| all.push_str(part));
    Cell::String(Cow::Owned(all))
}

/// Compares exactly, even integers that a double cannot hold.
fn compare_mixed(left: i64, right: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if right.is_nan() {
        return None;
    }
    if right >= BEYOND {
        return Some(Ordering::Less);
    }
    if right < -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = right.trunc() as i64;
    Some(left.cmp(&whole).then_with(|| 0.0_f64.total_cmp(&(right.fract() + 0.0))))
}

/// Returns a double, if JSON can express it.
#[inline]
pub(crate) fn finite<'r>(number: f64) -> Option<Cell<'r>> {
    number.is_finite().then_some(Cell::Double(number))
}

pub(crate) fn truth<'r>(is_true: Option<bool>) -> Cell<'r> {
    is_true.map_or(Cell::Null, Cell::Bool)
}

/// Returns the instant of a text: as in a time column, or a date.
pub(crate) fn time(text: &str) -> Option<i64> {
    thalweg_columns::parse_time_or_date_ms(text.trim().as_bytes())
}

/// Returns a value as text; `None` for NULL.
pub(crate) fn text<'r>(cell: &'r Cell<'_>) -> Option<Cow<'r, str>> {
    text_of(borrowed(cell))
}

pub(crate) fn text_of(cell: Cell<'_>) -> Option<Cow<'_, str>> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
        Cell::Int(number) => Cow::Owned(number.to_string()),
        Cell::Double(number) => Cow::Owned(double_text(number)),
        Cell::Time(ms) => Cow::Owned(thalweg_columns::time_text(ms)?),
        Cell::String(text) | Cell::Json(text) => text,
    })
}

/// Returns the shortest text of a double: `0.1`, `1e+300`, `1e-05`.
fn double_text(number: f64) -> String {
    let text = format!("{number:?}");
    match text.split_once('e') {
        None => text,
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
    }
}

#[inline]
pub(crate) fn borrowed<'r>(cell: &'r Cell<'_>) -> Cell<'r> {
    match cell {
        Cell::Null => Cell::Null,
        Cell::Bool(value) => Cell::Bool(*value),
        Cell::Int(number) => Cell::Int(*number),
        Cell::Double(number) => Cell::Double(*number),
        Cell::Time(ms) => Cell::Time(*ms),
        Cell::String(text) => Cell::String(Cow::Borrowed(text)),
        Cell::Json(text) => Cell::Json(Cow::Borrowed(text)),
    }
}

/// Returns the same value with its own memory of exact size.
pub(crate) fn owned(cell: Cell<'_>) -> Cell<'static> {
    match cell {
        Cell::Null => Cell::Null,
        Cell::Bool(value) => Cell::Bool(value),
        Cell::Int(number) => Cell::Int(number),
        Cell::Double(number) => Cell::Double(number),
        Cell::Time(ms) => Cell::Time(ms),
        Cell::String(text) => Cell::String(Cow::Owned(shrunk(text))),
        Cell::Json(text) => Cell::Json(Cow::Owned(shrunk(text))),
    }
}

fn shrunk(text: Cow<'_, str>) -> String {
    let mut text = text.into_owned();
    text.shrink_to_fit();
    text
}
