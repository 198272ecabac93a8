//! Columns: a topic's events as an Arrow IPC stream (`docs/wire.md`, "Columns"), read by Arrow's own
//! reader.
//!
//! - `reading`: a whole stream as JSON
//! - `stream`: one that is read frame by frame, and comes again where it ended
//! - `asking`: over each protocol, by each request; and what is refused
//! - `schemas`: inferred, declared, of sources
//! - `resuming`: what a stream is told that comes again
//! - `ending`: why a stream ends
//! - `attacks`: publishers and readers that mean harm

mod asking;
mod attacks;
mod ending;
#[path = "../../../thalweg-columns/tests/it/reading.rs"]
mod reading;
mod resuming;
mod schemas;
mod stream;

use crate::harness::{Published, Server};

/// Publishes lines of JSON as one request.
fn publish(server: &Server, topic: &str, lines: &str) -> Published {
    server.post(topic, "application/x-ndjson", lines).published()
}
