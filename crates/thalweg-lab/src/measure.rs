//! What was measured, and whether it may be believed.
//!
//! Pure but for reading `/proc`.
//!
//! - `heard`: what came from an endpoint that does not cooperate
//! - `latency`: intended time → received, as a histogram
//! - `ledger`: what every subscription got, and what it should have got
//! - `pacing`: how the swarm kept an open loop's schedule
//! - `process`: CPU and memory of a subject's processes
//! - `machine`: what it ran on, and what else ran there
//! - `sample`: one measurement
//! - `statistics`: medians and their intervals
//! - `verdict`: what limited a sample

mod heard;
mod latency;
mod ledger;
mod machine;
mod pacing;
mod process;
mod sample;
pub mod statistics;
mod verdict;

pub use heard::{Answer, Heard, Reasons, Spread, Timestamps, Unit};
pub use latency::Latency;
pub use ledger::{Counts, Ledger};
pub use machine::{MachineNote, dropped_packets, stolen_s};
pub use pacing::Pacing;
pub use process::Resources;
pub use sample::{
    Activity, KernelMemory, Memory, Negotiated, Point, RoundTrips, Sample, SocketMemory, Step,
    Traffic, WarmUp,
};
pub use verdict::{Evidence, Verdict};
