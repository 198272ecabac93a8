//! What a query does with each event, once it is known what the columns of its topic are.

use std::sync::Arc;

use sqlparser::{ast::Expr as Ast, tokenizer::Span};
use thalweg_columns::{Cell, CellReader, Columns, Kind};

use crate::{
    QueryError,
    aggregate::Aggregate,
    compile::Scope,
    expr::Expr,
    from::Window,
    limits::{NODES_MAX, TIMEOUT_MS},
    syntax::{Item, Statement, span_of},
    typed::{Typed, article},
};

/// A query over a topic with known columns.
#[derive(Debug)]
pub struct Plan {
    pub(crate) schema: Arc<Columns>,
    /// The columns that are read, in the order of their cells.
    pub(crate) wanted: Vec<usize>,
    pub(crate) filter: Option<Expr>,
    pub(crate) window: Option<PlannedWindow>,
    pub(crate) shape: Shape,
    pub(crate) results: Vec<ResultColumn>,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
}

/// Windows over the events of a topic, by their own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedWindow {
    /// The cell of the events' time.
    pub(crate) time: usize,
    pub(crate) size_ms: i64,
    pub(crate) step_ms: i64,
    /// How long events may be late.
    pub(crate) delay_ms: i64,
    /// Without events for so long, all windows are closed; `None`: it is not said.
    pub(crate) timeout_ms: Option<i64>,
}

/// What becomes of rows.
#[derive(Debug, PartialEq)]
pub(crate) enum Shape {
    /// The event as it is.
    Whole,
    /// A row for each event; where there are windows, one for each window that it is in.
    Rows(Vec<Expr>),
    /// A row for each group, when its window closes.
    Groups {
        keys: Vec<Expr>,
        aggregates: Vec<Aggregate>,
        /// Over keys and, behind them, aggregates.
        items: Vec<Expr>,
        having: Option<Expr>,
    },
}

impl Plan {
    /// The columns of the result.
    pub fn results(&self) -> &[ResultColumn] {
        &self.results
    }

    /// Whether it has rows of groups, which come when their windows close.
    pub fn has_windows(&self) -> bool {
        matches!(self.shape, Shape::Groups { .. })
    }

    /// How long it waits for more events before it closes its windows, in ms, if the query says so.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.window.and_then(|window| window.timeout_ms).map(|ms| ms as u64)
    }

    /// How long it waits if the query does not say so, and it runs on one machine: a window at least.
    pub fn default_timeout_ms(&self) -> u64 {
        self.window.map_or(0, |window| window.size_ms as u64).max(TIMEOUT_MS)
    }

    /// What it takes and makes: two plans of one query that differ in this may make different rows.
    pub fn signature(&self) -> String {
        let taken = self.schema.iter().map(|column| format!("{}:{}", column.name, column.kind));
        let made = self.results.iter().map(|column| format!("{}:{}", column.name, column.kind));
        let (taken, made): (Vec<String>, Vec<String>) = (taken.collect(), made.collect());
        format!("{}\n{}", taken.join(" "), made.join(" "))
    }

    /// By how much older than the newest event those must be with which a query begins ([`crate::Beginning::Block`]) so that it
    /// makes the window that was over last, and all after it; in ms. `None`: it has no windows, and can begin anywhere.
    pub fn replayed_ms(&self) -> Option<i64> {
        let window = self.window.filter(|_| self.has_windows())?;
        Some(2 * (window.delay_ms + window.step_ms) + window.size_ms)
    }

    /// The time of an event in its windows, in ms since 1970.
    pub fn time_ms(&self, event: &[u8]) -> Option<i64> {
        let window = self.window?;
        let mut cells = [Cell::Null];
        CellReader::new(&self.schema, &[self.wanted[window.time]]).read(event, &mut cells);
        match cells {
            [Cell::Time(ms)] => Some(ms),
            _ => None,
        }
    }

    pub(crate) fn new(statement: &Statement, schema: &Arc<Columns>) -> Result<Self, QueryError> {
        let source = &statement.source;
        if !schema.are_named() {
            let message = format!(
                "the events of {} have no columns: they are neither objects nor arrays with declared columns",
                source.topic.value
            );
            return Err(QueryError::at(source.topic.span, message));
        }
        let mut prefixes = vec![source.topic.value.clone()];
        prefixes.extend(source.alias.clone());
        let mut scope = Scope::new(schema, prefixes, source.window.is_some());
        let named = statement.items.iter().filter_map(|item| match item {
            Item::One { expr, name: Some(name), .. } => Some((name.clone(), (**expr).clone())),
            _ => None,
        });
        scope.names = named.collect();
        let filter = statement.filter.as_ref();
        scope.is_filter = true;
        let filter = filter.map(|filter| scope.condition(filter, "WHERE")).transpose()?;
        scope.is_filter = false;
        let time = source.window.as_ref().map(|window| time_cell(window, schema, &mut scope));
        let time = time.transpose()?;
        check_emit(statement)?;
        let window = source.window.as_ref().zip(time).map(|(window, time)| PlannedWindow {
            time,
            size_ms: window.size_ms,
            step_ms: window.step_ms,
            delay_ms: statement.emit.delay_ms.unwrap_or(0),
            timeout_ms: statement.emit.timeout_ms,
        });
        let keys = keys(statement, &mut scope)?;
        let is_grouped = !statement.group_by.is_empty() || has_aggregates(statement);
        let (shape, results, wanted) = match is_grouped {
            true => {
                check_window(statement, &keys)?;
                grouped(statement, keys, scope)?
            }
            false => rows(statement, scope)?,
        };
        let plan = Self { schema: Arc::clone(schema), wanted, filter, window, shape, results };
        plan.check_nodes()?;
        Ok(plan)
    }

    /// All expressions that are evaluated.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        let mut found: Vec<&Expr> = self.filter.iter().collect();
        match &self.shape {
            Shape::Whole => {}
            Shape::Rows(items) => found.extend(items),
            Shape::Groups { keys, aggregates, items, having } => {
                found.extend(keys.iter().chain(items).chain(having));
                for aggregate in aggregates {
                    found.extend(aggregate.argument.iter().chain(&aggregate.filter));
                }
            }
        }
        found
    }

    fn check_nodes(&self) -> Result<(), QueryError> {
        let mut nodes = 0;
        for expr in self.expressions() {
            expr.visit(&mut |_| nodes += 1);
        }
        if nodes <= NODES_MAX {
            return Ok(());
        }
        let message = format!(
            "the expressions have {nodes} parts, and {NODES_MAX} are the most: shorten them"
        );
        Err(QueryError::at(Span::empty(), message))
    }
}

