//! A bystander: a subscriber that does no harm while others do. It must miss no event, and its
//! events must not come much later than before.
//!
//! Time for which the server or the bystander could run and had no core does not count: other
//! programs, and other tests, have the cores then.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_lab::measure::stolen;
use thalweg_testing::let_pass;

use super::{Raw, Server, receive};

/// What feeds the bystander's topic, 100 times a second.
pub(crate) const TICKING: [&str; 2] = ["--source", "tick=dummy,interval=10ms"];

/// From event to event.
const INTERVAL: Duration = Duration::from_millis(10);

/// Events that show how late they come without an attack.
const EVENTS_BEFORE: usize = 40;

/// How much later than before the worst may come.
const WORSE_AT_MOST: u32 = 10;

/// Less than this is not late.
const LATENESS_FLOOR: Duration = Duration::from_millis(20);

/// An event that the bystander has received.
struct Heard {
    at: Instant,
    offset: u64,
    /// How long the threads of the server, and the bystander, have waited for a core so far.
    waited: Duration,
}

/// A server with a ticking topic.
pub(crate) fn ticking(arguments: &[&str]) -> Server {
    Server::start(&[&TICKING, arguments].concat())
}

/// What `attack` returns, after a bystander on another connection has seen no harm
/// from it.
pub(crate) fn unharmed<T>(server: &Server, attack: impl FnOnce() -> T) -> T {
    unharmed_over(server, Raw::connect(server.address), attack)
}

/// Events of half a second: a pause of the machine is shorter than half of that.
const EVENTS_FOR_A_MEDIAN: usize = 50;

/// The same, with the bystander on this connection.
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
    let heard = bystander.join().expect("a bystander that misses nothing");
    let oversleep = sleeper.join().expect("a sleeper");
    let (before, during): (Vec<_>, Vec<_>) =
        lateness(&heard).into_iter().partition(|(at, _)| *at < from);
    let latest = |these: &[(Instant, Duration)]| {
        these.iter().map(|(_, late)| *late).max().expect("events before and during the attack")
    };
    let usual = latest(&before).max(oversleep).max(LATENESS_FLOOR);
    // What a hypervisor takes of the server's core the sleeper need not see on its own.
    let stolen = stolen().saturating_sub(stolen_before);
    let (late, allowed) = (latest(&during), usual * WORSE_AT_MOST + stolen);
    assert!(
        late <= allowed,
        "a bystander's event came {late:?} late, {usual:?} was usual, {stolen:?} were stolen"
    );
    // Now and then the machine is late, for all of a short attack perhaps; a shard that is
    // kept busy is late all the time.
    let mut during: Vec<Duration> = during.into_iter().map(|(_, late)| late).collect();
    during.sort_unstable();
    if during.len() >= EVENTS_FOR_A_MEDIAN {
        let late = during[during.len() / 2];
        // The worst of before, and of what the machine does to a sleeper meanwhile.
        assert!(
            late <= usual * 2,
            "half of a bystander's events came {late:?} late or more, {usual:?} was usual"
        );
    }
    result
}

/// Returns the events that came until one did that was due after the attack.
fn watch(mut raw: Raw, pid: i32, began: &Sender<()>, until: &Mutex<Option<Instant>>) -> Vec<Heard> {
    let mut heard: Vec<Heard> = Vec::new();
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
        heard.extend((first..first + events).map(|offset| Heard { at, offset, waited }));
        if heard.len() >= EVENTS_BEFORE {
            let _ = began.send(());
        }
        // All events that were due in the attack came before the one that was due after it.
        let end = *until.lock().expect("the end");
        if let Some(end) = end
            && heard.last().is_some_and(|last| start(&heard) + after(&heard, last) > end)
        {
            return heard;
        }
    }
}

/// Returns when each event came and how late that was, without the time for which there was no
/// core.
fn lateness(heard: &[Heard]) -> Vec<(Instant, Duration)> {
    let start = start(heard);
    let mut before_due = 0;
    let late = heard.iter().map(|event| {
        let due = start + after(heard, event);
        while heard[before_due + 1..].first().is_some_and(|next| next.at <= due) {
            before_due += 1;
        }
        let waited = event.waited.saturating_sub(heard[before_due].waited);
        (event.at, (event.at - due).saturating_sub(waited))
    });
    late.collect()
}

/// Returns when the first event would have come, were it as early as the earliest.
fn start(heard: &[Heard]) -> Instant {
    let start = heard.iter().map(|event| event.at - after(heard, event)).min();
    start.expect("an event")
}

/// Returns how long after the first event another is published.
fn after(heard: &[Heard], event: &Heard) -> Duration {
    INTERVAL * (event.offset - heard[0].offset) as u32
}

/// Returns how long the threads of a process, and this one, could run so far and had no core
/// (Linux: Documentation/scheduler/sched-stats.rst); zero where the kernel does not tell.
fn waited_for_a_core(pid: i32) -> Duration {
    let of_task = |path: &Path| {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tasks = tasks.map(|task| task.path()).chain([PathBuf::from("/proc/thread-self")]);
    tasks.filter_map(|task| of_task(&task)).sum()
}

/// How late the machine wakes someone who only sleeps, at worst.
fn latest_wake_up(is_over: &AtomicBool) -> Duration {
    let mut worst = Duration::ZERO;
    while !is_over.load(Relaxed) {
        let before = Instant::now();
        let_pass(INTERVAL);
        worst = worst.max(before.elapsed().saturating_sub(INTERVAL));
    }
    worst
}
