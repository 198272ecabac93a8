//! `thalweg data` moves topics between disk and NATS.

use std::{
    fs::File,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use thalweg_testing::TemporaryPath;

use super::{Nodes, Servers};
use crate::harness::{Server, Transport, wait_for};

const TOPICS: u64 = 12;

const EVENTS: u64 = 500;

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

/// Runs `thalweg data`, which must succeed. Returns the sentence on stderr.
fn data(arguments: &[&str], input: Stdio, output: Stdio) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let command = command.arg("data").args(arguments).stdin(input).stdout(output);
    let output = command.stderr(Stdio::piped()).output().expect("run the binary");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// Moves the topics of a directory or a server to a server.
fn move_topics(from: &str, to: &str, through: &str) {
    let lines = File::create(through).expect("a file");
    data(&["export", from, "--topic", "orders/**"], Stdio::null(), lines.into());
    let lines = File::open(Path::new(through)).expect("a file");
    let said = data(&["import", to], lines.into(), Stdio::null());
    assert!(said.contains("imported 6,000 events with new positions"), "{said}");
}

fn has_all(server: &Server) {
    let names: Vec<String> = (0..TOPICS).map(|topic| format!("orders/{topic:02}")).collect();
    let list = server.get("/v1/topics?prefix=orders/").json();
    let listed = list["topics"].as_array().expect("a list").iter();
    assert_eq!(listed.map(|topic| topic["topic"].clone()).collect::<Vec<_>>(), names);
    for (topic, name) in (0..).zip(&names) {
        let expected: Vec<Value> = (topic..topic + EVENTS).map(Value::from).collect();
        wait_for("all events", || {
            let page = server.get(&format!("/v1/topics/{name}?limit=1000")).json();
            (page["events"] == json!(expected)).then_some(())
        });
    }
}

#[test]
fn topics_move_from_disk_to_nats_and_back() {
    let Some(servers) = Servers::start(1) else { return };
    let folder = TemporaryPath::folder("moves");
    let lines = folder.inside("lines");
    let start = |name: &str| Server::start(&["--data", &folder.inside(name)]);

    let disk = start("disk");
    let mut position = String::new();
    for topic in 0..TOPICS {
        let name = format!("orders/{topic:02}");
        position = disk.publish(&name, topic..topic + EVENTS / 2).position;
        disk.publish(&name, topic + EVENTS / 2..topic + EVENTS);
    }
    disk.publish("other", 0..3);
    disk.publish("orders/gone", 0..3);
    disk.ask("DELETE", "/v1/topics/orders/gone", &[], "");

    let mut nodes = Nodes::start(&servers, 1);
    move_topics(&url(&disk), &url(nodes.at(0)), &lines);
    has_all(nodes.at(0));
    // Subscribers of the other server get a gap, and then all events.
    let target = format!("/orders/{:02}?cursor={position}", TOPICS - 1);
    let mut subscriber = nodes.at(0).subscribe(Transport::Sse, &target);
    assert_eq!(subscriber.gap().reason, "epoch");
    let (numbers, _) = subscriber.numbers(EVENTS as usize);
    assert_eq!(numbers, (TOPICS - 1..TOPICS - 1 + EVENTS).collect::<Vec<_>>());

    // The node has no topic in memory: NATS lists them.
    nodes.kill(0);
    nodes.run(0);
    nodes.await_ready();
    let back = start("back");
    move_topics(&url(nodes.at(0)), &url(&back), &lines);
    has_all(&back);
    back.kill();
    has_all(&start("back"));

    // From a directory without a server.
    disk.kill();
    let memory = Server::start(&[]);
    move_topics(&folder.inside("disk"), &url(&memory), &lines);
    has_all(&memory);
}