/// The time of a window: the column that is named, or else `_tp_time`, `time`, or the only one that is a time.
fn time_cell(
    window: &Window,
    schema: &Columns,
    scope: &mut Scope<'_>,
) -> Result<usize, QueryError> {
    let times: Vec<(usize, &str)> = schema
        .iter()
        .enumerate()
        .filter(|(_, column)| column.kind == Kind::Time)
        .map(|(index, column)| (index, &*column.name))
        .collect();
    let index = match &window.time {
        Some(name) => {
            let kind = |index: usize| schema.iter().nth(index).map(|column| column.kind);
            match scope.find(&name.value) {
                Some(index) if kind(index) == Some(Kind::Time) => index,
                Some(_) => {
                    let message =
                        format!("{0} is no time: declare it as one, {0}:time", name.value);
                    return Err(QueryError::at(name.span, message));
                }
                None => {
                    let names: Vec<&str> = times.iter().map(|(_, name)| *name).collect();
                    let message = format!(
                        "there is no column {}: the times are {}",
                        name.value,
                        names.join(", ")
                    );
                    return Err(QueryError::at(name.span, message));
                }
            }
        }
        None => {
            let named = |wanted: &str| times.iter().find(|(_, name)| *name == wanted);
            match (named("_tp_time").or_else(|| named("time")), &*times) {
                (Some((index, _)), _) | (None, [(index, _)]) => *index,
                (None, []) => {
                    let message =
                        "the topic has no column that is a time: declare one, as in time:time";
                    return Err(QueryError::at(window.span, message));
                }
                (None, [(_, first), ..]) => {
                    let message = format!(
                        "there are several times: say which, as in tumble(topic, {first}, 1s)"
                    );
                    return Err(QueryError::at(window.span, message));
                }
            }
        }
    };
    match scope.column(index).expr {
        Expr::Cell(cell) => Ok(cell),
        _ => Err(QueryError::at(window.span, "this is no column")),
    }
}

fn check_emit(statement: &Statement) -> Result<(), QueryError> {
    match statement.emit.span {
        Some(span) if statement.source.window.is_none() => Err(QueryError::at(
            span,
            "EMIT is about windows, and there is none: leave it out, or write FROM tumble(topic, 1s)",
        )),
        _ => Ok(()),
    }
}

/// What is grouped by, window bounds included.
fn keys(statement: &Statement, scope: &mut Scope<'_>) -> Result<Vec<Typed>, QueryError> {
    let key = |ast: &Ast| {
        let span = span_of(ast, Span::empty());
        let found = scope.compile(ast, span)?;
        match found.expr {
            Expr::Constant(_) | Expr::Now => {
                Err(QueryError::at(span, "GROUP BY takes columns, and expressions of columns"))
            }
            _ if found.kind == Kind::Json => Err(QueryError::at(
                span,
                "JSON cannot be grouped by: cast it, as in CAST(x AS STRING)",
            )),
            _ => Ok(found),
        }
    };
    statement.group_by.iter().map(key).collect()
}

fn has_aggregates(statement: &Statement) -> bool {
    let of_item = |item: &Item| match item {
        Item::All => false,
        Item::One { expr, .. } => is_aggregate(expr),
    };
    statement.having.is_some() || statement.items.iter().any(of_item)
}

