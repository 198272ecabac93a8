//! Tests the client against servers that follow a script: cuts, closes, gaps, refusals, repetitions. Tests against the
//! real server: `crates/thalweg/tests/it`.

mod compressing;
mod fake;
mod publishing;
mod subscribing;
mod tls;
mod transports;
