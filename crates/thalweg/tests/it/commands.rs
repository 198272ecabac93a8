//! Commands: over a WebSocket, and as `POST /v1/commands`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Received, Response, Server, Subscriber, Transport, at, offset};

fn connect(server: &Server) -> Subscriber {
    server.subscribe(Transport::WebSocket, "")
}

fn post(server: &Server, command: &str) -> Response {
    server.ask("POST", "/v1/commands", &[("Content-Type", "application/json")], command)
}

/// Sends a command both ways, and returns the reply, which must be the same.
fn both(server: &Server, socket: &mut Subscriber, command: &str) -> Value {
    let over_websocket = socket.command(command);
    let response = post(server, command);
    let over_post = response.json();
    assert_eq!(over_websocket, over_post, "{command}");
    let is_error = over_post.get("error").is_some();
    assert_eq!(response.status != 200, is_error, "{command}: {}", response.status);
    assert_eq!(response.header("content-type"), Some("application/json"));
    over_post
}

/// Every kind of JSON value.
const IDS: [&str; 10] = [
    "7",
    "-1.50e+3",
    "\"x\"",
    "\"ü \\\" \\u00fc\"",
    "null",
    "true",
    "[]",
    "{}",
    "{\"a\":[1,{\"b\":null}]}",
    "123456789012345678901234567890",
];

