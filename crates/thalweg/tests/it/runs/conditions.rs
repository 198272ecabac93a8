//! Conditions of a run: `--fail-if`, `--junit`.

use std::fs;

use thalweg_testing::undisturbed;

use super::place::{Place, has_cores};

#[test]
fn conditions_fail_a_run_when_everything_is_saved() {
    if !has_cores() {
        return;
    }
    undisturbed(conditions_fail_it);
}

fn conditions_fail_it() {
    let place = Place::new("fail-if");
    let condition =
        ["--fail-if", "parts.rows.thalweg.latency.p99_us > 0", "--junit", "results.xml"];
    let failed = place.take("run-a", &condition);
    failed.ended_with(1);
    let reason = "thalweg: --fail-if: tiny · websocket 2 × 128 B W4 · thalweg: \
                  parts.rows.thalweg.latency.p99_us is ";
    assert!(failed.stderr.contains(reason), "{}", failed.stderr);
    assert!(failed.stderr.contains(", fail if > 0\n"), "{}", failed.stderr);
    assert_eq!(place.json("run-a", "summary.json")["name"], "tiny");
    let xml = fs::read_to_string(place.folder.join("results.xml")).expect("a file");
    assert!(xml.contains("failures=\"1\"") && xml.contains("fail if &gt; 0"), "{xml}");

    let show = |condition: &str| {
        place.bench(&["show", "run-a", "--store", "store", "--fail-if", condition])
    };
    show("parts.tiny.pooled.cpu < 0").ended_with(0);
    show("parts.tiny.pooled.thalweg.cpu > 0").ended_with(1);
    // A condition without a figure fails.
    let unknown = show("parts.rows.round_trip.mean_us > 1");
    unknown.ended_with(1);
    assert!(unknown.stderr.contains("nothing here has a figure at"), "{}", unknown.stderr);
    let refusal = show("parts.rows.thalweq.valid < 1");
    refusal.ended_with(2);
    let sentence = "thalweg: parts.rows: there is no step `thalweq`; did you mean `thalweg`?\n";
    assert_eq!(refusal.stderr, sentence);
}

#[test]
fn a_broken_subject_passes_no_condition() {
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
    let condition = [
        "--fail-if",
        "parts.rows.latency.p99_us > 1e9",
        "--fail-if",
        "parts.rows.memory.rss_bytes < 0",
    ];
    let words = ["show", "run-a", "--store", "store", "--junit", "results.xml"];
    let shown = place.bench(&[&words[..], &condition[..]].concat());
    shown.ended_with(1);
    let reason = "thalweg: no sample counts, so nothing is known of \
                  parts.rows.latency.p99_us, fail if > 1000000000: invalid: 3 missing\n";
    assert!(shown.stderr.contains(reason), "{}", shown.stderr);
    let xml = fs::read_to_string(place.folder.join("results.xml")).expect("a file");
    let failures = ["<failure ", "type=\"invalid\""].map(|what| xml.matches(what).count());
    assert_eq!(failures, [1, 1], "{xml}");
}
