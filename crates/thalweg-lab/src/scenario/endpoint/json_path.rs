//! A place in an event: `a.b[0].c`, `$.a.b`, or a JSON pointer (RFC 6901) such as `/a/b/0`.

use crate::scenario::ScenarioError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// No real path has more steps.
const STEPS_MAX: usize = 32;
/// Maximum number of places in a sentence.
const PLACES_MAX: usize = 20;

/// One place in a JSON text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JsonPath {
    text: String,
    steps: Vec<PathStep>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// A member of an object.
    Key(String),
    /// An element of an array, from 0.
    Index(usize),
    /// Digits of a pointer: a member or an element.
    Either(String, usize),
}

impl JsonPath {
    /// Returns the path in a text that has the value of this path's own text at `base`.
    pub(crate) fn below(&self, base: &str) -> JsonPath {
        let steps = dotted(base).unwrap_or_default();
        let steps = steps.into_iter().chain(self.steps.iter().cloned()).collect();
        JsonPath { text: self.text.clone(), steps }
    }

    /// Steps of the path; none for the whole text.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }
}

/// Returns the paths of the values in an event; in an array, of its first element. Empty if the event is not JSON.
pub fn places(event: &[u8]) -> Vec<String> {
    let mut places = Vec::new();
    if let Ok(event) = serde_json::from_slice(event) {
        collect(&event, String::new(), &mut places);
    }
    places
}

fn collect(value: &Value, place: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let place = match (dotted(key).as_deref(), place.is_empty()) {
                    (Some([PathStep::Key(_)]), true) if !key.starts_with('[') => key.clone(),
                    (Some([PathStep::Key(_)]), false) => format!("{place}.{key}"),
                    _ => format!("{place}[{key:?}]"),
                };
                collect(value, place, places);
            }
        }
        Value::Array(values) => {
            if let Some(value) = values.first() {
                collect(value, format!("{place}[0]"), places);
            }
        }
        _ if places.len() < PLACES_MAX => places.push(place),
        _ => {}
    }
}

impl FromStr for JsonPath {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<JsonPath, ScenarioError> {
        let steps = if text.starts_with('/') { pointer(text) } else { dotted(text) };
        let steps = steps.filter(|steps| steps.len() <= STEPS_MAX).ok_or_else(|| {
            ScenarioError::new(format!(
                "`{}` names no place in an event: write it as data.items[0].time or \
                 /data/items/0/time",
                text.escape_debug()
            ))
        })?;
        Ok(JsonPath { text: text.to_owned(), steps })
    }
}

fn pointer(text: &str) -> Option<Vec<PathStep>> {
    text.split('/').skip(1).map(pointer_step).collect()
}

fn pointer_step(token: &str) -> Option<PathStep> {
    let mut escapes = token.split('~').skip(1);
    if escapes.any(|rest| !rest.starts_with(['0', '1'])) {
        return None;
    }
    let key = token.replace("~1", "/").replace("~0", "~");
    Some(match index(token) {
        Some(index) => PathStep::Either(key, index),
        None => PathStep::Key(key),
    })
}

fn dotted(text: &str) -> Option<Vec<PathStep>> {
    let mut steps = Vec::new();
    let mut rest = match text.strip_prefix('$') {
        // A key may begin with a dollar sign.
        Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => rest,
        _ if text.is_empty() || text.starts_with('.') => return None,
        _ if text.starts_with('[') => text,
        _ => {
            let (key, rest) = key(text)?;
            steps.push(key);
            rest
        }
    };
    while !rest.is_empty() {
        let (step, left) = match rest.strip_prefix('.') {
            Some(rest) => key(rest)?,
            None => bracketed(rest.strip_prefix('[')?)?,
        };
        steps.push(step);
        rest = left;
    }
    Some(steps)
}

fn key(text: &str) -> Option<(PathStep, &str)> {
    let (key, rest) = text.split_at(text.find(['.', '[']).unwrap_or(text.len()));
    let is_wild = key.is_empty() || key == "*" || key.contains(']');
    (!is_wild).then(|| (PathStep::Key(key.to_owned()), rest))
}

/// `0]`, `"a key"]` or `'a key']`.
fn bracketed(text: &str) -> Option<(PathStep, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let (key, rest) = quoted.split_once(quote)?;
            return Some((PathStep::Key(key.to_owned()), rest.strip_prefix(']')?));
        }
    }
    let (digits, rest) = text.split_once(']')?;
    Some((PathStep::Index(index(digits)?), rest))
}

/// Digits without a leading zero (RFC 6901 §4).
fn index(digits: &str) -> Option<usize> {
    let is_index = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    is_index.then(|| digits.parse().ok())?
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for JsonPath {
    type Error = ScenarioError;

    fn try_from(text: String) -> Result<JsonPath, ScenarioError> {
        text.parse()
    }
}

impl From<JsonPath> for String {
    fn from(path: JsonPath) -> String {
        path.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathStep::{Either, Index, Key};
    use proptest::prelude::*;

    #[test]
    fn three_ways_to_write_one_place() {
        let check = |text: &str, expected: &[PathStep]| {
            assert_eq!(text.parse::<JsonPath>().unwrap().steps(), expected, "{text}");
        };
        let k = |key: &str| Key(key.to_owned());
        check("a.b[0].c", &[k("a"), k("b"), Index(0), k("c")]);
        check("$.a.b", &[k("a"), k("b")]);
        check("/a/b/0", &[k("a"), k("b"), Either("0".to_owned(), 0)]);
        check("$", &[]);
        check("[3][12].t", &[Index(3), Index(12), k("t")]);
        check("$[0]", &[Index(0)]);
        check("$type", &[k("$type")]);
        check("$[\"a.b\"]['c d'].e", &[k("a.b"), k("c d"), k("e")]);
        check("/a~1b/~01/01/", &[k("a/b"), k("~1"), k("01"), k("")]);
    }

    #[test]
    fn paths_without_a_place_are_refused() {
        for text in ["", ".", "a.", "a..b", ".a", "a[", "a[]", "a[x]", "a[*]", "$.*", "a]", "/~2"] {
            let refusal = text.parse::<JsonPath>().expect_err(text).to_string();
            assert!(refusal.contains("write it as data.items[0].time"), "{refusal}");
        }
        assert!("a[0]b".parse::<JsonPath>().is_err());
        assert!("/a".repeat(STEPS_MAX + 1).parse::<JsonPath>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer(text in "[$./~\\[\\]'\"01ab*é]{0,12}") {
            if let Ok(path) = text.parse::<JsonPath>() {
                prop_assert_eq!(path.to_string(), text);
            }
        }
    }
}
