//! `thalweg pub`.

use serde_json::Value;

use crate::harness::{Program, Server, thalweg};

fn publish(server: &Server, topic: &str, more: &[&str]) -> Program {
    let url = format!("http://{}/v1/topics/{topic}", server.address);
    thalweg(&[&["pub", &url], more].concat())
}

fn history(server: &Server, topic: &str) -> Vec<Value> {
    let target = format!("/v1/topics/{topic}?limit=10000");
    server.get(&target).json()["events"].as_array().expect("events").clone()
}

fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(|number| format!("{number}\n")).collect()
}

#[test]
fn lines_become_events_in_their_order() {
    let server = Server::start(&[]);
    let check = |topic: &str, more: &[&str], input: &str, expected: Value, count: &str| {
        let mut program = publish(&server, topic, more);
        program.give(input);
        let (status, said) = program.end();
        assert!(status.success(), "{said}");
        assert!(said.starts_with(&format!("{count} published, last position ")), "{said}");
        assert_eq!(Value::from(history(&server, topic)), expected, "{more:?}");
    };
    let json = "1\n\n {\"a\": 1}\r\n\"last\"";
    let expected = serde_json::json!([1, {"a": 1}, "last"]);
    check("safe", &[], json, expected.clone(), "3 events");
    check("fast", &["--fast"], json, expected, "3 events");
    let text = "say \"hi\"\n\n{";
    let expected = serde_json::json!(["say \"hi\"", "", "{"]);
    check("safe-text", &["--text"], text, expected.clone(), "3 events");
    check("fast-text", &["--text", "--fast"], text, expected, "3 events");
    let many: Vec<u64> = (0..5000).collect();
    check("many", &["--fast"], &lines(0..5000), many.into(), "5,000 events");
}

/// The server is killed in mid-stream. Confirmed lines are not published again; each server has each line at most once.
#[test]
fn a_restart_is_published_through() {
    let server = Server::start(&[]);
    let address = server.address.to_string();
    let mut program = publish(&server, "numbers", &[]);
    let url = format!("http://{address}/v1/topics/numbers");
    let mut tail = thalweg(&["tail", &url, "--from", "earliest"]);
    program.give(&lines(0..2000));
    let first = tail.lines(100);
    server.kill();
    let server = Server::start(&["--listen", &address]);
    program.give(&lines(2000..3000));
    let (status, said) = program.end();
    assert!(status.success() && said.contains("3,000 events published"), "{said}");
    assert!(said.contains("retrying line "), "the restart came too late: {said}");
    let numbers = |events: &[Value]| -> Vec<u64> {
        events.iter().map(|event| event.as_u64().expect("a number")).collect()
    };
    let second = numbers(&history(&server, "numbers"));
    let begin = second[0];
    assert!((100..2000).contains(&begin), "{begin}");
    assert_eq!(second, (begin..3000).collect::<Vec<_>>());
    let first: Vec<u64> = first.iter().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(first, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_bad_line_is_named_with_the_remedy() {
    let server = Server::start(&[]);
    let check = |more: &[&str], expected: &[&str]| {
        let topic = format!("bad/{}", more.len());
        let mut program = publish(&server, &topic, more);
        program.give("1\n\n{\n2\n");
        let (status, said) = program.end();
        assert_eq!(status.code(), Some(1), "{said}");
        for expected in expected {
            assert!(said.contains(expected), "{more:?}: no {expected:?} in {said}");
        }
        assert_eq!(history(&server, &topic), [1], "{more:?}");
    };
    check(
        &[],
        &[
            "line 3 is not a JSON value",
            "--text",
            "1 event published",
            "tail -n +3 FILE | thalweg pub",
        ],
    );
    check(&["--fast"], &["line 3", "1 event published"]);
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let server = Server::start(&[]);
    for more in [&["--text"][..], &["--text", "--fast"]] {
        let url = format!("http://{}/v1/topics/text", server.address);
        let script = format!(
            "printf 'a\\n\\377\\n' | {} pub {url} {}",
            env!("CARGO_BIN_EXE_thalweg"),
            more.join(" ")
        );
        let mut shell = Program::start(std::process::Command::new("sh").args(["-c", &script]));
        let (status, said) = shell.end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("line 2 is not UTF-8"), "{more:?}: {said}");
    }
}

#[test]
fn it_is_one_topic_at_a_time() {
    let check = |arguments: &[&str], expected: &str| {
        let (status, said) = thalweg(&[&["pub"], arguments].concat()).end();
        assert!(!status.success() && said.contains(expected), "{arguments:?}: {said}");
    };
    check(&["http://localhost"], "name a topic");
    check(&["http://localhost/v1/topics/a", "--topic", "b"], "one topic at a time");
}
