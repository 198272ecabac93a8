//! Posted events: one event in a body, or lines as they arrive.

use memchr::{memchr, memrchr};
use thalweg_core::stream::Payloads;
use thalweg_wire::event::{self, EventError};

use super::EventKeys;
use crate::refusal::Refusal;

/// The form of events in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// One JSON value.
    Json,
    /// One text.
    Text,
    /// One JSON value per line.
    Lines,
}

impl BodyKind {
    /// Returns the kind for a `Content-Type`. An unknown one means JSON, because `curl -d` declares everything a form.
    pub(crate) fn from_content_type(content_type: Option<&str>) -> Self {
        let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        let is = |name| essence.trim().eq_ignore_ascii_case(name);
        if is("application/x-ndjson") || is("application/jsonl") {
            Self::Lines
        } else if is("text/plain") {
            Self::Text
        } else {
            Self::Json
        }
    }
}

/// Parses a whole body with one event of at most `bytes_max`. Fails if the event is not valid.
pub(crate) fn one(
    kind: BodyKind,
    body: &[u8],
    bytes_max: usize,
    keys: &EventKeys,
) -> Result<Payloads, Refusal> {
    let mut payloads = Payloads::default();
    payloads.push(|out| match kind {
        BodyKind::Text => event::push_text(body, bytes_max, out),
        _ => event::push_json(body, bytes_max, out),
    })?;
    keys.give(&mut payloads)?;
    Ok(payloads)
}

/// Splits a body into lines while it is read, and keeps the unfinished line.
pub(crate) struct Lines {
    unfinished: Vec<u8>,
    /// Number of the last finished line.
    pub(crate) number: u64,
    event_bytes_max: usize,
    keys: EventKeys,
}

impl Lines {
    /// Returns a reader of lines of at most `event_bytes_max` bytes, whose events get their keys from `keys`.
    pub(crate) fn new(event_bytes_max: usize, keys: EventKeys) -> Self {
        Self { unfinished: Vec::new(), number: 0, event_bytes_max, keys }
    }

    /// Returns the memory of the unfinished line; 0 without one.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.unfinished.capacity()
    }

    /// Appends the events of the lines that `chunk` finishes. Fails at the first invalid line. The events before it are in `out`.
    pub(crate) fn read(&mut self, chunk: &[u8], out: &mut Payloads) -> Result<(), Refusal> {
        // Reserves all room at once: repeated doubling would exceed the memory that the allocator keeps, so that each
        // piece would fetch its memory from the system.
        if let Some(last) = memrchr(b'\n', chunk) {
            out.reserve(self.unfinished.len() + last, 0);
        }
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if self.unfinished.is_empty() {
                self.line(line, out)?;
            } else {
                self.unfinished.extend_from_slice(line);
                let line = std::mem::take(&mut self.unfinished);
                self.line(&line, out)?;
            }
        }
        if self.unfinished.len() + rest.len() > self.event_bytes_max + 1 {
            let error = EventError::TooLarge(self.event_bytes_max);
            return Err(in_line(self.number + 1, &error));
        }
        self.unfinished.extend_from_slice(rest);
        Ok(())
    }

    /// Appends the event of a last line without a line break. Fails if the event is not valid.
    pub(crate) fn finish(&mut self, out: &mut Payloads) -> Result<(), Refusal> {
        let line = std::mem::take(&mut self.unfinished);
        self.line(&line, out)
    }

    fn line(&mut self, line: &[u8], out: &mut Payloads) -> Result<(), Refusal> {
        self.number += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        out.push(|bytes| event::push_json(line, self.event_bytes_max, bytes))
            .map_err(|error| in_line(self.number, &error))?;
        let number = self.number;
        self.keys.give(out).map_err(|error| {
            let Refusal { code, message, .. } = error.into();
            Refusal::new(code, format!("line {number}: {message}"))
        })
    }
}

fn in_line(number: u64, error: &EventError) -> Refusal {
    Refusal::new(error.code(), format!("line {number}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&str]) -> (Vec<String>, Result<(), String>) {
        let (mut lines, mut out) = (Lines::new(1000, EventKeys::None), Payloads::default());
        let mut read = || {
            for chunk in chunks {
                lines.read(chunk.as_bytes(), &mut out)?;
            }
            lines.finish(&mut out)
        };
        let result = read().map_err(|refused: Refusal| refused.message);
        (out.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect(), result)
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let whole = read(&["1\n{ \"a\": 2 }\r\n\n\"x\""]);
        assert_eq!(whole, (vec!["1".into(), "{\"a\":2}".into(), "\"x\"".into()], Ok(())));
        assert_eq!(read(&["1", "\n{ \"a\"", ": 2 }\r", "\n\n\"", "x\""]), whole);
    }

    #[test]
    fn a_bad_line_is_named_and_those_before_it_stay() {
        let (events, result) = read(&["1\n\n{oops\n4\n"]);
        assert_eq!(events, ["1"]);
        assert!(result.unwrap_err().starts_with("line 3: not a JSON value"));
    }

    #[test]
    fn an_endless_line_is_refused_before_it_ends() {
        let endless = "1".repeat(1002);
        assert!(read(&[&endless]).1.is_err());
    }
}
