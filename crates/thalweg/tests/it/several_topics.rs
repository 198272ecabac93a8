//! `GET /v1/topics?topic=a&topic=b`.

use std::collections::BTreeMap;

use crate::harness::{Server, Subscriber, Transport, offset};

/// Reads until every topic has had its number of events. Returns them by topic.
fn numbers_by_topic(
    subscriber: &mut Subscriber,
    mut due: BTreeMap<&str, usize>,
) -> BTreeMap<String, Vec<u64>> {
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    due.retain(|_, count| *count > 0);
    while !due.is_empty() {
        let envelope = subscriber.envelope();
        if let Some(count) = due.get_mut(envelope.topic.as_str()) {
            *count = count.checked_sub(envelope.events.len()).expect("no more than was published");
        }
        let numbers = envelope.events.iter().map(|event| event.as_u64().expect("a number"));
        seen.entry(envelope.topic).or_default().extend(numbers);
        due.retain(|_, count| *count > 0);
    }
    seen
}

fn confirmed(subscriber: &mut Subscriber, count: usize) -> BTreeMap<String, String> {
    let envelopes = (0..count).map(|_| subscriber.envelope());
    envelopes
        .map(|envelope| {
            assert!(envelope.events.is_empty(), "{envelope:?}");
            (envelope.topic, envelope.position)
        })
        .collect()
}

#[test]
fn each_topic_is_confirmed_and_all_events_arrive() {
    let server = Server::start(&[]);
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "?topic=a&topic=b/c&topic=d");
        let topics: Vec<String> = confirmed(&mut subscriber, 3).into_keys().collect();
        assert_eq!(topics, ["a", "b/c", "d"]);
        for number in 0..10 {
            server.publish("a", number..number + 1);
            server.publish("b/c", number + 100..number + 102);
        }
        let seen = numbers_by_topic(&mut subscriber, BTreeMap::from([("a", 10), ("b/c", 20)]));
        assert_eq!(seen["a"], (0..10).collect::<Vec<u64>>());
        let pairs: Vec<u64> = (0..10).flat_map(|number| [number + 100, number + 101]).collect();
        assert_eq!(seen["b/c"], pairs);
    }
}

#[test]
fn one_cursor_holds_for_all_topics() {
    let server = Server::start(&[]);
    server.publish("a", 0..2);
    server.publish("b", 0..3);
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "?topic=a&topic=b&cursor=earliest");
        let seen = numbers_by_topic(&mut subscriber, BTreeMap::from([("a", 2), ("b", 3)]));
        assert_eq!((seen["a"].as_slice(), seen["b"].as_slice()), (&[0, 1][..], &[0, 1, 2][..]));
    }
}

#[test]
fn each_topic_may_have_its_own_cursor() {
    let server = Server::start(&[]);
    let a = server.publish("a", 0..4).position;
    server.publish("b", 0..4);
    server.publish("c", 0..4);
    let a = a.replace(".4", ".3");
    let target = format!("?topic=a&topic=b&topic=c&cursor={a}&cursor=latest&cursor=earliest");
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, &target);
        let seen = numbers_by_topic(&mut subscriber, BTreeMap::from([("a", 1), ("c", 4)]));
        assert_eq!(seen["a"], [3]);
        assert_eq!(seen.get("b").map_or(0, Vec::len), 0);
        assert_eq!(seen["c"], [0, 1, 2, 3]);
    }
}

#[test]
fn sse_of_several_topics_names_all_cursors_as_its_id() {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::Sse, "?topic=a&topic=b");
    let positions = confirmed(&mut subscriber, 2);
    let published = server.publish("a", 0..1).position;
    let id = subscriber.envelope().id;
    assert_eq!(id, Some(format!("{published},{}", positions["b"])));
}

#[test]
fn several_topics_resume_from_their_envelopes_positions() {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::Sse, "?topic=a&topic=b");
    let positions = confirmed(&mut subscriber, 2);
    server.publish("a", 0..2);
    server.publish("b", 0..1);
    let (a, b) = (&positions["a"], &positions["b"]);
    let target = format!("?topic=a&topic=b&cursor={a}&cursor={b}");
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, &target);
        let seen = numbers_by_topic(&mut subscriber, BTreeMap::from([("a", 2), ("b", 1)]));
        assert_eq!((seen["a"].as_slice(), seen["b"].as_slice()), (&[0, 1][..], &[0][..]));
    }
}

#[test]
fn the_topics_of_a_connection_are_limited() {
    let server = Server::start(&[]);
    let accept = [("Accept", "application/x-ndjson")];
    let target = |count: usize| {
        let topics: Vec<String> = (0..count).map(|index| format!("topic=t{index}")).collect();
        format!("/v1/topics?{}", topics.join("&"))
    };
    server.ask("GET", &target(1000), &accept, "").refused(400, "too_many_topics");
    let query = target(200);
    let query = query.strip_prefix("/v1/topics").expect("the path");
    let mut subscriber = server.subscribe(Transport::HttpStreaming, query);
    assert_eq!(confirmed(&mut subscriber, 200).len(), 200);
    server.publish("t199", 0..1);
    assert_eq!(offset(&subscriber.envelope().position), 1);
}

#[test]
fn cursors_must_match_the_topics() {
    let server = Server::start(&[]);
    let accept = [("Accept", "application/x-ndjson")];
    let target = "/v1/topics?topic=a&topic=b&topic=c&cursor=latest&cursor=latest";
    server.ask("GET", target, &accept, "").refused(400, "bad_cursor");
}
