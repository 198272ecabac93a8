//! What is printed. A closed pipe or a full disk ends nothing: the
//! macros of the standard library panic then.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Says a line on stderr, where that can be.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a result on stdout. Its reader may have read enough, as `head` does.
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
