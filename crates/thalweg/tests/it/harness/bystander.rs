//! A bystander: a well-behaved subscriber during an attack. It must miss no event, and its events must not
//! arrive much later than before.
//!
//! Time in which the server or the bystander could run but had no core does not count: other programs and
//! tests use the cores then.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_testing::{let_pass, stolen};

use super::{Raw, Server, receive};

/// The source of the bystander's topic, 100 events per second.
pub(crate) const TICKING: [&str; 2] = ["--source", "tick=dummy,interval=10ms"];

const INTERVAL: Duration = Duration::from_millis(10);

/// The number of events that show the latency without an attack.
const EVENTS_BEFORE: usize = 40;

/// The worst latency may be this many times the one before the attack. A pause for the disk of a busy machine is not among the time
/// without a core; a server that an attack stops is late by seconds, or by half of its events.
const WORSE_AT_MOST: u32 = 25;

/// A smaller latency than this always passes.
const LATENESS_FLOOR: Duration = Duration::from_millis(20);

struct Arrival {
    at: Instant,
    offset: u64,
    /// The time for which the threads of the server, and the bystander, have waited for a core so far.
    waited: Duration,
}

pub(crate) fn ticking(arguments: &[&str]) -> Server {
    Server::start(&[&TICKING, arguments].concat())
}

/// Returns the result of `attack`, after a bystander on another connection has not noticed it.
pub(crate) fn unharmed<T>(server: &Server, attack: impl FnOnce() -> T) -> T {
    unharmed_over(server, Raw::connect(server.address), attack)
}

/// Events of half a second: a pause of the machine is shorter than half of that.
const EVENTS_FOR_A_MEDIAN: usize = 50;

/// Does the same, with the bystander on this connection.
pub(crate) fn unharmed_over<T>(server: &Server, mut raw: Raw, attack: impl FnOnce() -> T) -> T {
    raw.ask("GET", "/v1/topics/tick", &[("Accept", "application/x-ndjson")], "");
    raw.until(b"\r\n\r\n", "the bystander's response head").expect("a response head");
    let (began, before_is_over) = channel();
    let until: Arc<Mutex<Option<Instant>>> = Arc::default();
    let bystander = {
        let (until, pid) = (Arc::clone(&until), server.pid.as_raw_pid());
        thread::spawn(move || watch(raw, pid, &began, &until))
    };
    receive(&before_is_over, "the bystander's first events").expect("a bystander that lives");
    let (from, is_over) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let sleeper = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || latest_wake_up(&is_over))
    };
    let stolen_before = stolen();
    let result = attack();
    is_over.store(true, Relaxed);
    *until.lock().expect("the end") = Some(Instant::now());
    let received = bystander.join().expect("a bystander that misses nothing");
    let oversleep = sleeper.join().expect("a sleeper");
    let (before, during): (Vec<_>, Vec<_>) =
        lateness(&received).into_iter().partition(|(at, _)| *at < from);
    let latest = |these: &[(Instant, Duration)]| {
        these.iter().map(|(_, late)| *late).max().expect("events before and during the attack")
    };
    let usual = latest(&before).max(oversleep).max(LATENESS_FLOOR);
    // The sleeper may not notice the time that a hypervisor takes from the server's core.
    let stolen = stolen().saturating_sub(stolen_before);
    let (late, allowed) = (latest(&during), usual * WORSE_AT_MOST + stolen);
    assert!(
        late <= allowed,
        "a bystander's event came {late:?} late, {usual:?} was usual, {stolen:?} were stolen"
    );
    // Sometimes the machine is late, perhaps for all of a short attack. A busy shard is late all the time.
    let mut during: Vec<Duration> = during.into_iter().map(|(_, late)| late).collect();
    during.sort_unstable();
    if during.len() >= EVENTS_FOR_A_MEDIAN {
        let late = during[during.len() / 2];
        // The limit is the worst latency before, and that of a sleeper meanwhile.
        assert!(
            late <= usual * 2,
            "half of a bystander's events came {late:?} late or more, {usual:?} was usual"
        );
    }
    result
}

/// Returns the events up to the first one that was due after the attack.
fn watch(
    mut raw: Raw,
    pid: i32,
    began: &Sender<()>,
    until: &Mutex<Option<Instant>>,
) -> Vec<Arrival> {
    let mut received: Vec<Arrival> = Vec::new();
    let mut next = None;
    loop {
        let envelope = raw.message("the bystander's next event");
        let at = Instant::now();
        if envelope.get("heartbeat").is_some() {
            continue;
        }
        assert!(envelope.get("events").is_some(), "a bystander is told only events: {envelope}");
        let first = envelope["first"].as_u64().expect("first");
        assert!(next.is_none_or(|next| next == first), "a bystander misses nothing: {envelope}");
        let events = envelope["events"].as_array().map_or(0, Vec::len) as u64;
        next = Some(first + events);
        let waited = waited_for_a_core(pid);
        received.extend((first..first + events).map(|offset| Arrival { at, offset, waited }));
        if received.len() >= EVENTS_BEFORE {
            let _ = began.send(());
        }
        // All events that were due during the attack have arrived before that one.
        let end = *until.lock().expect("the end");
        if let Some(end) = end
            && received.last().is_some_and(|last| start(&received) + after(&received, last) > end)
        {
            return received;
        }
    }
}

/// Returns when each event arrived and how late, without the time for which there was no core.
fn lateness(received: &[Arrival]) -> Vec<(Instant, Duration)> {
    let start = start(received);
    let mut before_due = 0;
    let late = received.iter().map(|event| {
        let due = start + after(received, event);
        while received[before_due + 1..].first().is_some_and(|next| next.at <= due) {
            before_due += 1;
        }
        let waited = event.waited.saturating_sub(received[before_due].waited);
        (event.at, (event.at - due).saturating_sub(waited))
    });
    late.collect()
}

/// Returns when the first event would have arrived without latency.
fn start(received: &[Arrival]) -> Instant {
    let start = received.iter().map(|event| event.at - after(received, event)).min();
    start.expect("an event")
}

/// Returns the time from the publishing of the first event to that of another.
fn after(received: &[Arrival], event: &Arrival) -> Duration {
    INTERVAL * (event.offset - received[0].offset) as u32
}

/// Returns how long the threads of a process, and this one, could run so far but had no core (Linux:
/// Documentation/scheduler/sched-stats.rst). It is zero where the kernel does not report it.
fn waited_for_a_core(pid: i32) -> Duration {
    let of_task = |path: &Path| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tasks = tasks.map(|task| task.path()).chain([PathBuf::from("/proc/thread-self")]);
    tasks.filter_map(|task| of_task(&task)).sum()
}

/// Returns the longest delay with which the machine wakes a sleeping thread.
fn latest_wake_up(is_over: &AtomicBool) -> Duration {
    let mut worst = Duration::ZERO;
    while !is_over.load(Relaxed) {
        let before = Instant::now();
        let_pass(INTERVAL);
        worst = worst.max(before.elapsed().saturating_sub(INTERVAL));
    }
    worst
}
