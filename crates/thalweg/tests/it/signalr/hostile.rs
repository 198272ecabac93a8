//! Clients of a hub that break the protocol, or its limits.

use std::thread::{Scope, ScopedJoinHandle};

use serde_json::{Value, json};

use super::HUB;
use crate::harness::{Response, Server, request, wait_for};

type Poll<'s> = ScopedJoinHandle<'s, Response>;

fn negotiate(server: &Server) -> String {
    let answer = server.ask("POST", "/hub/negotiate?negotiateVersion=1", &[], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["connectionToken"].as_str().expect("a token").to_owned()
}

fn send(server: &Server, token: &str, records: &str) -> Response {
    server.ask("POST", &format!("/hub?id={token}"), &[("Content-Type", "text/plain")], records)
}

fn poll(server: &Server, token: &str) -> Response {
    server.get(&format!("/hub?id={token}"))
}

/// Opens a polled session and shakes hands.
fn open(server: &Server) -> String {
    let token = negotiate(server);
    let first = poll(server, &token);
    assert_eq!((first.status, &*first.text()), (200, ""), "the first poll is answered at once");
    let handshake = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
    assert_eq!(send(server, &token, handshake).status, 200);
    assert_eq!(poll(server, &token).text(), "{}\u{1e}");
    token
}

fn records(answer: &Response) -> Vec<Value> {
    let text = answer.text();
    let records = text.strip_suffix('\u{1e}').expect("whole records").split('\u{1e}');
    records.map(|record| serde_json::from_str(record).expect("JSON")).collect()
}

pub(super) fn invocation(id: Option<&str>, target: &str, arguments: &Value) -> String {
    let mut record = json!({ "type": 1, "target": target, "arguments": arguments });
    if let Some(id) = id {
        record["invocationId"] = json!(id);
    }
    format!("{record}\u{1e}")
}

/// Polls up to the completion of an invocation. Returns the ids of all completions.
fn completed_until(server: &Server, token: &str, last: &str) -> Vec<Value> {
    let mut completed: Vec<Value> = Vec::new();
    while completed.last().is_none_or(|id| id != last) {
        let records = records(&poll(server, token));
        let completions = records.into_iter().filter(|record| record["type"] == 3);
        completed.extend(completions.map(|record| record["invocationId"].clone()));
    }
    completed
}

#[test]
fn a_head_request_takes_no_messages() {
    let server = Server::start(&HUB);
    let token = open(&server);
    let publish = invocation(Some("0"), "Publish", &json!(["cars", 1]));
    assert_eq!(send(&server, &token, &publish).status, 200);
    let path = format!("/hub?id={token}");
    let mut socket = server.connect();
    socket.send(request("HEAD", &path, &[], b""));
    assert_eq!(socket.response_head().status, 404);
    let answers = records(&poll(&server, &token));
    assert_eq!((&answers[0]["type"], &answers[0]["invocationId"]), (&json!(3), &json!("0")));
}

#[test]
fn a_negotiation_offers_three_transports_and_no_stateful_reconnect() {
    let server = Server::start(&HUB);
    let version = |query: &str| {
        let answer = server.ask("POST", &format!("/hub/negotiate{query}"), &[], "");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        answer.json()
    };
    let one = version("?negotiateVersion=1&useStatefulReconnect=true");
    assert_eq!(one["negotiateVersion"], 1);
    assert_ne!(one["connectionId"], one["connectionToken"]);
    assert!(one["useStatefulReconnect"].is_null());
    let names: Vec<_> = one["availableTransports"].as_array().unwrap().iter().collect();
    let text = |name: &str| json!({ "transport": name, "transferFormats": ["Text"] });
    assert_eq!(names, [&text("WebSockets"), &text("ServerSentEvents"), &text("LongPolling")]);
    assert_eq!(version("?negotiateVersion=99")["negotiateVersion"], 1);
    let zero = version("");
    assert!(zero["negotiateVersion"] == 0 && zero["connectionToken"].is_null());
    // The id of version 0 stands for the token.
    let id = zero["connectionId"].as_str().unwrap();
    assert_eq!(poll(&server, id).status, 200);
    let wrong = server.ask("POST", "/hub/negotiate?negotiateVersion=one", &[], "");
    wrong.refused(400, "bad_parameter");
}

#[test]
fn requests_without_a_connection_are_refused() {
    let server = Server::start(&HUB);
    for method in ["GET", "POST", "DELETE"] {
        let ask = |target: &str| server.ask(method, target, &[], "");
        let message = ask("/hub").refused(400, "bad_parameter");
        assert!(message.contains("connectionToken"), "{message}");
        ask("/hub?id=1").refused(404, "not_found");
        ask("/hub/other").refused(404, "not_found");
    }
    let sse = |target: &str| server.ask("GET", target, &[("Accept", "text/event-stream")], "");
    sse("/hub").refused(400, "bad_parameter");
    sse("/hub?id=1").refused(404, "not_found");
    let token = negotiate(&server);
    send(&server, &token, "").refused(404, "not_found");
    assert_eq!(poll(&server, &token).status, 200);
    // Its transport is long polling.
    sse(&format!("/hub?id={token}")).refused(409, "in_use");
    let end = server.ask("DELETE", &format!("/hub?id={token}"), &[], "");
    assert_eq!(end.status, 202);
    server.await_connections(0);
    send(&server, &token, "").refused(404, "not_found");
}

/// Returns a poll that waits at the server: it has ended another one.
fn waiting_poll<'s>(scope: &'s Scope<'s, '_>, server: &'s Server, token: &'s str) -> Poll<'s> {
    let [one, other] = [(); 2].map(|()| scope.spawn(|| poll(server, token)));
    let is_first = wait_for("a poll to end", || {
        (one.is_finished() || other.is_finished()).then_some(one.is_finished())
    });
    let (ended, waits) = if is_first { (one, other) } else { (other, one) };
    assert_eq!(ended.join().expect("an answer").status, 204);
    waits
}

