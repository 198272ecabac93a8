//! Generates `docs/thalweg.toml` and `docs/thalweg.schema.json` from the settings, and checks them:
//!
//! ```sh
//! THALWEG_WRITE_DOCS=1 cargo test -p thalweg --bin thalweg documents
//! ```

use std::{env, fs, path::Path};

use clap::{ArgAction, Args};
use serde_json::Value;
use thalweg_server::config::Config;

use super::{
    config::config,
    document::Section,
    file::{self, sections},
    settings::Settings,
};

const EXAMPLE: &str = "../../docs/thalweg.toml";
const SCHEMA: &str = "../../docs/thalweg.schema.json";

const EXAMPLE_HEAD: &str = "\
#:schema thalweg.schema.json

# All settings of `thalweg serve --config thalweg.toml`, with their defaults. Unless its comment says \"no flag\", a
# key of this part is also a flag (--tls-cert) and an environment variable (THALWEG_TLS_CERT), which win over the file.
# The sections below have no flags: --set limits.event-bytes=4MiB sets one of their keys.
";

/// Values that show how a required key is written.
const EXAMPLES: &[(&str, &str)] = &[
    ("topic.pattern", "\"orders/**\""),
    ("topic.columns", "[\"speed:double\", \"car:string\", \"time:time\"]"),
    ("topic.kind", "\"log\""),
    ("source.topic", "\"cars\""),
    ("source.kind", "\"cars\""),
    ("source.interval", "\"100ms\""),
    ("source.start", "0"),
    ("query.topic", "\"fastest\""),
    (
        "query.sql",
        "\"SELECT window_start, max(speed_kmh) AS speed_kmh FROM tumble(cars, 1s) GROUP BY window_start\"",
    ),
    ("upstream.pattern", "\"matchesfeed/**\""),
    ("upstream.url", "\"http://127.0.0.1:9000/{topic}\""),
    ("store.topics", "\"orders/**\""),
    ("store.age", "\"7d\""),
    ("store.bytes", "\"10GiB\""),
    ("stream.name", "\"live\""),
    ("stream.pattern", "\"live/**\""),
    ("stream.bytes", "\"10GiB\""),
    ("token.name", "\"dashboard\""),
    ("token.secret", "\"@/etc/thalweg/dashboard-token\""),
    ("token.subscribe", "[\"cars/**\", \"bikes\"]"),
    ("token.publish", "[]"),
    ("token.inspect", "[\"**\"]"),
];

/// Compares a file with what the settings generate, or writes it.
fn hold(path: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("THALWEG_WRITE_DOCS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let present = fs::read_to_string(&path).unwrap_or_default();
    let remedy = "is stale: THALWEG_WRITE_DOCS=1 cargo test -p thalweg --bin thalweg documents";
    assert!(present == generated, "{} {remedy}", path.display());
}

fn example() -> String {
    let schema = schema();
    let mut text = EXAMPLE_HEAD.to_owned();
    let flags = Settings::augment_args(clap::Command::new("serve"));
    let sections = sections();
    let is_table = |key: &&str| sections.iter().any(|section| section.path == *key);
    let mut heading = None;
    for key in sections[0].keys.iter().filter(|key| !is_table(key)) {
        let flag = flags.get_arguments().find(|flag| flag.get_long() == Some(key));
        let own = flag.map(|flag| flag.get_help_heading().unwrap_or("Server"));
        if own.is_some() && own != heading {
            heading = own;
            text += &format!("\n## {}\n", heading.unwrap_or_default());
        }
        let property = &schema["properties"][key];
        let note = if flag.is_none() { " (no flag)" } else { "" };
        text += &setting("", key, property, note, "");
    }
    for section in &sections[1..] {
        text += &table(&schema, section);
    }
    text
}

/// Returns a table of the file. A list of tables is a comment, because its tables have no defaults.
fn table(schema: &Value, section: &Section) -> String {
    let mut own = schema;
    for key in section.path.split('.') {
        own = resolve(schema, &own["properties"][key]);
    }
    let brackets = if section.is_list { ("# [[", "]]") } else { ("[", "]") };
    let about = own["description"].as_str().unwrap_or_default();
    let mut text = format!("\n# {}\n{}{}{}\n", line(about), brackets.0, section.path, brackets.1);
    for key in section.keys {
        let property = &own["properties"][key];
        if resolve(schema, property).get("properties").is_none() {
            let comment = if section.is_list { "# " } else { "" };
            text += &setting(section.path, key, property, "", comment);
        }
    }
    text
}

/// Returns a schema, or the definition to which it refers.
fn resolve<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let items = property.get("items").unwrap_or(property);
    match items["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => schema.pointer(path).unwrap(),
        None => property,
    }
}

