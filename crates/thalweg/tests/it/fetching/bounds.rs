//! Bounds of fetching: requests, and time.

use serde_json::json;

use super::{await_version, expect_version, numbers, serve};
use crate::harness::{
    Line, OPEN, Patience, Received, Reply, Server, Subscriber, TRUSTED, Transport, Upstream,
    wait_for,
};

#[test]
fn an_address_may_request_a_limited_number_of_keys_per_second() {
    let (upstream, _) = numbers();
    let flags =
        [&TRUSTED[..], &OPEN, &["--set", "limits.new-fetched-topics-per-address=1"]].concat();
    let server = serve(&upstream, "", &flags);
    let named = [("X-Forwarded-For", "192.0.2.1"), ("Accept", "text/event-stream")];
    // If a new second begins meanwhile, there are two.
    let target = "/v1/topics?topic=f/1&topic=f/2&topic=f/3&topic=f/4";
    server.ask("GET", target, &named, "").refused(429, "too_many_from_address");
    assert_eq!(upstream.count(), 0, "all of them or none");
    // Other clients have their own limit, and an existing topic costs nothing.
    let _other = Subscriber::open(
        Line::Http1(server.address),
        Transport::Sse,
        "/v1/topics/f/5",
        &[("X-Forwarded-For", "192.0.2.2")],
    );
    server.await_metric("thalweg_upstream_topics", |topics| topics == 1.0);
    for _ in 0..10 {
        let answer = server.ask("GET", "/v1/topics/f/5?wait=0s", &named[..1], "");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Two upstreams of one host share the smaller limit.
#[test]
fn parallel_fetches_are_limited_per_host_and_in_total() {
    let [one, other] = [(); 2].map(|()| Upstream::start(|_| Reply::Never(Vec::new())));
    let flags = [
        one.flag("a/**", ",in-flight=3,timeout=1m"),
        one.flag("b/**", ",in-flight=2,timeout=1m"),
        other.flag("c/**", ",in-flight=5,timeout=1m"),
    ];
    let flags = flags.iter().flat_map(|flag| ["--upstream", flag]);
    let server = Server::start(&flags.chain(["--set", "limits.fetches=4"]).collect::<Vec<_>>());
    let subscribe = |pattern: &str| {
        let topics: Vec<_> = (0..5).map(|number| format!("topic={pattern}/{number}")).collect();
        server.subscribe(Transport::Sse, &format!("?{}", topics.join("&")))
    };
    let _subscribers = ["a", "b"].map(subscribe);
    server.await_metric("thalweg_upstream_waiting", |waiting| waiting == 8.0);
    let _more = subscribe("c");
    server.await_metric("thalweg_upstream_waiting", |waiting| waiting == 11.0);
    let counts = || (one.count(), other.count());
    wait_for("four fetches", || (counts() == (2, 2)).then_some(()));
    assert_eq!(server.metric("thalweg_upstream_fetches_total"), 4.0);
}

#[test]
fn many_slow_keys_of_a_client_do_not_delay_others() {
    let upstream = Upstream::start(|asked| match asked.path.starts_with("/f/slow/") {
        true => Reply::Never(Vec::new()),
        false if asked.path == "/f/known" => Reply::json("", &asked.before),
        false => Reply::json("Cache-Control: max-age=250\r\n", &asked.before),
    });
    let settings = ",max-age=20ms,min-interval=20ms,timeout=10m";
    let flags =
        [&TRUSTED[..], &OPEN, &["--set", "limits.new-fetched-topics-per-address=1000"]].concat();
    let server = serve(&upstream, settings, &flags);
    let subscribe = |address: &str, target: &str| {
        let named = [("X-Forwarded-For", address)];
        Subscriber::open(Line::Http1(server.address), Transport::Sse, target, &named)
    };
    let mut known = subscribe("192.0.2.1", "/v1/topics/f/known");
    await_version(&mut known, 0);
    let slow: Vec<_> = (0..4)
        .map(|part| {
            let topics: Vec<_> =
                (0..64).map(|number| format!("topic=f/slow/{part}-{number}")).collect();
            subscribe("192.0.2.2", &format!("/v1/topics?{}", topics.join("&")))
        })
        .collect();
    server.await_metric("thalweg_upstream_waiting", |waiting| waiting >= 200.0);
    // The remaining room is reserved for other clients.
    server.await_metric("thalweg_upstream_held_back_total", |held_back| held_back >= 200.0);
    let asked = upstream.asked("/f/known").len() as u64;
    await_version(&mut known, asked + 10);
    let mut other = subscribe("192.0.2.3", "/v1/topics/f/new");
    expect_version(&mut other, &json!(0));
    // One of the client's own keys has another subscriber, too.
    assert!(upstream.asked("/f/slow/3-63").is_empty());
    let _shared = subscribe("192.0.2.3", "/v1/topics/f/slow/3-63");
    upstream.await_asked("/f/slow/3-63", 1);
    drop(slow);
}

#[test]
fn parallel_fetches_of_a_host_are_limited() {
    let upstream = Upstream::start(|_| Reply::Never(Vec::new()));
    let server = serve(&upstream, ",in-flight=2,timeout=1m", &[]);
    let query: Vec<String> = (0..5).map(|number| format!("topic=f/{number}")).collect();
    let mut subscriber = server.subscribe(Transport::Sse, &format!("?{}", query.join("&")));
    (0..5).for_each(|_| assert!(subscriber.envelope().events.is_empty()));
    server.await_metric("thalweg_upstream_topics", |topics| topics == 5.0);
    server.await_metric("thalweg_upstream_in_flight", |fetches| fetches == 2.0);
    assert_eq!(server.metric("thalweg_upstream_fetches_total"), 2.0);
    // Other clients are served, whatever an upstream does.
    server.publish("other", 0..1);
    server.await_metric("thalweg_upstream_waiting", |topics| topics == 3.0);
    server.await_metric("thalweg_upstream_age_seconds_max", |age| age > 0.0);
}

/// A client that reconnects meanwhile receives the current document, and no new fetch starts.
#[test]
fn a_topic_without_subscribers_is_fetched_for_a_while() {
    let upstream = Upstream::start(|asked| {
        Reply::json("ETag: \"x\"\r\nCache-Control: max-age=250\r\n", &asked.before)
    });
    let server = serve(&upstream, ",linger=1m", &[]);
    for _ in 0..3 {
        let mut subscriber = server.subscribe(Transport::Sse, "/f/x");
        expect_version(&mut subscriber, &json!(0));
        drop(subscriber);
        server.await_metric("thalweg_subscribed_topics", |topics| topics == 0.0);
    }
    assert_eq!(upstream.count(), 1);
    assert_eq!(server.metric("thalweg_upstream_topics"), 1.0);
}

#[test]
fn metrics_of_upstreams_are_separate() {
    let document = format!("\"{}\"", "x".repeat(998));
    let upstream =
        Upstream::start(move |_| Reply::json("Cache-Control: max-age=250\r\n", &document));
    let flags = ["a/**", "b/**"].map(|pattern| upstream.flag(pattern, ""));
    let server = Server::start(&["--upstream", &flags[0], "--upstream", &flags[1]]);
    let _subscribers = ["/a/1", "/a/2", "/b/1"].map(|target| {
        let mut subscriber = server.subscribe(Transport::Sse, target);
        subscriber.confirmed();
        assert_eq!(subscriber.envelope().events.len(), 1);
        subscriber
    });
    // The fetcher counts a document after its subscribers have received it.
    let expected = [
        ("fetches_total", 2, 1),
        ("bytes_total", 2000, 1000),
        ("topics", 2, 1),
        ("errors_total", 0, 0),
    ];
    wait_for("the numbers of each upstream", || {
        let metrics = server.get("/metrics").text();
        let is_shown = |name, pattern, expected| {
            let line = format!("thalweg_upstream_{name}{{upstream=\"{pattern}\"}} {expected}\n");
            metrics.contains(&line)
        };
        let mut each = expected.iter();
        each.all(|(name, a, b)| is_shown(name, "a/**", a) && is_shown(name, "b/**", b))
            .then_some(())
    });
}

/// There is room for two of four.
#[test]
fn a_document_that_was_let_go_for_memory_is_fetched_again() {
    let document = format!("\"{}\"", "x".repeat(30_000));
    let upstream = Upstream::start(move |asked| match asked.header("if-none-match") {
        Some(_) => Reply::with(304, "", ""),
        None => Reply::json("ETag: \"x\"\r\n", &document),
    });
    let room = ["--set", "limits.history-bytes=64KiB", "--set", "limits.event-bytes=32KiB"];
    let server = serve(&upstream, ",min-interval=20ms,max-age=20ms", &room);
    let mut subscribers = Vec::new();
    for number in [0, 1, 2, 3, 0, 1, 2, 3] {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/f/{number}"));
        let mut patience = Patience::new();
        loop {
            match subscriber.next() {
                Received::Envelope(envelope) if !envelope.events.is_empty() => break,
                // The topic had a version before, and has none now.
                Received::Gap(gap) => assert_eq!(gap.reason, "unknown"),
                Received::Envelope(_) | Received::Heartbeat => patience.check("the document"),
                other => panic!("the document was due, not {other:?}"),
            }
        }
        subscribers.push(subscriber);
    }
}
