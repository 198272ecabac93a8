//! Measurements of several nodes that no drive of the lab covers: publishers, subscribers and faults change
//! during a measurement, and processes are killed.
//!
//! ```sh
//! cargo run --release -p thalweg --example cluster -- order    # three nodes, one topic, R3, on disk
//! cargo run --release -p thalweg --example cluster -- lag      # a node that gets little CPU
//! cargo run --release -p thalweg --example cluster -- topics   # a million topics
//! cargo run --release -p thalweg --example cluster -- resume   # the subscribers of a dead node
//! ```
//!
//! Each prints one JSON object with all samples. `THALWEG_BIN` names the binary, unless it is beside
//! `examples`; `THALWEG_NATS_SERVER` the NATS server, unless `make nats` has installed it. A second word
//! makes the measurement smaller, for a quick check: `order 2`, `topics 10000`.
//!
//! - `nodes`: NATS servers and nodes, which end with this process
//! - `http`: a request, and a subscriber
//! - `nats`: messages published to NATS, in the form that nodes store

mod http;
mod lag;
mod nats;
mod nodes;
mod order;
mod resume;
#[path = "../../../thalweg-nats/tests/it/harness/servers.rs"]
#[expect(dead_code, reason = "the tests need more of it")]
mod servers;
mod topics;

use std::process::ExitCode;

use thalweg_testing::{PATIENCE, wait_for};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (what, size) = (words.next(), words.next().and_then(|size| size.parse().ok()));
    let result = match what.as_deref() {
        Some("order") => order::run(size.unwrap_or(20)),
        Some("lag") => lag::run(size.unwrap_or(20)),
        Some("topics") => topics::run(size.unwrap_or(1_000_000)),
        Some("resume") => resume::run(size.unwrap_or(4500)),
        _ => {
            eprintln!("say one of order, lag, topics, resume");
            return ExitCode::from(2);
        }
    };
    match result {
        Some(found) => println!("{found}"),
        None => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

/// Without a NATS server nothing can be measured.
fn skipped(why: &str) {
    eprintln!("{why}");
}
