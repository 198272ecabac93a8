//! NATS is unavailable: messages to subscribers and publishers.

use std::time::Instant;

use super::{Nodes, Servers};
use crate::harness::{Response, Server, Socket, Transport, close, request};

/// The answer to a poll that must be repeated at another node.
const CUT_OFF: &str = r#"{"close":{"code":4006,"#;

/// A connection stays open without a request for as long as a busy machine may need until the next one.
const PATIENT: [&str; 2] = ["--set", "limits.keep-alive-timeout=1h"];

fn poll(target: &str, wait: &str) -> String {
    format!("/v1/topics{target}&wait={wait}")
}

fn send_poll(socket: &mut Socket, target: &str, wait: &str) {
    socket.send(request("GET", &poll(target, wait), &[], b""));
}

/// Polls on a connection that stays open after the answer.
fn poll_at_once(socket: &mut Socket, target: &str) {
    send_poll(socket, target, "0s");
    let answer = socket.response();
    assert_eq!((answer.status, answer.header("connection")), (200, None), "{}", answer.text());
}

/// Checks that a poll was told to reconnect, on another connection.
fn expect_cut_off(answer: &Response, socket: &mut Socket) {
    assert!(answer.text().contains(CUT_OFF), "{}", answer.text());
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(socket.response_if_open().is_none());
}

fn await_cut_off(node: &Server) {
    let mut subscriber = node.subscribe(Transport::Sse, "/live/other");
    subscriber.confirmed();
    assert_eq!(subscriber.news(), close(Transport::Sse, 4006, "cut off", true));
}

#[test]
fn subscribers_of_a_node_that_is_cut_off_are_sent_away_once() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start_with(&servers, 1, "all=live/**", &["--shards", "2"]);
    let node = nodes.at(0);
    let position = node.publish("live/a", 0..3).position;
    let target = format!("/live/a?cursor={position}");
    let mut subscribers = Transport::STREAMING.map(|transport| node.subscribe(transport, &target));
    let mut own = node.subscribe(Transport::WebSocket, "/own");
    for subscriber in subscribers.iter_mut().chain([&mut own]) {
        subscriber.confirmed();
    }
    // A poll that is still waiting then.
    let mut waiting = node.connect();
    send_poll(&mut waiting, &target, "30s");
    node.await_connections(subscribers.len() + 2);
    servers.kill(0);
    for (subscriber, transport) in subscribers.iter_mut().zip(Transport::STREAMING) {
        assert_eq!(subscriber.news(), close(transport, 4006, "cut off", true), "{transport:?}");
    }
    let answer = waiting.response();
    expect_cut_off(&answer, &mut waiting);
    drop(subscribers);
    // The server still serves topics that are not shared.
    node.publish("own", 0..1);
    assert_eq!(own.numbers(1).0, [0]);
    // Subscribers that reconnect receive the events in memory, and stay.
    let mut back = Transport::STREAMING.map(|transport| node.subscribe(transport, &target));
    for subscriber in &mut back {
        assert_eq!(subscriber.confirmed(), position);
    }
    servers.run(0);
    nodes.await_ready();
    node.publish("live/a", 3..4);
    for subscriber in &mut back {
        assert_eq!(subscriber.numbers(1).0, [3]);
    }
    let told = node.count("thalweg_closed_total{code=\"4006\"}");
    assert_eq!(told, Transport::STREAMING.len() as u64 + 1);
}

#[test]
fn a_polling_client_learns_of_an_outage_with_its_next_poll_and_may_return() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start_with(&servers, 1, "all=live/**", &PATIENT);
    let node = nodes.at(0);
    let position = node.publish("live/a", 0..3).position;
    let target = format!("/live/a?cursor={position}");
    let [mut first, mut second, mut of_own] = [0; 3].map(|_| node.connect());
    poll_at_once(&mut first, &target);
    poll_at_once(&mut second, &target);
    poll_at_once(&mut of_own, "/own?cursor=latest");
    servers.kill(0);
    await_cut_off(node);
    for socket in [&mut first, &mut second] {
        send_poll(socket, &target, "5m");
        let answer = socket.response();
        expect_cut_off(&answer, socket);
    }
    poll_at_once(&mut of_own, "/own?cursor=latest");
    // It reconnects, as through a backend of last resort, and waits.
    let mut back = node.connect();
    poll_at_once(&mut back, &target);
    send_poll(&mut back, &target, "5m");
    node.await_connections(1);
    servers.run(0);
    nodes.await_ready();
    node.publish("live/a", 3..4);
    let answer = back.response();
    assert!(answer.text().contains(r#""events":[3]"#), "{}", answer.text());
    assert_eq!(node.count("thalweg_closed_total{code=\"4006\"}"), 3);
}

/// HTTP/2 streams share a connection, which would lead to the same server again.
#[test]
fn subscribers_over_http2_are_sent_away_with_their_connection() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start_with(&servers, 1, "all=live/**", &PATIENT);
    let node = nodes.at(0);
    let position = node.publish("live/a", 0..3).position;
    let target = format!("/live/a?cursor={position}");
    let [between, streaming] = [0; 2].map(|_| node.http2());
    let answer = between.ask("GET", &poll(&target, "0s"), &[], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut subscriber = streaming.subscribe(Transport::Sse, &target);
    let mut own = streaming.subscribe(Transport::Sse, "/own");
    subscriber.confirmed();
    own.confirmed();
    servers.kill(0);
    assert_eq!(subscriber.news(), close(Transport::Sse, 4006, "cut off", true));
    let answer = between.ask("GET", &poll(&target, "5m"), &[], "");
    assert!(answer.text().contains(CUT_OFF), "{}", answer.text());
    for connection in [&between, &streaming] {
        connection.await_retired();
    }
    // Streams that are open continue.
    node.publish("own", 0..1);
    assert_eq!(own.numbers(1).0, [0]);
    let mut back = node.http2().subscribe(Transport::Sse, &target);
    assert_eq!(back.confirmed(), position);
    servers.run(0);
    nodes.await_ready();
    node.publish("live/a", 3..4);
    assert_eq!(back.numbers(1).0, [3]);
}

#[test]
fn publishes_that_wait_for_each_other_wait_no_longer_for_that() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 1);
    servers.kill(0);
    let begun = Instant::now();
    // Each event with a key is a separate record, and one record of a topic is in flight at a time.
    let mut sockets: Vec<_> = (0..4)
        .map(|nth| {
            let key = nth.to_string();
            let headers = [("Content-Type", "application/json"), ("Idempotency-Key", &key)];
            let mut socket = nodes.at(0).connect();
            socket.send(request("POST", "/v1/topics/cars", &headers, b"1"));
            socket
        })
        .collect();
    let mut waited = sockets.iter_mut().map(|socket| {
        socket.response().refused(503, "unavailable");
        begun.elapsed()
    });
    let first = waited.next().expect("the first");
    let last = waited.next_back().expect("the last");
    assert!(last < first * 2, "{first:?} and {last:?}");
}
