//! Runs as things that stay: listed, shown, continued, run again, and
//! held to conditions. Figures are looked at only for being there.

mod adding;
mod endpoints;
mod place;
mod secrets;

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::harness::{Program, wait_for};
use place::{Place, THALWEG, TINY, has_cores, rounded};

#[test]
fn runs_are_listed_shown_and_exported() {
    if !has_cores() {
        return;
    }
    let place = Place::new("look");
    place.take("run-a", &[]).ended_with(0);
    place.take("run-b", &["--set", "connections=[2,3]"]).ended_with(0);
    let ask = |words: &[&str]| {
        let said = place.bench(&[words, &["--store", "store"]].concat());
        assert_eq!(said.stderr, "");
        said.ended_with(0).to_owned()
    };
    let table = ask(&["show", "run-a"]);
    assert!(table.contains(&place.text("run-a", "table.txt")), "{table}");
    assert_eq!(ask(&["show", "last"]), ask(&["show", "n-b"]));
    let list: Value = serde_json::from_str(&ask(&["list", "--json"])).expect("JSON");
    assert_eq!((&list[0]["name"], &list[1]["taken"]), (&"run-a".into(), &8.into()));
    let list = ask(&["list"]);
    let name = "run-a\n";
    assert!(list.contains(name) && list.contains(" the CPU per event of limit "), "{list}");

    for format in ["json", "csv"] {
        let exported = ask(&["export", "run-a", "--format", format]);
        let saved = place.text("run-a", &format!("summary.{format}"));
        assert_eq!(rounded(&exported), rounded(&saved));
    }
    assert_eq!(ask(&["export", "run-a", "--format", "junit", "--out", "a.xml"]), "");
    let xml = fs::read_to_string(place.folder.join("a.xml")).expect("a file");
    assert_eq!(xml.matches("<testcase ").count(), 2, "{xml}");
}

#[test]
fn no_file_of_a_run_knows_where_this_machine_keeps_things() {
    let place = Place::new("paths");
    let (scenario, out) = (place.folder.join("tiny.toml"), place.folder.join("store/run-a"));
    let words = [&*scenario.to_string_lossy(), "--thalweg", THALWEG, "--out"];
    place.bench(&[&words[..], &[&*out.to_string_lossy()]].concat());
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(manifest["command_line"], "thalweg bench tiny.toml --thalweg thalweg --out run-a");
    assert_eq!(manifest["measured"], manifest["version"]);
    assert!(manifest["machine"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    for entry in fs::read_dir(out).expect("a folder").flatten() {
        let text = fs::read_to_string(entry.path()).expect("text");
        for folder in [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR")] {
            assert!(!text.contains(folder), "{} has {folder}", entry.path().display());
        }
    }
}

#[test]
fn an_interrupted_run_leaves_no_process_and_is_continued() {
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
    assert!(
        said.contains(&format!(
            "Interrupted: {kept} of 12 samples were kept; `thalweg bench continue store/run-a`"
        )),
        "{said}"
    );
    assert_eq!(place.json("run-a", "manifest.json")["was_interrupted"], true);
    let list = place.bench(&["list", "--store", "store"]);
    assert!(list.ended_with(0).contains(&format!("{kept} of 12 samples")), "{}", list.stdout);

    let continued = place.bench(&["continue", "last", "--store", "store"]);
    assert!(continued.stdout.contains("Everything is in store/run-a"), "{}", continued.stderr);
    let mut slots = place.slots("run-a");
    // A start is kept whole or not at all.
    assert_eq!(kept % 2, 0);
    let taken = slots.len();
    assert_eq!(taken, 12);
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), 12);
    assert_eq!(place.text("run-a", "histograms.jsonl").lines().count(), taken);
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(manifest["was_interrupted"], false);
    assert_eq!(manifest["continued"][0]["samples"], taken - kept);
    assert_eq!(manifest["continued"][0]["version"], manifest["version"]);

    let again = place.bench(&["continue", "run-a", "--store", "store"]);
    again.ended_with(2);
    assert_eq!(again.stderr, "thalweg: run-a lacks no sample: nothing to continue\n");
}

#[test]
fn a_second_interrupt_ends_at_once_and_leaves_no_process() {
    let place = Place::new("twice");
    // It never answers, so that the lab waits for it.
    let silent = place.folder.join("silent");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && exit\nexec sleep 600\n";
    fs::write(&silent, script).expect("write a script");
    let run = Command::new("chmod").arg("+x").arg(&silent).status();
    assert!(run.is_ok_and(|status| status.success()));
    let words = ["tiny.toml", "--out", "store/run-a", "--thalweg", "./silent"];
    let mut program = Program::start(&mut place.command(&words));
    let sleeps = || place.processes().into_iter().find(|line| line.starts_with("sleep "));
    wait_for("a subject", sleeps);
    // Signals that wait for one another are one signal.
    wait_for("the end", || {
        program.interrupt();
        program.said().contains("Ended at once").then_some(())
    });
    let (status, said) = program.end();
    assert_eq!(status.code(), Some(130), "{said}");
    wait_for("no process", || place.processes().is_empty().then_some(()));
}

