//! `wait=`: a long poll, which is answered as soon as there is something to send.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Response, Server, Socket, Transport, at, offset, request};

/// This is longer than any test, so that no answer comes from the timeout.
const LONG: &str = "wait=2m";

fn poll(socket: &mut Socket, target: &str) {
    socket.send(request("GET", &format!("/v1/topics{target}"), &[], b""));
}

fn polling(server: &Server, target: &str) -> Socket {
    let mut socket = server.connect();
    poll(&mut socket, target);
    socket
}

fn lines(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("content-type"), Some("application/x-ndjson"));
    let text = response.text();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn events(response: &Response) -> Vec<Value> {
    let lines = lines(response);
    let events = lines.iter().filter_map(|line| line["events"].as_array());
    events.flatten().cloned().collect()
}

/// The wait may be over when a part of a message is in the response.
#[test]
fn a_poll_without_a_wait_has_whole_messages() {
    let server = Server::start(&["--shards", "2"]);
    let event = format!("\"{}\"", "x".repeat(200_000));
    for number in 0..20 {
        // The first read of a topic at another shard begins, and gets the event, after the wait is over.
        server.post(&format!("t{number}"), "application/json", &event).published();
        let answer = polling(&server, &format!("/t{number}?wait=0&cursor=earliest")).response();
        // Each line is JSON.
        assert!(!lines(&answer).is_empty());
    }
}

#[test]
fn a_poll_with_new_events_is_answered_at_once() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    let answer = polling(&server, &format!("/t?{LONG}&cursor=earliest")).response();
    let lines = lines(&answer);
    assert_eq!(lines[0], json!({"topic": "t", "position": at(&head, 0), "first": 1, "events": []}));
    assert_eq!(events(&answer), [json!(0), json!(1), json!(2)]);
    assert_eq!(lines.last().expect("a line")["position"], json!(head));
    assert!(answer.header("cache-control").is_some_and(|value| value.contains("no-cache")));
}

#[test]
fn a_poll_waits_until_there_is_something_to_say() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    for (cursor, next) in [(head.as_str(), 3), ("latest", 4)] {
        let mut waiting = polling(&server, &format!("/t?{LONG}&cursor={cursor}"));
        server.await_connections(1);
        assert_eq!(server.publish("t", next..next + 1).count, 1);
        let answer = waiting.response();
        assert_eq!(lines(&answer)[0]["events"], json!([]), "it is confirmed first");
        assert_eq!(events(&answer), [json!(next)]);
    }
}

#[test]
fn a_wait_of_nothing_is_answered_with_the_confirmation() {
    let server = Server::start(&[]);
    let answer = polling(&server, "/new?wait=0").response();
    let only = lines(&answer);
    assert_eq!(only.len(), 1, "{only:?}");
    let position = only[0]["position"].as_str().expect("a position");
    assert_eq!((&only[0]["events"], offset(position)), (&json!([]), 0));
    server.publish("new", 0..2);
    let answer = polling(&server, &format!("/new?{LONG}&cursor={position}")).response();
    assert_eq!(events(&answer), [json!(0), json!(1)]);
    let answer = polling(&server, "/new?wait=0&cursor=earliest").response();
    assert_eq!(events(&answer), [json!(0), json!(1)]);
}

#[test]
fn a_wait_that_is_over_is_answered_with_the_confirmations() {
    let server = Server::start(&["--heartbeat", "50ms"]);
    let begun = Instant::now();
    let answer = polling(&server, "?topic=a&topic=b&wait=300ms").response();
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    let lines = lines(&answer);
    let topics: Vec<&Value> = lines.iter().map(|line| &line["topic"]).collect();
    assert_eq!(topics, [&json!("a"), &json!("b")]);
    assert!(lines.iter().all(|line| line["events"] == json!([])), "{lines:?}");
}

#[test]
fn a_wait_is_bounded() {
    let server = Server::start(&[]);
    for bad in ["wait=6m", "wait=-1s", "wait=long", "wait="] {
        server.get(&format!("/v1/topics/t?{bad}")).refused(400, "bad_parameter");
    }
    let mut longest = polling(&server, "/t?wait=5m");
    server.await_connections(1);
    server.publish("t", 0..1);
    assert_eq!(events(&longest.response()), [json!(0)]);
}

