//! Traces: what a subject does and is refused, for those who may inspect everything.

use serde_json::{Value, json};
use thalweg_testing::wait_for;

use super::{EC, bearer, server, token};
use crate::harness::{Server, Socket, Transport, request};

const INSPECTOR: [&str; 2] = ["--token", "inspector=s3cret,inspect=**"];

const AUTHORIZATION: [(&str, &str); 1] = [("Authorization", "Bearer s3cret")];

/// As many traces as a server has at a time.
const TRACES: usize = 16;

/// A viewer of a trace, after its first line.
struct Viewer(Socket);

impl Viewer {
    fn open(server: &Server, subject: &str) -> Self {
        let mut socket = server.connect();
        socket.send(request("GET", &target(subject), &AUTHORIZATION, b""));
        Self::new(socket, subject)
    }

    fn new(mut socket: Socket, subject: &str) -> Self {
        let head = socket.response_head();
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-type"), Some("application/x-ndjson"));
        let mut viewer = Self(socket);
        let begin = viewer.next();
        assert_eq!((&begin["what"], &begin["subject"]), (&json!("begin"), &json!(subject)));
        assert_eq!(begin["ends_in_s"], 600);
        viewer
    }

    fn next(&mut self) -> Value {
        self.next_if_any().expect("a line, not the end")
    }

    fn next_if_any(&mut self) -> Option<Value> {
        loop {
            let line = self.0.until(b"\n", "a line of the trace")?;
            let mut line: Value = serde_json::from_slice(&line).expect("JSON");
            if line.get("heartbeat").is_some() {
                continue;
            }
            let at_ms = line.as_object_mut().expect("an object").remove("at_ms");
            assert!(at_ms.is_some_and(|at_ms| at_ms.is_u64()), "{line}");
            return Some(line);
        }
    }

    /// Asserts that these are the next lines. A connection's number, which differs, is replaced by a 1.
    fn expect(&mut self, expected: &[Value]) {
        for expected in expected {
            let mut line = self.next();
            if let Some(connection) = line.get_mut("connection") {
                assert!(!connection.as_str().expect("a text").is_empty());
                *connection = json!("1");
            }
            assert_eq!(line, *expected);
        }
    }
}

fn target(subject: &str) -> String {
    let subject: String = subject.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("/overview/trace?subject={subject}")
}

