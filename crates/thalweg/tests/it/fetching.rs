//! Topics that the server fetches from an HTTP server while they have subscribers.

mod bounds;
mod gone;
mod misbehaving;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::harness::{Reply, Server, Subscriber, Transport, Upstream, response};

/// Fetches soon again, with short waits.
const SOON: &str = ",min-interval=20ms,max-age=20ms,linger=0,timeout=2s";

fn serve(upstream: &Upstream, settings: &str, flags: &[&str]) -> Server {
    let flag = upstream.flag("f/**", settings);
    Server::start(&[&["--upstream", &flag], flags].concat())
}

/// Returns the next version.
fn next_version(subscriber: &mut Subscriber) -> Value {
    loop {
        let envelope = subscriber.envelope();
        assert!(envelope.previous.is_some(), "no version: {}", envelope.text);
        match &*envelope.events {
            [] => {}
            [event] => return event.clone(),
            _ => panic!("a version is one event: {}", envelope.text),
        }
    }
}

/// Reads the next version, which must be this one.
fn expect_version(subscriber: &mut Subscriber, expected: &Value) {
    assert_eq!(next_version(subscriber), *expected);
}

/// Reads up to version `number` or a later one, of a document that changes with each fetch. A subscriber on a busy
/// machine skips versions, and receives none twice.
fn await_version(subscriber: &mut Subscriber, number: u64) -> u64 {
    let mut last = None;
    loop {
        let next = next_version(subscriber).as_u64();
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
        if next >= Some(number) {
            return next.expect("a number");
        }
    }
}

/// Starts an upstream whose document is a number that the test sets.
fn numbers() -> (Upstream, Arc<AtomicU64>) {
    let number = Arc::new(AtomicU64::new(1));
    let current = Arc::clone(&number);
    let upstream = Upstream::start(move |asked| {
        let tag = format!("\"{}\"", current.load(SeqCst));
        let headers = format!("ETag: {tag}\r\nCache-Control: no-cache\r\n");
        match asked.header("if-none-match") == Some(&tag) {
            true => Reply::Bytes(response(304, &headers, b"")),
            false => Reply::json(&headers, &current.load(SeqCst)),
        }
    });
    (upstream, number)
}

#[test]
fn the_first_subscriber_starts_it_and_the_last_one_ends_it() {
    for shards in ["1", "2"] {
        let (upstream, number) = numbers();
        let server = serve(&upstream, SOON, &["--shards", shards]);
        assert_eq!(upstream.count(), 0, "nobody has subscribed yet");
        for transport in Transport::ALL {
            let topic = format!("f/{transport:?}/x");
            let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
            let begun = number.load(SeqCst);
            expect_version(&mut subscriber, &json!(begun));
            let mut other = server.subscribe(Transport::Sse, &format!("/{topic}"));
            expect_version(&mut other, &json!(begun));
            number.store(begun + 1, SeqCst);
            expect_version(&mut subscriber, &json!(begun + 1));
            expect_version(&mut other, &json!(begun + 1));
            let asked = upstream.asked(&format!("/{topic}"));
            let tag = format!("\"{begun}\"");
            assert_eq!(asked[0].header("if-none-match"), None);
            assert_eq!(asked[1].header("if-none-match"), Some(&*tag));
            drop((subscriber, other));
            server.await_metric("thalweg_upstream_topics", |topics| topics == 0.0);
            server.await_metric("thalweg_upstream_in_flight", |fetches| fetches == 0.0);
        }
        let count = upstream.count();
        // A later subscriber receives the current version, not an older one.
        number.store(100, SeqCst);
        let mut subscriber = server.subscribe(Transport::Sse, "/f/Sse/x");
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events, [json!(100)]);
        assert_eq!(
            upstream
                .asked("/f/Sse/x")
                .iter()
                .filter(|request| request.header("if-none-match").is_none())
                .count(),
            2
        );
        assert!(upstream.count() > count);
    }
}

