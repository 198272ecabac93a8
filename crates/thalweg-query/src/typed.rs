//! Types of expressions: the operands and results of operators.

use sqlparser::{
    ast::{BinaryOperator, DataType, ExactNumberInfo, Expr as Ast, Interval, TimezoneInfo, Value},
    tokenizer::Span,
};
use thalweg_columns::{Cell, Kind};

use crate::{
    QueryError,
    cast::Target,
    civil::day_start,
    expr::{Comparison, Expr, Operator, Row},
    functions::common,
    limits::CONSTANT_BYTES_MAX,
    member::{Path, Reading},
    meter::Meter,
    parse::no_operator,
    value::{EXACT_MAX, owned, time},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) kind: Kind,
    /// Whether the value is a duration: an int of ms for operations with times.
    pub(crate) is_interval: bool,
}

pub(crate) type Compiled = Result<Typed, QueryError>;

pub(crate) fn typed(expr: Expr, kind: Kind) -> Typed {
    Typed { expr, kind, is_interval: false }
}

pub(crate) fn not(inner: Typed) -> Typed {
    typed(Expr::Not(Box::new(inner.expr)), Kind::Bool)
}

pub(crate) fn not_if(is_negated: bool, inner: Typed) -> Typed {
    if is_negated { not(inner) } else { inner }
}

/// Evaluates a constant, within the meter's limits.
pub(crate) fn folded(found: Typed, meter: &Meter) -> Typed {
    let mut is_constant = true;
    found.expr.visit(&mut |expr| {
        is_constant &=
            !matches!(expr, Expr::Cell(_) | Expr::WindowStart | Expr::WindowEnd | Expr::Now);
    });
    if !is_constant {
        return found;
    }
    if matches!(found.expr, Expr::Constant(_)) {
        return found;
    }
    let counted = || (meter.oversized(), meter.without_result());
    let before = counted();
    let cell = found.expr.eval(&Row { cells: &[], window: (0, 0), now_ms: 0, meter });
    let is_long =
        matches!(&cell, Cell::String(text) | Cell::Json(text) if text.len() > CONSTANT_BYTES_MAX);
    // A long text or a missing result must count for each row.
    if is_long || meter.over().is_some() || counted() != before {
        return found;
    }
    let cell = owned(cell);
    Typed { expr: Expr::Constant(cell), ..found }
}

pub(crate) fn literal(value: &Value, span: Span) -> Compiled {
    let constant = |cell, kind| Ok(typed(Expr::Constant(cell), kind));
    match value {
        Value::Null => constant(Cell::Null, Kind::Null),
        Value::Boolean(value) => constant(Cell::Bool(*value), Kind::Bool),
        Value::SingleQuotedString(text) => {
            constant(Cell::String(text.clone().into()), Kind::String)
        }
        Value::Number(text, _) => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => constant(Cell::Int(number), Kind::Int),
            (_, Ok(number)) if number.is_finite() => constant(Cell::Double(number), Kind::Double),
            _ => Err(QueryError::at(span, "this number is too large: write one below 1e308")),
        },
        _ => Err(QueryError::at(
            span,
            "this literal is not supported: write texts in single quotes, names in double quotes",
        )),
    }
}

pub(crate) fn interval_of(interval: &Interval, span: Span) -> Compiled {
    match &*interval.value {
        // The tokens already hold ms.
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(ms) => {
                let ms = ms.parse().map_err(|_| {
                    QueryError::at(span, "this is not an interval: write one as INTERVAL 1 SECOND")
                })?;
                let expr = Expr::Constant(Cell::Int(ms));
                Ok(Typed { expr, kind: Kind::Int, is_interval: true })
            }
            _ => {
                Err(QueryError::at(span, "this is not an interval: write one as INTERVAL 1 SECOND"))
            }
        },
        _ => Err(QueryError::at(span, "this is not an interval: write one as INTERVAL 1 SECOND")),
    }
}

/// Parses a number with its minus sign: without the sign, the smallest 64-bit integer would not fit into 64 bits.
pub(crate) fn negative_literal(text: &str, span: Span) -> Compiled {
    literal(&Value::Number(format!("-{text}"), false), span)
}

pub(crate) fn instant(text: &str, span: Span) -> Compiled {
    constant_time(time(text), span)
}

pub(crate) fn day(text: &str, span: Span) -> Compiled {
    constant_time(time(text).and_then(day_start), span)
}

fn constant_time(ms: Option<i64>, span: Span) -> Compiled {
    match ms {
        Some(ms) => Ok(typed(Expr::Constant(Cell::Time(ms)), Kind::Time)),
        None => Err(QueryError::at(
            span,
            "this is not a time: write it as in '2022-07-13T21:04:08.419Z'",
        )),
    }
}

/// Returns a member of JSON as this type, for an operation with such a value. Returns anything else unchanged.
pub(crate) fn member_as(found: Typed, kind: Kind) -> Typed {
    let Expr::Member(inner, path) = found.expr else { return found };
    if found.kind != Kind::Json || matches!(kind, Kind::Json | Kind::Null) {
        return Typed { expr: Expr::Member(inner, path), ..found };
    }
    let reading = if kind == Kind::Int { Reading::Number } else { Reading::As(kind) };
    typed(Expr::Member(inner, Box::new(Path { reading, ..*path })), reading.kind())
}

