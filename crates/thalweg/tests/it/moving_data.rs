//! `thalweg data`: check, export, import and backup.

use std::{
    fs::File,
    process::{Command, Output, Stdio},
};

use thalweg_testing::TemporaryPath;

use crate::{
    durable::Directory,
    harness::{Server, Transport, offset},
};

const JSON: &str = "application/json";

fn start(directory: &Directory) -> Server {
    directory.start(&["--store", "scores/**,kind=value", "--store", "**"])
}

fn data(arguments: &[&str], input: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("data").args(arguments).stdin(input).output().expect("run the binary")
}

/// Runs a command that must succeed, and returns its stdout.
fn done(arguments: &[&str]) -> String {
    let output = data(arguments, Stdio::null());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs a command that must fail, and returns the sentence on stderr.
fn refused(arguments: &[&str]) -> String {
    let output = data(arguments, Stdio::null());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Publishes to topics of both kinds, and returns the position of the third of ten events.
fn fill(server: &Server) -> String {
    let middle = server.publish("orders/7", 0..3).position;
    server.publish("orders/7", 3..10);
    server.publish("gone", 0..3);
    server.ask("DELETE", "/v1/topics/gone", &[], "");
    for version in 0..3 {
        let document = format!("{{\"version\":{version},\"price\":1.50}}");
        server.post("scores/a", JSON, document).published();
    }
    middle
}

fn import(directory: &str, text: &str, more: &[&str]) -> Output {
    let path = TemporaryPath::file("import", text);
    let input = File::open(&*path).expect("a file");
    data(&[&["import", directory], more].concat(), input.into())
}

#[test]
fn an_export_of_a_killed_server_is_imported_with_its_positions() {
    let directory = Directory::new();
    let server = start(&directory);
    let middle = fill(&server);
    let running = refused(&["check", directory.path()]);
    assert!(running.contains("another process uses"), "{running}");
    server.kill();

    let table = done(&["check", directory.path()]);
    let stores: Vec<_> = table.lines().skip(1).map(|line| line.split_whitespace()).collect();
    let cells = stores.into_iter().map(|line| line.take(4).collect::<Vec<_>>());
    let cells: Vec<_> = cells.collect();
    assert_eq!(cells, [["scores/**", "value", "1", "1"], ["**", "log", "1", "10"]], "{table}");

    let text = done(&["export", directory.path()]);
    assert!(text.contains(r#""event":{"version":2,"price":1.50}}"#), "{text}");
    assert!(text.contains(&format!(r#""position":"{middle}""#)), "{text}");
    let copy = Directory::new();
    let output = import(copy.path(), &text, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("11 events with their positions"), "{said}");
    assert_eq!(done(&["export", copy.path()]), text);

    let server = start(&copy);
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/orders/7?cursor={middle}"));
    let (numbers, position) = subscriber.numbers(7);
    assert_eq!(numbers, (3..10).collect::<Vec<_>>());
    assert!(offset(&server.publish("orders/7", 10..11).position) > offset(&position));
    server.kill();

    // New epochs are reported to subscribers.
    let copy = Directory::new();
    assert!(import(copy.path(), &text, &["--new-epochs"]).status.success());
    let server = start(&copy);
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/orders/7?cursor={middle}"));
    subscriber.gap();
}

#[test]
fn a_server_takes_no_other_lines_and_gives_its_own_epochs() {
    let server = Server::start(&[]);
    let url = format!("http://{}", server.address);
    let said = refused(&["import", &url, "--new-epochs"]);
    assert!(said.contains("remove --new-epochs"), "{said}");
    for (lines, expected) in [
        ("", "stdin is empty"),
        ("{\"topic\":\"a\"}\n", "line 1 is not the first line"),
        ("{\"thalweg_data\":1}\nx\n", "line 2 is not a line of an export"),
        ("{\"thalweg_data\":1}\n{\"topic\":\"a\",\"event\":1}\n", "ended early: 1 event published"),
        ("{\"thalweg_data\":1}\n{\"topic\":\"query/a\",\"event\":1}\n", "topic query/a: "),
    ] {
        let output = import(&url, lines, &[]);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && said.contains(expected), "{lines}: {said}");
    }
    assert_eq!(server.get("/v1/topics/a?limit=9").json()["events"], serde_json::json!([1]));
}

#[test]
fn a_backup_of_a_running_server_has_all_answered_events() {
    let directory = Directory::new();
    let server = start(&directory);
    let middle = fill(&server);
    let copy = Directory::new();
    let output = data(&["backup", directory.path(), copy.path()], Stdio::null());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("copied"), "{said}");
    server.publish("orders/7", 10..20);
    let again = refused(&["backup", directory.path(), copy.path()]);
    assert!(again.contains("is not empty"), "{again}");
    done(&["check", copy.path()]);

    let server = start(&copy);
    let mut subscriber = server.subscribe(Transport::Sse, "/orders/7?cursor=earliest");
    assert_eq!(subscriber.numbers(10).0, (0..10).collect::<Vec<_>>());
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/orders/7?cursor={middle}"));
    subscriber.gap();
}

#[test]
fn a_damaged_directory_is_reported_with_status_1() {
    let directory = Directory::new();
    let server = start(&directory);
    fill(&server);
    server.kill();
    let state = format!("{}/state", directory.path());
    let mut text = std::fs::read(&state).expect("a state");
    text[30] ^= 1;
    std::fs::write(&state, text).expect("written");
    let output = data(&["check", directory.path()], Stdio::null());
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && table.contains("damage in state"), "{table}");
    let said = refused(&["export", directory.path()]);
    assert!(said.contains("restore the directory"), "{said}");
    let said = refused(&["check", "/nonexistent"]);
    assert!(said.contains("is not a directory"), "{said}");
}

#[test]
fn a_reader_of_an_export_may_have_read_enough() {
    let directory = Directory::new();
    let server = start(&directory);
    for _ in 0..20 {
        server.publish("orders/7", 0..5000);
    }
    server.kill();
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["data", "export", directory.path()]).stdout(Stdio::piped());
    let mut export = command.spawn().expect("run the binary");
    drop(export.stdout.take());
    assert!(export.wait().expect("an end").success());
}
