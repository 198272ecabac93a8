//! The start of a stream of columns, as header fields of the response, because rows cannot carry it.

use crate::{EndCode, GapReason, Offset, Position};

/// The start of a response that carries it in header fields. Specification: `docs/reference/columns.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStart {
    /// The position before the first row.
    pub position: Position,
    /// The relation to the position in the request; `None` if the request has none.
    pub resume: Option<Resume>,
}

/// The relation of a stream to the stream that it resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// No event is missing, and the rows have the same schema, as far as the server can tell.
    Exact,
    /// No event is missing. The rows have a new schema.
    Schema,
    /// Events are missing.
    Gap {
        /// Number of missing events, if known.
        missed: Option<Offset>,
        /// The reason.
        reason: GapReason,
    },
    /// Events are missing, and the subscription's policy allows no gap: no row follows.
    End {
        /// The reason.
        code: EndCode,
    },
}

impl StreamStart {
    /// The name of the header field with the position.
    pub const POSITION: &'static str = "thalweg-position";
    /// The name of the header field with the relation to the request's position.
    pub const RESUME: &'static str = "thalweg-resume";

    /// Returns names and values of the header fields.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, String)> {
        let resume = self.resume.map(|resume| {
            let value = match resume {
                Resume::Exact => "exact".to_owned(),
                Resume::Schema => "schema".to_owned(),
                Resume::Gap { missed: Some(missed), reason } => {
                    format!("gap; reason={}; missed={missed}", reason.name())
                }
                Resume::Gap { missed: None, reason } => format!("gap; reason={}", reason.name()),
                Resume::End { code } => format!("end; code={}", code.name()),
            };
            (Self::RESUME, value)
        });
        [(Self::POSITION, self.position.to_string())].into_iter().chain(resume)
    }
}
