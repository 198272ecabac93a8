//! Functions of one row's values. Each is NULL if an argument is NULL, except `coalesce`, `least`, `greatest`, `nullif`
//! and `concat`.

use std::borrow::Cow;

use smallvec::SmallVec;
use thalweg_columns::{Cell, Kind};

use crate::{
    civil,
    limits::{CALL_STEPS, CONVERSION_STEPS},
    meter::Meter,
    rounding::{rounded, rounded_int},
    value::{compared, finite, joined, truth},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Sign,
    Round,
    Floor,
    Ceil,
    Sqrt,
    Power,
    Exp,
    Ln,
    Mod,
    Least,
    Greatest,
    Coalesce,
    NullIf,
    Lower,
    Upper,
    Length,
    Substr,
    Trim,
    LeftTrim,
    RightTrim,
    Replace,
    Concat,
    StartsWith,
    Position,
    DateTrunc,
    Extract,
    EpochMs,
}

/// The arguments and the result of a function.
#[derive(Debug)]
pub struct Signature {
    pub(crate) function: Function,
    /// Its names, in lower case.
    pub names: &'static [&'static str],
    /// The call, with the types of its arguments.
    pub usage: &'static str,
    /// The meaning, as a noun phrase.
    pub meaning: &'static str,
    /// Returns the type of the result for arguments of these types; `None` if the function does not accept them.
    pub(crate) result: fn(&[Kind]) -> Option<Kind>,
}

/// All functions, in the order of the documentation.
pub const FUNCTIONS: &[Signature] = &[
    entry(Function::Abs, &["abs"], "abs(number)", "the number without its sign", same_number),
    entry(Function::Sign, &["sign"], "sign(number)", "-1, 0 or 1", |types| {
        number(types).map(|_| Kind::Int)
    }),
    entry(
        Function::Round,
        &["round"],
        "round(number [, digits])",
        "the nearest number with this many decimals (0 by default), halves away from zero",
        round,
    ),
    entry(
        Function::Floor,
        &["floor"],
        "floor(number)",
        "the number, rounded down to a whole number",
        same_number,
    ),
    entry(
        Function::Ceil,
        &["ceil", "ceiling"],
        "ceil(number)",
        "the number, rounded up to a whole number",
        same_number,
    ),
    entry(Function::Sqrt, &["sqrt"], "sqrt(number)", "the square root", to_double),
    entry(
        Function::Power,
        &["power", "pow"],
        "power(number, exponent)",
        "the number to this power",
        two_to_double,
    ),
    entry(Function::Exp, &["exp"], "exp(number)", "e to this power", to_double),
    entry(Function::Ln, &["ln"], "ln(number)", "the natural logarithm", to_double),
    entry(
        Function::Mod,
        &["mod"],
        "mod(number, number)",
        "the remainder of a division, as with %",
        |types| match types {
            [one, other] if is_number(*one) && is_number(*other) => common(*one, *other),
            _ => None,
        },
    ),
    entry(
        Function::Least,
        &["least"],
        "least(value, value, …)",
        "the smallest that is not NULL",
        one_type,
    ),
    entry(
        Function::Greatest,
        &["greatest"],
        "greatest(value, value, …)",
        "the largest that is not NULL",
        one_type,
    ),
    entry(
        Function::Coalesce,
        &["coalesce", "ifnull"],
        "coalesce(value, value, …)",
        "the first that is not NULL",
        one_type,
    ),
    entry(
        Function::NullIf,
        &["nullif"],
        "nullif(value, value)",
        "NULL if they are equal, otherwise the first",
        |types| {
            if types.len() == 2 { one_type(types) } else { None }
        },
    ),
    entry(
        Function::Lower,
        &["lower"],
        "lower(string)",
        "the string in lower case",
        string_to_string,
    ),
    entry(
        Function::Upper,
        &["upper"],
        "upper(string)",
        "the string in upper case",
        string_to_string,
    ),
    entry(
        Function::Length,
        &["length", "char_length"],
        "length(string)",
        "the number of characters",
        |types| matches!(types, [Kind::String]).then_some(Kind::Int),
    ),
    entry(
        Function::Substr,
        &["substr", "substring"],
        "substr(string, from [, count])",
        "the characters from a position on: the first is 1, the last -1; a negative count takes characters before the position",
        |types| {
            matches!(types, [Kind::String, Kind::Int] | [Kind::String, Kind::Int, Kind::Int])
                .then_some(Kind::String)
        },
    ),
    entry(
        Function::Trim,
        &["trim"],
        "trim(string)",
        "without spaces at both ends",
        string_to_string,
    ),
    entry(
        Function::LeftTrim,
        &["ltrim"],
        "ltrim(string)",
        "without spaces at the beginning",
        string_to_string,
    ),
    entry(
        Function::RightTrim,
        &["rtrim"],
        "rtrim(string)",
        "without spaces at the end",
        string_to_string,
    ),
    entry(
        Function::Replace,
        &["replace"],
        "replace(string, what, with)",
        "each occurrence replaced",
        |types| matches!(types, [Kind::String, Kind::String, Kind::String]).then_some(Kind::String),
    ),
    entry(
        Function::Concat,
        &["concat"],
        "concat(value, value, …)",
        "all values as one text, NULL as an empty text",
        |types| (!types.is_empty()).then_some(Kind::String),
    ),
    entry(
        Function::StartsWith,
        &["starts_with"],
        "starts_with(string, string)",
        "whether the string begins with the prefix",
        |types| matches!(types, [Kind::String, Kind::String]).then_some(Kind::Bool),
    ),
    entry(
        Function::Position,
        &["strpos", "instr"],
        "strpos(string, string)",
        "the first position of the second string in the first, counted from 1; 0 if it is not there",
        |types| matches!(types, [Kind::String, Kind::String]).then_some(Kind::Int),
    ),
    entry(
        Function::DateTrunc,
        &["date_trunc"],
        "date_trunc('hour', time)",
        "the start of the unit around the time: second, minute, hour, day, week, month, quarter, year",
        |types| matches!(types, [Kind::String, Kind::Time]).then_some(Kind::Time),
    ),
    entry(
        Function::Extract,
        &["date_part"],
        "extract(hour FROM time)",
        "a part of a time (UTC): millisecond (of the minute), second, minute, hour, day, week and isoyear (ISO 8601), month, quarter, year, dow (Sunday is 0), isodow (Sunday is 7), doy, epoch (a double)",
        |types| matches!(types, [Kind::String, Kind::Time]).then_some(Kind::Int),
    ),
    entry(Function::EpochMs, &["epoch_ms"], "epoch_ms(time)", "milliseconds since 1970", |types| {
        matches!(types, [Kind::Time]).then_some(Kind::Int)
    }),
];

