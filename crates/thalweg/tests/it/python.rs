//! The Python example, as it stands in `examples/python`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Program, Proxy, Server};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a script of the example.
fn python(script: &str, arguments: &[&str]) -> Program {
    let script = repository().join("examples/python").join(script);
    Program::start(interpreter().arg(script).args(arguments))
}

/// Runs lines of Python.
pub(crate) fn code(lines: &str, arguments: &[&str]) -> Program {
    Program::start(interpreter().args(["-c", lines]).args(arguments))
}

/// Python with the packages that `make setup` installs.
fn interpreter() -> Command {
    let packages = repository().join("target/python");
    assert!(
        packages.join("installed").exists(),
        "Python needs the packages of examples/python/requirements.txt: run make setup"
    );
    let mut command = Command::new("python3");
    command.arg("-u").env("PYTHONPATH", packages);
    command
}

#[test]
fn it_follows_and_resumes_over_each_transport() {
    let check = |transport: &str| {
        let server = Server::start(&[]);
        let proxy = Proxy::start(server.address);
        let url = format!("http://{}/v1/topics/numbers", proxy.address);
        server.publish("numbers", 0..10);
        let mut follower = python("tail.py", &[&url, transport, "earliest"]);
        let mut seen = follower.lines(10);
        proxy.cut();
        server.publish("numbers", 10..20);
        seen.extend(follower.lines(10));
        let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(seen, expected, "{transport}");
        assert!(!follower.said().contains("missed"), "{}", follower.said());
    };
    std::thread::scope(|scope| {
        for transport in ["websocket", "sse", "http-streaming"] {
            scope.spawn(move || check(transport));
        }
    });
}

#[test]
fn it_publishes_once_and_sends_a_command() {
    let server = Server::start(&[]);
    let url = format!("http://{}/v1/topics/numbers", server.address);
    let mut publisher = python("publish.py", &[&url]);
    publisher.give("1\n\n{\"a\": \"é\"}\n");
    let positions = publisher.lines(2);
    let (status, said) = publisher.end();
    assert!(status.success() && said.contains("echo: {'id': 1, 'data': 'hello'}"), "{said}");
    let history = server.get("/v1/topics/numbers?limit=10").json();
    assert_eq!(history["events"], serde_json::json!([1, {"a": "é"}]));
    assert_eq!(history["position"], positions[1].as_str());
    let mut refused = python("publish.py", &[&url]);
    refused.give("{\n");
    let (status, said) = refused.end();
    assert!(!status.success() && said.contains("not a JSON value"), "{said}");
}
