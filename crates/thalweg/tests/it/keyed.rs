//! Keyed topics: the newest event of each key at once, then changes.
//!
//! - `mirror`: the map of a subscriber
//! - `publishing`: keys, conditions and refusals
//! - `filters`: subscribers, readers and rights of some keys
//! - `how_to`: the page docs/how-to/keyed.md
//! - `limits`: the most keys, and their memory
//! - `random`: publishers and clients that are cut off
//! - `restarts`: the same, while the server is killed and reads its data directory again
//! - `states`: queries whose rows have keys
//! - `stored`: keys in a data directory
//! - `storms`: many keys expire, keys come and go, and many members join

mod filters;
mod how_to;
mod limits;
pub(crate) mod mirror;
pub(crate) mod publishing;
pub(crate) mod random;
mod restarts;
mod states;
mod stored;
mod storms;

use serde_json::{Value, json};

use crate::harness::{Received, Reply, Server, Subscriber, Transport, Upstream, at, offset};
use mirror::{Map, Mirror};

/// Topics with a key in each event, and topics whose publishers name it.
const KEYED: [&str; 4] =
    ["--topic", "users/**,kind=keyed,key=/id", "--topic", "rooms/**,kind=keyed"];

/// Enough that each shard has some.
const CONNECTIONS: usize = 8;

fn start(shards: &str, more: &[&str]) -> Server {
    Server::start(&[&KEYED[..], &["--shards", shards], more].concat())
}

fn user(id: u64, version: u64) -> Value {
    json!({"id": format!("u{id}"), "version": version, "name": "x".repeat(60)})
}

/// Publishes versions of users, and adds them to the expected state. Returns the position.
fn publish(server: &Server, topic: &str, users: &[(u64, u64)], state: &mut Map) -> String {
    let mut lines = String::new();
    for (id, version) in users {
        let event = user(*id, *version);
        lines += &format!("{event}\n");
        state.insert(format!("u{id}"), event);
    }
    server.post(topic, "application/x-ndjson", lines).published().position
}

/// Removes users, by their keys and by an event.
fn remove(server: &Server, topic: &str, ids: &[u64], state: &mut Map) -> String {
    let mut position = String::new();
    for id in ids {
        let target = format!("{topic}?key=u{id}");
        if id % 2 == 0 {
            let removed = server.ask("DELETE", &format!("/v1/topics/{target}"), &[], "");
            assert_eq!(removed.status, 204, "{}", removed.text());
            position = server.get(&format!("/v1/topics/{topic}?limit=1")).json()["head"]
                .as_str()
                .expect("a position")
                .to_owned();
        } else {
            position = server.post(&target, "application/json", "null").published().position;
        }
        state.remove(&format!("u{id}"));
    }
    position
}

#[test]
fn a_subscriber_gets_the_state_and_then_changes_and_resumes_with_changes_only() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let http2 = server.http2();
        for transport in Transport::ALL {
            let topic = format!("users/{transport:?}");
            let mut state = Map::new();
            publish(&server, &topic, &(0..300).map(|id| (id, 0)).collect::<Vec<_>>(), &mut state);
            publish(&server, &topic, &[(7, 1), (7, 2), (8, 1)], &mut state);
            let removed = remove(&server, &topic, &[9, 10], &mut state);
            let open = |connection: usize, query: &str| {
                let target = format!("/{topic}{query}");
                match connection % 2 == 1 && transport != Transport::WebSocket {
                    true => http2.subscribe(transport, &target),
                    false => server.subscribe(transport, &target),
                }
            };
            let mut clients: Vec<(Mirror, Subscriber)> = Vec::new();
            for connection in 0..CONNECTIONS {
                // A topic without an older state sends all of it, whatever the start.
                let query = ["", "?cursor=latest", "?newest=1", "?since=1s"][connection % 4];
                let mut subscriber = open(connection, query);
                let mut mirror = Mirror::confirmed(&mut subscriber);
                assert_eq!(offset(&mirror.position), 0);
                mirror.follow(&mut subscriber, &removed);
                assert_eq!(mirror.map, state, "{transport:?}");
                assert_eq!(mirror.events, state.len(), "{transport:?}: each key once");
                clients.push((mirror, subscriber));
            }
            let changed = publish(&server, &topic, &[(300, 0), (3, 1)], &mut state);
            for (mirror, subscriber) in &mut clients {
                mirror.follow(subscriber, &changed);
                assert_eq!(mirror.map, state, "{transport:?}");
            }
            // The clients go, and there are three changes: one new key, one newer event of two, one removal.
            let kept: Vec<Mirror> = clients.iter().map(|(mirror, _)| mirror.kept()).collect();
            drop(clients);
            publish(&server, &topic, &[(301, 0), (4, 1), (4, 2)], &mut state);
            let mut head = remove(&server, &topic, &[12], &mut state);
            for (connection, mut mirror) in kept.into_iter().enumerate() {
                let mut subscriber = open(connection, &format!("?cursor={changed}"));
                mirror.next(&mut subscriber);
                assert_eq!((&mirror.position, mirror.events), (&changed, 0), "{transport:?}");
                mirror.follow(&mut subscriber, &head);
                assert_eq!((&mirror.map, mirror.gaps.len()), (&state, 0), "{transport:?}");
                let since = mirror.events - connection;
                assert!((3..=4).contains(&since), "{transport:?}: {}", mirror.events);
                // A client that has everything gets only the next change.
                drop(subscriber);
                let mut subscriber = open(connection, &format!("?cursor={head}"));
                let mut idle = mirror.kept();
                idle.next(&mut subscriber);
                assert_eq!((&idle.position, idle.events), (&head, 0));
                head = publish(&server, &topic, &[(1000 + connection as u64, 0)], &mut state);
                idle.follow(&mut subscriber, &head);
                assert_eq!((&idle.map, idle.events), (&state, 1), "{transport:?}");
            }
        }
    }
}

