//! Explains a query in words.

use std::fmt::Write;

use sqlparser::ast::Expr as Ast;

use crate::{
    Plan,
    expr::Expr,
    interval::text as length,
    limits::PERIOD_MS,
    plan::Shape,
    syntax::{Item, Statement},
};

impl Statement {
    pub(crate) fn canonical(&self) -> String {
        let list = |exprs: &[Ast]| -> String {
            exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let item = |item: &Item| match item {
            Item::All => "*".to_owned(),
            Item::One { text, name: Some(name), .. } => format!("{text} AS {}", quoted(name)),
            Item::One { text, name: None, .. } => text.clone(),
        };
        let items: Vec<String> = self.items.iter().map(item).collect();
        let mut out = format!("SELECT {} FROM {}", items.join(", "), self.from());
        // Writing to a String cannot fail.
        if let Some(filter) = &self.filter {
            let _ = write!(out, " WHERE {filter}");
        }
        if !self.group_by.is_empty() {
            let _ = write!(out, " GROUP BY {}", list(&self.group_by));
        }
        if let Some(having) = &self.having {
            let _ = write!(out, " HAVING {having}");
        }
        if self.emit.span.is_some() {
            out += " EMIT AFTER WINDOW CLOSE";
            let delay = self.emit.delay_ms.map(|ms| format!(" WITH DELAY {}", length(ms)));
            let timeout = self.emit.timeout_ms.map(|ms| format!(" AND TIMEOUT {}", length(ms)));
            out.extend(delay.into_iter().chain(timeout));
        }
        if let Some(ms) = self.emit.period_ms.filter(|ms| *ms != PERIOD_MS) {
            let _ = write!(out, " EMIT PERIODIC {}", length(ms));
        }
        out
    }

    fn from(&self) -> String {
        let topic = quoted(&self.source.topic.value);
        let table = match &self.source.window {
            None => topic,
            Some(window) => {
                let time = window.time.as_ref().map(|time| match &**time {
                    Ast::Identifier(name) => format!(", {}", quoted(&name.value)),
                    other => format!(", {other}"),
                });
                let step = (window.step_ms != window.size_ms)
                    .then(|| format!(", {}", length(window.step_ms)));
                let name = if step.is_some() { "hop" } else { "tumble" };
                let middle: String = time.into_iter().chain(step).collect();
                format!("{name}({topic}{middle}, {})", length(window.size_ms))
            }
        };
        match &self.source.alias {
            Some(alias) => format!("{table} AS {}", quoted(alias)),
            None => table,
        }
    }
}

/// Returns a name, in quotes if it needs them.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Returns an explanation of a query, one line per part.
pub(crate) fn explain(statement: &Statement, plan: &Plan) -> String {
    let mut out = String::new();
    let mut line = |name: &str, what: String| {
        let _ = writeln!(out, "{name:<10}{what}");
    };
    let column = |index: &usize| {
        let column = plan.schema.iter().nth(*index)?;
        Some(format!("{}:{}", column.name, column.type_name()))
    };
    line("query", statement.canonical());
    line("reads", format!("each event of {} in order, once", statement.source.topic.value));
    let columns: Vec<String> = plan.wanted.iter().filter_map(column).collect();
    match columns.is_empty() {
        true if plan.is_whole() => {
            line("columns", "none: the query does not change the event".to_owned());
        }
        true => line("columns", "none".to_owned()),
        false => line("columns", columns.join(" ")),
    }
    if let Some(filter) = &statement.filter {
        line("filter", filter.to_string());
    }
    if let Some(window) = plan.window {
        let written = statement.source.window.as_ref().and_then(|window| window.time.as_ref());
        let time = match (&plan.time, written) {
            (Some(Expr::Cell(cell)), _) => column(&plan.wanted[*cell]).unwrap_or_default(),
            (_, Some(written)) => written.to_string(),
            _ => String::new(),
        };
        let what = match window.size_ms == window.step_ms {
            true => format!("{} each, by {time}", length(window.size_ms)),
            false => format!(
                "{} each, one every {}, by {time}",
                length(window.size_ms),
                length(window.step_ms)
            ),
        };
        line("windows", what);
    }
    if let Shape::Groups { aggregates, .. } = &plan.shape {
        let keys: Vec<String> = statement.group_by.iter().map(ToString::to_string).collect();
        let by = if keys.is_empty() { "one".to_owned() } else { format!("by {}", keys.join(", ")) };
        let plural = if aggregates.len() == 1 { "" } else { "s" };
        line("groups", format!("{by}; {} aggregate{plural}", aggregates.len()));
        if let Some(having) = &statement.having {
            line("having", having.to_string());
        }
    }
    if let Some(ms) = plan.period_ms() {
        let every = length(ms as i64);
        line(
            "emits",
            format!("the groups that have changed, every {every} at most, each under its key"),
        );
    }
    if let Some(window) = plan.window.filter(|_| plan.has_windows()) {
        let delay = match window.delay_ms {
            0 => "after an event at its end or later".to_owned(),
            ms => format!("after an event {} after its end or later", length(ms)),
        };
        let timeout = match window.timeout_ms {
            Some(ms) => format!("{} without events", length(ms)),
            None => {
                let default = length(plan.default_timeout_ms() as i64);
                format!("{default} without events (on one machine)")
            }
        };
        line("emits", format!("a window {delay}, or after {timeout}"));
    }
    let results: Vec<String> =
        plan.results().iter().map(|column| format!("{}:{}", column.name, column.kind)).collect();
    line("result", results.join(" "));
    out
}
