//! Functions of one row's values. Each is NULL if an argument is, but for those that choose among their arguments.

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

/// A function, and its arguments' types.
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

/// What a function takes and gives.
#[derive(Debug)]
pub struct Signature {
    pub(crate) function: Function,
    /// Its name and its other names, in small letters.
    pub names: &'static [&'static str],
    /// How it is called, with the types of its arguments.
    pub usage: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// The type of its result for arguments of these types; `None` if it takes no such.
    pub(crate) result: fn(&[Kind]) -> Option<Kind>,
}

/// All functions, in the order in which they are documented.
pub const FUNCTIONS: &[Signature] = &[
    of(Function::Abs, &["abs"], "abs(number)", "the number without its sign", same_number),
    of(Function::Sign, &["sign"], "sign(number)", "-1, 0 or 1", |types| {
        number(types).map(|_| Kind::Int)
    }),
    of(
        Function::Round,
        &["round"],
        "round(number [, digits])",
        "the nearest number with so many decimals (0), halves away from zero",
        round,
    ),
    of(
        Function::Floor,
        &["floor"],
        "floor(number)",
        "the largest whole number that is not larger",
        same_number,
    ),
    of(
        Function::Ceil,
        &["ceil", "ceiling"],
        "ceil(number)",
        "the smallest whole number that is not smaller",
        same_number,
    ),
    of(Function::Sqrt, &["sqrt"], "sqrt(number)", "the square root", to_double),
    of(
        Function::Power,
        &["power", "pow"],
        "power(number, exponent)",
        "the number to this power",
        two_to_double,
    ),
    of(Function::Exp, &["exp"], "exp(number)", "e to this power", to_double),
    of(Function::Ln, &["ln"], "ln(number)", "the natural logarithm", to_double),
    of(
        Function::Mod,
        &["mod"],
        "mod(number, number)",
        "the rest of a division, as with %",
        |types| match types {
            [one, other] if is_number(*one) && is_number(*other) => common(*one, *other),
            _ => None,
        },
    ),
    of(
        Function::Least,
        &["least"],
        "least(value, value, …)",
        "the smallest that is not NULL",
        one_type,
    ),
    of(
        Function::Greatest,
        &["greatest"],
        "greatest(value, value, …)",
        "the largest that is not NULL",
        one_type,
    ),
    of(
        Function::Coalesce,
        &["coalesce", "ifnull"],
        "coalesce(value, value, …)",
        "the first that is not NULL",
        one_type,
    ),
    of(
        Function::NullIf,
        &["nullif"],
        "nullif(value, value)",
        "NULL if they are equal, otherwise the first",
        |types| {
            if types.len() == 2 { one_type(types) } else { None }
        },
    ),
    of(Function::Lower, &["lower"], "lower(string)", "in small letters", string_to_string),
    of(Function::Upper, &["upper"], "upper(string)", "in capitals", string_to_string),
    of(
        Function::Length,
        &["length", "char_length"],
        "length(string)",
        "how many characters",
        |types| matches!(types, [Kind::String]).then_some(Kind::Int),
    ),
    of(
        Function::Substr,
        &["substr", "substring"],
        "substr(string, from [, count])",
        "characters from a place on: the first is 1, the last -1; a negative count is of those before",
        |types| {
            matches!(types, [Kind::String, Kind::Int] | [Kind::String, Kind::Int, Kind::Int])
                .then_some(Kind::String)
        },
    ),
    of(Function::Trim, &["trim"], "trim(string)", "without spaces at both ends", string_to_string),
    of(
        Function::LeftTrim,
        &["ltrim"],
        "ltrim(string)",
        "without spaces at the beginning",
        string_to_string,
    ),
    of(
        Function::RightTrim,
        &["rtrim"],
        "rtrim(string)",
        "without spaces at the end",
        string_to_string,
    ),
    of(
        Function::Replace,
        &["replace"],
        "replace(string, what, with)",
        "each occurrence replaced",
        |types| matches!(types, [Kind::String, Kind::String, Kind::String]).then_some(Kind::String),
    ),
    of(
        Function::Concat,
        &["concat"],
        "concat(value, value, …)",
        "all of them as one text, NULL as nothing",
        |types| (!types.is_empty()).then_some(Kind::String),
    ),
    of(
        Function::StartsWith,
        &["starts_with"],
        "starts_with(string, string)",
        "whether it begins so",
        |types| matches!(types, [Kind::String, Kind::String]).then_some(Kind::Bool),
    ),
    of(
        Function::Position,
        &["strpos", "instr"],
        "strpos(string, string)",
        "where the second first is in the first, from 1 on; 0: it is not",
        |types| matches!(types, [Kind::String, Kind::String]).then_some(Kind::Int),
    ),
    of(
        Function::DateTrunc,
        &["date_trunc"],
        "date_trunc('hour', time)",
        "the time without what is smaller: second, minute, hour, day, week, month, quarter, year",
        |types| matches!(types, [Kind::String, Kind::Time]).then_some(Kind::Time),
    ),
    of(
        Function::Extract,
        &["date_part"],
        "extract(hour FROM time)",
        "a part of a time (UTC): millisecond (of the minute), second, minute, hour, day, week and isoyear (ISO 8601), month, quarter, year, dow (Sunday is 0), isodow (Sunday is 7), doy, epoch (a double)",
        |types| matches!(types, [Kind::String, Kind::Time]).then_some(Kind::Int),
    ),
    of(Function::EpochMs, &["epoch_ms"], "epoch_ms(time)", "milliseconds since 1970", |types| {
        matches!(types, [Kind::Time]).then_some(Kind::Int)
    }),
];

