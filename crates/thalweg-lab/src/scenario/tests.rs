//! Messages for a scenario's writer.
//!
//! - `schema`: the JSON Schema for editors; `manual`: the tables of settings in the manual

mod manual;
mod schema;

use super::*;

fn changes(quick: bool) -> Changes {
    Changes { quick, ..Changes::default() }
}

const GOOD: &str = r#"
name = "mine"
title = "my load"
drive = "published-load"
control = "none"
repeats = 5
warm_up_ms = 100
measured_ms = 400

[defaults]
event_bytes = 1024

[[cells]]
transport = ["websocket", "sse"]
connections = [10, 20]

[[cells]]
connections = 30
window = 1
subjects = ["thalweg", "per frame"]
baseline = "per frame"

[[subjects]]
name = "limit"
program = "limit"

[[subjects]]
name = "per frame"
program = "limit"
on_demand = true
with = { mode = "frame" }

[[subjects]]
name = "thalweg"
program = "thalweg"
"#;

/// Returns the error of a file with this change.
fn refusal(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "{from:?} is not in the file");
    read(&text, &changes(false), &[]).unwrap_err().to_string()
}

#[test]
fn blocks_become_cells() {
    let plan = read(GOOD, &changes(false), &[]).unwrap();
    let cells: Vec<String> = plan.parts[0]
        .cells
        .iter()
        .map(|cell| {
            let names: Vec<_> = cell.subjects.iter().map(|subject| subject.name.as_str()).collect();
            format!("{}: {} / {}", cell.label, names.join(", "), names[cell.baseline])
        })
        .collect();
    insta::assert_snapshot!(cells.join("\n"), @r"
    websocket 10 × 1 KiB W4: limit, thalweg / limit
    websocket 20 × 1 KiB W4: limit, thalweg / limit
    sse 10 × 1 KiB W4: limit, thalweg / limit
    sse 20 × 1 KiB W4: limit, thalweg / limit
    websocket 30 × 1 KiB W1: thalweg, per frame / per frame
    ");
}

#[test]
fn five_lines_are_a_scenario() {
    let text = "name = \"mine\"\ndrive = \"published-load\"\n[defaults]\nconnections = [10, 100]\nrate = 50\n";
    let plan = read(text, &changes(false), &[]).unwrap();
    let part = &plan.parts[0];
    let names: Vec<_> =
        part.cells[1].subjects.iter().map(|subject| subject.name.as_str()).collect();
    assert_eq!(part.cells[1].label, "websocket 100 × 128 B 50/s");
    assert_eq!(names, ["limit", "limit again", "thalweg"]);
}

#[test]
fn baselines_run_twice_to_show_the_noise() {
    let names = |control: &str, quick| -> Vec<usize> {
        let text = GOOD.replace("control = \"none\"", control);
        let plan = read(&text, &changes(quick), &[]).unwrap();
        plan.parts[0].cells.iter().map(|cell| cell.subjects.len()).collect()
    };
    assert_eq!(names("", false), [3, 3, 3, 3, 3]);
    assert_eq!(names("control = \"first-cell\"", false), [3, 2, 2, 2, 2]);
    assert_eq!(names("", true), [3, 2, 2, 2, 2]);
    assert_eq!(names("control = \"none\"", true), [2, 2, 2, 2, 2]);
    // The earlier name of `control`.
    assert_eq!(names("again = \"none\"", true), [2, 2, 2, 2, 2]);
}

#[test]
fn the_command_line_is_above_a_subjects_own_settings() {
    let forced = Changes { set: vec!["mode=coalesced".into()], ..Changes::default() };
    let plan = read(GOOD, &forced, &[]).unwrap();
    assert!(plan.subjects().all(|subject| subject.settings.mode == Mode::Coalesced));
}

#[test]
fn a_scenario_has_repeats_or_a_budget() {
    let check = |text: &str, changes: &Changes, repeats: u32, budget_s: Option<u64>| {
        let plan = read(text, changes, &[]).unwrap();
        assert_eq!((plan.parts[0].repeats, plan.parts[0].budget_s), (repeats, budget_s));
    };
    let text = |effort: &str| GOOD.replace("repeats = 5\n", effort);
    let none = Changes::default();
    check(&text("repeats = 2\n"), &none, 2, None);
    // Five cells, a minute each.
    check(&text(""), &none, 100, Some(300));
    check(&text("budget_s = 70\n"), &none, 100, Some(70));
    check(&text("budget_s = 70\n"), &Changes { repeats: Some(3), ..none.clone() }, 3, None);
    let budget = Changes { budget_s: Some(9), ..none };
    check(&text("repeats = 2\n"), &budget, 100, Some(9));
    let suite = "name = 's'\ntitle = 's'\nscenarios = ['a1', 'b']";
    let plan = read(suite, &Changes { budget_s: Some(70), ..budget }, &[]).unwrap();
    let shares: Vec<_> = plan.parts.iter().map(|part| (part.cells.len(), part.budget_s)).collect();
    assert_eq!(shares, [(6, Some(60)), (1, Some(10))]);
}

#[test]
fn the_command_line_overrides_and_equal_cells_fall_together() {
    let forced = Changes {
        set: vec!["connections=[7]".into(), "mode=frame".into()],
        transports: vec!["sse".into()],
        subjects: vec!["limit".into()],
        repeats: Some(1),
        ..Changes::default()
    };
    let plan = read(GOOD, &forced, &[]).unwrap();
    let labels: Vec<_> = plan.parts[0].cells.iter().map(|cell| cell.label.as_str()).collect();
    assert_eq!(labels, ["sse 7 × 1 KiB W4"]);
    assert_eq!(plan.slots().count(), 1);
}

#[test]
fn mistakes_are_answered_with_the_line_and_the_nearest_name() {
    let refusals = [
        refusal("connections = [10, 20]", "conections = 10"),
        refusal("\"sse\"]", "\"see\"]"),
        refusal("drive = \"published-load\"", "drive = \"post\""),
        refusal("\"per frame\"]", "\"per fame\"]"),
        refusal("connections = 30", "connections = \"many\""),
        refusal("connections = 30", "connections = []"),
        refusal("event_bytes = 1024", "event_bytes = 20"),
        refusal("window = 1", "stopped = 30"),
        refusal("window = 1", "window = 0"),
        refusal("{ mode = \"frame\" }", "{ window = [1, 2] }"),
        refusal("window = 1", "streams = 7"),
        refusal("connections = [10, 20]", "connections = 10\nstreams = 10"),
        refusal("\"sse\"]", "\"long-polling\"]"),
        refusal("window = 1", "transport = \"long-polling\"\nstopped = 3"),
        refusal("drive = \"published-load\"", "drive = \"echo\""),
        refusal("repeats = 5", "repeats = "),
        refusal("repeats = 5", "repeats = 0"),
        refusal("drive = \"published-load\"", ""),
        refusal("program = \"thalweg\"", "program = \"thalweq\""),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn mistakes_on_the_command_line() {
    let refusal = |set: &str| {
        let changes = Changes { set: vec![set.into()], ..Changes::default() };
        read(GOOD, &changes, &[]).unwrap_err().to_string()
    };
    let wrong = ["connections", "conections=3", "transport=web", "arrivals=\"10\""];
    let refusals = wrong.map(refusal);
    insta::assert_snapshot!(refusals.join("\n"));
    assert_eq!(
        find("fan-out").unwrap_err().to_string(),
        "there is no scenario `fan-out`; did you mean `fanout`?"
    );
}

/// Returns the peers that scenarios of the library name.
fn peers() -> Vec<Peer> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/subjects");
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts =
        folders.filter_map(|folder| std::fs::read_to_string(folder.join("subject.toml")).ok());
    texts.map(|text| Peer::read(&text, "").unwrap()).collect()
}

#[test]
fn cells_that_a_peer_cannot_run_are_blank_with_the_reason() {
    let plan = read(find("peers").unwrap(), &changes(true), &peers()).unwrap();
    assert_eq!(plan.parts[0].name, "peers-fanout");
    let blank = |label: &str, subject: &str| {
        let cell = plan.parts[0].cells.iter().find(|cell| cell.label.starts_with(label)).unwrap();
        let found = cell.blanks.iter().find(|blank| blank.subject == subject);
        found.map(|blank| blank.why.clone())
    };
    let is_a_library = Some("it is a library for WebSockets".to_owned());
    assert_eq!(blank("sse 100", "ws corked"), is_a_library);
    assert_eq!(blank("websocket 100", "ws corked"), None);
    assert_eq!(blank("sse 100", "bun"), None);
    // A form of a peer that differs over one transport only.
    assert_eq!(blank("sse 100", "axum feed"), Some("not over sse".to_owned()));
    assert_eq!(blank("websocket 100", "axum feed"), None);
    // A single subject is measured where possible, or refused.
    let subjects_of = Some("peers".to_owned());
    let mut only = Changes { subjects: vec!["ws".to_owned()], subjects_of, ..changes(true) };
    for name in ["fanout", "peers"] {
        let plan = read(find(name).unwrap(), &only, &peers()).unwrap();
        let labels: Vec<&str> =
            plan.parts.iter().flat_map(|part| &part.cells).map(|part| &*part.label).collect();
        assert!(labels.iter().any(|label| label.starts_with("websocket")), "{labels:?}");
        assert!(!labels.iter().any(|label| label.starts_with("sse")), "{labels:?}");
    }
    only.transports = vec!["sse".to_owned()];
    let refused = read(find("fanout").unwrap(), &only, &peers()).unwrap_err().to_string();
    assert_eq!(refused, "`ws` is not measured here: it is a library for WebSockets");
}

#[test]
fn unknown_subjects_are_refused_with_the_known_ones_and_a_suite_names_the_scenario() {
    let refused = |text: &str, subject: &str| {
        // Also beside another one.
        let subjects = vec!["thalweg".to_owned(), subject.to_owned()];
        read(text, &Changes { subjects, ..changes(true) }, &peers()).unwrap_err().to_string()
    };
    let nearest = "there is no subject `uwebsocket`; did you mean `uwebsockets`?";
    assert_eq!(refused(find("peers").unwrap(), "uwebsocket"), nearest);
    let all = "there is no subject `zzz`; there are limit, thalweg";
    assert_eq!(refused(find("a1").unwrap(), "zzz"), all);
    let suite = "name = 's'\ntitle = 's'\nscenarios = ['a1', 'fanout']";
    let no_window = Changes { set: vec!["window=0".to_owned()], ..changes(true) };
    let reported = read(suite, &no_window, &peers()).unwrap_err().to_string();
    assert!(reported.starts_with("line 3: `fanout`: "), "{reported}");
}

#[test]
fn peers_that_cannot_be_installed_are_left_out_of_their_cells() {
    let scenario = "name = \"x\"\ndrive = \"echo\"\n[defaults]\nconnections = 1\n[[subjects]]\n\
                    program = \"gorilla\"\n[[subjects]]\nprogram = \"limit\"\n";
    let mut plan = read(scenario, &changes(true), &peers()).unwrap();
    assert_eq!(plan.parts[0].cells[0].subjects[0].name, "gorilla");
    plan.leave_out("gorilla", "there is no go");
    let cell = &plan.parts[0].cells[0];
    assert_eq!((cell.baseline, &*cell.subjects[0].name), (0, "limit"));
    let blanks: Vec<_> = cell.blanks.iter().map(|blank| (&*blank.subject, &*blank.why)).collect();
    assert!(blanks.contains(&("gorilla", "there is no go")), "{blanks:?}");
    let text = "name = \"x\"\ndrive = \"echo\"\n[defaults]\nconnections = 1\n[[subjects]]\nprogram = \"gorilla\"\n";
    let mut alone = read(text, &changes(false), &peers()).unwrap();
    alone.leave_out("gorilla", "there is no go");
    assert!(alone.parts.is_empty());
}

/// The parts of `published`, each with its subjects other than a control, and its starts or budget.
fn published_parts(load: LoadIn) -> Vec<String> {
    let changes = Changes { load, ..changes(false) };
    let plan = read(find("published").unwrap(), &changes, &peers()).unwrap();
    let line = |part: &Part| {
        let mut subjects: Vec<&str> = Vec::new();
        for subject in part.cells.iter().flat_map(|cell| &cell.subjects) {
            let name = subject.name.as_str();
            if !subjects.contains(&name) && !name.ends_with(" again") {
                subjects.push(name);
            }
        }
        let effort = match part.budget_s {
            Some(budget_s) => format!("{budget_s} s"),
            None => format!("{} starts", part.repeats),
        };
        let concurrent = if part.concurrent { " at once" } else { "" };
        let (name, cells) = (&part.name, part.cells.len());
        format!(
            "{name}: {cells} cells, {effort} of {} ms{concurrent}: {}",
            part.measured_ms,
            subjects.join(", ")
        )
    };
    plan.parts.iter().map(line).collect()
}

#[test]
fn the_published_experiments_are_repeated_beside_peers() {
    insta::assert_snapshot!(published_parts(LoadIn::Swarm).join("\n"));
}

#[test]
fn the_published_experiments_in_tabs_are_repeated_beside_peers() {
    insta::assert_snapshot!(published_parts(LoadIn::Chromium).join("\n"));
}

#[test]
fn a_suite_changes_its_scenarios() {
    let suite = |entry: &str, changes: &Changes| {
        let text = format!("name = 's'\ntitle = 's'\nscenarios = [{entry}]");
        read(&text, changes, &peers())
    };
    let entry = "{ scenario = 'd', name = 'soak', subjects_of = 'peers', subjects = ['thalweg', 'ws'], \
                 repeats = 2, measured_ms = '10m', concurrent = true, set = { connections = 120, every_ms = 500 } }";
    let plan = suite(entry, &changes(false)).unwrap();
    let part = &plan.parts[0];
    let found = (&*part.name, part.repeats, part.measured_ms, part.concurrent);
    assert_eq!(found, ("soak", 2, 600_000, true));
    assert!(part.cells.iter().all(|cell| {
        let names: Vec<&str> = cell.subjects.iter().map(|subject| &*subject.name).collect();
        names == ["thalweg", "ws"] && cell.settings.connections == 120
    }));
    // The command line replaces them, and --quick stays short.
    let set = vec!["every_ms=700".to_owned()];
    let forced = Changes { set, repeats: Some(7), ..changes(false) };
    let part = suite(entry, &forced).unwrap().parts.remove(0);
    assert!(part.cells.iter().all(|cell| cell.settings.every_ms == 700) && part.repeats == 7);
    assert_eq!(suite(entry, &changes(true)).unwrap().parts[0].measured_ms, 4000);
    // A part without a wanted subject is left out, and the others stay.
    let only = Changes { subjects: vec!["limit".to_owned()], ..changes(false) };
    let plan = suite(&format!("'a1', {entry}"), &only).unwrap();
    assert_eq!(plan.parts.iter().map(|part| &*part.name).collect::<Vec<_>>(), ["a1"]);

    let refused = |entry: &str| suite(entry, &changes(false)).unwrap_err().to_string();
    assert_eq!(
        refused("{ scenario = 'd', repeat = 2 }"),
        "line 3: there is no key `repeat`; did you mean `repeats`?"
    );
    assert_eq!(
        refused("{ scenario = 'd', set = { subjects = ['thalweg'] } }"),
        "line 3: write `subjects` beside `set`, not in it"
    );
    let refusal = refused("{ scenario = 'd', subjects = ['thalweq'] }");
    assert!(
        refusal.contains("there is no subject `thalweq`; did you mean `thalweg`?"),
        "{refusal}"
    );
}

#[test]
fn a_subject_on_demand_is_measured_in_other_scenarios_if_it_is_named() {
    let names = |subjects: &[&str]| -> Vec<String> {
        let subjects = subjects.iter().map(|name| (*name).to_owned()).collect();
        let subjects_of = Some("peers".to_owned());
        let changes = Changes { subjects, subjects_of, ..changes(false) };
        let plan = read(find("c").unwrap(), &changes, &peers()).unwrap();
        plan.parts[0].cells[0].subjects.iter().map(|subject| subject.name.clone()).collect()
    };
    assert!(!names(&[]).contains(&"gorilla published".to_owned()));
    assert!(names(&["thalweg", "gorilla published"]).contains(&"gorilla published".to_owned()));
}

#[test]
fn a_published_configuration_is_measured_with_the_published_program() {
    for interval in ["500us", "1h"] {
        let text = format!(
            "[server]\nhost = \"localhost\"\nport = 8080\ndummy_message_size = \"10KB\"\n\
             dummy_message_duration = \"{interval}\"\n[client]\nrequest_duration = \"1ms\"\n\
             total_request = 20\n"
        );
        let config = Changes {
            repeats: Some(published_config::REPEATS),
            rounds: Some(published_config::ROUNDS),
            subjects: published_config::SUBJECTS.map(str::to_owned).to_vec(),
            subjects_of: Some(published_config::SUITE.to_owned()),
            set: published_config::settings(&text).unwrap(),
            control: Some(Control::None),
            ..changes(false)
        };
        let plan = read(find("c").unwrap(), &config, &peers()).unwrap();
        let [cell] = &*plan.parts[0].cells else { panic!("{plan:?}") };
        let names: Vec<&str> = cell.subjects.iter().map(|subject| &*subject.name).collect();
        assert_eq!(names, published_config::SUBJECTS);
        // Without a firehose the load can pause, which allows several spans in a start.
        assert_eq!(plan.samples_planned(), Some(5 * names.len()), "{interval}");
    }
}

#[test]
fn a_suite_has_other_scenarios_in_a_browser() {
    let names = |load: LoadIn| -> Vec<String> {
        let changes = Changes { load, ..changes(true) };
        let plan = read(find("published").unwrap(), &changes, &peers()).unwrap();
        plan.parts.into_iter().map(|part| part.name).collect()
    };
    let (swarm, browser) = (names(LoadIn::Swarm), names(LoadIn::Chromium));
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    assert!(has(&swarm, "d-ramp") && !has(&swarm, "a4"), "{swarm:?}");
    assert!(has(&browser, "a4") && has(&browser, "a1") && !has(&browser, "d-ramp"), "{browser:?}");
}

#[test]
fn a_suite_may_compare_other_subjects_in_all_its_scenarios() {
    let text = "name = 's'\ntitle = 's'\nsubjects_of = 'peers'\n\
                scenarios = ['fanout', 'latency', 'a1', 'c', 'd-ramp']";
    let plan = read(text, &changes(false), &peers()).unwrap();
    let part = |name: &str| plan.parts.iter().find(|part| part.name == name).unwrap();
    for name in ["fanout", "a1", "c", "d-ramp"] {
        let cell = &part(name).cells[0];
        let has = |subject: &str| cell.subjects.iter().any(|known| known.name == subject);
        assert!(has("ws") && has("thalweg") && !has("thalweg value"), "{name}");
    }
    // Cells of the scenario's own subjects are left out, and a cell of many subjects has more time.
    assert!(part("c").cells.iter().all(|cell| cell.settings.dummy_bytes > 0));
    assert_eq!(part("latency").cells.len(), 4);
    let usual = read(find("a1").unwrap(), &changes(false), &[]).unwrap();
    assert!(part("a1").budget_s > usual.parts[0].budget_s);
}

#[test]
fn any_subject_can_be_the_baseline_of_a_run() {
    let mut plan = read(find("peers").unwrap(), &changes(true), &peers()).unwrap();
    let reported = plan.compare_with("bunn").unwrap_err().to_string();
    assert_eq!(reported, "there is no subject `bunn`; did you mean `bun`?");
    plan.compare_with("bun").unwrap();
    let cells = || plan.parts.iter().flat_map(|part| &part.cells);
    let baseline = |cell: &Cell| cell.subjects[cell.baseline].name.clone();
    assert!(cells().any(|cell| baseline(cell) == "bun"));
    for cell in cells().filter(|cell| baseline(cell) != "bun") {
        assert!(cell.subjects.iter().all(|subject| subject.name != "bun"), "{}", cell.label);
    }
}

#[test]
fn the_library_reads_in_full_and_quick() {
    for (name, text) in LIBRARY {
        for quick in [false, true] {
            let plan = read(text, &with_load(text, changes(quick)), &peers())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.name, *name);
        }
    }
}

#[test]
fn the_core_table_of_peers_has_these_cells() {
    let plan = read(find("peers").unwrap(), &changes(false), &peers()).unwrap();
    let parts: Vec<(&str, usize)> =
        plan.parts.iter().map(|part| (&*part.name, part.cells.len())).collect();
    let expected =
        [("peers-fanout", 12), ("peers-single", 4), ("peers-latency", 4), ("peers-idle", 2)];
    assert_eq!(parts, expected);
    let names = |cell: &Cell| cell.subjects.iter().map(|subject| subject.name.clone()).collect();
    let all: Vec<String> = names(&plan.parts[0].cells[0]);
    assert!(all.len() > 20 && !all.contains(&"signalr".to_owned()), "{all:?}");
    let plan = read(find("published").unwrap(), &changes(false), &peers()).unwrap();
    let hub = plan.parts.iter().find(|part| part.name == "signalr").unwrap();
    let subjects: Vec<String> = names(&hub.cells[0]);
    assert_eq!(subjects, ["thalweg", "thalweg again", "signalr"]);
    assert_eq!(hub.cells.len(), 6);
    assert_eq!(hub.cells[0].baseline, 0);
}

/// Scenarios that are measured in a browser alone are read as for one.
fn with_load(text: &str, changes: Changes) -> Changes {
    let load = if text.contains("\nonly = true") { LoadIn::Chromium } else { LoadIn::Swarm };
    Changes { load, ..changes }
}

fn in_browser(text: &str) -> Result<Plan, ScenarioError> {
    read(text, &Changes { load: LoadIn::Chromium, ..changes(false) }, &[])
}

#[test]
fn browser_scenarios_read_in_full_and_quick() {
    for name in ["a1", "a2", "a3", "a4", "tab", "b"] {
        for quick in [false, true] {
            let changes = Changes { load: LoadIn::Chromium, ..changes(quick) };
            let plan = read(find(name).unwrap(), &changes, &[])
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(plan.load.is_browser() && plan.parts[0].rounds == 1, "{name}");
        }
    }
}

#[test]
fn cells_beyond_the_http_1_connection_limit_of_a_browser_are_blank() {
    let plan = in_browser(find("a2").unwrap()).unwrap();
    let blanks: Vec<String> = plan.parts[0]
        .cells
        .iter()
        .flat_map(|cell| {
            cell.blanks.iter().map(|blank| format!("{}: {}", cell.label, blank.subject))
        })
        .collect();
    assert_eq!(
        blanks,
        [
            "20 connections × 50 rows / 1 ms: sse",
            "20 connections × 50 rows / 1 ms: http-streaming",
            "100 connections × 50 rows / 1 ms: sse",
            "100 connections × 50 rows / 1 ms: http-streaming",
        ]
    );
    let why = &plan.parts[0].cells.iter().find_map(|cell| cell.blanks.first()).unwrap().why;
    assert_eq!(why, "a browser opens 6 connections of HTTP/1.1 to an origin, not 20");
}

#[test]
fn the_name_of_a_cell_shows_shared_cores() {
    let text = "name = \"x\"\ndrive = \"generated-load\"\n[browser.defaults]\nconnections = 6\n\
                cores = [\"apart\", \"shared\"]\n";
    let labels: Vec<String> =
        in_browser(text).unwrap().parts[0].cells.iter().map(|cell| cell.label.clone()).collect();
    let expected = ["websocket 6 × 1 row / 1 ms", "websocket 6 × 1 row / 1 ms, cores shared"];
    assert_eq!(labels, expected);
}

#[test]
fn settings_that_need_a_browser_or_exclude_one_are_refused() {
    let text =
        |drive: &str, cell: &str| format!("name = \"x\"\ndrive = \"{drive}\"\n[[cells]]\n{cell}\n");
    let native = |cell| read(&text("generated-load", cell), &changes(false), &[]).unwrap_err();
    let tab = |drive, cell| in_browser(&text(drive, cell)).unwrap_err();
    let reported = [
        native("tabs = 2"),
        read(find("a4").unwrap(), &changes(false), &[]).unwrap_err(),
        tab("published-load", ""),
        tab("generated-load", "streams = 10\ntransport = \"sse\"\nsubjects = [\"thalweg\"]"),
        tab("generated-load", "connections = 2\ntabs = 3"),
        tab(
            "generated-load",
            "transport = \"long-polling\"\nconnections = 2\nsubjects = [\"thalweg\"]",
        ),
        native("throttle = 6"),
        tab("generated-load", "throttle = 0"),
        native("cores = \"shared\""),
        tab("generated-load", "cores = \"everything\""),
        tab("generated-load", "consumer = \"arrow\""),
        tab("generated-load", "consumer = \"arrow-every-value\""),
        tab("round-trip", "connections = 1\nworker = true"),
    ];
    let reported: Vec<String> = reported.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(reported.join("\n"));
}

#[test]
fn titles_of_the_library_are_those_of_its_files() {
    for ((name, text), (listed, title)) in LIBRARY.iter().zip(titles()) {
        let plan = read(text, &with_load(text, changes(false)), &peers()).unwrap();
        assert_eq!((*name, &*plan.title), (listed, title));
    }
}

#[test]
fn the_quick_suite_keeps_its_promise() {
    let (_, quick) = LIBRARY[0];
    let plan = read(quick, &changes(false), &[]).unwrap();
    let time = plan.time();
    assert!(time.as_secs() < 5 * 60, "{time:?}");
}

#[test]
fn quick_forms_are_quick() {
    for name in ["latency", "ceiling", "slow", "swarm"] {
        let plan = read(find(name).unwrap(), &changes(true), &[]).unwrap();
        let time = plan.time();
        assert!(time.as_secs() < 40, "{name}: {time:?}");
    }
}

#[test]
fn rates_and_answers_have_their_drives() {
    let refusal = |drive: &str, set: &str| {
        let text =
            format!("name = \"mine\"\ndrive = \"{drive}\"\n[defaults]\nconnections = 1\n{set}");
        read(&text, &changes(false), &[]).err().map(|error| error.to_string())
    };
    assert_eq!(refusal("published-load", "rate = 10"), None);
    assert_eq!(refusal("ceiling", "rate = 10"), None);
    assert_eq!(refusal("echo", "answers = \"beside\""), None);
    let refused = [
        refusal("generated-load", "rate = 10"),
        refusal("published-load", "rate = 10000001"),
        refusal("published-load", "answers = \"beside\""),
        refusal("ceiling", "p99_us_max = 0"),
    ];
    let refused: Vec<String> = refused.into_iter().flatten().collect();
    insta::assert_snapshot!(refused.join("\n"));
}

#[test]
fn deltas_need_a_subject_that_has_them() {
    let refusal = |program: &str, set: &str| {
        let text = format!(
            "name = 'x'\ndrive = 'published-load'\n[defaults]\ndeltas = true\n{set}\n[[subjects]]\nprogram = '{program}'\n"
        );
        read(&text, &changes(false), &peers()).err().map(|error| error.message)
    };
    let refused = |why: &str| Some(why.to_owned());
    let (value, sse) = ("kind = 'value'", "transport = 'sse'");
    assert_eq!(refusal("thalweg", value), None);
    assert_eq!(refusal("centrifugo", ""), None);
    let patches = "only value topics have patches: set kind = \"value\"";
    assert_eq!(refusal("thalweg", ""), refused(patches));
    let websocket = "this subject has deltas over websocket only: set transport = \"websocket\"";
    assert_eq!(refusal("centrifugo", sse), refused(websocket));
    let no_topics = "this subject has no value topics: set kind of another";
    assert_eq!(refusal("centrifugo", value), refused(no_topics));
    assert_eq!(refusal("ws", ""), refused("this subject has no deltas: set deltas of another"));
}

#[test]
fn another_build_stands_beside_every_thalweg() {
    let cells = |name: &str, subjects: &[&str]| {
        let subjects = subjects.iter().map(|name| (*name).to_owned()).collect();
        let against = Some("./old".into());
        let changes = Changes { quick: true, subjects, against, ..Changes::default() };
        let plan = read(find(name).unwrap(), &changes, &[]).map_err(|error| error.message)?;
        let of = |cell: &Cell| {
            let subjects = cell.subjects.iter().map(|subject| subject.name.as_str());
            let baseline = &cell.subjects[cell.baseline];
            assert_eq!(baseline.program, Program::Build("./old".into()));
            format!("{}: {}", cell.label, subjects.collect::<Vec<_>>().join(", "))
        };
        Ok(plan.parts[0].cells.iter().map(of).collect::<Vec<_>>().join("\n"))
    };
    let found = [cells("a1", &[]), cells("c", &[]), cells("fanout", &["thalweg"]), cells("b", &[])];
    let found: Result<Vec<String>, String> = found.into_iter().collect();
    insta::assert_snapshot!(found.unwrap().join("\n\n"));
    assert!(cells("swarm", &[]).is_err());
}

#[test]
fn settings_without_effect_are_refused_with_those_that_have_one() {
    let answer = |name: &str, set: &[&str], measured_ms: Option<u64>| {
        let set = set.iter().map(|pair| (*pair).to_owned()).collect();
        let changes = Changes { set, measured_ms, ..Changes::default() };
        read(find(name).unwrap(), &changes, &[]).map_or_else(
            |error| error.to_string(),
            |plan| {
                let settings = plan.parts.iter().map(|part| &part.cells[0].settings);
                format!("{:?}", settings.map(|setting| setting.event_bytes).collect::<Vec<_>>())
            },
        )
    };
    let answers = [
        answer("idle", &["rate=10"], None),
        answer("publish", &["transport=sse"], None),
        answer("latency", &["window=2"], None),
        answer("b", &[], Some(1000)),
        // A suite changes those of its scenarios that a setting is one of.
        answer("quick", &["event_bytes=500"], Some(100)),
        answer("quick", &["request=single"], None),
        answer("quick", &["request=single", "chunk_events=0"], None),
    ];
    insta::assert_snapshot!(answers.join("\n"));
    let url = Typed { url: "ws://localhost/".to_owned(), ..Typed::default() };
    let endpoint = Endpoint::read(&url).unwrap();
    let answers = ["rate=10", "event_bytes=100", "window=2", "connections=7"].map(|pair| {
        let changes = Changes { set: vec![pair.to_owned()], ..Changes::default() };
        let plan = listen(std::slice::from_ref(&endpoint), &changes);
        plan.map_or_else(|error| error.to_string(), |plan| plan.parts[0].cells[0].label.clone())
    });
    insta::assert_snapshot!(answers.join("\n"));
}

#[test]
fn the_example_in_the_manual_is_a_scenario() {
    let manual = include_str!("../../../../lab/README.md");
    let example = manual.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
    let plan = read(example.unwrap(), &changes(true), &[]).unwrap();
    assert_eq!(plan.parts[0].cells.len(), 5);
}

#[test]
fn cells_with_equal_labels_get_distinguishing_settings() {
    let text = "name = \"x\"\ndrive = \"published-load\"\n[[cells]]\nsend_buffer_bytes = [0, 65536]\n\
                [[cells]]\nconnections = 7\nunsent_bytes = 65536\n";
    let plan = read(text, &Changes::default(), &[]).unwrap();
    let labels: Vec<_> = plan.parts[0].cells.iter().map(|cell| cell.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "websocket 100 × 128 B W4, send buffer bytes 0",
            "websocket 100 × 128 B W4, send buffer bytes 65536",
            "websocket 7 × 128 B W4"
        ]
    );
}

