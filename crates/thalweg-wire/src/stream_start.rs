//! Where a stream of columns begins, as header fields of its response: rows have no place for it.

use crate::{EndCode, GapReason, Offset, Position};

/// Where a response begins that says so in its head. Specification: `docs/wire.md`, "Columns".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStart {
    /// The first row is the event after it.
    pub position: Position,
    /// How that is to the position that the request named; `None` if it named none.
    pub resume: Option<Resume>,
}

/// How a stream goes on where another one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Nothing is missing and the rows have the same schema, as far as is known.
    Exact,
    /// Nothing is missing. The rows from here on have another schema than those before.
    Schema,
    /// Events are missing.
    Gap {
        /// How many, where that can be known.
        missed: Option<Offset>,
        /// Why.
        reason: GapReason,
    },
    /// Events are missing, and the subscription's policy allows no gap: no row comes.
    End {
        /// Why.
        code: EndCode,
    },
}

impl StreamStart {
    /// The name of the field with the position.
    pub const POSITION: &'static str = "thalweg-position";
    /// The name of the field that says how the stream goes on.
    pub const RESUME: &'static str = "thalweg-resume";

    /// Names and values of the fields.
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
