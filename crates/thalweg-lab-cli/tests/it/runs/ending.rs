//! Running, interrupted and killed runs.

use std::fs;
use std::process::Command;

use thalweg_testing::{Program, wait_for};

use super::place::{Place, TINY};

#[test]
fn a_running_run_is_locked_and_a_killed_one_keeps_its_samples() {
    let place = Place::with("running", &TINY.replace("repeats = 2", "repeats = 200"));
    let words = ["tiny.toml", "--out", "store/run-a"];
    let mut program = Program::start(&mut place.command(&words));
    wait_for("a sample", || (!place.slots("run-a").is_empty()).then_some(()));
    let refused = |words: &[&str]| {
        let said = place.bench(words);
        said.ended_with(2);
        let sentence =
            "thalweg-lab: store/run-a is still running: wait for its end, or end it with Ctrl-C\n";
        assert_eq!(said.stderr, sentence);
    };
    refused(&words);
    let list = || place.bench(&["list", "--store", "store"]).ended_with(0).to_owned();
    let running = list();
    assert!(running.contains("\n  still running\n"), "{running}");
    program.kill();
    program.end();
    place.end_processes();
    // No other process has added samples.
    let mut slots = place.slots("run-a");
    let taken = slots.len();
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), taken);
    let over = list();
    assert!(over.contains("\n  ended early\n") && !over.contains("still running"), "{over}");
    let shown = place.bench(&["show", "run-a", "--store", "store"]);
    assert!(shown.ended_with(0).contains(&format!("{taken} of 400 samples")), "{}", shown.stdout);
}

#[test]
fn an_interrupted_run_leaves_no_process_and_keeps_its_samples() {
    let place = Place::with("interrupt", &TINY.replace("repeats = 2", "repeats = 6"));
    let words = ["tiny.toml", "--out", "store/run-a", "--store", "store"];
    let mut program = Program::start(&mut place.command(&words));
    wait_for("a sample", || (!place.slots("run-a").is_empty()).then_some(()));
    wait_for("a subject", || (place.processes().len() >= 2).then_some(()));
    program.interrupt();
    let (status, said) = program.end();
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(place.processes(), [""; 0]);
    let kept = place.slots("run-a").len();
    assert!((1..12).contains(&kept), "{kept}");
    // A start is stored completely or not at all.
    assert_eq!(kept % 2, 0);
    assert!(said.contains(&format!("Interrupted: {kept} of 12 samples were kept.")), "{said}");
    assert_eq!(place.json("run-a", "manifest.json")["was_interrupted"], true);
    let list = place.bench(&["list", "--store", "store"]).ended_with(0).to_owned();
    assert!(list.contains(&format!("{kept} of 12 samples")), "{list}");
    assert!(list.contains("\n  ended early\n"), "{list}");

    // The run continues in its folder, without repeating or omitting a sample.
    let before = place.text("run-a", "samples.jsonl");
    let go_on = || place.bench(&["continue", "run-a", "--store", "store", "--quiet"]);
    let continued = go_on();
    assert_ne!(continued.stdout, "", "{}", continued.stderr);
    assert!(place.text("run-a", "samples.jsonl").starts_with(&before));
    let mut slots = place.slots("run-a");
    slots.sort();
    slots.dedup();
    assert_eq!((slots.len(), place.slots("run-a").len()), (12, 12));
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(manifest["was_interrupted"], false);
    assert_eq!(manifest["continued"].as_array().map(Vec::len), Some(1));
    let again = go_on();
    again.ended_with(2);
    assert_eq!(
        again.stderr,
        "thalweg-lab: `run-a` is complete; start a new run with `thalweg-lab bench rerun`\n"
    );
}

#[test]
fn a_run_is_continued_only_with_the_same_binary_and_machine() {
    let place = Place::with("others", &TINY.replace("repeats = 2", "repeats = 1"));
    place.take("run-a", &[]);
    let mut manifest = place.json("run-a", "manifest.json");
    manifest["was_interrupted"] = true.into();
    for (key, what) in
        [("version", "version of the lab"), ("measured", "build of Thalweg"), ("cpu", "machine")]
    {
        let mut other = manifest.clone();
        match key {
            "cpu" => other["machine"]["cpu"] = "another".into(),
            key => other[key] = "another".into(),
        }
        fs::write(place.file("run-a", "manifest.json"), other.to_string()).expect("write");
        let said = place.bench(&["continue", "run-a", "--store", "store"]);
        said.ended_with(2);
        let sentence = format!("`run-a` was begun with another {what}, and figures of both");
        assert!(said.stderr.contains(&sentence), "{}", said.stderr);
    }
}

#[test]
fn a_second_interrupt_ends_at_once_and_leaves_no_process() {
    let place = Place::new("twice");
    // This program never answers, so that the lab waits for it.
    let silent = place.folder.join("silent");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exit\nexec sleep 600\n";
    fs::write(&silent, script).expect("write a script");
    let run = Command::new("chmod").arg("+x").arg(&silent).status();
    assert!(run.is_ok_and(|status| status.success()));
    let words = ["tiny.toml", "--out", "store/run-a", "--thalweg", "./silent"];
    let mut program = Program::start(&mut place.command(&words));
    let sleeps = || place.processes().into_iter().find(|line| line.starts_with("sleep "));
    wait_for("a subject", sleeps);
    // Signals that are pending together are delivered once.
    wait_for("the end", || {
        program.interrupt();
        program.said().contains("Ended at once").then_some(())
    });
    let (status, said) = program.end();
    assert_eq!(status.code(), Some(130), "{said}");
    wait_for("no process", || place.processes().is_empty().then_some(()));
}

#[test]
fn a_killed_run_is_read_without_its_half_line() {
    let place = Place::new("killed");
    place.take("run-a", &[]);
    // The folder is in the state after a kill during a write: no summary, and half a line.
    for name in ["summary.json", "summary.csv", "table.txt"] {
        fs::remove_file(place.file("run-a", name)).expect("a file of a run");
    }
    let text = place.text("run-a", "samples.jsonl");
    fs::write(place.file("run-a", "samples.jsonl"), &text[..text.len() - 20]).expect("write");
    let mut manifest = place.json("run-a", "manifest.json");
    manifest["ended"] = "".into();
    fs::write(place.file("run-a", "manifest.json"), manifest.to_string()).expect("write");

    let shown = place.bench(&["show", "run-a", "--store", "store"]);
    assert!(shown.ended_with(0).contains("3 of 4 samples"), "{}", shown.stdout);
    assert_eq!(
        shown.stderr,
        "run-a: the last line of samples.jsonl is half-written, as when a run is killed: left \
         out\n"
    );
    assert!(place.bench(&["list", "--store", "store"]).stdout.contains("\n  ended early\n"));
    // The report has the existing samples.
    let page = place.bench(&["export", "run-a", "--store", "store", "--format", "html"]);
    assert!(page.ended_with(0).starts_with("<!doctype html>"), "{}", page.stdout);
}
