//! `thalweg bench`, small: every subject it can start, over TLS, HTTP/2 and in
//! conversation, with a whole ledger. No figure is looked at.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const THALWEG: &str = env!("CARGO_BIN_EXE_thalweg");

/// Runs a scenario with these cells; what its samples say, subject by subject.
fn bench(name: &str, drive: &str, cells: &str) -> Vec<Value> {
    let folder = folder(name);
    let scenario = format!(
        r#"
name = "{name}"
title = "{name}"
drive = "{drive}"
again = "none"
repeats = 1
warm_up_ms = 50
measured_ms = 100
{cells}
[[subjects]]
name = "limit"
program = "limit"
[[subjects]]
name = "thalweg"
program = "thalweg"
"#
    );
    let file = folder.join("scenario.toml");
    std::fs::write(&file, scenario).expect("write the scenario");
    let out = folder.join("run");
    let ran = Command::new(THALWEG).arg("bench").arg(&file).arg("--out").arg(&out).output();
    let ran = ran.expect("start the binary");
    let samples = std::fs::read_to_string(out.join("samples.jsonl")).unwrap_or_default();
    let samples: Vec<Value> =
        samples.lines().map(|line| serde_json::from_str(line).expect("a sample")).collect();
    assert!(!samples.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    samples
}

/// A folder that is empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("make a folder");
    folder
}

/// Everything that was to come has come, once, in order, intact. The verdict is
/// not looked at: a machine with one core has none that counts.
fn assert_whole(samples: &[Value], expected: usize) {
    assert_eq!(samples.len(), expected);
    for sample in samples {
        let ledger = sample["ledger"].as_object().expect("a ledger");
        for (what, count) in ledger {
            let is_delivered = what == "delivered";
            assert_eq!(*count != 0, is_delivered, "{what}: {sample}");
        }
    }
}

#[test]
fn tls_on_every_transport() {
    let cells = r#"
[[cells]]
transport = ["websocket", "sse", "http-streaming"]
event_bytes = [200, 40000]
connections = 5
tls = true
"#;
    assert_whole(&bench("tls", "posted", cells), 12);
}

#[test]
fn many_streams_on_a_connection() {
    let cells = r#"
[[cells]]
transport = ["sse", "http-streaming"]
event_bytes = 200
connections = 20
streams = 10
tls = [false, true]
subjects = ["thalweg"]
"#;
    assert_whole(&bench("streams", "posted", cells), 4);
}

#[test]
fn round_trips_over_every_transport() {
    let cells = r#"
[[cells]]
connections = 1
requests = 20
[[cells]]
transport = ["sse", "http-streaming", "forever-frame", "long-polling"]
connections = 1
requests = 20
subjects = ["thalweg"]
"#;
    let samples = bench("round-trips", "round-trip", cells);
    assert_whole(&samples, 6);
    for sample in samples {
        assert_eq!(sample["round_trips"]["count"], 20, "{sample}");
    }
}

#[test]
fn echo_beside_a_firehose() {
    let cells = r#"
[[cells]]
connections = 1
requests = 20
dummy_bytes = [0, 10000]
answers = ["same", "beside"]
[[cells]]
connections = 1
requests = 20
dummy_bytes = 10000
window_bytes = 65536
subjects = ["thalweg"]
"#;
    let samples = bench("echo", "echo", cells);
    assert_whole(&samples, 9);
    for sample in samples {
        assert_eq!(sample["round_trips"]["count"], 20, "{sample}");
    }
}
