//! The plan of a query over known columns: how it handles each event.

use std::sync::Arc;

use sqlparser::{ast::Expr as Ast, tokenizer::Span};
use thalweg_columns::{Cell, CellReader, Column, Columns, Kind};

use crate::{
    QueryError,
    aggregate::Aggregate,
    compile::Scope,
    expr::{Expr, Row},
    from::Window,
    interval,
    limits::{Bounds, NODES_MAX, PERIOD_MS, TIMEOUT_MS, WINDOWS_MAX},
    meter::Meter,
    ordered,
    syntax::{Item, Statement, is_aggregate, span_of},
    typed::Typed,
};

/// Approximate memory of a column besides its name, in bytes.
const COLUMN_BYTES: usize = 96;

/// A query over a topic with known columns.
#[derive(Debug)]
pub struct Plan {
    pub(crate) statement: Arc<Statement>,
    /// Columns that the query names and no row has had yet.
    pub(crate) absent: Vec<usize>,
    pub(crate) schema: Arc<Columns>,
    pub(crate) wanted: Vec<usize>,
    pub(crate) filter: Option<Expr>,
    pub(crate) window: Option<PlannedWindow>,
    pub(crate) time: Option<Expr>,
    pub(crate) shape: Shape,
    pub(crate) results: Vec<Column>,
}

/// Windows over the events of a topic, by the events' own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedWindow {
    pub(crate) size_ms: i64,
    pub(crate) step_ms: i64,
    /// Number of windows that contain an event.
    pub(crate) overlap: i64,
    /// How late events may be.
    pub(crate) delay_ms: i64,
    /// Time without events after which all windows close; `None`: not specified.
    pub(crate) timeout_ms: Option<i64>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Shape {
    /// The event unchanged.
    Whole,
    /// A row per event; with windows, a row per window of the event.
    Rows(Vec<Expr>),
    /// A row per group: when its window closes, or without windows when it has changed.
    Groups {
        keys: Vec<Expr>,
        key_kinds: Vec<Kind>,
        aggregates: Vec<Aggregate>,
        /// The results, as expressions over the keys and, after them, the aggregates.
        items: Vec<Expr>,
        having: Option<Expr>,
    },
}

impl Plan {
    /// Returns the columns of the result.
    pub fn results(&self) -> &[Column] {
        &self.results
    }

    /// Returns whether rows are those of groups, which are emitted when their windows close.
    pub fn has_windows(&self) -> bool {
        matches!(self.shape, Shape::Groups { .. }) && self.window.is_some()
    }

    /// Returns whether rows are those of groups without windows, as in [`crate::Query::has_state`].
    pub fn has_state(&self) -> bool {
        matches!(self.shape, Shape::Groups { .. }) && self.window.is_none()
    }

    /// Returns the least time between two emissions of changed groups, in ms. `None`: the query has windows, or no groups.
    pub fn period_ms(&self) -> Option<u64> {
        let period_ms = self.statement.emit.period_ms.unwrap_or(PERIOD_MS);
        self.has_state().then_some(period_ms as u64)
    }

    /// Returns the time without events after which the query closes its windows, in ms, if specified.
    pub fn timeout_ms(&self) -> Option<u64> {
        self.window.and_then(|window| window.timeout_ms).map(|ms| ms as u64)
    }

    /// Returns the default of [`Self::timeout_ms`] on one machine: at least the length of a window.
    pub fn default_timeout_ms(&self) -> u64 {
        self.window.map_or(0, |window| window.size_ms as u64).max(TIMEOUT_MS)
    }

