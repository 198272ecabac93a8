//! Compiles sqlparser's expressions: resolves names, checks types, and evaluates constants.

use sqlparser::{
    ast::{
        CaseWhen, CastKind, CeilFloorKind, DataType, DuplicateTreatment, Expr as Ast,
        Function as Call, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, InTarget,
        ObjectNamePart, UnaryOperator, Value,
    },
    tokenizer::Span,
};
use thalweg_columns::{Cell, Columns, Kind};

use crate::{
    QueryError,
    aggregate::{Aggregate, AggregateFunction},
    civil,
    expr::{Comparison, Expr},
    functions::{FUNCTIONS, Function, Signature, common},
    like::LikePattern,
    limits::STEPS_MAX,
    meter::Meter,
    syntax::span_of,
    typed::{
        Compiled, Typed, article, as_kind, binary, boolean, cast, comparable, compared, day,
        folded, instant, interval_of, is_time_type, literal, negative_literal, not, not_if, number,
        typed,
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
    /// A meter for evaluating constant expressions.
    meter: Meter,
}

/// The keys and the aggregates.
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

    /// Compiles expressions of groups from now on.
    pub(crate) fn group_by(&mut self, keys: Vec<Typed>) {
        self.grouping = Some(Grouping { keys, aggregates: Vec::new() });
    }

    pub(crate) fn into_parts(self) -> (Vec<usize>, Option<Grouping>) {
        (self.wanted, self.grouping)
    }

    /// Returns the column with this index as an expression of rows.
    pub(crate) fn column(&mut self, index: usize) -> Typed {
        let known = self.wanted.iter().position(|wanted| *wanted == index);
        let cell = known.unwrap_or_else(|| {
            self.wanted.push(index);
            self.wanted.len() - 1
        });
        let kind = self.columns.iter().nth(index).map_or(Kind::Null, |column| column.kind);
        typed(Expr::Cell(cell), kind)
    }

    /// Returns the index of a column.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let exact = self.columns.iter().position(|column| column.name == name);
        exact.or_else(|| {
            let mut columns = self.columns.iter().enumerate();
            Some(columns.find(|(_, column)| column.name.eq_ignore_ascii_case(name))?.0)
        })
    }

    /// Compiles a condition.
    pub(crate) fn condition(&mut self, ast: &Ast, what: &str) -> Result<Expr, QueryError> {
        let span = span_of(ast, Span::empty());
        let found = self.compile(ast, span)?;
        boolean(found, span, what)
    }

    /// Compiles an expression. `around` is the position to report for expressions without their own.
    pub(crate) fn compile(&mut self, ast: &Ast, around: Span) -> Compiled {
        let span = span_of(ast, around);
        self.step(1, span)?;
        if self.grouping.is_some()
            && let Some(found) = self.of_group(ast, span)?
        {
            return Ok(found);
        }
        let found = self.compile_node(ast, span)?;
        Ok(folded(found, &self.meter))
    }

    /// Counts steps of compilation.
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
    fn of_group(&mut self, ast: &Ast, span: Span) -> Result<Option<Typed>, QueryError> {
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

    fn aggregate(&mut self, function: AggregateFunction, call: &Call, span: Span) -> Compiled {
        let usage = || QueryError::at(span, format!("call this function as {}", function.usage()));
        let Some(mut grouping) = self.grouping.take() else { return Err(usage()) };
        let argument = match arguments(call, span)? {
            CallArguments::All if function == AggregateFunction::Count => Ok(None),
            CallArguments::These(arguments) => match &*arguments {
                [argument] => self.compile(argument, span).map(Some),
                _ => Err(usage()),
            },
            CallArguments::All => Err(usage()),
        };
        let filter = match &call.filter {
            Some(filter) => self.condition(filter, "FILTER").map(Some),
            None => Ok(None),
        };
        let found = argument.and_then(|argument| {
            let filter = filter?;
            let kind = argument.as_ref().map_or(Kind::Null, |argument| argument.kind);
            let result = function.result(kind).ok_or_else(|| {
                let message =
                    format!("the argument is {}: call this as {}", article(kind), function.usage());
                QueryError::at(span, message)
            })?;
            let argument = argument.map(|argument| argument.expr);
            let aggregate = Aggregate { function, argument, kind, filter };
            let known = grouping.aggregates.iter().position(|known| *known == aggregate);
            let index = known.unwrap_or_else(|| {
                grouping.aggregates.push(aggregate);
                grouping.aggregates.len() - 1
            });
            // Results follow the keys.
            Ok(typed(Expr::Cell(grouping.keys.len() + index), result))
        });
        self.grouping = Some(grouping);
        found
    }

    fn compile_node(&mut self, ast: &Ast, span: Span) -> Compiled {
        let refused = |what: &str| Err(QueryError::at(span, what));
        match ast {
            Ast::Identifier(name) => self.name(name),
            Ast::CompoundIdentifier(parts) => match &**parts {
                [prefix, name]
                    if self
                        .prefixes
                        .iter()
                        .any(|known| known.eq_ignore_ascii_case(&prefix.value)) =>
                {
                    self.column_named(name).unwrap_or_else(|| Err(self.no_column(name)))
                }
                [.., name] => Err(QueryError::at(
                    span,
                    format!("{ast} is not a column: write {}", name.value),
                )),
                [] => refused("a name is missing"),
            },
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
            Ast::UnaryOp { op: UnaryOperator::Minus, expr }
                if let Some(text) = number_text(expr) =>
            {
                negative_literal(text, span)
            }
            Ast::UnaryOp { op, expr } => {
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
            _ => refused(
                "this expression is not supported: docs/reference/sql.md lists the supported ones",
            ),
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

    /// Returns the column of this name, if any.
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
        QueryError::of_column(name, message)
    }

    fn is_null(&mut self, inner: &Ast, span: Span) -> Compiled {
        let inner = self.compile(inner, span)?;
        Ok(typed(Expr::IsNull(Box::new(inner.expr)), Kind::Bool))
    }

    fn is(&mut self, inner: &Ast, value: Cell<'static>, span: Span) -> Compiled {
        let inner = self.compile(inner, span)?;
        let inner = boolean(inner, span, "IS TRUE")?;
        let value = Box::new(Expr::Constant(value));
        Ok(typed(Expr::IsSame(Box::new(inner), value), Kind::Bool))
    }

    fn is_same(&mut self, left: &Ast, right: &Ast, span: Span) -> Compiled {
        let (left, right) = (self.compile(left, span)?, self.compile(right, span)?);
        let (left, right, _) = comparable(left, right, span)?;
        Ok(typed(Expr::IsSame(Box::new(left.expr), Box::new(right.expr)), Kind::Bool))
    }

    fn like(
        &mut self,
        value: &Ast,
        pattern: &Ast,
        escape: Option<&Ast>,
        ignores_case: bool,
        span: Span,
    ) -> Compiled {
        let value = self.compile(value, span)?;
        if !matches!(value.kind, Kind::String | Kind::Null) {
            let message = format!(
                "LIKE needs a string, and this is {}: cast it, as in CAST(x AS STRING)",
                article(value.kind)
            );
            return Err(QueryError::at(span, message));
        }
        let mut text = |ast: &Ast| match self.compile(ast, span) {
            Ok(Typed { expr: Expr::Constant(Cell::String(text)), .. }) => Ok(Some(text)),
            Ok(Typed { expr: Expr::Constant(Cell::Null), .. }) => Ok(None),
            _ => Err(QueryError::at(span_of(ast, span), "LIKE needs a text in quotes")),
        };
        let (pattern_at, escape_at) =
            (span_of(pattern, span), escape.map_or(span, |escape| span_of(escape, span)));
        let (pattern, escape) = (text(pattern)?, escape.map(&mut text).transpose()?);
        let (Some(pattern), Some(escape)) = (pattern, escape.unwrap_or(Some("".into()))) else {
            return Ok(typed(Expr::Constant(Cell::Null), Kind::Bool));
        };
        let mut escapes = escape.chars();
        let (escape, None) = (escapes.next(), escapes.next()) else {
            return Err(QueryError::at(escape_at, "ESCAPE takes one character, as in ESCAPE '!'"));
        };
        let pattern = LikePattern::new(&pattern, escape, ignores_case).ok_or_else(|| {
            let message =
                "the pattern ends with the character of ESCAPE: to match it, write it twice";
            QueryError::at(pattern_at, message)
        })?;
        Ok(typed(Expr::Like(Box::new(value.expr), Box::new(pattern)), Kind::Bool))
    }

    fn case(
        &mut self,
        operand: Option<&Ast>,
        conditions: &[CaseWhen],
        otherwise: Option<&Ast>,
        span: Span,
    ) -> Compiled {
        let operand = operand.map(|operand| self.compile(operand, span)).transpose()?;
        let mut kind = Kind::Null;
        let mut add = |result: &Typed, at: Span| match common(kind, result.kind) {
            Some(both) => {
                kind = both;
                Ok(())
            }
            None => {
                let message = format!(
                    "the results of CASE need one type, and these are {} and {}: cast one of them",
                    article(kind),
                    article(result.kind)
                );
                Err(QueryError::at(at, message))
            }
        };
        let mut found = Vec::new();
        for CaseWhen { condition, result } in conditions {
            let at = span_of(condition, span);
            let condition = self.compile(condition, span)?;
            let condition = match &operand {
                Some(operand) => {
                    let operand = self.again(operand, at)?;
                    compared(operand, Comparison::Equal, condition, at)?.expr
                }
                None => boolean(condition, at, "WHEN")?,
            };
            let at = span_of(result, span);
            let result = self.compile(result, span)?;
            add(&result, at)?;
            found.push((condition, result));
        }
        let otherwise_at = otherwise.map_or(span, |otherwise| span_of(otherwise, span));
        let otherwise = match otherwise {
            Some(otherwise) => self.compile(otherwise, span)?,
            None => typed(Expr::Constant(Cell::Null), Kind::Null),
        };
        add(&otherwise, otherwise_at)?;
        let conditions =
            found.into_iter().map(|(condition, result)| (condition, as_kind(result, kind)));
        let expr = Expr::Case(conditions.collect(), Box::new(as_kind(otherwise, kind)));
        Ok(typed(expr, kind))
    }

    fn function(&mut self, call: &Call, span: Span) -> Compiled {
        let name = name_of(call).unwrap_or_default().to_lowercase();
        if call.over.is_some() {
            return Err(QueryError::at(
                span,
                "window functions (OVER) are not supported: use tumble or hop and GROUP BY",
            ));
        }
        if AggregateFunction::named(&name).is_some() {
            let message = format!(
                "{name} is an aggregate, and is not allowed here: write it after SELECT or HAVING, with FROM tumble(topic, 1s) and GROUP BY window_start"
            );
            return Err(QueryError::at(span, message));
        }
        let CallArguments::These(arguments) = arguments(call, span)? else {
            return Err(QueryError::at(span, "only count accepts *: name a column"));
        };
        match (&*name, &*arguments) {
            ("now" | "current_timestamp", []) => Ok(typed(Expr::Now, Kind::Time)),
            ("if" | "iif", [condition, then, otherwise]) => {
                let case = CaseWhen { condition: (*condition).clone(), result: (*then).clone() };
                self.case(None, &[case], Some(otherwise), span)
            }
            _ => self.call(&name, &arguments, span),
        }
    }

    fn call(&mut self, name: &str, arguments: &[&Ast], span: Span) -> Compiled {
        let has_name = |known: &&Signature| known.names.contains(&name);
        let signature = FUNCTIONS.iter().find(has_name).ok_or_else(|| no_function(name, span))?;
        let found = arguments.iter().map(|argument| self.compile(argument, span));
        let found = found.collect::<Result<Vec<Typed>, QueryError>>()?;
        let kinds: Vec<Kind> = found.iter().map(|found| found.kind).collect();
        let known: Vec<Kind> = stand_ins(signature, &kinds);
        let result = (signature.result)(&known).ok_or_else(|| {
            let of: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
            let message = format!(
                "no function {name}({}) exists: call it as {}",
                of.join(", "),
                signature.usage
            );
            QueryError::at(span, message)
        })?;
        let (found, result) = with_part(signature.function, found, result, span)?;
        let is_one_type = matches!(
            signature.function,
            Function::Coalesce | Function::Least | Function::Greatest | Function::NullIf
        );
        let exprs = found
            .into_iter()
            .map(|found| if is_one_type { as_kind(found, result) } else { found.expr });
        Ok(typed(Expr::Call(signature.function, exprs.collect()), result))
    }
}

/// Replaces the type of NULL arguments by one that the signature accepts.
fn stand_ins(signature: &Signature, kinds: &[Kind]) -> Vec<Kind> {
    let tries = [Kind::Null, Kind::String, Kind::Int, Kind::Time];
    let stand_in = |by: Kind| -> Vec<Kind> {
        kinds.iter().map(|kind| if *kind == Kind::Null { by } else { *kind }).collect()
    };
    let found = tries.into_iter().map(stand_in).find(|kinds| (signature.result)(kinds).is_some());
    found.unwrap_or_else(|| kinds.to_vec())
}

/// Returns the arguments and the type of a call that names a part of a time, with the name in lower case. Returns other
/// calls unchanged.
fn with_part(
    function: Function,
    mut arguments: Vec<Typed>,
    result: Kind,
    span: Span,
) -> Result<(Vec<Typed>, Kind), QueryError> {
    let known: &[&'static str] = match function {
        Function::DateTrunc => &civil::UNITS,
        Function::Extract => &civil::PARTS,
        _ => return Ok((arguments, result)),
    };
    let named = match arguments.first().map(|first| &first.expr) {
        Some(Expr::Constant(Cell::String(said))) => {
            known.iter().find(|part| part.eq_ignore_ascii_case(said))
        }
        _ => None,
    };
    let no_part = || {
        QueryError::at(
            span,
            format!("this part of a time is not known: write one of {}", known.join(", ")),
        )
    };
    let part: &'static str = named.ok_or_else(no_part)?;
    arguments[0].expr = Expr::Constant(Cell::String(part.into()));
    let result = if part == civil::EPOCH { Kind::Double } else { result };
    Ok((arguments, result))
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

fn no_function(name: &str, span: Span) -> QueryError {
    let known: Vec<&str> = FUNCTIONS.iter().map(|function| function.names[0]).collect();
    QueryError::at(span, format!("there is no function {name}: there are {}", known.join(", ")))
}

/// The arguments of a call.
enum CallArguments<'a> {
    /// `*`
    All,
    These(Vec<&'a Ast>),
}

fn arguments(call: &Call, span: Span) -> Result<CallArguments<'_>, QueryError> {
    let refused = |what: &str| Err(QueryError::at(span, what));
    let list = match &call.args {
        FunctionArguments::None => return Ok(CallArguments::These(Vec::new())),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => return refused("subqueries are not supported"),
    };
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) {
        return refused("DISTINCT is not supported: group by the columns in a window");
    }
    if !list.clauses.is_empty() || !call.within_group.is_empty() || call.null_treatment.is_some() {
        return refused("clauses in a call are not supported: write only arguments");
    }
    if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = &*list.args {
        return Ok(CallArguments::All);
    }
    let argument = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Ok(expr),
        _ => Err(QueryError::at(span, "named arguments are not supported: remove the names")),
    };
    Ok(CallArguments::These(list.args.iter().map(argument).collect::<Result<_, _>>()?))
}

fn name_of(call: &Call) -> Option<&str> {
    match &*call.name.0 {
        [ObjectNamePart::Identifier(name)] => Some(&name.value),
        _ => None,
    }
}
