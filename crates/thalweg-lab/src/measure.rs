//! The measurements, and whether they may be trusted. Pure except for reading `/proc`.
//!
//! - `sample`: one measurement; `verdict`: what limited a sample; `steady`: whether a subject is warm
//! - `ledger`: what every subscription got, and what it should have got; `missed`: what it did not get
//! - `latency`: intended time → received, as a histogram; `pacing`: how the swarm kept an open loop's schedule
//! - `littles`: Little's law, if the number outstanding is known
//! - `process`: CPU and memory of a subject's processes; `machine`: what it ran on, and what else ran there
//! - `browser`: resources of a browser that was the load; `received`: results of an endpoint that does not cooperate
//! - `comparison`: a subject compared with its baseline, and when the result is certain
//! - `statistics`: medians and their intervals, Student's t; `regression`: splits a figure into terms by least squares

mod browser;
pub mod comparison;
mod latency;
mod ledger;
pub mod littles;
mod machine;
mod missed;
mod pacing;
mod process;
mod received;
pub mod regression;
mod sample;
pub mod statistics;
mod steady;
mod verdict;

pub use browser::{BrowserUse, KindUse, Painted, ProcessKind};
pub use latency::{Delays, Latency, Percentiles};
pub use ledger::{Counts, Ledger, Reported};
pub use machine::{CoreTimes, MachineNote, core_times, dropped_packets, tcp_bytes, tcp_share};
pub use pacing::Pacing;
pub use process::Resources;
pub use received::{
    Answer, Exchanged, Reasons, Received, Responses, Sequenced, SlowReaders, Spread, TimestampUnit,
    Timestamps,
};
pub use sample::{
    Activity, Beside, Beyond, Held, KernelMemory, Memory, Negotiated, Point, ProcessUse, Pushed,
    RoundTrips, Sample, SocketMemory, Step, SystemCalls, Traffic, WarmUp, shows_p99,
};
pub use steady::{Slice, Steadiness, Warm};
pub use verdict::{BrowserEvidence, Evidence, Room, Verdict};
