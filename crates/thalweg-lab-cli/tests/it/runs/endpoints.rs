//! Endpoints that cannot be measured, refusals before a run starts, and the comparison with another build.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use thalweg_testing::{Program, Reply, Upstream, response, undisturbed};

use super::place::Place;
use super::secrets::{endpoint, made};
use crate::programs::thalweg;

/// Measures this URL, which must fail. Returns the error, and checks that no other file remains.
fn failure(name: &str, words: &[&str]) -> String {
    let place = Place::new(name);
    let short = ["--duration", "100ms", "--out", "store/run-a", "--junit", "results.xml"];
    let said = place.bench(&[words, &short].concat());
    said.ended_with(1);
    assert!(!place.file("run-a", "").exists(), "{}", said.stdout);
    assert!(place.folder.join("results.xml").exists());
    said.stderr
}

#[test]
fn a_visit_that_fails_leaves_no_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = format!("ws://{}/live", listener.local_addr().expect("its address"));
    drop(listener);
    let said = failure("nobody", &["--url", &nobody, "--send-on-open", "s3cret"]);
    let expected = format!("thalweg-lab: nothing listens at {nobody}: start the server first, or");
    assert!(said.contains(&expected) && !said.contains("s3cret"), "{said}");

    let (at, _) = endpoint(made);
    let said = failure("no-websocket", &["--url", &format!("ws://{at}/live")]);
    assert!(said.contains("established no connection"), "{said}");
}

/// Starts an endpoint that accepts one connection, sends nothing on it, and refuses all others.
fn faulty() -> String {
    let endpoint = Upstream::start(|asked| match asked.before {
        0 => Reply::Never(response(200, "Content-Type: text/event-stream\r\n", b"")),
        _ => Reply::with(503, "", "full\n"),
    });
    endpoint.url("/")
}

#[test]
fn refused_and_silent_connections_fail_a_run_unless_they_are_allowed() {
    let bench = |name: &str, words: &[&str]| {
        let place = Place::new(name);
        let url = faulty();
        let short = ["--url", &url, "--connections", "4", "--duration", "100ms"];
        let once = ["--repeats", "1", "--out", "store/run-a", "--junit", "results.xml"];
        let said = place.bench(&[&short[..], &once, words].concat());
        let junit = fs::read_to_string(place.folder.join("results.xml")).expect("a file");
        (said, junit)
    };
    let (said, junit) = bench("faults", &[]);
    said.ended_with(1);
    let refused = "3 of 4 connections were refused (503 So: full): --allow-refused";
    let silent = "1 of 4 connections got no message: --allow-silent";
    for expected in [refused, silent] {
        assert!(said.stderr.contains(expected), "{}", said.stderr);
        assert!(junit.contains(expected), "{junit}");
    }
    assert!(junit.contains("<failure type=\"silent\""), "{junit}");
    let (said, junit) = bench("allowed", &["--allow-refused", "--allow-silent"]);
    said.ended_with(0);
    assert!(!junit.contains("<failure"), "{junit}");
    let thresholds = ["--fail-if", "refused>2", "--fail-if", "messages<1"];
    let allow = ["--allow-refused", "--allow-silent"];
    let (said, _) = bench("named", &[&allow[..], &thresholds].concat());
    said.ended_with(1);
    assert!(said.stderr.contains("refused is 3, fail if refused>2"), "{}", said.stderr);
}

/// An event with a number. Each tenth number is missing.
fn lossy(event: u64) -> String {
    format!("{{\"n\":{}}}", event + (event - 1) / 9)
}

#[test]
fn lost_messages_fail_a_run_unless_they_are_allowed() {
    let bench = |name: &str, words: &[&str]| {
        let place = Place::new(name);
        let url = format!("http://{}/", endpoint(lossy).0);
        let short = ["--connections", "2", "--duration", "200ms"];
        let once = ["--repeats", "1", "--out", "store/run-a"];
        place.bench(&[&["--url", &url, "--sequence", "n"], &short[..], &once, words].concat())
    };
    let said = bench("lossy", &[]);
    said.ended_with(1);
    assert!(
        said.stderr.contains(" messages were lost: --allow-lost allows this"),
        "{}",
        said.stderr
    );
    let state = said.stdout.lines().next().unwrap_or_default();
    assert!(state.starts_with("2 of 2 connected, ") && state.contains(" lost"), "{}", said.stdout);
    assert!(said.stdout.contains(" lost on 2 connections, "), "{}", said.stdout);
    bench("lossy-allowed", &["--allow-lost"]).ended_with(0);
    let said = bench("lossy-threshold", &["--allow-lost", "--fail-if", "lost>0"]);
    said.ended_with(1);
    assert!(said.stderr.contains(", fail if lost>0"), "{}", said.stderr);
}

