//! Streams, hot tails, fan-out and subscribers under faults, in virtual time.
//!
//! ```text
//! conditions   what kind of world a seed makes
//! world        its clock: what happens at each step, and how it ends
//! surroundings everything in a world that is not a client
//! documents    what a value topic's publishers publish
//! published    a topic as its publishers know it, sealed into batches
//! shard        the logs that subscribers read, other shards' copies included
//! retained     what a log must retain, and how a subscription must begin
//! client       connects, stalls, goes away, comes back where it was
//! acks         when a peer acks, and how well
//! connection   a subscriber, its socket, and who reads at the other end
//! socket       takes as much as it likes, or nothing
//! deframe      frames taken apart by means of their own
//! chunks       those that are in chunks
//! columns      streams of columns, read by Arrow's own reader
//! column_frames  how often their frames are made
//! inflate      compressed ones, each by itself
//! ids          how often several topics' cursors are named
//! oracle       what a connection may hear next;  reading: one subscription;  rest: what it must have heard
//! windows      how far a subscription may be ahead of its acks
//! tally        what happened, so that nothing is missed silently
//! ```
//!
//! Whoever subscribes gets every event exactly once and in order, or is told
//! exactly how many it will not get; whatever sockets, peers and time do.

mod acks;
mod chunks;
mod client;
mod column_frames;
mod columns;
mod conditions;
mod connection;
mod deframe;
mod documents;
mod ids;
mod inflate;
mod oracle;
mod published;
mod reading;
mod retained;
mod shard;
mod socket;
mod surroundings;
mod tally;
mod windows;
mod world;

use std::{
    env,
    io::{Write, stderr},
    panic, process,
    str::FromStr,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
};

use tally::{Situation, Tally};
use thalweg_testing::try_receive;

/// Worlds in one run, unless `THALWEG_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 3500;

/// So many worlds reach every situation.
const SEEDS_FOR_EVERYTHING: u64 = 500;

#[test]
fn every_event_once_and_in_order_or_an_announced_gap() {
    if let Some(seed) = number("THALWEG_SIM_SEED") {
        println!("{:?}", world::run(seed, true));
        return;
    }
    let seeds = number("THALWEG_SIM_SEEDS").unwrap_or(SEEDS);
    let (begin, begun) = channel();
    thread::spawn(move || watch(&begun));
    let mut sum = Tally::default();
    for seed in 0..seeds {
        begin.send(seed).expect("someone watches");
        match panic::catch_unwind(|| world::run(seed, false)) {
            Ok(tally) => sum.add(&tally),
            Err(failure) => {
                say_how_to_replay(seed, "failed");
                panic::resume_unwind(failure);
            }
        }
    }
    println!("{seeds} worlds: {sum:?}");
    if seeds >= SEEDS_FOR_EVERYTHING {
        let missed = Situation::ALL.into_iter().find(|situation| sum.of(*situation) == 0);
        assert_eq!(missed, None, "never happened");
    }
}

#[test]
fn a_seed_always_makes_the_same_run() {
    for seed in 0..20 {
        assert_eq!(world::run(seed, false), world::run(seed, false), "seed {seed}");
    }
}

/// A world that never ends cannot fail by itself.
fn watch(begun: &Receiver<u64>) {
    let mut seed = None;
    loop {
        match try_receive(begun) {
            Ok(next) => seed = Some(next),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                say_how_to_replay(seed.unwrap_or_default(), "does not end");
                process::abort();
            }
        }
    }
}

/// Past the test harness, which would keep it to itself in case of an abort.
fn say_how_to_replay(seed: u64, what: &str) {
    let said = writeln!(
        stderr(),
        "seed {seed} {what}; replay it with\n  THALWEG_SIM_SEED={seed} \
         cargo test -p thalweg-core --test it simulation -- --nocapture"
    );
    said.expect("stderr can be written to");
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    env::var(variable).ok()?.parse().ok()
}