#[test]
fn however_many_subscribe_each_version_is_fetched_once() {
    // The second document stays fresh for the duration of the test.
    let upstream = Upstream::start(|asked| match asked.before {
        0 => Reply::json("Cache-Control: max-age=1\r\n", &"[0]"),
        version => Reply::json("Cache-Control: max-age=250\r\n", &format!("[{version}]")),
    });
    let server = serve(&upstream, "", &["--shards", "2"]);
    let mut subscribers: Vec<Subscriber> =
        (0..1_000).map(|_| server.subscribe(Transport::HttpStreaming, "/f/one")).collect();
    for subscriber in &mut subscribers {
        // Later subscribers receive the second version only.
        let first = next_version(subscriber);
        let newest = if first == json!([0]) { next_version(subscriber) } else { first };
        assert_eq!(newest, json!([1]));
    }
    assert_eq!(upstream.count(), 2);
    assert_eq!(server.metric("thalweg_upstream_fetches_total"), 2.0);
    assert_eq!(server.metric("thalweg_upstream_topics"), 1.0);
}

#[test]
fn a_body_that_did_not_change_is_no_version() {
    let upstream = Upstream::start(|asked| {
        // The texts are the same document, except for the last one.
        let texts = ["{\"a\": 1}", "{\"a\":1}", " {\"a\":1} ", "{\"a\":2}"];
        Reply::json("", &texts[asked.before.min(3)])
    });
    let server = serve(&upstream, SOON, &[]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/f/same");
    subscriber.confirmed();
    assert_eq!(subscriber.envelope().events, [json!({"a": 1})]);
    let next = subscriber.envelope();
    assert_eq!((&*next.events, next.first), (&[json!({"a": 2})][..], 2));
    assert!(server.metric("thalweg_upstream_unchanged_total") >= 2.0);
}

#[test]
fn a_date_alone_identifies_a_version() {
    let date = "Sun, 22 Nov 2026 12:00:00 GMT";
    let upstream =
        Upstream::start(move |asked| match asked.header("if-modified-since") == Some(date) {
            true if asked.before < 5 => Reply::with(304, "", ""),
            true => Reply::json("Cache-Control: max-age=250\r\n", &asked.before),
            false => Reply::json(&format!("Last-Modified: {date}\r\n"), &asked.before),
        });
    let server = serve(&upstream, SOON, &[]);
    let mut subscriber = server.subscribe(Transport::Sse, "/f/dated");
    expect_version(&mut subscriber, &json!(0));
    expect_version(&mut subscriber, &json!(5));
    assert_eq!(server.metric("thalweg_upstream_not_modified_total"), 4.0);
}

#[test]
fn a_compressed_document_is_read() {
    let gzip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).expect("memory");
        encoder.finish().expect("memory")
    };
    let upstream = Upstream::start(move |asked| {
        assert_eq!(asked.header("accept-encoding"), Some("gzip, br"));
        match &*asked.path {
            "/f/gzip" => Reply::with(200, "Content-Encoding: gzip\r\n", gzip("[1]")),
            "/f/members" => {
                let members = [gzip("\u{feff}["), gzip("1"), gzip("]")].concat();
                Reply::with(200, "Content-Encoding: gzip\r\n", members)
            }
            "/f/marked" => Reply::with(200, "", "\u{feff}[1]"),
            // A stored meta-block (RFC 7932 §9.2).
            _ => Reply::with(200, "Content-Encoding: br\r\n", b"\x0b\x01\x80[1]\x03"),
        }
    });
    let server = serve(&upstream, "", &[]);
    for topic in ["gzip", "br", "members", "marked"] {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/f/{topic}"));
        expect_version(&mut subscriber, &json!([1]));
    }
}

