//! SIGTERM: the server tells every client, and then exits.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::harness::{
    Raw, Received, Server, TlsClient, Transport, chunk, close, ticking, wait_for,
};

/// This is much longer than a test waits. It reveals a client that is cut off only at the end of a drain.
const PATIENT: [&str; 2] = ["--shutdown-timeout", "1h"];

fn draining(transport: Transport) -> Received {
    close(transport, 1001, "draining", true)
}

#[test]
fn every_subscriber_hears_a_close_and_the_server_exits_cleanly() {
    for shards in ["1", "2"] {
        let mut server = Server::start(&[&PATIENT[..], &["--shards", shards]].concat());
        let mut subscribers: Vec<_> = (0..4)
            .flat_map(|_| Transport::ALL)
            .map(|transport| (transport, server.subscribe(transport, "/t")))
            .collect();
        for (_, subscriber) in &mut subscribers {
            subscriber.confirmed();
        }
        server.await_connections(subscribers.len());
        server.terminate();
        for (transport, subscriber) in &mut subscribers {
            assert_eq!(subscriber.next(), draining(*transport));
            if *transport != Transport::WebSocket {
                assert_eq!(subscriber.next(), Received::End);
            }
        }
        drop(subscribers);
        assert_eq!(server.exit().code(), Some(0));
    }
}

/// Otherwise all clients would reconnect at the same instant.
#[test]
fn subscribers_are_told_one_after_the_other() {
    const COUNT: u32 = 300;
    let mut server = Server::start(&[&PATIENT[..], &["--shards", "1"]].concat());
    let mut subscribers: Vec<_> =
        (0..COUNT).map(|_| server.subscribe(Transport::Sse, "/t")).collect();
    subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
    server.await_connections(subscribers.len());
    let begun = Instant::now();
    server.terminate();
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.next(), draining(Transport::Sse));
    }
    // The closes are 2 ms apart, or more on a busy machine.
    let span = begun.elapsed();
    assert!(span >= Duration::from_millis(2) * (COUNT - 1), "{span:?}");
    drop(subscribers);
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn a_server_asked_to_stop_as_soon_as_it_listens_exits_cleanly() {
    for _ in 0..20 {
        let mut server = Server::start(&PATIENT);
        server.terminate();
        assert_eq!(server.exit().code(), Some(0));
    }
}

#[test]
fn events_before_the_end_are_delivered() {
    for more in [&[][..], &["--topic", "**,flush=1m"], &["--topic", "**,flush=1m", "--shards", "2"]]
    {
        is_delivered_before_the_end(&[&PATIENT[..], more].concat());
    }
}