pub(crate) fn boolean(found: Typed, span: Span, what: &str) -> Result<Expr, QueryError> {
    let found = member_as(found, Kind::Bool);
    match found.kind {
        Kind::Bool | Kind::Null => Ok(found.expr),
        kind => {
            let message = format!(
                "{what} needs a condition, and this is {}: compare it with a value",
                article(kind)
            );
            Err(QueryError::at(span, message))
        }
    }
}

pub(crate) fn number(found: Typed, span: Span) -> Compiled {
    let found = member_as(found, Kind::Double);
    match found.kind {
        Kind::Int | Kind::Double | Kind::Null => Ok(found),
        kind => {
            let message = format!(
                "a number is needed here, and this is {}: cast it, as in CAST(x AS DOUBLE)",
                article(kind)
            );
            Err(QueryError::at(span, message))
        }
    }
}

pub(crate) fn binary(left: Typed, op: &BinaryOperator, right: Typed, span: Span) -> Compiled {
    let comparison = match op {
        BinaryOperator::Eq => Some(Comparison::Equal),
        BinaryOperator::NotEq => Some(Comparison::NotEqual),
        BinaryOperator::Lt => Some(Comparison::Less),
        BinaryOperator::LtEq => Some(Comparison::LessOrEqual),
        BinaryOperator::Gt => Some(Comparison::Greater),
        BinaryOperator::GtEq => Some(Comparison::GreaterOrEqual),
        _ => None,
    };
    if let Some(comparison) = comparison {
        return compared(left, comparison, right, span);
    }
    let operator = match op {
        BinaryOperator::And | BinaryOperator::Or => {
            let what = if *op == BinaryOperator::And { "AND" } else { "OR" };
            let (left, right) = (boolean(left, span, what)?, boolean(right, span, what)?);
            let (left, right) = (Box::new(left), Box::new(right));
            let expr = if *op == BinaryOperator::And {
                Expr::And(left, right)
            } else {
                Expr::Or(left, right)
            };
            return Ok(typed(expr, Kind::Bool));
        }
        BinaryOperator::StringConcat => {
            let expr = Expr::Concat(Box::new(left.expr), Box::new(right.expr));
            return Ok(typed(expr, Kind::String));
        }
        BinaryOperator::Plus => Operator::Add,
        BinaryOperator::Minus => Operator::Subtract,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Remainder,
        _ => return Err(no_operator(&op.to_string(), span)),
    };
    arithmetic(left, operator, right, span)
}

fn arithmetic(left: Typed, operator: Operator, right: Typed, span: Span) -> Compiled {
    let [left, right] = [left, right].map(|side| member_as(side, Kind::Double));
    let is_sum = matches!(operator, Operator::Add | Operator::Subtract);
    let is_product = matches!(operator, Operator::Multiply | Operator::Divide);
    let is_added = operator == Operator::Add;
    let kinds = [&left, &right].map(|side| (side.kind, side.is_interval));
    let (kind, is_interval) = match kinds {
        // NULL is a time or a duration, whichever the operation accepts.
        [(Kind::Null, false), (_, true)] if is_sum => (Kind::Null, false),
        [(_, true), (Kind::Null, false)] if is_added => (Kind::Null, false),
        [(Kind::Time, _), (_, true) | (Kind::Null, _)] if is_sum => (Kind::Time, false),
        [(_, true) | (Kind::Null, _), (Kind::Time, _)] if is_added => (Kind::Time, false),
        [(_, true), (_, true) | (Kind::Null, _)] if is_sum => (Kind::Int, true),
        [(_, true), (Kind::Int, false) | (Kind::Null, _)] if is_product => (Kind::Int, true),
        [(Kind::Int, false) | (Kind::Null, _), (_, true)] if operator == Operator::Multiply => {
            (Kind::Int, true)
        }
        [(Kind::Time, _), (Kind::Time, _)] if operator == Operator::Subtract => {
            let message =
                "a time cannot be subtracted from a time: write epoch_ms(one) - epoch_ms(other)";
            return Err(QueryError::at(span, message));
        }
        [(Kind::Time, _) | (_, true), _] | [_, (Kind::Time, _) | (_, true)] => {
            let message = "this operation is not supported for times and intervals: write time + INTERVAL 1 SECOND";
            return Err(QueryError::at(span, message));
        }
        _ => {
            let (left, right) = (number(left.clone(), span)?, number(right.clone(), span)?);
            (common(left.kind, right.kind).unwrap_or(Kind::Double), false)
        }
    };
    let expr = Expr::Arithmetic(operator, Box::new(left.expr), Box::new(right.expr));
    Ok(Typed { expr, kind, is_interval })
}

