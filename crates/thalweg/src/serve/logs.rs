//! Logs on stderr. A line that cannot be written is lost, and nothing else is: not with
//! stderr closed, not on a full disk, and nobody waits for a pipe that is not read.

use std::io::{self, IsTerminal, Stderr, Write, stderr};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::PIPE_BUF,
};

use super::values::{Level, LogFormat};

/// Logs from now on.
pub(super) fn begin(level: Level, format: LogFormat) {
    let level = match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
    };
    let logs = tracing_subscriber::fmt().with_max_level(level).with_writer(|| Lossy(stderr()));
    match format {
        LogFormat::Text => logs.with_ansi(is_coloured()).init(),
        LogFormat::Json => logs.json().init(),
    }
}

/// Whether stderr is a terminal whose user has not asked for text without colours (<https://no-color.org>).
fn is_coloured() -> bool {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let is_capable = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    stderr().is_terminal() && is_wanted && is_capable
}

/// Takes everything, and writes what can be written at once.
struct Lossy(Stderr);

impl Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // So much does not wait where anything can be written (pipe(7)).
        for piece in bytes.chunks(PIPE_BUF) {
            let mut stderr = self.0.lock();
            let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
            let is_ready = poll(&mut ready, Some(&Timespec::default())) == Ok(1);
            if !is_ready || stderr.write_all(piece).is_err() {
                break;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
