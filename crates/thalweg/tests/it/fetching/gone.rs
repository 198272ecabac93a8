//! Documents that do not exist, or no longer exist.

use std::time::Duration;

use serde_json::json;

use super::{SOON, serve};
use crate::harness::{Received, Reply, Subscriber, Transport, Upstream, wait_for};

/// Reads until a topic ends. Returns its last event and position, and the position of the end.
fn ended(
    subscriber: &mut Subscriber,
    topic: &str,
) -> (Option<(serde_json::Value, String)>, String) {
    let mut last = None;
    loop {
        match subscriber.next() {
            Received::Envelope(envelope) if envelope.topic == topic => {
                let event = envelope.events.last().cloned();
                last = event.map(|event| (event, envelope.position)).or(last);
            }
            Received::Envelope(_) | Received::Heartbeat => {}
            Received::TopicEnd(of, position, code) => {
                assert_eq!((&*of, &*code), (topic, "gone"));
                return (last, position);
            }
            received => panic!("{received:?}"),
        }
    }
}

#[test]
fn a_removed_document_ends_its_topic_after_the_last_version() {
    let upstream = Upstream::start(|asked| match asked.before {
        version if asked.path.ends_with("/other") || version < 2 => Reply::json("", &version),
        _ => Reply::with(410, "", ""),
    });
    for shards in ["1", "2"] {
        let server = serve(&upstream, SOON, &["--shards", shards]);
        // A polling client may be disconnected when the topic ends. Its next poll is for a new topic of the same name.
        for transport in
            Transport::ALL.into_iter().filter(|transport| *transport != Transport::LongPolling)
        {
            let [topic, other] =
                ["x", "other"].map(|name| format!("f/{shards}/{transport:?}/{name}"));
            let target = format!("?topic={topic}&topic={other}");
            let mut subscriber = server.subscribe(transport, &target);
            let (last, position) = ended(&mut subscriber, &topic);
            assert_eq!(last, Some((json!(1), position)), "{transport:?}");
            let now = upstream.asked(&format!("/{other}")).len() as u64;
            wait_for("another version of the other", || match subscriber.next() {
                Received::Envelope(envelope) if envelope.topic == other => {
                    envelope.events.last()?.as_u64().filter(|version| *version > now)
                }
                _ => None,
            });
            assert_eq!(upstream.asked(&format!("/{topic}")).len(), 3);
        }
    }
}

#[test]
fn a_missing_document_ends_its_topic_and_is_cached() {
    let upstream = Upstream::start(|asked| {
        let status = asked.path.rsplit('/').next().and_then(|status| status.parse().ok());
        Reply::with(status.expect("a status"), "", "")
    });
    let server = serve(&upstream, ",remember=1m", &["--shards", "2"]);
    let topics = ["f/400", "f/404", "f/410", "f/501"];
    for _ in 0..2 {
        for topic in topics {
            let mut socket = server.subscribe(Transport::WebSocket, &format!("/{topic}"));
            assert_eq!(ended(&mut socket, topic).0, None);
        }
    }
    for topic in topics {
        assert_eq!(upstream.asked(&format!("/{topic}")).len(), 1);
    }
    assert_eq!(server.metric("thalweg_upstream_gone_total"), 4.0);
    assert_eq!(server.metric("thalweg_upstream_gone_remembered_total"), 4.0);
}

#[test]
fn a_later_document_is_found_after_the_negative_cache_expires() {
    let upstream = Upstream::start(|asked| match asked.before {
        0 => Reply::with(404, "", ""),
        _ => Reply::json("", &"1"),
    });
    let server = serve(&upstream, ",remember=1s", &[]);
    loop {
        let mut socket = server.subscribe(Transport::WebSocket, "/f/x");
        socket.confirmed();
        match socket.next() {
            Received::TopicEnd(..) => {}
            Received::Envelope(envelope) => break assert_eq!(envelope.events, [json!(1)]),
            received => panic!("{received:?}"),
        }
    }
    let asked = upstream.asked("/f/x");
    assert!(asked[1].at - asked[0].at >= Duration::from_millis(900), "{asked:?}");
}
