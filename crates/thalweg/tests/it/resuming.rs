//! Resuming at a cursor: no event is lost or repeated without a gap.

use crate::harness::{
    Gap, Received, Server, Subscriber, Transport, at, chunk, close, offset, request,
};

const NUMBERS: u64 = 10;

fn gap(topic: &str, position: &str, missed: Option<u64>, reason: &str) -> Gap {
    let (topic, position) = (topic.to_owned(), position.to_owned());
    Gap { topic, position, missed, reason: reason.to_owned() }
}

#[test]
fn a_position_resumes_after_it_also_in_the_middle_of_a_batch() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..NUMBERS).position;
    for transport in Transport::ALL {
        for offset in 0..=NUMBERS {
            let cursor = at(&head, offset);
            let mut subscriber = server.subscribe(transport, &format!("/t?cursor={cursor}"));
            assert_eq!(subscriber.confirmed(), cursor);
            let expected: Vec<u64> = (offset..NUMBERS).collect();
            if !expected.is_empty() {
                assert_eq!(subscriber.numbers(expected.len()), (expected, head.clone()));
            }
        }
    }
}

#[test]
fn the_last_event_id_wins_over_the_cursor() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..NUMBERS).position;
    let id = at(&head, 7);
    for transport in Transport::ALL {
        let headers = [("Last-Event-ID", id.as_str())];
        let mut subscriber = server.subscribe_with(transport, "/t?cursor=earliest", &headers);
        assert_eq!(subscriber.confirmed(), id);
        assert_eq!(subscriber.numbers(3).0, [7, 8, 9]);
    }
}

#[test]
fn the_position_of_the_first_envelope_is_enough_to_resume() {
    let server = Server::start(&[]);
    for transport in Transport::ALL {
        let topic = format!("{transport:?}");
        let position = server.subscribe(transport, &format!("/{topic}")).confirmed();
        server.publish(&topic, 0..3);
        let target = format!("/{topic}?cursor={position}");
        let mut subscriber = server.subscribe(transport, &target);
        subscriber.confirmed();
        assert_eq!(subscriber.numbers(3).0, [0, 1, 2]);
    }
}

/// A topic that never had an event has nothing to lose except the positions at which its clients resume.
#[test]
fn an_empty_topic_outlives_its_readers_for_a_while() {
    let server = Server::start(&[]);
    let position = server.subscribe(Transport::LongPolling, "/empty").confirmed();
    let mut other = server.subscribe(Transport::Sse, "/other");
    other.confirmed();
    // The sweep that counts topics has found that the first one has no subscriber.
    server.await_metric("thalweg_topics", |topics| topics == 2.0);
    server.publish("empty", 0..3);
    let target = format!("/empty?cursor={position}");
    let mut subscriber = server.subscribe(Transport::LongPolling, &target);
    subscriber.confirmed();
    assert_eq!(subscriber.numbers(3).0, [0, 1, 2]);

    drop(server.subscribe(Transport::LongPolling, "/forgotten").confirmed());
    server.await_metric("thalweg_subscribed_topics", |topics| topics == 2.0);
    server.await_metric("thalweg_subscribed_topics", |topics| topics == 1.0);
}

/// If topics without events take half of their allowed number, those without subscribers are removed at once.
#[test]
fn an_empty_topic_gives_way_where_there_are_many() {
    let server = Server::start(&["--set", "limits.subscribed-topics=4"]);
    let position = server.subscribe(Transport::LongPolling, "/empty").confirmed();
    let mut other = server.subscribe(Transport::Sse, "/other");
    other.confirmed();
    // A sweep counts topics, then removes some.
    server.await_metric("thalweg_topics", |topics| topics == 2.0);
    server.publish("empty", 0..3);
    let mut subscriber =
        server.subscribe(Transport::LongPolling, &format!("/empty?cursor={position}"));
    assert_eq!(subscriber.gap().reason, "epoch");
    assert_eq!(subscriber.numbers(3).0, [0, 1, 2]);
}

