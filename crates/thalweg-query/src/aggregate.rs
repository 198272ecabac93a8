//! Aggregates of the values of a group.

use std::cmp::Ordering;

use thalweg_columns::{Cell, Kind};

use crate::{
    distinct::{self, Distinct},
    expr::{Expr, Row},
    limits::{ALLOCATION_BYTES, DIGEST_STEPS},
    meter::Meter,
    quantile::{self, Quantile},
    value::{borrowed, compared, finite, owned},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunction,
    /// The argument; `None` aggregates rows.
    pub(crate) argument: Option<Expr>,
    pub(crate) kind: Kind,
    /// Whether equal values count once.
    pub(crate) is_distinct: bool,
    /// The share of values below the result, for quantiles.
    pub(crate) share: f64,
    /// The FILTER condition. Rows that do not meet it do not count.
    pub(crate) filter: Option<Expr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    First,
    Last,
    Median,
    Percentile,
}

/// All aggregates: their names in lower case, usage and meaning.
pub const AGGREGATES: &[(&[&str], &str, &str)] = &[
    (
        &["count"],
        "count(*), count(), count(value), count(DISTINCT value)",
        "the number of rows, of values that are not NULL, or of distinct values (at most 10,000)",
    ),
    (
        &["sum"],
        "sum(number)",
        "the sum; NULL without values, or if the sum does not fit into 64 bits",
    ),
    (&["avg"], "avg(number)", "the mean, a double; the sum of ints is exact"),
    (&["min"], "min(value)", "the smallest number, time, string or boolean"),
    (&["max"], "max(value)", "the largest"),
    (
        &["first", "first_value", "earliest"],
        "first(value)",
        "the value of the first event, in the order of offsets",
    ),
    (&["last", "last_value", "latest"], "last(value)", "the value of the last event"),
    (
        &["median"],
        "median(number)",
        "the value in the middle, a double; exact for up to 128 values in a group",
    ),
    (
        &["approx_percentile", "approx_quantile"],
        "approx_percentile(number, share)",
        "the value with this share of values below it, such as 0.95; exact for up to 128 values in a group",
    ),
];

/// Returns whether an expression in canonical form calls an aggregate.
pub(crate) fn is_called_in(expression: &str) -> bool {
    let said = expression.to_lowercase();
    // Text in quotes calls no function.
    let said: String = said.split('\'').step_by(2).collect::<Vec<_>>().join("''");
    AGGREGATES.iter().flat_map(|(names, ..)| *names).any(|name| {
        let is_start = |at: usize| {
            !said[..at].ends_with(|before: char| {
                before.is_alphanumeric() || before == '_' || before == '"'
            })
        };
        said.match_indices(&format!("{name}(")).any(|(at, _)| is_start(at))
    })
}

impl AggregateFunction {
    const ALL: [Self; 9] = [
        Self::Count,
        Self::Sum,
        Self::Avg,
        Self::Min,
        Self::Max,
        Self::First,
        Self::Last,
        Self::Median,
        Self::Percentile,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        let has_name = |(names, ..): &(&[&str], &str, &str)| {
            names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        Some(Self::ALL[AGGREGATES.iter().position(has_name)?])
    }

    /// Returns whether the result depends on the argument's type.
    pub(crate) fn has_type(self) -> bool {
        self != Self::Count && !self.is_quantile()
    }

    pub(crate) fn is_quantile(self) -> bool {
        matches!(self, Self::Median | Self::Percentile)
    }

    pub(crate) fn usage(self) -> &'static str {
        AGGREGATES[self as usize].1
    }

    /// Returns the type of the result for an argument of this type; `None` if the aggregate does not accept it.
    pub(crate) fn result(self, kind: Kind) -> Option<Kind> {
        let is_number = matches!(kind, Kind::Int | Kind::Double | Kind::Null);
        match self {
            Self::Count => Some(Kind::Int),
            Self::Sum => is_number.then_some(kind),
            Self::Avg | Self::Median | Self::Percentile => is_number.then_some(Kind::Double),
            Self::Min | Self::Max => (kind != Kind::Json).then_some(kind),
            Self::First | Self::Last => Some(kind),
        }
    }
}

