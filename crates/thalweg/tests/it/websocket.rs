//! WebSocket: commands, control frames, fragments, and the close after a protocol error (RFC 6455).

use serde_json::{Value, json};

use crate::harness::{Frame, Line, Received, Server, Subscriber, Transport, offset, opcode};

fn connect(line: Line) -> Subscriber {
    let mut subscriber = Subscriber::open(line, Transport::WebSocket, "/v1/topics/t", &[]);
    subscriber.confirmed();
    subscriber
}

/// Both versions of HTTP that carry a WebSocket.
fn lines(server: &Server) -> [Line; 2] {
    [Line::Http1(server.address), Line::Http2(server.http2())]
}

fn over_each_http(test: impl Fn(&Server, &mut Subscriber)) {
    for nth in 0..2 {
        let server = Server::start(&[]);
        let line = lines(&server)[nth].clone();
        println!("{line:?}");
        test(&server, &mut connect(line));
    }
}

#[test]
fn a_command_publishes_and_is_answered_with_its_id() {
    over_each_http(|server, socket| {
        let answer =
            socket.command(r#"{"command":"publish","id":7,"topic":"cars","event":{"speed": 39}}"#);
        let position = answer["answer"]["position"].as_str().expect("a position").to_owned();
        assert_eq!(offset(&position), 1);
        assert_eq!(
            answer,
            json!({"answer": {"id": 7, "topic": "cars", "position": position, "first": 1, "count": 1}})
        );
        let answer = socket
            .command(r#"{"command":"publish","id":{"a":[1]},"topic":"cars","events":[1,2,3]}"#);
        let answer = &answer["answer"];
        assert_eq!(
            (&answer["id"], &answer["first"], &answer["count"]),
            (&json!({"a": [1]}), &json!(2), &json!(3))
        );
        let answer = socket.command(r#"{"command":"publish","topic":"cars","event":null}"#);
        assert_eq!((answer["answer"].get("id"), &answer["answer"]["first"]), (None, &json!(5)));
        let mut subscriber = server.subscribe(Transport::HttpStreaming, "/cars?cursor=earliest");
        subscriber.confirmed();
        let mut events = Vec::new();
        while events.len() < 5 {
            events.extend(subscriber.envelope().events);
        }
        assert_eq!(events, [json!({"speed": 39}), json!(1), json!(2), json!(3), Value::Null]);
    });
}

#[test]
fn a_publisher_receives_its_own_events() {
    over_each_http(|_, socket| {
        socket.send(&Frame::new(opcode::TEXT, r#"{"command":"publish","topic":"t","event":1}"#));
        let mut received = [socket.next(), socket.next()];
        received.sort_by_key(|received| matches!(received, Received::Answer(_)));
        let [Received::Envelope(envelope), Received::Answer(_)] = &received else {
            panic!("{received:?}")
        };
        assert_eq!(envelope.events, [json!(1)]);
    });
}

#[test]
fn a_websocket_without_topics_can_publish() {
    let server = Server::start(&[]);
    for line in lines(&server) {
        let mut socket = Subscriber::open(line, Transport::WebSocket, "/v1/topics", &[]);
        let answer = socket.command(r#"{"command":"publish","id":1,"topic":"t","event":1}"#);
        assert_eq!(answer["answer"]["count"], json!(1));
    }
}

#[test]
fn a_wrong_command_is_answered_and_the_connection_lives_on() {
    over_each_http(|server, socket| {
        for (command, code, id) in [
            (
                r#"{"command":"publish","id":8,"topic":"a//b","event":1}"#,
                "bad_topic",
                Some(json!(8)),
            ),
            (r#"{"command":"shout","id":9}"#, "bad_command", None),
            (r#"{"command":"publish","id":"x","topic":"a"}"#, "bad_command", Some(json!("x"))),
            ("hello", "bad_command", None),
            ("", "bad_command", None),
            ("[]", "bad_command", None),
            (r#"{"command":"publish","topic":"a","event":}"#, "bad_command", None),
        ] {
            let answer = socket.command(command);
            let error = &answer["error"];
            assert_eq!(error["code"].as_str(), Some(code), "{command}: {answer}");
            assert!(!error["message"].as_str().unwrap_or_default().is_empty(), "{answer}");
            if id.is_some() {
                assert_eq!(error.get("id"), id.as_ref(), "{command}: {answer}");
            }
        }
        let too_large = "7".repeat((1 << 20) + 1);
        let command = format!(r#"{{"command":"publish","id":1,"topic":"a","event":{too_large}}}"#);
        assert_eq!(socket.command(&command)["error"]["code"], json!("event_too_large"));
        server.publish("t", 0..1);
        assert_eq!(socket.numbers(1).0, [0]);
    });
}

/// Returns the answer to a command, without the position, which differs between servers.
fn answer_to(socket: &mut Subscriber, command: &str) -> Value {
    socket.say(command);
    loop {
        match socket.next() {
            Received::Answer(mut answer) => {
                if let Some(Value::Object(done)) = answer.pointer_mut("/answer") {
                    done.remove("position");
                }
                return answer;
            }
            received @ (Received::Close(..) | Received::End) => panic!("{command}: {received:?}"),
            _ => {}
        }
    }
}

#[test]
fn the_vectors_of_commands_have_the_same_answers_over_http_1_and_http_2() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../vectors/commands.json")).expect("JSON");
    let [good, bad] = ["commands", "no_commands"].map(|list| vectors[list].as_array().expect(list));
    let [of_http1, of_tunnel] = [0, 1].map(|nth| {
        let server = Server::start(&[]);
        let mut socket = connect(lines(&server)[nth].clone());
        let answers = good.iter().chain(bad).filter_map(|vector| {
            let text = vector["text"].as_str().expect("a text");
            let id =
                vector["id"].as_str().map(|id| serde_json::from_str::<Value>(id).expect("JSON"));
            if vector.get("ack").is_some() && id.is_none() {
                // It has no answer.
                socket.say(text);
                return None;
            }
            let answer = answer_to(&mut socket, text);
            let kind = if answer.get("error").is_some() { "error" } else { "answer" };
            assert_eq!(answer[kind].get("id"), id.as_ref(), "{vector}: {answer}");
            Some(answer)
        });
        answers.collect::<Vec<Value>>()
    });
    assert_eq!(of_tunnel, of_http1);
    assert_eq!(of_tunnel[1]["answer"]["count"], 3);
    let refused = &of_tunnel[of_tunnel.len() - bad.len()..];
    assert!(refused.iter().all(|answer| answer["error"]["code"] == "bad_command"), "{refused:?}");
}

#[test]
fn a_ping_is_answered_with_its_payload() {
    over_each_http(|_, socket| {
        let longest = [b'x'; 125];
        for payload in [&b""[..], b"hi", &[0, 255, 254], &longest] {
            socket.send(&Frame::new(opcode::PING, payload));
            assert_eq!(socket.next(), Received::Pong(payload.to_vec()));
        }
        socket.send(&Frame::new(opcode::PONG, "unasked"));
        socket.send(&Frame::new(opcode::PING, "still there"));
        assert_eq!(socket.next(), Received::Pong(b"still there".to_vec()));
    });
}

#[test]
fn a_command_may_come_in_fragments_with_a_ping_between_them() {
    over_each_http(|_, socket| {
        let command = r#"{"command":"publish","id":"ü","topic":"cars","event":"größe"}"#.as_bytes();
        // The cut may be inside of a character.
        for cut in [0, 1, 29, command.len() - 3, command.len()] {
            let (start, end) = command.split_at(cut);
            socket.send(&Frame::new(opcode::TEXT, start).not_final());
            socket.send(&Frame::new(opcode::PING, "between"));
            assert_eq!(socket.next(), Received::Pong(b"between".to_vec()));
            socket.send(&Frame::new(opcode::CONTINUATION, "").not_final());
            socket.send(&Frame::new(opcode::CONTINUATION, end));
            let Received::Answer(answer) = socket.next() else { panic!("cut at {cut}: no answer") };
            assert_eq!(answer["answer"]["id"], json!("ü"));
        }
    });
}

#[test]
fn frames_may_arrive_byte_by_byte_or_many_at_once() {
    over_each_http(|_, socket| {
        let command = r#"{"command":"publish","id":1,"topic":"cars","event":1}"#;
        let frame = Frame::new(opcode::TEXT, command).bytes();
        for byte in &frame {
            socket.socket.send([*byte]);
        }
        assert!(matches!(socket.next(), Received::Answer(_)));
        socket.socket.send(frame.repeat(200));
        for first in 2..202 {
            let Received::Answer(answer) = socket.next() else { panic!("no answer") };
            assert_eq!(answer["answer"]["first"], json!(first));
        }
    });
}

#[test]
fn a_long_command_is_taken() {
    over_each_http(|_, socket| {
        for bytes in [100, 200, 70_000, (1 << 20) - 2] {
            let text = "x".repeat(bytes);
            let answer = socket
                .command(&format!(r#"{{"command":"publish","topic":"long","event":"{text}"}}"#));
            assert_eq!(answer["answer"]["count"], json!(1), "{bytes}");
        }
    });
}

fn check_close(frames: &[Vec<u8>], code: u16, reason: &str) {
    over_each_http(|_, socket| check_close_of(socket, frames, code, reason));
}

fn check_close_of(socket: &mut Subscriber, frames: &[Vec<u8>], code: u16, reason: &str) {
    for frame in frames {
        socket.socket.send_if_open(frame);
    }
    loop {
        match socket.next() {
            Received::Pong(_) | Received::Answer(_) => {}
            received => {
                assert_eq!(received, Received::Close(code, reason.to_owned(), None));
                break;
            }
        }
    }
    socket.send(&Frame::new(opcode::CLOSE, &code.to_be_bytes()));
    assert_eq!(socket.next(), Received::End);
}

#[test]
fn a_breach_of_the_protocol_closes_with_1002() {
    let text = || Frame::new(opcode::TEXT, "{}");
    let breaches: [(&str, Vec<Vec<u8>>); 12] = [
        ("not masked", vec![text().unmasked().bytes()]),
        ("reserved bit", vec![text().with_reserved_bits(0x40).bytes()]),
        ("all reserved bits", vec![text().with_reserved_bits(0x70).bytes()]),
        ("reserved opcode", vec![Frame::new(0x3, "").bytes()]),
        ("reserved control opcode", vec![Frame::new(0xb, "").bytes()]),
        ("nothing to continue", vec![Frame::new(opcode::CONTINUATION, "{}").bytes()]),
        ("a new message within one", vec![text().not_final().bytes(), text().bytes()]),
        ("a ping in fragments", vec![Frame::new(opcode::PING, "").not_final().bytes()]),
        ("a long ping", vec![Frame::new(opcode::PING, &[0; 126]).bytes()]),
        ("half a close code", vec![Frame::new(opcode::CLOSE, &[3]).bytes()]),
        ("a close code of no one", vec![Frame::new(opcode::CLOSE, &999u16.to_be_bytes()).bytes()]),
        ("a reserved close code", vec![Frame::new(opcode::CLOSE, &1005u16.to_be_bytes()).bytes()]),
    ];
    for (what, frames) in breaches {
        println!("{what}");
        check_close(&frames, 1002, "protocol error");
    }
}

#[test]
fn binary_is_not_accepted() {
    check_close(&[Frame::new(opcode::BINARY, &[1, 2]).bytes()], 1003, "binary not accepted");
}

#[test]
fn text_must_be_utf8() {
    for bad in [&b"\xff"[..], b"\"\xc3\"", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"] {
        check_close(&[Frame::new(opcode::TEXT, bad).bytes()], 1007, "not utf-8");
    }
    let start = Frame::new(opcode::TEXT, b"\xc3").not_final().bytes();
    let end = Frame::new(opcode::CONTINUATION, b"\x28").bytes();
    check_close(&[start, end], 1007, "not utf-8");
}

#[test]
fn a_message_may_not_be_too_big_whole_or_in_fragments() {
    let size = (1 << 20) + 8192;
    let large = vec![b' '; size];
    check_close(&[Frame::new(opcode::TEXT, &large).bytes()], 1009, "too big");
    let mut frames = vec![Frame::new(opcode::TEXT, &large[..1 << 19]).not_final().bytes()];
    for _ in 0..2 {
        let piece = &large[..1 << 19];
        frames.push(Frame::new(opcode::CONTINUATION, piece).not_final().bytes());
    }
    check_close(&frames, 1009, "too big");
    // The length in the header is enough, without the data.
    let huge = [&[0x81, 0xff][..], &(1u64 << 62).to_be_bytes(), &[0; 4]].concat();
    check_close(&[huge], 1009, "too big");
}

#[test]
fn a_clients_close_is_answered_and_ends_the_connection() {
    let server = Server::start(&[]);
    let payloads = [&b""[..], &1000u16.to_be_bytes(), b"\x0f\xa0bye", b"\x03\xe9"];
    for (payload, line) in
        payloads.iter().flat_map(|payload| lines(&server).map(|line| (*payload, line)))
    {
        let mut socket = connect(line);
        socket.send(&Frame::new(opcode::CLOSE, payload));
        let received = socket.next();
        assert!(matches!(received, Received::Close(1000, _, None)), "{payload:?}: {received:?}");
        assert_eq!(socket.next(), Received::End);
    }
}

#[test]
fn only_version_13_is_spoken() {
    let server = Server::start(&[]);
    for version in ["12", "8", "14", "x"] {
        let headers = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Version", version),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let refused = server.ask("GET", "/v1/topics/t", &headers, "");
        refused.refused(426, "upgrade_required");
        // RFC 6455 §4.4.
        assert_eq!(refused.header("sec-websocket-version"), Some("13"));
    }
}

#[test]
fn a_handshake_needs_a_key() {
    let server = Server::start(&[]);
    for key in ["", "short", "dGhlIHNhbXBsZSBub25jZQ", "not base64 at all !!!!!!"] {
        let headers = [
            ("Upgrade", "websocket"),
            ("Connection", "keep-alive, Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key),
        ];
        let refused = server.ask("GET", "/v1/topics/t", &headers, "");
        assert_eq!(refused.status, 400, "{key:?}");
    }
}

#[test]
fn frames_sent_with_the_handshake_are_not_lost() {
    let server = Server::start(&[]);
    let mut socket = server.connect();
    let handshake = "GET /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let ping = Frame::new(opcode::PING, "early").bytes();
    socket.send([handshake.as_bytes(), &ping].concat());
    assert_eq!(socket.response_head().status, 101);
    let frames = [(); 2].map(|()| socket.websocket_frame("a pong").expect("a frame"));
    assert!(frames.contains(&(opcode::PONG, b"early".to_vec())), "{frames:?}");
}

#[test]
fn an_answer_overtakes_the_data_that_is_due() {
    const EVENTS: u64 = 6_000;
    let server = Server::start(&["--topic", "**,history-bytes=64MiB"]);
    let mut socket = connect(Line::Http1(server.address));
    let line = format!("\"{}\"\n", "x".repeat(1000));
    let mut publisher = server.connect();
    // The client does not read meanwhile: most events are still unsent when the command arrives.
    for _ in 0..EVENTS / 100 {
        let body = line.repeat(100);
        let headers = [("Content-Type", "application/x-ndjson")];
        let request = crate::harness::request("POST", "/v1/topics/t", &headers, body.as_bytes());
        publisher.send(request);
        publisher.response().published();
    }
    socket.send(&Frame::new(opcode::TEXT, r#"{"command":"publish","topic":"other","event":1}"#));
    // The client may read the data only after the server has taken the command.
    let mut other = server.subscribe(Transport::Sse, "/other?cursor=earliest");
    other.numbers(1);
    let mut before_answer = 0;
    loop {
        match socket.next() {
            Received::Envelope(envelope) => before_answer = offset(&envelope.position),
            Received::Answer(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(before_answer < EVENTS / 2, "the answer came after {before_answer} of {EVENTS} events");
    while before_answer < EVENTS {
        let envelope = socket.envelope();
        assert_eq!(envelope.first, before_answer + 1);
        before_answer = offset(&envelope.position);
    }
}
