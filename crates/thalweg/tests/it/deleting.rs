//! Topics that end: each subscriber receives the end after all its events.

use rustix::process::{Signal, kill_process};

use crate::harness::{PUBLISHER, Received, Server, Transport, close, offset, request};

const TOPIC: &str = "deleting/it";

fn delete(server: &Server, topic: &str) {
    let answer = server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "");
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
}

fn end_of(topic: &str, position: &str) -> Received {
    Received::TopicEnd(topic.to_owned(), position.to_owned(), "deleted".to_owned())
}

#[test]
fn its_subscribers_are_told_after_its_last_event() {
    // An open batch would wait for an hour.
    let settings = ["--topic", "deleting/**,flush=1h"];
    for shards in ["1", "2"] {
        let server = Server::start(&[&settings[..], &["--shards", shards]].concat());
        for transport in Transport::ALL {
            let topic = format!("{TOPIC}/{transport:?}");
            let target = format!("/{topic}");
            let mut subscribers: Vec<_> =
                (0..4).map(|_| server.subscribe(transport, &target)).collect();
            subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
            // The next polls wait as well.
            server.await_connections(subscribers.len());
            let position = server.publish(&topic, 0..3).position;
            delete(&server, &topic);
            for subscriber in &mut subscribers {
                assert_eq!(subscriber.numbers(3), (vec![0, 1, 2], position.clone()));
                assert_eq!(subscriber.news(), end_of(&topic, &position), "{transport:?}");
                if transport != Transport::WebSocket {
                    assert_eq!(subscriber.news(), close(transport, 4500, "ended", false));
                }
            }
            server.get(&format!("/v1/topics{target}?limit=1")).refused(404, "no_such_topic");
        }
    }
}

#[test]
fn its_name_is_free_at_once() {
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let mut subscriber = server.subscribe(Transport::WebSocket, &format!("/{TOPIC}"));
        subscriber.confirmed();
        let before = server.publish(TOPIC, 0..3);
        delete(&server, TOPIC);
        server.ask("DELETE", &format!("/v1/topics/{TOPIC}"), &[], "").refused(404, "no_such_topic");
        let after = server.publish(TOPIC, 10..11);
        assert_eq!((offset(&before.position), offset(&after.position)), (3, 1));
        assert_ne!(before.position.split('.').next(), after.position.split('.').next());
        // A client that was disconnected at the end learns of it from the epoch.
        let mut late =
            server.subscribe(Transport::Sse, &format!("/{TOPIC}?cursor={}", before.position));
        assert_eq!(late.gap().reason, "epoch");
        assert_eq!(late.numbers(1), (vec![10], after.position.clone()));
        // A connected client receives the end, and may subscribe again.
        assert_eq!(subscriber.numbers(3).0, [0, 1, 2]);
        assert_eq!(subscriber.news(), end_of(TOPIC, &before.position));
        let command = format!(r#"{{"command":"subscribe","topic":"{TOPIC}","cursor":"earliest"}}"#);
        assert!(subscriber.command(&command).get("answer").is_some());
        subscriber.confirmed();
        assert_eq!(subscriber.numbers(1), (vec![10], after.position));
    }
}

#[test]
fn the_other_topics_of_a_connection_go_on() {
    let server = Server::start(&["--shards", "2"]);
    for transport in Transport::ALL {
        let names = ["a", "b", "c"].map(|name| format!("{TOPIC}/{transport:?}/{name}"));
        let [a, b, c] = &names;
        let target = format!("?topic={a}&topic={b}&topic={c}");
        let mut subscriber = server.subscribe(transport, &target);
        for _ in 0..3 {
            subscriber.confirmed();
        }
        server.await_connections(1);
        delete(&server, a);
        let received = subscriber.news();
        assert!(matches!(&received, Received::TopicEnd(topic, ..) if topic == a), "{received:?}");
        let position = server.publish(c, 7..8).position;
        let envelope = subscriber.envelope();
        assert_eq!((&envelope.topic, &envelope.position), (c, &position), "{}", envelope.text);
        if transport == Transport::Sse {
            let id = envelope.id.expect("an id");
            assert!(id.starts_with("latest,") && id.ends_with(&position), "{id}");
        }
        delete(&server, c);
        assert_eq!(subscriber.news(), end_of(c, &position));
        if transport == Transport::LongPolling {
            // A client between two polls misses an end.
            continue;
        }
        delete(&server, b);
        let received = subscriber.news();
        assert!(matches!(&received, Received::TopicEnd(topic, ..) if topic == b), "{received:?}");
        if transport != Transport::WebSocket {
            assert_eq!(subscriber.news(), close(transport, 4500, "ended", false));
        }
    }
}

