//! A node that gets a two-hundredth of the CPU while its stream continues: its memory, its metrics, and
//! whether its subscriber has all events in the end, or a gap.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{PATIENCE, http::Subscriber, nats::Nats, nodes::Node, servers::Servers};

const MAX_HISTORY_BYTES: u64 = 64 << 20;
const EVENTS_PER_MESSAGE: u64 = 100;
const MESSAGES_PER_S: u64 = 2000;
const EVENT_BYTES: usize = 128;
/// The node runs for this time, and then stops for the other.
const RUNS: Duration = Duration::from_millis(5);
const STANDS: Duration = Duration::from_millis(995);
const SAMPLE_EVERY: Duration = Duration::from_millis(250);

pub(crate) fn run(seconds: u64) -> Option<Value> {
    let servers = Servers::start(1)?;
    let history = format!("limits.history-bytes={MAX_HISTORY_BYTES}");
    let node = Node::start(&servers, &["--set", &history]);
    let mut subscriber = Subscriber::open(node.address, "/cars").expect("a node");
    subscriber.envelope().expect("a confirmation");
    let (is_over, published) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let publisher = {
        let (is_over, published, url) =
            (Arc::clone(&is_over), Arc::clone(&published), servers.urls()[0].clone());
        thread::spawn(move || publish(&url, &is_over, &published))
    };
    let reader = thread::spawn(move || read(&mut subscriber));
    let begun = Instant::now();
    let mut samples = Vec::new();
    let mut take = |phase: &str, sampled: &mut Instant| {
        if sampled.elapsed() < SAMPLE_EVERY {
            return None;
        }
        *sampled = Instant::now();
        let (ready, lag) = (node.readiness(), node.metric("thalweg_nats_lag"));
        samples.push(json!({
            "at_ms": begun.elapsed().as_millis() as u64, "phase": phase,
            "rss_bytes": node.rss_bytes(), "readyz": ready, "lag": lag,
            "published": published.load(Relaxed),
        }));
        Some((ready, lag))
    };
    let mut sampled = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        thread::sleep(RUNS);
        take("free", &mut sampled);
    }
    // Requests to the throttled node take its CPU, so other threads send them.
    let throttle = Arc::new(AtomicBool::new(true));
    let mut was_unready = false;
    thread::scope(|scope| {
        let (throttle, node) = (Arc::clone(&throttle), &node);
        let throttling = Arc::clone(&throttle);
        scope.spawn(move || {
            while throttling.load(Relaxed) {
                node.freeze(true);
                thread::sleep(STANDS);
                node.freeze(false);
                thread::sleep(RUNS);
            }
        });
        let until = begun.elapsed() + Duration::from_secs(seconds);
        while begun.elapsed() < until {
            if let Some((ready, _)) = take("throttled", &mut sampled) {
                was_unready |= ready == 503;
            }
            thread::sleep(RUNS);
        }
        throttle.store(false, Relaxed);
    });
    let released = Instant::now();
    let caught_up = loop {
        match take("released", &mut sampled) {
            Some((200, Some(lag))) if lag < 100.0 => break Some(released.elapsed().as_millis()),
            _ if released.elapsed() > PATIENCE => break None,
            _ => thread::sleep(RUNS),
        }
    };
    is_over.store(true, Relaxed);
    publisher.join().expect("a publisher");
    let (received, missing, gaps) = reader.join().expect("a subscriber");
    let published = published.load(Relaxed);
    let rss_max = samples.iter().filter_map(|sample| sample["rss_bytes"].as_u64()).max();
    Some(json!({
        "what": "a node runs for 5 ms of each second while its stream goes on",
        "max_history_bytes": MAX_HISTORY_BYTES,
        "events_per_s": MESSAGES_PER_S * EVENTS_PER_MESSAGE,
        "event_bytes": EVENT_BYTES,
        "was_not_ready": was_unready,
        "caught_up_after_ms": caught_up.map(|ms| ms as u64),
        "rss_bytes_max": rss_max,
        "published": published, "received": received,
        "missing_without_a_gap": missing, "gaps": gaps,
        "samples": samples,
    }))
}

fn publish(url: &str, is_over: &AtomicBool, published: &AtomicU64) {
    let mut nats = Nats::open(url).expect("NATS");
    let (begun, mut sent, mut number) = (Instant::now(), 0, 0);
    let pad = "x".repeat(EVENT_BYTES - 28);
    loop {
        let is_last = is_over.load(Relaxed);
        let due = begun.elapsed().as_micros() as u64 * MESSAGES_PER_S / 1_000_000;
        while sent < due {
            let event = |number: u64| format!("{{\"n\":{number},\"pad\":\"{pad}\"}}");
            let lines: Vec<String> =
                (number + 1..=number + EVENTS_PER_MESSAGE).map(event).collect();
            nats.publish("cars", &lines.join("\n")).expect("NATS");
            (sent, number) = (sent + 1, number + EVENTS_PER_MESSAGE);
        }
        if is_last {
            // A subscriber with this event has all.
            nats.publish("cars", "{\"n\":0}").expect("NATS");
            nats.settle(0).expect("NATS");
            published.store(number, Relaxed);
            return;
        }
        nats.settle(u64::MAX).expect("NATS");
        published.store(number, Relaxed);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number of events, of events that are missing without a gap, and of gaps.
fn read(subscriber: &mut Subscriber) -> (u64, u64, u64) {
    let (mut received, mut missing, mut gaps, mut last, mut may_jump) = (0, 0, 0, 0, false);
    loop {
        let envelope = subscriber.envelope().expect("an envelope");
        if envelope.contains("\"gap\":{") {
            (gaps, may_jump) = (gaps + 1, true);
            continue;
        }
        for event in envelope.split("{\"n\":").skip(1) {
            let end = event.find(|c: char| !c.is_ascii_digit()).expect("an end");
            let number: u64 = event[..end].parse().expect("a number");
            if number == 0 {
                return (received, missing, gaps);
            }
            if !std::mem::take(&mut may_jump) {
                missing += number.abs_diff(last + 1);
            }
            (received, last) = (received + 1, number);
        }
    }
}
