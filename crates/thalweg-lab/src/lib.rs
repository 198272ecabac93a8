//! Measures the cost of a push server. The lab knows a server only by its command line and its wire protocol.
//!
//! ```text
//! scenario ─► subject + load ─► measure ─► report
//! ```
//!
//! - [`scenario`]: what to measure; a file becomes a checked plan (pure)
//! - [`subject`]: a server under test; launched, probed, stopped
//! - [`load_generator`]: the interface of what generates the load
//! - [`browser`]: Chromium, with subscribers in its tabs
//! - [`swarm`]: the native load generator: subscribers and publishers in one thread on a core of its own
//! - [`measure`]: ledger, latency, resources, statistics, verdict
//! - [`report`]: the results, as table, HTML, Markdown, CSV and JSON (pure)
//! - [`sizing`]: the nodes that a load needs, from measured costs (pure)
//! - [`mod@run`]: connects all of these

// `println!` and `eprintln!` panic at a closed pipe; those of `thalweg_terminal` do not.
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