#[test]
fn a_large_state_comes_in_pages_while_it_changes() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let mut state = Map::new();
        let all: Vec<(u64, u64)> = (0..5000).map(|id| (id, 0)).collect();
        publish(&server, "users/all", &all, &mut state);
        let mut clients: Vec<(Mirror, Subscriber)> = (0..2 * CONNECTIONS)
            .map(|index| {
                let mut subscriber = server.subscribe(Transport::ALL[index % 5], "/users/all");
                (Mirror::confirmed(&mut subscriber), subscriber)
            })
            .collect();
        // One page of about 63 KiB each, with changes before the next one.
        let mut head = String::new();
        for round in 1..6 {
            for (mirror, subscriber) in &mut clients {
                mirror.next(subscriber);
            }
            let changes: Vec<(u64, u64)> = (0..50).map(|id| (id * 100, round)).collect();
            publish(&server, "users/all", &changes, &mut state);
            head = remove(&server, "users/all", &[round * 2, round * 2 + 1], &mut state);
        }
        for (mirror, subscriber) in &mut clients {
            assert!(!mirror.is_complete(), "{} of 5000 keys came at once", mirror.map.len());
            mirror.follow(subscriber, &head);
            assert_eq!(mirror.map, state);
            assert!(mirror.gaps.is_empty());
        }
        for limit in [7, 1000, 10_000] {
            let read = Mirror::read(&server, "users/all", limit);
            assert_eq!((read.map == state, &read.position), (true, &head), "{limit}");
        }
    }
}

#[test]
fn a_read_goes_on_at_a_position_and_says_what_is_missing() {
    let server = start("1", &[]);
    let mut state = Map::new();
    publish(&server, "users/a", &[(1, 0), (2, 0), (3, 0)], &mut state);
    publish(&server, "users/a", &[(1, 1)], &mut state);
    let page = server.get("/v1/topics/users/a?limit=2").json();
    let epoch = page["head"].as_str().and_then(|head| head.split_once('.')).expect("a head").0;
    let expected = json!({
        "topic": "users/a", "position": format!("{epoch}.3"), "first": 2, "after": 0, "until": 4,
        "keys": ["u2", "u3"], "events": [user(2, 0), user(3, 0)],
        "head": format!("{epoch}.4"), "gap": null,
    });
    assert_eq!(page, expected);
    let page = server.get(&format!("/v1/topics/users/a?limit=9&cursor={epoch}.3")).json();
    assert_eq!((&page["keys"], &page["until"]), (&json!(["u1"]), &Value::Null));
    assert_eq!(page["position"], page["head"]);
    let page = server.get(&format!("/v1/topics/users/a?limit=9&cursor={epoch}.4")).json();
    assert_eq!((&page["keys"], &page["first"]), (&json!([]), &json!(5)));
    // The state of another topic of that name.
    let other = format!("{:x}.4", u64::from_str_radix(epoch, 16).expect("hexadecimal") ^ 1);
    let page = server.get(&format!("/v1/topics/users/a?limit=9&cursor={other}")).json();
    assert_eq!(page["gap"], json!({"missed": null, "reason": "epoch"}));
    assert_eq!((&page["after"], &page["keys"]), (&json!(0), &json!(["u2", "u3", "u1"])));
    let message = server.get("/v1/topics/users/a?newest=1").refused(400, "bad_parameter");
    assert_eq!(message, "newest is for logs: read users/a in pages with limit and cursor");
}