    /// Returns the approximate memory of the plan and of the reader of its columns, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let mut bytes = size_of::<Self>();
        for expr in self.expressions() {
            expr.visit(&mut |expr| bytes += expr.memory_bytes());
        }
        let named = |name: &str| name.len() + COLUMN_BYTES;
        // Names are in the shared schema, and in the reader's table of members.
        let taken: usize = self.schema.iter().map(|column| named(&column.name)).sum();
        let made: usize = self.results.iter().map(|column| named(&column.name)).sum();
        bytes + taken + made
    }

    /// Returns a text of the columns read and made: two plans of one query with different signatures may make different rows.
    pub fn signature(&self) -> String {
        let taken =
            self.schema.iter().map(|column| format!("{}:{}", column.name, column.type_name()));
        let made =
            self.results.iter().map(|column| format!("{}:{}", column.name, column.type_name()));
        let (taken, made): (Vec<String>, Vec<String>) = (taken.collect(), made.collect());
        format!("{}\n{}", taken.join(" "), made.join(" "))
    }

    /// Returns how long before the newest event a query must begin ([`crate::Beginning::Block`]), in ms. It then emits
    /// the last ended window and all later ones. `None`: the query has no windows, and can begin anywhere.
    pub fn replayed_ms(&self) -> Option<i64> {
        let window = self.window.filter(|_| self.has_windows())?;
        Some(2 * (window.delay_ms + window.step_ms) + window.size_ms)
    }

    /// Returns the time of an event in its windows, in ms since 1970.
    pub fn time_ms(&self, event: &[u8]) -> Option<i64> {
        let mut cells = vec![Cell::Null; self.wanted.len()];
        CellReader::new(&self.schema, &self.wanted).read(event, &mut cells);
        let meter = Meter::new(&Bounds::default(), u64::MAX);
        self.time_of(&Row { cells: &cells, window: (0, 0), now_ms: 0, meter: &meter })
    }

    /// Returns the time of a decoded event; `None` if a time column cannot hold it.
    #[inline]
    pub(crate) fn time_of(&self, row: &Row<'_>) -> Option<i64> {
        instant(&self.time.as_ref()?.eval(row))
    }

    /// Returns whether rows are unchanged events.
    pub fn is_whole(&self) -> bool {
        matches!(self.shape, Shape::Whole)
    }

    /// Returns the columns of the source.
    pub fn schema(&self) -> &Arc<Columns> {
        &self.schema
    }

    /// Returns the names of columns that no row has had yet.
    pub fn absent(&self) -> impl Iterator<Item = &str> {
        self.absent.iter().filter_map(|index| Some(&*self.schema.iter().nth(*index)?.name))
    }

    /// Returns whether rows have all columns of the source, each unchanged.
    pub(crate) fn takes_others(&self) -> bool {
        let has_all = self.statement.items.iter().any(|item| matches!(item, Item::All));
        has_all && !matches!(self.shape, Shape::Whole)
    }

    /// Returns a plan over inferred columns. A column that no row has had yet is NULL until a row has it. `absent` has
    /// the indices of such columns that are already known.
    pub(crate) fn inferred(
        statement: &Arc<Statement>,
        columns: Columns,
        mut absent: Vec<usize>,
    ) -> Result<Self, QueryError> {
        let mut columns = Arc::new(columns);
        loop {
            let error = match Self::new(statement, &columns) {
                Ok(plan) => {
                    absent.retain(|index| {
                        plan.schema
                            .iter()
                            .nth(*index)
                            .is_some_and(|column| column.kind == Kind::Null)
                    });
                    return Ok(Self { absent, ..plan });
                }
                Err(error) => error,
            };
            let with = error.missing.as_deref().and_then(|name| columns.with_absent(name));
            let known = columns.iter().count();
            let Some((with, index)) = with.filter(|(_, index)| *index >= known) else {
                return Err(error);
            };
            columns = Arc::new(with);
            absent.push(index);
        }
    }

    pub(crate) fn new(
        statement: &Arc<Statement>,
        schema: &Arc<Columns>,
    ) -> Result<Self, QueryError> {
        let source = &statement.source;
        if !schema.are_named() {
            let message = format!(
                "the events of {} are neither objects nor arrays with declared columns: publish objects, or declare the columns of arrays",
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
        let time = source.window.as_ref().map(|window| window_time(window, schema, &mut scope));
        let time = time.transpose()?;
        scope.is_filter = false;
        let is_grouped = statement.is_grouped();
        check_emit(statement, is_grouped)?;
        let window = source.window.as_ref().map(|window| PlannedWindow {
            size_ms: window.size_ms,
            step_ms: window.step_ms,
            overlap: window.size_ms / window.step_ms,
            delay_ms: statement.emit.delay_ms.unwrap_or(0),
            timeout_ms: statement.emit.timeout_ms,
        });
        let keys = keys(statement, &mut scope)?;
        let (shape, results, wanted) = match is_grouped {
            true => {
                check_window(statement, &keys)?;
                window.map_or(Ok(()), |window| check_open_windows(statement, window))?;
                ordered::check_groups(statement, &keys, &mut scope)?;
                grouped(statement, keys, scope)?
            }
            false => {
                ordered::check_rows(statement)?;
                rows(statement, scope)?
            }
        };
        let schema = Arc::clone(schema);
        let (statement, absent) = (Arc::clone(statement), Vec::new());
        let plan = Self { statement, absent, schema, wanted, filter, window, time, shape, results };
        plan.check_nodes()?;
        Ok(plan)
    }

    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        let mut found: Vec<&Expr> = self.filter.iter().chain(&self.time).collect();
        match &self.shape {
            Shape::Whole => {}
            Shape::Rows(items) => found.extend(items),
            Shape::Groups { keys, aggregates, items, having, .. } => {
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
            "the expressions have {nodes} parts, and the limit is {NODES_MAX}: shorten them"
        );
        Err(QueryError::at(Span::empty(), message))
    }
}

/// Returns the time in this value; `None` if a time column cannot hold it.
#[inline]
pub(crate) fn instant(cell: &Cell<'_>) -> Option<i64> {
    match cell {
        Cell::Time(ms) => thalweg_columns::time_in_range(*ms),
        _ => None,
    }
}

/// Returns the time of a window's events: as written, or the column `_tp_time`, `time`, or the only time column.
fn window_time(
    window: &Window,
    schema: &Columns,
    scope: &mut Scope<'_>,
) -> Result<Expr, QueryError> {
    let times: Vec<(usize, &str)> = schema
        .iter()
        .enumerate()
        .filter(|(_, column)| column.kind == Kind::Time)
        .map(|(index, column)| (index, &*column.name))
        .collect();
    if let Some(written) = &window.time {
        return written_time(written, window.span, &times, scope);
    }
    let named = |wanted: &str| times.iter().find(|(_, name)| *name == wanted);
    match (named("_tp_time").or_else(|| named("time")), &*times) {
        (Some((index, _)), _) | (None, [(index, _)]) => Ok(scope.column(*index).expr),
        (None, []) => {
            let message = "the topic has no time column: declare one, as in time:time, or make one, as in tumble(topic, CAST(ts AS TIMESTAMP), 1s)";
            Err(QueryError::at(window.span, message))
        }
        (None, [(_, first), ..]) => {
            let message = format!(
                "there are several time columns: name one, as in tumble(topic, {first}, 1s)"
            );
            Err(QueryError::at(window.span, message))
        }
    }
}

fn written_time(
    written: &Ast,
    around: Span,
    times: &[(usize, &str)],
    scope: &mut Scope<'_>,
) -> Result<Expr, QueryError> {
    let span = span_of(written, around);
    if let Ast::Identifier(name) = written
        && scope.find(&name.value).is_none()
    {
        let names: Vec<&str> = times.iter().map(|(_, name)| *name).collect();
        let there_are = match &*names {
            [] => " and no time column: declare one, as in time:time".to_owned(),
            names => format!(": the time columns are {}", names.join(", ")),
        };
        let message = format!("there is no column {}{there_are}", name.value);
        return Err(QueryError::missing_column(name, message));
    }
    let found = scope.compile(written, span)?;
    let (mut has_column, mut has_clock) = (false, false);
    found.expr.visit(&mut |expr| {
        has_column |= matches!(expr, Expr::Cell(_));
        has_clock |= matches!(expr, Expr::Now);
    });
    let refused = match found.kind {
        Kind::Time if has_clock => {
            "now() differs between nodes and runs: use the events' own time".to_owned()
        }
        Kind::Time if has_column => return Ok(found.expr),
        Kind::Time => "this time is the same for all events: name a column".to_owned(),
        _ => format!(
            "{written} is not a time: declare it as one, {written}:time, or cast it, as in CAST({written} AS TIMESTAMP)"
        ),
    };
    Err(QueryError::at(span, refused))
}

fn check_emit(statement: &Statement, is_grouped: bool) -> Result<(), QueryError> {
    let (emit, has_window) = (&statement.emit, statement.source.window.is_some());
    let refused = match (emit.changes, emit.periodic, emit.span) {
        (Some(span), ..) if is_grouped && has_window => Some((
            span,
            "EMIT CHANGES would emit each change of a window: write EMIT AFTER WINDOW CLOSE, because windows are emitted once, when they close",
        )),
        (_, Some(span), _) if has_window => Some((
            span,
            "EMIT PERIODIC is for groups without windows: write EMIT AFTER WINDOW CLOSE, because windows are emitted once, when they close",
        )),
        (_, Some(span), _) if !is_grouped => Some((
            span,
            "EMIT PERIODIC needs groups: remove it, because each row is emitted at once",
        )),
        (.., Some(span)) if is_grouped && !has_window => Some((
            span,
            "EMIT AFTER WINDOW CLOSE needs a window: write EMIT PERIODIC, or FROM tumble(topic, 1s)",
        )),
        (.., Some(span)) if !has_window => {
            Some((span, "EMIT needs a window: remove it, or write FROM tumble(topic, 1s)"))
        }
        _ => None,
    };
    refused.map_or(Ok(()), |(span, message)| Err(QueryError::at(span, message)))
}

/// Returns the keys of GROUP BY, window bounds included.
fn keys(statement: &Statement, scope: &mut Scope<'_>) -> Result<Vec<Typed>, QueryError> {
    let key = |ast: &Ast| {
        let span = span_of(ast, Span::empty());
        let found = scope.compile(ast, span)?;
        match found.expr {
            Expr::Constant(_) | Expr::Now => Err(QueryError::at(
                span,
                "GROUP BY needs a column: name one, or write an expression of columns",
            )),
            _ if found.kind == Kind::Json && !matches!(found.expr, Expr::Member(..)) => {
                Err(QueryError::at(
                    span,
                    "GROUP BY does not take JSON: name a member, as in x->>'member', or cast it, as in CAST(x AS STRING)",
                ))
            }
            _ => Ok(found),
        }
    };
    statement.group_by.iter().map(key).collect()
}

/// Checks that groups are those of a window, if the topic has windows.
fn check_window(statement: &Statement, keys: &[Typed]) -> Result<(), QueryError> {
    let first = statement.group_by.first().or_else(|| {
        statement.items.iter().find_map(|item| match item {
            Item::One { expr, .. } if is_aggregate(expr) => Some(&**expr),
            _ => None,
        })
    });
    let span = first
        .or(statement.having.as_ref())
        .map_or(Span::empty(), |ast| span_of(ast, Span::empty()));
    let is_of_window = |key: &Typed| matches!(key.expr, Expr::WindowStart | Expr::WindowEnd);
    if statement.source.window.is_none() || keys.iter().any(is_of_window) {
        return Ok(());
    }
    let message = "GROUP BY needs a window: write GROUP BY window_start, or name the topic alone after FROM, so that groups never end";
    Err(QueryError::at(span, message))
}

/// Checks that all open windows have room when events are as late as allowed.
fn check_open_windows(statement: &Statement, window: PlannedWindow) -> Result<(), QueryError> {
    let PlannedWindow { size_ms, step_ms, delay_ms, .. } = window;
    let open = (size_ms + delay_ms + step_ms - 1) / step_ms + 1;
    if open <= WINDOWS_MAX as i64 {
        return Ok(());
    }
    let message = format!(
        "{open} windows would be open at a time, with one every {} and a delay of {}, and the limit is {WINDOWS_MAX}: \
         write a shorter delay, or larger windows",
        interval::text(step_ms),
        interval::text(delay_ms)
    );
    let window = statement.source.window.as_ref().map(|window| window.span);
    Err(QueryError::at(statement.emit.span.or(window).unwrap_or(Span::empty()), message))
}

type Shaped = (Shape, Vec<Column>, Vec<usize>);

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
                "SELECT * is not allowed in a query with groups: name the columns of GROUP BY and the aggregates",
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
    let (keys, key_kinds) = grouping.keys.into_iter().map(|key| (key.expr, key.kind)).unzip();
    let aggregates = grouping.aggregates;
    Ok((Shape::Groups { keys, key_kinds, aggregates, items, having }, results, wanted))
}

