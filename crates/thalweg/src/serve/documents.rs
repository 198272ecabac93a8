//! `docs/thalweg.toml` and `docs/thalweg.schema.json` are made from the settings, by
//! the tests that hold them to it:
//!
//! ```sh
//! THALWEG_WRITE_DOCS=1 cargo test -p thalweg --bin thalweg documents
//! ```

use std::{env, fs, path::Path};

use clap::{Arg, ArgAction, Args};
use serde_json::Value;
use thalweg_server::config::Config;

use super::{config::config, file, settings::Settings};

const EXAMPLE: &str = "../../docs/thalweg.toml";
const SCHEMA: &str = "../../docs/thalweg.schema.json";

const EXAMPLE_HEAD: &str = "\
#:schema thalweg.schema.json

# Every setting of `thalweg serve --config thalweg.toml`, at its default where it has
# one. A flag of the same name wins over what stands here.
";

const EXAMPLE_TABLES: &str = r#"
## Tables of topics, behind all other settings

# [topics.cars]
# columns = ["speed:double", "car:string", "time:time"]

# [topics.fastest]
# query = "SELECT window_start, max(speed) AS speed FROM tumble(cars, 1s) GROUP BY window_start"
"#;

/// What a reader finds there must be what is made now.
fn hold(path: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("THALWEG_WRITE_DOCS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let remedy = "is stale: THALWEG_WRITE_DOCS=1 cargo test -p thalweg --bin thalweg documents";
    assert!(there == made, "{} {remedy}", path.display());
}

fn example() -> String {
    let flags = Settings::augment_args(clap::Command::new("serve"));
    let mut text = EXAMPLE_HEAD.to_owned();
    let mut heading = Some("");
    for flag in flags.get_arguments().filter(|flag| !flag.is_hide_set()) {
        if flag.get_help_heading() != heading {
            heading = flag.get_help_heading();
            text += &format!("\n## {}\n", heading.unwrap_or("Serving"));
        }
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let (help, default) = help.split_once(" [default: ").unwrap_or((&help, ""));
        let line = setting(flag, default.trim_end_matches(']'));
        text += &format!("\n# {help}\n{line}\n");
    }
    text + EXAMPLE_TABLES
}

/// A line that sets the default, or one to be filled in.
fn setting(flag: &Arg, default: &str) -> String {
    let name = flag.get_long().unwrap();
    let value = flag.get_value_names().map_or("", |names| names[0].as_str());
    let quote = if value == "N" { "" } else { "\"" };
    let line = format!("{name} = {quote}{default}{quote}");
    match flag.get_action() {
        ArgAction::SetTrue => format!("{name} = false"),
        ArgAction::Append => format!("{name} = []  # \"{value}\", …"),
        _ if !default.is_empty() && file::parse("", &line).is_ok() => line,
        _ => format!("# {name} = {quote}{value}{quote}"),
    }
}

fn schema() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Settings)).unwrap();
    // What is left out is left out: TOML has no null.
    for property in schema["properties"].as_object_mut().unwrap().values_mut() {
        if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
            values.retain(|value| !value.is_null());
        }
        if let Some(types) = property["type"].as_array_mut() {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                property["type"] = only.clone();
            }
        }
    }
    schema
}

#[test]
fn the_example_is_not_stale() {
    hold(EXAMPLE, &example());
}

#[test]
fn the_schema_is_not_stale() {
    hold(SCHEMA, &(serde_json::to_string_pretty(&schema()).unwrap() + "\n"));
}

#[test]
fn the_defaults_of_the_example_and_the_help_are_the_servers() {
    let settings = file::parse("", &example()).unwrap();
    // Not by leaving them out.
    let is_set = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
    assert!(example().lines().filter(is_set).count() > 40);
    let text = |config: &Config| format!("{config:#?}");
    assert_eq!(text(&config(settings).unwrap()), text(&Config::default()));
}

#[test]
fn the_schema_knows_the_keys_that_the_reader_knows() {
    let schema = schema();
    assert_eq!(schema["additionalProperties"], false);
    let mut known: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    let mut names = file::names();
    known.sort();
    names.sort();
    assert_eq!(known, names);
}
