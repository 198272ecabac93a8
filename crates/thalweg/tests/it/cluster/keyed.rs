//! Keyed topics that nodes share.

use std::thread;

use serde_json::{Value, json};

use super::{Nodes, Servers};
use crate::{
    harness::{Server, Transport, at, offset, wait_for},
    keyed::{
        mirror::{Map, Mirror},
        publishing::increment,
        random::check_servers,
    },
};

const KEYED: [&str; 4] =
    ["--topic", "users/**,kind=keyed,key=/id", "--topic", "rooms/**,kind=keyed"];

fn start(servers: &Servers, count: usize) -> Nodes {
    let more = [&KEYED[..], &["--stream", "rooms=rooms/**,kind=keyed,replicas=1"]].concat();
    Nodes::start_with(servers, count, "users=users/**,kind=keyed", &more)
}

/// Waits until a node has an event, and returns its state.
fn state(node: &Server, topic: &str, position: &str) -> (String, Map) {
    wait_for("a state", || {
        // The node may not have followed the stream to the topic's first event.
        if node.get(&format!("/v1/topics/{topic}?limit=1")).status == 404 {
            return None;
        }
        let mirror = Mirror::read(node, topic, 100);
        (offset(&mirror.position) >= offset(position)).then_some((mirror.position, mirror.map))
    })
}

fn post(node: &Server, target: &str, event: &Value) -> String {
    node.post(target, "application/json", event.to_string()).published().position
}

#[test]
fn a_keyed_topic_has_the_same_state_at_every_node() {
    let Some(servers) = Servers::start(1) else { return };
    let mut nodes = start(&servers, 3);
    let mut watching = nodes.at(2).subscribe(Transport::WebSocket, "/users/a");
    let mut mirror = Mirror::confirmed(&mut watching);
    let mut expected = Map::new();
    let mut last = String::new();
    for nth in 0..60 {
        let key = format!("u{}", nth % 20);
        let node = nodes.at(nth % 2);
        if nth % 7 == 0 {
            last = node
                .post(&format!("users/a?key={key}"), "application/json", "null")
                .published()
                .position;
            expected.remove(&key);
        } else {
            let event = json!({"id": key, "nth": nth});
            last = post(node, "users/a", &event);
            expected.insert(key, event);
        }
    }
    mirror.follow(&mut watching, &last);
    assert_eq!((mirror.position.clone(), &mirror.map), (last.clone(), &expected));
    let states = [0, 1, 2].map(|nth| state(nodes.at(nth), "users/a", &last));
    assert!(states.iter().all(|found| *found == (last.clone(), expected.clone())), "{states:#?}");
    // A node that starts later reads the state from NATS.
    nodes.kill(1);
    nodes.run(1);
    assert_eq!(state(nodes.at(1), "users/a", &last).1, expected);
    // A client continues anywhere, and gets changes only.
    let mut kept = mirror.kept();
    let mut resumed =
        nodes.at(1).subscribe(Transport::Sse, &format!("/users/a?cursor={}", mirror.position));
    kept.next(&mut resumed);
    let removed = nodes.at(0).ask("DELETE", "/v1/topics/users/a?key=u1", &[], "");
    assert_eq!(removed.status, 204, "{}", removed.text());
    expected.remove("u1");
    let last = post(nodes.at(2), "users/a", &json!({"id": "new"}));
    expected.insert("new".to_owned(), json!({"id": "new"}));
    kept.follow(&mut resumed, &last);
    assert_eq!((kept.events, &kept.map), (2, &expected));
    let deleted = nodes.at(1).ask("DELETE", "/v1/topics/users/a", &[], "");
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    wait_for("the end at each node", || {
        let ended = |nth: usize| nodes.at(nth).get("/v1/topics/users/a?limit=1").status == 404;
        (0..3).all(ended).then_some(())
    });
    let again = post(nodes.at(0), "users/a", &json!({"id": "again"}));
    let only = Map::from([("again".to_owned(), json!({"id": "again"}))]);
    assert_eq!(state(nodes.at(2), "users/a", &again).1, only);
}