#[test]
fn the_query_may_name_the_transport_instead() {
    let server = Server::start(&[]);
    let mut waiting = polling(&server, "/t?transport=long-polling");
    server.await_connections(1);
    server.publish("t", 0..1);
    assert_eq!(events(&waiting.response()), [json!(0)]);
}

#[test]
fn a_newer_poll_is_not_held_up_by_an_older_one() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    let mut older = polling(&server, &format!("/t?{LONG}&cursor={head}"));
    server.await_connections(1);
    let newer = polling(&server, &format!("/t?{LONG}&cursor={}", at(&head, 1))).response();
    assert_eq!(events(&newer), [json!(1), json!(2)]);
    server.publish("t", 3..4);
    assert_eq!(events(&older.response()), [json!(3)], "nor does it end the older one");
}

#[test]
fn a_newer_poll_is_not_held_up_on_the_same_connection_of_http2() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    let client = server.http2();
    let start = |cursor: &str| {
        client.start("GET", &format!("/v1/topics/t?{LONG}&cursor={cursor}"), &[], b"")
    };
    let mut older = start(&head);
    server.await_connections(1);
    assert_eq!(events(&start(&at(&head, 1)).response()), [json!(1), json!(2)]);
    server.publish("t", 3..4);
    assert_eq!(events(&older.response()), [json!(3)]);
}

#[test]
fn a_gap_is_answered_at_once_and_names_where_to_go_on() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    let answer = polling(&server, &format!("/t?{LONG}&cursor=1.7")).response();
    let lines = lines(&answer);
    let gap = json!({"topic": "t", "position": at(&head, 0),
        "gap": {"missed": null, "reason": "epoch"}});
    assert_eq!(lines[0], gap);
    // In one response or two, no event is lost.
    let last = lines.last().expect("a line")["position"].as_str().expect("a position");
    let mut all = events(&answer);
    if last != head {
        let next = format!("/t?{LONG}&cursor={last}");
        all.extend(events(&polling(&server, &next).response()));
    }
    assert_eq!(all, [json!(0), json!(1), json!(2)]);
}

#[test]
fn the_last_lines_of_each_topic_are_enough_to_go_on() {
    let server = Server::start(&[]);
    let a = server.publish("a", 0..2).position;
    let b = server.publish("b", 0..2).position;
    let target = format!("?topic=a&topic=b&{LONG}&cursor={}&cursor={b}", at(&a, 1));
    let answer = polling(&server, &target).response();
    assert_eq!(events(&answer), [json!(1)]);
    let positions: Vec<_> = lines(&answer);
    let last_of = |topic: &str| {
        let of_topic = positions.iter().rev().find(|line| line["topic"] == json!(topic));
        of_topic.expect("a line of it")["position"].clone()
    };
    assert_eq!((last_of("a"), last_of("b")), (json!(a), json!(b)));
    let mut waiting = polling(&server, &format!("?topic=a&topic=b&{LONG}&cursor={a}&cursor={b}"));
    server.await_connections(1);
    server.publish("b", 2..3);
    assert_eq!(events(&waiting.response()), [json!(2)]);
}

#[test]
fn all_events_due_are_in_the_answer_and_those_of_an_event_too() {
    let server = Server::start(&[]);
    server.publish("t", 0..5_000);
    let answer = polling(&server, &format!("/t?{LONG}&cursor=earliest")).response();
    let expected: Vec<Value> = (0..5_000).map(|number| json!(number)).collect();
    assert_eq!(events(&answer), expected);
    let text = "x".repeat((1 << 20) - 2);
    let mut waiting = polling(&server, &format!("/t?{LONG}"));
    server.await_connections(1);
    server.post("t", "application/json", format!("\"{text}\"")).published();
    assert_eq!(events(&waiting.response()), [json!(text)]);
}