#[test]
fn a_newer_poll_ends_the_older_one_and_gets_the_messages() {
    let server = Server::start(&HUB);
    let token = open(&server);
    std::thread::scope(|scope| {
        let older = waiting_poll(scope, &server, &token);
        let newer = scope.spawn(|| poll(&server, &token));
        assert_eq!(older.join().expect("an answer").status, 204);
        assert_eq!(
            send(&server, &token, &invocation(Some("7"), "Subscribe", &json!(["cars"]))).status,
            200
        );
        assert_eq!(records(&newer.join().expect("an answer"))[0]["invocationId"], "7");
        let last = waiting_poll(scope, &server, &token);
        let end = server.ask("DELETE", &format!("/hub?id={token}"), &[], "");
        assert_eq!(end.status, 202);
        assert_eq!(last.join().expect("an answer").status, 204);
    });
}

/// The official client ignores answers to invocations that it does not know.
#[test]
fn an_invocation_without_an_id_is_executed_without_an_answer() {
    let server = Server::start(&HUB);
    let token = open(&server);
    let all = [
        invocation(None, "Publish", &json!(["cars", 1])),
        invocation(None, "Unsubscribe", &json!(["cars"])),
        invocation(None, "Unknown", &json!([])),
        invocation(Some("7"), "Publish", &json!(["cars", 2])),
    ];
    assert_eq!(send(&server, &token, &all.concat()).status, 200);
    assert_eq!(completed_until(&server, &token, "7"), ["7"]);
    let page = server.get("/v1/topics/cars?cursor=earliest&limit=10").json();
    assert_eq!(page["events"], json!([1, 2]));
}

#[test]
fn records_are_executed_in_order_and_answered_by_polls() {
    let server = Server::start(&HUB);
    let token = open(&server);
    let mut all = String::new();
    for n in 0..40 {
        for (id, target) in [(2 * n, "Subscribe"), (2 * n + 1, "Unsubscribe")] {
            all += &invocation(Some(&id.to_string()), target, &json!([format!("t{n}")]));
        }
    }
    assert_eq!(send(&server, &token, &all).status, 200);
    let expected: Vec<String> = (0..80).map(|id| id.to_string()).collect();
    assert_eq!(completed_until(&server, &token, "79"), expected);
}

#[test]
fn a_session_belongs_to_its_token() {
    let server = Server::start(
        &[
            &HUB[..],
            &["--token", "one=one-secret,subscribe=**", "--token", "two=two-secret,subscribe=**"],
        ]
        .concat(),
    );
    let ask = |method: &str, target: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        server.ask(method, target, &[("Authorization", &bearer)], "")
    };
    let negotiated = ask("POST", "/hub/negotiate?negotiateVersion=1", "one-secret").json();
    let target = format!("/hub?id={}", negotiated["connectionToken"].as_str().unwrap());
    assert_eq!(ask("GET", &target, "one-secret").status, 200);
    for method in ["GET", "POST", "DELETE"] {
        ask(method, &target, "two-secret").refused(403, "forbidden");
        server.ask(method, &target, &[], "").refused(403, "forbidden");
    }
    assert_eq!(server.get(&format!("{target}&access_token=wrong")).status, 401);
    assert_eq!(
        server.ask("DELETE", &format!("{target}&access_token=one-secret"), &[], "").status,
        202
    );
}

