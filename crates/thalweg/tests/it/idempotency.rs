//! `Idempotency-Key`: publishing an event so that a repetition is safe.

use serde_json::json;

use crate::harness::{Response, Server, offset};

const JSON: &str = "application/json";

fn post(server: &Server, topic: &str, key: &str, body: &str) -> Response {
    post_with(server, topic, &[("Idempotency-Key", key), ("Content-Type", JSON)], body)
}

fn post_with(server: &Server, topic: &str, headers: &[(&str, &str)], body: &str) -> Response {
    server.ask("POST", &format!("/v1/topics/{topic}"), headers, body)
}

fn head(server: &Server, topic: &str) -> u64 {
    let answer = server.get(&format!("/v1/topics/{topic}?limit=1")).json();
    offset(answer["head"].as_str().expect("a position"))
}

/// Topics of the shard that receives the request, and of others.
const TOPICS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn a_repetition_is_appended_once_and_answered_alike() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        for topic in TOPICS {
            let first = post(&server, topic, "key-1", r#"{"id":7}"#);
            assert_eq!(first.header("idempotency-replayed"), None);
            let published = first.published();
            for other in 0..3 {
                // Other clients publish meanwhile.
                server.publish(topic, 0..1);
                let again = post(&server, topic, "key-1", r#"{"id":7}"#);
                assert_eq!(again.header("idempotency-replayed"), Some("true"));
                assert_eq!(again.text(), first.text());
                assert_eq!(again.published(), published);
                assert_eq!(head(&server, topic), 2 + other);
            }
        }
    }
}

#[test]
fn another_key_is_another_event() {
    let server = Server::start(&[]);
    let longest = "k".repeat(128);
    for (first, key) in (1..).zip(["1", "2", "!", "~\"\\", "a:b,c;d=e", &longest]) {
        let answer = post(&server, "t", key, "1");
        assert_eq!(answer.header("idempotency-replayed"), None, "{key}");
        assert_eq!(answer.published().first, first, "{key}");
    }
    assert_eq!(post(&server, "t", "a", "1").published().first, 7);
    assert_eq!(post(&server, "t", "A", "1").published().first, 8);
}

#[test]
fn the_same_key_with_another_body_is_refused() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        for topic in TOPICS {
            post(&server, topic, "key", "1").published();
            post(&server, topic, "key", "2").refused(422, "key_reused");
            assert_eq!(head(&server, topic), 1);
            assert_eq!(post(&server, topic, "key", "1").published().first, 1);
        }
    }
}

#[test]
fn the_same_key_on_another_topic_is_another() {
    let server = Server::start(&["--shards", "2"]);
    for topic in TOPICS {
        let answer = post(&server, topic, "key", "1");
        assert_eq!(answer.header("idempotency-replayed"), None);
        assert_eq!(answer.published().topic, topic);
    }
}

#[test]
fn text_may_have_a_key_too() {
    let server = Server::start(&[]);
    let headers = [("Idempotency-Key", "k"), ("Content-Type", "text/plain")];
    let first = post_with(&server, "t", &headers, "hello");
    let again = post_with(&server, "t", &headers, "hello");
    assert_eq!(first.published(), again.published());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    post_with(&server, "t", &headers, "world").refused(422, "key_reused");
    assert_eq!(head(&server, "t"), 1);
}

#[test]
fn concurrent_repetitions_append_once() {
    const AT_ONCE: usize = 8;
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        for round in 0..30_u64 {
            let (topic, key) = (TOPICS[round as usize % 6], format!("round-{round}"));
            let before = if round < 6 { 0 } else { head(&server, topic) };
            let barrier = std::sync::Barrier::new(AT_ONCE);
            let answers: Vec<Response> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..AT_ONCE)
                    .map(|_| {
                        scope.spawn(|| {
                            let mut socket = server.connect();
                            let headers = [("Idempotency-Key", key.as_str())];
                            let target = format!("/v1/topics/{topic}");
                            let body = format!("{round}");
                            barrier.wait();
                            socket.send(crate::harness::request(
                                "POST",
                                &target,
                                &headers,
                                body.as_bytes(),
                            ));
                            socket.response()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
            });
            let replayed = answers
                .iter()
                .filter(|answer| answer.header("idempotency-replayed") == Some("true"))
                .count();
            assert_eq!(replayed, AT_ONCE - 1);
            for answer in &answers {
                assert_eq!(answer.published().first, before + 1, "{}", answer.text());
            }
            assert_eq!(head(&server, topic), before + 1);
        }
    }
}

#[test]
fn a_streaming_body_with_a_key_is_refused() {
    let server = Server::start(&[]);
    let headers = [("Idempotency-Key", "k"), ("Content-Type", "application/x-ndjson")];
    let sentence = post_with(&server, "t", &headers, "1\n").refused(400, "bad_parameter");
    assert!(sentence.contains("Idempotency-Key"), "{sentence}");
    server.get("/v1/topics/t?limit=1").refused(404, "no_such_topic");
}

#[test]
fn a_key_has_1_to_128_visible_characters() {
    let server = Server::start(&[]);
    let too_long = "k".repeat(129);
    for bad in ["", " ", "a b", "a\tb", "schlüssel", &too_long] {
        post(&server, "t", bad, "1").refused(400, "bad_parameter");
    }
    let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    post_with(&server, "t", &twice, "1").refused(400, "bad_parameter");
    server.get("/v1/topics/t?limit=1").refused(404, "no_such_topic");
}

#[test]
fn a_refused_event_does_not_use_up_its_key() {
    let server = Server::start(&[]);
    post(&server, "t", "key", "{").refused(400, "bad_event");
    let answer = post(&server, "t", "key", "1");
    assert_eq!(answer.header("idempotency-replayed"), None);
    assert_eq!(answer.published().first, 1);
}

#[test]
fn an_event_does_not_depend_on_head_or_connection() {
    let server = Server::start(&["--shards", "2"]);
    let first = post(&server, "t", "key", "[1]").published();
    let mut socket = server.connect();
    for _ in 0..5 {
        let headers = [("Idempotency-Key", "key"), ("X-Other", "1")];
        socket.send(crate::harness::request("POST", "/v1/topics/t", &headers, b"[1]"));
        assert_eq!(socket.response().published(), first);
    }
    let headers = [("idempotency-key", "key")];
    let over_http2 = server.http2().ask("POST", "/v1/topics/t", &headers, "[1]");
    assert_eq!(over_http2.published(), first);
    assert_eq!(over_http2.header("idempotency-replayed"), Some("true"));
    let events = server.get("/v1/topics/t?limit=10").json();
    assert_eq!(events["events"], json!([[1]]));
}
