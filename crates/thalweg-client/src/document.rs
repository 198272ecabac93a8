//! The newest version of a value topic, kept to apply patches to.

use serde_json::Value;
use thalweg_wire::Position;

use crate::patch;

#[derive(Debug)]
pub(crate) struct Document {
    position: Position,
    content: DocumentContent,
}

/// The document: a text until the first patch parses it.
#[derive(Debug)]
enum DocumentContent {
    Text(String),
    Parsed(Value),
}

impl Document {
    pub(crate) fn new(position: Position, text: &str) -> Self {
        Self { position, content: DocumentContent::Text(text.to_owned()) }
    }

    /// Returns whether a patch of this position's version applies.
    pub(crate) fn is_at(&self, position: Position) -> bool {
        self.position == position
    }

    /// Applies a patch (RFC 6902) that leads to `position`; returns the document. After an error (one clause), the document is unusable.
    pub(crate) fn patch(&mut self, position: Position, patch: &str) -> Result<String, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("a patch does not apply: {error}");
        if let DocumentContent::Text(text) = &self.content {
            let parsed = serde_json::from_str(text).map_err(|error| wrong(&error))?;
            self.content = DocumentContent::Parsed(parsed);
        }
        let DocumentContent::Parsed(value) = &mut self.content else {
            return Err(wrong(&"no document"));
        };
        patch::apply(value, patch).map_err(|error| wrong(&error))?;
        self.position = position;
        Ok(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str) -> Position {
        text.parse().unwrap()
    }

    #[test]
    fn patches_are_applied_one_after_the_other() {
        let mut document = Document::new(position("9f.1"), r#"{"score":[0,0]}"#);
        assert!(document.is_at(position("9f.1")) && !document.is_at(position("a.1")));
        let patch = r#"[{"op":"replace","path":"/score/0","value":1}]"#;
        assert_eq!(document.patch(position("9f.2"), patch).unwrap(), r#"{"score":[1,0]}"#);
        let patch = r#"[{"op":"add","path":"/end","value":null}]"#;
        let patched = document.patch(position("9f.3"), patch).unwrap();
        assert_eq!(patched, r#"{"end":null,"score":[1,0]}"#);
        assert!(document.is_at(position("9f.3")));
    }

    #[test]
    fn a_patch_of_another_document_is_reported() {
        let mut document = Document::new(position("9f.1"), "[]");
        let patch = r#"[{"op":"remove","path":"/score"}]"#;
        assert!(document.patch(position("9f.2"), patch).unwrap_err().contains("does not apply"));
        assert!(document.patch(position("9f.2"), "{}").is_err());
    }
}