#[test]
fn subjects_are_measured_concurrently_on_a_schedule_only() {
    let text = "name = \"x\"\ndrive = \"published-load\"\nrepeats = 2\nconcurrent = true\n[defaults]\nrate = 10\n\
                [[cells]]\nconnections = [1, 2]\n";
    let plan = read(text, &Changes::default(), &[]).unwrap();
    // The earlier name of the key.
    let old = text.replace("concurrent", "together");
    assert_eq!(read(&old, &Changes::default(), &[]).unwrap(), plan);
    let saturated = text.replace("rate = 10", "window = 4");
    let refused = read(&saturated, &Changes::default(), &[]).unwrap_err();
    assert!(refused.message.starts_with("concurrent needs a rate"), "{}", refused.message);
}

#[test]
fn a_subject_may_have_processes_beside_it() {
    let text = |drive: &str, set: &str, beside: &str| {
        format!(
            "name = \"mine\"\ndrive = \"{drive}\"\n[defaults]\nconnections = 1\n{set}\n\
             [[subjects]]\nprogram = \"thalweg\"\n{beside}"
        )
    };
    let nats = "arguments = [\"--nats\", \"nats://127.0.0.1:{port.nats}\"]\n\
                [[subjects.processes]]\nname = \"nats\"\nrole = \"nats\"\n\
                command = [\"{nats}\", \"-p\", \"{port.nats}\"]\n";
    let plan = read(&text("stored", "rate = 100", nats), &changes(false), &[]).unwrap();
    let subject = plan.subjects().next().unwrap();
    assert_eq!((subject.arguments.len(), &*subject.processes[0].name), (2, "nats"));
    // As it is archived.
    let again: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(again, plan);

    let refusal = |drive: &str, set: &str, beside: &str| {
        read(&text(drive, set, beside), &changes(false), &[]).unwrap_err().to_string()
    };
    let refused = [
        refusal("stored", "rate = 100", ""),
        refusal("published-load", "publish_to = \"nats\"", ""),
        refusal("published-load", "message_events = 10", nats),
        refusal("published-load", "publish_to = \"nats\"\nmessage_events = 100", nats),
        refusal("stored", "message_events = 257", nats),
        refusal("stored", "", "arguments = [\"--nats\", \"nats://a\"]\n"),
        refusal("stored", "", &nats.replace("\"-p\", \"{port.nats}\"", "\"-p\"")),
        refusal("stored", "", &nats.replace("role = \"nats\"", "role = \"boss\"")),
    ];
    insta::assert_snapshot!(refused.join("\n"));
}