#[test]
fn a_connection_is_kept_for_the_next_poll_and_for_other_requests() {
    let server = Server::start(&[]);
    let mut socket = server.connect();
    poll(&mut socket, "/t?wait=0");
    let mut cursor = lines(&socket.response())[0]["position"].clone();
    for number in 0..20 {
        socket.send(request("POST", "/v1/topics/t", &[], number.to_string().as_bytes()));
        assert_eq!(socket.response().published().first, number + 1);
        let at = cursor.as_str().expect("a position");
        poll(&mut socket, &format!("/t?{LONG}&cursor={at}"));
        let answer = socket.response();
        assert_ne!(answer.header("connection"), Some("close"));
        assert_eq!(events(&answer), [json!(number)]);
        cursor = lines(&answer).last().expect("a line")["position"].clone();
    }
    assert_eq!(server.metric("thalweg_connections"), 0.0);
}

#[test]
fn a_request_pipelined_behind_a_waiting_poll_is_answered_after_it() {
    let server = Server::start(&[]);
    let mut socket = polling(&server, &format!("/t?{LONG}"));
    server.await_connections(1);
    socket.send_if_open(request("GET", "/healthz", &[], b""));
    server.publish("t", 0..1);
    assert_eq!(events(&socket.response()), [json!(0)]);
    assert_eq!(socket.response().status, 200);
}

#[test]
fn http_1_0_is_answered_and_hung_up_on() {
    let server = Server::start(&[]);
    let mut socket = server.connect();
    let target = format!("/v1/topics/t?{LONG}");
    socket.send(format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n"));
    server.await_connections(1);
    server.publish("t", 0..1);
    let answer = socket.response();
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(events(&answer), [json!(0)]);
    assert_eq!(socket.rest("the end"), b"");
    let mut socket = server.connect();
    socket.send(
        "GET /v1/topics/t?wait=0 HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n",
    );
    let answer = socket.response();
    assert_eq!(lines(&answer)[0]["events"], json!([]));
}

#[test]
fn a_client_that_goes_away_frees_its_place() {
    let server = Server::start(&[]);
    let sockets: Vec<Socket> = (0..10).map(|_| polling(&server, &format!("/t?{LONG}"))).collect();
    server.await_connections(10);
    drop(sockets);
    server.await_connections(0);
    let client = server.http2();
    let target = format!("/v1/topics/t?{LONG}");
    let mut streams: Vec<Socket> =
        (0..10).map(|_| client.start("GET", &target, &[], b"")).collect();
    server.await_connections(10);
    streams.truncate(3);
    server.await_connections(3);
    server.publish("t", 0..1);
    for stream in &mut streams {
        assert_eq!(events(&stream.response()), [json!(0)]);
    }
    server.await_connections(0);
}

#[test]
fn a_drain_ends_a_waiting_poll() {
    for shards in ["1", "2"] {
        let mut server = Server::start(&["--shards", shards]);
        // One reader per shard: from now on a poll is confirmed when it arrives.
        let mut readers = [Transport::Sse; 2].map(|transport| server.subscribe(transport, "/t"));
        for reader in &mut readers {
            reader.confirmed();
        }
        let mut waiting: Vec<Socket> =
            (0..6).map(|_| polling(&server, &format!("/t?{LONG}"))).collect();
        server.await_connections(waiting.len() + readers.len());
        server.terminate();
        for socket in &mut waiting {
            let lines = lines(&socket.response());
            assert_eq!(lines[0]["events"], json!([]));
            let close = json!({"close": {"code": 1001, "reason": "draining", "reconnect": true}});
            assert_eq!(lines.last(), Some(&close));
        }
        drop((waiting, readers));
        assert_eq!(server.exit().code(), Some(0));
    }
}

#[test]
fn polls_under_a_firehose_lose_and_repeat_nothing() {
    const TOTAL: u64 = 20_000;
    let server = Server::start(&["--shards", "2"]);
    let mut subscriber = server.subscribe(Transport::LongPolling, "/hose");
    subscriber.confirmed();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for start in (0..TOTAL).step_by(100) {
                server.publish("hose", start..start + 100);
            }
        });
        let expected: Vec<u64> = (0..TOTAL).collect();
        assert_eq!(subscriber.numbers(TOTAL as usize).0, expected);
    });
}