fn rows(statement: &Statement, mut scope: Scope<'_>) -> Result<Shaped, QueryError> {
    let schema = scope.columns();
    let has_window = statement.source.window.is_some();
    let is_whole = matches!(&*statement.items, [Item::All]) && !has_window;
    let (mut items, mut results) = (Vec::new(), Vec::new());
    for item in &statement.items {
        match item {
            Item::All => {
                // A column without a known type needs a value first.
                let is_known = |column: &Column| {
                    is_whole || !schema.are_inferred() || column.kind != Kind::Null
                };
                let known = schema.iter().enumerate().filter(|(_, column)| is_known(column));
                for (index, column) in known {
                    add_result(
                        &mut results,
                        &column.name,
                        column.kind,
                        statement.source.topic.span,
                    )?;
                    match results.last_mut().filter(|_| is_whole) {
                        // The event is unchanged, so its time may be a number with a unit.
                        Some(result) => result.unit = column.unit,
                        None => items.push(scope.column(index).expr),
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
    results: &mut Vec<Column>,
    name: &str,
    kind: Kind,
    span: Span,
) -> Result<(), QueryError> {
    if name == "_offset" || name.is_empty() {
        let message = "a result cannot have the name _offset or an empty name: rename it with AS";
        return Err(QueryError::at(span, message));
    }
    if results.iter().any(|known| known.name == name) {
        let message = format!("two results are named {name}: rename one of them with AS");
        return Err(QueryError::at(span, message));
    }
    if results.len() >= thalweg_columns::limits::COLUMNS_MAX {
        let columns_max = thalweg_columns::limits::COLUMNS_MAX;
        let message = format!("a result has {columns_max} columns at most: select fewer");
        return Err(QueryError::at(span, message));
    }
    // A column of NULLs may become any type.
    let kind = if kind == Kind::Null { Kind::Json } else { kind };
    results.push(Column::new(name.to_owned(), kind));
    Ok(())
}
