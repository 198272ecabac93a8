//! Value topics: the newest version at once, then newer ones, whole or as patches, and no other message.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Gap, Received, Server, Subscriber, Transport, at, offset, wait_for};

const VALUES: [&str; 2] = ["--topic", "v/**,kind=value"];

/// A document with some members that never change, and one that does.
fn document(version: u64) -> Value {
    let players: Vec<Value> =
        (0..20).map(|id| json!({"id": id, "name": format!("player {id}"), "goals": 0})).collect();
    json!({"players": players, "version": version, "score": {"home": version / 2, "away": 0}})
}

fn publish(server: &Server, topic: &str, version: u64) -> String {
    let document = document(version).to_string();
    server.post(topic, "application/json", document).published().position
}

#[derive(Default)]
struct Replica {
    document: Value,
    offset: u64,
    patches: usize,
}

impl Replica {
    /// Applies the next version, which must follow the current one.
    fn next(&mut self, subscriber: &mut Subscriber) {
        let envelope = subscriber.envelope();
        assert_eq!(envelope.previous, Some(self.offset), "{}", envelope.text);
        assert_eq!(envelope.first, offset(&envelope.position), "{}", envelope.text);
        match envelope.patch {
            Some(patch) => {
                let patch: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
                json_patch::patch(&mut self.document, &patch).expect("a patch of this document");
                self.patches += 1;
            }
            None => {
                let [document] = &*envelope.events else { panic!("{}", envelope.text) };
                self.document = document.clone();
            }
        }
        self.offset = envelope.first;
    }

    fn until(&mut self, version: u64, subscriber: &mut Subscriber) {
        while self.document != document(version) {
            self.next(subscriber);
        }
    }
}

fn confirmed(subscriber: &mut Subscriber) -> Replica {
    let first = subscriber.envelope();
    let offset = offset(&first.position);
    assert_eq!((first.previous, first.first), (Some(offset), offset + 1), "{}", first.text);
    assert!(first.events.is_empty() && first.patch.is_none(), "{}", first.text);
    Replica { offset, ..Replica::default() }
}

#[test]
fn the_newest_version_comes_at_once_and_then_each_newer_one() {
    let server = Server::start(&VALUES);
    for transport in Transport::ALL {
        let topic = format!("v/{transport:?}");
        for version in 0..5 {
            publish(&server, &topic, version);
        }
        for cursor in ["", "?cursor=latest", "?cursor=earliest", "?cursor=1.7"] {
            let mut subscriber = server.subscribe(transport, &format!("/{topic}{cursor}"));
            let mut replica = confirmed(&mut subscriber);
            assert_eq!(replica.offset, 0);
            replica.next(&mut subscriber);
            assert_eq!((&replica.document, replica.offset), (&document(4), 5));
        }
        let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
        let mut replica = confirmed(&mut subscriber);
        replica.until(4, &mut subscriber);
        for version in 5..8 {
            publish(&server, &topic, version);
            replica.next(&mut subscriber);
            assert_eq!(replica.document, document(version));
        }
        assert_eq!(replica.patches, 0, "nobody asked for patches");
    }
}

#[test]
fn patches_are_sent_on_request() {
    for shards in ["1", "2"] {
        let server = Server::start(&[&VALUES[..], &["--shards", shards, "--compression"]].concat());
        for transport in Transport::ALL {
            let topic = format!("v/{transport:?}");
            publish(&server, &topic, 0);
            let mut subscriber = server.subscribe(transport, &format!("/{topic}?deltas=patch"));
            let mut whole = server.subscribe(transport, &format!("/{topic}?deltas=none"));
            let (mut replica, mut other) = (confirmed(&mut subscriber), confirmed(&mut whole));
            replica.until(0, &mut subscriber);
            other.until(0, &mut whole);
            for version in 1..20 {
                publish(&server, &topic, version);
                replica.until(version, &mut subscriber);
                other.until(version, &mut whole);
            }
            // A polling client is disconnected between polls. If that takes long on a busy machine, no patch is made.
            let least = if transport == Transport::LongPolling { 1 } else { 19 };
            assert!((least..=19).contains(&replica.patches), "{transport:?}: {}", replica.patches);
            assert_eq!(other.patches, 0);
        }
    }
}