#[test]
fn a_trace_has_each_action_and_refusal_of_its_subject() {
    for shards in ["1", "2"] {
        let server = server(&[&INSPECTOR[..], &["--shards", shards]].concat());
        let mut viewer = Viewer::open(&server, "alice");
        let [alice, bob] =
            ["alice", "bob"].map(|subject| bearer(&token(EC[0], None, json!({ "sub": subject }))));
        let by_alice = [("Authorization", &*alice)];
        let mut own = server.subscribe_with(Transport::WebSocket, "/users/alice/in", &by_alice);
        own.confirmed();
        viewer.expect(&[
            json!({ "what": "connect", "transport": "websocket", "connection": "1" }),
            json!({ "what": "subscribe", "topic": "users/alice/in", "position": "latest", "connection": "1" }),
        ]);
        // Another subject is not in the trace.
        let mut other =
            server.subscribe_with(Transport::Sse, "/users/bob/in", &[("Authorization", &*bob)]);
        other.confirmed();
        let mut say = |command: Value| {
            let answer = own.command(&command.to_string());
            answer["answer"]["position"].clone()
        };
        let out = "users/alice/out";
        let first = say(json!({ "command": "publish", "id": 1, "topic": out, "event": "secret" }));
        say(json!({ "command": "publish", "id": 2, "topic": "users/bob/in", "event": "secret" }));
        say(json!({ "command": "subscribe", "id": 3, "topic": "news/a", "cursor": "earliest" }));
        say(json!({ "command": "ack", "id": 4, "topic": "news/a", "position": "1.8" }));
        say(json!({ "command": "unsubscribe", "id": 5, "topic": "news/a" }));
        say(json!({ "command": "refresh", "id": 6, "token": "secret" }));
        say(json!({ "command": "echo", "id": 7, "data": "secret" }));
        say(json!({ "command": "shout", "id": 8 }));
        viewer.expect(&[
            json!({ "what": "publish", "topic": out, "events": 1, "bytes": 8, "position": first, "connection": "1" }),
            json!({ "what": "publish", "topic": "users/bob/in", "events": 1, "bytes": 8, "code": "forbidden", "connection": "1" }),
            json!({ "what": "subscribe", "topic": "news/a", "position": "earliest", "connection": "1" }),
            json!({ "what": "ack", "topic": "news/a", "position": "1.8", "connection": "1" }),
            json!({ "what": "unsubscribe", "topic": "news/a", "connection": "1" }),
            json!({ "what": "refresh", "code": "unauthorized", "connection": "1" }),
            json!({ "what": "echo", "connection": "1" }),
            json!({ "what": "command", "code": "bad_command", "connection": "1" }),
        ]);
        let ask = |method: &str, target: &str, body: &str| {
            server.ask(method, target, &by_alice, body);
        };
        let post = |target: &str, body: &str| server.ask("POST", target, &by_alice, body).json();
        let publish = r#"{"command":"publish","topic":"users/alice/out","event":3}"#;
        let second = post("/v1/topics/users/alice/out", "2");
        let third = post("/v1/commands", publish);
        ask("POST", "/v1/topics/users/bob/in", "2");
        ask("POST", "/v1/topics/users/alice/out", "no JSON");
        ask("GET", "/v1/topics/users/alice/in?limit=1", "");
        ask("GET", "/v1/topics/users/bob/in?limit=1", "");
        ask("GET", "/v1/topics/users/bob/in?transport=sse", "");
        ask("GET", "/v1/topics?query=SELECT%20a%20FROM%20%22users%2Fbob%2Fin%22", "");
        ask("DELETE", "/v1/topics/users/bob/in", "");
        ask("DELETE", "/v1/topics/users/alice/out", "");
        ask("POST", "/v1/tickets", "");
        ask("GET", "/metrics", "");
        viewer.expect(&[
            json!({ "what": "publish", "topic": out, "events": 1, "bytes": 1, "position": second["position"] }),
            json!({ "what": "publish", "topic": out, "events": 1, "bytes": 1, "position": third["answer"]["position"] }),
            json!({ "what": "publish", "topic": "users/bob/in", "code": "forbidden" }),
            json!({ "what": "publish", "topic": out, "code": "bad_event" }),
            json!({ "what": "read", "topic": "users/alice/in" }),
            json!({ "what": "read", "topic": "users/bob/in", "code": "forbidden" }),
            json!({ "what": "subscribe", "topic": "users/bob/in", "position": "latest", "code": "forbidden" }),
            json!({ "what": "query", "topic": "users/bob/in", "code": "forbidden" }),
            json!({ "what": "delete", "topic": "users/bob/in", "code": "forbidden" }),
            json!({ "what": "delete", "topic": out }),
            json!({ "what": "ticket" }),
            json!({ "what": "request", "path": "/metrics", "code": "forbidden" }),
        ]);
        drop(own);
        viewer.expect(&[json!({ "what": "disconnect", "reason": "gone", "connection": "1" })]);
    }
}

