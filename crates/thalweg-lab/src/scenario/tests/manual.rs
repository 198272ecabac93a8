//! Generates the tables of settings in `lab/README.md`, and checks them:
//!
//! ```sh
//! THALWEG_WRITE_DOCS=1 cargo test -p thalweg-lab --lib manual
//! ```

use super::schema::schema;
use crate::scenario::browser::is_of_browsers;
use crate::scenario::settings::Block;
use crate::scenario::{Drive, Settings};
use serde_json::Value;
use std::path::Path;
use std::{env, fs};

const MANUAL: &str = "../../lab/README.md";

/// Drives that a setting lacks at most for the table to name those, instead of the ones that use it.
const LACKED_MAX: usize = 2;

#[test]
fn the_tables_of_settings_are_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(MANUAL);
    let there = fs::read_to_string(&path).unwrap();
    let schema = schema();
    let is_plain = |key: &str| !is_of_browsers(key);
    let made = with_table(&there, "settings", &table(&schema, is_plain));
    let made = with_table(&made, "settings of a browser", &table(&schema, is_of_browsers));
    if env::var_os("THALWEG_WRITE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap();
    let remedy = "is stale: THALWEG_WRITE_DOCS=1 cargo test -p thalweg-lab --lib manual";
    assert!(there == made, "{} {remedy}", path.display());
}

#[test]
fn a_setting_is_described_with_its_values_default_and_drives() {
    let table = table(&schema(), |_| true);
    let line =
        |key: &str| table.lines().find(|line| line.starts_with(&format!("| `{key}` |"))).unwrap();
    assert_eq!(
        line("answers"),
        "| `answers` | The connection over which the answers of the `echo` drive come. `same`: The connection of the \
         firehose. `beside`: A separate connection. | `same` | `echo` |"
    );
    assert!(line("event_bytes").ends_with(
        " | 128 | `published-load`, `publish`, `stored`, `ceiling`, `ramp`, `churn`, `stampede` |"
    ));
    assert!(line("transport").ends_with(" | `websocket` | all but `publish`, `stored` |"));
    assert!(line("arrivals").ends_with(" | – | `ramp` |"));
    assert!(line("connections").ends_with(" | 100 | all |"));
}

/// Returns the manual with this text between the two marks of the table.
fn with_table(manual: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name}, generated -->\n"), "<!-- end of settings -->\n");
    let (before, rest) = manual.split_once(&begin).expect("the mark of a table");
    let (_, after) = rest.split_once(end).expect("the mark at its end");
    format!("{before}{begin}{table}{end}{after}")
}

fn table(schema: &Value, is_shown: impl Fn(&str) -> bool) -> String {
    let is_setting = |key: &&&str| !["subjects", "baseline"].contains(*key) && is_shown(key);
    let rows = Block::KEYS.iter().filter(is_setting).map(|key| row(schema, key));
    let head = "| setting | value | default | drive |\n|---|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}

fn row(schema: &Value, key: &str) -> String {
    let property = &schema["$defs"]["Block"]["properties"][key];
    let described = |value: &Value| value["description"].as_str().unwrap().replace('\n', " ");
    let mut text = described(property);
    let kind = property["anyOf"][0]["$ref"].as_str().and_then(|kind| schema.pointer(&kind[1..]));
    for value in kind.and_then(|kind| kind["oneOf"].as_array()).into_iter().flatten() {
        text += &format!(" `{}`: {}", value["const"].as_str().unwrap(), described(value));
    }
    let defaults = serde_json::to_value(Settings::default()).unwrap();
    let default = match &defaults[key] {
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.is_empty() => "–".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    format!("| `{key}` | {text} | {default} | {} |\n", drives(schema, key))
}

fn drives(schema: &Value, key: &str) -> String {
    let all = schema["$defs"]["Drive"]["oneOf"].as_array().unwrap().iter();
    let all = all.map(|drive| serde_json::from_value::<Drive>(drive["const"].clone()).unwrap());
    let (uses, lacks): (Vec<Drive>, Vec<Drive>) =
        all.filter(|drive| !drive.is_of_endpoints()).partition(|drive| drive.uses(key));
    let named = |drives: &[Drive]| {
        drives.iter().map(|drive| format!("`{drive}`")).collect::<Vec<_>>().join(", ")
    };
    match lacks.len() {
        0 => "all".to_owned(),
        1..=LACKED_MAX => format!("all but {}", named(&lacks)),
        _ => named(&uses),
    }
}
