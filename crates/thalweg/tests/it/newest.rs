//! The newest events of a topic, which a page shows first.

use std::ops::Range;

use serde_json::Value;

use crate::harness::{Line, Server, Subscriber, Transport, at};

/// Fills a topic with batches of several sizes. Returns its last position.
fn filled(server: &Server, topic: &str) -> String {
    let mut position = String::new();
    let mut from = 0;
    for count in [1, 5, 2, 10, 1, 1, 30] {
        position = server.publish(topic, from..from + count).position;
        from += count;
    }
    position
}

const TOTAL: u64 = 50;

fn newest(count: u64) -> Range<u64> {
    TOTAL.saturating_sub(count)..TOTAL
}

#[test]
fn a_read_has_the_newest_events() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let head = filled(&server, "t");
        for count in [1, 3, 29, 30, 31, 32, 33, 49, 50, 51, 10_000] {
            let page = server.get(&format!("/v1/topics/t?newest={count}")).json();
            let numbers: Vec<u64> = page["events"]
                .as_array()
                .expect("events")
                .iter()
                .filter_map(Value::as_u64)
                .collect();
            assert_eq!(numbers, newest(count).collect::<Vec<_>>(), "{count}");
            assert_eq!(
                (&page["position"], &page["head"]),
                (&head.clone().into(), &page["position"])
            );
            assert_eq!(page["gap"], Value::Null);
        }
    }
}

#[test]
fn a_subscription_begins_with_the_newest_events_and_goes_on() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let mut next = TOTAL;
        let head = filled(&server, "t");
        for transport in Transport::ALL {
            for line in [Line::Http1(server.address), Line::Http2(server.http2())] {
                for query in ["newest=10", "cursor=newest.10"] {
                    let target = format!("/v1/topics/t?{query}");
                    let mut stream = Subscriber::open(line.clone(), transport, &target, &[]);
                    assert_eq!(stream.confirmed(), at(&head, next - 10), "{query} {transport:?}");
                    server.publish("t", next..next + 1);
                    let numbers = stream.numbers(11).0;
                    assert_eq!(numbers, (next - 10..next + 1).collect::<Vec<_>>());
                    next += 1;
                }
            }
        }
    }
}

#[test]
fn topics_of_a_connection_have_counts_of_their_own() {
    let server = Server::start(&["--shards", "2", "--topic", "v,kind=value"]);
    let (a, b) = (filled(&server, "a"), filled(&server, "b"));
    server.publish("v", 1..3);
    let query = format!(
        "?topic=a&topic=b&topic=v&topic=new&cursor=newest.2&cursor={}&cursor=newest.1&cursor=newest.3",
        at(&b, 49)
    );
    // A poll ends with the first events, which may be of one topic only.
    for transport in Transport::STREAMING {
        let mut stream = server.subscribe(transport, &query);
        let mut numbers = std::collections::BTreeMap::<String, Vec<u64>>::new();
        let (mut confirmed, mut events) = (0, 0);
        while confirmed < 4 || events < 4 {
            let envelope = stream.envelope();
            confirmed += usize::from(envelope.events.is_empty());
            events += envelope.events.len();
            let of_topic = numbers.entry(envelope.topic).or_default();
            of_topic.extend(envelope.events.iter().filter_map(Value::as_u64));
        }
        let of = |topic: &str| numbers[topic].clone();
        assert_eq!((of("a"), of("b"), of("v")), (vec![48, 49], vec![49], vec![2]), "{transport:?}");
    }
    let mut socket = server.subscribe(Transport::WebSocket, "");
    socket.command(r#"{"command":"subscribe","id":1,"topic":"a","cursor":"newest.4"}"#);
    assert_eq!(socket.confirmed(), at(&a, 46));
    assert_eq!(socket.numbers(4).0, [46, 47, 48, 49]);
}

/// An EventSource reconnects with the same URL and its last id.
#[test]
fn a_reconnecting_client_resumes_at_its_position() {
    let server = Server::start(&[]);
    let head = filled(&server, "t");
    let id = at(&head, 30);
    let headers = [("Last-Event-ID", id.as_str())];
    let mut stream = server.subscribe_with(Transport::Sse, "/t?newest=3", &headers);
    assert_eq!(stream.confirmed(), id);
    assert_eq!(stream.numbers(20).0, (30..50).collect::<Vec<_>>());
}

#[test]
fn contradictory_options_are_refused_with_the_remedy() {
    let server = Server::start(&[]);
    filled(&server, "t");
    let refused = |target: &str, headers: &[(&str, &str)], says: &str| {
        let answer = server.ask("GET", &format!("/v1/topics{target}"), headers, "");
        let sentence = answer.refused(400, "bad_parameter");
        assert!(sentence.contains(says), "{target}: {sentence}");
    };
    let sse = [("Accept", "text/event-stream")];
    for count in ["0", "10001", "-1", "ten", "1.5", ""] {
        refused(&format!("/t?newest={count}"), &[], "from 1 to 10000");
        refused(&format!("/t?newest={count}"), &sse, "from 1 to 10000");
    }
    refused("/t?newest=1&cursor=latest", &[], "remove one");
    refused("/t?newest=1&cursor=earliest", &sse, "remove one");
    refused("/t?newest=1&limit=1", &[], "remove one");
    refused("/t?newest=1&limit=1", &sse, "limit");
    refused("?newest=1", &[], "needs a topic");
    let websocket = Transport::WebSocket.headers();
    refused("?newest=1", &websocket, "needs a topic");
    server.ask("GET", "/v1/topics/t?cursor=newest.0", &sse, "").refused(400, "bad_cursor");
    server.get("/v1/topics/none?newest=1").refused(404, "no_such_topic");
}

#[test]
fn tail_prints_the_newest_events_or_those_since_a_time() {
    let server = Server::start(&[]);
    filled(&server, "t");
    let url = format!("http://{}/v1/topics/t", server.address);
    let tail = |start: [&str; 2]| {
        let tail = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(["tail", &url, "--count", "3"])
            .args(start)
            .output()
            .expect("run the binary");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(tail.stdout), text(tail.stderr))
    };
    assert_eq!(tail(["--newest", "3"]).0, "47\n48\n49\n");
    for since in ["since.10m", "since.2026-11-29T00:00:00+01:00", "since.1250"] {
        assert_eq!(tail(["--from", since]).0, "0\n1\n2\n", "{since}");
    }
    let (_, refusal) = tail(["--from", "since.yesterday"]);
    assert!(refusal.contains("a duration before now such as 10m"), "{refusal}");
}
