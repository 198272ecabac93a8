//! Stored runs: listed, shown, repeated, and checked against conditions. The tests check only that figures exist.

mod conditions;
mod ending;
mod endpoints;
mod place;
mod secrets;

use std::fs;
use std::process::Command;

use serde_json::Value;
use thalweg_testing::undisturbed;

use crate::programs::{LAB, thalweg};
use place::{Place, TINY, has_cores, rounded};

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
    assert_eq!(list[0]["state"], "over");
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
fn an_archived_run_is_light_and_says_the_same() {
    if !has_cores() {
        return;
    }
    let place = Place::new("archived");
    place.take("run-a", &[]).ended_with(0);
    assert!(!place.file("run-a", "histograms.jsonl").exists());
    let archive = ["archive", "run-a", "store/kept", "--store", "store"];
    assert_eq!(place.bench(&archive).ended_with(0), "");
    let files = fs::read_dir(place.folder.join("store/kept")).expect("a folder");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").file_name()).collect();
    files.sort();
    assert_eq!(files, ["manifest.json", "plan.json.gz", "samples.jsonl.gz", "summary.json.gz"]);
    let ask = |words: &[&str]| {
        let said = place.bench(&[words, &["--store", "store"]].concat());
        said.ended_with(0).to_owned()
    };
    let (_, table) = ask(&["show", "kept"]).split_once('\n').map(owned).expect("a table");
    assert!(ask(&["show", "run-a"]).ends_with(&table), "{table}");
    if env!("THALWEG_REPORT_BYTES") != "0" {
        let page = ask(&["export", "kept", "--format", "html"]);
        assert!(page.contains("\"shown\":{\"headline\":"), "{page}");
    }
    let summary = |name| {
        let text = ask(&["export", name, "--format", "json"]);
        let mut summary: Value = serde_json::from_str(&text).expect("JSON");
        // An archive has no points over time of spans under 10 s.
        for part in summary["shown"]["parts"].as_array_mut().expect("parts") {
            for curves in part["curves"].as_array_mut().expect("curves") {
                (curves["rss_bytes"], curves["cpu_cores"]) = (Value::Null, Value::Null);
            }
        }
        summary
    };
    assert_eq!(summary("kept"), summary("run-a"));
    assert!(ask(&["list"]).contains("kept\n"));
    // An archive is complete, and nothing can be added to it.
    place.bench(&archive).ended_with(2);
    place.bench(&["continue", "kept", "--store", "store"]).ended_with(2);
}

fn owned((first, second): (&str, &str)) -> (String, String) {
    (first.to_owned(), second.to_owned())
}

#[test]
fn a_run_is_shown_beside_another_subject() {
    if !has_cores() {
        return;
    }
    // A busy machine may leave no valid sample.
    undisturbed(show_beside);
}

fn show_beside() {
    let place = Place::with("beside", &TINY.replace("\"none\"", "\"every-cell\""));
    place.take("run-a", &["--repeats", "1"]).ended_with(0);
    let beside = |words: &[&str]| {
        let export = ["export", "run-a", "--store", "store", "--format", "json"];
        let said = place.bench(&[&export, words].concat());
        let summary = said.ended_with(0);
        let summary: Value = serde_json::from_str(summary).expect("JSON");
        let part = &summary["parts"][0];
        let rows = part["rows"].as_array().expect("rows").iter();
        let subjects: Vec<_> = rows.map(|row| row["subject"].to_string()).collect();
        (part["comparisons"][0]["baseline"].clone(), subjects.join(" "))
    };
    let all = r#""limit" "limit again" "thalweg""#;
    assert_eq!(beside(&[]), ("limit".into(), all.to_owned()));
    assert_eq!(beside(&["--baseline", "limit"]), ("limit".into(), all.to_owned()));
    // The copy of `limit` shows the noise of `limit`, and of no other baseline.
    let both = r#""limit" "thalweg""#;
    assert_eq!(beside(&["--baseline", "thalweg"]), ("thalweg".into(), both.to_owned()));
}

/// Returns the version that a program prints after its name.
fn version_of(program: &str, name: &str) -> String {
    let ran = Command::new(program).arg("--version").output().expect("run the program");
    let printed = String::from_utf8(ran.stdout).expect("text");
    printed.trim().strip_prefix(name).expect("its name").to_owned()
}

