//! Costs of a server that no scenario of the lab covers, because its topics are on disk or have keys: see `lab/README.md`.
//!
//! ```sh
//! cargo build --release -p thalweg --bin thalweg --example costs
//! target/release/examples/costs backfill    # 100 subscribers read 1,000,000 stored events
//! target/release/examples/costs snapshot    # 100 subscribers get a state of 100,000 keys
//! target/release/examples/costs conflated   # 1,000 subscribers get 1,000 keys five times a second
//! target/release/examples/costs members     # 100,000 members of ten topics
//! target/release/examples/costs joins       # 1,000 members a second come, and leave after five seconds
//! ```
//!
//! The server runs on core 0, everything else on core 1. Each line of output is a JSON object. A second word is the number of starts,
//! or of events of `backfill`, and a third one the number of subscribers. `THALWEG_BIN` names the binary, unless it is in the folder
//! above this one.

mod backfill;
mod conflated;
mod members;
mod server;
mod snapshot;

use std::process::ExitCode;

use rustix::thread::{CpuSet, sched_setaffinity};

fn run() -> anyhow::Result<bool> {
    let mut core = CpuSet::new();
    core.set(1);
    sched_setaffinity(None, &core)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize, default: usize| {
        words.get(nth).map_or(Ok(default), |word| word.parse::<usize>())
    };
    match words.first().map(String::as_str) {
        Some("backfill") => backfill::run(number(1, 1_000_000)?, number(2, 100)?)?,
        Some("snapshot") => snapshot::run(number(1, 3)?, number(2, 100)?)?,
        Some("conflated") => conflated::run(number(1, 6)?, number(2, 1_000)?)?,
        Some("members") => members::hold(number(1, 2)?, number(2, 10_000)?)?,
        Some("joins") => members::come_and_go(number(1, 4)?, number(2, 1_000)?)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => eprintln!("say one of backfill, snapshot, conflated, members, joins"),
        Err(error) => eprintln!("error: {error:#}"),
    }
    ExitCode::FAILURE
}
