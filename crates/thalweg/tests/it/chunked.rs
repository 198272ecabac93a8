//! Streams over HTTP/1.1 are chunked (RFC 9112 §7.1): every client receives an event before the next one is
//! published, and can tell an end from a broken connection.
//!
//! - `clients`: clients of other projects

mod clients;

use std::time::{Duration, Instant};

use clients::{Client, Reads};

use crate::harness::{Line, Proxy, Received, Server, Socket, Subscriber, Transport, request};
use crate::proxies::{Behind, ProxyKind};

/// The number of events. Each is published after the previous one has arrived.
const EVENTS: u64 = 30;

const CHUNKED: &str = "transfer-encoding: chunked";

const DRAINING: u16 = 1001;

/// No heartbeat comes during a test. It would push out an event that something holds back.
const NO_HEARTBEAT: [&str; 2] = ["--heartbeat", "1h"];

const STREAMS: [Transport; 3] = [Transport::Sse, Transport::HttpStreaming, Transport::ForeverFrame];

/// Publishes one event after the other, to each topic in turn, and waits for each. Returns the longest latency.
fn exchange(server: &Server, topics: &[&str], client: &mut Client) -> Duration {
    for topic in topics {
        let confirmation = client.message();
        assert!(confirmation.contains(r#""events":[]"#), "{topic}: {confirmation}");
    }
    let mut slowest = Duration::ZERO;
    for number in 0..EVENTS {
        let topic = topics[number as usize % topics.len()];
        let begun = Instant::now();
        server.publish(topic, number..number + 1);
        let event = client.message();
        slowest = slowest.max(begun.elapsed());
        assert!(event.ends_with(&format!(r#""events":[{number}]}}"#)), "{event}");
    }
    slowest
}

/// Each event arrives before the next one is published, for every client and stream, with and without compression.
#[test]
fn an_event_does_not_wait_for_the_next() {
    for flags in [&[][..], &["--compression"]] {
        let server = Server::start(&[&NO_HEARTBEAT, flags].concat());
        for reads in Reads::ALL {
            for topics in [&["a"][..], &["a", "b"]] {
                let mut client = reads.follow(server.address, topics);
                let slowest = exchange(&server, topics, &mut client);
                println!("{reads:?}, {topics:?}, {flags:?}: {slowest:?} at most");
            }
        }
    }
}

/// A frame leaves at once, and so does the confirmation of a subscription without events.
#[test]
fn varnish_holds_nothing_back() {
    let server = Server::start(&NO_HEARTBEAT);
    let Some(behind) = Behind::start(ProxyKind::Varnish, server.address) else { return };
    for reads in Reads::ALL {
        let mut client = reads.follow(behind.address, &["a"]);
        let slowest = exchange(&server, &["a"], &mut client);
        println!("{reads:?} behind Varnish: {slowest:?} at most");
    }
}

#[test]
fn an_end_is_told_from_a_cut() {
    for reads in Reads::ALL {
        for is_cut in [false, true] {
            let server = Server::start(&NO_HEARTBEAT);
            let proxy = Proxy::start(server.address);
            let mut client = reads.follow(proxy.address, &["a"]);
            exchange(&server, &["a"], &mut client);
            if is_cut {
                proxy.cut();
            } else {
                server.terminate();
                assert!(client.message().contains("draining"), "{reads:?}");
            }
            assert_eq!(client.has_ended_well(), !is_cut, "{reads:?}");
        }
    }
}

/// Returns the data of a chunk, `None` for the last one.
fn chunk(socket: &mut Socket) -> Option<String> {
    let size = socket.until(b"\r\n", "the size of a chunk").expect("a size");
    let digits = std::str::from_utf8(&size).expect("text").trim_end();
    let size = usize::from_str_radix(digits, 16).expect("a size");
    assert_eq!(format!("{size:x}"), digits, "the same frame is the same chunk");
    let data = socket.exact(size, "a chunk").expect("a whole chunk");
    assert_eq!(socket.exact(2, "a chunk's end").as_deref(), Some(&b"\r\n"[..]));
    (size > 0).then(|| String::from_utf8(data).expect("text"))
}

fn begin(server: &Server, target: &str, version: &str, headers: &[(&str, &str)]) -> Socket {
    let mut socket = server.connect();
    let request = request("GET", target, headers, b"");
    let request = String::from_utf8(request).expect("text");
    socket.send(request.replacen("HTTP/1.1", version, 1));
    socket
}

fn head(socket: &mut Socket) -> Vec<String> {
    let head = socket.until(b"\r\n\r\n", "a head").expect("a head");
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    head.lines().map(str::to_owned).collect()
}

#[test]
fn a_frame_is_a_chunk_and_the_last_chunk_comes_after_the_close() {
    for (transport, topics, endings) in [
        (Transport::Sse, "/a?", ""),
        (Transport::Sse, "?topic=a&topic=b&", "id"),
        (Transport::HttpStreaming, "?topic=a&topic=b&", ""),
        (Transport::ForeverFrame, "/a?", "<script nonce="),
    ] {
        let mut server = Server::start(&[]);
        let target = format!("/v1/topics{topics}{}", transport.query().unwrap_or("_"));
        let mut socket = begin(&server, &target, "HTTP/1.1", &transport.headers());
        let lines = head(&mut socket);
        assert!(lines.iter().any(|line| line == CHUNKED), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("content-length")), "{lines:?}");
        server.publish("a", 0..1);
        let mut chunks = Vec::new();
        let is_told = |chunk: &String| chunk.contains(r#""events":[0]"#);
        while !chunks.last().is_some_and(is_told) {
            chunks.push(chunk(&mut socket).expect("more"));
        }
        server.terminate();
        while let Some(chunk) = chunk(&mut socket) {
            chunks.push(chunk);
        }
        assert_eq!(socket.rest("the end"), b"", "{chunks:?}");
        assert!(server.exit().success());
        let messages = chunks.iter().filter(|chunk| chunk.contains('{'));
        let of_one = |chunk: &&String| chunk.matches(r#"{"topic""#).count() <= 1;
        assert!(messages.clone().all(|chunk| of_one(&chunk)), "{chunks:?}");
        assert!(chunks.iter().rev().take(2).any(|chunk| chunk.contains("draining")), "{chunks:?}");
        let is_ending = |chunk: &&String| !endings.is_empty() && chunk.starts_with(endings);
        let has_endings = chunks.iter().any(|chunk| is_ending(&chunk));
        assert_eq!(has_endings, !endings.is_empty(), "{chunks:?}");
    }
}

/// Returns a body without its random parts: the nonce of scripts, and how soon to reconnect.
fn without_random(body: &str) -> String {
    let nonce = body.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next());
    let lines = body.split_inclusive('\n').filter(|line| !line.starts_with("retry:"));
    lines.collect::<String>().replace(nonce.unwrap_or_default(), "")
}

/// HTTP/1.0 has no chunks (RFC 9112 §6.1): the end of the connection ends the stream. The bytes are otherwise those of HTTP/1.1.
#[test]
fn over_http_1_0_there_are_no_chunks() {
    for transport in STREAMS {
        let server = Server::start(&NO_HEARTBEAT);
        server.publish("a", 0..1);
        let query = transport.query().unwrap_or("_");
        let target = format!("/v1/topics/a?cursor=earliest&{query}");
        let [mut plain, mut chunked] = ["HTTP/1.0", "HTTP/1.1"].map(|version| {
            let mut socket = begin(&server, &target, version, &transport.headers());
            let is_chunked = head(&mut socket).iter().any(|line| line == CHUNKED);
            assert_eq!(is_chunked, version == "HTTP/1.1", "{transport:?}");
            socket
        });
        let event = r#""events":[0]"#;
        let mut unframed = plain.until(event.as_bytes(), "the event").expect("the event");
        let mut data = String::new();
        while !data.contains(event) {
            data += &chunk(&mut chunked).expect("more");
        }
        assert_eq!(server.ask("DELETE", "/v1/topics/a", &[], "").status, 204);
        unframed.extend(plain.rest("the end of the connection"));
        while let Some(chunk) = chunk(&mut chunked) {
            data += &chunk;
        }
        let unframed = String::from_utf8(unframed).expect("text");
        assert!(unframed.contains(r#"{"close":{"code":4500,"#), "{unframed}");
        assert_eq!(without_random(&unframed), without_random(&data), "{transport:?}");
    }
}

/// The kernel holds less than such an event for a connection that is not read.
#[test]
fn a_partly_sent_frame_continues_in_its_chunk() {
    const EVENTS: u64 = 3;
    let patient = ["--write-timeout", "10m", "--topic", "**,history-bytes=64MiB"];
    let server = Server::start(&[&NO_HEARTBEAT[..], &patient].concat());
    let event = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    for transport in STREAMS {
        let narrow = Socket::connect_narrow(server.address);
        let line = Line::Http1(server.address);
        let query = transport.query().unwrap_or("_");
        let target = format!("/v1/topics/{transport:?}?{query}");
        let mut subscriber = Subscriber::on(narrow, line, transport, &target, &[]);
        assert_eq!(subscriber.head.header("transfer-encoding"), Some("chunked"));
        subscriber.confirmed();
        for _ in 0..EVENTS {
            server.post(&format!("{transport:?}"), "application/json", &event).published();
        }
        server.await_metric("thalweg_blocked_connections", |count| count == 1.0);
        for first in 1..=EVENTS {
            let envelope = subscriber.envelope();
            let text = envelope.events[0].as_str().expect("a text");
            assert_eq!((envelope.first, text.len()), (first, event.len() - 2), "{transport:?}");
        }
        drop(subscriber);
        server.await_connections(0);
    }
}

/// Heartbeats and gaps are chunks as well.
#[test]
fn every_message_is_chunked() {
    let flags = ["--heartbeat", "1s", "--topic", "a,history-events=1"];
    let server = Server::start(&flags);
    let before = server.publish("a", 0..1).position;
    server.publish("a", 1..3);
    for transport in STREAMS {
        let target = format!("/a?cursor={}", crate::harness::at(&before, 0));
        let mut subscriber = server.subscribe(transport, &target);
        let is_chunked = subscriber.head.header("transfer-encoding") == Some("chunked");
        assert!(is_chunked, "{transport:?}: {:?}", subscriber.head);
        assert_eq!(subscriber.gap().missed, Some(1), "{transport:?}");
        let mut said = [false; 2];
        while said != [true; 2] {
            match subscriber.next() {
                Received::Envelope(_) => said[0] = true,
                Received::Heartbeat => said[1] = true,
                other => panic!("{transport:?}: {other:?}"),
            }
        }
    }
    let mut subscriber = server.subscribe(Transport::Sse, "/a");
    subscriber.confirmed();
    server.terminate();
    assert!(matches!(subscriber.next(), Received::Close(code, _, _) if code == DRAINING));
    assert!(matches!(subscriber.next(), Received::End));
    assert!(subscriber.socket.has_ended_well());
}
