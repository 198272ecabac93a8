//! Reads a TOML document into a struct. Unknown and missing keys are refused in words of our own, with the place.

use std::ops::Range;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Visitor, value::Error as NoValue},
    forward_to_deserialize_any,
};
use thalweg_server::config::{closest, nearest};
use toml::de::{DeTable, DeValue};

use super::renamed;

/// A mistake in a document, and the byte at which it is.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) at: usize,
    pub(super) message: String,
}

/// A table of a document, or a list of tables.
#[derive(Debug)]
pub(super) struct Section {
    /// Its place: empty for the document itself, or keys joined by dots.
    pub(super) path: &'static str,
    /// The keys that it may have.
    pub(super) keys: &'static [&'static str],
    /// The keys that it must have.
    pub(super) required: &'static [&'static str],
    /// Whether it is a list of tables.
    pub(super) is_list: bool,
}

/// Reads a document. The error is one sentence that names the key, with the nearest right key, or the problem of the value.
pub(super) fn read<T: DeserializeOwned>(text: &str, sections: &[Section]) -> Result<T, Mistake> {
    let table =
        DeTable::parse(text).map_err(|error| mistake(error.span(), &not_toml(error.message())))?;
    for section in sections {
        section.check(table.get_ref(), table.span())?;
    }
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        let message = without_value(error.message());
        match key_at(table.get_ref(), &span) {
            Some(key) => mistake(Some(span), &format!("{key}: {message}")),
            None => mistake(Some(span), &message),
        }
    })
}

/// Returns the sentence about a text that is not TOML, with the parser's words.
fn not_toml(message: &str) -> String {
    match message {
        "duplicate key" => "this key occurs twice: remove one of them".to_owned(),
        _ => format!("this is not TOML ({message}): correct it, as in docs/thalweg.toml"),
    }
}

/// Returns the remedy for a value of a wrong type, and other messages unchanged. Serde's text shows the value, perhaps a secret.
fn without_value(message: &str) -> String {
    let rest = message.strip_prefix("invalid type: ");
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        None => message.to_owned(),
        Some((_, "a sequence")) => "write a list, in brackets".to_owned(),
        Some((_, "a boolean")) => "write true or false".to_owned(),
        Some((_, "a string" | "path string")) => "write a string, in quotes".to_owned(),
        Some((_, expected)) => format!("write {expected}"),
    }
}

fn mistake(span: Option<Range<usize>>, message: &str) -> Mistake {
    Mistake { at: span.map_or(0, |span| span.start), message: message.to_owned() }
}

impl Section {
    fn check(&self, root: &DeTable<'_>, span: Range<usize>) -> Result<(), Mistake> {
        let (mut tables, mut name) = (vec![(root, span)], String::new());
        for key in self.path.split('.').filter(|key| !key.is_empty()) {
            name = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            let mut below = Vec::new();
            for (table, _) in tables {
                let Some(value) = table.get(key) else { continue };
                match (value.get_ref(), self.is_list) {
                    (DeValue::Table(table), false) => below.push((table, value.span())),
                    (DeValue::Array(items), true) => {
                        for item in items {
                            let DeValue::Table(table) = item.get_ref() else {
                                return Err(self.not_a_table(item.span()));
                            };
                            below.push((table, item.span()));
                        }
                    }
                    _ => return Err(self.not_a_table(value.span())),
                }
            }
            tables = below;
        }
        tables.into_iter().try_for_each(|(table, span)| self.check_keys(table, span))
    }

    fn not_a_table(&self, span: Range<usize>) -> Mistake {
        let Self { path, required, is_list, .. } = self;
        let message = match (is_list, required) {
            (true, required) if !required.is_empty() => {
                format!("{path}: write a table, [[{path}]] with {}", required.join(" and "))
            }
            (true, _) => format!("{path}: write a table, [[{path}]]"),
            (false, _) => format!("{path}: write a table, [{path}]"),
        };
        mistake(Some(span), &message)
    }

    fn check_keys(&self, table: &DeTable<'_>, span: Range<usize>) -> Result<(), Mistake> {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if self.keys.contains(&name) {
                continue;
            }
            let message = match renamed::key(self.path, name) {
                Some(message) => message,
                None => format!("{}{}", self.unknown(name), self.remedy(name)),
            };
            return Err(mistake(Some(key.span()), &message));
        }
        match self.required.iter().find(|key| !table.contains_key(**key)) {
            Some(key) => Err(mistake(Some(span), &format!("{}: set {key}", self.path))),
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> String {
        match self.path {
            "" => format!("unknown key {name:?}"),
            path => format!("{path}: unknown key {name:?}"),
        }
    }

    fn remedy(&self, name: &str) -> String {
        if self.path.is_empty() {
            // Many other servers have a port.
            let meant = if name == "port" { Some("listen") } else { closest(name, self.keys) };
            // The list of all keys is too long for a sentence.
            return match meant {
                Some(meant) => format!(", did you mean {meant:?}?"),
                None => ", docs/thalweg.toml lists all keys".to_owned(),
            };
        }
        nearest(name, self.keys)
    }
}

/// Returns the key whose value is at a place, with the tables that contain the key.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let is_in = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    table.iter().find_map(|(key, value)| {
        let key = key.get_ref();
        let below = |table: &DeTable<'_>| key_at(table, span).map(|below| format!("{key}.{below}"));
        match value.get_ref() {
            DeValue::Table(table) => below(table),
            DeValue::Array(items) => {
                let tables = items.iter().filter_map(|item| match item.get_ref() {
                    DeValue::Table(table) => Some(table),
                    _ => None,
                });
                tables.into_iter().find_map(below)
            }
            _ => None,
        }
        .or_else(|| is_in(value.span()).then(|| key.to_string()))
    })
}

/// Returns the keys of a struct, as its `Deserialize` knows them.
pub(super) fn keys_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    struct Keys<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Keys<'_> {
        type Error = NoValue;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            visitor: V,
        ) -> Result<V::Value, NoValue> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
            Err(serde::de::Error::custom("only its keys are asked for"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut keys: &'static [&'static str] = &[];
    // Deserializing fails after it has named the keys.
    let _: Result<T, NoValue> = T::deserialize(Keys(&mut keys));
    keys
}
