//! `CAST`: converts a value to another type. A value outside of that type becomes NULL.

use thalweg_columns::Cell;

use crate::{
    civil::day_start,
    limits::CONVERSION_STEPS,
    meter::Meter,
    value::{finite, text_of, time},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Bool,
    /// An integer of this many bits.
    Int(u8),
    /// A double that also fits 32 bits.
    Real,
    Double,
    Time,
    /// The start of a day in UTC.
    Date,
    String,
}

impl Target {
    /// Converts a value to this type. `None` if the type has no such value, or the meter has no steps left.
    pub(crate) fn cast<'r>(self, cell: Cell<'r>, meter: &Meter) -> Option<Cell<'r>> {
        let cell = match cell {
            Cell::Json(text) => Cell::String(text),
            cell => cell,
        };
        let has_steps = match (self, &cell) {
            (Self::String, Cell::String(_)) => true,
            (_, Cell::String(text)) => meter.spend(CONVERSION_STEPS) && meter.scan(4 * text.len()),
            (Self::String, _) => meter.spend(CONVERSION_STEPS),
            _ => true,
        };
        if !has_steps {
            return None;
        }
        match self {
            _ if cell == Cell::Null => None,
            Self::Bool => boolean(cell),
            Self::Int(bits) => integer(&cell).filter(|number| fits(*number, bits)).map(Cell::Int),
            Self::Double => finite(double(&cell)?),
            Self::Real => finite(f64::from(double(&cell)? as f32)),
            Self::Time => instant(&cell).map(Cell::Time),
            Self::Date => instant(&cell).and_then(day_start).map(Cell::Time),
            Self::String => text_of(cell).map(Cell::String),
        }
    }
}

fn fits(number: i64, bits: u8) -> bool {
    let unused = 64 - u32::from(bits);
    (number << unused) >> unused == number
}

fn boolean(cell: Cell<'_>) -> Option<Cell<'_>> {
    let is_one_of = |text: &str, names: [&str; 5]| {
        names.iter().any(|name| name.eq_ignore_ascii_case(text.trim_ascii()))
    };
    Some(Cell::Bool(match cell {
        Cell::Bool(value) => value,
        Cell::Int(number) => number != 0,
        Cell::Double(number) => number != 0.0,
        Cell::String(text) if is_one_of(&text, ["true", "t", "yes", "y", "1"]) => true,
        Cell::String(text) if is_one_of(&text, ["false", "f", "no", "n", "0"]) => false,
        _ => return None,
    }))
}

fn integer(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Bool(value) => Some((*value).into()),
        Cell::Int(number) | Cell::Time(number) => Some(*number),
        Cell::Double(number) => nearest(*number),
        Cell::String(text) => parsed(text.trim_ascii()),
        _ => None,
    }
}

fn double(cell: &Cell<'_>) -> Option<f64> {
    match cell {
        Cell::Bool(value) => Some((*value).into()),
        Cell::Int(number) => Some(*number as f64),
        Cell::Double(number) => Some(*number),
        Cell::String(text) => text.trim_ascii().parse().ok(),
        _ => None,
    }
}

fn instant(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Int(ms) | Cell::Time(ms) => thalweg_columns::time_in_range(*ms),
        Cell::String(text) => time(text),
        _ => None,
    }
}

/// Returns the nearest integer, halves to even, if it fits 64 bits.
fn nearest(number: f64) -> Option<i64> {
    let whole = number.round_ties_even();
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole);
    fits.then_some(whole as i64)
}

/// Returns the integer nearest to a decimal number, halves away from zero, if it fits 64 bits: `12`, `-1.5`, `2e3`.
fn parsed(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, power_of_ten(exponent)?),
        None => (text, 0),
    };
    let unsigned = number.strip_prefix(['-', '+']).unwrap_or(number);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // Digits before the decimal point, without leading zeros.
    let zeros = digits().take_while(|digit| *digit == b'0').count() as i64;
    let places = whole.len() as i64 + exponent - zeros;
    if places < 0 || digits().count() as i64 == zeros {
        return Some(0);
    }
    // The largest integer has 19 digits.
    if places > 19 {
        return None;
    }
    let mut rest = digits().skip(zeros as usize).map(|digit| i128::from(digit - b'0'));
    let whole = (0..places).fold(0, |sum, _| sum * 10 + rest.next().unwrap_or(0));
    let nearest = whole + i128::from(rest.next().unwrap_or(0) >= 5);
    i64::try_from(if number.starts_with('-') { -nearest } else { nearest }).ok()
}

/// Returns the exponent of a number such as `1e5`, clamped to a size that no text has enough digits to offset.
fn power_of_ten(exponent: &str) -> Option<i64> {
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(i64::MAX).min(1 << 40);
    Some(if exponent.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_nearest_integers() {
        for (text, expected) in [
            ("12", Some(12)),
            ("+5", Some(5)),
            ("12.5", Some(13)),
            ("-2.5", Some(-3)),
            ("12.", Some(12)),
            (".5", Some(1)),
            ("1e3", Some(1000)),
            ("1.5E+1", Some(15)),
            ("1e-1", Some(0)),
            ("5e-1", Some(1)),
            ("0.00001e5", Some(1)),
            ("0e99999999999999999999", Some(0)),
            ("1e-99999999999999999999", Some(0)),
            ("9223372036854775807.4", Some(i64::MAX)),
            ("92233720368547758.07e2", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775807.5", None),
            ("-9223372036854775808.5", None),
            ("1e100", None),
            ("", None),
            (".", None),
            ("-", None),
            ("--5", None),
            ("1e", None),
            ("1 2", None),
            ("true", None),
            ("1_000", None),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn doubles_are_the_nearest_integers() {
        for (number, expected) in [
            (2.5, Some(2)),
            (3.5, Some(4)),
            (-2.5, Some(-2)),
            (0.5, Some(0)),
            (2.4999, Some(2)),
            (-9_223_372_036_854_775_808.0, Some(i64::MIN)),
            (9_223_372_036_854_775_808.0, None),
            (1e300, None),
        ] {
            assert_eq!(nearest(number), expected, "{number}");
        }
    }
}
