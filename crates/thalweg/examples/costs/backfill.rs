//! The cost of reading a stored topic again after a start.
//!
//! It stores events of 128 bytes in one topic, kills the server, and drops the caches of the kernel, which
//! needs root. Then:
//!
//! - `one`: a subscriber reads all events from the beginning
//! - `alone`: a bystander, the subscriber of another topic with 100 events a second, has the server alone
//! - `many`: all readers begin at the same position, while the bystander continues
//!
//! The readers have the lowest priority. The directory is in the system's folder for temporary files (TMPDIR), which
//! must not be in memory.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, ensure};
use serde_json::json;

use crate::server::{ALONE, Server, bystander, crowd};

const EVENT_BYTES: usize = 128;

/// Events of a request to publish.
const REQUEST_EVENTS: usize = 1_000;

/// A data directory that is removed at the end.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server on the directory.
fn start(directory: &Path) -> anyhow::Result<Server> {
    Server::start(&["--data".as_ref(), directory.as_os_str()])
}

/// Returns the pages that the server has read from the directory.
fn pages(server: &Server) -> anyhow::Result<f64> {
    server.metric("thalweg_disk_pages_total")
}

fn drop_caches() -> anyhow::Result<()> {
    rustix::fs::sync();
    let file = "/proc/sys/vm/drop_caches";
    std::fs::write(file, "3").context("the caches of the kernel need root")
}

/// Stores the events, and measures their readers.
pub(crate) fn run(events: usize, readers: usize) -> anyhow::Result<()> {
    ensure!(events >= REQUEST_EVENTS && readers > 0, "at least {REQUEST_EVENTS} events");
    let name = format!("thalweg-backfill-{}", std::process::id());
    let directory = Directory(std::env::temp_dir().join(name));
    let lines = format!("\"{}\"\n", "x".repeat(EVENT_BYTES - 2)).repeat(REQUEST_EVENTS);
    let server = start(&directory.0)?;
    let mut last = 0;
    for _ in 0..events / REQUEST_EVENTS {
        last = server.publish("old", lines.as_bytes())?;
    }
    drop(server);
    let bytes = (events / REQUEST_EVENTS * REQUEST_EVENTS * EVENT_BYTES) as f64;

    drop_caches()?;
    let server = start(&directory.0)?;
    let begun = Instant::now();
    server.subscribe("/old?cursor=earliest")?.read_to(last)?;
    let rate = bytes / begun.elapsed().as_secs_f64() / 1e6;
    let pages_of_one = pages(&server)?;
    println!("{}", json!({ "measured": "one", "mb_per_s": rate, "pages": pages_of_one }));
    drop(server);

    drop_caches()?;
    let server = start(&directory.0)?;
    let alone = bystander(&server, |begun| begun.elapsed() >= ALONE)?;
    println!("{}", json!({ "measured": "alone", "bystander": alone }));
    let before = pages(&server)?;
    let (beside, seconds) = crowd(&server, readers, "/old?cursor=earliest", last)?;
    let read = pages(&server)? - before;
    let found = json!({
        "measured": "many", "readers": readers, "seconds": seconds, "pages": read,
        "pages_of_one": read / pages_of_one, "bystander": beside,
    });
    println!("{found}");
    Ok(())
}
