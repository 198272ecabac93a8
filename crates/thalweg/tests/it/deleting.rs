//! Topics that end: whoever reads one is told so, after everything that it had.

use crate::harness::{Heard, Server, Subscriber, Transport, close, offset};

const TOPIC: &str = "deleting/it";

fn delete(server: &Server, topic: &str) {
    let answer = server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "");
    assert_eq!((answer.status, answer.text().as_str()), (204, ""));
}

/// What comes next, but for heartbeats.
fn next(subscriber: &mut Subscriber) -> Heard {
    loop {
        match subscriber.next() {
            Heard::Heartbeat => {}
            heard => return heard,
        }
    }
}

fn end_of(topic: &str, position: &str) -> Heard {
    Heard::TopicEnd(topic.to_owned(), position.to_owned(), "deleted".to_owned())
}

#[test]
fn its_subscribers_are_told_after_its_last_event() {
    // A batch that is still open would wait for an hour.
    let settings = ["--topic", "deleting/**,flush=1h"];
    for shards in ["1", "2"] {
        let server = Server::start(&[&settings[..], &["--shards", shards]].concat());
        for transport in Transport::ALL {
            let topic = format!("{TOPIC}/{transport:?}");
            let target = format!("/{topic}");
            let mut subscribers: Vec<_> =
                (0..4).map(|_| server.subscribe(transport, &target)).collect();
            subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
            let position = server.publish(&topic, 0..3).position;
            delete(&server, &topic);
            for subscriber in &mut subscribers {
                assert_eq!(subscriber.numbers(3), (vec![0, 1, 2], position.clone()));
                assert_eq!(next(subscriber), end_of(&topic, &position), "{transport:?}");
                if transport != Transport::WebSocket {
                    assert_eq!(next(subscriber), close(transport, 4500, "ended", false));
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
        // Who was away when it ended learns it from the epoch.
        let mut late =
            server.subscribe(Transport::Sse, &format!("/{TOPIC}?cursor={}", before.position));
        assert_eq!(late.gap().reason, "epoch");
        assert_eq!(late.numbers(1), (vec![10], after.position.clone()));
        // Who was there hears the end, and may subscribe again.
        assert_eq!(subscriber.numbers(3).0, [0, 1, 2]);
        assert_eq!(next(&mut subscriber), end_of(TOPIC, &before.position));
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
        delete(&server, a);
        let heard = next(&mut subscriber);
        assert!(matches!(&heard, Heard::TopicEnd(topic, ..) if topic == a), "{heard:?}");
        let position = server.publish(c, 7..8).position;
        let envelope = subscriber.envelope();
        assert_eq!((&envelope.topic, &envelope.position), (c, &position), "{}", envelope.text);
        if transport == Transport::Sse {
            let id = envelope.id.expect("an id");
            assert!(id.starts_with("latest,") && id.ends_with(&position), "{id}");
        }
        delete(&server, c);
        assert_eq!(next(&mut subscriber), end_of(c, &position));
        if transport == Transport::LongPolling {
            // Who is between two polls misses an end.
            continue;
        }
        delete(&server, b);
        let heard = next(&mut subscriber);
        assert!(matches!(&heard, Heard::TopicEnd(topic, ..) if topic == b), "{heard:?}");
        if transport != Transport::WebSocket {
            assert_eq!(next(&mut subscriber), close(transport, 4500, "ended", false));
        }
    }
}

#[test]
fn who_is_behind_acks_on_until_the_end() {
    let server = Server::start(&["--shards", "2"]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "");
    let command = format!(
        r#"{{"command":"subscribe","topic":"{TOPIC}","cursor":"earliest","window":"1KiB"}}"#
    );
    assert!(subscriber.command(&command).get("answer").is_some());
    subscriber.confirmed();
    let text = format!("\"{}\"", "x".repeat(900));
    let published: Vec<_> = (0..5)
        .map(|_| server.post(TOPIC, "application/json", &text).published().position)
        .collect();
    delete(&server, TOPIC);
    // Another topic of this name, which the acks do not mean.
    server.publish(TOPIC, 0..3);
    for (place, position) in published.iter().enumerate() {
        let envelope = subscriber.envelope();
        assert_eq!(&envelope.position, position);
        if place == 0 {
            let again = subscriber.command(&command);
            assert_eq!(again["error"]["code"], "already_subscribed");
        }
        let ack = format!(r#"{{"command":"ack","topic":"{TOPIC}","position":"{position}"}}"#);
        subscriber.say(&ack);
    }
    assert_eq!(next(&mut subscriber), end_of(TOPIC, &published[4]));
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
        delete(&server, &topic);
        assert_eq!(next(&mut subscriber), end_of(&topic, &position), "{transport:?}");
    }
}

#[test]
fn what_cannot_be_deleted_is_refused() {
    let server = Server::start(&["--source", "cars=dummy,interval=1ms", "--shards", "2"]);
    let refused = |target: &str, status, code| {
        server.ask("DELETE", target, &[], "").refused(status, code);
    };
    refused("/v1/topics/nothing", 404, "no_such_topic");
    refused("/v1/topics/cars", 409, "in_use");
    refused("/v1/topics/a//b", 400, "bad_topic");
    refused("/v1/topics", 405, "method_not_allowed");
    let server = Server::start(&["--publish-token", "publish-secret-1234567890"]);
    server.ask("DELETE", "/v1/topics/cars", &[], "").refused(401, "unauthorized");
}
