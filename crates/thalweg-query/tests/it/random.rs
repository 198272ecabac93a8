//! Random queries over random disordered events have the rows that databases return, which see all events at once.
//!
//! - `cases`: a random query, as we and as a database write it, and its events
//! - `against_sqlite`, `against_duckdb`: what each database is told, and how it writes values
//! - `windows.py`: the windows of each event, computed a second time in the plainest way

mod against_duckdb;
mod against_sqlite;
mod cases;

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
};

use fastrand::Rng;
use serde_json::Value;

use cases::{Case, Dialect};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/random");

/// Returns the number of queries.
fn count() -> usize {
    std::env::var("THALWEG_QUERIES").map_or(10_000, |count| count.parse().expect("a number"))
}

/// Returns the command that runs a program of this folder.
fn python(program: &str) -> Command {
    let mut python = Command::new("python3");
    python.arg("-B").arg(format!("{FOLDER}/{program}"));
    python
}

/// Returns the rows of each case, as a program makes them.
fn rows_of(python: &mut Command, lines: Vec<String>) -> impl Iterator<Item = Vec<Vec<Value>>> {
    let child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("python3: apt-get install python3");
    let input = child.stdin.take().expect("its input");
    let mut writer = Some(write_all(input, lines));
    let mut output = BufReader::new(child.stdout.take().expect("its output")).lines();
    std::iter::from_fn(move || {
        if let Some(line) = output.next() {
            return Some(serde_json::from_str(&line.expect("a line")).expect("rows"));
        }
        assert!(child.wait().expect("its end").success(), "the database failed");
        writer.take().map(|writer| writer.join().expect("all written")).and(None)
    })
}

fn write_all(mut input: ChildStdin, lines: Vec<String>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").expect("written");
        }
    })
}

/// Compares the rows of random queries with those that a database returns.
fn compare(
    python: &mut Command,
    dialect: &Dialect,
    seed: u64,
    is_equal: impl Fn(&Value, &Value) -> bool,
) {
    let mut rng = Rng::with_seed(seed);
    let cases: Vec<Case> = (0..count()).map(|_| Case::draw(&mut rng, dialect)).collect();
    let lines: Vec<String> = cases.iter().map(Case::line).collect();
    let (mut compared, mut rows, mut late, mut empty) = (0, 0, 0, 0);
    for (mut expected, case) in rows_of(python, lines).zip(&cases) {
        let (mut made, counts) = case.run();
        case.order(&mut made);
        case.order(&mut expected);
        compared += 1;
        rows += made.len();
        late += counts.late;
        empty += usize::from(made.is_empty());
        let is_same = |(ours, theirs): (&Vec<Value>, &Vec<Value>)| {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| is_equal(ours, theirs))
        };
        assert!(
            made.len() == expected.len() && made.iter().zip(&expected).all(is_same),
            "{}\n{}\n{made:?}\n{expected:?}",
            case.ours,
            case.line()
        );
    }
    let count = cases.len();
    assert_eq!(compared, count, "the database failed");
    assert!(
        rows > 5 * count && late > count as u64 && empty < count / 3,
        "{rows} rows, {late} late, {empty} without rows"
    );
}

/// Returns whether two values that are no booleans are equal. Times are numbers in the databases.
fn is_same_value(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => {
            let (ours, theirs) =
                (ours.as_f64().expect("a number"), theirs.as_f64().expect("a number"));
            (ours - theirs).abs() <= 1e-9 * ours.abs().max(1.0)
        }
        (Value::String(text), Value::Number(theirs)) => {
            thalweg_columns::parse_time_ms(text.as_bytes()) == theirs.as_i64()
        }
        (ours, theirs) => ours == theirs,
    }
}
