//! HTTP/2 in cleartext, with prior knowledge (RFC 9113 §3.3).

use serde_json::json;

use crate::harness::{Received, Server, Socket, Transport, at, close, offset, wait_for};

const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");

#[test]
fn every_transport_is_confirmed_fed_and_resumed() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let client = server.http2();
        for transport in Transport::ALL {
            let topic = format!("{transport:?}");
            let head = server.publish(&topic, 0..10).position;
            for offset in [0, 3, 9, 10] {
                let cursor = at(&head, offset);
                let mut subscriber =
                    client.subscribe(transport, &format!("/{topic}?cursor={cursor}"));
                assert_eq!(subscriber.confirmed(), cursor);
                let expected: Vec<u64> = (offset..10).collect();
                if !expected.is_empty() {
                    assert_eq!(subscriber.numbers(expected.len()), (expected, head.clone()));
                }
            }
            let mut subscriber = client.subscribe(transport, &format!("/{topic}"));
            subscriber.confirmed();
            for number in 10..40 {
                let position = server.publish(&topic, number..number + 1).position;
                assert_eq!(subscriber.numbers(1), (vec![number], position));
            }
            let mut gap = client.subscribe(transport, &format!("/{topic}?cursor=1.1"));
            assert_eq!(gap.gap().reason, "epoch");
            assert_eq!(gap.numbers(40).0.last(), Some(&39));
        }
    }
}

#[test]
fn several_topics_share_a_stream() {
    let server = Server::start(&["--shards", "2"]);
    let client = server.http2();
    for transport in Transport::ALL {
        let mut subscriber = client.subscribe(transport, "?topic=a&topic=b&topic=c");
        for _ in 0..3 {
            subscriber.confirmed();
        }
        for topic in ["a", "b", "c"] {
            server.publish(topic, 0..1);
            assert_eq!(subscriber.envelope().topic, topic);
        }
    }
}

#[test]
fn a_response_head_has_no_header_of_http_1() {
    let server = Server::start(&[]);
    let client = server.http2();
    for transport in Transport::ALL {
        let subscriber = client.subscribe(transport, "/t");
        let head = &subscriber.head;
        let is_cached = head.header("cache-control").is_none_or(|it| !it.contains("no-cache"));
        // A tunnel is no response that a cache could keep.
        assert_eq!(is_cached, transport == Transport::WebSocket, "{transport:?}");
        // RFC 9113 §8.2.2.
        for name in ["connection", "transfer-encoding", "keep-alive", "upgrade"] {
            assert_eq!(head.header(name), None, "{transport:?}");
        }
    }
}

