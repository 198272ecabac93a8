//! Compiles sqlparser's expressions: resolves names, checks types, and evaluates constants.
//!
//! - `conditions`: conditions, LIKE and CASE
//! - `calls`: functions and aggregates
//! - `members`: members of JSON

mod calls;
mod conditions;
mod members;

use sqlparser::{
    ast::{
        BinaryOperator, CastKind, CeilFloorKind, DataType, Expr as Ast, Function as Call, Ident,
        InTarget, ObjectNamePart, UnaryOperator, Value,
    },
    tokenizer::Span,
};
use thalweg_columns::{Cell, Columns, Kind};

use crate::{
    QueryError,
    aggregate::{Aggregate, AggregateFunction},
    expr::{Comparison, Expr},
    limits::STEPS_MAX,
    meter::Meter,
    parse::SUPPORTED,
    syntax::span_of,
    typed::{
        Compiled, Typed, binary, boolean, cast, comparable, compared, day, folded, instant,
        interval_of, is_time_type, literal, negative_literal, not, not_if, number, typed,
    },
};

/// The names that an expression may use, and what it has used so far.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    columns: &'a Columns,
    /// The allowed prefix of a column's name: the topic or its alias.
    prefixes: Vec<String>,
    has_window: bool,
    /// Indices of the columns to read, in the order of their cells.
    pub(crate) wanted: Vec<usize>,
    /// Names of results, for GROUP BY and HAVING.
    pub(crate) names: Vec<(String, Ast)>,
    grouping: Option<Grouping>,
    /// Whether the expression is the condition of WHERE, before windows exist.
    pub(crate) is_filter: bool,
    steps_left: usize,
    meter: Meter,
}

#[derive(Debug, Default)]
pub(crate) struct Grouping {
    pub(crate) keys: Vec<Typed>,
    pub(crate) aggregates: Vec<Aggregate>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(columns: &'a Columns, prefixes: Vec<String>, has_window: bool) -> Self {
        let (wanted, names) = (Vec::new(), Vec::new());
        Self {
            columns,
            prefixes,
            has_window,
            wanted,
            names,
            grouping: None,
            is_filter: false,
            steps_left: STEPS_MAX,
            meter: Meter::for_constants(),
        }
    }

