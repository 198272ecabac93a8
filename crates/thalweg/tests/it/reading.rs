//! Reading history, and the list of topics.

use serde_json::{Value, json};

use crate::harness::{Server, Subscriber, Transport, at, offset};

/// Reads page after page of at most `limit` events, up to the head.
fn pages(server: &Server, topic: &str, limit: usize) -> (Vec<Value>, String) {
    let mut cursor = "earliest".to_owned();
    let mut events = Vec::new();
    loop {
        let page = read(server, &format!("/{topic}?limit={limit}&cursor={cursor}"));
        let new = page["events"].as_array().expect("events").clone();
        assert!(new.len() <= limit, "{} for {limit}", new.len());
        let position = page["position"].as_str().expect("a position").to_owned();
        let first = page["first"].as_u64().expect("first");
        assert_eq!(first + new.len() as u64, offset(&position) + 1, "{page}");
        assert_eq!(page["gap"], Value::Null);
        events.extend(new);
        if page["position"] == page["head"] {
            return (events, position);
        }
        assert_ne!(position, cursor, "it moves on");
        cursor = position;
    }
}

fn read(server: &Server, target: &str) -> Value {
    let answer = server.get(&format!("/v1/topics{target}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("cache-control").is_some_and(|value| value.contains("no-store")));
    answer.json()
}

#[test]
fn pages_have_the_events_of_the_stream() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        for topic in ["a", "b", "c/d"] {
            for start in 0..50 {
                server.publish(topic, start * 7..start * 7 + 7);
            }
            let head = server.publish(topic, 350..351).position;
            let expected: Vec<Value> = (0..351).map(|number| json!(number)).collect();
            for limit in [1, 7, 10, 100, 10_000] {
                assert_eq!(pages(&server, topic, limit), (expected.clone(), head.clone()));
            }
            let mut stream = server.subscribe(Transport::Sse, &format!("/{topic}?cursor=earliest"));
            stream.confirmed();
            assert_eq!(stream.numbers(351).1, head);
        }
    }
}

#[test]
fn an_answered_event_can_be_read_while_its_batch_waits_for_more() {
    for shards in ["1", "2"] {
        let server = Server::start(&[
            "--shards",
            shards,
            "--topic",
            "logs/*,flush=1h",
            "--topic",
            "keys/*,flush=1h,kind=keyed,key=/id",
        ]);
        for topic in ["logs/a", "logs/b", "logs/c", "keys/a", "keys/b", "keys/c"] {
            for number in 0..3 {
                let event = json!({"id": number.to_string()}).to_string();
                let published = server.ask("POST", &format!("/v1/topics/{topic}"), &[], event);
                let position = published.published().position;
                let page = read(&server, &format!("/{topic}?limit=10"));
                assert_eq!(page["head"], json!(position), "{topic} {shards} {page}");
                assert_eq!(page["events"].as_array().map(Vec::len), Some(number + 1), "{page}");
            }
        }
    }
}

#[test]
fn a_page_is_an_envelope_with_a_head_and_a_gap() {
    let server = Server::start(&[]);
    let head = server.publish("cars", 0..3).position;
    let one = at(&head, 1);
    let two = at(&head, 2);
    let text = server.get(&format!("/v1/topics/cars?limit=1&cursor={one}")).text();
    let expected = format!(
        r#"{{"topic":"cars","position":"{two}","first":2,"events":[1],"head":"{head}","gap":null}}"#
    );
    assert_eq!(text.trim_end(), expected);
}

#[test]
fn a_page_at_or_after_the_head_is_empty() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..3).position;
    for cursor in ["latest".to_owned(), head.clone()] {
        let page = read(&server, &format!("/t?limit=5&cursor={cursor}"));
        assert_eq!((&page["events"], &page["first"]), (&json!([]), &json!(4)), "{cursor}");
        assert_eq!((&page["position"], &page["head"]), (&json!(head), &json!(head)), "{cursor}");
    }
    let ahead = at(&head, 9);
    let page = read(&server, &format!("/t?limit=5&cursor={ahead}"));
    assert_eq!((&page["events"], &page["head"]), (&json!([]), &json!(head)));
    // Otherwise a client that reads up to the head would never stop.
    assert_eq!(page["position"], json!(head));
    assert_eq!(page["gap"], Value::Null);
}

