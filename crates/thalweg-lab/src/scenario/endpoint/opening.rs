//! The dialogue that opens a WebSocket: messages of the lab, and expected replies, in their order.

use super::JsonPath;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One step of the dialogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OpeningStep {
    /// Wait for a message that meets this condition. Other messages before it are ignored.
    Expect {
        /// The condition.
        expect: Expectation,
    },
    /// Send this text.
    Send(String),
}

impl OpeningStep {
    /// Returns a step that waits for a message: `PATH=VALUE`, or a text that the message contains.
    pub fn expect(text: &str) -> OpeningStep {
        OpeningStep::Expect { expect: Expectation::from(text.to_owned()) }
    }
}

/// A condition for a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Expectation {
    /// The message contains this text.
    Text(String),
    /// The message is JSON, and has this value at this path.
    Value(JsonPath, String),
}

impl From<String> for Expectation {
    /// Reads `PATH=VALUE`; a text that is not of this form is one that a message contains.
    fn from(text: String) -> Expectation {
        let is_path_char = |char: char| char.is_ascii_alphanumeric() || "$._-/[]".contains(char);
        if let Some((path, value)) = text.split_once('=')
            && path.chars().all(is_path_char)
            && let Ok(path) = path.parse()
        {
            return Expectation::Value(path, value.to_owned());
        }
        Expectation::Text(text)
    }
}

impl From<Expectation> for String {
    fn from(expectation: Expectation) -> String {
        expectation.to_string()
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Text(text) => f.write_str(text),
            Expectation::Value(path, value) => write!(f, "{path}={value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_value_at_a_path_or_a_text() {
        let check = |text: &str, is_value: bool| {
            let found = Expectation::from(text.to_owned());
            assert_eq!(matches!(found, Expectation::Value(..)), is_value, "{text}");
            assert_eq!(found.to_string(), text);
        };
        check("type=connection_ack", true);
        check("a.b[0]=x=y", true);
        check("/a/0=", true);
        check("connection_ack", false);
        check("{\"a\"=1", false);
        check("=x", false);
        check("", false);
        let steps = [OpeningStep::Send("a".to_owned()), OpeningStep::expect("id=1")];
        let text = serde_json::to_string(&steps).unwrap();
        assert_eq!(text, r#"["a",{"expect":"id=1"}]"#);
        assert_eq!(serde_json::from_str::<Vec<OpeningStep>>(&text).unwrap(), steps);
    }
}