#[test]
fn publishing_to_a_fetched_topic_is_refused() {
    let (upstream, _) = numbers();
    let server = serve(&upstream, "", &["--shards", "2"]);
    for topic in ["f/a", "f/b"] {
        let refused = server.post(topic, "application/json", "1").refused(409, "in_use");
        assert!(refused.contains("upstream"), "{refused}");
        let mut socket = server.subscribe(Transport::WebSocket, "/other");
        socket.confirmed();
        let answer = socket
            .command(&format!(r#"{{"command":"publish","id":1,"topic":"{topic}","event":1}}"#));
        assert_eq!(answer["error"]["code"], "in_use", "{answer}");
    }
    server.publish("other", 0..1);
    assert_eq!(upstream.count(), 0);
    expect_version(&mut server.subscribe(Transport::Sse, "/f/a"), &json!(1));
    server.ask("DELETE", "/v1/topics/f/a", &[], "").refused(409, "in_use");
}

#[test]
fn only_valid_topics_reach_the_upstream() {
    let (upstream, _) = numbers();
    let server = serve(&upstream, SOON, &[]);
    let sse = [("Accept", "text/event-stream")];
    for topic in [
        "f/../admin",
        "f%2Fa",
        "f%2F..%2Fadmin",
        "f/%2e%2e/admin",
        "f/a%2525",
        "f//a",
        "f/a%5Cb",
        "f/a%20b",
        "f/a%3Fb",
        "f/a%23b",
        "f/a%00b",
        "f/%2540",
    ] {
        let answer = server.ask("GET", &format!("/v1/topics/{topic}"), &sse, "");
        answer.refused(400, "bad_topic");
    }
    expect_version(&mut server.subscribe(Transport::Sse, "/f/a"), &json!(1));
    assert_eq!(upstream.asked("/f/a").len(), upstream.count());
}

/// Subjects of identity providers and email addresses are valid segments. Upstreams receive them unchanged.
#[test]
fn a_topic_with_special_characters_reaches_the_upstream_as_it_is_meant() {
    let (upstream, _) = numbers();
    let server = serve(&upstream, "", &[]);
    for (target, asked) in [
        ("/f/auth0%7C5f7c", "/f/auth0%7C5f7c"),
        ("/f/auth1|5f7c", "/f/auth1%7C5f7c"),
        ("/f/ada+news%40example.com", "/f/ada%2Bnews@example.com"),
        ("?topic=f/bob%2Bnews@example.com", "/f/bob%2Bnews@example.com"),
        ("/f/eu-west-1:6f1e=%7E", "/f/eu-west-1:6f1e=~"),
    ] {
        expect_version(&mut server.subscribe(Transport::Sse, target), &json!(1));
        upstream.await_asked(asked, 1);
    }
}

#[test]
fn subscribers_without_the_right_to_create_topics_may_have_fetched_ones() {
    let (upstream, _) = numbers();
    let server = serve(&upstream, "", &["--shards", "2", "--set", "existing-topics-only=true"]);
    for topic in ["f/a", "f/b"] {
        expect_version(&mut server.subscribe(Transport::Sse, &format!("/{topic}")), &json!(1));
    }
    let sse = [("Accept", "text/event-stream")];
    server.ask("GET", "/v1/topics/g", &sse, "").refused(404, "no_such_topic");
}

/// Demand ends and returns while a fetch is running. The owner shard has removed the topic meanwhile, so it
/// must receive the document, not only the result that it has not changed.
#[test]
fn a_client_that_reconnects_during_a_fetch_gets_the_document() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let closed = Arc::clone(&gate);
    let upstream = Upstream::start(move |asked| {
        if asked.before == 0 {
            let (is_open, opened) = &*closed;
            let is_open = is_open.lock().expect("the gate");
            drop(opened.wait_while(is_open, |is_open| !*is_open).expect("the gate"));
        }
        match asked.header("if-none-match") {
            Some(_) => Reply::with(304, "", ""),
            None => Reply::json("ETag: \"x\"\r\n", &1),
        }
    });
    let server = serve(&upstream, ",linger=0,timeout=1m", &[]);
    let mut first = server.subscribe(Transport::Sse, "/f/x");
    first.confirmed();
    upstream.await_asked("/f/x", 1);
    server.await_metric("thalweg_subscribed_topics", |topics| topics == 1.0);
    drop(first);
    server.await_metric("thalweg_subscribed_topics", |topics| topics == 0.0);
    let mut second = server.subscribe(Transport::Sse, "/f/x");
    second.confirmed();
    *gate.0.lock().expect("the gate") = true;
    gate.1.notify_all();
    expect_version(&mut second, &json!(1));
    assert_eq!(upstream.await_asked("/f/x", 2)[1].header("if-none-match"), None);
}
