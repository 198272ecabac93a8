//! Streams, hot tails, fan-out and subscribers under faults, in virtual time.
//!
//! ```text
//! conditions   the conditions of a seed's world
//! world        its clock and its steps
//! surroundings the parts of a world that are not clients
//! documents    documents of a value's publishers
//! keyed_events the keys of a keyed topic's events
//! published    a topic as its publishers know it, sealed into batches
//! shard        the feeds that subscribers read, followers' copies included
//! plain_log    the tests' own kind of feed
//! retained     a model of a log's history
//! client       connects, stalls, disconnects, resumes
//! acks         the acks of a peer
//! connection   a subscriber, its socket, and the reader at the other end
//! socket       takes as much as it likes, or nothing
//! deframe      takes frames apart;  chunks, inflate: chunked and compressed ones
//! columns      streams of columns, read by Arrow's own reader
//! column_frames  how often their frames are made
//! ids          how often several topics' cursors are named
//! oracle       the frames that may come next;  rest: that must have come
//! reading      the frames of one subscription;  keyed_reading: of a keyed topic
//! windows      a model of a window
//! tally        counts the situations that occurred
//! ```
//!
//! A subscriber gets every event exactly once and in order, or learns exactly how many events are missing, whatever
//! sockets, peers and time do. A subscriber of a keyed topic gets states that existed, or learns that it
//! begins again.

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
mod keyed_events;
mod keyed_reading;
mod oracle;
mod plain_log;
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

use plain_log::PlainLog;
use shard::Feeding;
use tally::{Situation, Tally};
use thalweg_core::stream::AnyFeed;
use thalweg_testing::try_receive;

/// The worlds of one run, unless `THALWEG_SIM_SEEDS` sets their number.
const SEEDS: u64 = 3500;

/// One in so many worlds runs again with the tests' own kind of feed.
const PLAIN_SHARE: u64 = 5;

/// The number of worlds that reach every situation.
const SEEDS_FOR_EVERYTHING: u64 = 500;

#[test]
fn every_event_once_and_in_order_or_an_announced_gap() {
    run_worlds::<AnyFeed>(1, &Situation::ALL);
}

#[test]
fn a_feed_of_another_kind_is_delivered_by_the_same_loop() {
    use Situation::{Event, Hole, OtherEpoch, Partial, Pinned, Refused, Slow, Trimmed};
    let due = [Event, Hole, OtherEpoch, Partial, Pinned, Refused, Slow, Trimmed];
    run_worlds::<PlainLog>(PLAIN_SHARE, &due);
}

/// Runs worlds whose feeds are of one kind: all of them, or one in `share`. If they are enough, each situation of
/// `due` has happened in them.
fn run_worlds<F: Feeding>(share: u64, due: &[Situation]) {
    if let Some(seed) = number("THALWEG_SIM_SEED") {
        println!("{:?}", world::run::<F>(seed, true));
        return;
    }
    let seeds = number("THALWEG_SIM_SEEDS").unwrap_or(SEEDS) / share;
    let mut sum = Tally::default();
    let (begin, begun) = channel();
    thread::spawn(move || watch(&begun));
    for seed in 0..seeds {
        begin.send(seed).expect("someone watches");
        match panic::catch_unwind(|| world::run::<F>(seed, false)) {
            Ok(tally) => sum.add(&tally),
            Err(failure) => {
                say_how_to_replay(seed, "failed");
                panic::resume_unwind(failure);
            }
        }
    }
    println!("{seeds} worlds: {sum:?}");
    if seeds >= SEEDS_FOR_EVERYTHING {
        let missed = due.iter().find(|situation| sum.count_of(**situation) == 0);
        assert_eq!(missed, None, "never happened");
    }
}

#[test]
fn a_seed_always_makes_the_same_run() {
    for seed in 0..20 {
        let run = || world::run::<AnyFeed>(seed, false);
        assert_eq!(run(), run(), "seed {seed}");
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

/// The test harness would hide this output after an abort.
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
