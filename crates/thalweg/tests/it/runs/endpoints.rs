//! Endpoints that cannot be measured, and what is refused before it is tried; another build.

use std::net::TcpListener;

use super::place::{Place, THALWEG};
use super::secrets::endpoint;

/// What a visit of that URL says that fails, and leaves nothing but what was asked for.
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
    let expected = format!("thalweg: nothing listens at {nobody}: start the server first, or");
    assert!(said.contains(&expected) && !said.contains("s3cret"), "{said}");

    let (at, _) = endpoint();
    let said = failure("no-websocket", &["--url", &format!("ws://{at}/live")]);
    assert!(said.contains("let no connection stand"), "{said}");
}

#[test]
fn a_timestamp_that_is_not_there_is_answered_with_what_is() {
    let (at, _) = endpoint();
    let said = failure("no-time", &["--url", &format!("http://{at}/"), "--timestamp", "data.ts"]);
    let expected = "thalweg: no event has a time at data.ts: the first has made\n";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn what_has_no_effect_on_an_endpoint_is_refused() {
    let place = Place::new("no-effect");
    let refused = |words: &[&str], expected: &str| {
        let said = place.bench(&[&["--url", "ws://127.0.0.1:1/"], words].concat());
        said.ended_with(2);
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    };
    refused(&["--rate", "10"], "listened to and not sent to");
    refused(&["--size", "1KiB"], "--send-on-open");
    refused(&["--set", "window=4"], "window has no effect with --url, which uses connections");
    refused(&["--transports", "sse,websocket"], "one of --transports");
    refused(&["--no-control"], "cannot be used with");
    refused(&["--duration", "soon"], "is no duration");
}

/// The other build is this one: what stands beside each other is looked at, and no figure.
#[test]
fn another_build_is_measured_beside_this_one() {
    let place = Place::new("against");
    let short = ["--no-control", "--repeats", "1", "--subject", "thalweg"];
    place.take("run-a", &[&["--against", THALWEG], &short[..]].concat());
    let rows = &place.json("run-a", "summary.json")["parts"][0]["rows"];
    assert_eq!(rows[0]["subject"], "thalweg before");
    assert_eq!((&rows[0]["is_baseline"], &rows[1]["subject"]), (&true.into(), &"thalweg".into()));
    let manifest = place.json("run-a", "manifest.json");
    assert_eq!(manifest["peers"]["thalweg before"], manifest["version"]);
    // Where it lay is not kept.
    let said = place.bench(&["rerun", "run-a", "--store", "store"]);
    said.ended_with(2);
    assert!(said.stderr.contains("name one that is with --against"), "{}", said.stderr);
}