#[test]
fn an_id_of_any_kind_comes_back_as_it_was() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    for id in IDS {
        for (command, rest) in
            [("echo", r#""data":1"#), ("shout", ""), ("publish", r#""topic":"/""#)]
        {
            let comma = if rest.is_empty() { "" } else { "," };
            let text = format!(r#"{{"command":"{command}","id":{id}{comma}{rest}}}"#);
            socket.say(&text);
            let (_, answer) = socket.socket.websocket_frame("an answer").expect("a frame");
            for answer in [String::from_utf8(answer).expect("UTF-8"), post(&server, &text).text()] {
                let begin = if command == "echo" { "answer" } else { "error" };
                let begin = format!(r#"{{"{begin}":{{"id":{id},"#);
                assert!(answer.starts_with(&begin), "{text}: {answer}");
            }
        }
    }
}

#[test]
fn a_command_without_an_id_gets_a_reply_without_one() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    for command in [
        r#"{"command":"echo","data":1}"#,
        r#"{"command":"publish","topic":"t","event":1}"#,
        r#"{"command":"subscribe","topic":"t"}"#,
        r#"{"command":"unsubscribe","topic":"t"}"#,
        r#"{"command":"unsubscribe","topic":"t"}"#,
        r#"{"command":"shout"}"#,
        "nonsense",
    ] {
        let answer = socket.command(command);
        let body = answer.get("answer").or(answer.get("error")).expect("one of both");
        assert_eq!(body.get("id"), None, "{command}: {answer}");
    }
}

#[test]
fn echo_gives_the_data_back_untouched() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    for data in [
        "1",
        "null",
        "\"\"",
        r#"{"any":"JSON","more":[1,2.50,1e400]}"#,
        r#"["ü","\u00fc","</script>"]"#,
    ] {
        let command = format!(r#"{{"command":"echo","id":1,"data":{data}}}"#);
        socket.say(&command);
        let (_, answer) = socket.socket.websocket_frame("an answer").expect("a frame");
        let expected = format!(r#"{{"answer":{{"id":1,"data":{data}}}}}"#);
        assert_eq!(String::from_utf8(answer).expect("UTF-8"), expected);
        assert_eq!(post(&server, &command).text().trim_end(), expected);
    }
    let text = "x".repeat(1 << 20 >> 1);
    let command = format!(r#"{{"command":"echo","data":"{text}"}}"#);
    assert_eq!(socket.command(&command)["answer"]["data"], json!(text));
}

#[test]
fn publish_appends_and_answers_alike_over_both() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    let one = r#"{"command":"publish","id":1,"topic":"t","event":{"a": 1}}"#;
    let many = r#"{"command":"publish","id":2,"topic":"t","events":[1, "2",[3]]}"#;
    let none = r#"{"command":"publish","id":3,"topic":"t","events":[]}"#;
    let mut first = 1;
    for (command, count) in [(one, 1), (many, 3), (none, 0)] {
        for answer in [socket.command(command), post(&server, command).json()] {
            let answer = &answer["answer"];
            assert_eq!((&answer["topic"], &answer["count"]), (&json!("t"), &json!(count)));
            assert_eq!(answer["first"], json!(first));
            first += count;
            assert_eq!(offset(answer["position"].as_str().expect("a position")), first - 1);
        }
    }
    let mut reader = server.subscribe(Transport::HttpStreaming, "/t?cursor=earliest");
    reader.confirmed();
    let mut events = Vec::new();
    while events.len() < 8 {
        events.extend(reader.envelope().events);
    }
    let (once, thrice) = (json!({"a": 1}), [json!(1), json!("2"), json!([3])]);
    assert_eq!(events, [&[once.clone(), once][..], &thrice, &thrice].concat());
}

#[test]
fn each_error_has_its_code_over_both_ways() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    for (command, code) in [
        (r#"{"command":"publish","id":1,"topic":"a//b","event":1}"#, "bad_topic"),
        (r#"{"command":"ack","id":1,"topic":"..","position":"1.1"}"#, "bad_topic"),
        (r#"{"command":"ack","id":1,"topic":"t","position":"latest"}"#, "bad_cursor"),
        (r#"{"command":"ack","id":1,"topic":"t","position":"0.1"}"#, "bad_cursor"),
        (r#"{"command":"publish","id":1,"topic":"t"}"#, "bad_command"),
        (r#"{"command":"publish","id":1,"event":1}"#, "bad_command"),
        (r#"{"command":"publish","id":1,"topic":"t","event":1,"events":[1]}"#, "bad_command"),
        (r#"{"command":"publish","id":1,"topic":7,"event":1}"#, "bad_command"),
        (r#"{"command":"publish","id":1,"topic":"t","events":1}"#, "bad_command"),
        (r#"{"command":"echo","id":1}"#, "bad_command"),
        (r#"{"command":"ack","id":1,"topic":"t"}"#, "bad_command"),
        (r#"{"command":"shout","id":1}"#, "bad_command"),
        (r#"{"command":7,"id":1}"#, "bad_command"),
        (r#"{"id":1}"#, "bad_command"),
        (r#"{"command":"echo","id":1,"data":1} x"#, "bad_command"),
    ] {
        let answer = both(&server, &mut socket, command);
        let error = &answer["error"];
        assert_eq!(error["code"], json!(code), "{command}: {answer}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 5), "{answer}");
        if !command.ends_with('x') {
            assert_eq!(error["id"], json!(1), "{command}: {answer}");
        }
    }
}

#[test]
fn a_subscribes_mistakes_have_their_codes() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    for (rest, code) in [
        (r#""topic":"/""#, "bad_topic"),
        (r#""topic":"t","cursor":"first""#, "bad_cursor"),
        (r#""topic":"t","cursor":"0.1""#, "bad_cursor"),
        (r#""topic":"t","policy":"drop""#, "bad_parameter"),
        (r#""topic":"t","interval":"soon""#, "bad_parameter"),
        (r#""topic":"t","interval":"6m""#, "bad_parameter"),
        (r#""topic":"t","window":"none""#, "bad_parameter"),
        (r#""cursor":"latest""#, "bad_command"),
    ] {
        let answer = socket.command(&format!(r#"{{"command":"subscribe","id":1,{rest}}}"#));
        assert_eq!((&answer["error"]["code"], &answer["error"]["id"]), (&json!(code), &json!(1)));
    }
    let answer = socket.command(r#"{"command":"subscribe","id":1,"topic":"t"}"#);
    assert_eq!(answer, json!({"answer": {"id": 1, "topic": "t"}}));
    let answer = socket.command(r#"{"command":"subscribe","id":2,"topic":"t"}"#);
    assert_eq!(answer["error"]["code"], json!("already_subscribed"));
    let answer = socket.command(r#"{"command":"unsubscribe","id":3,"topic":"u"}"#);
    assert_eq!(answer["error"]["code"], json!("not_subscribed"));
}

#[test]
fn commands_for_a_connection_are_refused_over_http() {
    let server = Server::start(&[]);
    for command in ["subscribe", "unsubscribe"] {
        let text = format!(r#"{{"command":"{command}","id":1,"topic":"t"}}"#);
        let refused = post(&server, &text);
        let sentence = refused.refused(400, "bad_command");
        assert!(sentence.contains("cursor"), "{sentence}");
        assert_eq!(refused.json()["error"]["id"], json!(1));
    }
    for (method, target) in [("GET", "/v1/commands"), ("PUT", "/v1/commands")] {
        server.ask(method, target, &[], "").refused(405, "method_not_allowed");
    }
    let large = format!(r#"{{"command":"publish","topic":"t","event":"{}"}}"#, "x".repeat(1 << 20));
    post(&server, &large).refused(413, "event_too_large");
    post(&server, "").refused(400, "bad_command");
    let mut bytes = br#"{"command":"echo","data":""#.to_vec();
    bytes.extend(b"\xff\"}");
    server.ask("POST", "/v1/commands", &[], bytes).refused(400, "bad_command");
}

#[test]
fn a_subscription_is_answered_then_confirmed_and_nothing_follows_its_end() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let mut socket = connect(&server);
        for topic in ["a", "b", "c", "d"] {
            let head = server.publish(topic, 0..3).position;
            let after = at(&head, 1);
            socket.say(&format!(
                r#"{{"command":"subscribe","id":9,"topic":"{topic}","cursor":"{after}"}}"#
            ));
            let answer = Received::Answer(json!({"answer": {"id": 9, "topic": topic}}));
            assert_eq!(socket.next(), answer);
            assert_eq!(socket.confirmed(), after);
            assert_eq!(socket.numbers(2), (vec![1, 2], head));
            socket.say(&format!(r#"{{"command":"unsubscribe","id":10,"topic":"{topic}"}}"#));
            assert_eq!(
                socket.next(),
                Received::Answer(json!({"answer": {"id": 10, "topic": topic}}))
            );
            server.publish(topic, 3..4);
            socket.say(r#"{"command":"echo","data":1}"#);
            assert_eq!(socket.next(), Received::Answer(json!({"answer": {"data": 1}})));
        }
    }
}

#[test]
fn a_subscribe_with_a_gap_is_answered_then_told_of_it() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    let mut socket = connect(&server);
    let answer = socket.command(r#"{"command":"subscribe","topic":"t","cursor":"1.1"}"#);
    assert_eq!(answer, json!({"answer": {"topic": "t"}}));
    let gap = socket.gap();
    assert_eq!((gap.missed, gap.reason.as_str()), (None, "epoch"));
    assert_eq!(gap.position, at(&head, 0));
    assert_eq!(socket.numbers(3).0, [0, 1, 2]);
}

#[test]
fn subscribing_again_at_a_cursor_in_mid_stream_loses_and_repeats_nothing() {
    const TOTAL: u64 = 4_000;
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let topics = ["a", "b", "c"];
        let mut socket = server.subscribe(Transport::WebSocket, "?topic=keep");
        socket.confirmed();
        let mut cursors: BTreeMap<&str, (String, u64)> =
            topics.map(|topic| (topic, ("earliest".to_owned(), 0))).into();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for start in (0..TOTAL).step_by(20) {
                    for topic in topics.iter().chain(&["keep"]) {
                        server.publish(topic, start..start + 20);
                    }
                }
            });
            let mut kept = 0;
            let mut is_answered = false;
            for round in 0.. {
                let topic = topics[round % 3];
                let (cursor, seen) = cursors.get_mut(topic).expect("a topic");
                if *seen < TOTAL {
                    socket.say(&format!(
                        r#"{{"command":"subscribe","id":"in","topic":"{topic}","cursor":"{cursor}"}}"#
                    ));
                    let mut envelopes = 0;
                    let mut is_leaving = false;
                    loop {
                        match socket.next() {
                            Received::Answer(answer) if answer["answer"]["id"] == json!("out") => {
                                break;
                            }
                            Received::Answer(answer) => {
                                assert_eq!(answer, json!({"answer": {"id": "in", "topic": topic}}));
                                is_answered = true;
                            }
                            Received::Envelope(envelope) if envelope.topic == "keep" => {
                                for event in &envelope.events {
                                    assert_eq!(event.as_u64(), Some(kept));
                                    kept += 1;
                                }
                            }
                            Received::Envelope(envelope) => {
                                assert_eq!(envelope.topic, topic, "others were left");
                                assert!(is_answered, "the answer comes before the confirmation");
                                for event in &envelope.events {
                                    assert_eq!(event.as_u64(), Some(*seen), "of {topic}");
                                    *seen += 1;
                                }
                                *cursor = envelope.position;
                                envelopes += 1;
                            }
                            other => panic!("{other:?}"),
                        }
                        if !is_leaving && (envelopes > 3 || *seen == TOTAL) {
                            is_leaving = true;
                            socket.say(&format!(
                                r#"{{"command":"unsubscribe","id":"out","topic":"{topic}"}}"#
                            ));
                        }
                    }
                    is_answered = false;
                } else if cursors.values().all(|(_, seen)| *seen == TOTAL) {
                    break;
                }
            }
        });
    }
}

#[test]
fn subscriptions_of_a_connection_are_limited() {
    let server = Server::start(&[]);
    let mut socket = connect(&server);
    let mut count = 0;
    loop {
        let answer =
            socket.command(&format!(r#"{{"command":"subscribe","id":1,"topic":"t{count}"}}"#));
        if answer.get("error").is_some() {
            assert_eq!(answer["error"]["code"], json!("too_many_topics"));
            break;
        }
        count += 1;
        assert!(count < 10_000, "there is a limit");
    }
    assert!(count >= 100, "{count}");
    let answer = socket.command(r#"{"command":"unsubscribe","id":2,"topic":"t0"}"#);
    assert_eq!(answer["answer"]["topic"], json!("t0"));
    let answer = socket.command(r#"{"command":"subscribe","id":3,"topic":"new"}"#);
    assert_eq!(answer["answer"]["topic"], json!("new"));
}
