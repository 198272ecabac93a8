//! Ctrl-C: once, the run ends with what it has; twice, at once. Whatever runs for
//! it is ended either way.

use super::say;
use crate::subject;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What a shell calls a program that ended by SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Whether the run shall end.
#[derive(Debug)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub(super) fn listen() -> anyhow::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        let (mut heard, told) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            pipe::register(signal, told.try_clone()?)?;
        }
        let flag = Arc::clone(&asked);
        // A byte for each signal; the thread sleeps in the kernel until then.
        thread::spawn(move || {
            let mut byte = [0];
            while heard.read_exact(&mut byte).is_ok() {
                if flag.swap(true, Ordering::Relaxed) {
                    subject::kill_all();
                    say("\nEnded at once; what was measured before is in the run's folder.");
                    std::process::exit(i32::from(INTERRUPTED));
                }
            }
        });
        Ok(Interrupt(asked))
    }

    pub(super) fn flag(&self) -> &AtomicBool {
        &self.0
    }
}
