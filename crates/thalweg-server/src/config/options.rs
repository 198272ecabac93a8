use std::time::Duration;

use thalweg_wire::Excerpt;

use super::{limits::SUGGESTED_BYTES_MAX, parse_bytes, parse_duration};

/// Settings in the form `key=value,key=value`. The code that reads them checks the keys.
#[derive(Debug, Clone, Default)]
pub struct Options(Vec<(String, String)>);

impl Options {
    /// Returns options with these keys and values.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Reads `key=value,key=value`; an empty text has no options.
    ///
    /// # Errors
    /// Returns a sentence that names the part without `key=value`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut options = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                format!("{:?} has no value: write it as key=value", Excerpt(part))
            })?;
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self(options))
    }

    /// Refuses keys other than `known`.
    ///
    /// # Errors
    /// Returns a sentence with the most similar known key.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), String> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => Err(format!("unknown key {:?}{}", Excerpt(key), nearest(key, known))),
            None => Ok(()),
        }
    }

    /// Returns a whole number.
    ///
    /// # Errors
    /// Returns a sentence if the value is not a whole number.
    pub fn number(&self, key: &str) -> Result<Option<u64>, String> {
        self.read(key, |value| {
            value.parse().map_err(|_| {
                format!("{:?} is not a whole number: write digits only", Excerpt(value))
            })
        })
    }

    /// Returns a size in bytes.
    ///
    /// # Errors
    /// Returns a sentence if the value is not a size.
    pub fn bytes(&self, key: &str) -> Result<Option<usize>, String> {
        self.read(key, parse_bytes)
    }

    /// Returns the text unchanged.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns a duration.
    ///
    /// # Errors
    /// Returns a sentence if the value is not a duration.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, String> {
        self.read(key, parse_duration)
    }

    fn read<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.text(key).map(parse).transpose().map_err(|error| format!("{key}: {error}"))
    }
}

/// Returns `, did you mean "…"?`, or the known words.
pub fn nearest(wrong: &str, known: &[&str]) -> String {
    match closest(wrong, known) {
        Some(name) => format!(", did you mean {name:?}?"),
        None => format!("; expected one of {}", known.join(", ")),
    }
}

/// Returns the most similar known word. Returns `None` if no known word is similar enough, or the wrong word
/// is too long.
pub fn closest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    if wrong.len() > SUGGESTED_BYTES_MAX {
        return None;
    }
    let likeness = known.iter().map(|name| (strsim::jaro_winkler(wrong, name), *name));
    let closest = likeness.max_by(|a, b| a.0.total_cmp(&b.0));
    closest.filter(|(likeness, _)| *likeness > 0.7).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_word_is_compared_with_nothing() {
        let known = ["topic", "a-key-of-thirty-two-characters-x"];
        assert_eq!(closest("topik", &known), Some("topic"));
        assert_eq!(closest("b-key-of-thirty-two-characters-x", &known), Some(known[1]));
        assert_eq!(closest("b-key-of-thirty-two-characters-xy", &known), None);
        assert_eq!(closest("weather", &known), None);
        assert!(nearest(&"topic".repeat(1000), &known).starts_with("; expected one of topic"));
    }
}
