//! Several servers that share topics through NATS JetStream, while nodes and NATS servers are killed: no
//! confirmed event is lost, repeated or out of order.
//!
//! - `servers`: NATS servers on this machine
//! - `nodes`: Thalweg servers that share a stream
//! - `fault`: kinds of faults, and bounds for their cost
//! - `driver`: injects faults into a cluster under load
//! - `load`: publishers and subscribers
//! - `ledger`: checks what they received against what was published
//! - `pulse`: measures interruptions
//! - `report`: the result of a run
//! - `queries`: rows that each node computes itself
//! - `outage`: replies while NATS is unavailable
//! - `tickets`: tickets, which any node accepts
//! - `values`: value topics, also fetched ones
//! - `keyed`: keyed topics
//! - `presence`: members of all nodes
//! - `moving`: topics that move from disk to NATS and back
//! - `balanced`: behind HAProxy, without sticky sessions
//!
//! `THALWEG_FAULTS=50` injects this many faults per test, `THALWEG_FAULT_SEED` repeats the choices of a run,
//! and `THALWEG_LEDGERS` names a folder for the ledgers.

mod balanced;
mod driver;
mod fault;
mod keyed;
mod ledger;
mod load;
mod moving;
mod nodes;
mod outage;
mod presence;
mod pulse;
mod queries;
mod report;
#[path = "../../../thalweg-nats/tests/it/harness/servers.rs"]
mod servers;
mod tickets;
mod values;

use driver::endure;
use nodes::Nodes;
pub(crate) use servers::Servers;

use crate::{
    durable::time_between,
    harness::{Transport, at, skipped, wait_for},
    operations::{has_metrics, metrics_asked_for},
};

const STREAM: &str = "thalweg-all";

#[test]
fn every_node_has_the_same_events_at_the_same_positions() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 3);
    let [_, _, last] =
        [0, 1, 2].map(|nth| nodes.at(nth).publish("cars", 10 * nth as u64..10 * nth as u64 + 10));
    let last = last.position;
    let read = |nth: usize| {
        wait_for("all events", || {
            let text = nodes.at(nth).get("/v1/topics/cars?limit=100").text();
            text.contains(&format!("\"head\":\"{last}\"")).then_some(text)
        })
    };
    let pages = [read(0), read(1), read(2)];
    assert!(pages[0] == pages[1] && pages[1] == pages[2], "{pages:#?}");
    // A position of one node is valid at every other, over every transport, also within a message.
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
fn a_subscription_since_a_time_begins_within_the_stream() {
    let Some(servers) = Servers::start(1) else { return };
    let mut nodes = Nodes::start(&servers, 1);
    for number in 0..400 {
        nodes.at(0).publish("cars", number..number + 1);
    }
    let time = time_between();
    nodes.at(0).publish("cars", 400..403);
    // It has no event in memory.
    nodes.kill(0);
    nodes.run(0);
    nodes.await_ready();
    for (since, first) in [(&*time, 400), ("1h", 0)] {
        let page = nodes.at(0).get(&format!("/v1/topics/cars?limit=2&since={since}")).json();
        assert_eq!(page["events"], serde_json::json!([first, first + 1]), "{since}");
        let target = format!("/cars?since={since}");
        let mut subscriber = nodes.at(0).subscribe(Transport::Sse, &target);
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events[0], first, "{since}");
    }
}

/// Some characters have a meaning in URLs, in forms or in subjects of NATS.
#[test]
fn a_topic_with_special_characters_is_the_same_at_every_node() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 2);
    // A name, its spelling in the path of a publisher, and its spelling in the query of a subscriber.
    for (topic, path, query) in [
        ("a@b:c|d+e=f", "a@b:c%7Cd+e=f", "a%40b%3Ac%7Cd%2Be%3Df"),
        ("a@b:c|d+e=f/1.2", "a%40b%3Ac%7Cd%2Be%3Df/1%2E2", "a@b:c|d%2Be=f%2F1.2"),
        ("~.a+/b=./c:", "%7E.a+/b%3D./c%3A", "~.a%2B/b=./c:"),
    ] {
        let published = nodes.at(0).publish(path, 0..3);
        assert_eq!(published.topic, topic);
        for transport in Transport::ALL {
            let mut by_query =
                nodes.at(1).subscribe(transport, &format!("?topic={query}&cursor=earliest"));
            by_query.confirmed();
            assert_eq!(by_query.numbers(3), (vec![0, 1, 2], published.position.clone()));
        }
        let mut live = nodes.at(1).subscribe(Transport::Sse, &format!("/{path}"));
        live.confirmed();
        let next = nodes.at(0).publish(path, 3..4);
        let envelope = live.envelope();
        assert_eq!((&*envelope.topic, envelope.position), (topic, next.position));
        assert_eq!(envelope.events, [3]);
        let listed = nodes.at(1).get("/v1/topics").json();
        let listed = listed["topics"].as_array().expect("a list").clone();
        assert!(listed.iter().any(|listed| listed["topic"] == topic), "{topic} in {listed:?}");
        let deleted = nodes.at(1).ask("DELETE", &format!("/v1/topics/{path}"), &[], "");
        assert_eq!(deleted.status, 204, "{}", deleted.text());
    }
}

#[test]
fn the_board_and_the_alerts_ask_for_metrics_of_nats_that_there_are() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 1);
    let asked_for = metrics_asked_for();
    let others = asked_for.iter().filter(|(_, name)| !name.starts_with("thalweg_disk_"));
    has_metrics(nodes.at(0), others);
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
    endure(&fault::KILL_NODE);
}

#[test]
fn a_leader_of_nats_that_is_killed_loses_nothing() {
    endure(&fault::KILL_LEADER);
}

#[test]
fn a_follower_of_nats_that_is_killed_loses_nothing() {
    endure(&fault::KILL_FOLLOWER);
}

#[test]
fn two_servers_of_nats_that_are_killed_at_once_lose_nothing() {
    endure(&fault::KILL_TWO);
}

#[test]
fn all_servers_of_nats_that_are_killed_at_once_lose_nothing() {
    endure(&fault::KILL_ALL);
}

#[test]
fn a_leader_of_nats_that_stands_still_loses_nothing() {
    endure(&fault::STOP_LEADER);
}

#[test]
fn a_leader_of_nats_that_is_restarted_loses_nothing() {
    endure(&fault::TERMINATE_LEADER);
}

#[test]
fn a_leader_of_nats_that_hands_over_loses_nothing() {
    endure(&fault::HAND_OVER_LEADER);
}

#[test]
fn a_leader_of_nats_whose_disk_is_full_loses_nothing() {
    endure(&fault::FILL_DISK);
}

#[test]
fn nodes_that_are_restarted_one_by_one_leave_no_publish_unknown() {
    endure(&fault::DRAIN_NODES);
}

/// Returns the number in an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}