/// A polling client is disconnected when a version arrives between two polls.
#[test]
fn patches_are_made_for_clients_between_two_polls() {
    let server = Server::start(&VALUES);
    let first = publish(&server, "v/polled", 0);
    let poll = |query: &str| {
        let target = format!("/v1/topics/v/polled?deltas=patch&wait=1s{query}");
        server.get(&target).text()
    };
    assert!(!poll("").contains("\"patch\""));
    publish(&server, "v/polled", 1);
    let second = poll(&format!("&cursor={}", at(&first, 1)));
    assert!(second.contains("\"patch\""), "{second}");
}

#[test]
fn a_position_goes_on_with_patches_as_long_as_there_are_some() {
    let server = Server::start(&VALUES);
    for transport in Transport::ALL {
        let topic = format!("v/{transport:?}");
        let first = publish(&server, &topic, 0);
        // The server makes patches while a subscriber uses them.
        let mut watching = server.subscribe(Transport::Sse, &format!("/{topic}?deltas=patch"));
        confirmed(&mut watching).until(0, &mut watching);
        for version in 1..4 {
            publish(&server, &topic, version);
        }
        let resume = |deltas: &str, offset: u64| {
            let cursor = at(&first, offset);
            let target = format!("/{topic}?cursor={cursor}&deltas={deltas}");
            let mut subscriber = server.subscribe(transport, &target);
            let mut replica = confirmed(&mut subscriber);
            assert_eq!(replica.offset, offset);
            replica.document = document(offset - 1);
            (replica, subscriber)
        };
        for offset in 1..4 {
            let (mut replica, mut subscriber) = resume("patch", offset);
            replica.next(&mut subscriber);
            assert_eq!((&replica.document, replica.offset, replica.patches), (&document(3), 4, 1));
            let (mut replica, mut subscriber) = resume("none", offset);
            replica.next(&mut subscriber);
            assert_eq!((&replica.document, replica.offset, replica.patches), (&document(3), 4, 0));
        }
        // A client with the newest version receives nothing until there is a newer one.
        let (mut replica, mut subscriber) = resume("patch", 4);
        publish(&server, &topic, 4);
        replica.next(&mut subscriber);
        assert_eq!((&replica.document, replica.offset), (&document(4), 5));
    }
}

#[test]
fn a_slow_client_gets_the_newest_version_only() {
    let server = Server::start(&VALUES);
    let mut slow = server.subscribe(Transport::WebSocket, "/v/t?window=1KiB");
    let mut replica = confirmed(&mut slow);
    publish(&server, "v/t", 0);
    replica.next(&mut slow);
    for version in 1..50 {
        publish(&server, "v/t", version);
    }
    let position = at(&publish(&server, "v/t", 50), replica.offset);
    slow.say(&json!({"command": "ack", "topic": "v/t", "position": position}).to_string());
    replica.next(&mut slow);
    assert_eq!((&replica.document, replica.offset), (&document(50), 51));
    let mut slow = server.subscribe(Transport::Sse, "/v/t?interval=300ms");
    let mut replica = confirmed(&mut slow);
    replica.next(&mut slow);
    let begun = Instant::now();
    for version in 51..60 {
        publish(&server, "v/t", version);
    }
    let mut came = 0;
    while replica.offset < 60 {
        replica.next(&mut slow);
        came += 1;
    }
    // Publishing may take longer than the interval.
    let intervals = begun.elapsed().as_millis() / 300;
    assert!(came <= 1 + intervals, "{came} versions in {intervals} intervals");
    assert_eq!(replica.document, document(59));
}

