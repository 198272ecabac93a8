//! Replies to commands, and their order.

use serde_json::json;

use crate::harness::{Received, Server, Subscriber, Transport};

fn connect(server: &Server) -> Subscriber {
    server.subscribe(Transport::WebSocket, "")
}

fn next_id(socket: &mut Subscriber) -> Option<u64> {
    let Received::Answer(answer) = socket.next() else { panic!("no answer") };
    answer.get("answer").or(answer.get("error")).expect("one of both")["id"].as_u64()
}

/// Sends many different commands at once. Returns the ids of their replies in order of arrival.
fn ids_of_answers(shards: &str) -> Vec<Option<u64>> {
    let server = Server::start(&["--shards", shards]);
    let mut socket = connect(&server);
    for id in 0..200 {
        match id % 4 {
            0 => socket.say(&format!(r#"{{"command":"echo","id":{id},"data":1}}"#)),
            1 => socket.say(&format!(r#"{{"command":"shout","id":{id}}}"#)),
            topic => {
                let topic = format!("t{topic}{}", id % 7);
                socket.say(&format!(
                    r#"{{"command":"publish","id":{id},"topic":"{topic}","event":1}}"#
                ));
            }
        }
    }
    (0..200).map(|_| next_id(&mut socket)).collect()
}

#[test]
fn answers_come_in_the_order_of_the_commands_on_one_shard() {
    assert_eq!(ids_of_answers("1"), (0..200).map(Some).collect::<Vec<_>>());
}

#[test]
fn each_command_is_answered_with_its_id_on_every_shard() {
    let mut ids = ids_of_answers("2");
    ids.sort_unstable();
    assert_eq!(ids, (0..200).map(Some).collect::<Vec<_>>());
}

#[test]
fn publishes_of_a_connection_to_a_topic_are_appended_in_order() {
    let server = Server::start(&["--shards", "4"]);
    let mut socket = connect(&server);
    // With four shards, most topics belong to other shards.
    for topic in ["a", "b", "c", "d", "e"] {
        for id in 1..=1_000 {
            let publish = json!({"command": "publish", "id": id, "topic": topic, "event": id});
            socket.say(&publish.to_string());
        }
        for _ in 1..=1_000 {
            let Received::Answer(answer) = socket.next() else { panic!("no answer") };
            // The position in the stream is the position among the commands.
            assert_eq!(answer["answer"]["first"], answer["answer"]["id"]);
        }
        let events = server.get(&format!("/v1/topics/{topic}?limit=1000")).json();
        assert_eq!(events["events"], json!((1..=1_000).collect::<Vec<u64>>()));
    }
}

#[test]
fn a_websocket_receives_its_earlier_events_only_with_a_cursor() {
    let server = Server::start(&["--shards", "4"]);
    for topic in ["a", "b", "c", "d", "e"] {
        let mut socket = connect(&server);
        let publish =
            |event: u64| json!({"command": "publish", "topic": topic, "event": event}).to_string();
        for event in 0..20 {
            assert!(socket.command(&publish(event)).get("answer").is_some());
        }
        socket.say(&json!({"command": "subscribe", "topic": topic}).to_string());
        assert_eq!(socket.next(), Received::Answer(json!({"answer": {"topic": topic}})));
        assert_eq!(crate::harness::offset(&socket.confirmed()), 20);
        socket.say(&publish(20));
        loop {
            match socket.next() {
                Received::Answer(_) => {}
                Received::Envelope(envelope) => {
                    assert_eq!((envelope.first, envelope.events), (21, vec![json!(20)]));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn every_command_is_answered_however_many_there_are() {
    let server = Server::start(&["--shards", "2"]);
    let mut socket = connect(&server);
    // These are more commands than may wait unread: the server continues to read after its replies.
    let padding = "x".repeat(500);
    std::thread::scope(|scope| {
        let mut writer = connect(&server);
        scope.spawn(|| {
            for _ in 0..100 {
                server.publish("noise", 0..10);
            }
        });
        for start in (0..3_000).step_by(100) {
            for id in start..start + 100 {
                let topic = id % 3;
                writer.say(&format!(
                    r#"{{"command":"publish","id":{id},"topic":"t{topic}","event":"{padding}"}}"#
                ));
                writer.say(&format!(r#"{{"command":"echo","id":{id},"data":"{padding}"}}"#));
            }
            let mut ids: Vec<u64> = (0..200).filter_map(|_| next_id(&mut writer)).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids, (start..start + 100).collect::<Vec<_>>());
        }
    });
    assert_eq!(socket.command(r#"{"command":"echo","data":1}"#), json!({"answer": {"data": 1}}));
}

#[test]
fn an_ack_is_answered_only_if_it_has_an_id() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..1).position;
    let mut socket = server.subscribe(Transport::WebSocket, "/t");
    socket.confirmed();
    let ack = |id: &str| format!(r#"{{"command":"ack"{id},"topic":"t","position":"{head}"}}"#);
    socket.say(&ack(""));
    socket.say(&ack(r#","id":5"#));
    let Received::Answer(answer) = socket.next() else { panic!("no answer") };
    assert_eq!(answer["answer"]["id"], json!(5), "{answer}");
    assert_eq!(answer["answer"]["topic"], json!("t"));
    let over_post = server.ask("POST", "/v1/commands", &[], ack(r#","id":5"#));
    assert_eq!((over_post.status, over_post.json()), (200, answer));
}

#[test]
fn a_wrong_ack_is_refused_even_without_an_id() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    let wrong = r#"{"command":"ack","topic":"t","position":"x"}"#;
    assert_eq!(socket.command(wrong)["error"]["code"], json!("bad_cursor"));
    let wrong = r#"{"command":"ack","topic":"/","position":"1.1"}"#;
    assert_eq!(socket.command(wrong)["error"]["code"], json!("bad_topic"));
}