const fn entry(
    function: Function,
    names: &'static [&'static str],
    usage: &'static str,
    meaning: &'static str,
    result: fn(&[Kind]) -> Option<Kind>,
) -> Signature {
    Signature { function, names, usage, meaning, result }
}

fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Int | Kind::Double)
}

fn number(types: &[Kind]) -> Option<Kind> {
    match types {
        [kind] if is_number(*kind) => Some(*kind),
        _ => None,
    }
}

fn same_number(types: &[Kind]) -> Option<Kind> {
    number(types)
}

fn to_double(types: &[Kind]) -> Option<Kind> {
    number(types).map(|_| Kind::Double)
}

fn two_to_double(types: &[Kind]) -> Option<Kind> {
    matches!(types, [one, other] if is_number(*one) && is_number(*other)).then_some(Kind::Double)
}

fn round(types: &[Kind]) -> Option<Kind> {
    match types {
        [kind] | [kind, Kind::Int] => number(&[*kind]),
        _ => None,
    }
}

fn string_to_string(types: &[Kind]) -> Option<Kind> {
    matches!(types, [Kind::String]).then_some(Kind::String)
}

/// Returns the common type; int and double give double, and NULL fits every type.
pub(crate) fn one_type(types: &[Kind]) -> Option<Kind> {
    let first = types.first().copied()?;
    types[1..].iter().try_fold(first, |one, other| common(one, *other))
}

/// Returns the type that holds the values of both.
pub(crate) fn common(one: Kind, other: Kind) -> Option<Kind> {
    match (one, other) {
        (one, other) if one == other => Some(one),
        (Kind::Null, kind) | (kind, Kind::Null) => Some(kind),
        (Kind::Int, Kind::Double) | (Kind::Double, Kind::Int) => Some(Kind::Double),
        _ => None,
    }
}

/// The arguments of a call; nearly all calls have at most three.
pub(crate) type Arguments<'r> = SmallVec<[Cell<'r>; 4]>;

