//! Socket.IO beside Thalweg, in a dialect of its own.

use std::process::Command;
use std::sync::PoisonError;

use super::{CORES, allowed_cores, assert_whole, bench_alone};
use crate::harness::skipped;

/// What it needs npm installs.
#[test]
fn socketio_beside_thalweg() {
    if Command::new("npm").arg("--version").output().is_err() {
        return skipped("Socket.IO in the lab: there is no npm");
    }
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/subjects");
    let socketio = "subjects = [\"thalweg\", \"socketio\"]\n[[subjects]]\nprogram = \"socketio\"";
    let measure = |drive: &str, cell: &str, options: &[&str]| {
        let cells = format!("[[cells]]\n{cell}\n{socketio}");
        let options = [&["--peers", peers], options].concat();
        let samples = bench_alone(&format!("socketio-{drive}"), drive, &cells, &options);
        assert_whole(&samples, 2);
        samples
    };
    let cell = "connections = 20\nevent_bytes = 300\ntopics = 2";
    for sample in measure("published-load", cell, &["--duration", "1s"]) {
        assert!(sample["ledger"]["delivered"].as_u64() > Some(1000), "{sample}");
        assert!(sample["verdict"].is_string() || allowed_cores().len() < 2, "{sample}");
    }
    for sample in measure("echo", "connections = 1\nrequests = 50", &[]) {
        assert_eq!(sample["round_trips"]["count"], 50, "{sample}");
    }
}
