//! Random queries, each as we and as a database write it, and random disordered events.

use std::fmt::Write as _;

use fastrand::Rng;
use serde_json::{Value, json};
use thalweg_query::{Bounds, Counts};

use crate::{
    running::{Made, PUBLISHED_MS, begin, close_all},
    states::State,
};

const COLUMNS: &[&str] =
    &["t:time", "k:string", "b:bool", "i:int", "d:double", "s:string", "j:json"];

/// How a database writes the same query. Templates have the words in braces.
pub(super) struct Dialect {
    /// `{div}`, a division of integers that yields an integer.
    pub(super) div: &'static str,
    /// Doubles are followed by this cast, if any: `0.25` may be a decimal.
    pub(super) double: &'static str,
    /// Returns the value of the first or last event, given the name `first` or `last` and an expression.
    pub(super) first_or_last: fn(&str, &str) -> String,
    /// The function that interpolates between two values.
    pub(super) quantile: &'static str,
}

const OURS: Dialect = Dialect {
    div: "/",
    double: "",
    first_or_last: |name, of| format!("{name}({of})"),
    quantile: "approx_percentile",
};

impl Dialect {
    /// Replaces the words in braces.
    fn write(&self, template: &str) -> String {
        template.replace("{div}", self.div).replace("{double}", self.double)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Double,
    Text,
    Bool,
}

pub(super) struct Case {
    pub(super) ours: String,
    theirs: String,
    rows: Vec<Vec<Value>>,
    size_ms: i64,
    step_ms: i64,
    delay_ms: i64,
    /// The number of keys, which are the first results, if the groups have no windows.
    keys: Option<usize>,
}

/// Groups without windows are emitted after this many events, and at the end.
const EMITTED_EVENTS: usize = 7;

impl Case {
    /// Draws a case for a database.
    pub(super) fn draw(rng: &mut Rng, dialect: &Dialect) -> Self {
        let case = Self::draw_templates(rng, dialect);
        Self { ours: OURS.write(&case.ours), theirs: dialect.write(&case.theirs), ..case }
    }

