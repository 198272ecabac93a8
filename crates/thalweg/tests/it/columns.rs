//! Columns: the events of a topic as an Arrow IPC stream (`docs/reference/columns.md`), read by the `arrow` crate.
//!
//! - `reading`: a whole stream as JSON
//! - `stream`: a stream that is read frame by frame, and resumed
//! - `asking`: each protocol and request; refusals
//! - `schemas`: inferred, declared, of sources
//! - `resuming`: a stream that resumes
//! - `ending`: reasons for the end of a stream
//! - `attacks`: malicious publishers and readers

mod asking;
mod attacks;
mod ending;
#[path = "../../../thalweg-columns/tests/it/reading.rs"]
mod reading;
mod resuming;
mod schemas;
mod stream;

use crate::harness::{Published, Server};

fn publish(server: &Server, topic: &str, lines: &str) -> Published {
    server.post(topic, "application/x-ndjson", lines).published()
}