#[test]
fn a_page_announces_missing_events() {
    let server = Server::start(&["--topic", "**,history-bytes=64KiB"]);
    let line = format!("\"{}\"\n", "x".repeat(1000));
    for _ in 0..20 {
        server.post("t", "application/x-ndjson", line.repeat(20)).published();
    }
    let head = server.publish("t", 0..0).position;
    let oldest = read(&server, "/t?limit=1")["first"].as_u64().expect("first");
    assert!(oldest > 300, "{oldest}");
    for start in [0, 10, oldest - 2] {
        let page = read(&server, &format!("/t?limit=10&cursor={}", at(&head, start)));
        let first = page["first"].as_u64().expect("first");
        let missed = first - start - 1;
        assert_eq!(page["gap"], json!({"missed": missed, "reason": "trimmed"}), "{start}");
    }
    let page = read(&server, &format!("/t?limit=10&cursor={}", at(&head, oldest - 1)));
    assert_eq!((&page["gap"], &page["first"]), (&Value::Null, &json!(oldest)));
    let page = read(&server, "/t?limit=10&cursor=1.5");
    assert_eq!(page["gap"], json!({"missed": null, "reason": "epoch"}));
    assert_eq!(page["first"], json!(oldest));
}

#[test]
fn a_limit_has_bounds_and_large_events_fewer_to_a_page() {
    let server = Server::start(&[]);
    server.publish("t", 0..12_000);
    for bad in ["0", "10001", "-1", "x", "", "1.5"] {
        server.get(&format!("/v1/topics/t?limit={bad}")).refused(400, "bad_parameter");
        server.get(&format!("/v1/topics?limit={bad}")).refused(400, "bad_parameter");
    }
    let page = read(&server, "/t?limit=10000");
    assert_eq!(page["events"].as_array().map(Vec::len), Some(10_000));
    let event = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    for _ in 0..5 {
        server.post("large", "application/json", &event).published();
    }
    assert_eq!(pages(&server, "large", 10_000).0.len(), 5);
}

#[test]
fn a_topic_exists_after_a_publish_or_a_subscription() {
    let server = Server::start(&["--shards", "2"]);
    for topic in ["a", "b", "c", "d"] {
        let target = format!("/v1/topics/{topic}?limit=1");
        server.get(&target).refused(404, "no_such_topic");
        server.get(&target).refused(404, "no_such_topic");
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}"));
        let position = subscriber.confirmed();
        let page = server.get(&target).json();
        assert_eq!((&page["head"], &page["events"]), (&json!(position), &json!([])));
    }
    server.get("/v1/topics/a//b?limit=1").refused(400, "bad_topic");
    server.get("/v1/topics/a?limit=1&cursor=first").refused(400, "bad_cursor");
    server.get("/v1/topics/a?limit=1&curser=latest").refused(400, "bad_parameter");
}

#[test]
fn reading_does_not_subscribe_and_keeps_the_connection() {
    let server = Server::start(&[]);
    server.publish("t", 0..1);
    let mut socket = server.connect();
    for _ in 0..10 {
        socket.send(crate::harness::request("GET", "/v1/topics/t?limit=5", &[], b""));
        assert_eq!(socket.response().json()["events"], json!([0]));
    }
    assert_eq!(server.metric("thalweg_connections"), 0.0);
}

fn list(server: &Server, query: &str) -> Vec<(String, u64, u64, u64)> {
    let answer = read(server, query);
    let topics = answer["topics"].as_array().expect("topics").clone();
    let row = |row: Value| {
        let number = |name: &str| row[name].as_u64().expect("a number");
        let position = row["position"].as_str().expect("a position");
        let topic = row["topic"].as_str().expect("a topic").to_owned();
        (topic, offset(position), number("events"), number("subscribers"))
    };
    topics.into_iter().map(row).collect()
}

