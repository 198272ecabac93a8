//! The lab.
//!
//! The lab measures the cost of a push server. It knows a server only by its command line and its wire.
//!
//! ```text
//! scenario ─► subject + load ─► measure ─► report
//! ```
//!
//! - [`scenario`]: what to measure; a file becomes a checked plan (pure)
//! - [`subject`]: a server under test; launched, probed, stopped
//! - [`load_generator`]: what makes the load, as the run sees it
//! - [`browser`]: Chromium: subscribers in its tabs
//! - [`swarm`]: the native one: subscribers and publishers on one thread of their own core
//! - [`measure`]: ledger, latency, resources, statistics, verdict
//! - [`report`]: what was found, as table, HTML, Markdown, CSV and JSON (pure)
//! - [`sizing`]: what a load takes, by what was found (pure)
//! - [`mod@run`]: the only wiring

// `println!` and `eprintln!` panic at a closed pipe; `run::say` and `run::print` do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod browser;
pub mod load_generator;
pub mod measure;
pub mod report;
pub mod run;
pub mod scenario;
pub mod sizing;
pub mod subject;
pub mod swarm;
