//! Thresholds of a run: `--fail-if`, `--junit`.

use std::fs;

use thalweg_testing::undisturbed;

use super::place::{Place, has_cores};

#[test]
fn thresholds_fail_a_run_when_everything_is_saved() {
    if !has_cores() {
        return;
    }
    undisturbed(thresholds_fail_it);
}

fn thresholds_fail_it() {
    let place = Place::new("fail-if");
    let threshold = ["--fail-if", "thalweg:p99>0us", "--junit", "results.xml"];
    let failed = place.take("run-a", &threshold);
    failed.ended_with(1);
    let reason = "thalweg-lab: --fail-if: tiny · websocket 2 × 128 B W4 · thalweg: p99 is ";
    assert!(failed.stderr.contains(reason), "{}", failed.stderr);
    assert!(failed.stderr.contains(", fail if thalweg:p99>0us\n"), "{}", failed.stderr);
    assert_eq!(place.json("run-a", "summary.json")["name"], "tiny");
    let xml = fs::read_to_string(place.folder.join("results.xml")).expect("a file");
    assert!(xml.contains("failures=\"1\"") && xml.contains("fail if thalweg:p99&gt;0us"), "{xml}");

    let show = |threshold: &str| {
        place.bench(&["show", "run-a", "--store", "store", "--fail-if", threshold])
    };
    show("cpu-ratio>1000").ended_with(0);
    show("thalweg:cpu-ratio>0").ended_with(1);
    // A threshold without a figure fails.
    let unknown = show("round-trip>1us");
    unknown.ended_with(1);
    assert!(
        unknown.stderr.contains("nothing here has a figure for round-trip"),
        "{}",
        unknown.stderr
    );
    let refusal = show("p9>1ms");
    refusal.ended_with(2);
    let sentence = "there is no metric `p9`; did you mean `p99`?";
    assert!(refusal.stderr.contains(sentence), "{}", refusal.stderr);
    let refusal = show("thalweg:p99<50ms");
    refusal.ended_with(2);
    assert!(refusal.stderr.contains("write 'thalweg:p99>=50ms'"), "{}", refusal.stderr);
    let listed = place.bench(&["--metrics"]);
    listed.ended_with(0);
    let line = "interval-max                  lower is better   us, µs, ms, s\n";
    assert!(listed.stdout.contains(line), "{}", listed.stdout);
}

#[test]
fn a_broken_subject_passes_no_threshold() {
    if !has_cores() {
        return;
    }
    // A busy machine leaves no valid sample of the other subject, either.
    undisturbed(break_one);
}

fn break_one() {
    let place = Place::new("broken");
    place.take("run-a", &[]).ended_with(0);
    place.change_samples("run-a", |samples| {
        for sample in samples.iter_mut().filter(|sample| sample["subject"] == 1) {
            sample["verdict"] = serde_json::json!({ "invalid": "3 missing" });
        }
    });
    let thresholds = ["--fail-if", "p99>1000s", "--fail-if", "rss>1000MiB"];
    let words = ["show", "run-a", "--store", "store", "--junit", "results.xml"];
    let shown = place.bench(&[&words[..], &thresholds[..]].concat());
    shown.ended_with(1);
    let reason = "thalweg: no sample counts, fail if p99>1000s: invalid: 3 missing\n";
    assert!(shown.stderr.contains(reason), "{}", shown.stderr);
    let xml = fs::read_to_string(place.folder.join("results.xml")).expect("a file");
    let failures = ["<failure ", "type=\"invalid\""].map(|what| xml.matches(what).count());
    assert_eq!(failures, [1, 1], "{xml}");
}
