//! The lines of stdin, with their numbers.

use std::io::{BufRead, BufReader, Read, Stdin, stdin};

use anyhow::{Context, bail};
use bytes::Bytes;
use thalweg_client::text_event;

/// The longest line, above any likely limit of a server. Without a limit a file without line breaks would fill the memory.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// The size at which a piece is sent, even if more lines are available.
const PIECE_BYTES: usize = 64 << 10;

pub(super) struct Lines<R> {
    input: BufReader<R>,
    number: u64,
}

impl Lines<Stdin> {
    pub(super) fn from_stdin() -> Self {
        Self::new(stdin())
    }
}

impl<R: Read> Lines<R> {
    fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(PIECE_BYTES, input), number: 0 }
    }

    /// Returns the next line without its line break, and its number from 1.
    pub(super) fn next(&mut self) -> Option<anyhow::Result<(u64, Bytes)>> {
        self.number += 1;
        let mut line = Vec::new();
        let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        match read.context("stdin cannot be read; check the command that writes to it") {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        } else if line.len() as u64 == LINE_BYTES_MAX {
            return Some(self.too_long());
        }
        Some(Ok((self.number, line.into())))
    }

    /// Returns whole lines as NDJSON: all that have been read already, or the next one.
    pub(super) fn piece(&mut self, is_text: bool) -> Option<anyhow::Result<Bytes>> {
        let mut piece = Vec::new();
        loop {
            match self.next() {
                None => break,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok((number, line))) if is_text => match std::str::from_utf8(&line) {
                    Ok(text) => piece.extend_from_slice(text_event(text).as_bytes()),
                    Err(_) => {
                        return Some(Err(anyhow::anyhow!(
                            "line {number} is not UTF-8; convert it first"
                        )));
                    }
                },
                Some(Ok((_, line))) => piece.extend_from_slice(&line),
            }
            piece.push(b'\n');
            if piece.len() >= PIECE_BYTES || !self.input.buffer().contains(&b'\n') {
                break;
            }
        }
        (!piece.is_empty()).then(|| Ok(piece.into()))
    }

    fn too_long<T>(&self) -> anyhow::Result<T> {
        let mib = LINE_BYTES_MAX >> 20;
        bail!("line {} is longer than {mib} MiB; write each event on its own line", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_numbers_and_no_ends() {
        let mut lines = Lines::new(&b"1\r\n\n three \nlast"[..]);
        let lines: Vec<_> = std::iter::from_fn(|| lines.next()).map(Result::unwrap).collect();
        let expected = [(1, "1"), (2, ""), (3, " three "), (4, "last")];
        assert_eq!(lines, expected.map(|(number, line)| (number, Bytes::from(line))));
    }

    #[test]
    fn a_piece_has_the_lines_that_are_available() {
        let check = |input: &str, is_text, expected: &[&str]| {
            let mut lines = Lines::new(input.as_bytes());
            let pieces = std::iter::from_fn(|| lines.piece(is_text));
            let pieces: Vec<_> = pieces.map(|piece| piece.unwrap()).collect();
            assert_eq!(
                pieces,
                expected.iter().map(|p| Bytes::from(p.to_string())).collect::<Vec<_>>()
            );
        };
        check("1\n2\n", false, &["1\n2\n"]);
        check("1\n\n2", false, &["1\n\n", "2\n"]);
        check("a \"b\"\n\n", true, &["\"a \\\"b\\\"\"\n\"\"\n"]);
        check("", false, &[]);
    }

    #[test]
    fn an_error_names_the_line_that_is_not_utf_8() {
        let mut lines = Lines::new(&b"good\n\xff\n"[..]);
        let error = lines.piece(true).map(|piece| piece.unwrap_err().to_string());
        assert_eq!(error.as_deref(), Some("line 2 is not UTF-8; convert it first"));
    }
}
