//! The most keys of a topic, and the memory of all keys.

use serde_json::json;

use super::mirror::Mirror;
use crate::harness::Server;

const FEW: [&str; 2] = ["--topic", "few/**,kind=keyed,key=/id,keys=3"];

fn lines(server: &Server, topic: &str, ids: &[&str]) -> crate::harness::Response {
    let lines: String = ids.iter().map(|id| format!("{{\"id\":\"{id}\"}}\n")).collect();
    server.post(topic, "application/x-ndjson", lines)
}

#[test]
fn new_keys_above_the_limit_are_refused_and_no_others() {
    for shards in ["1", "2"] {
        let server = Server::start(&[&FEW[..], &["--shards", shards]].concat());
        for topic in ["few/a", "few/b"] {
            lines(&server, topic, &["a", "b", "c"]).published();
            let message = lines(&server, topic, &["d"]).refused(409, "too_many_keys");
            let expected = format!(
                "{topic} has reached its limit of 3 keys: remove some, or set keys to a larger number"
            );
            assert_eq!(message, expected);
            // Newer events of existing keys, several in one request.
            lines(&server, topic, &["a", "b", "a", "a", "c"]).published();
            let removed = server.ask("DELETE", &format!("/v1/topics/{topic}?key=b"), &[], "");
            assert_eq!(removed.status, 204);
            lines(&server, topic, &["d", "d", "a"]).published();
            lines(&server, topic, &["e"]).refused(409, "too_many_keys");
            // A removal makes room within the request that has it.
            let swapped = server.post(&format!("{topic}?key=d"), "application/json", "null");
            swapped.published();
            lines(&server, topic, &["b"]).published();
            let keys: Vec<String> = Mirror::read(&server, topic, 10).map.into_keys().collect();
            assert_eq!(keys, ["a", "b", "c"]);
        }
    }
}

#[test]
fn the_memory_of_keys_is_limited_and_state_stays() {
    let arguments = ["--topic", "k/**,kind=keyed", "--set", "limits.history-bytes=1MiB"];
    let server = Server::start(&arguments);
    let large = json!("x".repeat(40_000)).to_string();
    let put = |key: usize, body: &str| {
        server.post(&format!("k/{}?key={key}", key % 3), "application/json", body)
    };
    let mut count = 0;
    let message = loop {
        let answer = put(count, &large);
        if answer.status != 200 {
            break answer.refused(409, "too_many_keys");
        }
        count += 1;
        assert!(count < 100, "the memory has no limit");
    };
    assert_eq!(
        message,
        "the memory for keys is full: remove keys or topics, or set limits.history-bytes to a larger size"
    );
    assert!(count >= 8, "{count}");
    // Other topics push no key out of memory.
    for _ in 0..100 {
        server.post("log", "application/json", &large).published();
    }
    let keys = |topic: usize| Mirror::read(&server, &format!("k/{topic}"), 10_000).map.len();
    assert_eq!(keys(0) + keys(1) + keys(2), count);
    // Existing keys get newer events, smaller ones and as large ones.
    put(0, &large).published();
    put(1, "1").published();
    put(2, "null").published();
    // The server counts once a second, and has not counted at first.
    server.await_metric("thalweg_keys", |keys| keys == count as f64 - 1.0);
    put(count, &large).published();
    assert_eq!(keys(0) + keys(1) + keys(2), count);
}
