//! The `runner` source sends the next event after the ack of the previous one, over each transport, with acks
//! as commands and as events of a topic.

use serde_json::json;

use crate::harness::{Server, Subscriber, Transport, offset};

const ROUNDS: u64 = 50;

type Ack = fn(&Server, &mut Subscriber, &str);

fn by_websocket(_server: &Server, subscriber: &mut Subscriber, position: &str) {
    subscriber.say(&json!({"command": "ack", "topic": "run", "position": position}).to_string());
}

fn by_post(server: &Server, _subscriber: &mut Subscriber, position: &str) {
    let ack = json!({"command": "ack", "id": 1, "topic": "run", "position": position}).to_string();
    let answer = server.ask("POST", "/v1/commands", &[], ack);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Acks with an event of another topic, which has the offset as its `id`.
fn by_event(server: &Server, _subscriber: &mut Subscriber, position: &str) {
    server
        .post("acks", "application/json", json!({"id": offset(position)}).to_string())
        .published();
}

/// Runs 50 round trips: each event arrives after the ack of the previous one, and not before.
fn run(transport: Transport, ack: Ack, shards: &str) -> Server {
    let arguments = ["--set", "existing-topics-only=true", "--source", "run=runner,ack=acks"];
    let server = Server::start(&[&["--shards", shards], &arguments[..]].concat());
    let mut subscriber = server.subscribe(transport, "/run");
    let mut position = subscriber.confirmed();
    assert_eq!(offset(&position), 0);
    for round in 1..=ROUNDS {
        ack(&server, &mut subscriber, &position);
        let envelope = subscriber.envelope();
        assert_eq!((envelope.first, envelope.events.len()), (round, 1), "over {transport:?}");
        assert_eq!(envelope.events[0]["id"], json!(round));
        position = envelope.position;
    }
    let list = server.get("/v1/topics").json();
    assert_eq!(list["topics"].as_array().expect("topics").last().expect("run")["topic"], "run");
    let head = server.get("/v1/topics/run?limit=1").json()["head"].clone();
    assert_eq!(head, json!(position), "nothing came without an ack");
    server
}

#[test]
fn acks_over_the_websocket_itself() {
    for shards in ["1", "2", "4"] {
        let server = run(Transport::WebSocket, by_websocket, shards);
        server.has_counted("thalweg_acks_total", ROUNDS);
    }
}

#[test]
fn acks_as_posted_commands() {
    for transport in Transport::ALL {
        for shards in ["1", "2"] {
            let server = run(transport, by_post, shards);
            server.has_counted("thalweg_acks_total", ROUNDS);
        }
    }
}

#[test]
fn acks_as_events_of_the_topic_for_acks() {
    for transport in Transport::ALL {
        // With three shards, the topics of events and acks have different owner shards.
        for shards in ["1", "2", "3"] {
            run(transport, by_event, shards);
        }
    }
}

#[test]
fn an_ack_repeated_brings_nothing_new() {
    let server = Server::start(&["--source", "run=runner"]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/run");
    let start = subscriber.confirmed();
    by_websocket(&server, &mut subscriber, &start);
    let first = subscriber.envelope();
    by_websocket(&server, &mut subscriber, &start);
    by_websocket(&server, &mut subscriber, &start);
    by_websocket(&server, &mut subscriber, &first.position);
    let second = subscriber.envelope();
    assert_eq!((second.first, second.events.len()), (2, 1));
    let head = server.get("/v1/topics/run?limit=1").json()["head"].clone();
    assert_eq!(head, json!(second.position));
}