#[test]
fn clients_at_all_nodes_compare_and_swap_and_count_exactly() {
    const ROUNDS: usize = 15;
    let Some(servers) = Servers::start(1) else { return };
    let nodes = start(&servers, 3);
    thread::scope(|scope| {
        for client in 0..6 {
            let node = nodes.at(client % 3);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    increment(node, "rooms/counters", ["a", "b"][(client + round) % 2]);
                }
            });
        }
        // Other events of the topic come between.
        scope.spawn(|| {
            for nth in 0..200 {
                post(nodes.at(nth % 3), "rooms/counters?key=c", &json!(nth));
            }
        });
    });
    let counted = json!({"a": 3 * ROUNDS, "b": 3 * ROUNDS, "c": 199});
    for nth in 0..3 {
        wait_for("the counters", || {
            (json!(Mirror::read(nodes.at(nth), "rooms/counters", 9).map) == counted).then_some(())
        });
    }
    // The loser of a race gets the newest event.
    let first = post(nodes.at(0), "rooms/a?key=k&if=new", &json!(1));
    let lost = nodes.at(1).post("rooms/a?key=k&if=new", "application/json", "2");
    lost.refused(412, "condition_failed");
    assert_eq!(lost.json()["newest"], json!({"position": first, "event": 1}));
    let headers = [("Idempotency-Key", "once"), ("Content-Type", "application/json")];
    let target = format!("/v1/topics/rooms/a?key=k&if={first}");
    let again = [0, 1, 2].map(|nth| nodes.at(nth).ask("POST", &target, &headers, "3"));
    assert_eq!(again[0].status, 200, "{}", again[0].text());
    assert!(again.iter().all(|answer| answer.text() == again[0].text()), "{again:?}");
}

#[test]
fn each_key_expires_once_although_all_nodes_see_it() {
    const KEYS: u64 = 300;
    let Some(servers) = Servers::start(1) else { return };
    let nodes = start(&servers, 3);
    let mut watching = nodes.at(1).subscribe(Transport::WebSocket, "/users/a");
    let mut mirror = Mirror::confirmed(&mut watching);
    let lines: String = (0..KEYS).map(|nth| format!("{}\n", json!({"id": nth}))).collect();
    let published = nodes.at(0).post("users/a?ttl=300ms", "application/x-ndjson", lines);
    mirror.follow(&mut watching, &published.published().position);
    // All nodes have the state, and time the keys.
    let kept = post(nodes.at(2), "users/a", &json!({"id": "kept"}));
    (0..3).for_each(|nth| drop(state(nodes.at(nth), "users/a", &kept)));
    while mirror.map.len() > 1 {
        mirror.next(&mut watching);
    }
    let removed = mirror.position.clone();
    // The other nodes would remove the keys now.
    thalweg_testing::let_pass(std::time::Duration::from_secs(3));
    let last = post(nodes.at(0), "users/a", &json!({"id": "kept"}));
    assert_eq!(at(&removed, offset(&removed) / 256 * 256 + 256), last, "no message came between");
    let expired: f64 = (0..3).map(|nth| nodes.at(nth).metric("thalweg_keys_expired_total")).sum();
    assert_eq!(expired, KEYS as f64);
}

#[test]
fn a_stored_state_is_read_by_nodes_that_start_later() {
    let Some(servers) = Servers::start(1) else { return };
    let mut nodes = start(&servers, 2);
    let text = "x".repeat(1000);
    let mut last = String::new();
    let mut expected = Map::new();
    for round in 0..40 {
        let events = (0..40).map(|nth| {
            let key = format!("u{}", (nth * 7 + round) % 200);
            (key.clone(), json!({"id": key, "round": round, "text": text}))
        });
        let events: Vec<_> = events.collect();
        let lines: String = events.iter().map(|(_, event)| format!("{event}\n")).collect();
        let published = nodes.at(round % 2).post("users/a", "application/x-ndjson", lines);
        last = published.published().position;
        expected.extend(events);
    }
    wait_for("a stored state", || {
        let stored: f64 = (0..2).map(|nth| nodes.at(nth).metric("thalweg_nats_states_total")).sum();
        (stored >= 1.0).then_some(())
    });
    nodes.kill(1);
    nodes.run(1);
    assert!(state(nodes.at(1), "users/a", &last).1 == expected);
}

#[test]
fn clients_of_three_nodes_have_states_that_existed() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = start(&servers, 3);
    check_servers(&[nodes.at(0), nodes.at(1), nodes.at(2)], 0xcafe);
}
