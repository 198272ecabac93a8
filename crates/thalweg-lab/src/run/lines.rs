//! Files with one JSON value on each line, such as a run's samples.

use super::files::read;
use anyhow::Context;
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::path::Path;

pub(super) struct Lines<T> {
    pub(super) values: Vec<T>,
    /// Set if its last line was cut off.
    pub(super) remark: Option<String>,
}

impl<T: DeserializeOwned> Lines<T> {
    /// Reads the file, compressed or not; no lines if there is none.
    pub(super) fn read(folder: &Path, name: &str) -> anyhow::Result<Lines<T>> {
        let path = folder.join(name);
        let text = match read(folder, name) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("{} cannot be read", path.display()));
            }
        };
        Lines::parse(&text).with_context(|| path.display().to_string()).map(|mut lines| {
            if lines.remark.is_some() {
                lines.remark = Some(format!(
                    "the last line of {name} is half-written, as when a run is killed: left out"
                ));
            }
            lines
        })
    }

    fn parse(text: &[u8]) -> anyhow::Result<Lines<T>> {
        let whole = whole_lines(text);
        let mut values = Vec::new();
        for (number, line) in (1..).zip(text[..whole].split(|byte| *byte == b'\n')) {
            if !line.is_empty() {
                let value = serde_json::from_slice(line);
                values.push(value.with_context(|| format!("line {number}"))?);
            }
        }
        let remark = (whole < text.len()).then(String::new);
        Ok(Lines { values, remark })
    }
}

/// Returns the length of the whole lines. Each line is written in one piece with its end, so a rest was cut off.
pub(super) fn whole_lines(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}
