//! Expressions and their values. NULL means unknown, as in SQL. No expression fails: an expression without a result,
//! such as 1 / 0, is NULL, and counted. Operators count their steps before they do their work, and operators on texts
//! also count bytes ([`Meter`]).

use std::cmp::Ordering;

use smallvec::SmallVec;
use thalweg_columns::Cell;

use crate::{
    cast::Target,
    functions::Function,
    like::LikePattern,
    limits::ALLOCATION_BYTES,
    member::Path,
    meter::Meter,
    value::{borrowed, compared, finite, joined, truth},
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'r> {
    /// Columns of the source; after GROUP BY, the keys and the aggregates' results.
    pub(crate) cells: &'r [Cell<'r>],
    /// Start and end of the window, in ms since 1970; 0 without a window.
    pub(crate) window: (i64, i64),
    pub(crate) now_ms: i64,
    pub(crate) meter: &'r Meter,
}

/// An expression over the cells of a row. Its types were checked when the query was planned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Constant(Cell<'static>),
    Cell(usize),
    WindowStart,
    WindowEnd,
    Now,
    Not(Box<Expr>),
    Negative(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// Equal, or both NULL.
    IsSame(Box<Expr>, Box<Expr>),
    IsNull(Box<Expr>),
    Arithmetic(Operator, Box<Expr>, Box<Expr>),
    Concat(Box<Expr>, Box<Expr>),
    In(Box<Expr>, Vec<Expr>),
    Like(Box<Expr>, Box<LikePattern>),
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Cast(Box<Expr>, Target),
    TryCast(Box<Expr>, Target),
    Call(Function, Vec<Expr>),
    /// A part of a JSON value.
    Member(Box<Expr>, Box<Path>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Expr {
    #[inline]
    pub(crate) fn eval<'r>(&'r self, row: &Row<'r>) -> Cell<'r> {
        // Most expressions are columns and constants, which need no call.
        match self.leaf(row) {
            Some(cell) => borrowed(cell),
            None => self.eval_node(row),
        }
    }

    /// Returns the value of a constant or a column. `None` for other expressions, and for a text that is too long.
    #[inline]
    fn leaf<'r>(&'r self, row: &Row<'r>) -> Option<&'r Cell<'r>> {
        match self {
            Self::Constant(cell) => Some(cell),
            Self::Cell(index) => row.cells.get(*index).filter(|cell| row.meter.holds(cell)),
            _ => None,
        }
    }

    fn eval_node<'r>(&'r self, row: &Row<'r>) -> Cell<'r> {
        let meter = row.meter;
        match self {
            Self::Constant(cell) => borrowed(cell),
            Self::Cell(index) => row.cells.get(*index).map_or(Cell::Null, |cell| row.bounded(cell)),
            Self::WindowStart => Cell::Time(row.window.0),
            Self::WindowEnd => Cell::Time(row.window.1),
            Self::Now => Cell::Time(row.now_ms),
            Self::Compare(..) | Self::And(..) | Self::Or(..) | Self::Not(_) => {
                truth(self.is_true(row))
            }
            _ if !meter.spend(1) => Cell::Null,
            Self::IsNull(inner) => Cell::Bool(inner.eval_whole(row) == Cell::Null),
            Self::IsSame(left, right) => Cell::Bool(match (left.eval(row), right.eval(row)) {
                (Cell::Null, Cell::Null) => true,
                (left, right) => compared(&left, &right, meter) == Some(Ordering::Equal),
            }),
            Self::Negative(inner) => match inner.eval(row) {
                Cell::Int(number) => meter.result(number.checked_neg().map(Cell::Int)),
                Cell::Double(number) => Cell::Double(-number),
                _ => Cell::Null,
            },
            Self::Arithmetic(operator, left, right) => {
                let (left, right) = (left.eval(row), right.eval(row));
                match (&left, &right) {
                    (Cell::Null, _) | (_, Cell::Null) => Cell::Null,
                    (left, right) => meter.result(operator.apply(left, right)),
                }
            }
            Self::Concat(left, right) => {
                let cells = [left.eval(row), right.eval(row)];
                if cells.contains(&Cell::Null) { Cell::Null } else { joined(&cells, meter) }
            }
            Self::In(inner, list) => is_in(&inner.eval(row), list, row),
            Self::Like(inner, pattern) => match inner.eval(row) {
                Cell::String(text) => truth(pattern.is_match(&text, meter)),
                _ => Cell::Null,
            },
            Self::Case(conditions, otherwise) => {
                let holds = |(condition, _): &&(Self, Self)| condition.is_true(row) == Some(true);
                let result =
                    conditions.iter().find(holds).map_or(&**otherwise, |(_, result)| result);
                result.eval(row)
            }
            Self::Cast(inner, target) => match inner.eval(row) {
                Cell::Null => Cell::Null,
                cell => meter.result(target.cast(cell, meter)),
            },
            // NULL is the expected result here and does not count.
            Self::TryCast(inner, target) => {
                target.cast(inner.eval(row), meter).unwrap_or(Cell::Null)
            }
            Self::Member(inner, path) => match path.part_of(inner.eval_whole(row), meter) {
                Cell::String(text) | Cell::Json(text) if !meter.is_value(text.len()) => Cell::Null,
                cell => cell,
            },
            Self::Call(function, arguments) => {
                let cells = arguments.iter().map(|argument| argument.eval(row));
                function.call(cells.collect::<SmallVec<[Cell<'r>; 4]>>(), meter)
            }
        }
    }

    /// Returns the value for a row, with a column's text of any length: for operators that do not read the text or only
    /// pass it on.
    #[inline]
    pub(crate) fn eval_whole<'r>(&'r self, row: &Row<'r>) -> Cell<'r> {
        match self {
            Self::Cell(index) => row.cells.get(*index).map_or(Cell::Null, borrowed),
            Self::Member(inner, path) if row.meter.spend(1) => {
                path.part_of(inner.eval_whole(row), row.meter)
            }
            _ => self.eval(row),
        }
    }

    /// Returns a boolean value for a row. Conditions need no cell for their result.
    #[inline]
    pub(crate) fn is_true(&self, row: &Row<'_>) -> Option<bool> {
        if let Self::Compare(comparison, left, right) = self {
            return comparison.is_true(left, right, row);
        }
        self.is_node_true(row)
    }

    fn is_node_true(&self, row: &Row<'_>) -> Option<bool> {
        match self {
            Self::And(..) | Self::Or(..) | Self::Not(_) if !row.meter.spend(1) => None,
            Self::Compare(comparison, left, right) => comparison.is_true(left, right, row),
            Self::And(left, right) => match left.is_true(row) {
                Some(false) => Some(false),
                left => match (left, right.is_true(row)) {
                    (_, Some(false)) => Some(false),
                    (Some(_), Some(_)) => Some(true),
                    _ => None,
                },
            },
            Self::Or(left, right) => match left.is_true(row) {
                Some(true) => Some(true),
                left => match (left, right.is_true(row)) {
                    (_, Some(true)) => Some(true),
                    (Some(_), Some(_)) => Some(false),
                    _ => None,
                },
            },
            Self::Not(inner) => inner.is_true(row).map(|is_true| !is_true),
            _ => match self.eval(row) {
                Cell::Bool(is_true) => Some(is_true),
                _ => None,
            },
        }
    }

    /// Returns the memory in bytes, without that of subexpressions.
    pub(crate) fn memory_bytes(&self) -> usize {
        let own = match self {
            Self::Constant(Cell::String(text) | Cell::Json(text)) => text.len() + ALLOCATION_BYTES,
            Self::Like(_, pattern) => pattern.memory_bytes(),
            Self::Member(_, path) => path.memory_bytes(),
            _ => 0,
        };
        size_of::<Self>() + ALLOCATION_BYTES + own
    }

    /// Calls `visit` for all subexpressions, and for this expression.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        match self {
            Self::Constant(_) | Self::Cell(_) | Self::WindowStart | Self::WindowEnd | Self::Now => {
            }
            Self::Not(inner) | Self::Negative(inner) | Self::IsNull(inner) => inner.visit(visit),
            Self::Like(inner, _)
            | Self::Member(inner, _)
            | Self::Cast(inner, _)
            | Self::TryCast(inner, _) => {
                inner.visit(visit);
            }
            Self::And(left, right)
            | Self::Or(left, right)
            | Self::Compare(_, left, right)
            | Self::IsSame(left, right)
            | Self::Arithmetic(_, left, right)
            | Self::Concat(left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Self::In(inner, list) => {
                inner.visit(visit);
                list.iter().for_each(|expr| expr.visit(visit));
            }
            Self::Case(conditions, otherwise) => {
                for (condition, result) in conditions {
                    condition.visit(visit);
                    result.visit(visit);
                }
                otherwise.visit(visit);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|expr| expr.visit(visit)),
        }
    }
}

impl<'r> Row<'r> {
    /// Returns the same value, borrowed; NULL if its text is too long for an expression.
    #[inline]
    fn bounded(&self, cell: &'r Cell<'r>) -> Cell<'r> {
        match cell {
            Cell::String(text) | Cell::Json(text) if !self.meter.is_value(text.len()) => Cell::Null,
            cell => borrowed(cell),
        }
    }
}

/// Returns whether the list has the value. As in SQL, the result is NULL if the list has NULL, but not the value.
fn is_in<'r>(cell: &Cell<'r>, list: &'r [Expr], row: &Row<'r>) -> Cell<'r> {
    if *cell == Cell::Null {
        return Cell::Null;
    }
    let mut has_null = false;
    for other in list {
        if !row.meter.spend(1) {
            return Cell::Null;
        }
        match compared(cell, &other.eval(row), row.meter) {
            Some(Ordering::Equal) => return Cell::Bool(true),
            Some(_) => {}
            None => has_null = true,
        }
    }
    if has_null { Cell::Null } else { Cell::Bool(false) }
}

