//! Several shards: the shards of publisher and subscriber make no difference.

use crate::harness::{OPEN, Raw, Received, Server, TRUSTED, Transport, chunk, offset};

const TWO: &[&str] = &["--shards", "2"];

/// Enough that each shard has some of each kind.
const CONNECTIONS: usize = 24;

#[test]
fn subscribers_receive_topics_of_every_shard() {
    let server = Server::start(TWO);
    let topics: Vec<String> = (0..8).map(|index| format!("topic/{index}")).collect();
    let mut subscribers = Vec::new();
    for topic in &topics {
        for connection in 0..CONNECTIONS {
            let transport = Transport::ALL[connection % 5];
            let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
            subscriber.confirmed();
            subscribers.push((topic, subscriber));
        }
    }
    for topic in &topics {
        for number in 0..10 {
            assert_eq!(server.publish(topic, number..number + 1).first, number + 1);
        }
    }
    for (_, subscriber) in &mut subscribers {
        assert_eq!(subscriber.numbers(10).0, (0..10).collect::<Vec<u64>>());
    }
}

#[test]
fn a_subscription_gets_what_its_connection_publishes_next() {
    for server in [Server::start(&["--shards", "1"]), Server::start(TWO)] {
        let mut socket = server.subscribe(Transport::WebSocket, "");
        for index in 0..200 {
            let topic = format!("topic/{index}");
            socket.say(&format!(r#"{{"command":"subscribe","topic":"{topic}"}}"#));
            socket.say(&format!(r#"{{"command":"publish","topic":"{topic}","event":1}}"#));
            let mut events = Vec::new();
            let mut is_published = false;
            while !is_published || events.is_empty() {
                match socket.next() {
                    Received::Answer(answer) if answer["answer"].get("first").is_some() => {
                        is_published = true;
                        // A subscription that begins too late gets this event alone.
                        server.publish(&topic, 2..3);
                    }
                    Received::Envelope(envelope) => events.extend(envelope.events),
                    Received::Answer(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(events[0], 1, "{topic}");
            socket.command(&format!(r#"{{"command":"unsubscribe","topic":"{topic}"}}"#));
        }
    }
}

#[test]
fn one_publish_connection_feeds_both_shards_in_order() {
    let server = Server::start(TWO);
    for topic in ["a", "b", "c", "d"] {
        let mut subscribers: Vec<_> = (0..CONNECTIONS)
            .map(|index| server.subscribe(Transport::ALL[index % 5], &format!("/{topic}")))
            .collect();
        for subscriber in &mut subscribers {
            subscriber.confirmed();
        }
        let mut publisher = server.connect();
        publisher.send(format!(
            "POST /v1/topics/{topic} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
        ));
        for number in 0..500 {
            publisher.send(chunk(&format!("{number}\n")));
        }
        publisher.send(chunk(""));
        let position = publisher.response().published().position;
        for subscriber in &mut subscribers {
            let expected: Vec<u64> = (0..500).collect();
            assert_eq!(subscriber.numbers(500), (expected, position.clone()));
        }
    }
}

#[test]
fn several_topics_of_different_shards_share_a_connection() {
    let server = Server::start(TWO);
    let topics: Vec<String> = (0..16).map(|index| format!("t{index}")).collect();
    let target = format!("?topic={}", topics.join("&topic="));
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, &target);
        for _ in &topics {
            assert!(subscriber.envelope().events.is_empty());
        }
        for topic in &topics {
            server.publish(topic, 0..1);
        }
        let mut seen: Vec<String> = topics.iter().map(|_| subscriber.envelope().topic).collect();
        seen.sort_by_key(|topic| topic[1..].parse::<u32>().ok());
        assert_eq!(seen, topics);
    }
}

#[test]
fn a_position_resumes_on_any_shard() {
    let server = Server::start(TWO);
    let head = server.publish("t", 0..100).position;
    let (epoch, _) = head.split_once('.').expect("a position");
    for connection in 0..CONNECTIONS {
        let transport = Transport::ALL[connection % 5];
        let cursor = format!("{epoch}.{}", 90 - connection);
        let mut subscriber = server.subscribe(transport, &format!("/t?cursor={cursor}"));
        assert_eq!(subscriber.confirmed(), cursor);
        let expected: Vec<u64> = (90 - connection as u64..100).collect();
        assert_eq!(subscriber.numbers(expected.len()), (expected, head.clone()));
    }
}

#[test]
fn earliest_holds_on_any_shard_while_events_keep_coming() {
    let server = Server::start(TWO);
    server.publish("t", 0..1_000);
    for round in 0..CONNECTIONS as u64 {
        let transport = Transport::ALL[round as usize % 5];
        let mut subscriber = server.subscribe(transport, "/t?cursor=earliest");
        let head = server.publish("t", 1_000 + round..1_001 + round).position;
        assert_eq!(offset(&subscriber.confirmed()), 0);
        let expected: Vec<u64> = (0..1_001 + round).collect();
        assert_eq!(subscriber.numbers(expected.len()), (expected, head));
    }
}

#[test]
fn commands_are_answered_on_every_shard() {
    let server = Server::start(TWO);
    let mut sockets: Vec<_> = (0..4).map(|_| server.subscribe(Transport::WebSocket, "")).collect();
    for index in 0..40_u64 {
        let topic = index % 8;
        let command =
            format!(r#"{{"command":"publish","id":{index},"topic":"t{topic}","event":1}}"#);
        let answer = sockets[index as usize % 4].command(&command);
        assert_eq!(answer["answer"]["id"].as_u64(), Some(index));
        assert_eq!(answer["answer"]["first"].as_u64(), Some(index / 8 + 1));
    }
}

/// Each shard numbers its own subscriptions, so that the owner shard of a topic may see the same number from several shards.
#[test]
fn a_shard_whose_subscribers_leave_does_not_cut_off_another() {
    let server = Server::start(&["--shards", "4"]);
    for survivor in 0..4 {
        // The owner shards still hold the histories of earlier rounds.
        let before = survivor as f64;
        let topic = format!("t{survivor}");
        // Each connection goes to the least-loaded shard: one to each.
        let mut subscribers: Vec<_> = (0..4)
            .map(|index| server.subscribe(Transport::STREAMING[index], &format!("/{topic}")))
            .collect();
        for subscriber in &mut subscribers {
            subscriber.confirmed();
        }
        await_topics(&server, |topics| topics >= before + 4.0);
        let mut survivor = subscribers.swap_remove(survivor);
        drop(subscribers);
        // The owner shard, and at most one follower.
        await_topics(&server, |topics| topics <= before + 2.0);
        server.publish(&topic, 0..3);
        assert_eq!(survivor.numbers(3).0, [0, 1, 2]);
        drop(survivor);
        await_topics(&server, |topics| topics <= before + 1.0);
    }
}

/// Waits for the sweeps of the shards, which count topics.
fn await_topics(server: &Server, is_met: impl FnMut(f64) -> bool) {
    server.await_metric("thalweg_topics", is_met);
}

/// With two shards the owner shard of a topic may differ from the subscriber's. Its refusal counts in both cases.
#[test]
fn a_topic_that_its_home_has_no_room_for_is_refused_wherever_it_is_asked_for() {
    const CLIENT: (&str, &str) = ("X-Forwarded-For", "192.0.2.1");
    let limits = ["--set", "limits.subscribed-topics-per-address=1"];
    let server = Server::start(&[TWO, &limits, &TRUSTED, &OPEN].concat());
    let mut held = server.subscribe_with(Transport::Sse, "/held", &[CLIENT]);
    held.confirmed();
    server.publish("there", 0..1);
    let mut sockets = Vec::new();
    for topic in 0..8 {
        // These subscriptions exist on both shards.
        let mut socket = server.subscribe_with(Transport::WebSocket, "/there", &[CLIENT]);
        socket.confirmed();
        let subscribe = format!(r#"{{"command":"subscribe","id":1,"topic":"t{topic}"}}"#);
        let answer = socket.command(&subscribe);
        assert_eq!(answer["error"]["code"], "too_many_topics", "{answer}");
        let headers = [("Accept", "application/x-ndjson"), CLIENT];
        let answer = server.ask("GET", &format!("/v1/topics/t{topic}"), &headers, "");
        answer.refused(400, "too_many_topics");
        sockets.push(socket);
    }
    server.has_refused("too_many_topics", 16);
}

/// If an owner shard detects an error after the reply, subscribers receive a close.
#[test]
fn topics_that_their_home_has_no_room_for_any_more_end_the_connection() {
    // The shard of the connection owns half of the topics.
    let limits = ["--set", "limits.subscribed-topics-per-address=40"];
    let server = Server::start(&[TWO, &limits, &TRUSTED, &OPEN].concat());
    let topics: Vec<String> = (0..64).map(|topic| format!("topic=t{topic}")).collect();
    let mut raw = Raw::connect(server.address);
    let headers = [("Accept", "application/x-ndjson"), ("X-Forwarded-For", "192.0.2.1")];
    raw.ask("GET", &format!("/v1/topics?{}", topics.join("&")), &headers, "");
    let said = raw.rest_text("a close");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(said.contains(r#""code":1013"#), "{said}");
    server.has_closed(1013, 1);
}
