use serde_json::json;

use crate::harness::{Raw, Received, Transport, ticking, unharmed, wait_for};

#[test]
fn subscriptions_beyond_the_limit_are_refused() {
    let server = ticking(&["--set", "limits.subscriptions-per-connection=3"]);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        let target = "/v1/topics?topic=a&topic=b&topic=c&topic=d";
        raw.ask("GET", target, &[("Accept", "text/event-stream")], "");
        raw.answer().refused(400, "too_many_topics");
        let mut socket = server.subscribe(Transport::WebSocket, "?topic=a&topic=b");
        let subscribe = |topic| format!(r#"{{"command":"subscribe","id":1,"topic":"{topic}"}}"#);
        assert_eq!(socket.command(&subscribe("c"))["answer"]["topic"], "c");
        let answer = socket.command(&subscribe("d"));
        assert_eq!(answer["error"]["code"], "too_many_topics", "{answer}");
        assert_eq!(server.get("/v1/topics/d?limit=1").status, 404, "it was refused, not made");
        let answer = socket.command(r#"{"command":"unsubscribe","id":1,"topic":"a"}"#);
        assert_eq!(answer, json!({"answer": {"id": 1, "topic": "a"}}));
        assert_eq!(socket.command(&subscribe("d"))["answer"]["topic"], "d");
    });
    server.has_refused("too_many_topics", 2);
}

/// Each topic is far below its own bounds, but all together are not.
#[test]
fn all_histories_together_are_bounded() {
    const TOPICS: u64 = 128;
    const EVENT_BYTES: u64 = 10_000;
    const EVENTS: u64 = 100;
    const BOUND: u64 = 4 << 20;
    let server =
        ticking(&["--set", "limits.history-bytes=4MiB", "--topic", "**,history-bytes=8MiB"]);
    let before = server.memory();
    let body = format!("\"{}\"\n", "x".repeat(EVENT_BYTES as usize)).repeat(EVENTS as usize);
    let positions: Vec<String> = unharmed(&server, || {
        let publish = |topic| server.post(&format!("full/{topic}"), "application/x-ndjson", &body);
        (0..TOPICS).map(|topic| publish(topic).published().position).collect()
    });
    wait_for("the gauge", || (server.count("thalweg_history_bytes") > BOUND / 2).then_some(()));
    // The total may exceed the bound by one batch, and by the ticking topic.
    let retained = server.count("thalweg_history_bytes");
    assert!(retained < 2 * BOUND, "{retained} of {}", TOPICS * EVENTS * EVENT_BYTES);
    let grown = server.memory().saturating_sub(before);
    // The limit is half of what was published: an allocator keeps much of the memory of bodies.
    assert!(grown < 64 << 20, "{grown} bytes more than before");
    // Missing events are announced.
    let mut missed = 0;
    for (topic, position) in positions.iter().enumerate() {
        let (epoch, _) = position.split_once('.').expect("a position");
        let target = format!("/full/{topic}?cursor={epoch}.0");
        let mut resumed = server.subscribe(Transport::HttpStreaming, &target);
        missed += match resumed.next() {
            Received::Gap(gap) if gap.reason == "trimmed" => gap.missed.expect("a known size"),
            // The topic retained no event and was removed.
            Received::Gap(gap) if gap.reason == "epoch" => EVENTS,
            Received::Envelope(envelope) if envelope.first == 1 => 0,
            other => panic!("{other:?}"),
        };
    }
    let kept = BOUND / EVENT_BYTES;
    assert!(missed >= TOPICS * EVENTS - 2 * kept, "{missed}");
}

/// The copies of other shards are batches that the topics retain as well.
#[test]
fn all_histories_together_are_bounded_on_several_shards() {
    const TOPICS: u64 = 16;
    let server = ticking(&[
        "--set",
        "limits.history-bytes=4MiB",
        "--topic",
        "**,history-bytes=8MiB",
        "--shards",
        "2",
    ]);
    // The readers are on both shards, so that one of them is not the owner.
    let mut readers = Vec::new();
    for topic in 0..TOPICS {
        for _ in 0..2 {
            let mut reader = server.subscribe(Transport::Sse, &format!("/full/{topic}"));
            reader.confirmed();
            readers.push(reader);
        }
    }
    let body = format!("\"{}\"\n", "x".repeat(10_000)).repeat(10);
    for _ in 0..20 {
        for topic in 0..TOPICS {
            server.post(&format!("full/{topic}"), "application/x-ndjson", &body).published();
        }
    }
    wait_for("the gauge", || (server.count("thalweg_history_bytes") > 2 << 20).then_some(()));
    let retained = server.count("thalweg_history_bytes");
    assert!(retained < 8 << 20, "{retained}");
}

#[test]
fn idempotency_keys_are_forgotten_by_number_and_by_time() {
    let server =
        ticking(&["--set", "limits.idempotency-keys=2", "--set", "limits.idempotency-window=1s"]);
    let publish = |key: &str| {
        let mut raw = Raw::connect(server.address);
        raw.ask("POST", "/v1/topics/once", &[("Idempotency-Key", key)], "1");
        let answer = raw.answer();
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.head.contains("\r\nidempotency-replayed: true\r\n")
    };
    unharmed(&server, || {
        assert!(!publish("a") && publish("a"), "the second is a replay");
        // Two newer keys replace it.
        assert!(!publish("b") && !publish("c") && !publish("a"));
        wait_for("it to be forgotten", || (!publish("c")).then_some(()));
    });
}
