//! Error texts that quote a client: the length of the quotation, and the cost of checking it.

use serde_json::Value;

use crate::harness::{Frame, Raw, Server, Transport, opcode, ticking, unharmed};

/// The maximum length of an error response, without the head.
const REFUSAL_BYTES_MAX: usize = 2048;

/// Returns commands in which every part has the maximum length.
fn commands(long: &str) -> Vec<String> {
    let escaped = r"\u0001".repeat(long.len() / 6);
    vec![
        format!(r#"{{"command":"{long}"}}"#),
        format!(r#"{{"command":"{escaped}"}}"#),
        format!(r#"{{"command":"echo","data":1,"{long}":2}}"#),
        format!(r#"{{"command":"echo","data":1,"{escaped}":2}}"#),
        format!(r#"{{"command":"publish","topic":"t","events":"{long}"}}"#),
        format!(r#"{{"command":"publish","topic":"{long}","event":1}}"#),
        format!(r#"{{"command":"ack","topic":"t","position":"{long}"}}"#),
        format!(r#"{{"command":"ack","topic":"t","position":["{long}"]}}"#),
        format!(r#"{{"command":"subscribe","topic":"t","cursor":"{long}"}}"#),
        format!(r#"{{"command":"subscribe","topic":"t","policy":"{long}"}}"#),
        format!(r#"{{"command":"subscribe","topic":"t","interval":"{long}"}}"#),
        format!(r#"{{"command":"subscribe","topic":"t","window":"{long}"}}"#),
        format!(r#"{{"command":"shout","id":"{long}"}}"#),
        format!(r#"{{"command":"echo","data":1,"id":"{long}"}}"#),
        format!(r#"{{"command":"echo","data":1,"id":"{long}","other":1}}"#),
        format!(r#""{long}""#),
        format!(r#"["{long}"]"#),
        format!("{long}1"),
    ]
}

/// Asserts that a refusal repeats no more than 64 characters of what it refuses.
#[track_caller]
fn is_cut(what: &str, body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    let json: Value = serde_json::from_slice(body).expect("JSON");
    let message = json["error"]["message"].as_str().expect("a refusal");
    let repeated = message.split(|c| c != 'x').map(str::len).max();
    let escaped = message.matches(r"\u{1}").count();
    let what = &what[..what.len().min(60)];
    assert!(body.len() <= REFUSAL_BYTES_MAX, "{what}…: {} bytes", body.len());
    assert!(repeated.is_none_or(|count| count <= 64) && escaped <= 64, "{what}…: {text}");
}

#[test]
fn a_command_is_quoted_up_to_64_characters() {
    let server = ticking(&[]);
    let long = "x".repeat(1 << 20);
    unharmed(&server, || {
        let mut socket = server.subscribe(Transport::WebSocket, "");
        let mut raw = Raw::connect(server.address);
        for command in commands(&long) {
            socket.send(&Frame::new(opcode::TEXT, &command));
            let (_, over_websocket) = socket.socket.websocket_frame("an answer").expect("a frame");
            is_cut(&command, &over_websocket);
            raw.ask("POST", "/v1/commands", &[], &command);
            is_cut(&command, &raw.answer().body);
        }
    });
}

/// A valid value is repeated in the same way.
#[test]
fn a_topic_is_quoted_up_to_64_characters() {
    let topic = "x".repeat(200);
    let server = Server::start(&[
        "--token",
        "publisher=publish,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=subscribe,subscribe=**",
    ]);
    for (method, query) in [("POST", ""), ("GET", "?limit=1"), ("GET", "?transport=sse")] {
        let refused = server.ask(method, &format!("/v1/topics/{topic}{query}"), &[], "");
        is_cut(query, &refused.body);
    }
    let server = Server::start(&[]);
    let target = format!("/v1/topics?topic={topic}&topic={topic}&transport=sse");
    is_cut("twice", &server.get(&target).body);
    let mut socket = server.subscribe(Transport::WebSocket, &format!("/{topic}"));
    socket.confirmed();
    for (command, topic) in [("subscribe", topic), ("unsubscribe", "x".repeat(199))] {
        let refused = socket.command(&format!(r#"{{"command":"{command}","topic":"{topic}"}}"#));
        is_cut(command, refused.to_string().as_bytes());
    }
}

#[test]
fn a_request_is_quoted_up_to_64_characters() {
    let server = ticking(&["--runs", env!("CARGO_TARGET_TMPDIR")]);
    let long = "x".repeat(8000);
    let encoded = "%01".repeat(8000);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        for text in [&long, &encoded] {
            for target in [
                format!("/v1/topics/t?{text}=1"),
                format!("/v1/topics/t?policy={text}"),
                format!("/v1/topics/t?transport={text}"),
                format!("/v1/topics/t?interval={text}"),
                format!("/v1/topics/t?window={text}"),
                format!("/v1/topics/t?wait={text}"),
                format!("/v1/topics/t?limit={text}"),
                format!("/v1/topics/t?limit=1&cursor={text}"),
                format!("/v1/topics/{text}?limit=1"),
                format!("/v1/topics?topic={text}&limit=1"),
                format!("/v1/{text}"),
                format!("/{text}"),
                format!("/runs?{text}"),
                format!("/runs/{text}/report.html"),
                format!("/runs/{}/report.html", &text[..240]),
            ] {
                raw.ask("GET", &target, &[], "");
                is_cut(&target, &raw.answer().body);
            }
        }
        for (name, value) in [
            ("Origin", format!("https://{}.example", "x".repeat(200))),
            ("Origin", format!("{long}://localhost")),
            ("Host", "x".repeat(200)),
            ("Idempotency-Key", long.clone()),
            ("Authorization", format!("Bearer {long}")),
        ] {
            raw.ask("POST", "/v1/topics//", &[(name, &value)], "1");
            is_cut(name, &raw.answer().body);
        }
    });
}

#[test]
fn an_id_comes_back_whole_or_not_at_all() {
    let server = Server::start(&[]);
    let mut socket = server.subscribe(Transport::WebSocket, "");
    let answer = |socket: &mut crate::harness::Subscriber, id: &str| {
        socket.command(&format!(r#"{{"command":"echo","id":"{id}","data":1}}"#))
    };
    let fits = "x".repeat(254);
    assert_eq!(answer(&mut socket, &fits)["answer"]["id"], fits);
    let refused = answer(&mut socket, &"x".repeat(255));
    assert_eq!(refused["error"]["code"], "bad_command", "{refused}");
    assert_eq!(refused["error"].get("id"), None, "{refused}");
    server.has_refused("bad_command", 1);
}

/// A comparison takes time with both lengths, and the client has not authenticated yet.
#[test]
fn a_long_word_is_given_no_suggestion() {
    let server = Server::start(&[]);
    let said = |query: &str| {
        server.get(&format!("/v1/topics/t?limit=1&{query}")).refused(400, "bad_parameter")
    };
    let word = format!("transport{}", "t".repeat(23));
    assert_eq!(word.len(), 32);
    for query in [format!("{word}=sse"), format!("policy=latest{}", "t".repeat(26))] {
        assert!(said(&query).contains("did you mean"), "{}", said(&query));
    }
    for query in [
        format!("{word}t=sse"),
        format!("policy=latest{}", "t".repeat(27)),
        format!("transport=websocket{}", "t".repeat(24)),
        format!("{}=1", "cursor".repeat(1000)),
    ] {
        let said = said(&query);
        assert!(said.contains(", write one of ") && !said.contains("did you mean"), "{said}");
    }
}

#[test]
fn json_that_nests_deeper_than_128_is_refused_on_every_way_in() {
    let nested = |depth: usize| [r#"{"a":["#.repeat(depth / 2), "]}".repeat(depth / 2)].concat();
    let server = ticking(&["--set", "limits.event-bytes=4MiB"]);
    unharmed(&server, || {
        let mut socket = server.subscribe(Transport::WebSocket, "");
        for (depth, is_taken) in [(128, true), (130, false), (500_000, false)] {
            let event = nested(depth);
            let in_lines = format!("1\n{event}\n2\n");
            for (content_type, body) in
                [("application/json", &event), ("application/x-ndjson", &in_lines)]
            {
                let answer = server.post("t", content_type, body);
                match is_taken {
                    true => assert_eq!(answer.status, 200),
                    false => assert!(answer.refused(400, "bad_event").contains("128 deep")),
                }
            }
            // Any text is valid, whatever it contains.
            assert_eq!(server.post("t", "text/plain", &event).status, 200);
            for command in [
                format!(r#"{{"command":"publish","topic":"t","event":{event}}}"#),
                format!(r#"{{"command":"publish","topic":"t","events":[1,{event}]}}"#),
                format!(r#"{{"command":"echo","data":{event}}}"#),
            ] {
                socket.say(&command);
                let (_, told) = socket.socket.websocket_frame("an answer").expect("a frame");
                let answer = server.ask("POST", "/v1/commands", &[], &command);
                match is_taken {
                    true => {
                        assert!(told.starts_with(br#"{"answer":"#));
                        assert_eq!(answer.status, 200);
                    }
                    false => {
                        answer.refused(400, "bad_event");
                        assert_eq!(String::from_utf8_lossy(&told), answer.text().trim_end());
                    }
                }
            }
            let id = format!(r#"{{"command":"echo","data":1,"id":{event}}}"#);
            assert!(depth < 130 || socket.command(&id)["error"]["code"] == "bad_command");
        }
    });
    server.has_refused("bad_event", 2 * (2 + 2 * 3));
}
