//! Checks that `docs/reference/sql.md` has every function and every bound, and that its examples run.

use std::fmt::Write;

use thalweg_query::{AGGREGATES, Bounds, FUNCTIONS, Query, limits};

use crate::running::columns;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sql.md");
const HOW_TO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/sql.md");

#[test]
fn all_functions_are_documented() {
    let document = std::fs::read_to_string(PATH).expect("docs/reference/sql.md");
    let names = |names: &[&str]| match names {
        [_] => String::new(),
        [_, others @ ..] => format!("; also `{}`", others.join("`, `")),
        [] => String::new(),
    };
    let (mut aggregates, mut functions) = (String::new(), String::new());
    for (known, usage, meaning) in AGGREGATES {
        let _ = writeln!(aggregates, "| `{usage}` | {meaning}{} |", names(known));
    }
    for function in FUNCTIONS {
        let _ = writeln!(
            functions,
            "| `{}` | {}{} |",
            function.usage,
            function.meaning,
            names(function.names)
        );
    }
    assert!(document.contains(&aggregates), "it lacks:\n{aggregates}");
    assert!(document.contains(&functions), "it lacks:\n{functions}");
}

#[test]
fn all_bounds_are_documented() {
    let document = std::fs::read_to_string(PATH).expect("docs/reference/sql.md");
    let Bounds { groups, state_bytes, windows, .. } = Bounds::default();
    let Bounds { value_bytes, row_steps, row_text_bytes, event_steps, event_bytes, .. } =
        Bounds::default();
    for says in [
        format!("{} characters", limits::TEXT_CHARS_MAX),
        format!("{} nested brackets", limits::DEPTH_MAX),
        format!("{} operators", limits::OPERATORS_MAX),
        format!("{} parts", limits::NODES_MAX),
        format!("| windows that one event is in | {} |", limits::OVERLAP_MAX),
        format!("{},000, with {} MiB", groups / 1000, state_bytes >> 20),
        format!("in a group | {},000", limits::DISTINCT_MAX / 1000),
        format!("| open windows | {},000 |", windows / 1000),
        format!("| a text that an expression reads or makes | {} KiB", value_bytes >> 10),
        format!("| steps of a row | {},000", row_steps / 1000),
        format!("| texts that are made for a row | {} MiB", row_text_bytes >> 20),
        format!("| steps of an event | {},000", event_steps / 1000),
        format!("{},000 for each group", limits::GROUP_STEPS_MAX / 1000),
        format!("(of `LIKE`, one for each {} characters", limits::LIKE_CHARS_PER_STEP),
        format!("| rows that an event makes | {} MiB", event_bytes >> 20),
        format!("| a row | {} MiB", limits::ROW_BYTES_MAX >> 20),
        format!("No event comes for {} s", limits::TIMEOUT_MS / 1000),
        format!("at most every {} ms (`EMIT PERIODIC`)", limits::PERIOD_MS),
        format!("A key has at most {} bytes", limits::KEY_BYTES_MAX),
    ] {
        assert!(document.contains(&says), "{says}");
    }
}

#[test]
fn examples_run() {
    let document = std::fs::read_to_string(PATH).expect("docs/reference/sql.md")
        + &std::fs::read_to_string(HOW_TO).expect("docs/how-to/sql.md");
    let cars = columns(&[
        "car:string",
        "speed:double",
        "speed_kmh:double",
        "locked:bool",
        "time:time",
        "more:json",
    ]);
    let examples: Vec<&str> = document
        .split("```sql\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(example, _)| example)
        .chain(
            document
                .split("fastest=")
                .skip(1)
                .filter_map(|rest| rest.split_once('"'))
                .map(|(query, _)| query),
        )
        .collect();
    assert!(examples.len() >= 3, "{examples:?}");
    for example in examples {
        let query = Query::parse(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        query.plan(&cars).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
}
