//! Subjects with several processes: a node, its NATS server and another node.

use std::path::Path;
use std::process::Output;
use std::sync::PoisonError;

use serde_json::Value;
use thalweg_testing::skipped;

use super::{CORES, assert_whole, folder, run};

const NATS: &str = r#"
[[subjects.processes]]
name = "nats"
role = "nats"
command = ["{nats}", "-a", "127.0.0.1", "-p", "{port.nats}", "-js", "-sd", "{dir}"]
"#;

const NODE: &str = r#"
[[subjects.processes]]
name = "other"
role = "node"
command = ["{thalweg}", "serve", "--listen", "127.0.0.1:{port.other}", "--nats", "nats://127.0.0.1:{port.nats}", "--stream", "bench=bench/**,replicas=1"]
"#;

/// Runs a scenario of one subject that reads a stream. Returns its output and the samples, or `None` if this
/// machine has no NATS server.
fn bench(name: &str, drive: &str, settings: &str, beside: &str) -> Option<(Output, Vec<Value>)> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats/nats-server");
    let nats = std::env::var_os("THALWEG_NATS_SERVER").map_or(installed, Into::into);
    if !nats.is_file() {
        skipped(&format!("no NATS server at {}", nats.display()));
        return None;
    }
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    let folder = folder(name);
    let scenario = format!(
        r#"
name = "{name}"
drive = "{drive}"
control = "none"
repeats = 1
rounds = 2
warm_up_ms = 50
measured_ms = 100
[defaults]
{settings}
[[subjects]]
program = "thalweg"
arguments = ["--nats", "nats://127.0.0.1:{{port.nats}}", "--stream", "bench=bench/**,replicas=1"]
{beside}
"#
    );
    let (ran, samples) = run(&folder, &scenario, |command| {
        // Files that remain in this folder would be found.
        command.env("THALWEG_NATS_SERVER", nats).env("TMPDIR", &folder)
    });
    let left = std::fs::read_dir(&folder).expect("the folder").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "scenario and run: {left:?}");
    Some((ran, samples))
}

#[test]
fn messages_published_to_nats_are_read_by_subject() {
    let settings = "rate = 2000\nmessage_events = 20";
    let Some((_, samples)) = bench("stored", "stored", settings, NATS) else { return };
    assert_whole(&samples, 2);
    for sample in &samples {
        let process = &sample["processes"][0];
        assert_eq!(
            (&process["name"], sample["processes"].as_array().map(Vec::len)),
            (&"nats".into(), Some(1))
        );
        assert!(process["cpu_ns"].as_u64() > Some(0), "{sample}");
    }
}

#[test]
fn messages_published_to_nats_reach_subscribers() {
    for pace in ["rate = 100", "window = 100\nmessage_events = 30"] {
        let settings = format!("connections = 3\npublish_to = \"nats\"\n{pace}");
        let found = bench("by-nats", "published-load", &settings, NATS);
        let Some((_, samples)) = found else { return };
        assert_whole(&samples, 2);
    }
}

#[test]
fn publishers_are_spread_over_all_nodes() {
    let beside = format!("{NATS}{NODE}");
    for request in ["ndjson", "single"] {
        let settings = format!("connections = 4\nrequest = \"{request}\"");
        let found = bench("nodes", "publish", &settings, &beside);
        let Some((_, samples)) = found else { return };
        assert_whole(&samples, 2);
        let names = |sample: &Value| {
            [0, 1].map(|index| sample["processes"][index]["name"].as_str().map(str::to_owned))
        };
        assert_eq!(names(&samples[0]), [Some("nats".to_owned()), Some("other".to_owned())]);
    }
}

#[test]
fn the_output_of_a_process_that_does_not_start_is_shown() {
    let beside = NATS.replace("{dir}", "/proc/nothing");
    let Some((_, samples)) = bench("nonsense", "stored", "rate = 10", &beside) else { return };
    let why = samples[0]["why"].as_str().expect("a reason");
    assert!(why.contains("the process `nats` ended before it was ready"), "{why}");
    assert!(why.contains("/proc/nothing"), "{why}");
}