#[test]
fn one_connection_has_topics_of_both_kinds() {
    let server = Server::start(&VALUES);
    publish(&server, "v/t", 0);
    for transport in Transport::ALL {
        let log = format!("{transport:?}");
        let target = format!("?topic=v/t&topic={log}&deltas=patch");
        let mut subscriber = server.subscribe(transport, &target);
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let envelope = subscriber.envelope();
            seen.push((envelope.topic, envelope.previous, envelope.events.len()));
        }
        seen.sort();
        let mut expected =
            vec![(log.clone(), None, 0), ("v/t".into(), Some(0), 0), ("v/t".into(), Some(0), 1)];
        expected.sort();
        assert_eq!(seen, expected);
        server.publish(&log, 0..2);
        assert_eq!(subscriber.numbers(2).0, [0, 1]);
    }
}

#[test]
fn a_document_that_cannot_be_patched_comes_whole() {
    let server = Server::start(&VALUES);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/v/t?deltas=patch");
    confirmed(&mut subscriber);
    let pad = "x".repeat(500);
    let mut previous = 0;
    for number in ["1", "123456789012345678901234567890", "2", "3"] {
        let document = format!(r#"{{"n":{number},"pad":"{pad}"}}"#);
        server.post("v/t", "application/json", &document).published();
        let envelope = subscriber.envelope();
        assert_eq!(envelope.previous, Some(previous));
        previous = envelope.first;
        let is_whole = envelope.text.contains(&format!(r#""events":[{document}]"#));
        assert_eq!(is_whole, number != "3", "{}", envelope.text);
    }
}

#[test]
fn the_newest_version_of_a_value_topic_is_read() {
    let server = Server::start(&VALUES);
    for version in 0..3 {
        publish(&server, "v/t", version);
    }
    let page = server.get("/v1/topics/v/t?limit=10").json();
    assert_eq!((&page["first"], &page["events"]), (&json!(3), &json!([document(2)])));
    let listed = server.get("/v1/topics").json();
    assert_eq!(listed["topics"][0]["events"], json!(1));
}

#[test]
fn an_unknown_kind_of_deltas_is_refused() {
    let server = Server::start(&[]);
    let refused =
        server.ask("GET", "/v1/topics/t?deltas=diff", &[("Accept", "text/event-stream")], "");
    let message = refused.refused(400, "bad_parameter");
    assert!(message.contains("\"patch\"") || message.contains("patch, none"), "{message}");
}

#[test]
fn a_new_life_of_a_topic_is_no_gap() {
    let mut server = Server::start(&VALUES);
    let before = publish(&server, "v/t", 7);
    server.terminate();
    server.exit();
    let server = Server::start(&VALUES);
    publish(&server, "v/t", 8);
    for transport in Transport::ALL {
        let target = format!("/v/t?cursor={before}&deltas=patch");
        let mut subscriber = server.subscribe(transport, &target);
        assert!(matches!(subscriber.next(), Received::Envelope(_)));
        let mut replica = Replica::default();
        replica.next(&mut subscriber);
        assert_eq!((&replica.document, replica.offset), (&document(8), 1));
    }
}

fn unknown(topic: &str, position: &str) -> Received {
    let (topic, position) = (topic.to_owned(), position.to_owned());
    Received::Gap(Gap { topic, position, missed: None, reason: "unknown".to_owned() })
}

/// A server that restarted, or whose topic was made again, has no version: a client with an older one learns that once.
#[test]
fn a_subscriber_with_a_version_that_is_gone_is_told_that_the_value_is_unknown() {
    let before = Server::start(&VALUES);
    let position = publish(&before, "v/t", 7);
    drop(before);
    for shards in ["1", "2"] {
        let server = Server::start(&[&VALUES[..], &["--shards", shards]].concat());
        let http2 = server.http2();
        let one_way =
            Transport::ALL.into_iter().filter(|transport| *transport != Transport::WebSocket);
        let ways = Transport::ALL.into_iter().map(|transport| (transport, false));
        for (index, (transport, is_http2)) in
            ways.chain(one_way.map(|transport| (transport, true))).enumerate()
        {
            let topic = format!("v/{index}");
            let target = format!("/{topic}?cursor={position}&deltas=patch");
            let mut subscriber = match is_http2 {
                true => http2.subscribe(transport, &target),
                false => server.subscribe(transport, &target),
            };
            let Received::Gap(gap) = subscriber.next() else { panic!("{transport:?}: no gap") };
            assert_eq!(Received::Gap(gap.clone()), unknown(&topic, &gap.position));
            assert_eq!(offset(&gap.position), 0, "{transport:?}: it has no version");
            assert_ne!(gap.position.split_once('.'), position.split_once('.'));
            // The next version is sent whole: the server has no earlier version for a patch.
            publish(&server, &topic, 8);
            let mut replica = Replica::default();
            replica.next(&mut subscriber);
            assert_eq!((&replica.document, replica.patches), (&document(8), 0), "{transport:?}");
            publish(&server, &topic, 9);
            replica.next(&mut subscriber);
            assert_eq!((&replica.document, replica.offset), (&document(9), 2), "{transport:?}");
            // If there is a version it is sent, and nothing is unknown.
            let mut late = server.subscribe(transport, &target);
            let mut replica = confirmed(&mut late);
            replica.next(&mut late);
            assert_eq!(replica.document, document(9));
        }
        let told = Transport::ALL.len() as u64 * 2 - 1;
        wait_for("what was told to be counted", || {
            (server.count("thalweg_gaps_unknown_total") == told).then_some(())
        });
    }
}

#[test]
fn a_client_without_a_version_gets_no_unknown_gap() {
    let server = Server::start(&VALUES);
    for transport in Transport::ALL {
        let topic = format!("v/{transport:?}");
        let mut first = server.subscribe(transport, &format!("/{topic}"));
        let replica = confirmed(&mut first);
        assert_eq!(replica.offset, 0);
        // The client was confirmed before, but has no version that could be outdated.
        let mut second = server.subscribe(transport, &format!("/{topic}?cursor=1.0"));
        confirmed(&mut second);
        publish(&server, &topic, 1);
        for subscriber in [&mut first, &mut second] {
            let mut replica = Replica::default();
            replica.next(subscriber);
            assert_eq!(replica.document, document(1));
        }
    }
    assert_eq!(server.count("thalweg_gaps_unknown_total"), 0);
}

#[test]
fn a_topic_that_was_deleted_and_recreated_is_unknown_after_a_reconnect() {
    let server = Server::start(&VALUES);
    let log = server.publish("log", 0..3).position;
    for transport in Transport::ALL {
        let topic = format!("v/{transport:?}");
        let position = publish(&server, &topic, 1);
        assert_eq!(server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "").status, 204);
        // The other topic is a log that continues.
        let target = format!("?topic=log&topic={topic}&cursor={log}&cursor={position}");
        let mut subscriber = server.subscribe(transport, &target);
        let gap = loop {
            match subscriber.next() {
                Received::Gap(gap) => break gap,
                Received::Envelope(envelope) => assert_eq!(envelope.topic, "log"),
                other => panic!("{transport:?}: {other:?}"),
            }
        };
        assert_eq!(Received::Gap(gap.clone()), unknown(&topic, &gap.position));
        let page = server.get(&format!("/v1/topics/{topic}?limit=1&cursor={position}")).json();
        assert_eq!(page["gap"], json!({"missed": null, "reason": "unknown"}));
        assert_eq!((&page["events"], &page["head"]), (&json!([]), &json!(gap.position)));
        publish(&server, &topic, 2);
        let page = server.get(&format!("/v1/topics/{topic}?limit=1&cursor={position}")).json();
        assert_eq!((&page["gap"], &page["events"]), (&Value::Null, &json!([document(2)])));
    }
}

/// A topic that was a value topic, and is a log of the restarted server, has a gap like any log.
#[test]
fn a_version_of_a_former_value_topic_is_a_gap() {
    let before = Server::start(&VALUES);
    let position = publish(&before, "v/t", 7);
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/v/t?cursor={position}"));
    assert_eq!(subscriber.gap().reason, "epoch");
}