    fn draw_templates(rng: &mut Rng, dialect: &Dialect) -> Self {
        let shape = rng.u8(0..5);
        let is_state = shape == 4;
        let (step_ms, overlap) =
            ([250, 500, 1000][rng.usize(0..3)], if shape == 2 { rng.i64(2..5) } else { 1 });
        let size_ms = step_ms * overlap;
        let delay_ms = [0, 0, 300, 2000][rng.usize(0..4)];
        let rows = rows(rng);
        let filter = rng.bool().then(|| expression(rng, Kind::Bool, 3));
        let filter = |prefix: &str| {
            filter.as_ref().map_or(String::new(), |filter| format!("{prefix}{filter}"))
        };
        if shape == 0 {
            let items: Vec<String> = (0..rng.usize(1..4))
                .map(|_| {
                    let kind = any_kind(rng);
                    expression(rng, kind, 3)
                })
                .collect();
            let named: Vec<String> =
                items.iter().enumerate().map(|(at, item)| format!("{item} AS r{at}")).collect();
            let named = named.join(", ");
            return Self {
                ours: format!("SELECT {named} FROM topic{}", filter(" WHERE ")),
                theirs: format!("SELECT {named} FROM events{} ORDER BY n", filter(" WHERE ")),
                rows,
                size_ms: 0,
                step_ms: 0,
                delay_ms: 0,
                keys: None,
            };
        }
        let keys: Vec<String> = (0..rng.usize(0..3))
            .map(|_| match rng.u8(0..5) {
                0 => "k".to_owned(),
                4 => "CAST(j ->> 's' AS TEXT)".to_owned(),
                1 => "b".to_owned(),
                2 => "i".to_owned(),
                _ => "d > 0".to_owned(),
            })
            .collect();
        let (mut ours, mut theirs) = match is_state {
            true => {
                let named = keys.iter().enumerate().map(|(at, key)| format!(", {key} AS r{at}"));
                let named: String = named.collect();
                (named.clone(), named)
            }
            false => (", window_start AS r0".to_owned(), ", ws AS r0".to_owned()),
        };
        let first = if is_state { keys.len() } else { 1 };
        for at in first..first + rng.usize(1..5) {
            let (one, other) = match (rng.u8(0..4), keys.first()) {
                (0, Some(key)) => (key.clone(), key.clone()),
                (1, _) => {
                    let (one, other) = aggregate(rng, dialect);
                    (format!("coalesce({one}, NULL)"), format!("coalesce({other}, NULL)"))
                }
                _ => aggregate(rng, dialect),
            };
            let _ = (write!(ours, ", {one} AS r{at}"), write!(theirs, ", {other} AS r{at}"));
        }
        let (ours, theirs) = (&ours[2..], &theirs[2..]);
        let group =
            |start: &str| keys.iter().fold(start.to_owned(), |all, key| format!("{all}, {key}"));
        let having = match rng.u8(0..3) {
            0 => " HAVING count(*) > 1",
            1 => " HAVING max(i) IS NOT NULL OR count(s) < 3",
            _ => "",
        };
        if is_state {
            let group = keys.join(", ");
            let emit = ["", " EMIT CHANGES", " EMIT PERIODIC 1s"][rng.usize(0..3)];
            // A database returns a row even if there is no event.
            let (by, order, having) = match keys.is_empty() {
                true => (String::new(), String::new(), " HAVING count(*) > 0"),
                false => (format!(" GROUP BY {group}"), format!(" ORDER BY {group}"), having),
            };
            let filter = filter(" WHERE ");
            return Self {
                ours: format!("SELECT {ours} FROM topic{filter}{by}{having}{emit}"),
                theirs: format!("SELECT {theirs} FROM events{filter}{by}{having}{order}"),
                rows,
                size_ms: 0,
                step_ms: 0,
                delay_ms: 0,
                keys: Some(keys.len()),
            };
        }
        let table = match (overlap, rng.u8(0..3)) {
            (1, 0) => format!("TABLE(TUMBLE(TABLE topic, DESCRIPTOR(t), {step_ms}ms))"),
            (1, _) => format!("tumble(topic, t, {step_ms}ms)"),
            (_, 0) => format!(
                "TABLE(HOP(TABLE topic, DESCRIPTOR(t), SIZE => {size_ms}ms, SLIDE => {step_ms}ms))"
            ),
            _ => format!("hop(topic, t, {step_ms}ms, {size_ms}ms)"),
        };
        let order = ["", " ORDER BY window_start", " ORDER BY 1"][rng.usize(0..3)];
        let emit = if delay_ms > 0 {
            format!(" EMIT AFTER WINDOW CLOSE WITH DELAY {delay_ms}ms")
        } else {
            String::new()
        };
        Self {
            ours: format!(
                "SELECT {ours} FROM {table}{} GROUP BY {}{having}{order}{emit}",
                filter(" WHERE "),
                group(if rng.bool() { "1" } else { "window_start" })
            ),
            theirs: format!(
                "SELECT {theirs} FROM events{} GROUP BY {}{having} ORDER BY {}",
                filter(" WHERE "),
                group("ws"),
                group("ws")
            ),
            rows,
            size_ms,
            step_ms,
            delay_ms,
            keys: None,
        }
    }

    /// Orders the rows of groups without windows, which come in the order of their changes.
    pub(super) fn order(&self, rows: &mut [Vec<Value>]) {
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            Value::Bool(value) => format!("{:?}", Some(f64::from(u8::from(*value)))),
            Value::Number(number) => format!("{:?}", number.as_f64()),
            other => other.to_string(),
        };
        if let Some(keys) = self.keys {
            rows.sort_by_cached_key(|row| row[..keys].iter().map(text).collect::<Vec<_>>());
        }
    }

    /// Returns the case as the program of the database reads it.
    pub(super) fn line(&self) -> String {
        let Self { theirs, rows, size_ms, step_ms, delay_ms, .. } = self;
        json!({ "sql": theirs, "rows": rows, "size": size_ms, "step": step_ms, "delay": delay_ms })
            .to_string()
    }

