//! `thalweg-lab bench` in small: every subject, over TLS, HTTP/2 and as a conversation, with a complete ledger.
//! The tests check no performance figure.

mod browser;
mod cluster;
mod peers;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{PoisonError, RwLock};

use serde_json::Value;
use thalweg_testing::{skipped, undisturbed};

use crate::programs::LAB;

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/subjects");

/// Tests that starve the load generator take this lock exclusively: all tests use the same cores.
static CORES: RwLock<()> = RwLock::new(());

/// Runs a scenario with these cells. Returns its samples, subject by subject.
fn bench(name: &str, drive: &str, cells: &str) -> Vec<Value> {
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    bench_alone(name, drive, cells, &[])
}

/// Does the same with more options, for a test that has the cores to itself.
fn bench_alone(name: &str, drive: &str, cells: &str, options: &[&str]) -> Vec<Value> {
    let folder = folder(name);
    let scenario = format!(
        r#"
name = "{name}"
title = "{name}"
drive = "{drive}"
control = "none"
repeats = 1
rounds = 1
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
    let (ran, samples) = run(&folder, &scenario, |command| command.args(options));
    assert!(!samples.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    samples
}

/// Runs a scenario in this folder, with the options that `complete` adds. Returns the output and the samples.
pub(crate) fn run(
    folder: &Path,
    scenario: &str,
    complete: impl FnOnce(&mut Command) -> &mut Command,
) -> (Output, Vec<Value>) {
    let (file, out) = (folder.join("scenario.toml"), folder.join("run"));
    std::fs::write(&file, scenario).expect("write the scenario");
    let mut command = Command::new(LAB);
    command.arg("bench").arg(&file).arg("--out").arg(&out);
    let ran = complete(&mut command).output().expect("start the binary");
    let samples = std::fs::read_to_string(out.join("samples.jsonl")).unwrap_or_default();
    let samples = samples.lines().map(|line| serde_json::from_str(line).expect("a sample"));
    (ran, samples.collect())
}

fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("make a folder");
    folder
}

/// Checks that every expected event has arrived once, in order and intact. It ignores the verdict: on a
/// machine with one core no sample is valid.
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

/// Checks the same of a keyed load: on a busy machine a version may be replaced before it is sent.
fn assert_no_holes(sample: &Value) {
    for (what, count) in sample["ledger"].as_object().expect("a ledger") {
        let is_usual = what == "delivered" || what == "replaced";
        assert!(is_usual || *count == 0, "{what}: {sample}");
    }
}

#[test]
fn every_transport_with_and_without_tls() {
    let cells = r#"
[[cells]]
transport = ["websocket", "sse", "http-streaming"]
event_bytes = [200, 40000]
connections = 5
tls = [false, true]
[[cells]]
transport = ["forever-frame", "long-polling"]
event_bytes = [200, 40000]
connections = 5
tls = [false, true]
subjects = ["thalweg"]
"#;
    assert_whole(&bench("transports", "published-load", cells), 24 + 8);
}

#[test]
fn many_streams_on_a_connection() {
    let cells = r#"
[[cells]]
transport = ["sse", "http-streaming", "forever-frame", "long-polling"]
event_bytes = 200
connections = 20
streams = 10
tls = [false, true]
subjects = ["thalweg"]
"#;
    assert_whole(&bench("streams", "published-load", cells), 8);
}

#[test]
fn documents_of_several_keys_on_every_transport() {
    let cells = |transports: &str, subjects: &str| {
        format!(
            r#"
[[cells]]
transport = {transports}
connections = 10
keys = 4
payload = "match"
event_bytes = 5000
rate = 20
subjects = {subjects}
"#
        )
    };
    let cells =
        cells(
            r#"["websocket", "sse", "http-streaming"]"#,
            r#"["limit", "thalweg", "value", "patches"]"#,
        ) + &cells(r#"["forever-frame", "long-polling"]"#, r#"["thalweg", "value", "patches"]"#)
            + r#"
[[subjects]]
name = "value"
program = "thalweg"
with = { kind = "value" }
[[subjects]]
name = "patches"
program = "thalweg"
with = { kind = "value", deltas = true }
"#;
    let samples = bench("keys", "published-load", &cells);
    assert_eq!(samples.len(), 12 + 6);
    for sample in samples {
        assert_no_holes(&sample);
        assert!(sample["round_trips"]["count"].as_u64() > Some(0), "the probe: {sample}");
        let traffic = &sample["traffic"];
        let bytes = traffic["wire_bytes"].as_f64().unwrap() / traffic["events"].as_f64().unwrap();
        let is_patched =
            sample["subject"] == 3 || sample["cell"].as_u64() > Some(2) && sample["subject"] == 2;
        assert_eq!(bytes < 3000.0, is_patched, "{sample}");
    }
}

#[test]
fn a_keyed_load_has_the_delay_of_the_event_loop() {
    let cells = |keys: u32| {
        format!("[[cells]]\nconnections = 10\nkeys = {keys}\nevent_bytes = 500\nrate = 20\n")
    };
    // Thalweg looks at its loop four times a second.
    let measure =
        |name, keys| bench_alone(name, "published-load", &cells(keys), &["--duration", "700ms"]);
    // The lab waits half a second for the report.
    undisturbed(|| {
        let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
        for sample in measure("loop-delay", 4) {
            let delay_us = sample.get("loop_delay_us").and_then(Value::as_f64);
            // `limit` does not report it.
            assert_eq!(delay_us.is_some(), sample["subject"] == 1, "{sample}");
            assert!(delay_us.is_none_or(|delay_us| delay_us > 0.0), "{sample}");
        }
        let unkeyed = measure("no-loop-delay", 1);
        assert!(unkeyed.iter().all(|sample| sample.get("loop_delay_us").is_none()), "{unkeyed:?}");
    });
}

#[test]
fn clients_that_arrive_while_events_are_published() {
    let cells = |own: &str| {
        format!(
            r#"
[defaults]
connections = 20
keys = 4
payload = "match"
event_bytes = 5000
rate = 20
{own}
[[cells]]
subjects = ["thalweg", "patches"]
[[subjects]]
name = "patches"
program = "thalweg"
with = {{ kind = "value", deltas = true }}
"#
        )
    };
    let ramp = "arrivals = \"200/s\"\nlate_us_max = 5000000";
    for (drive, own) in [("ramp", ramp), ("churn", "stay_ms = 200"), ("stampede", "lost_keys = 3")]
    {
        let samples = bench(&format!("keyed-{drive}"), drive, &cells(own));
        assert_eq!(samples.len(), 2);
        for sample in samples {
            assert_no_holes(&sample);
            match drive {
                "ramp" => assert_eq!(sample["held"]["connections"], 20, "{sample}"),
                _ => assert!(sample["beside"]["before"]["p99_us"].is_u64(), "{sample}"),
            }
        }
    }
}

/// A document is loaded again every 4 MiB, without losing or repeating an event. The window alone is larger
/// than that, and smaller than the history.
#[test]
fn documents_that_grow_large() {
    let cells = r#"
[[cells]]
transport = "forever-frame"
event_bytes = 300000
window = 16
connections = 2
streams = [0, 2]
tls = [false, true]
subjects = ["thalweg"]
"#;
    let samples = bench("documents", "published-load", cells);
    assert_whole(&samples, 4);
    for sample in samples {
        let delivered = sample["ledger"]["delivered"].as_u64().expect("a count");
        assert!(delivered >= 2 * 16, "more than a document each: {sample}");
    }
}

#[test]
fn several_topics_on_every_transport() {
    let cells = r#"
[[cells]]
transport = ["sse", "http-streaming", "forever-frame", "long-polling"]
event_bytes = 200
connections = 4
streams = [0, 2]
topics = 20
subjects = ["thalweg"]
"#;
    assert_whole(&bench("several-topics", "published-load", cells), 8);
}

#[test]
fn every_transport_hears_a_subject_that_drives_itself() {
    let cells = r#"
[[cells]]
transport = ["forever-frame", "long-polling"]
connections = 4
streams = [0, 2]
batch = 10
subjects = ["thalweg"]
"#;
    assert_whole(&bench("generated-load", "generated-load", cells), 4);
}

#[test]
fn every_transport_stands_idle() {
    let cells = r#"
[[cells]]
transport = ["forever-frame", "long-polling"]
connections = 20
streams = [0, 10]
tls = [false, true]
subjects = ["thalweg"]
"#;
    let samples = bench("idle", "idle", cells);
    assert_eq!(samples.len(), 8);
    for sample in samples {
        assert_ne!(sample["open_us"], 0, "{sample}");
        assert_eq!(sample["ledger"]["cut"], 0, "{sample}");
    }
}

#[test]
fn connections_arrive_come_and_go() {
    let cells = r#"
[[cells]]
transport = ["websocket", "sse", "http-streaming"]
connections = 30
interval_us = 10000
"#;
    for (drive, settings) in
        [("ramp", "arrivals = \"200/s 50ms, 1000/s\""), ("churn", "stay_ms = 100")]
    {
        let samples = bench(drive, drive, &format!("{cells}{settings}\n"));
        assert_whole(&samples, 6);
        for sample in samples {
            let stood = sample["traffic"]["events"].as_u64().expect("a count");
            // A client that stays for 100 ms connects about once in the 100 ms that are measured.
            assert!(if drive == "ramp" { stood == 30 } else { stood >= 10 }, "{sample}");
        }
    }
}

#[test]
fn all_reconnect_and_resume_at_once() {
    let cells = r#"
[[cells]]
transport = ["websocket", "sse", "http-streaming", "forever-frame"]
connections = 30
interval_us = 5000
tls = [false, true]
subjects = ["thalweg"]
"#;
    let samples = bench("stampede", "stampede", cells);
    assert_whole(&samples, 8);
    for sample in samples {
        assert_eq!(sample["traffic"]["events"], 30, "{sample}");
    }
}

#[test]
fn slow_readers_leave_the_ledger_complete() {
    let cells = r#"
[[cells]]
connections = 10
slow = 3
slow_bytes_per_s = 2000
rate = 200
event_bytes = 10000
receive_buffer_bytes = 4096
tls = [false, true]
subjects = ["thalweg"]
"#;
    assert_whole(&bench("slow", "published-load", cells), 2);
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
tls = [false, true]
subjects = ["thalweg"]
[[cells]]
connections = 1
requests = 20
tls = true
subjects = ["thalweg"]
"#;
    let samples = bench("round-trips", "round-trip", cells);
    assert_whole(&samples, 2 + 8 + 1);
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
tls = [false, true]
subjects = ["thalweg"]
"#;
    let samples = bench("echo", "echo", cells);
    assert_whole(&samples, 10);
    for sample in samples {
        assert_eq!(sample["round_trips"]["count"], 20, "{sample}");
    }
}

#[test]
fn a_starved_swarm_says_so() {
    let cores = allowed_cores();
    if cores.len() < 2 {
        // Subject and load generator share the core, so that no sample is valid.
        return;
    }
    let _alone = CORES.write().unwrap_or_else(PoisonError::into_inner);
    // The load generator uses the core after the subject's. This many busy processes leave it a 13th of the
    // core, far less than other load on the machine leaves the subject.
    let core = cores[1].to_string();
    let mut hogs: Vec<Child> = (0..12)
        .map(|_| {
            let mut hog = Command::new("taskset");
            hog.args(["-c", &core, "sh", "-c", "while :; do :; done"]);
            hog.spawn().expect("taskset, of util-linux")
        })
        .collect();
    let cells = r#"
[[cells]]
event_bytes = 1024
connections = 50
"#;
    // If another process uses the subject's core, the sample is the machine's fault: one of a few is not.
    let mut said = Vec::new();
    while said.len() < 12 && !said.iter().any(|(verdict, _)| verdict == "swarm") {
        for sample in bench_alone("starved", "published-load", cells, &[]) {
            said.push((sample["verdict"].clone(), sample["why"].to_string()));
        }
    }
    for hog in &mut hogs {
        let _ = hog.kill();
        let _ = hog.wait();
    }
    if said.iter().all(|(verdict, _)| verdict == "machine" || verdict.is_object()) {
        return skipped("a starved swarm: other programs had the subject's core in all samples");
    }
    let starved = said.iter().find(|(verdict, _)| verdict == "swarm");
    let (_, why) = starved.unwrap_or_else(|| panic!("nobody said so: {said:?}"));
    assert!(why.contains("the swarm was kept from its core for"), "{why}");
}

fn allowed_cores() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").expect("read own status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.expect("a list of cores").trim().split(',');
    ranges
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<usize>().expect("a core");
            number(first)..=number(last)
        })
        .collect()
}

