//! Someone who subscribes and does no harm while others do. Nothing may be missing
//! for it, and nothing may come much later than it did before.

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

/// What is late by less is not late: what a busy machine does to anybody.
const LATENESS_FLOOR: Duration = Duration::from_millis(20);

/// A server with a ticking topic.
pub(crate) fn ticking(arguments: &[&str]) -> Server {
    Server::start(&[&TICKING, arguments].concat())
}

/// What `attack` returns, after a bystander on another connection has seen no harm
/// from it.
pub(crate) fn unharmed<T>(server: &Server, attack: impl FnOnce() -> T) -> T {
    unharmed_over(Raw::connect(server.address), attack)
}

/// Events of half a second: a pause of the machine is shorter than half of that.
const EVENTS_FOR_A_MEDIAN: usize = 50;

/// The same, with the bystander on this connection.
pub(crate) fn unharmed_over<T>(mut raw: Raw, attack: impl FnOnce() -> T) -> T {
    raw.ask("GET", "/v1/topics/tick", &[("Accept", "application/x-ndjson")], "");
    raw.until(b"\r\n\r\n", "the bystander's response head").expect("a response head");
    let (began, before_is_over) = channel();
    let until: Arc<Mutex<Option<Instant>>> = Arc::default();
    let bystander = {
        let until = Arc::clone(&until);
        thread::spawn(move || watch(raw, &began, &until))
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
    let worst = |during: bool| {
        let these = heard.iter().filter(|(at, _)| (*at >= from) == during);
        these.map(|(_, late)| *late).max().expect("events before and during the attack")
    };
    let usual = worst(false).max(oversleep).max(LATENESS_FLOOR);
    // What a hypervisor takes of the server's core the sleeper need not see on its own.
    let stolen = stolen().saturating_sub(stolen_before);
    let (late, allowed) = (worst(true), usual * WORSE_AT_MOST + stolen);
    assert!(
        late <= allowed,
        "a bystander's event came {late:?} late, {usual:?} was usual, {stolen:?} were stolen"
    );
    // Now and then the machine is late, for all of a short attack perhaps; a shard that is
    // kept busy is late all the time.
    let during = heard.iter().filter(|(at, _)| *at >= from);
    let mut during: Vec<Duration> = during.map(|(_, late)| *late).collect();
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

/// When each event came, and how late that was: against the earliest of all.
fn watch(
    mut raw: Raw,
    began: &Sender<()>,
    until: &Mutex<Option<Instant>>,
) -> Vec<(Instant, Duration)> {
    let mut heard: Vec<(Instant, u64)> = Vec::new();
    let mut next = None;
    loop {
        let envelope = raw.message("the bystander's next event");
        let now = Instant::now();
        if envelope.get("heartbeat").is_some() {
            continue;
        }
        assert!(envelope.get("events").is_some(), "a bystander is told only events: {envelope}");
        let first = envelope["first"].as_u64().expect("first");
        assert!(next.is_none_or(|next| next == first), "a bystander misses nothing: {envelope}");
        let events = envelope["events"].as_array().map_or(0, Vec::len) as u64;
        next = Some(first + events);
        heard.extend((first..first + events).map(|offset| (now, offset)));
        if heard.len() >= EVENTS_BEFORE {
            let _ = began.send(());
        }
        // One that was due after the attack has come: all that were due in it have.
        let end = *until.lock().expect("the end");
        if let Some(end) = end
            && heard.last().is_some_and(|(_, offset)| due(&heard, *offset) > end)
        {
            return heard.iter().map(|(at, o)| (*at, *at - due(&heard, *o))).collect();
        }
    }
}

/// When an event would have come, were it as early as the earliest.
fn due(heard: &[(Instant, u64)], offset: u64) -> Instant {
    let first = heard[0].1;
    let after = |offset: u64| INTERVAL * (offset - first) as u32;
    let start = heard.iter().map(|(at, offset)| *at - after(*offset)).min();
    start.expect("an event") + after(offset)
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