#[test]
fn a_killed_run_is_read_without_its_half_line_and_continued() {
    let place = Place::new("killed");
    place.take("run-a", &[]);
    // As if it had been killed while it wrote: no end, no summary, half a line.
    for name in ["summary.json", "summary.csv", "table.txt"] {
        fs::remove_file(place.file("run-a", name)).expect("a file of a run");
    }
    let text = place.text("run-a", "samples.jsonl");
    fs::write(place.file("run-a", "samples.jsonl"), &text[..text.len() - 20]).expect("write");
    let mut manifest = place.json("run-a", "manifest.json");
    manifest["ended"] = "".into();
    let version = manifest["version"].clone();
    manifest["version"] = "0.0.1".into();
    fs::write(place.file("run-a", "manifest.json"), manifest.to_string()).expect("write");

    let shown = place.bench(&["show", "run-a", "--store", "store"]);
    assert!(shown.ended_with(0).contains("3 of 4 samples"), "{}", shown.stdout);
    assert_eq!(
        shown.stderr,
        "run-a: the last line of samples.jsonl is half-written, as when a run is killed: left \
         out\n"
    );
    let refused = place.bench(&["continue", "run-a", "--store", "store"]);
    refused.ended_with(2);
    assert!(refused.stderr.contains("run-a was begun with 0.0.1"), "{}", refused.stderr);
    assert_eq!(place.text("run-a", "samples.jsonl").len(), text.len() - 20);
    place.bench(&["continue", "run-a", "--store", "store", "--force", "--quiet"]);
    // The last repeat is taken whole.
    assert_eq!(place.slots("run-a").len(), 3 + 2);
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(
        (&manifest["version"], &manifest["continued"][0]["version"]),
        (&"0.0.1".into(), &version)
    );
    assert!(!place.text("run-a", "summary.csv").is_empty());
}

#[test]
fn what_does_not_count_is_taken_again() {
    if !has_cores() {
        return;
    }
    let place = Place::new("invalid");
    place.take("run-a", &[]).ended_with(0);
    place.change_samples("run-a", |samples| {
        // Whatever a busy machine has made of the others.
        samples.iter_mut().for_each(|sample| sample["verdict"] = "schedule".into());
        samples[0]["verdict"] = serde_json::json!({ "invalid": "3 missing" });
    });
    let shown = place.bench(&["show", "run-a", "--store", "store"]);
    assert!(shown.ended_with(0).contains("1 of 2 invalid: 3 missing"), "{}", shown.stdout);
    place.bench(&["continue", "run-a", "--store", "store"]).ended_with(2);
    let again = place.bench(&["continue", "run-a", "--store", "store", "--invalid"]);
    assert!(!again.ended_with(0).contains("3 missing"), "{}", again.stdout);
    // With its partner, as samples are compared that were taken side by side.
    let mut slots = place.slots("run-a");
    slots[..2].sort();
    slots[4..].sort();
    assert_eq!((slots.len(), &slots[..2]), (6, &slots[4..]));
}

#[test]
fn a_plan_is_run_again_in_a_new_folder() {
    let place = Place::new("rerun");
    place.take("run-a", &["--repeats", "1", "--subject", "limit"]);
    let words = ["rerun", "run-a", "--store", "store", "--out", "store/run-b", "--quiet"];
    let again = place.bench(&words);
    assert_eq!(again.stdout, "store/run-b\n", "{}", again.stderr);
    assert_eq!(place.text("run-a", "plan.json"), place.text("run-b", "plan.json"));
    assert_eq!(place.slots("run-b").len(), 1);
    assert_eq!(place.json("run-b", "manifest.json")["rerun_of"], "run-a");
    place.bench(&words).ended_with(2);
    // Without a folder it gets one in the store.
    let named = place.bench(&["rerun", "run-b", "--store", "store", "--quiet"]);
    let folder = named.stdout.trim_end();
    assert!(folder.starts_with("store/20") && folder.ends_with("-tiny"), "{folder}");
}

#[test]
fn conditions_fail_a_run_when_everything_is_saved() {
    if !has_cores() {
        return;
    }
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
    // What was not found out is not passed.
    let unknown = show("parts.rows.round_trip.mean_us > 1");
    unknown.ended_with(1);
    assert!(unknown.stderr.contains("nothing here has a figure at"), "{}", unknown.stderr);
    let refusal = show("parts.rows.thalweq.valid < 1");
    refusal.ended_with(2);
    let sentence = "thalweg: parts.rows: there is no step `thalweq`; did you mean `thalweg`?\n";
    assert_eq!(refusal.stderr, sentence);
}