#[test]
fn publishing_with_and_without_tls() {
    let cells = r#"
[[cells]]
request = ["ndjson", "single"]
connections = 3
tls = [false, true]
subjects = ["thalweg"]
"#;
    let samples = bench("publish", "publish", cells);
    assert_eq!(samples.len(), 4);
    for sample in samples {
        assert!(sample["traffic"]["events"].as_u64() > Some(0), "{sample}");
    }
}

/// Returns the begins and ends of two subjects, in order.
fn lives(drive: &str, concurrent: bool) -> Vec<&'static str> {
    let _shared = CORES.read().unwrap_or_else(PoisonError::into_inner);
    let folder = folder(&format!("lives-{drive}-{concurrent}"));
    let rate = if drive == "published-load" { "rate = 100" } else { "interval_us = 10000" };
    let scenario = format!(
        "name = \"x\"\ndrive = \"{drive}\"\nrepeats = 1\nrounds = 1\nwarm_up_ms = 50\nmeasured_ms = 300\n\
         concurrent = {concurrent}\n[defaults]\n{rate}\nconnections = 3\n\
         [[subjects]]\nprogram = \"thalweg\"\n"
    );
    let (_, samples) = run(&folder, &scenario, |command| command);
    assert_whole(&samples, 2);
    let log = std::fs::read_to_string(folder.join("run/subjects.log")).expect("what they said");
    let said = |line: &str| match line {
        line if line.contains("Ctrl-C stops the server") => Some("begin"),
        line if line.contains("drained") => Some("end"),
        _ => None,
    };
    log.lines().filter_map(said).collect()
}

#[test]
fn subjects_live_side_by_side_or_one_after_the_other() {
    let side_by_side = ["begin", "begin", "end", "end"];
    assert_eq!(lives("published-load", false), side_by_side, "they take turns");
    assert_eq!(lives("published-load", true), side_by_side, "at the same time");
    // This subject generates its own load, and so cannot pause.
    assert_eq!(lives("generated-load", false), ["begin", "end", "begin", "end"]);
}
