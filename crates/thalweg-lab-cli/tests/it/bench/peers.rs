//! Other push servers, each with its dialect.

use std::path::Path;
use std::sync::PoisonError;

use serde_json::Value;
use thalweg_testing::{skipped, undisturbed};

use super::{CORES, PEERS, allowed_cores, assert_whole, bench_alone, has};

fn beside(peers: &[&str], drive: &str, cells: &str, options: &[&str]) -> Vec<Value> {
    let named: Vec<String> = peers.iter().map(|peer| format!("\"{peer}\"")).collect();
    let subjects = peers.iter().map(|peer| format!("[[subjects]]\nprogram = \"{peer}\"\n"));
    let cells = format!(
        "[[cells]]\n{cells}\nsubjects = [{}]\n{}",
        named.join(", "),
        subjects.collect::<String>()
    );
    let options = [&["--peers", PEERS], options].concat();
    bench_alone(&format!("peers-{drive}-{}", peers[0]), drive, &cells, &options)
}

/// The peers that need only npm or go: the others need more, or minutes.
#[test]
fn every_peer_of_the_registries_delivers_all_events() {
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    let node = ["ws", "engineio", "primus", "sockjs", "socketio", "bun", "node-sse"];
    let go = ["gorilla", "coder"];
    let mut peers: Vec<&str> = Vec::new();
    match has("npm") {
        true => peers.extend(node),
        false => skipped("peers of Node and Bun: there is no npm"),
    }
    match has("go") {
        true => peers.extend(go),
        false => skipped("peers of Go: there is no go"),
    }
    for (other, why) in [
        ("axum", "it is compiled for half a minute"),
        ("nats", "it is compiled for a minute"),
        ("centrifugo", "it is compiled for minutes"),
        ("nchan", "it comes as a Debian package"),
        ("mercure", "it is compiled for minutes"),
        ("uwebsockets", "it is in no registry"),
    ] {
        let is_built = Path::new(PEERS).join(other).join("build").exists();
        match is_built || other == "uwebsockets" && has(other) {
            true => peers.push(other),
            false => skipped(&format!("the peer {other}: {why}")),
        }
    }
    if peers.is_empty() {
        return;
    }
    // Each peer delivers over the transports that it has, and is blank in cells of others.
    let cell = "transport = [\"websocket\", \"sse\"]\nconnections = 20\nevent_bytes = 300";
    let published = beside(&peers, "published-load", cell, &["--duration", "300ms"]);
    let cell = "transport = [\"websocket\", \"sse\"]\nconnections = 3\nbatch = 10";
    let sends: Vec<&str> = peers
        .iter()
        .copied()
        .filter(|peer| !["nats", "nchan", "centrifugo", "mercure"].contains(peer))
        .collect();
    let generated = beside(&sends, "generated-load", cell, &["--duration", "300ms"]);
    // More than the first events of each connection, however busy the machine is.
    for (samples, delivered) in [(&published, 2 * 20), (&generated, 2 * 3 * 10)] {
        assert_whole(samples, samples.len());
        for sample in samples {
            assert!(sample["ledger"]["delivered"].as_u64() > Some(delivered), "{sample}");
            assert!(sample["verdict"].is_string() || allowed_cores().len() < 2, "{sample}");
        }
    }
    // These are measured over a WebSocket and over SSE.
    let both = peers.iter().filter(|peer| ["bun", "axum", "nchan", "centrifugo"].contains(peer));
    assert_eq!(published.len(), peers.len() + both.count());
}

#[test]
fn centrifugo_sends_deltas() {
    if !Path::new(PEERS).join("centrifugo/build").exists() {
        return skipped("deltas of Centrifugo: it is compiled for minutes");
    }
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    let cell = "connections = 20\nkeys = 2\npayload = \"match\"\nevent_bytes = 5000\nrate = 20\ndeltas = true";
    let samples = beside(&["centrifugo"], "published-load", cell, &["--duration", "700ms"]);
    assert_whole(&samples, 1);
    let traffic = &samples[0]["traffic"];
    let bytes = traffic["wire_bytes"].as_f64().unwrap() / traffic["events"].as_f64().unwrap();
    assert!(bytes < 2500.0, "{traffic}");
}

/// Thalweg reports its own (`a_keyed_load_has_the_delay_of_the_event_loop`).
#[test]
fn peers_of_node_report_the_delay_of_their_event_loop() {
    if !has("npm") {
        return skipped("the event loop of Node: there is no npm");
    }
    // A loop that waits for its core is late, too.
    undisturbed(|| {
        let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
        let cell = "connections = 4\nkeys = 2\nevent_bytes = 300\nrate = 10";
        let peers = ["engineio", "ws", "socketio", "primus", "sockjs"];
        let samples = beside(&peers, "published-load", cell, &["--duration", "700ms"]);
        assert_eq!(samples.len(), peers.len());
        for sample in samples {
            let delay_us = sample["loop_delay_us"].as_f64();
            // Without the interval of the timer, which is 237 ms.
            assert!(delay_us.is_some_and(|us| (0.0..237_000.0).contains(&us)), "{sample}");
        }
    });
}

#[test]
fn socketio_answers() {
    if !has("npm") {
        return skipped("Socket.IO in the lab: there is no npm");
    }
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    for sample in beside(&["socketio"], "echo", "connections = 1\nrequests = 50", &[]) {
        assert_eq!(sample["round_trips"]["count"], 50, "{sample}");
    }
}