#[test]
fn records_that_break_the_protocol_end_the_connection() {
    let server = Server::start(&HUB);
    for (records, error) in [
        ("{\"type\":1}\u{1e}", "protocol error"),
        ("nonsense\u{1e}", "protocol error"),
        ("{\"type\":6}", "protocol error"),
    ] {
        let token = open(&server);
        let sent = send(&server, &token, records);
        assert!([200, 404].contains(&sent.status), "{}", sent.status);
        let answer = poll(&server, &token);
        let expected = json!({ "type": 7, "error": error, "allowReconnect": false });
        assert_eq!(self::records(&answer), [expected], "{records}");
        poll(&server, &token).refused(404, "not_found");
    }
    // Without a handshake the refusal is that of the handshake.
    for (records, problem) in [
        ("{\"type\":6}\u{1e}", "is a handshake"),
        ("{\"protocol\":\"messagepack\",\"version\":1}\u{1e}", "messagepack"),
    ] {
        let token = negotiate(&server);
        assert_eq!(poll(&server, &token).status, 200);
        send(&server, &token, records);
        let answer = self::records(&poll(&server, &token));
        let [refusal] = &*answer else { panic!("{records}: {answer:?}") };
        let error = refusal["error"].as_str().expect("an error");
        assert!(error.contains(problem), "{records}: {error}");
    }
    server.await_connections(0);
}

#[test]
fn large_requests_are_refused() {
    let everybody = ["--token", "everybody,subscribe=**"];
    let server = Server::start(&[&HUB[..], &everybody].concat());
    let token = open(&server);
    // A client without the right to publish sends commands without events.
    send(&server, &token, &"x".repeat(17 << 10)).refused(413, "event_too_large");
}

#[test]
fn negotiations_take_no_place_and_no_memory() {
    /// Less than half of the memory for 40,000 identifiers of 16 bytes, in a table.
    const GROWN_MAX: usize = 1 << 19;
    let server = Server::start(&HUB);
    let mut socket = server.connect();
    let mut negotiate = |times: usize| {
        for _ in 0..times {
            let target = "/hub/negotiate?negotiateVersion=1";
            socket.send(request("POST", target, &[], b"").repeat(100));
            (0..100).for_each(|_| assert_eq!(socket.response().status, 200));
        }
    };
    negotiate(10);
    let before = server.memory();
    negotiate(400);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < GROWN_MAX, "{grown} bytes more than before");
    assert_eq!(server.metric("thalweg_polled_connections"), 0.0);
    assert_eq!(server.metric("thalweg_connections"), 0.0);
}

#[test]
fn a_drain_does_not_wait_for_a_session_between_two_polls() {
    // The client would be silent for too long only later.
    const TIMEOUT: [&str; 2] = ["--shutdown-timeout", "20s"];
    let mut server = Server::start(&[&HUB[..], &TIMEOUT].concat());
    // They are on both shards.
    let _tokens: Vec<_> = (0..8).map(|_| open(&server)).collect();
    server.await_connections(8);
    server.terminate();
    assert_eq!(server.exit().code(), Some(0));
    assert!(!server.log().contains("did not finish"), "{}", server.log());
}

#[test]
fn a_draining_server_answers_a_waiting_poll_of_each_session() {
    let mut server = Server::start(&HUB);
    let tokens: Vec<_> = (0..8).map(|_| open(&server)).collect();
    std::thread::scope(|scope| {
        let polls: Vec<_> =
            tokens.iter().map(|token| waiting_poll(scope, &server, token)).collect();
        server.terminate();
        for poll in polls {
            let answer = records(&poll.join().expect("a poll"));
            let close = json!({ "type": 7, "error": "draining", "allowReconnect": true });
            assert_eq!(answer.last(), Some(&close));
        }
    });
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn a_poll_that_a_browser_repeats_ends_the_session() {
    let server = Server::start(&HUB);
    let token = open(&server);
    let numbered = |number: u64| server.get(&format!("/hub?id={token}&_={number}"));
    let subscribe = |id: u64, target: &str| {
        let record = invocation(Some(&id.to_string()), target, &json!(["numbers"]));
        assert_eq!(send(&server, &token, &record).status, 200);
    };
    subscribe(0, "Subscribe");
    assert_eq!(numbered(1).status, 200);
    subscribe(1, "Unsubscribe");
    // Each request has a connection of its own here.
    numbered(1).refused(404, "not_found");
    server.await_connections(0);
    assert_eq!(send(&server, &token, "").status, 404);
}
