use sqlparser::{ast::Ident, tokenizer::Span};

/// The reason why a text is not a query that can run: the problem, its position, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct QueryError {
    /// The line, from 1 on.
    pub line: u32,
    /// The column of the first character, in characters, from 1 on.
    pub column: u32,
    /// The number of characters, at least 1. They may continue on the next line.
    pub length: u32,
    /// One sentence with the remedy.
    pub message: String,
    /// The missing column, if that is the problem.
    pub(crate) missing: Option<String>,
}

impl QueryError {
    pub(crate) fn at(span: Span, message: impl Into<String>) -> Self {
        let (start, end) = (span.start, span.end);
        let length =
            if start.line == end.line { end.column.saturating_sub(start.column) } else { 1 };
        Self {
            line: start.line.max(1) as u32,
            column: start.column.max(1) as u32,
            length: length.max(1) as u32,
            message: message.into(),
            missing: None,
        }
    }

    /// Returns the error of a missing column.
    pub(crate) fn missing_column(name: &Ident, message: String) -> Self {
        Self { missing: Some(name.value.clone()), ..Self::at(name.span, message) }
    }
}