impl Function {
    pub(crate) fn call<'r>(self, arguments: Arguments<'r>, meter: &Meter) -> Cell<'r> {
        if !meter.spend(CALL_STEPS + arguments.len() as u64) {
            return Cell::Null;
        }
        match self {
            Self::Coalesce => {
                arguments.into_iter().find(|cell| *cell != Cell::Null).unwrap_or(Cell::Null)
            }
            Self::Least | Self::Greatest => {
                let wanted = if self == Self::Least {
                    std::cmp::Ordering::Less
                } else {
                    std::cmp::Ordering::Greater
                };
                let better = |best: Cell<'r>, cell: Cell<'r>| match compared(&cell, &best, meter) {
                    Some(order) if order == wanted => cell,
                    _ => best,
                };
                arguments
                    .into_iter()
                    .filter(|cell| *cell != Cell::Null)
                    .reduce(better)
                    .unwrap_or(Cell::Null)
            }
            Self::Concat => joined(&arguments, meter),
            Self::NullIf => {
                let [first, second] = two(arguments);
                match compared(&first, &second, meter) {
                    Some(order) if order.is_eq() => Cell::Null,
                    _ => first,
                }
            }
            _ if arguments.contains(&Cell::Null) => Cell::Null,
            Self::Lower
            | Self::Upper
            | Self::Length
            | Self::Substr
            | Self::Trim
            | Self::LeftTrim
            | Self::RightTrim
            | Self::Replace
            | Self::StartsWith
            | Self::Position => self.apply_text(&arguments, meter),
            _ if !meter.spend(CONVERSION_STEPS) => Cell::Null,
            Self::DateTrunc | Self::Extract | Self::EpochMs => {
                meter.result(self.apply_time(&arguments))
            }
            _ => meter.result(self.apply_numbers(&arguments)),
        }
    }

    /// Returns `None` if there is no result, e.g. for the square root of -1.
    fn apply_numbers<'r>(self, arguments: &[Cell<'_>]) -> Option<Cell<'r>> {
        let double = |index: usize| match arguments.get(index) {
            Some(Cell::Int(number)) => *number as f64,
            Some(Cell::Double(number)) => *number,
            _ => f64::NAN,
        };
        match (self, arguments) {
            (Self::Abs, [Cell::Int(number)]) => number.checked_abs().map(Cell::Int),
            (Self::Floor | Self::Ceil | Self::Round, [Cell::Int(number)]) => {
                Some(Cell::Int(*number))
            }
            (Self::Round, [Cell::Int(number), Cell::Int(digits)]) => {
                rounded_int(*number, *digits).map(Cell::Int)
            }
            (Self::Mod, [Cell::Int(left), Cell::Int(right)]) => {
                left.checked_rem(*right).map(Cell::Int)
            }
            (Self::Mod, _) => finite(double(0) % double(1)),
            (Self::Sign, [Cell::Int(number)]) => Some(Cell::Int(number.signum())),
            (Self::Sign, _) if double(0) == 0.0 => Some(Cell::Int(0)),
            (Self::Sign, _) => Some(Cell::Int(double(0).signum() as i64)),
            (Self::Abs, _) => finite(double(0).abs()),
            (Self::Floor, _) => finite(double(0).floor()),
            (Self::Ceil, _) => finite(double(0).ceil()),
            (Self::Round, [_, Cell::Int(digits)]) => finite(rounded(double(0), *digits)),
            (Self::Round, _) => finite(double(0).round()),
            (Self::Sqrt, _) => finite(double(0).sqrt()),
            (Self::Exp, _) => finite(double(0).exp()),
            (Self::Ln, _) => finite(double(0).ln()),
            (Self::Power, _) => finite(double(0).powf(double(1))),
            _ => None,
        }
    }

    /// Calls a function of texts. Counts the bytes of the texts before reading or making them.
    fn apply_text<'r>(self, arguments: &[Cell<'r>], meter: &Meter) -> Cell<'r> {
        let made = |text: &str| match meter.make(text.len()) {
            true => Cell::String(Cow::Owned(text.to_owned())),
            false => Cell::Null,
        };
        let [Cell::String(text), rest @ ..] = arguments else { return Cell::Null };
        let is_scanned = match self {
            Self::Lower | Self::Upper if text.is_ascii() => meter.copy(4 * text.len()),
            Self::Lower | Self::Upper => meter.scan(4 * text.len()),
            Self::Length => meter.copy(text.len()),
            Self::StartsWith => match rest {
                [Cell::String(start)] => meter.copy(start.len()),
                _ => true,
            },
            // The result is at most as long as the argument.
            Self::Trim | Self::LeftTrim | Self::RightTrim => meter.scan(text.len()),
            _ => meter.scan(2 * text.len()),
        };
        if !is_scanned {
            return Cell::Null;
        }
        match (self, rest) {
            (Self::Lower, []) => changed(text, str::to_lowercase, meter),
            (Self::Upper, []) => changed(text, str::to_uppercase, meter),
            (Self::Length, []) => Cell::Int(text.chars().count() as i64),
            (Self::Trim, []) => made(text.trim_matches(' ')),
            (Self::LeftTrim, []) => made(text.trim_start_matches(' ')),
            (Self::RightTrim, []) => made(text.trim_end_matches(' ')),
            (Self::Substr, [Cell::Int(from), rest @ ..]) => {
                let count = match rest {
                    [Cell::Int(count)] => *count,
                    _ => i64::MAX,
                };
                made(substring(text, *from, count))
            }
            (Self::Replace, [Cell::String(what), Cell::String(with)]) => {
                replaced(text, what, with, meter)
            }
            (Self::StartsWith, [Cell::String(start)]) => truth(Some(text.starts_with(&**start))),
            (Self::Position, [Cell::String(part)]) => {
                if !meter.scan(2 * part.len()) {
                    return Cell::Null;
                }
                let place =
                    text.find(&**part).map_or(0, |at| text[..at].chars().count() as i64 + 1);
                Cell::Int(place)
            }
            _ => Cell::Null,
        }
    }

    fn apply_time<'r>(self, arguments: &[Cell<'_>]) -> Option<Cell<'r>> {
        match (self, arguments) {
            (Self::EpochMs, [Cell::Time(ms)]) => Some(Cell::Int(*ms)),
            (Self::DateTrunc, [Cell::String(unit), Cell::Time(ms)]) => {
                civil::truncated(unit, *ms).map(Cell::Time)
            }
            (Self::Extract, [Cell::String(part), Cell::Time(ms)]) if part == civil::EPOCH => {
                Some(Cell::Double(civil::epoch(*ms)))
            }
            (Self::Extract, [Cell::String(part), Cell::Time(ms)]) => {
                civil::part(part, *ms).map(Cell::Int)
            }
            _ => None,
        }
    }
}