#[test]
fn what_is_broken_passes_no_condition() {
    if !has_cores() {
        return;
    }
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

#[test]
fn a_command_comes_first() {
    let place = Place::new("order");
    let refusal = |words: &[&str]| {
        let said = place.bench(words);
        said.ended_with(2);
        said.stderr
    };
    let sentence = |word: &str, name: &str| {
        format!(
            "thalweg: `{word}` stands before `{name}`: the command comes first and its options \
             behind it, which `thalweg bench {name} --help` names\n"
        )
    };
    assert_eq!(refusal(&["--quick", "list"]), sentence("--quick", "list"));
    assert_eq!(refusal(&["--store", "store", "list"]), sentence("--store", "list"));
    assert_eq!(refusal(&["-q", "show", "last"]), sentence("-q", "show"));
    assert_eq!(refusal(&["tiny.toml", "continue", "last"]), sentence("tiny.toml", "continue"));
    // What an option is given is no command.
    place.bench(&["list", "--store", "list"]).ended_with(0);
}

#[test]
fn a_list_has_the_figure_of_the_summary() {
    if !has_cores() {
        return;
    }
    let place = Place::with("figure", &format!("{TINY}rate = 50\n"));
    place.take("run-a", &[]).ended_with(0);
    let list = place.bench(&["list", "--store", "store"]);
    assert!(list.ended_with(0).contains(" of limit "), "{}", list.stdout);
}

#[test]
fn what_is_asked_for_in_vain_is_refused_before_anything_is_measured() {
    let place = Place::new("misuse");
    let refusal = |words: &[&str]| {
        let said = place.take("run-a", words);
        said.ended_with(2);
        assert!(!place.file("run-a", "plan.json").exists());
        said.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let refusals = [
        refusal(&["--fail-if", "parts.rows.latency.p95_us > 5"]),
        refusal(&["--fail-if", "parts.tiny.pooled.thalweq.cpu > 5"]),
        refusal(&["--set", "conections=5"]),
        refusal(&["--repeats", "0"]),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
    let named = |words: &[&str]| {
        let said = place.bench(words);
        said.ended_with(2);
        said.stderr
    };
    insta::assert_snapshot!(
        [
            named(&["fanuot"]),
            named(&["nowhere.toml"]),
            named(&["show", "last"]),
            named(&["show", "x", "--store", "nowhere"]),
        ]
        .concat()
    );
}

#[test]
fn quiet_and_json_say_what_they_promise() {
    if !has_cores() {
        return;
    }
    let place = Place::new("modes");
    let quiet = place.take("run-a", &["--quiet", "--repeats", "1"]);
    assert_eq!((quiet.ended_with(0), &*quiet.stderr), ("store/run-a\n", ""));
    let json = place.take("run-b", &["--json", "--repeats", "1"]);
    let summary: Value = serde_json::from_str(json.ended_with(0)).expect("JSON and nothing else");
    assert_eq!(summary, place.json("run-b", "summary.json"));
    assert!(json.stderr.starts_with("a tiny load: 1 cell, about 0:0"), "{}", json.stderr);
}

#[test]
fn a_peer_is_built_quietly_if_so_asked() {
    let scenario = format!("{TINY}[[subjects]]\nprogram = \"made\"\n");
    let place = Place::with("build", &scenario);
    let rogue = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subjects/rogue/rogue.py");
    let peer = place.folder.join("peers/made");
    fs::create_dir_all(&peer).expect("make a folder");
    fs::copy(rogue, peer.join("rogue.py")).expect("copy a file");
    let write = |build: &str| {
        let text = format!(
            "name = \"made\"\ntitle = \"made of nothing\"\ndialect = \"thalweg\"\n\
             drives = [\"posted\"]\nbuild = [\"sh\", \"-c\", \"{build}\"]\n\
             command = [\"python3\", \"{{folder}}/rogue.py\", \"--listen\", \"{{listen}}\", \
             \"--sin\", \"none\"]\n"
        );
        fs::write(peer.join("subject.toml"), text).expect("write a file");
    };
    let take = |run: &str, words: &[&str]| {
        let own = ["--repeats", "1", "--peers", "peers"];
        place.take(run, &[&own[..], words].concat())
    };
    write("echo compiling >&2; exit 3");
    let failed = take("run-a", &["--quiet"]);
    failed.ended_with(1);
    let said = failed.stderr.as_str();
    assert!(said.starts_with("thalweg: the subject `made` cannot be built: "), "{said}");
    assert!(said.ends_with(" failed\ncompiling\n"), "{said}");

    let works = "echo compiling >&2; mkdir -p build; echo made > {out}";
    write(works);
    let quiet = take("run-b", &["--quiet"]);
    assert!(peer.join("build/made").exists(), "{}", quiet.stderr);
    assert!(!quiet.stderr.contains("build") && !quiet.stderr.contains("compiling"));
    if has_cores() {
        assert_eq!((quiet.ended_with(0), &*quiet.stderr), ("store/run-b\n", ""));
    }
    fs::remove_file(peer.join("build/made")).expect("a program");
    let loud = take("run-c", &[]);
    assert!(loud.stderr.starts_with("building made: sh -c "), "{}", loud.stderr);
    assert!(loud.stderr.contains("\ncompiling\n"), "{}", loud.stderr);
}

#[test]
fn help_lists_the_scenarios_of_the_library() {
    let place = Place::new("help");
    let help = place.bench(&["--help"]);
    let help = help.ended_with(0);
    assert!(help.contains("  all         everything"), "{help}");
    assert!(help.contains("continue") && help.contains("--fail-if"), "{help}");
    assert!(help.contains("Examples:\n  thalweg bench --url ws://"), "{help}");
}
