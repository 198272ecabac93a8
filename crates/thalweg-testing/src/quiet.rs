//! Tests that need a quiet machine.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;

use crate::{patience::share, skipped};

/// Attempts for a test that fails on a disturbed machine.
const ATTEMPTS: usize = 8;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// On an undisturbed machine no thread wakes up later than this, however busy the tests keep it.
const LATE: Duration = Duration::from_millis(150);
/// A machine is disturbed if its hypervisor takes more than this of one core.
const STOLEN_MAX: f64 = 0.1;
/// Threads are disturbed if they get less than this of a core, on average.
const SHARE_MIN: f64 = 0.6;

/// Runs a test that needs a quiet machine. A test that fails while other programs, or another machine, have the cores
/// is repeated and, in the end, skipped. A failure on an undisturbed machine is a failure. Such tests run one at a time.
pub fn undisturbed(test: impl Fn()) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for attempt in 1.. {
        let (begun, stolen_before) = (Instant::now(), stolen());
        let (end, ended) = channel();
        let watch = thread::spawn(move || watch(&ended));
        let outcome = panic::catch_unwind(AssertUnwindSafe(&test));
        drop(end);
        let seen = watch.join().expect("a watch");
        let stolen = stolen().saturating_sub(stolen_before).div_duration_f64(begun.elapsed());
        let is_disturbed = seen.late >= LATE || seen.share < SHARE_MIN || stolen > STOLEN_MAX;
        match outcome {
            Ok(()) => return,
            Err(failure) if !is_disturbed => panic::resume_unwind(failure),
            Err(_) if attempt == ATTEMPTS => {
                let test = thread::current().name().unwrap_or("a test").to_owned();
                return skipped(&format!("{test} needs a quiet machine"));
            }
            Err(_) => eprintln!("repeated on a disturbed machine: {seen:?}, {stolen:.2} stolen"),
        }
    }
}

#[derive(Debug)]
struct Seen {
    /// The longest delay of a wake-up.
    late: Duration,
    /// The average share of a core.
    share: f64,
}

/// Observes the machine until the test has ended.
fn watch(ended: &Receiver<()>) -> Seen {
    let (mut late, mut shares, mut looks) = (Duration::ZERO, 0.0, 0_u32);
    loop {
        let begun = Instant::now();
        if ended.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            return Seen { late, share: if looks == 0 { 1.0 } else { shares / f64::from(looks) } };
        }
        late = late.max(begun.elapsed().saturating_sub(LOOK_EVERY));
        shares += share();
        looks += 1;
    }
}

/// Returns the time that the hypervisor has taken of all cores (`proc_stat(5)`).
pub fn stolen() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    Duration::from_secs_f64(ticks.unwrap_or(0) as f64 / clock_ticks_per_second() as f64)
}