fn two(arguments: Arguments<'_>) -> [Cell<'_>; 2] {
    let mut arguments = arguments.into_iter();
    std::array::from_fn(|_| arguments.next().unwrap_or(Cell::Null))
}

/// Returns `count` characters from a position on; a negative count takes characters before the position. The first
/// position is 1, the last -1. Positions outside of the text have no characters.
fn substring(text: &str, from: i64, count: i64) -> &str {
    let characters = if from < 0 { text.chars().count() as i64 } else { -1 };
    let from = from.saturating_add(characters);
    let to = from.saturating_add(count);
    let (begin, end) = (from.min(to).max(0), from.max(to).max(0));
    let place = |text: &str, characters: i64| {
        let characters = usize::try_from(characters).unwrap_or(usize::MAX);
        text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
    };
    let text = &text[place(text, begin)..];
    &text[..place(text, end - begin)]
}

/// Returns a text in another case, which may be three times as long.
fn changed<'r>(text: &str, change: impl Fn(&str) -> String, meter: &Meter) -> Cell<'r> {
    let changed = change(text);
    if meter.make(changed.len()) { Cell::String(Cow::Owned(changed)) } else { Cell::Null }
}

/// Replaces each occurrence. The result may be much longer than the text, so its length is computed first.
fn replaced<'r>(text: &str, what: &str, with: &str, meter: &Meter) -> Cell<'r> {
    if what.is_empty() {
        return match meter.make(text.len()) {
            true => Cell::String(Cow::Owned(text.to_owned())),
            false => Cell::Null,
        };
    }
    if !meter.scan(4 * what.len()) {
        return Cell::Null;
    }
    let found = text.matches(what).count();
    let bytes = found.checked_mul(with.len()).map(|with| text.len() - found * what.len() + with);
    let is_counted = meter.spend(2 * found as u64);
    match bytes.filter(|bytes| is_counted && meter.make(*bytes)) {
        Some(bytes) => {
            let mut made = String::with_capacity(bytes);
            let mut parts = text.split(what);
            made.extend(parts.next());
            parts.for_each(|part| {
                made.push_str(with);
                made.push_str(part);
            });
            Cell::String(Cow::Owned(made))
        }
        None => Cell::Null,
    }
}