/// Whether there is an aggregate in an expression.
fn is_aggregate(ast: &Ast) -> bool {
    // What sqlparser writes of it has each call by its name.
    let said = ast.to_string().to_lowercase();
    // What stands in quotes calls nothing.
    let said: String = said.split('\'').step_by(2).collect::<Vec<_>>().join("''");
    crate::aggregate::AGGREGATES.iter().flat_map(|(names, ..)| *names).any(|name| {
        let is_start = |at: usize| {
            !said[..at].ends_with(|before: char| {
                before.is_alphanumeric() || before == '_' || before == '"'
            })
        };
        said.match_indices(&format!("{name}(")).any(|(at, _)| is_start(at))
    })
}

/// Without a window groups never end; and rows of a group are those of a window.
fn check_window(statement: &Statement, keys: &[Typed]) -> Result<(), QueryError> {
    const REMEDY: &str = "write FROM tumble(topic, 1s) and GROUP BY window_start";
    let first = statement.group_by.first().or_else(|| {
        statement.items.iter().find_map(|item| match item {
            Item::One { expr, .. } if is_aggregate(expr) => Some(&**expr),
            _ => None,
        })
    });
    let span = first
        .or(statement.having.as_ref())
        .map_or(Span::empty(), |ast| span_of(ast, Span::empty()));
    if statement.source.window.is_none() {
        let message = format!("without a window this never ends, because events go on: {REMEDY}");
        return Err(QueryError::at(span, message));
    }
    let is_of_window = |key: &Typed| matches!(key.expr, Expr::WindowStart | Expr::WindowEnd);
    if !keys.iter().any(is_of_window) {
        let message = format!("groups are those of a window: {REMEDY}");
        return Err(QueryError::at(span, message));
    }
    Ok(())
}

type Shaped = (Shape, Vec<ResultColumn>, Vec<usize>);

fn grouped(
    statement: &Statement,
    mut keys: Vec<Typed>,
    mut scope: Scope<'_>,
) -> Result<Shaped, QueryError> {
    keys.retain(|key| !matches!(key.expr, Expr::WindowStart | Expr::WindowEnd));
    scope.group_by(keys);
    let (mut items, mut results) = (Vec::new(), Vec::new());
    for item in &statement.items {
        let Item::One { expr, name, text } = item else {
            return Err(QueryError::at(
                statement.source.topic.span,
                "SELECT * has no place in a query with groups: name what is grouped by and what is aggregated",
            ));
        };
        let span = span_of(expr, Span::empty());
        let found = scope.compile(expr, span)?;
        add_result(&mut results, name.as_deref().unwrap_or(text), found.kind, span)?;
        items.push(found.expr);
    }
    let having = statement.having.as_ref();
    let having = having.map(|having| scope.condition(having, "HAVING")).transpose()?;
    let (wanted, grouping) = scope.into_parts();
    let grouping = grouping.unwrap_or_default();
    let keys = grouping.keys.into_iter().map(|key| key.expr).collect();
    Ok((Shape::Groups { keys, aggregates: grouping.aggregates, items, having }, results, wanted))
}

fn rows(statement: &Statement, mut scope: Scope<'_>) -> Result<Shaped, QueryError> {
    let schema = scope.columns();
    let has_window = statement.source.window.is_some();
    let is_whole = matches!(&*statement.items, [Item::All]) && !has_window;
    let (mut items, mut results) = (Vec::new(), Vec::new());
    for item in &statement.items {
        match item {
            Item::All => {
                for (index, column) in schema.iter().enumerate() {
                    add_result(
                        &mut results,
                        &column.name,
                        column.kind,
                        statement.source.topic.span,
                    )?;
                    if !is_whole {
                        items.push(scope.column(index).expr);
                    }
                }
                let bounds = [("window_start", Expr::WindowStart), ("window_end", Expr::WindowEnd)];
                for (name, expr) in bounds.into_iter().filter(|_| has_window) {
                    add_result(&mut results, name, Kind::Time, statement.source.topic.span)?;
                    items.push(expr);
                }
            }
            Item::One { expr, name, text } => {
                let span = span_of(expr, Span::empty());
                let found = scope.compile(expr, span)?;
                add_result(&mut results, name.as_deref().unwrap_or(text), found.kind, span)?;
                items.push(found.expr);
            }
        }
    }
    let shape = if is_whole { Shape::Whole } else { Shape::Rows(items) };
    Ok((shape, results, scope.into_parts().0))
}

fn add_result(
    results: &mut Vec<ResultColumn>,
    name: &str,
    kind: Kind,
    span: Span,
) -> Result<(), QueryError> {
    if name == "_offset" || name.is_empty() {
        let message = "no result is named _offset, or nothing: give it another name with AS";
        return Err(QueryError::at(span, message));
    }
    if results.iter().any(|known| known.name == name) {
        let message = format!("two results are named {name}: give one another name with AS");
        return Err(QueryError::at(span, message));
    }
    if results.len() >= thalweg_columns::limits::COLUMNS_MAX {
        let message = format!(
            "a result has {} columns at most ({})",
            thalweg_columns::limits::COLUMNS_MAX,
            article(kind)
        );
        return Err(QueryError::at(span, message));
    }
    // What is only NULL may be anything.
    let kind = if kind == Kind::Null { Kind::Json } else { kind };
    results.push(ResultColumn { name: name.to_owned(), kind });
    Ok(())
}