#[test]
fn a_trace_has_the_members_and_the_reasons_of_ends() {
    let presence = ["--topic", "news/*,presence=users"];
    let root = ["--token", "root=r00t,admin=true,publish=**"];
    let server = server(&[&INSPECTOR[..], &presence, &root].concat());
    let mut viewer = Viewer::open(&server, "alice");
    let alice = bearer(&token(EC[0], None, json!({})));
    let by_alice = [("Authorization", &*alice)];
    let mut own = server.subscribe_with(Transport::Sse, "?topic=news/a&topic=news/b", &by_alice);
    own.confirmed();
    let by_root = [("Authorization", "Bearer r00t")];
    server.ask("POST", "/v1/topics/news/a", &by_root, "1");
    server.ask("DELETE", "/v1/topics/news/a", &by_root, "");
    let subscribed = |topic: &str| json!({ "what": "subscribe", "topic": topic, "position": "latest", "connection": "1" });
    let about =
        |what: &str, topic: &str| json!({ "what": what, "topic": topic, "connection": "1" });
    viewer.expect(&[
        json!({ "what": "connect", "transport": "sse", "connection": "1" }),
        subscribed("news/a"),
        subscribed("news/b"),
        about("join", "news/a"),
        about("join", "news/b"),
        json!({ "what": "end", "topic": "news/a", "reason": "deleted", "connection": "1" }),
        about("leave", "news/a"),
    ]);
    let ended = server.ask("POST", "/v1/admin/disconnect", &by_root, r#"{"subject":"alice"}"#);
    assert_eq!(ended.json(), json!({ "disconnected": 1 }));
    viewer.expect(&[
        about("leave", "news/b"),
        json!({ "what": "disconnect", "reason": "disconnected", "connection": "1" }),
    ]);
}

#[test]
fn only_some_traces_are_open_at_a_time() {
    let server = server(&INSPECTOR);
    let mut open: Vec<_> = (0..TRACES).map(|_| Viewer::open(&server, "alice")).collect();
    let ask = || server.ask("GET", &target("bob"), &AUTHORIZATION, "");
    ask().refused(503, "busy");
    let metric = |name: &str| {
        let text = server.ask("GET", "/metrics", &AUTHORIZATION, "").text();
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    assert_eq!(metric("thalweg_traces{"), TRACES as f64);
    assert_eq!(metric("thalweg_traces_refused_total{"), 1.0);
    open.pop();
    wait_for("room", || (metric("thalweg_traces{") < TRACES as f64).then_some(()));
    // Over HTTP/2, too, and with a subject that looks like something else.
    for subject in ["bob", "..", "\"},\n{\u{1}<b>", "a/b?c&d=e#f%+g"] {
        let client = server.http2();
        let socket = client.start("GET", &target(subject), &AUTHORIZATION, b"");
        let mut viewer = Viewer::new(socket, subject);
        let own = bearer(&token(EC[0], None, json!({ "sub": subject, "thalweg": {} })));
        let asked = server.ask("GET", "/metrics", &[("Authorization", &own)], "");
        asked.refused(403, "forbidden");
        viewer.expect(&[json!({ "what": "request", "path": "/metrics", "code": "forbidden" })]);
        drop((viewer, client));
        wait_for("room", || (metric("thalweg_traces{") < TRACES as f64).then_some(()));
    }
    for wrong in ["/overview/trace", "/overview/trace?subject=", "/overview/trace?topic=a"] {
        server.ask("GET", wrong, &AUTHORIZATION, "").refused(400, "bad_parameter");
    }
    server.ask("POST", &target("bob"), &AUTHORIZATION, "").refused(405, "method_not_allowed");
}

#[test]
fn a_viewer_that_does_not_read_slows_nobody_and_learns_what_it_missed() {
    const ACKS: u64 = 5000;
    let narrow = ["--set", "tuning.unsent-bytes=4KiB", "--set", "tuning.send-buffer-bytes=64KiB"];
    let server = server(&[&INSPECTOR[..], &narrow].concat());
    let mut socket = Socket::connect_narrow(server.address);
    socket.send(request("GET", &target("alice"), &AUTHORIZATION, b""));
    let mut viewer = Viewer::new(socket, "alice");
    let alice = bearer(&token(EC[0], None, json!({})));
    let mut own = server.subscribe_with(Transport::WebSocket, "", &[("Authorization", &alice)]);
    let topic = format!("users/alice/{}", "long".repeat(45));
    for id in 0..ACKS {
        let command =
            json!({ "command": "ack", "id": id, "topic": topic, "position": "1.1" }).to_string();
        own.command(&command);
    }
    let (mut acks, mut dropped) = (0, 0);
    while acks + dropped < ACKS {
        let line = viewer.next();
        match line["what"].as_str() {
            Some("ack") => acks += 1,
            Some("dropped") => dropped += line["lines"].as_u64().expect("a number"),
            what => assert_eq!(what, Some("connect")),
        }
    }
    assert_eq!(acks + dropped, ACKS);
    assert!(dropped > 0, "the viewer's lines had room for {acks}");
}

#[test]
fn a_draining_server_ends_traces() {
    let mut server = server(&INSPECTOR);
    let mut viewer = Viewer::open(&server, "alice");
    server.terminate();
    viewer.expect(&[json!({ "what": "end", "reason": "draining" })]);
    assert_eq!(viewer.next_if_any(), None);
    assert!(server.exit().success());
}