#[test]
fn events_and_commands_are_posted_and_answered() {
    let server = Server::start(&[]);
    let client = server.http2();
    let answer = client.ask("POST", "/v1/topics/t", &[], r#"{"id": 7}"#).published();
    assert_eq!((answer.first, answer.count), (1, 1));
    let answer = client.ask("POST", "/v1/topics/t", &[NDJSON], "1\n2\n3\n").published();
    assert_eq!((answer.first, answer.count), (2, 3));
    client.ask("POST", "/v1/topics/t", &[], "{").refused(400, "bad_event");
    client.ask("POST", "/v1/topics/a//b", &[], "1").refused(400, "bad_topic");
    let refused = client.ask("POST", "/v1/topics/t", &[NDJSON], "1\nx\n");
    assert!(refused.refused(400, "bad_event").contains("line 2"));
    assert_eq!(refused.json()["published"]["count"], json!(1));
    let echo = r#"{"command":"echo","id":1,"data":[1]}"#;
    let answer = client.ask("POST", "/v1/commands", &[], echo).json();
    assert_eq!(answer, json!({"answer": {"id": 1, "data": [1]}}));
    let page = client.ask("GET", "/v1/topics/t?limit=2", &[], "").json();
    assert_eq!(page["events"], json!([{"id": 7}, 1]));
    assert_eq!(client.ask("GET", "/v1/topics", &[], "").json()["topics"][0]["events"], json!(5));
    assert_eq!(client.ask("GET", "/healthz", &[], "").status, 200);
    client.ask("GET", "/nowhere", &[], "").refused(404, "not_found");
    client.ask("GET", "/v1/topics/t", &[], "").refused(406, "not_acceptable");
    client.ask("PUT", "/v1/topics/t", &[], "").refused(405, "method_not_allowed");
}

#[test]
fn a_long_request_is_a_publish_connection() {
    let server = Server::start(&[]);
    let client = server.http2();
    let mut subscriber = client.subscribe(Transport::Sse, "/t");
    subscriber.confirmed();
    let mut publisher = client.start_open("POST", "/v1/topics/t", &[NDJSON]);
    for number in 0..20 {
        publisher.send(format!("{number}\n"));
        assert_eq!(subscriber.numbers(1).0, [number]);
    }
    publisher.finish();
    assert_eq!(publisher.response().published().count, 20);
}

#[test]
fn a_websocket_needs_its_connect() {
    let server = Server::start(&[]);
    let client = server.http2();
    let target = "/v1/topics/t?transport=websocket";
    client.ask("GET", target, &[], "").refused(426, "upgrade_required");
}

#[test]
fn many_streams_share_a_connection() {
    const STREAMS: usize = 80;
    let server = Server::start(&["--shards", "2"]);
    let client = server.http2();
    let mut subscribers: Vec<_> = (0..STREAMS)
        .map(|index| client.subscribe(Transport::ALL[index % 5], &format!("/t{}", index % 5)))
        .collect();
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    server.await_connections(STREAMS);
    for topic in 0..5 {
        // The events are published over the same connection.
        let lines: String = (0..100).map(|number| format!("{number}\n")).collect();
        client.ask("POST", &format!("/v1/topics/t{topic}"), &[NDJSON], lines).published();
    }
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.numbers(100).0, (0..100).collect::<Vec<u64>>());
    }
}

#[test]
fn a_stream_that_is_not_read_holds_up_no_other() {
    const EVENTS: u64 = 40;
    // Longer than the test takes on a busy machine.
    let patient = ["--write-timeout", "10m"];
    let server = Server::start(&[&["--topic", "**,history-bytes=64MiB"], &patient[..]].concat());
    let client = server.http2();
    for transport in Transport::ALL {
        let topic = format!("{transport:?}");
        let mut stopped = client.subscribe(transport, &format!("/{topic}"));
        stopped.confirmed();
        let mut reader = client.subscribe(transport, &format!("/{topic}"));
        reader.confirmed();
        let event = format!("\"{}\"", "x".repeat(200_000));
        for first in 1..=EVENTS {
            server.post(&topic, "application/json", &event).published();
            assert_eq!(reader.envelope().first, first, "over {transport:?}");
        }
        let mut seen = 0;
        while seen < EVENTS {
            let envelope = stopped.envelope();
            assert_eq!(envelope.first, seen + 1, "over {transport:?}");
            seen = offset(&envelope.position);
        }
    }
}