    pub(crate) fn columns(&self) -> &'a Columns {
        self.columns
    }

    pub(crate) fn group_by(&mut self, keys: Vec<Typed>) {
        self.grouping = Some(Grouping { keys, aggregates: Vec::new() });
    }

    pub(crate) fn into_parts(self) -> (Vec<usize>, Option<Grouping>) {
        (self.wanted, self.grouping)
    }

    pub(crate) fn column(&mut self, index: usize) -> Typed {
        let known = self.wanted.iter().position(|wanted| *wanted == index);
        let cell = known.unwrap_or_else(|| {
            self.wanted.push(index);
            self.wanted.len() - 1
        });
        let kind = self.columns.iter().nth(index).map_or(Kind::Null, |column| column.kind);
        typed(Expr::Cell(cell), kind)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let exact = self.columns.iter().position(|column| column.name == name);
        exact.or_else(|| {
            let mut columns = self.columns.iter().enumerate();
            Some(columns.find(|(_, column)| column.name.eq_ignore_ascii_case(name))?.0)
        })
    }

    pub(crate) fn condition(&mut self, ast: &Ast, what: &str) -> Result<Expr, QueryError> {
        let span = span_of(ast, Span::empty());
        let found = self.compile(ast, span)?;
        boolean(found, span, what)
    }

    /// Compiles an expression. `around` is the position to report for expressions without a position of their own.
    pub(crate) fn compile(&mut self, ast: &Ast, around: Span) -> Compiled {
        let span = span_of(ast, around);
        self.step(1, span)?;
        if self.grouping.is_some()
            && let Some(found) = self.compile_group(ast, span)?
        {
            return Ok(found);
        }
        let found = self.compile_node(ast, span)?;
        Ok(folded(found, &self.meter))
    }

    fn step(&mut self, steps: usize, span: Span) -> Result<(), QueryError> {
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.ok_or_else(|| {
            QueryError::at(
                span,
                "the expressions have too many parts: shorten them, or use each name less often",
            )
        })?;
        Ok(())
    }

    /// Copies a compiled expression, and counts its nodes as steps.
    fn again(&mut self, typed: &Typed, span: Span) -> Compiled {
        let mut nodes = 0;
        typed.expr.visit(&mut |_| nodes += 1);
        self.step(nodes, span)?;
        Ok(typed.clone())
    }

    /// Compiles an aggregate or a key of a group. `None` for other expressions; their operands may be aggregates or keys.
    fn compile_group(&mut self, ast: &Ast, span: Span) -> Result<Option<Typed>, QueryError> {
        if let Ast::Function(call) = ast
            && let Some(function) = name_of(call).and_then(AggregateFunction::named)
        {
            return self.aggregate(function, call, span).map(Some);
        }
        let Some(grouping) = self.grouping.take() else { return Ok(None) };
        let plain = self.compile(ast, span);
        let found = plain.ok().and_then(|plain| {
            let is_of_window = matches!(
                plain.expr,
                Expr::WindowStart | Expr::WindowEnd | Expr::Constant(_) | Expr::Now
            );
            if is_of_window {
                return Some(plain);
            }
            let key = grouping.keys.iter().position(|key| key.expr == plain.expr)?;
            Some(Typed { expr: Expr::Cell(key), ..plain })
        });
        self.grouping = Some(grouping);
        Ok(found)
    }

    fn compile_node(&mut self, ast: &Ast, span: Span) -> Compiled {
        let refused = |what: &str| Err(QueryError::at(span, what));
        match ast {
            Ast::Identifier(name) => self.name(name),
            Ast::CompoundIdentifier(parts) => self.compound(parts, span),
            Ast::Nested(inner) => self.compile(inner, span),
            Ast::Value(value) => literal(&value.value, span),
            Ast::TypedString(text)
                if text.data_type == DataType::Date || is_time_type(&text.data_type) =>
            {
                let Value::SingleQuotedString(said) = &text.value.value else {
                    return refused("a time needs quotes: write TIMESTAMP '2022-07-13T21:04:08Z'");
                };
                if text.data_type == DataType::Date { day(said, span) } else { instant(said, span) }
            }
            Ast::Interval(interval) => interval_of(interval, span),
            Ast::UnaryOp { op, expr } => {
                if *op == UnaryOperator::Minus
                    && let Some(text) = number_text(expr)
                {
                    return negative_literal(text, span);
                }
                let inner = self.compile(expr, span)?;
                match op {
                    UnaryOperator::Not => {
                        Ok(typed(Expr::Not(Box::new(boolean(inner, span, "NOT")?)), Kind::Bool))
                    }
                    UnaryOperator::Minus => {
                        let is_interval = inner.is_interval;
                        let inner = number(inner, span)?;
                        Ok(Typed {
                            expr: Expr::Negative(Box::new(inner.expr)),
                            kind: inner.kind,
                            is_interval,
                        })
                    }
                    UnaryOperator::Plus => number(inner, span),
                    _ => refused("this operator is not supported: use +, - or NOT"),
                }
            }
            Ast::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
                self.arrow(left, right, Kind::Json, span)
            }
            Ast::BinaryOp { left, op: BinaryOperator::LongArrow, right } => {
                self.arrow(left, right, Kind::String, span)
            }
            Ast::BinaryOp { left, op, right } => {
                let (left, right) = (self.compile(left, span)?, self.compile(right, span)?);
                binary(left, op, right, span)
            }
            Ast::IsNull(inner) => self.is_null(inner, span),
            Ast::IsNotNull(inner) => self.is_null(inner, span).map(not),
            Ast::IsTrue(inner) => self.is(inner, Cell::Bool(true), span),
            Ast::IsNotTrue(inner) => self.is(inner, Cell::Bool(true), span).map(not),
            Ast::IsFalse(inner) => self.is(inner, Cell::Bool(false), span),
            Ast::IsNotFalse(inner) => self.is(inner, Cell::Bool(false), span).map(not),
            Ast::IsDistinctFrom(left, right) => self.is_same(left, right, span).map(not),
            Ast::IsNotDistinctFrom(left, right) => self.is_same(left, right, span),
            Ast::Between { expr, negated, low, high } => {
                let value = self.compile(expr, span)?;
                let (low, high) = (self.compile(low, span)?, self.compile(high, span)?);
                let from =
                    compared(self.again(&value, span)?, Comparison::GreaterOrEqual, low, span)?;
                let to = compared(value, Comparison::LessOrEqual, high, span)?;
                let both = typed(Expr::And(Box::new(from.expr), Box::new(to.expr)), Kind::Bool);
                Ok(not_if(*negated, both))
            }
            Ast::In { expr, target: InTarget::List(list), negated, .. } => {
                let value = self.compile(expr, span)?;
                let (mut found, mut value_is) = (Vec::new(), value);
                for other in list {
                    let other = self.compile(other, span)?;
                    let (left, right, _) = comparable(value_is, other, span)?;
                    value_is = left;
                    found.push(right.expr);
                }
                let is_in = typed(Expr::In(Box::new(value_is.expr), found), Kind::Bool);
                Ok(not_if(*negated, is_in))
            }
            Ast::Like { negated, any: false, expr, pattern, escape_char } => self
                .like(expr, pattern, escape_char.as_deref(), false, span)
                .map(|condition| not_if(*negated, condition)),
            Ast::ILike { negated, any: false, expr, pattern, escape_char } => self
                .like(expr, pattern, escape_char.as_deref(), true, span)
                .map(|condition| not_if(*negated, condition)),
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), span)
            }
            Ast::Cast { kind, expr, data_type, format: None } => {
                let inner = self.compile(expr, span)?;
                let is_tried = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                cast(inner, data_type, is_tried, span)
            }
            Ast::Extract { field, expr, .. } => {
                let part =
                    Ast::Value(Value::SingleQuotedString(field.to_string().to_lowercase()).into());
                self.call("date_part", &[&part, expr], span)
            }
            Ast::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                let arguments: Vec<&Ast> = [Some(&**expr), Some(&**from), substring_for.as_deref()]
                    .into_iter()
                    .flatten()
                    .collect();
                self.call("substr", &arguments, span)
            }
            Ast::Trim { trim_where: None, trim_what: None, expr, trim_characters: None } => {
                self.call("trim", &[expr], span)
            }
            Ast::Position { expr, r#in } => self.call("strpos", &[r#in, expr], span),
            Ast::Ceil { expr, field: CeilFloorKind::DateTimeField(field) }
                if field.to_string().is_empty() =>
            {
                self.call("ceil", &[expr], span)
            }
            Ast::Floor { expr, field: CeilFloorKind::DateTimeField(field) }
                if field.to_string().is_empty() =>
            {
                self.call("floor", &[expr], span)
            }
            Ast::Ceil { expr, .. } => self.call("ceil", &[expr], span),
            Ast::Floor { expr, .. } => self.call("floor", &[expr], span),
            Ast::Function(call) => self.function(call, span),
            Ast::Subquery(_) | Ast::Exists { .. } | Ast::In { .. } => refused(
                "subqueries are not supported: give the inner query a topic of its own in the configuration, and select from this topic",
            ),
            _ => Err(QueryError::at(span, unsupported(ast))),
        }
    }

    fn name(&mut self, name: &Ident) -> Compiled {
        let is = |other: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(other);
        let bound = match () {
            () if is("window_start") => Some(Expr::WindowStart),
            () if is("window_end") => Some(Expr::WindowEnd),
            () => None,
        };
        // The topic may have columns of these names. In a query with windows they need the topic as prefix.
        if let Some(bound) = &bound
            && self.has_window
            && !self.is_filter
        {
            return Ok(typed(bound.clone(), Kind::Time));
        }
        if let Some(column) = self.column_named(name) {
            return column;
        }
        if bound.is_some() {
            let message = match self.is_filter && self.has_window {
                true => {
                    "WHERE applies to events, before they are in windows: compare their time, or use HAVING"
                }
                false => "there is no window: write FROM tumble(topic, 1s)",
            };
            return Err(QueryError::at(name.span, message));
        }
        if let Some(at) =
            self.names.iter().position(|(known, _)| known.eq_ignore_ascii_case(&name.value))
        {
            // Names inside the named expression mean columns only.
            let names = std::mem::take(&mut self.names);
            let found = self.compile(&names[at].1, name.span);
            self.names = names;
            return found;
        }
        Err(self.no_column(name))
    }

    fn column_named(&mut self, name: &Ident) -> Option<Compiled> {
        let index = self.find(&name.value)?;
        if self.grouping.is_some() {
            let message = format!(
                "{0} is neither in GROUP BY nor in an aggregate: add it to GROUP BY, or write max({0})",
                name.value
            );
            return Some(Err(QueryError::at(name.span, message)));
        }
        Some(Ok(self.column(index)))
    }

    fn no_column(&self, name: &Ident) -> QueryError {
        let known: Vec<&str> = self.columns.iter().map(|column| &*column.name).collect();
        let message = format!("there is no column {}: there are {}", name.value, known.join(", "));
        QueryError::missing_column(name, message)
    }
}