/// `--set` may make the settings of cells equal that have other subjects.
#[test]
fn labels_of_cells_are_unique() {
    let text = library::find("fanout").unwrap();
    let with = |set: &[&str]| Changes {
        transports: vec!["websocket".to_owned()],
        set: set.iter().map(|pair| (*pair).to_owned()).collect(),
        control: Some(Control::None),
        ..Changes::default()
    };
    let labels = |changes: &Changes| -> Vec<String> {
        let plan = read(text, changes, &[]).unwrap();
        plan.parts[0].cells.iter().map(|cell| cell.label.clone()).collect()
    };
    let is_unique = |labels: &[String]| {
        labels.iter().collect::<std::collections::BTreeSet<_>>().len() == labels.len()
    };
    let equal = labels(&with(&["connections=100", "window=4", "event_bytes=128"]));
    assert!(is_unique(&equal), "{equal:?}");
    assert_eq!(equal[0], "websocket 100 × 128 B W4, limit and thalweg");
    assert!(is_unique(&labels(&Changes::default())));
    // Labels that nothing tells apart get a number.
    let mut plan = read(text, &with(&[]), &[]).unwrap();
    let first = plan.parts[0].cells[0].clone();
    plan.parts[0].cells = vec![first.clone(), first.clone(), first];
    plan.parts[0].tell_cells_apart();
    let numbered: Vec<&str> = plan.parts[0].cells.iter().map(|cell| &*cell.label).collect();
    assert!(numbered[1].ends_with(" (2)") && numbered[2].ends_with(" (3)"), "{numbered:?}");
}

#[test]
fn labels_of_endpoints_name_their_own_transport() {
    let endpoint =
        |url: &str| Endpoint::read(&Typed { url: url.to_owned(), ..Typed::default() }).unwrap();
    let label = |urls: &[&str]| {
        let endpoints: Vec<Endpoint> = urls.iter().copied().map(endpoint).collect();
        let changes = Changes { set: vec!["arrivals=50/s".to_owned()], ..Changes::default() };
        listen(&endpoints, &changes).unwrap().parts[0].cells[0].label.clone()
    };
    let (http, ws) = ("http://127.0.0.1:1/", "ws://127.0.0.1:1/");
    assert_eq!(label(&[http]), "sse 10 arrive at 50/s");
    assert_eq!(label(&[ws]), "websocket 10 arrive at 50/s");
    assert_eq!(label(&[ws, http]), "10 arrive at 50/s");
}
