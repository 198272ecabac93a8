//! What was measured, and whether it may be believed.
//!
//! Pure but for reading `/proc`.
//!
//! - `latency`: intended time → received, as a histogram
//! - `ledger`: what every subscription got, and what it should have got
//! - `process`: CPU and memory of a subject's processes
//! - `machine`: what it ran on, and what else ran there
//! - `sample`: one measurement
//! - `statistics`: medians and their intervals
//! - `unpaired`: the same for two runs
//! - `verdict`: what limited a sample

mod latency;
mod ledger;
mod machine;
mod process;
mod sample;
pub mod statistics;
mod unpaired;
mod verdict;

pub use latency::Latency;
pub use ledger::{Counts, Ledger};
pub use machine::{MachineNote, dropped_packets, stolen_s};
pub use process::Resources;
pub use sample::{
    Activity, KernelMemory, Memory, Negotiated, Point, RoundTrips, Sample, SocketMemory, Step,
    Traffic, WarmUp,
};
pub use unpaired::{can_differ, unpaired_ratio};
pub use verdict::{Evidence, Verdict};
