//! Who adds to a run, and how what was broken off is brought to an end.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::super::harness::{Program, wait_for};
use super::place::{Place, TINY, has_cores};

#[test]
fn a_run_that_is_running_is_left_alone() {
    let place = Place::with("running", &TINY.replace("repeats = 2", "repeats = 200"));
    let words = ["tiny.toml", "--out", "store/run-a"];
    let mut program = Program::start(&mut place.command(&words));
    wait_for("a sample", || (!place.slots("run-a").is_empty()).then_some(()));
    let refused = |words: &[&str]| {
        let said = place.bench(words);
        said.ended_with(2);
        let (start, end) =
            ("thalweg: store/run-a is still running (process ", "or end it with Ctrl-C\n");
        assert!(said.stderr.starts_with(start) && said.stderr.ends_with(end), "{}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    };
    refused(&["continue", "run-a", "--store", "store"]);
    refused(&["continue", "run-a", "--store", "store", "--invalid", "--force"]);
    refused(&words);
    let list = || place.bench(&["list", "--store", "store"]).ended_with(0).to_owned();
    let running = list();
    assert!(running.contains("\n  still running (process "), "{running}");
    assert!(!running.contains("continue"), "{running}");
    program.interrupt();
    assert_eq!(program.end().0.code(), Some(130));
    // Nobody else has added to it.
    let mut slots = place.slots("run-a");
    let taken = slots.len();
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), taken);
    let over = list();
    assert!(over.contains("ended early: `thalweg bench continue store/run-a` takes"), "{over}");
    assert!(!over.contains("still running"), "{over}");
    assert!(!place.file("run-a", "lock").exists());
}

#[test]
fn the_usual_store_needs_no_path() {
    let place = Place::new("usual");
    let run = "thalweg-runs/run-a";
    place.bench(&["tiny.toml", "--out", run, "--repeats", "1"]);
    fs::remove_file(place.folder.join(run).join("summary.json")).expect("a file of a run");
    let list = place.bench(&["list"]);
    assert!(list.ended_with(0).contains("`thalweg bench continue run-a`"), "{}", list.stdout);
}

#[test]
fn a_run_killed_in_the_middle_is_ended_by_continue() {
    if !has_cores() {
        return;
    }
    let place = Place::with("kill", &TINY.replace("repeats = 2", "repeats = 3"));
    let mut program = Program::start(&mut place.command(&["tiny.toml", "--out", "store/run-a"]));
    wait_for("a sample", || (!place.slots("run-a").is_empty()).then_some(()));
    program.kill();
    program.end();
    place.end_processes();
    let kept = place.slots("run-a").len();
    assert!((1..6).contains(&kept), "{kept}");
    assert_eq!(place.json("run-a", "manifest.json")["ended"], "");
    assert!(!place.file("run-a", "summary.json").exists());
    let list = place.bench(&["list", "--store", "store"]);
    assert!(list.ended_with(0).contains("`thalweg bench continue store/run-a`"), "{}", list.stdout);

    place.bench(&["continue", "run-a", "--store", "store"]).ended_with(0);
    let mut slots = place.slots("run-a");
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), 6);
    let summary = place.json("run-a", "summary.json");
    let rows = summary["parts"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["samples"]).collect::<Vec<_>>(), [3, 3]);
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(summary["manifest"], manifest);
    assert!(manifest["ended"].as_str().is_some_and(|ended| !ended.is_empty()));
    let continued = &manifest["continued"][0];
    for key in ["cpu", "cores", "kernel"] {
        assert_eq!(continued["machine"][key], manifest["machine"][key], "{key}");
    }
    for name in ["table.txt", "summary.csv", "report.html", "report.md"] {
        assert!(!place.text("run-a", name).is_empty(), "{name}");
    }
    let again = place.bench(&["continue", "run-a", "--store", "store"]);
    again.ended_with(2);
    assert!(again.stderr.contains("nothing to continue"), "{}", again.stderr);
}

/// With every sample and without an end.
#[test]
fn a_run_killed_before_its_report_is_ended_by_continue() {
    if !has_cores() {
        return;
    }
    let place = Place::new("report");
    place.take("run-a", &[]).ended_with(0);
    for name in ["summary.json", "report.html"] {
        fs::remove_file(place.file("run-a", name)).expect("a file of a run");
    }
    let samples = place.text("run-a", "samples.jsonl");
    place.bench(&["continue", "run-a", "--store", "store"]).ended_with(0);
    assert_eq!(place.text("run-a", "samples.jsonl"), samples);
    assert!(!place.text("run-a", "report.html").is_empty());
    assert_eq!(place.json("run-a", "manifest.json")["continued"][0]["samples"], 0);
}

#[test]
fn who_continues_is_noted_before_the_first_sample() {
    let place = Place::new("noted");
    place.take("run-a", &[]);
    place.change_samples("run-a", |samples| drop(samples.pop()));
    // It never answers, so that no sample ends.
    let silent = place.folder.join("silent");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo silent && exit\nexec sleep 600\n";
    fs::write(&silent, script).expect("write a script");
    let run = Command::new("chmod").arg("+x").arg(&silent).status();
    assert!(run.is_ok_and(|status| status.success()));
    let words = ["continue", "run-a", "--store", "store", "--force", "--thalweg", "./silent"];
    let mut program = Program::start(&mut place.command(&words));
    let continued = || {
        let manifest: Value = serde_json::from_str(&place.text("run-a", "manifest.json")).ok()?;
        manifest["continued"].get(0).cloned()
    };
    let continued = wait_for("a note", continued);
    assert_eq!(place.slots("run-a").len(), 3);
    assert_eq!((&continued["measured"], &continued["ended"]), (&"silent".into(), &"".into()));
    let sleeps = || place.processes().into_iter().find(|line| line.starts_with("sleep "));
    wait_for("a subject", sleeps);
    program.kill();
    program.end();
    place.end_processes();
    let shown = place.bench(&["show", "run-a", "--store", "store"]);
    let shown = shown.ended_with(0);
    assert!(shown.contains("\ncontinued at 20") && shown.contains("not ended: "), "{shown}");
    assert!(shown.contains(", measured silent, on "), "{shown}");
    assert!(shown.contains("The same for all subjects: tiny: "), "{shown}");
}