#[test]
fn no_file_of_a_run_knows_where_this_machine_keeps_things() {
    let place = Place::new("paths");
    let (scenario, out) = (place.folder.join("tiny.toml"), place.folder.join("store/run-a"));
    let thalweg = thalweg();
    let words = [&*scenario.to_string_lossy(), "--thalweg", &thalweg, "--out"];
    place.bench(&[&words[..], &[&*out.to_string_lossy()]].concat());
    let manifest = place.json("run-a", "manifest.json");
    let command_line = "thalweg-lab bench tiny.toml --thalweg thalweg --out run-a";
    assert_eq!(manifest["command_line"], command_line);
    assert_eq!(version_of(LAB, "thalweg-lab "), manifest["version"]);
    assert_eq!(version_of(&thalweg, "thalweg "), manifest["measured"]);
    assert!(manifest["machine"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    for entry in fs::read_dir(out).expect("a folder").flatten() {
        let text = fs::read_to_string(entry.path()).expect("text");
        for folder in [env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR")] {
            assert!(!text.contains(folder), "{} has {folder}", entry.path().display());
        }
    }
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
    // Without `--out` the run gets a folder in the store.
    let named = place.bench(&["rerun", "run-b", "--store", "store", "--quiet"]);
    let folder = named.stdout.trim_end();
    assert!(folder.starts_with("store/20") && folder.ends_with("-tiny"), "{folder}");
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
            "thalweg-lab: `{word}` is before `{name}`; write options after the command (see \
             `thalweg-lab bench {name} --help`)\n"
        )
    };
    assert_eq!(refusal(&["--quick", "list"]), sentence("--quick", "list"));
    assert_eq!(refusal(&["--store", "store", "list"]), sentence("--store", "list"));
    assert_eq!(refusal(&["-q", "show", "last"]), sentence("-q", "show"));
    assert_eq!(refusal(&["tiny.toml", "rerun", "last"]), sentence("tiny.toml", "rerun"));
    // The value of an option is not a command.
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
fn invalid_arguments_are_refused_before_a_run_starts() {
    let place = Place::new("misuse");
    let refusal = |words: &[&str]| {
        let said = place.take("run-a", words);
        said.ended_with(2);
        assert!(!place.file("run-a", "plan.json").exists());
        said.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let refusals = [
        refusal(&["--fail-if", "p95>5ms"]),
        refusal(&["--fail-if", "thalweq:cpu>5us"]),
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
fn experiment_c_reads_its_published_file_and_prints_its_lines() {
    let place = Place::new("published");
    // An event of the firehose each 500 µs, and none: the published program writes an hour.
    let files = [("500us", "500us.toml"), ("1h", "1h.toml")];
    for (interval, file) in files {
        let config = format!(
            "[server]\nhost = \"localhost\"\nport = 8080\ndummy_message_size = \"10KB\"\n\
             dummy_message_duration = \"{interval}\"\n[client]\nrequest_duration = \"1ms\"\n\
             total_request = 20\n"
        );
        fs::write(place.folder.join(file), config).expect("write the file");
    }
    let peers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/subjects");
    let bench = |scenario: &str, file: &str| {
        let out = format!("run-{file}");
        let subjects = ["--subject", "limit", "--no-control", "--peers", peers, "--out", &out];
        place.valid(&out, &[&[scenario, "--config", file], &subjects[..]].concat())
    };
    for (scenario, file, reason) in [
        ("a1", "1h.toml", "--config has the settings of experiment c, not of a1"),
        ("c", "none.toml", "--config none.toml: No such file or directory"),
        ("c", "tiny.toml", "--config tiny.toml: line 5: there is no key `control`"),
    ] {
        let refused = bench(scenario, file);
        refused.ended_with(2);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    if !has_cores() {
        return;
    }
    for (_, file) in files {
        let ran = bench("c", file);
        let table = ran.ended_with(0);
        let mut lines = table.lines().filter(|line| line.starts_with("limit: total 20, average "));
        let line = lines.next().unwrap_or_else(|| panic!("{table}"));
        assert!(line.ends_with(" KB (the worst of 5)") && lines.next().is_none(), "{table}");
        assert_eq!(line.contains(", received 0 KB "), file == "1h.toml", "{table}");
    }
}

#[test]
fn quiet_and_json_print_only_their_output() {
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
fn a_peer_is_installed_quietly_with_quiet() {
    let scenario = format!("{TINY}[[subjects]]\nprogram = \"made\"\n");
    let place = Place::with("build", &scenario);
    let rogue = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subjects/rogue/rogue.py");
    let peer = place.folder.join("peers/made");
    fs::create_dir_all(&peer).expect("make a folder");
    fs::copy(rogue, peer.join("rogue.py")).expect("copy a file");
    let write = |build: &str| {
        let text = format!(
            "name = \"made\"\ntitle = \"made of nothing\"\ndialect = \"thalweg\"\n\
             drives = [\"published-load\"]\ninstall = [\"sh\", \"-c\", \"{build}\"]\n\
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
    let sentence = "thalweg-lab: no subject is left: `made` cannot be installed: ";
    assert!(said.starts_with(sentence) && said.ends_with(" failed\ncompiling\n"), "{said}");
    // With a terminal the message appears at once.
    let by_hand = place.bench(&["--peers", "peers", "--install", "made", "--quiet"]);
    by_hand.ended_with(1);
    assert!(by_hand.stdout.starts_with("made             not installed: "), "{}", by_hand.stdout);

    let works = "echo compiling >&2; mkdir -p build; echo made > {out}";
    write(works);
    let quiet = take("run-b", &["--quiet"]);
    assert!(peer.join("build/made").exists(), "{}", quiet.stderr);
    assert!(!quiet.stderr.contains("build") && !quiet.stderr.contains("compiling"));
    if has_cores() {
        assert_eq!((quiet.ended_with(0), &*quiet.stderr), ("store/run-b\n", ""));
    }
    fs::remove_file(peer.join("build/made")).expect("a program");
    // A repetition would find it installed.
    let own = ["tiny.toml", "--out", "store/run-c", "--repeats", "1", "--peers", "peers"];
    let loud = place.bench(&own);
    assert!(loud.stderr.starts_with("installing made: sh -c "), "{}", loud.stderr);
    assert!(loud.stderr.contains("\ncompiling\n"), "{}", loud.stderr);
}

#[test]
fn help_lists_the_scenarios_of_the_library() {
    let place = Place::new("help");
    let help = place.bench(&["--help"]);
    let help = help.ended_with(0);
    assert!(
        help.lines().any(|line| line.starts_with("  all ") && line.contains(" main suite")),
        "{help}"
    );
    assert!(help.contains("rerun") && help.contains("--fail-if"), "{help}");
    assert!(help.contains("Examples:\n  thalweg-lab bench --url ws://"), "{help}");
}
