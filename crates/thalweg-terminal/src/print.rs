//! Output to a terminal. Unlike the macros of the standard library, it does not panic if the pipe is closed or the disk is full.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, Write as _};

/// Prints a line on stderr, if possible. The line may quote a server or a file, so control characters are escaped.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", printable(&line.to_string()));
}

/// Returns the text without effect on a terminal: control characters, except line breaks, and bidirectional ones become `\u001b`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts_on_terminals) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match acts_on_terminals(char) {
            true => drop(write!(out, "\\u{:04x}", u32::from(char))),
            false => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// Returns whether a terminal acts on the character instead of showing it.
fn acts_on_terminals(char: char) -> bool {
    let is_layout = matches!(char, '\n' | '\t');
    // Marks, embeddings, overrides and isolates of the bidirectional algorithm; separators of lines.
    let is_hidden = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (char.is_control() && !is_layout) || is_hidden
}

/// Prints a result on stdout. A reader that closes the pipe early, as `head` does, is no error.
///
/// # Errors
/// When it cannot be written for another reason.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_terminals_are_escaped() {
        let check = |text, expected| assert_eq!(printable(text), expected);
        check("one\n\ttwo, ü, 日本", "one\n\ttwo, ü, 日本");
        check("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007");
        check("\u{9b}2J\u{7f}\r", "\\u009b2J\\u007f\\u000d");
        check("\u{202e}txt.exe", "\\u202etxt.exe");
    }
}