/// Returns a comment, and a line that sets the default or shows a value to replace.
fn setting(path: &str, key: &str, property: &Value, note: &str, comment: &str) -> String {
    let about = line(property["description"].as_str().unwrap_or_default());
    let (about, default) = about.split_once(" [default: ").unwrap_or((&about, ""));
    let default = default.trim_end_matches(']');
    let name = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let example = EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let kind = &property["type"];
    let is = |name: &str| kind == name || kind.as_array().is_some_and(|kinds| kinds[0] == name);
    let quoted = |text: &str| if is("integer") { text.to_owned() } else { format!("\"{text}\"") };
    let line = |value: &str| format!("{key} = {value}");
    let is_default = |value: &str| {
        let only = if path.is_empty() { line(value) } else { format!("[{path}]\n{}", line(value)) };
        !comment.is_empty() && !default.contains(' ') || file::parse("", &only).is_ok()
    };
    let line = match example {
        Some(value) => line(value),
        None if is("boolean") => line("false"),
        None if is("array") && default.is_empty() => line("[]"),
        None if is("array") => line(&format!("[\"{default}\"]")),
        None if !default.is_empty() && is_default(&quoted(default)) => line(&quoted(default)),
        None => format!("# {}", line(if is("integer") { "N" } else { "\"…\"" })),
    };
    let comment = if line.starts_with("# ") { "" } else { comment };
    format!("\n# {about}{note}\n{comment}{line}\n")
}

/// Returns the first paragraph of a description, on one line.
fn line(description: &str) -> String {
    description.split("\n\n").next().unwrap_or_default().replace('\n', " ")
}

fn schema() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Settings)).unwrap();
    remove_null(&mut schema);
    schema
}

/// Removes null from all types, because TOML has none.
fn remove_null(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(values) = fields.get_mut("enum").and_then(Value::as_array_mut) {
                values.retain(|value| !value.is_null());
            }
            if let Some(types) = fields.get_mut("type") {
                let names = types.as_array().cloned().unwrap_or_default();
                let names: Vec<_> = names.into_iter().filter(|name| name != "null").collect();
                match &names[..] {
                    [] => {}
                    [only] => *types = only.clone(),
                    _ => *types = names.into(),
                }
            }
            if fields.get("default").is_some_and(|default| !is_simple(default)) {
                fields.remove("default");
            }
            fields.values_mut().for_each(remove_null);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_null),
        _ => {}
    }
}

fn is_simple(default: &Value) -> bool {
    !default.is_null() && !default.is_object()
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
    let is_set = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
    assert!(example().lines().filter(is_set).count() > 40, "few settings have their default");
    let text = |config: &Config| format!("{config:#?}");
    let (made, brokers) = config(settings).unwrap();
    assert_eq!(brokers.about().count(), 0);
    assert_eq!(text(&made), text(&Config::default()));
}

/// The tables of the example, without the `# ` before them, are as valid as the rest.
#[test]
fn the_tables_of_the_example_are_read() {
    let is_comment = |line: &str| {
        let text = line.strip_prefix("# ")?;
        let is_setting = text.contains(" = ") && !text.contains('…') && !text.ends_with("= N");
        (text.starts_with("[[") || is_setting).then(|| text.to_owned())
    };
    let text: Vec<String> = example()
        .lines()
        .skip_while(|line| !line.starts_with("# [[topic]]"))
        .filter_map(is_comment)
        // Omits keys of other kinds, and examples that are words for no value.
        .filter(|line| !["start = ", "age = ", "ttl = "].iter().any(|key| line.starts_with(key)))
        .filter(|line| !line.starts_with("keys = ") && !line.starts_with("presence-grace = "))
        .collect();
    let settings = file::parse("thalweg.toml", &text.join("\n")).unwrap();
    assert_eq!((settings.topic.len(), settings.source.len(), settings.token.len()), (1, 1, 1));
    assert_eq!((settings.query.len(), settings.upstream.len(), settings.stream.len()), (1, 1, 1));
}

#[test]
fn the_schema_knows_the_keys_that_the_reader_knows() {
    let schema = schema();
    for section in sections() {
        let mut own = &schema;
        for key in section.path.split('.').filter(|key| !key.is_empty()) {
            own = resolve(&schema, &own["properties"][key]);
        }
        assert_eq!(own["additionalProperties"], false, "{}", section.path);
        let mut known: Vec<_> = own["properties"].as_object().unwrap().keys().cloned().collect();
        let mut keys = section.keys.to_vec();
        known.sort();
        keys.sort_unstable();
        assert_eq!(known, keys, "{}", section.path);
    }
}

#[test]
fn every_flag_is_a_key_and_a_variable() {
    let command = Settings::augment_args(clap::Command::new("serve"));
    let command = command.mut_args(super::settings::with_variable);
    let flags: Vec<_> = command.get_arguments().filter(|flag| !flag.is_hide_set()).collect();
    assert!(flags.len() <= 40, "{} flags", flags.len());
    for flag in flags {
        let name = flag.get_long().unwrap();
        assert!(name == "set" || sections()[0].keys.contains(&name), "{name} is no key");
        assert!(flag.get_env().is_some(), "{name} has no variable");
        assert!(flag.is_hide_env_set(), "{name} may show its value in the help");
        let is_list = matches!(flag.get_action(), ArgAction::Append);
        let has_lines = ["query", "jwt-key"].contains(&name);
        assert_eq!(flag.get_value_delimiter().is_some(), is_list && !has_lines, "{name}");
    }
}