#[test]
fn a_stream_that_falls_off_the_history_is_told_of_its_gap() {
    let server = Server::start(&["--topic", "**,history-bytes=256KiB"]);
    let client = server.http2();
    for transport in Transport::ALL {
        let topic = format!("{transport:?}");
        let mut slow = client.subscribe(transport, &format!("/{topic}"));
        slow.confirmed();
        let line = format!("\"{}\"\n", "x".repeat(1000));
        for _ in 0..40 {
            server.post(&topic, "application/x-ndjson", line.repeat(100)).published();
        }
        let (mut seen, mut missed) = (0, 0);
        while seen < 4_000 {
            match slow.next() {
                Received::Envelope(envelope) => {
                    assert_eq!(envelope.first, seen + 1);
                    seen = offset(&envelope.position);
                }
                Received::Gap(gap) => {
                    assert_eq!(gap.missed, Some(offset(&gap.position) - seen));
                    seen = offset(&gap.position);
                    missed += gap.missed.unwrap_or_default();
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(missed > 2_000, "{missed} over {transport:?}");
    }
}

#[test]
fn a_stream_that_is_cancelled_frees_its_place_and_so_does_a_connection() {
    const PLACES: usize = 60;
    let limit = format!("limits.connections={PLACES}");
    let server = Server::start(&["--shards", "2", "--set", &limit]);
    let client = server.http2();
    let mut subscribers = Vec::new();
    for index in 0..40 {
        let mut subscriber = client.subscribe(Transport::ALL[index % 5], "/t");
        subscriber.confirmed();
        subscribers.push(subscriber);
    }
    server.await_connections(40);
    subscribers.truncate(10);
    server.await_connections(10);
    for subscriber in &mut subscribers {
        server.publish("t", 0..1);
        subscriber.envelope();
    }
    drop((subscribers, client));
    server.await_connections(0);
    // Another connection gets all places, besides its own.
    let client = server.http2();
    let mut streams = Vec::new();
    while streams.len() < PLACES - 1 {
        let stream = wait_for("a place", || {
            let mut stream = client.start("GET", "/v1/topics/t?transport=sse", &[], b"");
            (stream.response_head().status == 200).then_some(stream)
        });
        streams.push(stream);
    }
}

#[test]
fn a_drain_tells_every_stream() {
    for shards in ["1", "2"] {
        let mut server = Server::start(&["--shards", shards]);
        let client = server.http2();
        let mut subscribers: Vec<_> = Transport::ALL
            .iter()
            .cycle()
            .take(20)
            .map(|transport| (*transport, client.subscribe(*transport, "/t")))
            .collect();
        for (_, subscriber) in &mut subscribers {
            subscriber.confirmed();
        }
        server.await_connections(20);
        server.terminate();
        for (transport, subscriber) in &mut subscribers {
            assert_eq!(subscriber.next(), close(*transport, 1001, "draining", true));
            assert_eq!(subscriber.next(), Received::End);
        }
        drop((subscribers, client));
        assert_eq!(server.exit().code(), Some(0));
    }
}

/// Frame types (RFC 9113 §6).
mod frame {
    pub(super) const DATA: u8 = 0;
    pub(super) const HEADERS: u8 = 1;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const GOAWAY: u8 = 7;
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header as a literal that is not indexed (RFC 7541 §6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let (name_bytes, value_bytes) = (name.len() as u8, value.len() as u8);
    [&[0, name_bytes], name.as_bytes(), &[value_bytes], value.as_bytes()].concat()
}

/// Subscribes without the HTTP/2 harness, so that the test can read frames.
fn by_hand(server: &Server) -> Socket {
    let mut socket = server.connect();
    let headers = [
        literal(":method", "GET"),
        literal(":scheme", "http"),
        literal(":authority", "localhost"),
        literal(":path", "/v1/topics/t"),
        literal("accept", "application/x-ndjson"),
    ];
    socket.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    socket.send(frame(frame::SETTINGS, 0, 0, &[]));
    // END_STREAM and END_HEADERS.
    socket.send(frame(frame::HEADERS, 5, 1, &headers.concat()));
    socket
}

/// Returns the next frame of the server: kind, flags, stream, payload.
fn next_frame(socket: &mut Socket) -> Option<(u8, u8, u32, Vec<u8>)> {
    let head = socket.exact(9, "a frame's head")?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let payload = socket.exact(length as usize, "a frame")?;
    Some((head[3], head[4], stream, payload))
}

#[test]
fn a_drain_says_goaway_and_ends_the_connection() {
    let mut server = Server::start(&[]);
    let mut socket = by_hand(&server);
    server.await_connections(1);
    server.terminate();
    let (mut data, mut is_ended, mut codes) = (Vec::new(), false, Vec::new());
    while let Some((kind, flags, stream, payload)) = next_frame(&mut socket) {
        match kind {
            frame::DATA => {
                assert_eq!(stream, 1);
                data.extend(payload);
                is_ended |= flags & 1 == 1;
            }
            frame::GOAWAY => {
                codes.push(u32::from_be_bytes([payload[4], payload[5], payload[6], payload[7]]));
            }
            _ => {}
        }
    }
    let text = String::from_utf8(data).expect("UTF-8");
    let close = r#"{"close":{"code":1001,"reason":"draining","reconnect":true}}"#;
    assert_eq!(text.lines().last(), Some(close), "{text}");
    assert!(is_ended, "the stream is ended, not cut");
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == 0), "NO_ERROR: {codes:?}");
    assert_eq!(server.exit().code(), Some(0));
}
