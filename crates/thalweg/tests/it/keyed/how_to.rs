//! The commands and the program of docs/how-to/keyed.md.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::mirror::Mirror;
use crate::harness::{Server, skipped};

const PAGE: &str = include_str!("../../../../../docs/how-to/keyed.md");

/// The blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).filter_map(|block| block.split("```").next()).collect()
}

fn run(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    std::io::Write::write_all(&mut child.stdin.take()?, input.as_bytes()).expect("write to it");
    let output = child.wait_with_output().expect("its output");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program}: {errors}");
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

fn serve() -> Server {
    let arguments = blocks("sh")[0].trim().trim_start_matches("thalweg serve ").replace('\'', "");
    Server::start(&arguments.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn the_commands_do_what_the_page_says() {
    let server = serve();
    let port = format!(":{}/", server.address.port());
    let script = blocks("bash").join("\n").replace(":8080/", &port);
    let quiet = "set -e\ncurl() { command curl --silent --show-error \"$@\"; }\n";
    let Some(output) = run("bash", &[], &format!("{quiet}{script}\n")) else {
        return skipped("there is no bash here");
    };
    let answers: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let shown = blocks("json").into_iter().map(|block| serde_json::from_str(block).expect("JSON"));
    let shown: Vec<Value> = shown.collect();
    // Publish, read, remove by an event, read one key, a new counter, and a condition that is not met.
    let [published, state, removed, selected, new, refused] = &*answers else { panic!("{output}") };
    assert_eq!((&published["count"], &removed["first"]), (&json!(3), &json!(5)));
    for member in ["topic", "first", "after", "keys", "events", "gap"] {
        assert_eq!(state[member], shown[0][member], "{member}");
    }
    assert_eq!((&selected["keys"], &selected["head"]), (&json!([]), &removed["position"]));
    assert_eq!(refused["newest"]["position"], new["position"]);
    assert_eq!(refused["newest"]["event"], shown[1]["newest"]["event"]);
    assert_eq!(refused["error"]["code"], shown[1]["error"]["code"]);
    assert!(Mirror::read(&server, "vehicles/city", 10).map.is_empty());
}

#[test]
fn the_program_counts_exactly() {
    let server = serve();
    let port = format!(":{}/", server.address.port());
    let program = blocks("js")[0].replace(":8080/", &port);
    if run("node", &["--input-type=module"], &program).is_none() {
        return skipped("there is no Node here");
    }
    let counters = Mirror::read(&server, "counters/likes", 10).map;
    assert_eq!(json!(counters), json!({"page-7": 20}));
}
