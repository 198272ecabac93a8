//! The cost of 1,000 keys that change five times a second, for subscribers with an interval of 200 ms, beside that of the same bytes as one
//! event of a topic without keys. Both take turns.

use std::{
    io::Read,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    server::{Server, allow_sockets},
    snapshot::lines,
};

const KEYS: usize = 1_000;
const EVERY: Duration = Duration::from_millis(200);

/// Rounds of all keys before the measurement, and in it.
const ROUNDS: [u32; 2] = [10, 40];

/// Measures both, several times.
pub(crate) fn run(starts: usize, readers: usize) -> anyhow::Result<()> {
    allow_sockets(readers)?;
    let keyed = lines(0..KEYS);
    let whole = format!("[{}]\n", keyed.trim_end().replace('\n', ","));
    for start in 0..starts {
        let mut kinds =
            [("keys", "/state/all?interval=200ms", &keyed), ("one event", "/plain/all", &whole)];
        if start % 2 == 1 {
            kinds.reverse();
        }
        for (kind, target, body) in kinds {
            let (cpu_s, bytes) = measure(target, body, readers)?;
            println!(
                "{}",
                json!({ "measured": kind, "start": start, "readers": readers, "cpu_s": cpu_s, "bytes": bytes,
                    "cpu_ns_per_kb": cpu_s * 1e12 / bytes })
            );
        }
    }
    Ok(())
}

/// Returns the server's seconds of CPU, and the bytes that it sent, while a topic gets a body in each round.
fn measure(target: &str, body: &str, readers: usize) -> anyhow::Result<(f64, f64)> {
    let server = Server::start(&["--topic", "state/**,kind=keyed,key=/id"])?;
    for _ in 0..readers {
        let mut socket = server.subscribe(target)?.into_socket();
        // Ends with the server.
        thread::Builder::new().stack_size(128 << 10).spawn(move || {
            let mut buffer = [0; 64 << 10];
            while socket.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        })?;
    }
    let topic = target.trim_start_matches('/').split('?').next().unwrap_or_default();
    let mut due = Instant::now();
    let mut publish = |rounds: u32| -> anyhow::Result<()> {
        for _ in 0..rounds {
            server.publish(topic, body.as_bytes())?;
            due += EVERY;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    };
    let [before, measured] = ROUNDS;
    publish(before)?;
    let begun = (server.cpu_s()?, server.metric("thalweg_sent_bytes_total")?);
    publish(measured)?;
    Ok((server.cpu_s()? - begun.0, server.metric("thalweg_sent_bytes_total")? - begun.1))
}
