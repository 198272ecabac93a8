//! Topics with subscribers only: they do not limit publishers, each address has a share of them, and one costs little.

use std::fs;

use thalweg_server::config::EMPTY_TOPIC_BYTES;

use crate::harness::{
    Line, OPEN, Received, Server, Socket, Subscriber, TRUSTED, Transport, ticking, unharmed,
    wait_for,
};

const SSE: [(&str, &str); 1] = [("Accept", "text/event-stream")];

fn query(name: &str, numbers: std::ops::Range<usize>) -> String {
    let topics: Vec<String> = numbers.map(|number| format!("topic={name}{number}")).collect();
    format!("?{}", topics.join("&"))
}

fn subscribed(server: &Server, name: &str, numbers: std::ops::Range<usize>) -> Subscriber {
    let count = numbers.len();
    let mut subscriber = server.subscribe(Transport::Sse, &query(name, numbers));
    (0..count).for_each(|_| assert!(subscriber.envelope().events.is_empty()));
    subscriber
}

#[test]
fn subscribers_do_not_prevent_publishing_to_new_topics() {
    // The ticking topic is the first.
    let server = ticking(&["--set", "limits.topics=4", "--set", "limits.subscribed-topics=3"]);
    unharmed(&server, || {
        let _held = subscribed(&server, "held", 0..3);
        // One topic is too many: none of them is created.
        let refused = |target: &str| {
            server.ask("GET", target, &SSE, "").refused(400, "too_many_topics");
        };
        refused("/v1/topics/more");
        refused("/v1/topics?topic=held0&topic=e&topic=f");
        server.get("/v1/topics/f?limit=1").refused(404, "no_such_topic");
        let mut socket = server.subscribe(Transport::WebSocket, "/held0");
        socket.confirmed();
        let answer = socket.command(r#"{"command":"subscribe","id":1,"topic":"more"}"#);
        assert_eq!(answer["error"]["code"], "too_many_topics", "{answer}");

        server.publish("a", 0..1);
        server.publish("b", 0..1);
        // A topic with an event no longer counts as subscriber-only: there is room for another one.
        server.publish("held2", 0..1);
        let _another = subscribed(&server, "another", 0..1);
        refused("/v1/topics/more");
        // Publishers have reached their limit now.
        server.post("c", "application/json", "1").refused(400, "too_many_topics");
        server.post("held1", "application/json", "1").refused(400, "too_many_topics");
        let answer = socket.command(r#"{"command":"publish","id":1,"topic":"c","event":1}"#);
        assert_eq!(answer["error"]["code"], "too_many_topics", "{answer}");
        // Existing topics continue, and accept subscribers.
        server.publish("a", 1..2);
        server.subscribe(Transport::Sse, "/a").confirmed();
        server.has_counted("thalweg_subscribed_topics", 3);
    });
    server.has_refused("too_many_topics", 7);
}

#[test]
fn unused_topics_make_room() {
    let server = Server::start(&["--set", "limits.subscribed-topics=3"]);
    let readers = subscribed(&server, "t", 0..3);
    let subscribe = || server.ask("GET", "/v1/topics/another?wait=0", &[], "");
    subscribe().refused(400, "too_many_topics");
    drop(readers);
    wait_for("room for another topic", || (subscribe().status == 200).then_some(()));
}

/// Topics whose events have expired are subscriber-only. They free their places for other published topics,
/// and count under the limit of subscriber-only topics.
#[test]
fn topics_whose_events_are_gone_give_way() {
    let limits = [
        "--set",
        "limits.topics=3",
        "--set",
        "limits.subscribed-topics=1",
        "--topic",
        "**,history-age=2s",
    ];
    let server = Server::start(&limits);
    let mut readers: Vec<Subscriber> = Vec::new();
    for topic in ["t0", "t1", "t2"] {
        server.publish(topic, 0..1);
        let mut reader =
            server.subscribe(Transport::Sse, &format!("/{topic}?cursor=earliest&policy=skip"));
        assert_eq!(reader.numbers(1).0, [0]);
        readers.push(reader);
    }
    server.has_closed(1013, 2);
    // There is room for as many again. Subscribers that stay receive new events.
    let mut closed = 0;
    for (number, reader) in readers.iter_mut().enumerate() {
        server.publish(&format!("t{number}"), 1..2);
        match reader.next() {
            Received::Close(1013, ..) => closed += 1,
            Received::Envelope(envelope) => assert_eq!(envelope.events, [1]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(closed, 2);
}

/// A subscriber that only waits for events keeps its topic.
#[test]
fn topics_whose_events_are_gone_go_before_those_that_had_none() {
    let server =
        Server::start(&["--set", "limits.subscribed-topics=1", "--topic", "**,history-age=2s"]);
    let mut waiting = server.subscribe(Transport::Sse, "/waiting");
    waiting.confirmed();
    server.publish("spent", 0..1);
    let mut reader = server.subscribe(Transport::Sse, "/spent?cursor=earliest");
    assert_eq!(reader.numbers(1).0, [0]);
    server.has_closed(1013, 1);
    assert!(matches!(reader.next(), Received::Close(1013, ..)));
    server.publish("waiting", 1..2);
    assert_eq!(waiting.numbers(1).0, [1]);
}

/// Subscribes as this client of the trusted proxy. Returns `None` if there is no room.
fn subscribe_for(server: &Server, client: &str, topic: &str) -> Option<Socket> {
    let headers = [("Accept", "text/event-stream"), ("X-Forwarded-For", client)];
    let target = format!("/v1/topics/{topic}");
    let mut socket = Line::Http1(server.address).start(&target, &headers);
    let mut head = socket.response_head();
    if head.status != 200 {
        head.body = socket.body(&head);
        head.refused(400, "too_many_topics");
        return None;
    }
    socket.until(b"\n", "how soon to come back");
    let event = socket.until(b"\n\n", "the first event").expect("an event");
    // The owner shard of a topic may refuse later.
    let is_closed = event.starts_with(b"event:close");
    assert!(is_closed || event.starts_with(b"data:"), "{}", event.escape_ascii());
    (!is_closed).then_some(socket)
}

#[test]
fn one_address_holds_its_share_of_topics() {
    const SHARE: usize = 5;
    // A client that the proxy does not name counts as the proxy, which is on loopback.
    for (shards, greedy) in
        [("1", "192.0.2.1"), ("2", "192.0.2.1"), ("1", "unknown"), ("2", "unknown")]
    {
        let limits = ["--set", "limits.subscribed-topics-per-address=5", "--shards", shards];
        let server = Server::start(&[&limits[..], &TRUSTED, &OPEN].concat());
        let other = "192.0.2.2";
        let topics: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
        let held: Vec<Socket> =
            topics.iter().filter_map(|topic| subscribe_for(&server, greedy, topic)).collect();
        assert_eq!(held.len(), SHARE, "{greedy}, {shards} shards");
        assert!(subscribe_for(&server, other, "u").is_some(), "another address has its own share");
        // An existing topic counts for no client.
        server.publish("v", 0..1);
        assert!(subscribe_for(&server, greedy, "v").is_some());
        assert!(subscribe_for(&server, greedy, "w").is_none());
        drop(held);
        wait_for("the share to be given back", || subscribe_for(&server, greedy, "w"));
        server
            .await_metric("thalweg_refused_total{code=\"too_many_topics\"}", |count| count > 15.0);
    }
}

#[test]
fn subscribing_makes_no_topics_if_the_server_is_told_so() {
    for shards in ["1", "2"] {
        let server = ticking(&["--set", "existing-topics-only=true", "--shards", shards]);
        server.subscribe(Transport::Sse, "/tick").confirmed();
        for number in 0..8 {
            let topic = format!("t{number}");
            for transport in Transport::ALL {
                let headers = transport.headers();
                for target in
                    [format!("/v1/topics/{topic}"), format!("/v1/topics?topic=tick&topic={topic}")]
                {
                    let sign = if target.contains('?') { '&' } else { '?' };
                    let asked = transport.query().map(|query| format!("{target}{sign}{query}"));
                    let asked = asked.unwrap_or(target);
                    server.ask("GET", &asked, &headers, "").refused(404, "no_such_topic");
                }
            }
            let mut socket = server.subscribe(Transport::WebSocket, "/tick?interval=5m");
            socket.confirmed();
            let subscribe = format!(r#"{{"command":"subscribe","id":1,"topic":"{topic}"}}"#);
            let refused = socket.command(&subscribe);
            assert_eq!(refused["error"]["code"], "no_such_topic", "{refused}");
            let listed = server.get("/v1/topics?prefix=t").json();
            assert_eq!(listed["topics"].as_array().map(Vec::len), Some(1 + number), "{listed}");

            server.publish(&topic, 0..1);
            let answer = socket.command(&subscribe);
            assert_eq!(answer["answer"]["topic"], topic.as_str(), "{answer}");
            for transport in Transport::ALL {
                let mut subscriber =
                    server.subscribe(transport, &format!("/{topic}?cursor=earliest"));
                assert_eq!(subscriber.numbers(1).0, [0]);
            }
        }
        server.has_refused("no_such_topic", 8 * (2 * Transport::ALL.len() as u64 + 1));
    }
}

/// Subscribes to new topics, on this many connections with the maximum number of topics each.
fn hold(server: &Server, name: &str, connections: usize) -> Vec<Subscriber> {
    const EACH: usize = 256;
    (0..connections)
        .map(|number| subscribed(server, name, number * EACH..(number + 1) * EACH))
        .collect()
}

/// This holds although nobody reads the confirmation.
#[test]
fn an_empty_topic_costs_no_more_than_is_said() {
    const CONNECTIONS: usize = 100;
    let server = Server::start(&[]);
    // The memory that only the first ones need is allocated now.
    let _first = hold(&server, "first", 4);
    let before = server.memory();
    let _read = hold(&server, "read", CONNECTIONS);
    let client = server.http2();
    let target =
        |number: usize| format!("/v1/topics{}", query("un", number * 256..(number + 1) * 256));
    let _unread: Vec<Socket> =
        (0..CONNECTIONS).map(|number| client.start("GET", &target(number), &SSE, b"")).collect();
    server.await_connections(4 + 2 * CONNECTIONS);
    let each = server.memory().saturating_sub(before) / (2 * CONNECTIONS * 256);
    println!("{each} bytes for each topic");
    assert!(each <= EMPTY_TOPIC_BYTES, "{each} bytes for each topic");
}

/// CPU time that a server has used, in ns.
fn cpu_ns(server: &Server) -> u64 {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_pid());
    let tasks = fs::read_dir(tasks).expect("its threads").flatten();
    let used = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    used.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_short_list_costs_the_same_however_many_topics_there_are() {
    const LISTS: usize = 200;
    let server = Server::start(&[]);
    let lists = |after: &str, expected: &str| {
        let target = format!("/v1/topics?limit=1&prefix=t&after={after}");
        let begun = cpu_ns(&server);
        for _ in 0..LISTS {
            let listed = server.get(&target).json();
            assert_eq!(listed["topics"][0]["topic"], expected, "{listed}");
        }
        cpu_ns(&server) - begun
    };
    let _few = hold(&server, "t", 2);
    let of_few = lists("t400", "t401");
    let _many = hold(&server, "t2", 80);
    let of_many = lists("t400", "t401").min(lists("t400", "t401"));
    println!("{of_few} ns for 512 topics, {of_many} ns for 21,000");
    assert!(of_many < 3 * of_few, "{of_few} ns for 512 topics, {of_many} ns for 21,000");
}
