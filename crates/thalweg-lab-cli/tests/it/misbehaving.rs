//! `thalweg-lab bench` detects and names a subject that misbehaves on purpose (`tests/subjects/rogue`), or its
//! percentiles show the fault.

use serde_json::Value;
use thalweg_testing::undisturbed;

use crate::bench::{folder, run};

/// A busy machine may disturb a confirmation. The test then repeats it.
const ATTEMPTS: usize = 5;

struct Seen {
    sample: Value,
    row: Value,
}

impl Seen {
    fn said(&self) -> String {
        format!("{}", self.sample["verdict"])
    }

    /// Returns the p50, p99 and maximum, in µs.
    fn latency_us(&self) -> [f64; 3] {
        ["p50_us", "p99_us", "max_us"]
            .map(|figure| self.row["latency"][figure].as_f64().unwrap_or(f64::NAN))
    }
}

fn measure(sin: &str, arguments: &str, scenario: &str) -> Seen {
    let name = format!("rogue-{sin}-{}", scenario.len());
    let folder = folder(&name);
    let scenario = format!(
        r#"
name = "{name}"
control = "none"
repeats = 1
rounds = 1
{scenario}
[[subjects]]
program = "rogue"
arguments = ["--sin", "{sin}"{arguments}]
"#
    );
    let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subjects");
    let (ran, samples) = run(&folder, &scenario, |command| command.args(["--peers", peers]));
    let text = std::fs::read_to_string(folder.join("run/summary.json")).unwrap_or_default();
    let summary: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ran.stderr)));
    Seen { sample: samples[0].clone(), row: summary["parts"][0]["rows"][0].clone() }
}

const CLOSED_LOOP: &str = r#"
drive = "published-load"
warm_up_ms = 50
measured_ms = 1500
[defaults]
connections = 3
"#;

const OPEN_LOOP: &str = r#"
drive = "published-load"
warm_up_ms = 50
measured_ms = 1500
[defaults]
connections = 3
rate = 200
"#;

const ECHO: &str = r#"
drive = "echo"
warm_up_ms = 50
measured_ms = 100
[defaults]
connections = 1
requests = 20
"#;

/// The fault is detected under each of these drives, and reported with one of these words. A sample that a
/// busy machine limits is repeated.
fn check(sin: &str, drives: &[&str], expected: &[&str]) {
    for drive in drives {
        let mut said = String::new();
        for _ in 0..5 {
            said = measure(sin, "", drive).said();
            if said.contains("invalid") {
                break;
            }
        }
        assert!(said.contains("invalid"), "{sin}: {said}");
        assert!(expected.iter().any(|expected| said.contains(expected)), "{sin}: {said}");
    }
}

#[test]
fn a_subject_without_a_sin_is_whole() {
    for drive in [CLOSED_LOOP, OPEN_LOOP, ECHO] {
        let seen = measure("none", "", drive);
        let ledger = seen.sample["ledger"].as_object().expect("a ledger");
        for (what, count) in ledger {
            assert_eq!(*count != 0, what == "delivered", "{what}: {}", seen.sample);
        }
    }
}

#[test]
fn dropped_events_are_missing() {
    check("drop", &[CLOSED_LOOP, OPEN_LOOP], &[" missing"]);
}

#[test]
fn repeated_events_are_duplicated() {
    check("duplicate", &[CLOSED_LOOP, OPEN_LOOP], &[" duplicated"]);
}

#[test]
fn overtaken_events_are_reordered() {
    check("reorder", &[CLOSED_LOOP, OPEN_LOOP], &[" reordered"]);
}

#[test]
fn changed_events_are_corrupt() {
    check("damage", &[CLOSED_LOOP, OPEN_LOOP], &[" corrupt"]);
}

#[test]
fn a_subject_that_stops_is_silent_or_loses_events() {
    check("stop", &[CLOSED_LOOP, OPEN_LOOP], &[" missing", "silent for 2 s"]);
}

#[test]
fn a_disconnect_is_logged_with_its_author() {
    check("cut", &[CLOSED_LOOP, OPEN_LOOP], &["connection cut", "connections cut"]);
}

#[test]
fn replies_before_their_request_are_early() {
    check("early", &[ECHO], &[" early"]);
}

/// Events of 0.3 s out of every 5 s are lost. In a closed loop too few events would be due to notice it.
#[test]
fn a_stall_shows_in_the_percentiles_of_an_open_loop() {
    undisturbed(|| {
        let seen = measure("stall", "", OPEN_LOOP);
        let [_, p99_us, max_us] = seen.latency_us();
        assert!(p99_us >= 250_000.0 && max_us >= p99_us, "{}", seen.row);
        assert_eq!(seen.sample["ledger"]["missing"], 0);
        assert!(!seen.said().contains("invalid"), "{}", seen.said());
    });
}

/// One second of five passes without a delivery. A fifth of the events is due in it, so the slowest hundredth begins at 950 ms.
#[test]
fn a_freeze_of_one_second_is_950_ms_at_p99() {
    let span = OPEN_LOOP.replace("1500", "5000");
    undisturbed(|| {
        let seen = measure("freeze", r#", "--freeze-after", "1""#, &span);
        let [p50_us, p99_us, max_us] = seen.latency_us();
        let right_us = 902_500.0..=997_500.0;
        assert!(right_us.contains(&p99_us) && max_us >= p99_us, "{}", seen.row);
        assert!(p50_us < 0.1 * p99_us, "{}", seen.row);
    });
}

#[test]
fn a_closed_loop_hides_latency_that_an_open_one_shows() {
    undisturbed(|| {
        let closed = measure("stall", "", CLOSED_LOOP);
        let [p50_us, _, max_us] = closed.latency_us();
        // The load generator sees the stall, but rarely. On a schedule 60 of 100 events are due in a stall,
        // so that half of all are later than 50 of its 300 ms.
        assert!(max_us >= 250_000.0 && p50_us < 0.1 * max_us, "{}", closed.row);
    });
}

#[test]
fn a_ceiling_is_found_and_every_step_is_told() {
    let scenario = OPEN_LOOP.replace("\"published-load\"", "\"ceiling\"").replace("1500", "300")
        + "p99_us_max = 100_000\n";
    let is_met = |step: &Value| step["missed"].is_null();
    // A busy machine may disturb a confirmation.
    let is_found = |seen: &Seen| {
        let last = seen.sample["steps"].as_array().and_then(|steps| steps.last());
        !seen.said().contains("invalid") && last.is_some_and(is_met)
    };
    let mut seen = measure("none", "", &scenario);
    for _ in 1..ATTEMPTS {
        if is_found(&seen) {
            break;
        }
        seen = measure("none", "", &scenario);
    }
    assert!(!seen.said().contains("invalid"), "{}", seen.sample);
    let steps = seen.sample["steps"].as_array().expect("steps");
    // The rate doubles until the objective is missed or the load generator is at its limit.
    assert_eq!(steps[0]["rate"], 200.0);
    assert!(steps.iter().any(is_met) && !steps.iter().all(is_met), "{}", seen.sample);
    let last = steps.last().expect("a step");
    assert!(is_met(last) && last["is_confirmation"] == true, "{last}");
    // Throughput and span are those of the confirmation.
    assert_eq!(last["span_us"], seen.sample["span_us"]);
    assert!(seen.sample["span_us"].as_u64() >= Some(900_000), "{}", seen.sample);
}
