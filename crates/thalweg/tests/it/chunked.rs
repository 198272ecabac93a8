//! Streams over HTTP/1.1 are chunked (RFC 9112 §7.1): every client receives an event before the next one is
//! published, and can tell an end from a broken connection.
//!
//! - `clients`: clients of other projects

mod clients;

use std::time::{Duration, Instant};

use clients::{Client, Reads};

use crate::harness::{Proxy, Received, Server, Socket, Transport, request};
use crate::proxies::{Behind, ProxyKind};

/// The number of events. Each is published after the previous one has arrived.
const EVENTS: u64 = 30;

const DRAINING: u16 = 1001;

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
        // On a busy machine a heartbeat may come first.
        let mut messages = std::iter::from_fn(|| Some(client.message()));
        let event =
            messages.find(|message| !message.contains(r#"{"heartbeat":{}}"#)).expect("messages");
        slowest = slowest.max(begun.elapsed());
        assert!(event.ends_with(&format!(r#""events":[{number}]}}"#)), "{event}");
    }
    slowest
}

/// Each event arrives before the next one is published, for every client and stream, with and without compression.
#[test]
fn an_event_does_not_wait_for_the_next() {
    for flags in [&[][..], &["--compression"]] {
        let server = Server::start(flags);
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
    let server = Server::start(&[]);
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
            let server = Server::start(&[]);
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
        assert!(lines.contains(&"transfer-encoding: chunked".to_owned()), "{lines:?}");
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

/// HTTP/1.0 has no chunks (RFC 9112 §6.1): the end of the connection ends the stream.
#[test]
fn over_http_1_0_there_are_no_chunks() {
    let server = Server::start(&[]);
    server.publish("a", 0..1);
    for transport in STREAMS {
        let query = transport.query().unwrap_or("_");
        let target = format!("/v1/topics/a?cursor=earliest&{query}");
        let mut socket = begin(&server, &target, "HTTP/1.0", &transport.headers());
        let lines = head(&mut socket);
        assert!(!lines.iter().any(|line| line.starts_with("transfer-encoding")), "{lines:?}");
        let first = socket.until(b"\n", "the first line").expect("a line");
        assert!(first[0].is_ascii_punctuation() || first.starts_with(b"retry"), "{first:?}");
    }
}

/// Heartbeats and gaps are chunks as well, and a partly sent frame continues.
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
