//! Tests of what takes its time, on machines of which others take most.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use thalweg_lab::measure::stolen;

/// What fails while the machine is kept from its work is tried so often.
const ATTEMPTS: usize = 5;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Of a machine whose cores are its own nobody wakes up later than this, however busy
/// the tests keep it.
const LATE: Duration = Duration::from_millis(150);
/// A hypervisor that takes more than this of one core disturbs.
const STOLEN_MAX: f64 = 0.1;

/// Runs a test that needs some of the machine's time, and again if it fails while there
/// was none: another machine had the cores, or a quota was used up. What fails on an
/// undisturbed machine has failed.
pub(crate) fn undisturbed(test: impl Fn()) {
    for attempt in 1.. {
        let (begun, stolen_before) = (Instant::now(), stolen());
        let (end, ended) = channel();
        let watch = thread::spawn(move || latest(&ended));
        let outcome = panic::catch_unwind(AssertUnwindSafe(&test));
        drop(end);
        let late = watch.join().expect("a watch");
        let share = stolen().saturating_sub(stolen_before).div_duration_f64(begun.elapsed());
        let is_disturbed = late >= LATE || share > STOLEN_MAX;
        match outcome {
            Err(failure) if !is_disturbed || attempt == ATTEMPTS => panic::resume_unwind(failure),
            Err(_) => {
                eprintln!("tried again: the machine stood still, {late:?}, {share:.2} stolen");
            }
            Ok(()) => return,
        }
    }
}

/// By how much the latest of all wake-ups was late, until it is over.
fn latest(ended: &Receiver<()>) -> Duration {
    let mut latest = Duration::ZERO;
    loop {
        let begun = Instant::now();
        if ended.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return latest;
        }
        latest = latest.max(begun.elapsed().saturating_sub(LOOK_EVERY));
    }
}