#[test]
fn a_position_of_another_epoch_is_a_gap_of_unknown_size() {
    let server = Server::start(&[]);
    let head = server.publish("t", 0..NUMBERS).position;
    for transport in Transport::ALL {
        for cursor in ["1.4", "1.4000"] {
            let mut subscriber = server.subscribe(transport, &format!("/t?cursor={cursor}"));
            assert_eq!(subscriber.gap(), gap("t", &at(&head, 0), None, "epoch"));
            let expected: Vec<u64> = (0..NUMBERS).collect();
            assert_eq!(subscriber.numbers(expected.len()).0, expected);
        }
    }
}

#[test]
fn a_position_ahead_of_the_head_waits_for_it() {
    let server = Server::start(&[]);
    for transport in Transport::ALL {
        let topic = format!("{transport:?}");
        let head = server.publish(&topic, 0..3).position;
        let ahead = at(&head, 5);
        let mut subscriber = server.subscribe(transport, &format!("/{topic}?cursor={ahead}"));
        assert_eq!(subscriber.confirmed(), ahead);
        server.publish(&topic, 3..4);
        server.publish(&topic, 4..5);
        server.publish(&topic, 5..6);
        assert_eq!(subscriber.numbers(1).0, [5]);
        server.publish(&topic, 6..8);
        assert_eq!(subscriber.numbers(2).0, [6, 7]);
    }
}

#[test]
fn a_position_ahead_may_be_passed_within_a_batch() {
    let server = Server::start(&[]);
    for transport in Transport::ALL {
        let topic = format!("{transport:?}");
        let head = server.publish(&topic, 0..3).position;
        let target = format!("/{topic}?cursor={}", at(&head, 5));
        let mut subscriber = server.subscribe(transport, &target);
        subscriber.confirmed();
        server.publish(&topic, 3..8);
        assert_eq!(subscriber.numbers(3).0, [5, 6, 7]);
    }
}

/// Returns a server with a short history, and the position before the first event.
fn trimmed() -> (Server, String) {
    let server = Server::start(&["--topic", "**,history-bytes=64KiB"]);
    let line = format!("\"{}\"\n", "x".repeat(1000));
    for _ in 0..20 {
        server.post("t", "application/x-ndjson", line.repeat(20)).published();
    }
    let head = server.publish("t", 0..0).position;
    (server, at(&head, 0))
}

#[test]
fn a_position_older_than_the_history_is_a_gap_of_known_size() {
    let (server, start) = trimmed();
    for transport in Transport::ALL {
        for policy in ["skip", "latest"] {
            let target = format!("/t?cursor={start}&policy={policy}");
            let mut subscriber = server.subscribe(transport, &target);
            let gap = subscriber.gap();
            assert_eq!(gap.reason, "trimmed");
            assert_eq!(gap.missed, Some(offset(&gap.position)));
            assert!(offset(&gap.position) > 300, "{gap:?}");
            assert_eq!(subscriber.envelope().first, offset(&gap.position) + 1);
        }
    }
}

/// Over every transport the topic ends for a client that allows no gap: it must not request the same position forever.
#[test]
fn policy_close_ends_a_topic_whose_events_are_gone() {
    let (server, start) = trimmed();
    let target = format!("/t?cursor={start}&policy=close");
    let check = |mut subscriber: Subscriber, transport: Transport| {
        let end = Received::TopicEnd("t".into(), start.clone(), "trimmed".into());
        assert_eq!(subscriber.next(), end, "{transport:?}");
        if transport != Transport::WebSocket {
            assert_eq!(subscriber.next(), close(transport, 4500, "ended", false));
        }
    };
    for transport in Transport::ALL {
        check(server.subscribe(transport, &target), transport);
    }
    let http2 = server.http2();
    for transport in
        Transport::ALL.into_iter().filter(|transport| *transport != Transport::WebSocket)
    {
        check(http2.subscribe(transport, &target), transport);
    }
    let mut socket = server.subscribe(Transport::WebSocket, "");
    let asked = format!(
        r#"{{"command":"subscribe","id":1,"topic":"t","cursor":"{start}","policy":"close"}}"#
    );
    assert_eq!(socket.command(&asked)["answer"]["id"], 1);
    assert_eq!(socket.next(), Received::TopicEnd("t".into(), start.clone(), "trimmed".into()));
    // The connection stays open, and the client can subscribe to the topic again.
    let again = r#"{"command":"subscribe","id":2,"topic":"t","policy":"close"}"#;
    assert_eq!(socket.command(again)["answer"]["id"], 2);
}

