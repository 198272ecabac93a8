//! Logs on stderr. A line that cannot be written at once is lost: the server neither waits for a slow reader nor fails
//! if stderr is closed or the disk is full.

use std::io::{self, IsTerminal, Stderr, Write, stderr};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::PIPE_BUF,
};

use super::values::{Level, LogFormat};

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

/// Returns whether stderr is a terminal with colours, and `NO_COLOR` is not set (<https://no-color.org>).
fn is_coloured() -> bool {
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let is_capable = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    stderr().is_terminal() && is_wanted && is_capable
}

/// A writer that accepts everything, and writes as much as it can without waiting.
struct Lossy(Stderr);

impl Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A write of this size does not block if the pipe has any room (pipe(7)).
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
