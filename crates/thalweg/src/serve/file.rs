//! The settings file, and `--set`, which sets keys of it that have no flag.

use std::{fs, path::Path};

use clap::Args;

use super::{
    document::{self, Mistake, Section, keys_of},
    limits::{LimitTable, RateTable, TuningTable},
    settings::Settings,
    signalr::SignalrTable,
    tables::{QueryTable, SourceTable, StoreTable, StreamTable, TopicTable, UpstreamTable},
    tokens::token_keys,
};

/// Reads the file. Fails like [`parse`], or if the file cannot be read.
pub(super) fn read(path: &Path) -> Result<Settings, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        format!("cannot read {name} ({error}): name a file that this user may read")
    })?;
    parse(&name.to_string(), &text)
}

/// Reads the text of a file.
///
/// # Errors
/// Returns a sentence that names the file, the line and the key.
pub(super) fn parse(file: &str, text: &str) -> Result<Settings, String> {
    document::read(text, &sections()).map_err(|Mistake { at, message }| {
        let line = 1 + text.get(..at).unwrap_or_default().matches('\n').count();
        format!("{file}:{line}: {message}")
    })
}

/// Reads the values of `--set`: `KEY=VALUE`, where the key includes its tables.
///
/// # Errors
/// Returns a sentence that names the key.
pub(super) fn parse_set(set: &[String]) -> Result<Settings, String> {
    let flags = flags();
    let mut text = String::new();
    for assignment in set {
        let (key, value) = assignment
            .split_once('=')
            .ok_or("--set: write KEY=VALUE, for instance limits.event-bytes=4MiB")?;
        let key = key.trim();
        let is_key = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if key.is_empty() || !key.chars().all(is_key) {
            return Err("--set: write KEY=VALUE, for instance limits.event-bytes=4MiB".to_owned());
        }
        let top = key.split('.').next().unwrap_or(key);
        if flags.iter().any(|flag| flag == top) {
            return Err(format!("--set: {top} has a flag: write --{top}"));
        }
        let line = format!("{key} = {value}\n");
        let is_toml = !value.contains('\n') && line.parse::<toml::Table>().is_ok();
        let quoted = toml::Value::String(value.to_owned());
        text += &if is_toml { line } else { format!("{key} = {quoted}\n") };
    }
    document::read(&text, &sections()).map_err(|mistake| format!("--set: {}", mistake.message))
}

/// Returns the flags that are also keys of the file.
fn flags() -> Vec<String> {
    let flags = Settings::augment_args(clap::Command::new("serve"));
    let shown = flags.get_arguments().filter(|flag| !flag.is_hide_set());
    shown.filter_map(|flag| flag.get_long()).map(str::to_owned).collect()
}

/// Returns all tables of the file.
pub(super) fn sections() -> Vec<Section> {
    let one = |path, keys| Section { path, keys, required: &[], is_list: false };
    let list = |path, keys, required| Section { path, keys, required, is_list: true };
    vec![
        one("", keys_of::<Settings>()),
        one("signalr", keys_of::<SignalrTable>()),
        one("limits", keys_of::<LimitTable>()),
        one("limits.connection-rates", keys_of::<RateTable>()),
        one("limits.subject-rates", keys_of::<RateTable>()),
        one("limits.address-rates", keys_of::<RateTable>()),
        one("tuning", keys_of::<TuningTable>()),
        list("topic", keys_of::<TopicTable>(), &["pattern"]),
        list("source", keys_of::<SourceTable>(), &["topic", "kind"]),
        list("query", keys_of::<QueryTable>(), &["topic", "sql"]),
        list("upstream", keys_of::<UpstreamTable>(), &["pattern", "url"]),
        list("store", keys_of::<StoreTable>(), &["topics"]),
        list("stream", keys_of::<StreamTable>(), &["name", "pattern"]),
        list("token", token_keys(), &["name"]),
    ]
}
