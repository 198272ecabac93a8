//! The short form of a table on the command line: `HEAD,key=value,…`, read like the table in the file.

use serde::de::DeserializeOwned;
use thalweg_server::config::nearest;

use super::{
    document::{self, keys_of},
    renamed,
};

/// Keys whose values are lists of items separated by spaces.
const LISTS: [&str; 4] = ["columns", "subscribe", "publish", "inspect"];

/// Reads the short form of a table of `section`: the values of its head, each with its key, and its options. The error is one
/// sentence naming the wrong key or value.
pub(super) fn read<T: DeserializeOwned>(
    section: &str,
    head: &[(&str, &str)],
    options: &str,
) -> Result<T, String> {
    let keys = keys_of::<T>();
    let mut text = String::new();
    for (key, value) in head {
        text += &format!("{key} = {}\n", quoted(value));
    }
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| format!("{option:?} has no value: write it as key=value"))?;
        let is_head = head.iter().any(|(name, _)| *name == key);
        if is_head || !keys.contains(&key) {
            let known: Vec<&str> = keys
                .iter()
                .copied()
                .filter(|key| head.iter().all(|(name, _)| name != key))
                .collect();
            return Err(renamed::key(section, key)
                .unwrap_or_else(|| format!("unknown key {key:?}{}", nearest(key, &known))));
        }
        text += &format!("{key} = {}\n", written(key, value));
    }
    document::read(&text, &[]).map_err(|mistake| mistake.message)
}

/// Returns an option's value in TOML.
fn written(key: &str, value: &str) -> String {
    if LISTS.contains(&key) {
        let items: Vec<String> = value.split_whitespace().map(quoted).collect();
        return format!("[{}]", items.join(", "));
    }
    if ["true", "false"].contains(&value) { value.to_owned() } else { quoted(value) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