/// A topic ends also for a client that never acks, and then no longer counts as a topic.
#[test]
fn a_subscriber_without_acks_does_not_delay_the_end() {
    let server = Server::start(&["--shards", "2", "--set", "limits.topics=1"]);
    let target = format!("/{TOPIC}?cursor=earliest&window=1KiB&interval=5m");
    let text = format!("\"{}\"", "x".repeat(900));
    let mut subscriber = server.subscribe(Transport::WebSocket, &target);
    subscriber.confirmed();
    for _ in 0..5 {
        server.post(TOPIC, "application/json", &text).published();
    }
    delete(&server, TOPIC);
    let mut received = 0;
    while received < 5 {
        received += subscriber.envelope().events.len();
    }
    assert!(matches!(subscriber.news(), Received::TopicEnd(..)));
    server.publish("another", 0..1);
}

#[test]
fn a_topic_that_is_made_at_the_same_time_lives_on() {
    let server = Server::start(&["--shards", "1"]);
    for round in 0..10 {
        let (old, new) = (format!("old/{round}"), format!("new/{round}"));
        server.publish(&old, 0..3);
        let mut socket = server.connect();
        let both = [
            request("DELETE", &format!("/v1/topics/{old}"), &[], b""),
            request("GET", &format!("/v1/topics/{new}"), &[("Accept", "text/event-stream")], b""),
        ];
        socket.send_if_open(both.concat());
        assert_eq!(socket.response().status, 204);
        assert_eq!(socket.response_head().status, 200);
        let position = server.publish(&new, 7..8).position;
        let mut received = String::new();
        while !received.contains(&position) {
            let frame = socket.until(b"\n\n", "an event").expect("an event");
            received.push_str(&String::from_utf8_lossy(&frame));
        }
        assert!(!received.contains("event:end"), "{received}");
    }
}

/// A connection subscribes to one topic of a name, in every order of events.
#[test]
fn commands_and_an_end_may_come_at_once() {
    let server = Server::start(&["--shards", "2"]);
    for _ in 0..20 {
        let mut subscriber = server.subscribe(Transport::WebSocket, &format!("/{TOPIC}"));
        subscriber.confirmed();
        let mut publisher = server.connect();
        kill_process(server.pid(), Signal::STOP).expect("stop the server");
        publisher.send_if_open(request("DELETE", &format!("/v1/topics/{TOPIC}"), &[], b""));
        for command in ["unsubscribe", "subscribe"] {
            subscriber.say(&format!(r#"{{"command":"{command}","topic":"{TOPIC}"}}"#));
        }
        kill_process(server.pid(), Signal::CONT).expect("let it go on");
        assert_eq!(publisher.response().status, 204);
        let mut refused = 0;
        let mut ends = 0;
        loop {
            match subscriber.news() {
                Received::Answer(answer) => refused += usize::from(answer.get("error").is_some()),
                Received::TopicEnd(..) => ends += 1,
                // This confirms the second subscription.
                Received::Envelope(_) => break,
                received => panic!("{received:?}"),
            }
        }
        // A client that has received the end cannot unsubscribe.
        assert_eq!(refused, ends);
        // This is the old topic, which ends, or the new one, which has this event.
        let published = server.publish(TOPIC, 5..6);
        match subscriber.news() {
            Received::Envelope(envelope) => assert_eq!(envelope.position, published.position),
            received => assert!(matches!(received, Received::TopicEnd(..)), "{received:?}"),
        }
        delete(&server, TOPIC);
    }
}

#[test]
fn a_value_topic_ends_after_its_newest_version() {
    let server = Server::start(&["--topic", "deleting/**,kind=value", "--shards", "2"]);
    for transport in Transport::ALL {
        let topic = format!("{TOPIC}/{transport:?}");
        let position = server.publish(&topic, 0..3).position;
        let mut subscriber = server.subscribe(transport, &format!("/{topic}?deltas=patch"));
        assert_eq!(subscriber.envelope().events.len(), 0);
        assert_eq!(subscriber.envelope().events, [2]);
        server.await_connections(1);
        delete(&server, &topic);
        assert_eq!(subscriber.news(), end_of(&topic, &position), "{transport:?}");
    }
}

#[test]
fn deleting_unknown_and_busy_topics_is_refused() {
    let server = Server::start(&["--source", "cars=dummy,interval=1ms", "--shards", "2"]);
    let refused = |target: &str, status, code| {
        server.ask("DELETE", target, &[], "").refused(status, code);
    };
    refused("/v1/topics/nothing", 404, "no_such_topic");
    refused("/v1/topics/cars", 409, "in_use");
    refused("/v1/topics/a//b", 400, "bad_topic");
    refused("/v1/topics", 405, "method_not_allowed");
    let server = Server::start(&PUBLISHER);
    server.ask("DELETE", "/v1/topics/cars", &[], "").refused(401, "unauthorized");
}
