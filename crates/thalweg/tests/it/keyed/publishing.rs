//! Keys of published events, conditions, and refusals.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use super::mirror::Mirror;
use super::start;
use crate::harness::{Response, Server, Transport, at, offset, request};

const JSON: &str = "application/json";

fn post(server: &Server, target: &str, body: &str) -> Response {
    server.post(target, JSON, body)
}

fn delete(server: &Server, target: &str) -> Response {
    server.ask("DELETE", &format!("/v1/topics/{target}"), &[], "")
}

fn state(server: &Server, topic: &str) -> Value {
    json!(Mirror::read(server, topic, 100).map)
}

#[test]
fn keys_come_from_the_event_or_from_the_publisher() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let longest = "k".repeat(256);
        for (target, event) in [
            ("users/a", r#"{"id":"u1"}"#),
            ("users/a", r#"{"id":-17}"#),
            ("users/a", r#"{"id":18446744073709551615}"#),
            ("users/a", r#"{"id":"\u00fc\"\\/ </script>"}"#),
            // An integer is its digits, however large it is.
            ("users/b", r#"{"id":123456789012345678901234567890}"#),
            // The publisher may name the key, too.
            ("users/a?key=u2", r#"{"id":"u2"}"#),
            ("users/a?key=other", r#"{"name":"no id"}"#),
            ("users/a?key=whole", "7"),
            ("rooms/a?key=a%20b+c%2Bd", "1"),
            ("rooms/a?key=null", "false"),
            (&format!("rooms/a?key={longest}"), "[null]"),
        ] {
            let answer = post(&server, target, event);
            assert_eq!(answer.status, 200, "{target} {event}: {}", answer.text());
        }
        let text = server.post("rooms/a?key=text", "text/plain", "null");
        assert_eq!(text.status, 200, "a text is no removal: {}", text.text());
        let expected = json!({
            "u1": {"id": "u1"}, "-17": {"id": -17}, "ü\"\\/ </script>": {"id": "ü\"\\/ </script>"},
            "u2": {"id": "u2"}, "other": {"name": "no id"}, "whole": 7, "18446744073709551615": {"id": u64::MAX},
        });
        assert_eq!(state(&server, "users/a"), expected);
        let large: Vec<String> = Mirror::read(&server, "users/b", 9).map.into_keys().collect();
        assert_eq!(large, ["123456789012345678901234567890"]);
        let rooms = json!({"a b c+d": 1, "null": false, longest: [null], "text": "null"});
        assert_eq!(state(&server, "rooms/a"), rooms);
    }
}

#[test]
fn an_event_with_another_key_than_the_publisher_names_is_refused() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let differs =
            r#"key= is "u1", but the event has "u2" at /id: send equal keys, or only one"#;
        let refused = post(&server, "users/a?key=u1", r#"{"id":"u2"}"#);
        assert_eq!(refused.refused(400, "bad_key"), differs);
        // The lines before stay.
        let lines = "{\"id\":\"u1\",\"n\":1}\n{\"n\":2}\n{\"id\":\"u2\"}\n";
        let refused = server.post("users/a?key=u1", "application/x-ndjson", lines);
        assert_eq!(refused.refused(400, "bad_key"), format!("line 3: {differs}"));
        assert_eq!(refused.json()["published"]["count"], json!(2));
        let mut socket = server.subscribe(Transport::WebSocket, "");
        let answer = socket.command(
            r#"{"command":"publish","topic":"users/a","key":"u1","events":[{"id":"u1"},{"id":"u2"}]}"#,
        );
        assert_eq!(answer["error"]["code"], "bad_key");
        assert_eq!(answer["error"]["message"], differs);
        assert_eq!(state(&server, "users/a"), json!({"u1": {"n": 2}}));
        // A removal has no key of its own.
        post(&server, "users/a?key=u1", "null").published();
        assert_eq!(state(&server, "users/a"), json!({}));
    }
}

#[test]
fn lines_before_a_bad_one_stay() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let lines = "{\"id\":1}\n\n{\"id\":2}\n{\"name\":\"x\"}\n{\"id\":3}\n";
        let answer = server.post("users/a", "application/x-ndjson", lines);
        let message = answer.refused(400, "bad_event");
        assert!(message.contains("line 4") && message.contains("/id"), "{message}");
        assert_eq!(answer.json()["published"]["count"], json!(2));
        assert_eq!(state(&server, "users/a"), json!({"1": {"id": 1}, "2": {"id": 2}}));
        // All lines of a request with key= have the same key.
        let answer = server.post("rooms/a?key=k", "application/x-ndjson", "1\n2\n3\n").published();
        assert_eq!((answer.first, answer.count), (1, 3));
        assert_eq!(state(&server, "rooms/a"), json!({"k": 3}));
    }
}

#[test]
fn a_key_is_removed_by_null_and_by_delete() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let mut watching = server.subscribe(Transport::WebSocket, "/rooms/a");
        let mut mirror = Mirror::confirmed(&mut watching);
        for key in ["a", "b", "c"] {
            post(&server, &format!("rooms/a?key={key}"), "1").published();
        }
        let removed = post(&server, "rooms/a?key=a", " null ").published();
        assert_eq!(removed.first, 4);
        assert_eq!(delete(&server, "rooms/a?key=b").status, 204);
        mirror.follow(&mut watching, &at(&removed.position, 5));
        assert_eq!(json!(mirror.map), json!({"c": 1}));
        for key in ["a", "b", "d"] {
            let message =
                delete(&server, &format!("rooms/a?key={key}")).refused(404, "no_such_key");
            assert!(message.contains(&format!("{key:?}")), "{message}");
        }
        // A removed key is new again.
        let again = post(&server, "rooms/a?key=a&if=new", "2").published();
        let stale = at(&again.position, 1);
        let refused = delete(&server, &format!("rooms/a?key=a&if={stale}"));
        refused.refused(412, "condition_failed");
        assert_eq!(refused.json()["newest"], json!({"position": again.position, "event": 2}));
        assert_eq!(delete(&server, &format!("rooms/a?key=a&if={}", again.position)).status, 204);
        assert_eq!(state(&server, "rooms/a"), json!({"c": 1}));
        // The topic itself, with all keys.
        assert_eq!(delete(&server, "rooms/a").status, 204);
        server.get("/v1/topics/rooms/a?limit=1").refused(404, "no_such_topic");
    }
}