impl Comparison {
    #[inline]
    fn is_true(self, left: &Expr, right: &Expr, row: &Row<'_>) -> Option<bool> {
        if !row.meter.spend(1) {
            return None;
        }
        match (left.leaf(row), right.leaf(row)) {
            (Some(left), Some(right)) => self.holds(left, right, row.meter),
            _ => self.holds(&left.eval(row), &right.eval(row), row.meter),
        }
    }

    /// Returns `None` if one value is NULL.
    #[inline(always)]
    fn holds(self, left: &Cell<'_>, right: &Cell<'_>, meter: &Meter) -> Option<bool> {
        let order = compared(left, right, meter)?;
        Some(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }
}

impl Operator {
    /// Returns `None` if there is no result.
    fn apply<'r>(self, left: &Cell<'_>, right: &Cell<'_>) -> Option<Cell<'r>> {
        let double = |cell: &Cell<'_>| match cell {
            Cell::Int(number) => Some(*number as f64),
            Cell::Double(number) => Some(*number),
            _ => None,
        };
        match (left, right) {
            (Cell::Int(left), Cell::Int(right)) => self.combine_ints(*left, *right).map(Cell::Int),
            // A time and an interval.
            (Cell::Time(time), Cell::Int(ms)) | (Cell::Int(ms), Cell::Time(time)) => {
                self.combine_ints(*time, *ms).map(Cell::Time)
            }
            (Cell::Time(left), Cell::Time(right)) => {
                self.combine_ints(*left, *right).map(Cell::Int)
            }
            _ => finite(self.combine_doubles(double(left)?, double(right)?)),
        }
    }

    /// Returns `None` if the result exceeds 64 bits.
    fn combine_ints(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            Self::Remainder => left.checked_rem(right),
        }
    }

    fn combine_doubles(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
        }
    }
}
