//! `POST /v1/topics/{topic}`.

use serde_json::json;

use crate::harness::{Raw, Server, Transport, chunk, offset};

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

fn events_of(content_type: &str, body: &str) -> String {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::HttpStreaming, "/t");
    subscriber.confirmed();
    let count = server.post("t", content_type, body).published().count;
    let mut texts = Vec::new();
    let mut seen = 0;
    while seen < count {
        let envelope = subscriber.envelope();
        seen += envelope.events.len() as u64;
        let (_, events) = envelope.text.split_once(r#""events":["#).expect("events");
        texts.push(events.strip_suffix("]}\n").expect("the envelope's end").to_owned());
    }
    texts.join(",")
}

#[test]
fn a_json_value_is_one_event_as_it_was_published() {
    let body = " { \"speed\" : 1.50e+3,\r\n\t\"note\": \"a  b\\u00e4 \\\" \" } ";
    assert_eq!(events_of(JSON, body), r#"{"speed":1.50e+3,"note":"a  b\u00e4 \" "}"#);
}

#[test]
fn curls_default_content_type_is_json() {
    assert_eq!(events_of("application/x-www-form-urlencoded", r#"{"id":7}"#), r#"{"id":7}"#);
}

#[test]
fn text_is_one_event_a_json_string() {
    assert_eq!(events_of("text/plain", "say \"hi\"\nä"), r#""say \"hi\"\nä""#);
    assert_eq!(events_of("text/plain; charset=utf-8", "1"), r#""1""#);
}

#[test]
fn ndjson_is_one_event_a_line() {
    let lines = "{\"id\": 1}\n\n[2, 3]\r\n  \n\"4\"";
    assert_eq!(events_of(NDJSON, lines), r#"{"id":1},[2,3],"4""#);
}

#[test]
fn an_answer_names_the_positions() {
    let server = Server::start(&[]);
    let one = server.post("a/b", JSON, "1").published();
    assert_eq!((one.topic.as_str(), one.first, one.count), ("a/b", 1, 1));
    let three = server.publish("a/b", 2..5);
    assert_eq!((three.first, offset(&three.position), three.count), (2, 4, 3));
    let none = server.publish("a/b", 0..0);
    assert_eq!((none.first, offset(&none.position), none.count), (5, 4, 0));
    assert_eq!(one.position.split('.').next(), none.position.split('.').next());
    assert_eq!(server.publish("other", 0..1).first, 1);
}

#[test]
fn a_publish_connection_delivers_each_line_as_it_comes() {
    let server = Server::start(&[]);
    let mut subscribers = Transport::ALL.map(|transport| server.subscribe(transport, "/live"));
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    let mut publisher = server.connect();
    publisher.send(
        "POST /v1/topics/live HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for number in 0..20 {
        let line = format!("{number}\n");
        if number % 2 == 0 {
            publisher.send(chunk(&line));
        } else {
            // A line may arrive in any two parts.
            let (start, end) = line.split_at(1);
            publisher.send(chunk(start));
            publisher.send(chunk(end));
        }
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.numbers(1).0, [number]);
        }
    }
    publisher.send(chunk("20\n21"));
    publisher.send(chunk(""));
    let published = publisher.response().published();
    assert_eq!((published.first, published.count), (1, 22));
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.numbers(2).0, [20, 21]);
    }
}

#[test]
fn two_publish_connections_share_a_topic() {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::Sse, "/shared");
    subscriber.confirmed();
    let mut publishers = [server.connect(), server.connect()];
    for publisher in &mut publishers {
        publisher.send(
            "POST /v1/topics/shared HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
    }
    for number in 0..10 {
        publishers[number % 2].send(chunk(&format!("{number}\n")));
        assert_eq!(subscriber.numbers(1).0, [number as u64]);
    }
    for (publisher, first) in publishers.iter_mut().zip([1, 2]) {
        publisher.send(chunk(""));
        let published = publisher.response().published();
        assert_eq!((published.first, published.count), (first, 5));
        assert_eq!(offset(&published.position), first + 8);
    }
}

#[test]
fn a_bad_line_ends_the_request_and_what_came_before_it_stays() {
    let server = Server::start(&[]);
    let refused = server.post("t", NDJSON, "1\n2\nthree\n4\n");
    let sentence = refused.refused(400, "bad_event");
    assert!(sentence.contains("line 3"), "{sentence}");
    let published = &refused.json()["published"];
    assert_eq!((&published["first"], &published["count"]), (&json!(1), &json!(2)));
    assert_eq!(published["topic"], json!("t"));
    let mut subscriber = server.subscribe(Transport::Sse, "/t?cursor=earliest");
    subscriber.confirmed();
    assert_eq!(subscriber.numbers(2).0, [1, 2]);
    assert_eq!(server.publish("t", 5..6).first, 3);
    assert_eq!(subscriber.numbers(1).0, [5]);
}

#[test]
fn a_bad_line_ends_a_publish_connection_at_once() {
    let server = Server::start(&[]);
    let mut publisher = server.connect();
    publisher.send(
        "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    publisher.send(chunk("1\n{\n"));
    let refused = publisher.response();
    assert!(refused.refused(400, "bad_event").contains("line 2"));
    assert_eq!(refused.json()["published"]["count"], json!(1));
}

#[test]
fn invalid_json_is_refused() {
    let server = Server::start(&[]);
    for bad in ["", "  ", "{", "nul", "1 2", "{'a':1}", "[1,]", "\"\u{1}\""] {
        server.post("t", JSON, bad).refused(400, "bad_event");
    }
    server.post("t", JSON, b"\"\xff\"").refused(400, "bad_event");
    server.post("t", "text/plain", b"\xff").refused(400, "bad_event");
    assert_eq!(server.publish("t", 0..1).first, 1);
}

#[test]
fn an_event_may_have_a_mebibyte_and_no_more() {
    let server = Server::start(&[]);
    let largest = "7".repeat(1 << 20);
    let larger = format!("{largest}7");
    for content_type in [JSON, NDJSON] {
        assert_eq!(server.post("t", content_type, &largest).published().count, 1);
        server.post("t", content_type, &larger).refused(413, "event_too_large");
    }
    let escaped = "x".repeat((1 << 20) + 1);
    server.post("t", "text/plain", &escaped).refused(413, "event_too_large");
    let refused = server.post("t", NDJSON, format!("1\n{larger}\n2\n"));
    refused.refused(413, "event_too_large");
    assert_eq!(refused.json()["published"]["count"], json!(1));
}

#[test]
fn the_largest_event_arrives_on_every_transport() {
    let server = Server::start(&[]);
    let mut subscribers = Transport::ALL.map(|transport| server.subscribe(transport, "/large"));
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    let text = "x".repeat((1 << 20) - 2);
    server.post("large", JSON, format!("\"{text}\"")).published();
    for subscriber in &mut subscribers {
        assert_eq!(subscriber.envelope().events, [json!(text)]);
    }
}

#[test]
fn publishing_to_an_invalid_topic_is_refused() {
    let server = Server::start(&[]);
    let too_long = "x".repeat(201);
    for bad in ["", "/", "a//b", "a/", "a/./b", "..", "a%2Fb", "a%20b", "a*b", "a%3Eb", &too_long] {
        let refused = server.post(bad, JSON, "1");
        assert!(!refused.refused(400, "bad_topic").is_empty(), "{bad}");
    }
    for good in ["a", "matchesfeed/8/matchcentre", "A-_.~9", "...", ".a/b.", &"x".repeat(200)] {
        assert_eq!(server.post(good, JSON, "1").published().topic, good);
    }
}

#[test]
fn a_client_that_asks_first_is_told_to_continue() {
    let server = Server::start(&[]);
    let mut socket = server.connect();
    socket.send(
        "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\
         Expect: 100-continue\r\n\r\n",
    );
    assert_eq!(socket.response_head().status, 100);
    socket.send("1");
    assert_eq!(socket.response().published().count, 1);
}

#[test]
fn many_events_in_one_request_all_arrive_in_order() {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/many");
    subscriber.confirmed();
    let expected: Vec<u64> = (0..50_000).collect();
    assert_eq!(server.publish("many", 0..50_000).count, 50_000);
    assert_eq!(subscriber.numbers(50_000).0, expected);
}

/// The first timer of a runtime costs a write that interrupts its own wait.
#[test]
fn a_request_costs_the_write_of_its_answer_and_no_other() {
    const REQUESTS: u64 = 200;
    let server = Server::start(&[]);
    let writes = || {
        let counts = std::fs::read_to_string(format!("/proc/{}/io", server.pid().as_raw_pid()));
        let counts = counts.expect("what the kernel has counted");
        let writes = counts.lines().find_map(|line| line.strip_prefix("syscw: "));
        writes.and_then(|writes| writes.parse::<u64>().ok()).expect("a number of writes")
    };
    let mut connection = Raw::connect(server.address);
    let mut post = |number: u64| {
        let kind = [("Content-Type", JSON)];
        connection.ask("POST", "/v1/topics/t", &kind, &number.to_string());
        assert_eq!(connection.answer().status, 200);
    };
    post(0);
    let before = writes();
    (0..REQUESTS).for_each(&mut post);
    let made = writes() - before;
    assert!(made < REQUESTS * 3 / 2, "{REQUESTS} requests cost {made} writes");
}