#[test]
fn a_condition_that_fails_shows_an_event_only_to_those_who_may_read_it() {
    let blind = ["--token", "blind=secret-of-blind-1234567890,publish=**"];
    let seeing = ["--token", "seeing=secret-of-seeing-1234567890,publish=**,subscribe=**"];
    for shards in ["1", "2"] {
        let server = start(shards, &[blind, seeing].concat());
        let ask = |name: &str, method: &str, target: &str, body: &str| {
            let authorization = format!("Bearer secret-of-{name}-1234567890");
            let headers = [("Authorization", authorization.as_str()), ("Content-Type", JSON)];
            server.ask(method, target, &headers, body)
        };
        let new = "/v1/topics/rooms/a?key=k&if=new";
        let position = ask("seeing", "POST", new, "1").published().position;
        let newest = json!({"position": position, "event": 1});
        let other = format!("/v1/topics/rooms/a?key=k&if={}", at(&position, 9));
        let command = r#"{"command":"publish","topic":"rooms/a","key":"k","if":"new","event":2}"#;
        for (method, target, body) in
            [("POST", new, "2"), ("DELETE", other.as_str(), ""), ("POST", "/v1/commands", command)]
        {
            let refused = ask("seeing", method, target, body);
            refused.refused(412, "condition_failed");
            assert_eq!(refused.json()["newest"], newest, "{method} {target}");
            let refused = ask("blind", method, target, body);
            refused.refused(412, "condition_failed");
            assert_eq!(refused.json()["newest"], Value::Null, "{method} {target}");
        }
    }
}