    /// Returns the rows of the query.
    pub(super) fn run(&self) -> (Vec<Vec<Value>>, Counts) {
        let mut running = begin(&self.ours, COLUMNS, Bounds::default());
        if self.keys.is_some() {
            let mut state = State::default();
            for (index, row) in self.rows.iter().enumerate() {
                state.take(&mut running, index as u64 + 1, &json!(row).to_string());
                if index % EMITTED_EVENTS == 0 {
                    state.emit(&mut running);
                }
            }
            state.emit(&mut running);
            let rows = state.rows.values().map(|row| serde_json::from_str(row).expect("JSON"));
            return (rows.collect(), running.counts());
        }
        let mut made = Made::default();
        for (index, row) in self.rows.iter().enumerate() {
            let row = json!(row).to_string();
            running
                .take(index as u64 + 1, row.as_bytes(), PUBLISHED_MS, 0, &mut made)
                .expect("within bounds");
        }
        close_all(&mut running, &mut made);
        let rows = made.rows().into_iter().map(|row| serde_json::from_str(row).expect("JSON"));
        (rows.collect(), running.counts())
    }
}

/// Events whose times go forward and back. Doubles are sums of quarters, which makes additions exact.
fn rows(rng: &mut Rng) -> Vec<Vec<Value>> {
    let (mut ms, back) = (1_657_746_248_000_i64, rng.i64(1..1500));
    let null_or = |rng: &mut Rng, value: Value| if rng.u8(0..8) == 0 { Value::Null } else { value };
    (0..rng.usize(5..60))
        .map(|_| {
            ms += rng.i64(0..150);
            let time = json!(ms - rng.i64(0..back));
            let cells = [
                json!(["a", "b", "ab", ""][rng.usize(0..4)]),
                json!(i64::from(rng.bool())),
                json!(rng.i64(-5..6)),
                json!(rng.i64(-20..20) as f64 / 4.0),
                json!(["x", "Xy", "xyz", "", "z_%"][rng.usize(0..5)]),
            ];
            let cells = cells.map(|cell| null_or(rng, cell));
            let json = json(rng);
            [null_or(rng, time)].into_iter().chain(cells).chain([json]).collect()
        })
        .collect()
}

/// A value with the members that expressions read. Some are missing, null, or of values that have no members.
fn json(rng: &mut Rng) -> Value {
    let int = [json!(rng.i64(-5..6)), Value::Null][usize::from(rng.u8(0..6) == 0)].clone();
    let text = ["x", "a\"b\\", "", "→\n"][rng.usize(0..4)];
    match rng.u8(0..8) {
        0 => Value::Null,
        1 => json!({ "n": 7, "s": null, "l": {} }),
        2 => json!({ "n": { "i": int }, "l": [] }),
        _ => json!({ "l": [int, [text]], "n": { "i": int, "t": text }, "s": text }),
    }
}

fn any_kind(rng: &mut Rng) -> Kind {
    [Kind::Int, Kind::Double, Kind::Text, Kind::Bool][rng.usize(0..4)]
}

fn aggregate(rng: &mut Rng, dialect: &Dialect) -> (String, String) {
    let kind = any_kind(rng);
    let of = expression(rng, kind, 2);
    let name = match kind {
        Kind::Int | Kind::Double => {
            ["count", "sum", "avg", "min", "max", "first", "last", "median", "approx_percentile"]
                [rng.usize(0..9)]
        }
        Kind::Text => ["count", "min", "max", "first", "last"][rng.usize(0..5)],
        Kind::Bool => ["count", "first", "last"][rng.usize(0..3)],
    };
    match name {
        "first" | "last" => ((OURS.first_or_last)(name, &of), (dialect.first_or_last)(name, &of)),
        "approx_percentile" => {
            let share = ["0", "0.25", "0.9", "1"][rng.usize(0..4)];
            let [ours, theirs] = [OURS.quantile, dialect.quantile];
            (format!("{ours}({of}, {share})"), format!("{theirs}({of}, {share})"))
        }
        "count" if rng.u8(0..3) == 0 => {
            (format!("count(DISTINCT {of})"), format!("count(DISTINCT {of})"))
        }
        "count" if rng.bool() => {
            let count = if rng.bool() { "count(*)" } else { "count()" };
            (count.to_owned(), count.to_owned())
        }
        _ => (format!("{name}({of})"), format!("{name}({of})")),
    }
}