/// The accumulated values of a group. NULL does not count, except for `first` and `last`.
#[derive(Debug, Clone)]
pub(crate) enum Accumulator {
    Count(i64),
    SumInt(i128, bool),
    SumDouble(f64, bool),
    /// The sum and the number of values.
    MeanInt(i128, u64),
    MeanDouble(f64, u64),
    Min(Cell<'static>),
    Max(Cell<'static>),
    First(Option<Cell<'static>>),
    Last(Cell<'static>),
    Distinct(Option<Box<Distinct>>),
    /// The values, and the share of them below the result.
    Quantile(Option<Box<Quantile>>, f64),
}

impl Aggregate {
    pub(crate) fn begin(&self) -> Accumulator {
        match self.function {
            AggregateFunction::Count if self.is_distinct => Accumulator::Distinct(None),
            AggregateFunction::Count => Accumulator::Count(0),
            AggregateFunction::Sum if self.kind == Kind::Int => Accumulator::SumInt(0, false),
            AggregateFunction::Sum => Accumulator::SumDouble(0.0, false),
            AggregateFunction::Avg if self.kind == Kind::Int => Accumulator::MeanInt(0, 0),
            AggregateFunction::Avg => Accumulator::MeanDouble(0.0, 0),
            AggregateFunction::Min => Accumulator::Min(Cell::Null),
            AggregateFunction::Max => Accumulator::Max(Cell::Null),
            AggregateFunction::First => Accumulator::First(None),
            AggregateFunction::Last => Accumulator::Last(Cell::Null),
            AggregateFunction::Median | AggregateFunction::Percentile => {
                Accumulator::Quantile(None, self.share)
            }
        }
    }

    /// Adds a row. `room` is the number of bytes by which held texts may grow. Returns their growth in bytes; `None` if
    /// the growth exceeds `room`, in which case the row does not count.
    #[inline]
    pub(crate) fn take(&self, row: &Row<'_>, into: &mut Accumulator, room: usize) -> Option<isize> {
        if !row.meter.spend(1)
            || self.filter.as_ref().is_some_and(|filter| filter.is_true(row) != Some(true))
        {
            return Some(0);
        }
        let cell = match &self.argument {
            // COUNT does not read the value.
            Some(argument) if self.function == AggregateFunction::Count && !self.is_distinct => {
                argument.eval_whole(row)
            }
            Some(argument) => argument.eval(row),
            None => Cell::Bool(true),
        };
        if row.meter.over().is_some() {
            return Some(0);
        }
        into.take(cell, room, row.meter)
    }
}

impl Accumulator {
    #[inline]
    fn take(&mut self, cell: Cell<'_>, room: usize, meter: &Meter) -> Option<isize> {
        if matches!(cell, Cell::Null) && !matches!(self, Self::First(_) | Self::Last(_)) {
            return Some(0);
        }
        match self {
            Self::Count(count) => *count += 1,
            Self::SumInt(sum, is_any) => {
                if let Cell::Int(number) = cell {
                    (*sum, *is_any) = (*sum + i128::from(number), true);
                }
            }
            Self::SumDouble(sum, is_any) => (*sum, *is_any) = (*sum + double(&cell), true),
            Self::MeanInt(sum, count) => {
                if let Cell::Int(number) = cell {
                    (*sum, *count) = (*sum + i128::from(number), *count + 1);
                }
            }
            Self::MeanDouble(sum, count) => (*sum, *count) = (*sum + double(&cell), *count + 1),
            Self::Min(least) => return keep(least, cell, Ordering::Less, room, meter),
            Self::Max(largest) => return keep(largest, cell, Ordering::Greater, room, meter),
            Self::First(first) => {
                if first.is_none() {
                    let mut held = Cell::Null;
                    let grown = replace(&mut held, cell, room, meter)?;
                    *first = Some(held);
                    return Some(grown);
                }
            }
            Self::Last(last) => return replace(last, cell, room, meter),
            Self::Distinct(values) => return distinct::add(values, &cell, room, meter),
            Self::Quantile(values, _) => {
                return match meter.spend(DIGEST_STEPS) {
                    true => quantile::add(values, double(&cell), room),
                    false => Some(0),
                };
            }
        }
        Some(0)
    }

    /// Continues with values of this type, if all values so far were NULL.
    pub(crate) fn begin_with(&mut self, kind: Kind) {
        match self {
            Self::SumDouble(..) if kind == Kind::Int => *self = Self::SumInt(0, false),
            Self::MeanDouble(..) if kind == Kind::Int => *self = Self::MeanInt(0, 0),
            _ => {}
        }
    }

    pub(crate) fn make_double(&mut self) {
        match self {
            Self::SumInt(sum, is_any) => *self = Self::SumDouble(*sum as f64, *is_any),
            Self::MeanInt(sum, count) => *self = Self::MeanDouble(*sum as f64, *count),
            Self::Min(cell) | Self::Max(cell) | Self::Last(cell) | Self::First(Some(cell)) => {
                if let Cell::Int(number) = cell {
                    *cell = Cell::Double(*number as f64);
                }
            }
            // Equal ints and doubles are one value, and quantiles are those of doubles.
            Self::Distinct(_)
            | Self::Quantile(..)
            | Self::Count(_)
            | Self::SumDouble(..)
            | Self::MeanDouble(..)
            | Self::First(None) => {}
        }
    }

    /// Returns the result so far; `None` if the sum exceeds 64 bits.
    pub(crate) fn result(&self) -> Option<Cell<'_>> {
        Some(match self {
            Self::Count(count) => Cell::Int(*count),
            Self::Quantile(None, _) => Cell::Null,
            Self::Quantile(Some(values), share) => finite(values.result(*share)?)?,
            Self::Distinct(values) => {
                Cell::Int(values.as_ref().map_or(0, |values| values.count() as i64))
            }
            Self::SumInt(_, false) | Self::SumDouble(_, false) => Cell::Null,
            Self::MeanInt(_, 0) | Self::MeanDouble(_, 0) => Cell::Null,
            Self::SumInt(sum, true) => Cell::Int(i64::try_from(*sum).ok()?),
            Self::SumDouble(sum, true) => finite(*sum)?,
            Self::MeanInt(sum, count) => Cell::Double(*sum as f64 / *count as f64),
            Self::MeanDouble(sum, count) => finite(sum / *count as f64)?,
            Self::Min(cell) | Self::Max(cell) | Self::Last(cell) | Self::First(Some(cell)) => {
                borrowed(cell)
            }
            Self::First(None) => Cell::Null,
        })
    }

    pub(crate) fn text_bytes(&self) -> isize {
        match self {
            Self::Min(cell) | Self::Max(cell) | Self::Last(cell) | Self::First(Some(cell)) => {
                text_bytes(cell)
            }
            Self::Distinct(Some(values)) => values.memory_bytes() as isize,
            Self::Quantile(Some(values), _) => values.memory_bytes() as isize,
            _ => 0,
        }
    }
}

/// Replaces the held value if the new one compares as `wanted` and there is room for it.
#[inline]
fn keep(
    before: &mut Cell<'static>,
    cell: Cell<'_>,
    wanted: Ordering,
    room: usize,
    meter: &Meter,
) -> Option<isize> {
    let is_kept = match (&mut *before, &cell) {
        // Most values are numbers, which need no allocation.
        (Cell::Double(before), Cell::Double(number)) => {
            if number.partial_cmp(before) == Some(wanted) {
                *before = *number;
            }
            false
        }
        (Cell::Null, _) => true,
        (before, cell) => compared(cell, before, meter) == Some(wanted),
    };
    if is_kept { replace(before, cell, room, meter) } else { Some(0) }
}

/// Replaces the held value if there is room. Returns the growth in bytes.
fn replace(
    before: &mut Cell<'static>,
    cell: Cell<'_>,
    room: usize,
    meter: &Meter,
) -> Option<isize> {
    let bytes = text_bytes(&cell);
    let grown = bytes - text_bytes(before);
    if grown > room as isize {
        return None;
    }
    if !meter.copy(bytes.unsigned_abs()) {
        return Some(0);
    }
    *before = owned(cell);
    Some(grown)
}

fn text_bytes(cell: &Cell<'_>) -> isize {
    match cell {
        Cell::String(text) | Cell::Json(text) if text.is_empty() => 0,
        Cell::String(text) | Cell::Json(text) => (text.len() + ALLOCATION_BYTES) as isize,
        _ => 0,
    }
}

fn double(cell: &Cell<'_>) -> f64 {
    match cell {
        Cell::Int(number) => *number as f64,
        Cell::Double(number) => *number,
        _ => 0.0,
    }
}