fn is_delivered_before_the_end(arguments: &[&str]) {
    let mut server = Server::start(arguments);
    let mut subscribers = Transport::ALL.map(|transport| server.subscribe(transport, "/t"));
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    server.await_connections(subscribers.len());
    server.publish("t", 0..1_000);
    server.terminate();
    for (subscriber, transport) in subscribers.iter_mut().zip(Transport::ALL) {
        assert_eq!(subscriber.numbers(1_000).0.last(), Some(&999));
        let received = subscriber.next();
        if transport == Transport::LongPolling {
            // Its next poll reaches a server that accepts no more requests.
            let is_turned_away = matches!(&received, Received::End)
                || received == Received::Refused(503, "draining".into());
            assert!(is_turned_away || received == draining(transport), "{received:?}");
        } else {
            assert_eq!(received, draining(transport));
        }
    }
    drop(subscribers);
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn idle_connections_do_not_hold_the_server() {
    let mut server = Server::start(&PATIENT);
    let silent = server.connect();
    let mut half = server.connect();
    half.send("GET /v1/top");
    let mut preface = server.connect();
    preface.send("PRI * HTTP/2");
    let mut alive = server.connect();
    alive.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(alive.response().status, 200);
    server.terminate();
    assert_eq!(server.exit().code(), Some(0));
    drop((silent, half, preface, alive));
}

#[test]
fn a_subscriber_that_answers_nothing_does_not_hold_the_server() {
    let mut server = Server::start(&["--shutdown-timeout", "1s"]);
    let mut mute = server.subscribe(Transport::WebSocket, "/t");
    mute.confirmed();
    let mut deaf = Transport::ALL.map(|transport| server.subscribe(transport, "/big"));
    for subscriber in &mut deaf {
        subscriber.confirmed();
    }
    let line = format!("\"{}\"\n", "x".repeat(1000));
    for _ in 0..80 {
        server.post("big", "application/x-ndjson", line.repeat(100)).published();
    }
    server.terminate();
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn a_publish_connection_is_answered_or_cut_but_does_not_hold_the_server() {
    let mut server = Server::start(&PATIENT);
    let mut subscriber = server.subscribe(Transport::Sse, "/t");
    subscriber.confirmed();
    let mut publisher = server.connect();
    publisher.send(
        "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    publisher.send(chunk("1\n"));
    assert_eq!(subscriber.numbers(1).0, [1]);
    server.terminate();
    assert_eq!(subscriber.next(), draining(Transport::Sse));
    assert_eq!(server.exit().code(), Some(0));
    let rest = String::from_utf8(publisher.rest("the publish connection's end")).expect("text");
    assert!(rest.is_empty() || rest.contains("503") || rest.contains("\"count\":1"), "{rest}");
}

/// A load balancer sees that the server is not ready. Clients that it still sends are served.
#[test]
fn a_stopping_server_is_not_ready_before_it_drains() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::start(&[&PATIENT[..], &["--shutdown-delay", "10m"]].concat());
        let mut subscriber = server.subscribe(Transport::Sse, "/t");
        subscriber.confirmed();
        assert_eq!(server.get("/readyz").status, 200);
        server.terminate();
        wait_for("it to be not ready", || (server.get("/readyz").status == 503).then_some(()));
        server.get("/readyz").refused(503, "draining");
        assert_eq!(server.get("/healthz").status, 200);
        server.publish("t", 0..2);
        assert_eq!(subscriber.numbers(2).0, [0, 1]);
        let mut late = server.subscribe(Transport::WebSocket, "/t");
        late.confirmed();
        // A second signal of either kind ends the delay.
        kill_process(server.pid(), signal).expect("signal the server");
        assert_eq!(subscriber.next(), draining(Transport::Sse));
        assert_eq!(late.next(), draining(Transport::WebSocket));
        drop((subscriber, late));
        assert_eq!(server.exit().code(), Some(0));
    }
}

#[test]
fn the_delay_of_a_drain_ends_by_itself() {
    let mut server = Server::start(&[&PATIENT[..], &["--shutdown-delay", "100ms"]].concat());
    server.terminate();
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn connections_during_a_drain_are_refused_in_their_protocol() {
    for (tls, shards) in [(false, "1"), (false, "2"), (true, "1")] {
        let more: &[&str] = if tls { &["--tls-self-signed"] } else { &[] };
        let arguments = [&PATIENT[..], &["--shards", shards], more].concat();
        let server = ticking(&arguments);
        let connect = |protocol: &str| match tls {
            false => Raw::connect(server.address),
            true => Raw::over(TlsClient::connect(server.address, &[protocol])),
        };
        // This makes the next connection one of the last shard.
        let mut first = connect("http/1.1");
        first.ask("GET", "/healthz", &[], "");
        assert_eq!(first.answer().status, 200);
        // This client reads none of its data, and so delays the end of the drain.
        let mut deaf = connect("http/1.1");
        deaf.ask("GET", "/v1/topics/big?transport=http-streaming", &[], "");
        deaf.until(b"\r\n\r\n", "a head").expect("a subscription");
        let line = format!("\"{}\"\n", "x".repeat(1000)).repeat(900);
        for _ in 0..16 {
            let mut publisher = connect("http/1.1");
            let headers = [("Content-Type", "application/x-ndjson")];
            publisher.ask("POST", "/v1/topics/big", &headers, &line);
            assert_eq!(publisher.answer().status, 200);
        }
        drop(first);
        server.terminate();
        server.has_said("draining: ");
        let mut silent = None;
        for _ in 0..20 {
            silent = Some(connect("http/1.1"));
            let mut raw = connect("http/1.1");
            raw.ask("POST", "/v1/topics/t", &[], "1");
            let answer = raw.answer();
            answer.refused(503, "draining");
            assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
            let mut h2 = connect("h2");
            h2.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
            let said = h2.rest("its end");
            // SETTINGS, then GOAWAY (RFC 9113 §6.8).
            assert_eq!(said.get(12), Some(&7), "{said:?}");
        }
        drop(deaf);
        // The last connection is told as well, when no other is left.
        silent.expect("a connection").answer().refused(503, "draining");
    }
}

#[test]
fn requests_during_a_drain_are_refused() {
    let mut server = Server::start(&PATIENT);
    // This client does not answer its close, so that the server drains for a while.
    let mut mute = server.subscribe(Transport::WebSocket, "/t");
    mute.confirmed();
    let mut alive = server.connect();
    alive.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(alive.response().status, 200);
    server.terminate();
    assert_eq!(mute.next(), draining(Transport::WebSocket));
    alive.send_if_open(
        "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1",
    );
    let answer = String::from_utf8(alive.rest("an answer or the end")).expect("text");
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert_eq!(server.exit().code(), Some(0));
}