pub(crate) fn compared(left: Typed, comparison: Comparison, right: Typed, span: Span) -> Compiled {
    let (left, right, _) = comparable(left, right, span)?;
    let expr = Expr::Compare(comparison, Box::new(left.expr), Box::new(right.expr));
    Ok(typed(expr, Kind::Bool))
}

/// Returns an integer literal as the equal double, if there is one: comparing two doubles is faster.
fn as_double(operand: Typed) -> Typed {
    match operand.expr {
        Expr::Constant(Cell::Int(number))
            if number.unsigned_abs() <= EXACT_MAX && !operand.is_interval =>
        {
            typed(Expr::Constant(Cell::Double(number as f64)), Kind::Double)
        }
        _ => operand,
    }
}

/// Converts both operands to one type: a text that is compared with a time becomes a time.
pub(crate) fn comparable(
    left: Typed,
    right: Typed,
    span: Span,
) -> Result<(Typed, Typed, Kind), QueryError> {
    let kinds = (left.kind, right.kind);
    let (left, right) = (member_as(left, kinds.1), member_as(right, kinds.0));
    let as_time = |operand: Typed| match &operand.expr {
        Expr::Constant(Cell::String(text)) => instant(text, span),
        _ => Ok(operand),
    };
    let (left, right) = match (left.kind, right.kind) {
        (Kind::Time, Kind::String) => (left, as_time(right)?),
        (Kind::String, Kind::Time) => (as_time(left)?, right),
        (Kind::Int, Kind::Double) => (as_double(left), right),
        (Kind::Double, Kind::Int) => (left, as_double(right)),
        _ => (left, right),
    };
    match common(left.kind, right.kind) {
        Some(kind) if kind != Kind::Json => Ok((left, right, kind)),
        _ => {
            let message = format!(
                "{} and {} cannot be compared: cast one of them, as in CAST(x AS DOUBLE)",
                article(left.kind),
                article(right.kind)
            );
            Err(QueryError::at(span, message))
        }
    }
}

pub(crate) fn as_kind(found: Typed, kind: Kind) -> Expr {
    match (found.kind, kind) {
        (Kind::Int, Kind::Double) => {
            let cast = typed(Expr::Cast(Box::new(found.expr), Target::Double), Kind::Double);
            folded(cast, &Meter::for_constants()).expr
        }
        _ => found.expr,
    }
}

/// Returns a cast. For `TRY_CAST` (`is_tried`) NULL is an expected result.
pub(crate) fn cast(inner: Typed, data_type: &DataType, is_tried: bool, span: Span) -> Compiled {
    let (target, kind) = match data_type {
        DataType::Boolean | DataType::Bool => (Target::Bool, Kind::Bool),
        DataType::TinyInt(_) => (Target::Int(8), Kind::Int),
        DataType::SmallInt(_) => (Target::Int(16), Kind::Int),
        DataType::Int(_) | DataType::Integer(_) => (Target::Int(32), Kind::Int),
        DataType::BigInt(_) | DataType::Int64 => (Target::Int(64), Kind::Int),
        DataType::Real => (Target::Real, Kind::Double),
        // The precision in bits.
        DataType::Float(ExactNumberInfo::None | ExactNumberInfo::Precision(..=24)) => {
            (Target::Real, Kind::Double)
        }
        DataType::Float(_)
        | DataType::Double(_)
        | DataType::DoublePrecision
        | DataType::Float64 => (Target::Double, Kind::Double),
        DataType::Varchar(None)
        | DataType::Text
        | DataType::String(None)
        | DataType::Char(None) => (Target::String, Kind::String),
        DataType::Date => (Target::Date, Kind::Time),
        other if is_time_type(other) => (Target::Time, Kind::Time),
        _ => {
            let message = format!(
                "there is no type {data_type}: cast to BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, REAL, DOUBLE, STRING, TIMESTAMP or DATE"
            );
            return Err(QueryError::at(span, message));
        }
    };
    let inner = if target == Target::String { inner } else { member_as(inner, Kind::String) };
    let fits = match (inner.kind, target) {
        (Kind::Time, Target::Bool | Target::Real | Target::Double) => false,
        (Kind::Bool | Kind::Double, Target::Time | Target::Date) => false,
        _ => !inner.is_interval,
    };
    if !fits {
        let message = format!(
            "{} cannot be cast to {data_type}: cast it to STRING or BIGINT",
            article(inner.kind)
        );
        return Err(QueryError::at(span, message));
    }
    let cast: fn(Box<Expr>, Target) -> Expr = if is_tried { Expr::TryCast } else { Expr::Cast };
    Ok(typed(cast(Box::new(inner.expr), target), kind))
}

pub(crate) fn is_time_type(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(
            None,
            TimezoneInfo::None | TimezoneInfo::Tz | TimezoneInfo::WithTimeZone
        ) | DataType::Datetime(None)
    )
}

/// Returns a type with its article, for messages.
pub(crate) fn article(kind: Kind) -> String {
    match kind {
        Kind::Int => "an int".to_owned(),
        Kind::Null => "NULL".to_owned(),
        Kind::Json => "JSON".to_owned(),
        kind => format!("a {kind}"),
    }
}
