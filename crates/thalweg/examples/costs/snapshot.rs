//! The cost of the state of a keyed topic for subscribers that come at once: 100,000 keys with events of about 100 bytes.
//!
//! - `one`: a subscriber gets the state
//! - `alone`: a bystander has the server alone
//! - `many`: all readers come at once, while the bystander continues

use std::{fmt::Write, time::Instant};

use serde_json::json;

use crate::server::{ALONE, Server, bystander, crowd};

const KEYS: usize = 100_000;

/// Events of a request to publish.
const REQUEST_EVENTS: usize = 1_000;

/// Returns the events of these keys as lines of about 100 bytes each.
pub(crate) fn lines(keys: std::ops::Range<usize>) -> String {
    let mut lines = String::new();
    for key in keys {
        let text = "x".repeat(76);
        writeln!(lines, r#"{{"id":"{key:06}","text":"{text}"}}"#).expect("a String takes all text");
    }
    lines
}

/// Measures the state several times, each with a server of its own.
pub(crate) fn run(starts: usize, readers: usize) -> anyhow::Result<()> {
    for start in 0..starts {
        let server = Server::start(&["--topic", "state/**,kind=keyed,key=/id"])?;
        let empty = server.resident()?;
        let mut last = 0;
        for first in (0..KEYS).step_by(REQUEST_EVENTS) {
            last = server.publish("state/all", lines(first..first + REQUEST_EVENTS).as_bytes())?;
        }
        let key_bytes = (server.resident()? - empty) / KEYS as f64;
        let before = (server.metric("thalweg_sent_bytes_total")?, server.cpu_s()?);
        let begun = Instant::now();
        server.subscribe("/state/all")?.read_to(last)?;
        let seconds = begun.elapsed().as_secs_f64();
        let one =
            (server.metric("thalweg_sent_bytes_total")? - before.0, server.cpu_s()? - before.1);
        println!(
            "{}",
            json!({ "measured": "one", "start": start, "seconds": seconds, "bytes": one.0, "cpu_s": one.1,
                "resident_bytes_per_key": key_bytes })
        );
        let alone = bystander(&server, |begun| begun.elapsed() >= ALONE)?;
        println!("{}", json!({ "measured": "alone", "start": start, "bystander": alone }));
        let cpu = server.cpu_s()?;
        let (beside, seconds) = crowd(&server, readers, "/state/all", last)?;
        let cpu = server.cpu_s()? - cpu;
        println!(
            "{}",
            json!({ "measured": "many", "start": start, "readers": readers, "seconds": seconds, "cpu_s": cpu,
                "cpu_of_one": cpu / one.1 / readers as f64, "bystander": beside })
        );
    }
    Ok(())
}