/// Returns the message for an expression that sqlparser parses but queries do not support.
fn unsupported(ast: &Ast) -> String {
    let (name, remedy) = match ast {
        Ast::SimilarTo { .. } => ("SIMILAR TO", "use LIKE"),
        Ast::RLike { .. } => ("a regular expression", "use LIKE"),
        Ast::Like { .. } | Ast::ILike { .. } => ("LIKE ANY", "join several LIKE with OR"),
        Ast::AnyOp { .. } | Ast::AllOp { .. } => ("ANY or ALL", "use IN (…), or AND and OR"),
        Ast::AtTimeZone { .. } => {
            ("AT TIME ZONE", "add an interval to the time in UTC, as in time + INTERVAL 2 HOUR")
        }
        Ast::Collate { .. } => ("COLLATE", "remove it, because texts compare by code points"),
        Ast::IsUnknown(_) => ("IS UNKNOWN", "write IS NULL"),
        Ast::IsNotUnknown(_) => ("IS NOT UNKNOWN", "write IS NOT NULL"),
        Ast::IsJson { .. } | Ast::IsNormalized { .. } => ("this IS", "write IS NULL or IS TRUE"),
        Ast::CompoundFieldAccess { .. } => ("a subscript", "write x->0 or x->'member'"),
        Ast::JsonAccess { .. } => ("the operator :", "write x->'member'"),
        Ast::GroupingSets(_) | Ast::Cube(_) | Ast::Rollup(_) => {
            ("this GROUP BY", "run a query for each set of groups")
        }
        Ast::QualifiedWildcard(..) | Ast::Wildcard(_) => {
            ("* here", "write SELECT * alone, or name the columns")
        }
        Ast::Tuple(_) => ("a list here", "write one expression, or IN (…) with a list"),
        Ast::Array(_) | Ast::Struct { .. } | Ast::Map(_) | Ast::Dictionary(_) => {
            ("a literal of several values", "write several results")
        }
        Ast::Convert { .. } | Ast::Cast { .. } => ("this cast", "write CAST(x AS BIGINT)"),
        Ast::Trim { .. } => ("this TRIM", "write trim(x), ltrim(x) or rtrim(x)"),
        Ast::TypedString(text) => {
            return format!(
                "{} with a text is not supported: write TIMESTAMP '2022-07-13T21:04:08Z' or DATE '2022-07-13'",
                text.data_type
            );
        }
        _ => ("this expression", SUPPORTED),
    };
    format!("{name} is not supported: {remedy}")
}

/// Returns the number in an expression, in brackets or not.
fn number_text(ast: &Ast) -> Option<&str> {
    match ast {
        Ast::Nested(inner) => number_text(inner),
        Ast::Value(value) => match &value.value {
            Value::Number(text, _) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn name_of(call: &Call) -> Option<&str> {
    match &*call.name.0 {
        [ObjectNamePart::Identifier(name)] => Some(&name.value),
        _ => None,
    }
}