/// A template of an expression of a type, with the same meaning for all.
fn expression(rng: &mut Rng, kind: Kind, depth: u8) -> String {
    if depth == 0 || rng.u8(0..5) == 0 {
        return leaf(rng, kind);
    }
    let mut sub = |kind: Kind| expression(rng, kind, depth - 1);
    let (int, double) = (Kind::Int, Kind::Double);
    match kind {
        Kind::Int => {
            let (one, other, text, is) = (sub(int), sub(int), sub(Kind::Text), sub(Kind::Bool));
            match rng.u8(0..12) {
                0 => format!("({one} + {other})"),
                1 => format!("({one} - {other})"),
                2 => format!("({one} * {other})"),
                3 => format!("({one} {{div}} {other})"),
                4 => format!("({one} % {other})"),
                5 => format!("abs({one})"),
                6 => format!("length({text})"),
                7 => format!("coalesce({one}, {other})"),
                8 => format!("CASE WHEN {is} THEN {one} ELSE {other} END"),
                9 => format!("nullif({one}, {other})"),
                10 => format!("instr({text}, 'y')"),
                _ => format!("(- {one})"),
            }
        }
        Kind::Double => {
            let (one, other, number) = (sub(double), sub(double), sub(int));
            match rng.u8(0..7) {
                0 => format!("({one} + {number})"),
                1 => format!("({one} - {other})"),
                2 => format!("({one} * 0.5{{double}})"),
                3 => format!("({one} / 4)"),
                4 => format!("coalesce({one}, {other})"),
                5 => format!("abs({one})"),
                _ => format!("round({one})"),
            }
        }
        Kind::Text => {
            let (one, other, number) = (sub(Kind::Text), sub(Kind::Text), sub(int));
            match rng.u8(0..8) {
                0 => format!("({one} || {other})"),
                1 => format!("lower({one})"),
                2 => format!("upper({one})"),
                3 => format!("substr({one}, 2)"),
                4 => format!("substr({one}, 1, 2)"),
                5 => format!("replace({one}, 'x', 'yy')"),
                6 => format!("CAST({number} AS TEXT)"),
                _ => format!("coalesce({one}, {other})"),
            }
        }
        Kind::Bool => {
            let (one, other) = (sub(Kind::Bool), sub(Kind::Bool));
            let (text, other_text, number, other_number) =
                (sub(Kind::Text), sub(Kind::Text), sub(int), sub(double));
            match rng.u8(0..13) {
                0 => format!("({one} AND {other})"),
                1 => format!("({one} OR {other})"),
                2 => format!("(NOT {one})"),
                3 => format!("({number} < {other_number})"),
                4 => format!("({number} <> {number})"),
                5 => format!("({text} >= {other_text})"),
                6 => format!("({number} BETWEEN -2 AND {number})"),
                7 => format!("({number} IN (1, 2, NULL))"),
                8 => format!("({number} NOT IN (0, 3))"),
                9 => format!("({text} LIKE '%y_')"),
                10 => format!("({text} IS NULL)"),
                11 => format!("({number} IS NOT NULL)"),
                _ => format!("({other_number} = {number})"),
            }
        }
    }
}

fn leaf(rng: &mut Rng, kind: Kind) -> String {
    let choices: &[&str] = match kind {
        Kind::Int => &[
            "i",
            "i",
            "3",
            "-2",
            "0",
            "CAST(j -> 'n' ->> 'i' AS BIGINT)",
            "CAST(j -> 'l' ->> 0 AS BIGINT)",
        ],
        Kind::Double => &["d", "d", "0.25{double}", "(-1.5){double}"],
        Kind::Text => &[
            "k",
            "s",
            "'xy'",
            "''",
            "CAST(j ->> 's' AS TEXT)",
            "CAST(j -> 'n' ->> 't' AS TEXT)",
            "(j -> 'l' ->> 1)",
        ],
        Kind::Bool => &["b", "b", "(i > 0)", "(k = 'a')", "true"],
    };
    choices[rng.usize(0..choices.len())].to_owned()
}
