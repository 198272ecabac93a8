//! Several servers as one, by NATS JetStream, while nodes and servers of NATS are ended without a
//! word: nothing that was answered is lost, and nothing comes twice or out of order.
//!
//! - `servers`: NATS servers on this machine
//! - `nodes`: servers of Thalweg that share a stream
//! - `load`: who publishes and subscribes, and what they must get
//! - `values`: value topics, which may be fetched

mod load;
mod nodes;
#[path = "../../../thalweg-nats/tests/it/harness/servers.rs"]
mod servers;
mod values;

use std::{thread::sleep, time::Duration};

use load::Load;
use nodes::Nodes;
use servers::Servers;

use crate::harness::{Transport, at, skipped, wait_for as until};

/// What JetStream calls the stream.
const STREAM: &str = "thalweg-all";

/// How long the load goes on between two blows: both sides of each must be under load.
const BETWEEN: Duration = Duration::from_millis(1500);

#[test]
fn every_node_has_the_same_events_at_the_same_positions() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 3);
    let [_, _, last] =
        [0, 1, 2].map(|nth| nodes.at(nth).publish("cars", 10 * nth as u64..10 * nth as u64 + 10));
    let last = last.position;
    let read = |nth: usize| {
        until("all events", || {
            let text = nodes.at(nth).get("/v1/topics/cars?limit=100").text();
            text.contains(&format!("\"head\":\"{last}\"")).then_some(text)
        })
    };
    let pages = [read(0), read(1), read(2)];
    assert!(pages[0] == pages[1] && pages[1] == pages[2], "{pages:#?}");
    // A position of one is good at any other, over every transport, also within a message.
    let page: serde_json::Value = serde_json::from_str(&pages[0]).expect("JSON");
    let first = page["first"].as_u64().expect("an offset");
    for (nth, transport) in Transport::ALL.into_iter().enumerate() {
        let cursor = at(&last, first + 4);
        let node = nodes.at(nth % 3);
        let mut subscriber = node.subscribe(transport, &format!("/cars?cursor={cursor}"));
        assert_eq!(subscriber.confirmed(), cursor);
        let mut numbers = Vec::new();
        while numbers.len() < 25 {
            let envelope = subscriber.envelope();
            numbers.extend(envelope.events.iter().map(|event| event.as_u64().expect("a number")));
        }
        assert_eq!(numbers, (5..30).collect::<Vec<_>>(), "{transport:?}");
    }
}

#[test]
fn a_repeated_publish_is_stored_once_whichever_node_gets_it() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 2);
    let post = |nth: usize, body: &str| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
        nodes.at(nth).ask("POST", "/v1/topics/cars", &headers, body)
    };
    let first = post(0, "1");
    let again = post(1, "1");
    assert_eq!((first.status, first.text()), (200, again.text()));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(post(1, "2").status, 422);
}

#[test]
fn a_node_that_is_killed_loses_nothing() {
    let Some(servers) = Servers::start(3) else { return };
    let mut nodes = Nodes::start(&servers, 3);
    let load = Load::start(&nodes);
    for round in 0..3 {
        sleep(BETWEEN);
        nodes.kill(round % 3);
        sleep(BETWEEN / 2);
        nodes.run(round % 3);
    }
    load.end(&nodes);
}

#[test]
fn a_leader_of_nats_that_is_killed_loses_nothing() {
    let Some(mut servers) = Servers::start(3) else { return };
    let nodes = Nodes::start(&servers, 3);
    let load = Load::start(&nodes);
    for _ in 0..2 {
        sleep(BETWEEN);
        let leader = servers.leader(STREAM);
        servers.kill(leader);
        servers.leader(STREAM);
        sleep(BETWEEN);
        servers.run(leader);
        nodes.await_ready();
    }
    load.end(&nodes);
}

#[test]
fn a_leader_of_nats_that_stands_still_loses_nothing() {
    let Some(servers) = Servers::start(3) else { return };
    let nodes = Nodes::start(&servers, 3);
    let load = Load::start(&nodes);
    sleep(BETWEEN);
    let leader = servers.leader(STREAM);
    servers.freeze(leader, true);
    sleep(4 * BETWEEN);
    servers.freeze(leader, false);
    sleep(BETWEEN);
    load.end(&nodes);
}

#[test]
fn all_servers_of_nats_that_are_killed_at_once_lose_nothing() {
    let sync = std::env::temp_dir().join(format!("thalweg-sync-{}.conf", std::process::id()));
    std::fs::write(&sync, "jetstream { sync_interval: always }\n").expect("write a file");
    let arguments = ["-c", sync.to_str().expect("a path")];
    let Some(mut servers) = Servers::start_with(3, &arguments) else { return };
    let nodes = Nodes::start(&servers, 3);
    let load = Load::start(&nodes);
    sleep(BETWEEN);
    (0..3).for_each(|index| servers.kill(index));
    sleep(BETWEEN);
    (0..3).for_each(|index| servers.run(index));
    nodes.await_ready();
    sleep(BETWEEN);
    load.end(&nodes);
    std::fs::remove_file(&sync).expect("remove it");
}

#[test]
fn nodes_that_are_restarted_one_by_one_leave_no_publish_unknown() {
    let Some(servers) = Servers::start(3) else { return };
    let mut nodes = Nodes::start(&servers, 3);
    let load = Load::start(&nodes);
    for nth in 0..3 {
        sleep(BETWEEN / 3);
        nodes.drain(nth);
        nodes.run(nth);
    }
    assert_eq!(load.end(&nodes), 0);
}