#[test]
fn policy_close_ends_one_topic_and_the_others_go_on() {
    let (server, start) = trimmed();
    server.publish("u", 0..3);
    let target = format!("?topic=t&topic=u&cursor={start}&cursor=earliest&policy=close");
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, &target);
        let (mut ends, mut numbers) = (0, Vec::new());
        while ends == 0 || numbers.len() < 3 {
            match subscriber.next() {
                Received::TopicEnd(topic, position, code) => {
                    assert_eq!((topic.as_str(), code.as_str()), ("t", "trimmed"));
                    assert_eq!(position, start);
                    ends += 1;
                }
                Received::Envelope(envelope) => {
                    assert_eq!(envelope.topic, "u");
                    numbers.extend(envelope.events);
                }
                other => panic!("{transport:?}: {other:?}"),
            }
        }
        assert_eq!(numbers, [0, 1, 2], "{transport:?}");
    }
}

/// An EventSource reconnects after each end of its stream, with the last id. Only a status other than 200 prevents that.
#[test]
fn an_event_source_that_returns_where_nothing_can_come_is_ended() {
    let (server, start) = trimmed();
    server.publish("u", 0..3);
    let http2 = server.http2();
    let status = |target: &str, id: &str| {
        let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", id)];
        let mut socket = server.connect();
        socket.send(request("GET", target, &headers, b""));
        let first = socket.response_head().status;
        let second = http2.start("GET", target, &headers, b"").response_head().status;
        assert_eq!(first, second, "{target} {id}");
        first
    };
    assert_eq!(status("/v1/topics/t?policy=close", &start), 204);
    assert_eq!(status("/v1/topics/t?policy=skip", &start), 200);
    let newest = server.publish("t", 0..1).position;
    assert_eq!(status("/v1/topics/t?policy=close", &newest), 200);
    let both = "/v1/topics?topic=t&topic=u&policy=close";
    assert_eq!(status(both, &format!("{start},{start}")), 200, "the other one is not lost");
    assert_eq!(status(both, &format!("{start},earliest")), 200);
    // The end has the position, so that the same answer follows a reconnect.
    let target = format!("/t?cursor={start}&policy=close");
    let mut socket = server.connect();
    let accept = [("Accept", "text/event-stream")];
    socket.send(request("GET", &format!("/v1/topics{target}"), &accept, b""));
    assert_eq!(socket.response_head().status, 200);
    let body = String::from_utf8(socket.rest("the end of the stream")).expect("UTF-8");
    assert!(body.contains(r#""code":"trimmed""#), "{body}");
    assert!(body.contains(&format!("id:{start}\n")), "{body}");
}

#[test]
fn earliest_begins_where_the_history_does_without_a_gap() {
    let (server, _) = trimmed();
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "/t?cursor=earliest");
        let position = subscriber.confirmed();
        assert!(offset(&position) > 300, "{position}");
        assert_eq!(subscriber.envelope().first, offset(&position) + 1);
    }
}

#[test]
fn switching_the_transport_loses_and_repeats_nothing() {
    const TOTAL: u64 = 3_000;
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/hop");
    let mut position = subscriber.confirmed();
    let mut publisher = server.connect();
    publisher.send(
        "POST /v1/topics/hop HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..TOTAL {
                publisher.send(chunk(&format!("{number}\n")));
            }
            publisher.send(chunk(""));
            assert_eq!(publisher.response().published().count, TOTAL);
        });
        let mut expected = 0;
        for transport in Transport::ALL.into_iter().cycle() {
            // Each client receives two envelopes, and disconnects in the middle of the stream.
            let mut subscriber = server.subscribe(transport, &format!("/hop?cursor={position}"));
            assert_eq!(subscriber.confirmed(), position);
            for _ in 0..2 {
                let envelope = subscriber.envelope();
                for event in envelope.events {
                    assert_eq!(event.as_u64(), Some(expected), "over {transport:?}");
                    expected += 1;
                }
                position = envelope.position;
                if expected == TOTAL {
                    return;
                }
            }
        }
    });
}
