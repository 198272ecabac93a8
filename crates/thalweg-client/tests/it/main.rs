//! The client against servers that play a script: cuts, closes, gaps, refusals,
//! repetitions. Against the real server: `crates/thalweg/tests/it`.

mod fake;
mod publishing;
mod subscribing;
mod tls;
mod transports;