const fn of(
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

/// Values of one type; int and double are double together, and NULL is of any type.
pub(crate) fn one_type(types: &[Kind]) -> Option<Kind> {
    let first = types.first().copied()?;
    types[1..].iter().try_fold(first, |one, other| common(one, *other))
}

/// The type that has the values of both.
pub(crate) fn common(one: Kind, other: Kind) -> Option<Kind> {
    match (one, other) {
        (one, other) if one == other => Some(one),
        (Kind::Null, kind) | (kind, Kind::Null) => Some(kind),
        (Kind::Int, Kind::Double) | (Kind::Double, Kind::Int) => Some(Kind::Double),
        _ => None,
    }
}

/// The arguments of a call, all but a few of which have at most three.
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
            | Self::Position => self.of_text(&arguments, meter),
            _ if !meter.spend(CONVERSION_STEPS) => Cell::Null,
            Self::DateTrunc | Self::Extract | Self::EpochMs => {
                meter.result(self.of_time(&arguments))
            }
            _ => meter.result(self.of_numbers(&arguments)),
        }
    }

    /// `None` if there is no result, as of the square root of -1.
    fn of_numbers<'r>(self, arguments: &[Cell<'_>]) -> Option<Cell<'r>> {
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

    /// Counts the bytes of the text that it reads, and of the one that it makes, before it does.
    fn of_text<'r>(self, arguments: &[Cell<'r>], meter: &Meter) -> Cell<'r> {
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
            // They make as many bytes as they read, or fewer.
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

    fn of_time<'r>(self, arguments: &[Cell<'_>]) -> Option<Cell<'r>> {
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

/// So many characters from a place on; if they are less than none, those before it. The first place is 1, the last -1; places
/// that the text does not have are empty.
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

/// A text in other letters: it may be three times as long.
fn changed<'r>(text: &str, change: impl Fn(&str) -> String, meter: &Meter) -> Cell<'r> {
    let changed = change(text);
    if meter.make(changed.len()) { Cell::String(Cow::Owned(changed)) } else { Cell::Null }
}

/// A few bytes may become many: how many is known before they are made.
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
