//! Errors in a scenario, in one sentence with its line.

use std::ops::Range;

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ScenarioError {
    /// Line of the file, from 1, if the error is in a line.
    pub line: Option<usize>,
    /// The problem and the remedy.
    pub message: String,
}

impl ScenarioError {
    /// Creates an error without a line.
    pub fn new(message: impl Into<String>) -> Self {
        ScenarioError { line: None, message: message.into() }
    }

    pub(super) fn at(text: &str, span: &Range<usize>, message: impl Into<String>) -> Self {
        let before = &text.as_bytes()[..span.start.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        ScenarioError { line: Some(line), message: message.into() }
    }

    pub(super) fn from_toml(text: &str, error: &toml::de::Error) -> Self {
        let message = with_nearest(error.message());
        match error.span() {
            Some(span) if !text.is_empty() => Self::at(text, &span, message),
            _ => Self::new(message),
        }
    }
}

/// Returns a message that refuses `wrong` and names the nearest of the `right` names.
pub fn unknown(what: &str, wrong: &str, right: &[&str]) -> String {
    let nearest = right
        .iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, name)) => format!("there is no {what} `{wrong}`; did you mean `{name}`?"),
        None => format!("there is no {what} `{wrong}`; there are {}", right.join(", ")),
    }
}

/// Rewrites Serde's "unknown field `x`, expected one of `a`, `b`" in our words.
fn with_nearest(message: &str) -> String {
    let what = if message.starts_with("unknown field") {
        "key"
    } else if message.starts_with("unknown variant") {
        "value"
    } else {
        return message.trim_end().replace('\n', ", ");
    };
    let mut names = message.split('`').skip(1).step_by(2);
    let wrong = names.next().unwrap_or_default();
    unknown(what, wrong, &names.collect::<Vec<_>>())
}