#[test]
fn a_client_of_an_earlier_topic_forgets_its_keys() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        for transport in Transport::ALL {
            let topic = format!("users/{transport:?}");
            let mut state = Map::new();
            publish(&server, &topic, &[(1, 0), (2, 0)], &mut state);
            let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
            let mut mirror = Mirror::confirmed(&mut subscriber);
            mirror.next(&mut subscriber);
            let before = mirror.position.clone();
            assert_eq!(server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "").status, 204);
            loop {
                match subscriber.news() {
                    Received::TopicEnd(.., code) => break assert_eq!(code, "deleted"),
                    received => mirror.take(&received),
                }
            }
            let mut state = Map::new();
            let head = publish(&server, &topic, &[(2, 5)], &mut state);
            let mut again = mirror.kept();
            let mut subscriber = server.subscribe(transport, &format!("/{topic}?cursor={before}"));
            again.follow(&mut subscriber, &head);
            assert_eq!(again.map, state, "{transport:?}");
            let reasons: Vec<&str> = again.gaps.iter().map(|gap| gap.reason.as_str()).collect();
            assert_eq!(reasons, ["epoch"], "{transport:?}");
        }
    }
}

#[test]
fn an_interval_sends_each_key_once() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        for transport in Transport::STREAMING {
            let topic = format!("users/{transport:?}");
            let mut state = Map::new();
            publish(&server, &topic, &[(0, 0)], &mut state);
            let mut slow = server.subscribe(transport, &format!("/{topic}?interval=300ms"));
            let mut mirror = Mirror::confirmed(&mut slow);
            mirror.next(&mut slow);
            let begun = std::time::Instant::now();
            let versions: Vec<(u64, u64)> = (0..1000).map(|n| (n % 5, n)).collect();
            let mut head = String::new();
            for part in versions.chunks(200) {
                head = publish(&server, &topic, part, &mut state);
            }
            mirror.follow(&mut slow, &head);
            let intervals = begun.elapsed().as_millis() as usize / 300;
            assert_eq!(mirror.map, state);
            assert!(mirror.events <= 1 + 5 * (1 + intervals), "{} events", mirror.events);
        }
    }
}

#[test]
fn one_connection_has_topics_of_all_kinds() {
    let server = start("2", &["--topic", "v/**,kind=value"]);
    let mut state = Map::new();
    publish(&server, "users/a", &[(1, 0)], &mut state);
    server.publish("v/t", 1..2);
    server.publish("log", 1..2);
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, "?topic=users/a&topic=v/t&topic=log");
        let (mut mirror, mut others) = (Mirror::default(), 0);
        while mirror.events == 0 || others < 3 {
            match subscriber.news() {
                Received::Envelope(envelope) if envelope.topic == "users/a" => {
                    mirror.take_message(&envelope.text);
                }
                Received::Envelope(envelope) => {
                    assert!(!envelope.text.contains("\"keys\""), "{}", envelope.text);
                    others += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(mirror.map, state);
    }
}

#[test]
fn a_topic_is_listed_with_its_keys_and_counted() {
    let server = start("1", &[]);
    let mut state = Map::new();
    publish(&server, "users/a", &[(1, 0), (2, 0), (2, 1), (3, 0)], &mut state);
    let head = remove(&server, "users/a", &[3], &mut state);
    let listed = server.get("/v1/topics").json();
    assert_eq!(listed["topics"][0]["topic"], "users/a");
    assert_eq!(listed["topics"][0]["events"], json!(2));
    assert_eq!(at(&head, 5), head);
    server.await_metric("thalweg_keys", |keys| keys == 2.0);
    server.await_metric("thalweg_keyed_bytes", |bytes| bytes > 2.0 * 60.0);
    assert_eq!(server.ask("DELETE", "/v1/topics/users/a", &[], "").status, 204);
    server.await_metric("thalweg_keys", |keys| keys == 0.0);
}

/// Rows have no keys, unless they are those of groups. A pattern of keyed topics may also match the topic of a query.
#[test]
fn the_topic_of_a_query_is_a_log() {
    let query = "users/doubled=SELECT n * 2 AS n FROM numbers";
    let server = start(
        "1",
        &["--query", query, "--topic", "**,kind=keyed", "--topic", "numbers,columns=n:int"],
    );
    let mut rows = server.subscribe(Transport::Sse, "/users/doubled");
    rows.confirmed();
    let sql = "?query=SELECT+n+AS+n+FROM+numbers";
    let mut ad_hoc = server.subscribe(Transport::Sse, sql);
    ad_hoc.confirmed();
    server.post("numbers", "application/json", r#"{"n":21}"#).published();
    assert_eq!(rows.envelope().events, [json!([42])]);
    assert_eq!(ad_hoc.envelope().events, [json!([21])]);
    server.post("users/doubled?key=k", "application/json", "1").refused(409, "in_use");
}

#[test]
fn documents_of_an_upstream_are_values() {
    let upstream = Upstream::start(|_| Reply::json("", &"1"));
    let server = start("1", &["--upstream", &upstream.flag("users/**", "")]);
    let mut subscriber = server.subscribe(Transport::Sse, "/users/1");
    assert_eq!(subscriber.envelope().previous, Some(0));
    assert_eq!(subscriber.envelope().events, [json!(1)]);
}
