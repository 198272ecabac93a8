//! Ctrl-C: once, the run ends with its samples; twice, at once. The processes of the run end either way.

use crate::subject;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use thalweg_terminal::say;

/// Exit code of a program that ended by SIGINT, as in a shell.
pub const INTERRUPTED: u8 = 130;

/// Listens from now on. Returns the flag that tells the run to end.
pub(super) fn listen() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let (mut signals, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    let flag = Arc::clone(&interrupted);
    // A byte for each signal; the thread sleeps in the kernel until then.
    thread::spawn(move || {
        let mut byte = [0];
        while signals.read_exact(&mut byte).is_ok() {
            if flag.swap(true, Ordering::Relaxed) {
                subject::kill_all();
                say("\nEnded at once; what was measured before is in the run's folder.");
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    });
    Ok(interrupted)
}