#[test]
fn the_list_counts_events_and_the_subscribers_of_all_shards() {
    for shards in ["1", "2", "4"] {
        let server = Server::start(&["--shards", shards]);
        assert_eq!(list(&server, ""), []);
        let mut subscribers: Vec<Subscriber> = Vec::new();
        for (index, topic) in ["b", "a/x", "c", "a"].iter().enumerate() {
            server.publish(topic, 0..index as u64 + 1);
            for each in 0..index * 3 {
                let transport = Transport::STREAMING[each % 4];
                let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
                subscriber.confirmed();
                subscribers.push(subscriber);
            }
        }
        let row =
            |topic: &str, events, subscribers| (topic.to_owned(), events, events, subscribers);
        let expected = [row("a", 4, 9), row("a/x", 2, 3), row("b", 1, 0), row("c", 3, 6)];
        assert_eq!(list(&server, ""), expected, "{shards} shards");
        assert_eq!(list(&server, "?prefix=a"), expected[..2]);
        assert_eq!(list(&server, "?prefix=a/"), expected[1..2]);
        assert_eq!(list(&server, "?prefix=z"), []);
        assert_eq!(list(&server, "?limit=2"), expected[..2]);
        assert_eq!(list(&server, "?limit=2&after=a/x"), expected[2..]);
        assert_eq!(list(&server, "?after=aa"), expected[2..], "that one need not be there");
        assert_eq!(list(&server, "?limit=1&after=a&prefix=a"), expected[1..2]);
        drop(subscribers);
        server.await_connections(0);
        let counts: u64 = list(&server, "").iter().map(|row| row.3).sum();
        assert_eq!(counts, 0);
    }
}

#[test]
fn a_list_of_many_topics_comes_in_pages() {
    let server = Server::start(&["--shards", "2"]);
    let mut socket = server.connect();
    let mut expected: Vec<String> = (0..1_500).map(|index| format!("t{index}")).collect();
    for topic in &expected {
        socket.send(crate::harness::request("POST", &format!("/v1/topics/{topic}"), &[], b"1"));
        socket.response().published();
    }
    expected.sort();
    let names = |query: &str| -> Vec<String> {
        list(&server, query).into_iter().map(|row| row.0).collect()
    };
    assert_eq!(names(""), expected[..1_000], "1,000 by default");
    assert_eq!(names("?limit=10000"), expected);
    let mut all: Vec<String> = Vec::new();
    loop {
        let after = all.last().map(|last| format!("&after={last}")).unwrap_or_default();
        let page = names(&format!("?limit=400{after}"));
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    assert_eq!(all, expected);
}

#[test]
fn the_trimmed_are_not_counted_as_retained() {
    let server = Server::start(&["--topic", "**,history-events=100"]);
    for start in 0..30 {
        server.publish("t", start * 10..start * 10 + 10);
    }
    let rows = list(&server, "");
    assert_eq!((rows[0].1, rows[0].3), (300, 0));
    assert!((1..=100).contains(&rows[0].2), "{rows:?}");
}

#[test]
fn a_list_that_has_no_room_for_all_topics_says_so() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        for topic in ["a", "b", "c"] {
            server.publish(topic, 0..1);
        }
        let check = |query: &str, expected: &[&str], more: bool| {
            let list = server.get(&format!("/v1/topics?{query}")).json();
            let topics = list["topics"].as_array().expect("topics").iter();
            let names: Vec<&str> = topics.filter_map(|topic| topic["topic"].as_str()).collect();
            assert_eq!(names, expected, "{query}");
            assert_eq!(list["more"].as_bool().unwrap_or(false), more, "{query}: {list}");
        };
        check("limit=2", &["a", "b"], true);
        check("limit=3", &["a", "b", "c"], false);
        check("limit=1&after=a", &["b"], true);
        check("limit=1&after=b", &["c"], false);
        check("prefix=b&limit=1", &["b"], false);
    }
}
