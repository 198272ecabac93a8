//! The settings file: TOML, with the flags' names as keys.

use std::{fs, ops::Range, path::Path};

use clap::Args;
use thalweg_server::config::closest;
use toml::de::DeTable;

use super::settings::Settings;

/// Reads the file.
///
/// # Errors
/// As [`parse`], or that it cannot be read.
pub(super) fn read(path: &Path) -> Result<Settings, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    parse(&name.to_string(), &text)
}

/// Reads the text of a file.
///
/// # Errors
/// One sentence that names the file and the line to blame.
pub(super) fn parse(file: &str, text: &str) -> Result<Settings, String> {
    let at = |span: Option<Range<usize>>, message: &str| {
        let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        format!("{file}:{line}: {message}")
    };
    let table = DeTable::parse(text).map_err(|error| at(error.span(), error.message()))?;
    let table = table.get_ref();
    // Here rather than from serde's words, which would have to be taken apart again.
    let names = names();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(key) = table.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref();
        // All there are would be no sentence.
        let meant = if name == "port" { Some("listen") } else { closest(name, &known) };
        let remedy = match meant {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "thalweg serve --help names those there are".to_owned(),
        };
        let message = format!("unknown key {name:?}, {remedy}");
        return Err(at(Some(key.span()), &message));
    }
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let is_in = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
        let key = table.iter().find(|(_, value)| is_in(value.span()));
        let message = match key {
            Some((key, _)) => format!("{}: {}", key.get_ref(), error.message()),
            None => error.message().to_owned(),
        };
        at(error.span(), &message)
    })
}

/// The keys: all flags that are not hidden, and the tables of topics.
pub(super) fn names() -> Vec<String> {
    let flags = Settings::augment_args(clap::Command::new("serve"));
    let shown = flags.get_arguments().filter(|flag| !flag.is_hide_set());
    let names = shown.filter_map(|flag| flag.get_long());
    names.chain(["topics"]).map(str::to_owned).collect()
}