#[test]
fn a_condition_is_checked_against_the_newest_event_of_the_key() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let message =
            post(&server, "rooms/a?key=k&if=exists", "1").refused(412, "condition_failed");
        assert_eq!(message, r#"the key "k" does not exist: publish it with if=new"#);
        let first = post(&server, "rooms/a?key=k&if=new", "1").published().position;
        assert_eq!(offset(&first), 1, "a refused publish takes no offset");
        let refused = post(&server, "rooms/a?key=k&if=new", "2");
        let message = refused.refused(412, "condition_failed");
        assert!(message.contains(&first), "{message}");
        assert_eq!(refused.json()["newest"], json!({"position": first, "event": 1}));
        post(&server, "rooms/a?key=other", "1").published();
        let second = post(&server, &format!("rooms/a?key=k&if={first}"), "2").published().position;
        let refused = post(&server, &format!("rooms/a?key=k&if={first}"), "3");
        refused.refused(412, "condition_failed");
        assert_eq!(refused.json()["newest"], json!({"position": second, "event": 2}));
        post(&server, "rooms/a?key=k&if=exists", "3").published();
        // The key may be in the event.
        post(&server, "users/a?if=new", r#"{"id":"u"}"#).published();
        post(&server, "users/a?if=new", r#"{"id":"u"}"#).refused(412, "condition_failed");
    }
}

#[test]
fn commands_have_keys_and_conditions() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let mut socket = server.subscribe(Transport::WebSocket, "");
        for topic in ["rooms/a", "rooms/b", "rooms/c", "rooms/d"] {
            let mut publish = |rest: &str| {
                let command = format!(r#"{{"id":1,"command":"publish","topic":"{topic}",{rest}}}"#);
                socket.command(&command)
            };
            let answer = publish(r#""key":"k","if":"new","event":1"#);
            let position = answer["answer"]["position"].as_str().expect("a position").to_owned();
            let refused = publish(r#""key":"k","if":"new","event":2"#);
            assert_eq!(
                (&refused["error"]["id"], &refused["error"]["code"]),
                (&json!(1), &json!("condition_failed"))
            );
            assert_eq!(refused["newest"], json!({"position": position, "event": 1}));
            let answer = publish(&format!(r#""key":"k","if":"{position}","event":2"#));
            assert_eq!(answer["answer"]["first"], json!(2), "{answer}");
            for (rest, code) in [
                (r#""event":1"#, "bad_key"),
                (r#""key":"","event":1"#, "bad_key"),
                (r#""key":"k","if":"maybe","event":1"#, "bad_parameter"),
            ] {
                assert_eq!(publish(rest)["error"]["code"], code, "{rest}");
            }
            let command = json!({"command": "publish", "topic": topic, "key": "k", "event": null});
            let posted =
                server.ask("POST", "/v1/commands", &[("Content-Type", JSON)], command.to_string());
            assert_eq!(posted.json()["answer"]["first"], json!(3));
            assert_eq!(state(&server, topic), json!({}));
        }
        let answer =
            socket.command(r#"{"command":"publish","topic":"users/a","event":{"id":"u"}}"#);
        assert_eq!(answer["answer"]["first"], json!(1));
        let answer = socket.command(r#"{"command":"publish","topic":"users/a","event":{}}"#);
        assert_eq!(answer["error"]["code"], "bad_event");
        let answer = socket.command(r#"{"command":"publish","topic":"log","key":"k","event":1}"#);
        assert_eq!(answer["error"]["code"], "bad_parameter");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let server = start("1", &[]);
    let event = r#"{"id":"u"}"#;
    let long = format!("rooms/a?key={}", "k".repeat(257));
    let no_key = "a key has 1 to 256 bytes and no control characters: use another key";
    let no_id =
        "the event has no string or integer at /id: add its key there, or publish with key=";
    let no_condition = r#"if="soon" is not a condition: write new, exists, or the position of the key's newest event"#;
    let not_keyed = "log is not a keyed topic: publish without key, if and ttl, or declare it with --topic 'log,kind=keyed'";
    for (target, body, status, code, message) in [
        (
            "rooms/a",
            "1",
            400,
            "bad_key",
            "rooms/a is a keyed topic: name the key of the event with key=",
        ),
        ("rooms/a?key=", "1", 400, "bad_key", no_key),
        ("rooms/a?key=a%0Ab", "1", 400, "bad_key", no_key),
        (&*long, "1", 400, "bad_key", no_key),
        ("users/a", r#"{"id":""}"#, 400, "bad_key", no_key),
        ("users/a", r#"{"id":1.5}"#, 400, "bad_event", no_id),
        ("users/a", r#"{"id":null}"#, 400, "bad_event", no_id),
        ("users/a", "null", 400, "bad_event", no_id),
        ("users/a", "[]", 400, "bad_event", no_id),
        ("rooms/a?key=k&if=soon", event, 400, "bad_parameter", no_condition),
        ("log?key=k", event, 400, "bad_parameter", not_keyed),
        ("log?if=new", event, 400, "bad_parameter", not_keyed),
        ("log?ttl=1s", event, 400, "bad_parameter", not_keyed),
    ] {
        assert_eq!(post(&server, target, body).refused(status, code), message, "{target} {body}");
    }
    let answer = server.post("users/a?if=new", "application/x-ndjson", format!("{event}\n"));
    let message = answer.refused(400, "bad_parameter");
    assert_eq!(message, "if cannot be used with several lines: send one event in each request");
    for (target, message) in [
        ("rooms/a?if=exists", "if needs a key: name it with key="),
        (
            "rooms/a?key=k&if=new",
            "a key that is new cannot be removed: use if=exists or a position",
        ),
        ("log?key=k", not_keyed),
    ] {
        assert_eq!(delete(&server, target).refused(400, "bad_parameter"), message, "{target}");
    }
    let misspelled = post(&server, "rooms/a?kez=k", "1").refused(400, "bad_parameter");
    assert!(misspelled.contains("\"key\""), "{misspelled}");
    // Neither of them made an event.
    assert_eq!(server.get("/v1/topics").json()["topics"], json!([]));
}

fn post_with_idempotency(server: &Server, target: &str, body: &str) -> Response {
    let headers = [("Idempotency-Key", "once"), ("Content-Type", JSON)];
    server.ask("POST", &format!("/v1/topics/{target}"), &headers, body)
}

#[test]
fn a_retry_is_answered_alike_although_its_condition_is_no_longer_met() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        for topic in ["rooms/a", "rooms/b", "rooms/c", "rooms/d"] {
            let target = format!("{topic}?key=k&if=new");
            let first = post_with_idempotency(&server, &target, "1");
            post(&server, &format!("{topic}?key=k"), "2").published();
            let again = post_with_idempotency(&server, &target, "1");
            assert_eq!(again.header("idempotency-replayed"), Some("true"));
            assert_eq!(again.text(), first.text());
            assert_eq!(state(&server, topic), json!({"k": 2}));
            for other in ["?key=other&if=new", "?key=k", "?key=k&if=exists"] {
                let target = format!("{topic}{other}");
                post_with_idempotency(&server, &target, "1").refused(422, "key_reused");
            }
        }
    }
}

#[test]
fn a_refused_publish_may_be_tried_again_with_its_idempotency_key() {
    let server = start("1", &[]);
    let first = post(&server, "rooms/a?key=k", "1").published();
    post_with_idempotency(&server, "rooms/a?key=k&if=new", "2").refused(412, "condition_failed");
    delete(&server, "rooms/a?key=k");
    let published = post_with_idempotency(&server, "rooms/a?key=k&if=new", "2").published();
    assert_eq!(published.position, at(&first.position, 3));
}

#[test]
fn one_of_many_at_once_makes_a_new_key() {
    const AT_ONCE: usize = 50;
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        for round in 0..4 {
            let target = format!("/v1/topics/rooms/{round}?key=k&if=new");
            let barrier = Barrier::new(AT_ONCE);
            let ask = |index: usize| {
                let mut socket = server.connect();
                barrier.wait();
                socket.send(request("POST", &target, &[], index.to_string().as_bytes()));
                (index, socket.response())
            };
            let answers: Vec<(usize, Response)> = thread::scope(|scope| {
                let ask = &ask;
                let threads: Vec<_> =
                    (0..AT_ONCE).map(|index| scope.spawn(move || ask(index))).collect();
                threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) =
                answers.into_iter().partition(|(_, answer)| answer.status == 200);
            let [(winner, answer)] = &*won else { panic!("{} have won", won.len()) };
            let newest = json!({"position": answer.published().position, "event": winner});
            for (_, answer) in lost {
                answer.refused(412, "condition_failed");
                assert_eq!(answer.json()["newest"], newest);
            }
        }
    }
}

#[test]
fn a_key_expires_unless_a_newer_event_comes() {
    for shards in ["1", "2"] {
        let server = start(shards, &["--topic", "short/**,kind=keyed,ttl=200ms"]);
        for topic in ["rooms/a", "rooms/b", "short/a", "short/b"] {
            let ttl = if topic.starts_with("short") { "" } else { "&ttl=200ms" };
            let mut watching = server.subscribe(Transport::Sse, &format!("/{topic}"));
            let mut mirror = Mirror::confirmed(&mut watching);
            post(&server, &format!("{topic}?key=kept{ttl}"), "1").published();
            post(&server, &format!("{topic}?key=kept&ttl=1h"), "2").published();
            let gone = post(&server, &format!("{topic}?key=gone{ttl}"), "3").published();
            mirror.follow(&mut watching, &gone.position);
            while mirror.map.contains_key("gone") {
                mirror.next(&mut watching);
            }
            assert_eq!(json!(mirror.map), json!({"kept": 2}), "{topic}");
            assert_eq!(state(&server, topic), json!({"kept": 2}));
            post(&server, &format!("{topic}?key=gone&if=new{ttl}"), "4").published();
        }
        assert!(server.metric("thalweg_keys_expired_total") >= 4.0);
    }
}

/// Adds to a counter until no other client was in between.
pub(crate) fn increment(server: &Server, topic: &str, counter: &str) {
    let (mut condition, mut value) = ("new".to_owned(), 0);
    loop {
        let target = format!("{topic}?key={counter}&if={condition}");
        let answer = post(server, &target, &(value + 1).to_string());
        if answer.status == 200 {
            return;
        }
        answer.refused(412, "condition_failed");
        let newest = answer.json()["newest"].take();
        value = newest["event"].as_u64().expect("a number");
        condition = newest["position"].as_str().expect("a position").to_owned();
    }
}

#[test]
fn clients_that_compare_and_swap_count_exactly() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let mut watching = server.subscribe(Transport::Sse, "/rooms/counters");
        let mut mirror = Mirror::confirmed(&mut watching);
        thread::scope(|scope| {
            for client in 0..6 {
                let server = &server;
                scope.spawn(move || {
                    for round in 0..40 {
                        increment(server, "rooms/counters", ["a", "b"][(client + round) % 2]);
                    }
                });
            }
        });
        assert_eq!(state(&server, "rooms/counters"), json!({"a": 120, "b": 120}));
        // Each position is that of one increment.
        let head = server.get("/v1/topics/rooms/counters?limit=1").json();
        let head = head["head"].as_str().expect("a position").to_owned();
        assert_eq!(offset(&head), 240);
        mirror.follow(&mut watching, &head);
        assert_eq!(json!(mirror.map), json!({"a": 120, "b": 120}));
    }
}
