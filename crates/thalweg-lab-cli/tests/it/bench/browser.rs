//! `thalweg-lab bench --browser chromium` in small: tabs receive what the server has sent. The tests check no performance figure.

use std::process::{Command, Output};

use serde_json::Value;
use thalweg_testing::{skipped, undisturbed};

use super::{CORES, PEERS, assert_whole, folder, has};
use crate::programs::LAB;

/// The allowed difference between counts of the tabs and of the server, over about the same time.
const APART_MAX: f64 = 0.05;
/// Attempts at a run that the machine does not disturb.
const ATTEMPTS: usize = 6;

fn run(name: &str, scenario: &str) -> Option<Vec<Value>> {
    if !has_chromium() {
        skipped("no Chromium: apt-get install chromium");
        return None;
    }
    let _alone = CORES.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = folder(name);
    let (ran, samples) = super::run(&folder, scenario, |command| {
        command.args(["--browser", "chromium", "--peers", PEERS])
    });
    assert!(!samples.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
    let out = folder.join("run");
    let manifest = std::fs::read_to_string(out.join("manifest.json")).expect("a manifest");
    assert!(manifest.contains("\"browser\": \"Chromium "), "{manifest}");
    assert!(!manifest.contains("HTTP/1.1 in TLS"), "{manifest}");
    let report = std::fs::read_to_string(out.join("report.html")).unwrap_or_default();
    assert!(report.is_empty() || report.contains("tabs of Chromium"), "no word of the browser");
    Some(samples)
}

fn has_chromium() -> bool {
    let ran = Command::new("chromium").arg("--version").output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// Returns the samples of a run, and repeats it while the machine was too busy for a sample that does not
/// fit. Returns `None` if that cannot be tested, or after the last attempt.
fn run_until_fitting(
    name: &str,
    scenario: &str,
    fits: impl Fn(&Value) -> bool,
) -> Option<Vec<Value>> {
    for _ in 0..ATTEMPTS {
        let samples = run(name, scenario)?;
        let is_disturbed = |sample: &Value| sample["verdict"] == "machine" && !fits(sample);
        if !samples.iter().any(is_disturbed) {
            return Some(samples);
        }
    }
    skipped(&format!("{name} in tabs needs a quiet machine"));
    None
}

/// Returns the events that the tabs have received for each that the server has sent to them, and the same for bytes.
fn received_per_sent(sample: &Value, tabs: f64, bytes: &str) -> (f64, f64) {
    let span_s = number(sample, "/span_us") / 1e6;
    let published_per_s = number(sample, "/browser/published_per_s") * tabs;
    let sent_per_s = number(sample, "/browser/sent_bytes_per_s");
    (
        number(sample, "/traffic/events") / span_s / published_per_s,
        number(sample, bytes) / span_s / sent_per_s,
    )
}

/// The bytes that are sent include framing, or line breaks.
fn is_all((events, bytes): (f64, f64)) -> bool {
    (events - 1.0).abs() <= APART_MAX && (0.85..=1.0 + APART_MAX).contains(&bytes)
}

#[test]
fn tabs_have_received_all_sent_events() {
    let scenario = r#"
name = "tabs"
drive = "generated-load"
[defaults]
connections = 3
batch = 10
interval_us = 5000
[browser]
repeats = 1
control = "none"
warm_up_ms = 200
measured_ms = 600
[[browser.cells]]
tls = true
tabs = 2
[[browser.subjects]]
name = "websocket"
program = "thalweg"
[[browser.subjects]]
name = "sse"
program = "thalweg"
with = { transport = "sse" }
[[browser.subjects]]
name = "http-streaming"
program = "thalweg"
with = { transport = "http-streaming", consumer = "raw", worker = true }
"#;
    let ratios = |sample: &Value| received_per_sent(sample, 3.0, "/browser/message_bytes");
    let fits = |sample: &Value| is_all(ratios(sample));
    let Some(samples) = run_until_fitting("tabs", scenario, fits) else { return };
    assert_whole(&samples, 3);
    for sample in samples {
        assert!(fits(&sample), "{:?}: {sample}", ratios(&sample));
        let kinds: Vec<&str> = sample["browser"]["processes"]
            .as_array()
            .expect("processes")
            .iter()
            .filter(|kind| kind["cpu_ns"].as_u64() > Some(0))
            .filter_map(|kind| kind["kind"].as_str())
            .collect();
        assert!(kinds.starts_with(&["tab", "network", "browser"]), "{sample}");
        let has_used = |path| number(&sample, path) > 0.0;
        assert!(has_used("/browser/heap_bytes") && has_used("/subject_cpu_ns"));
        // Each subscription is a stream, WebSockets included, and not only the page.
        assert!(has_fact(&sample, "HTTP of the page", "h2"), "{sample}");
        assert!(has_fact(&sample, "connections over HTTP/2", "3 of 3"), "{sample}");
        // They share a socket.
        assert!(sample["sockets"]["connections"].as_u64().is_some_and(|held| held < 3), "{sample}");
    }
}

/// Rows without an envelope, and rows read by Socket.IO's own client.
#[test]
fn tabs_receive_and_ask_peers_in_their_dialects() {
    if !has("npm") {
        return skipped("peers of Node in a browser: there is no npm");
    }
    let peers = "control = \"none\"\n[[browser.subjects]]\nprogram = \"ws\"\n\
                 [[browser.subjects]]\nprogram = \"socketio\"\n\
                 [[browser.subjects]]\nprogram = \"node-sse\"\nwith = { transport = \"sse\" }\n";
    let scenario = format!(
        "name = \"rows-of-peers\"\ndrive = \"generated-load\"\n[defaults]\nconnections = 3\n\
         batch = 10\ninterval_us = 5000\n[browser]\nrepeats = 1\nwarm_up_ms = 200\n\
         measured_ms = 600\n{peers}"
    );
    // 10 rows every 5 ms for each of 3 tabs, of about 100 bytes each.
    let fits = |sample: &Value| number(sample, "/traffic/events") > 500.0;
    let Some(samples) = run_until_fitting("rows-of-peers", &scenario, fits) else { return };
    assert_whole(&samples, 3);
    for sample in &samples {
        let rows = number(sample, "/traffic/events");
        assert!(fits(sample), "{sample}");
        let bytes = number(sample, "/traffic/wire_bytes") / rows;
        assert!((80.0..200.0).contains(&bytes), "{bytes}: {sample}");
    }
    let scenario = format!(
        "name = \"trips-to-peers\"\ndrive = \"round-trip\"\n[defaults]\nconnections = 1\n\
         requests = 50\n[browser]\nrepeats = 1\n{peers}"
    );
    let Some(samples) = run("trips-to-peers", &scenario) else { return };
    // Server-Sent Events cannot carry replies.
    assert_whole(&samples, 2);
    for sample in &samples {
        assert_eq!(sample["round_trips"]["count"], 50, "{sample}");
    }
}

fn has_fact(sample: &Value, name: &str, value: &str) -> bool {
    let facts = sample["negotiated"]["facts"].as_array().expect("facts");
    facts.contains(&serde_json::json!([name, value]))
}

fn number(sample: &Value, path: &str) -> f64 {
    let found = sample.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {path}: {sample}"))
}

/// Runs a scenario with the subjects `all`: name, rows every 5 ms, and settings. Each tab has received what
/// the server has sent. Returns `None` where that cannot be tested.
fn received(name: &str, warm_up_ms: u32, all: &[(&str, u32, &str)]) -> Option<Vec<Value>> {
    if env!("THALWEG_REPORT_BYTES") == "0" {
        skipped("the programs have no pages: make pages, then build them");
        return None;
    }
    let subject = |(name, rows, with): &(&str, u32, &str)| {
        format!(
            "[[browser.subjects]]\nname = \"{name}\"\nprogram = \"thalweg\"\n\
             with = {{ batch = {rows}, {with} }}\n"
        )
    };
    let subjects: String = all.iter().map(subject).collect();
    let scenario = format!(
        "name = \"{name}\"\ndrive = \"generated-load\"\n[defaults]\nconnections = 1\n\
         interval_us = 5000\n[browser]\nonly = true\nrepeats = 1\ncontrol = \"none\"\n\
         warm_up_ms = {warm_up_ms}\nmeasured_ms = 1000\n[browser.defaults]\n\
         cores = \"shared\"\n{subjects}"
    );
    let ratios = |sample: &Value| received_per_sent(sample, 1.0, "/traffic/wire_bytes");
    let samples = run_until_fitting(name, &scenario, |sample| is_all(ratios(sample)))?;
    assert_whole(&samples, all.len());
    for sample in &samples {
        let (name, ..) = all[index(sample)];
        assert!(is_all(ratios(sample)), "{name}: {:?}: {sample}", ratios(sample));
    }
    Some(samples)
}

fn index(sample: &Value) -> usize {
    sample["subject"].as_u64().expect("a subject") as usize
}

#[test]
fn the_package_has_received_all_sent_events() {
    let all = [
        ("package", 10, "consumer = \"sdk\""),
        ("every value", 10, "consumer = \"rows-every-value\""),
        ("arrow", 10, "transport = \"http-streaming\", consumer = \"arrow\""),
        ("in a worker", 10, "transport = \"http-streaming\", consumer = \"arrow\", worker = true"),
        ("all of arrow", 10, "transport = \"http-streaming\", consumer = \"arrow-every-value\""),
    ];
    received("package", 300, &all);
}

/// From 50,000 events per second on the page requests columns, if they were available for a while.
#[test]
fn the_live_page_has_received_all_sent_events() {
    // A page that has no core cannot keep up, and gets gaps.
    undisturbed(receive_on_live_page);
}

fn receive_on_live_page() {
    let all = [
        ("table", 10, "consumer = \"live-page\""),
        ("table of columns", 500, "consumer = \"live-page\""),
        ("chart of columns", 500, "consumer = \"live-chart\""),
    ];
    let Some(samples) = received("page", 3000, &all) else { return };
    for sample in &samples {
        let (name, rows, _) = all[index(sample)];
        let way = if rows == 500 { "columns of Arrow" } else { "events over a WebSocket" };
        assert!(has_fact(sample, "the live page receives", way), "{sample}");
        assert!(number(sample, "/browser/input/max_us") > 0.0);
        // For each message in the table the sample has the time at which its newest row was painted.
        if name.starts_with("table") {
            let batches = number(sample, "/traffic/events") / f64::from(rows);
            assert!(number(sample, "/browser/painted/messages") > 0.5 * batches, "{sample}");
        }
    }
}

#[test]
fn a_page_makes_round_trips_over_every_transport() {
    let subjects = ["websocket", "sse", "http-streaming", "forever-frame", "long-polling"];
    let subject = |transport: &&str| {
        format!(
            "[[browser.subjects]]\nname = \"{transport}\"\nprogram = \"thalweg\"\n\
             with = {{ transport = \"{transport}\" }}\n"
        )
    };
    let limit = "[[browser.subjects]]\nname = \"limit\"\nprogram = \"limit\"\n";
    let scenario = "name = \"trips\"\ndrive = \"round-trip\"\n[defaults]\nconnections = 1\n\
                    requests = 50\n[browser]\nrepeats = 1\ncontrol = \"none\"\nwarm_up_ms = 10\n";
    let subjects: String = subjects.iter().map(subject).collect();
    let Some(samples) = run("trips", &format!("{scenario}{limit}{subjects}")) else { return };
    assert_whole(&samples, 6);
    for sample in samples {
        assert_eq!(sample["round_trips"]["count"], 50, "{sample}");
        // The lab compares the acks with the Runners, and a sample with shorter ones fails. `limit` echoes.
        assert_eq!(has_fact(&sample, "acks", "whole Runners"), index(&sample) > 0, "{sample}");
        // Without TLS a browser has no HTTP/2.
        let is_polling = index(&sample) == 5;
        let is_counted = has_fact(&sample, "connections over HTTP/2", "0 of 1");
        assert_eq!(is_counted, index(&sample) > 0 && !is_polling, "{sample}");
    }
}

fn said(arguments: &[&str], chromium: &str) -> (Option<i32>, String) {
    let mut command = Command::new(LAB);
    let Output { status, stderr, .. } = command
        .arg("bench")
        .args(arguments)
        .env("THALWEG_CHROMIUM", chromium)
        .output()
        .expect("start the binary");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn without_a_browser_there_is_a_sentence_and_no_run() {
    let (code, text) = said(&["a1", "--browser", "chromium", "--quick"], "/no/chromium");
    assert_eq!(
        (code, text.trim()),
        (
            Some(2),
            "thalweg-lab: there is no Chromium at /no/chromium, which THALWEG_CHROMIUM names: name another, or unset it"
        )
    );
    let (code, text) = said(&["tab"], "/no/chromium");
    assert_eq!(code, Some(2));
    assert!(text.contains("`tab` is measured in a browser: add --browser chromium"), "{text}");
}