#[test]
fn a_missing_timestamp_is_an_error_that_lists_existing_fields() {
    let (at, _) = endpoint(made);
    let said = failure("no-time", &["--url", &format!("http://{at}/"), "--timestamp", "data.ts"]);
    let expected = "thalweg-lab: no message has a time at data.ts: the first has made\n";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn options_without_effect_on_an_endpoint_are_refused() {
    let place = Place::new("no-effect");
    let refused = |words: &[&str], expected: &str| {
        let said = place.bench(&[&["--url", "ws://127.0.0.1:1/"], words].concat());
        said.ended_with(2);
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    };
    refused(&["--size", "1KiB"], "set --rate, or remove it");
    refused(&["--binary"], "set --rate, or remove it");
    refused(&["--rate", "0"], "a rate is 1 to ");
    refused(&["--rate", "1", "--size", "32"], "a message that is sent has 33 to");
    refused(&["--rate", "1", "--timestamp", "ts"], "remove it, or send lines");
    refused(&["--data", "nothing.txt"], "--data nothing.txt: No such file");
    fs::write(place.folder.join("two.txt"), "a {id}\n\nb\n").expect("write lines");
    fs::write(place.folder.join("none.txt"), "\n").expect("write no lines");
    refused(&["--data", "none.txt"], "the file of --data is empty");
    refused(&["--data", "two.txt"], "set --rate, or remove it");
    refused(&["--data", "two.txt", "--rate", "1", "--size", "99"], "remove --size");
    refused(&["--tokens", "two.txt"], "--tokens has no effect");
    let hello = ["--send-on-open", "{token}", "--tokens", "two.txt"];
    refused(&hello, "--tokens has 2 lines for 10 connections");
    fs::write(place.folder.join("far.txt"), "fine\nä\n").expect("write lines");
    refused(&["--header", "A: {token}", "--tokens", "far.txt"], "line 2 of --tokens cannot");
    refused(&["--set", "window=4"], "window has no effect with --url, which uses connections");
    refused(&["--transports", "sse,websocket"], "name one transport with --transports");
    let http = ["--url", "http://127.0.0.1:1/", "--rate", "1"];
    let said = place.bench(&http);
    said.ended_with(2);
    assert!(said.stderr.contains("--rate needs a WebSocket"), "{}", said.stderr);
    let said = place.bench(&["--url", "http://127.0.0.1:1/", "--think", "1s..2s"]);
    said.ended_with(2);
    assert!(said.stderr.contains("add --dialect llm-stream"), "{}", said.stderr);
    refused(&["--subscribe", "x"], "--dialect <NAME>");
    refused(&["--dialect", "mqtt"], "there are socketio, signalr, graphql-ws");
    refused(&["--body", "@nothing.json"], "--body nothing.json: No such file");
    refused(&["--body", "{}"], "--method and --body need HTTP");
    refused(&["--think", "1s..2s", "--rate", "1"], "remove one of them");
    refused(&["--slow", "10"], "nobody is left to read");
    refused(&["--slow", "1", "--stampede"], "--slow is for connections that stay");
    refused(&["--no-control"], "cannot be used with");
    refused(&["--duration", "soon"], "needs a number and us");
}

#[test]
fn sent_messages_and_replies_are_counted() {
    // On a slow machine fewer messages than 50/s leave in 200 ms.
    undisturbed(send_and_tell);
}

/// Returns the address at which `thalweg serve` listens.
fn address_of(server: &mut Program) -> SocketAddr {
    let first = server.line().expect("a line");
    let address = first.split_once("://").map(|(_, address)| address.trim());
    address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{first}"))
}

fn send_and_tell() {
    let mut serve = Command::new(thalweg());
    let mut server = Program::start(serve.args(["serve", "--listen", "127.0.0.1:0"]));
    let address = address_of(&mut server);
    let place = Place::new("sending");
    let line = r#"{"command":"echo","id":{id},"data":"{connection}"}"#;
    fs::write(place.folder.join("lines.txt"), line).expect("write lines");
    let url = format!("ws://{address}/v1/topics/numbers");
    let sends = ["--url", &url, "--rate", "50", "--data", "lines.txt", "--connections", "4"];
    let short = ["--duration", "200ms", "--repeats", "1", "--out", "store/run-a"];
    let said = place.bench(&[&sends[..], &short].concat());
    assert!(said.stdout.contains("4 connections, 50/s each\n"), "{}", said.stdout);
    assert!(said.stdout.contains(" answered, 0 unanswered; from due to "), "{}", said.stdout);
    let summary = place.json("run-a", "summary.json");
    let row = &summary["parts"][0]["rows"][0];
    let exchanged = &row["received"]["exchanged"];
    assert_eq!(exchanged["sent"], exchanged["answered"]);
    assert!((38..=42).contains(&exchanged["sent"].as_u64().expect("a count")), "{exchanged}");
    assert!(row["round_trip"]["p50_us"].as_f64() > Some(0.0), "{row}");
    let page = place.text("run-a", "report.html");
    assert!(page.contains("answered, 0 unanswered"), "{page}");
}

/// The other build is this one: the test checks which subjects are compared, and no figure.
#[test]
fn another_build_is_measured_beside_this_one() {
    let place = Place::new("against");
    let short = ["--no-control", "--repeats", "1", "--subject", "thalweg"];
    place.take("run-a", &[&["--against", &*thalweg()], &short[..]].concat());
    let rows = &place.json("run-a", "summary.json")["parts"][0]["rows"];
    assert_eq!(rows[0]["subject"], "thalweg before");
    assert_eq!((&rows[0]["is_baseline"], &rows[1]["subject"]), (&true.into(), &"thalweg".into()));
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(manifest["peers"]["thalweg before"], manifest["measured"]);
    // The run does not store the path of the other build.
    let said = place.bench(&["rerun", "run-a", "--store", "store"]);
    said.ended_with(2);
    assert!(said.stderr.contains("name one with --against"), "{}", said.stderr);
}
