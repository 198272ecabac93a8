//! Keyed topics in a data directory: the state, the conditions and the expiries survive the death of the server.

use std::thread;

use serde_json::{Value, json};

use super::{
    KEYED,
    mirror::{Map, Mirror},
    publish, remove,
};
use crate::{
    durable::Directory,
    harness::{Response, Server, Transport, offset},
};

const JSON: &str = "application/json";

fn post(server: &Server, target: &str, event: &str) -> Response {
    server.post(target, JSON, event)
}

fn post_once(server: &Server, target: &str, key: &str, event: &str) -> Response {
    let headers = [("Idempotency-Key", key), ("Content-Type", JSON)];
    server.ask("POST", &format!("/v1/topics/{target}"), &headers, event)
}

fn epoch(position: &str) -> &str {
    position.split_once('.').expect("a position").0
}

/// Publishes concurrently on the same condition. Returns the position of the one that was stored.
fn race(server: &Server, target: &str) -> String {
    let replies = thread::scope(|scope| {
        let publishers: Vec<_> = (0..16)
            .map(|number| scope.spawn(move || post(server, target, &number.to_string())))
            .collect();
        let replies =
            publishers.into_iter().map(|publisher| publisher.join().expect("a publisher"));
        replies.collect::<Vec<_>>()
    });
    let (won, lost): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!(won.len(), 1, "of {target}");
    lost.iter().for_each(|reply| _ = reply.refused(412, "condition_failed"));
    won[0].published().position
}

fn check_state(server: &Server, topic: &str, state: &Map) -> String {
    let page = Mirror::read(server, topic, 7);
    assert_eq!(page.map, *state);
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe(transport, &format!("/{topic}"));
        let mut mirror = Mirror::confirmed(&mut subscriber);
        mirror.follow(&mut subscriber, &page.position);
        assert_eq!((&mirror.map, mirror.gaps.len()), (state, 0), "{transport:?}");
    }
    page.position
}

#[test]
fn a_killed_server_has_its_keys_conditions_and_expiries_again() {
    for shards in ["1", "2"] {
        let directory = Directory::new();
        let settings = [&KEYED[..], &["--shards", shards]].concat();
        let mut server = directory.start(&settings);
        let mut state = Map::new();
        let users: Vec<(u64, u64)> = (0..200).map(|nth| (nth % 40, nth)).collect();
        publish(&server, "users/a", &users, &mut state);
        remove(&server, "users/a", &[3, 4], &mut state);
        publish(&server, "users/a", &[(4, 1000), (41, 1)], &mut state);
        let last = remove(&server, "users/a", &[41], &mut state);
        let mut clients: Vec<Mirror> = Transport::ALL
            .map(|transport| {
                let mut subscriber = server.subscribe(transport, "/users/a");
                let mut mirror = Mirror::confirmed(&mut subscriber);
                mirror.follow(&mut subscriber, &last);
                mirror
            })
            .into();
        let locked = race(&server, "rooms/a?key=lock&if=new");
        post(&server, "rooms/a?key=brief&ttl=3s", "1").published();
        post(&server, "rooms/a?key=long&ttl=1h", "1").published();
        let once = post_once(&server, "rooms/a?key=once&if=new", "k", "1").published().position;

        for life in 0..3 {
            server.kill();
            server = directory.start(&settings);
            // A condition comes before anything has read the topic.
            post(&server, "rooms/a?key=lock&if=new", "9").refused(412, "condition_failed");
            let refused = post(&server, "users/a?key=u3&if=exists", "null");
            refused.refused(412, "condition_failed");
            let again = post_once(&server, "rooms/a?key=once&if=new", "k", "1");
            assert_eq!(again.published().position, once, "life {life}");
            post_once(&server, "rooms/a?key=other&if=new", "k", "1").refused(422, "key_reused");
            check_state(&server, "users/a", &state);
            let more = [(life, 2000 + life), (50 + life, 1)];
            let head = publish(&server, "users/a", &more, &mut state);
            assert_eq!(epoch(&head), epoch(&last));
            for (transport, mirror) in Transport::ALL.into_iter().zip(&mut clients) {
                let path = format!("/users/a?cursor={}", mirror.position);
                let mut subscriber = server.subscribe(transport, &path);
                let before = mirror.events;
                mirror.follow(&mut subscriber, &head);
                assert_eq!((&mirror.map, mirror.gaps.len()), (&state, 0), "{transport:?}");
                assert_eq!(mirror.events - before, more.len(), "{transport:?}");
            }
            race(&server, &format!("rooms/a?key=lock{life}&if=new"));
        }
        let mut locked = locked;
        for _ in 0..3 {
            let next = race(&server, &format!("rooms/a?key=lock&if={locked}"));
            assert!(offset(&next) > offset(&locked));
            locked = next;
        }
        // The key that expires goes, and the other one stays.
        let mut subscriber = server.subscribe(Transport::Sse, "/rooms/a");
        let mut rooms = Mirror::confirmed(&mut subscriber);
        while !rooms.is_complete() || rooms.map.contains_key("brief") {
            rooms.next(&mut subscriber);
        }
        let names: Vec<&str> = rooms.map.keys().map(String::as_str).collect();
        assert_eq!(names, ["lock", "lock0", "lock1", "lock2", "long", "once"]);
        server.kill();
        let server = directory.start(&settings);
        assert_eq!(Mirror::read(&server, "rooms/a", 100).map, rooms.map);
    }
}

#[test]
fn a_deleted_topic_does_not_come_back() {
    let directory = Directory::new();
    let server = directory.start(&KEYED);
    let mut state = Map::new();
    publish(&server, "users/a", &[(1, 1), (2, 2)], &mut state);
    let old = Mirror::read(&server, "users/a", 9).position;
    assert_eq!(server.ask("DELETE", "/v1/topics/users/a", &[], "").status, 204);
    let mut state = Map::new();
    publish(&server, "users/a", &[(3, 3)], &mut state);
    check_state(&server, "users/a", &state);
    server.kill();
    let server = directory.start(&KEYED);
    check_state(&server, "users/a", &state);
    // A reader of the old topic begins again.
    let mut subscriber = server.subscribe(Transport::Sse, &format!("/users/a?cursor={old}"));
    let mut mirror = Mirror::default();
    let head = Mirror::read(&server, "users/a", 9).position;
    mirror.follow(&mut subscriber, &head);
    assert_eq!((mirror.map, mirror.gaps.len()), (state, 1));
    let gone = server.get("/v1/topics/users/none?limit=10");
    assert_eq!(gone.status, 404, "{}", gone.text());
}

#[test]
fn a_new_server_reads_the_state_while_others_publish() {
    let directory = Directory::new();
    let server = directory.start(&KEYED);
    let mut state = Map::new();
    for round in 0..20 {
        let users: Vec<(u64, u64)> = (0..500).map(|id| (id, round)).collect();
        publish(&server, "users/a", &users, &mut state);
    }
    server.kill();
    let server = directory.start(&KEYED);
    thread::scope(|scope| {
        let readers: Vec<_> = Transport::ALL
            .into_iter()
            .map(|transport| {
                let mut subscriber = server.subscribe(transport, "/users/a");
                scope.spawn(move || {
                    let mut mirror = Mirror::default();
                    while mirror.map.get("last") != Some(&json!({"id": "last"})) {
                        mirror.next(&mut subscriber);
                    }
                    mirror.map
                })
            })
            .collect();
        for round in 0..50 {
            publish(&server, "users/a", &[(round, 100), (600 + round, 1)], &mut state);
        }
        let last: Value = json!({"id": "last"});
        post(&server, "users/a", &last.to_string()).published();
        state.insert("last".to_owned(), last);
        for reader in readers {
            let map = reader.join().expect("a reader");
            assert_eq!(map.get("u7"), state.get("u7"));
        }
    });
    check_state(&server, "users/a", &state);
}

#[test]
fn subscribers_on_every_shard_get_a_state_that_nobody_has_read() {
    let directory = Directory::new();
    let settings = [&KEYED[..], &["--shards", "2"]].concat();
    let server = directory.start(&settings);
    let topics: Vec<String> = (0..16).map(|nth| format!("users/{nth}")).collect();
    let states: Vec<(Map, String)> = topics
        .iter()
        .map(|topic| {
            let mut state = Map::new();
            let head = publish(&server, topic, &[(1, 1), (2, 2)], &mut state);
            (state, head)
        })
        .collect();
    server.kill();
    let server = directory.start(&settings);
    for (topic, (state, head)) in topics.iter().zip(&states) {
        let mut subscriber = server.subscribe(Transport::Sse, &format!("/{topic}"));
        let mut mirror = Mirror::default();
        mirror.follow(&mut subscriber, head);
        assert_eq!((&mirror.map, mirror.gaps.len()), (state, 0), "{topic}");
    }
}

#[test]
fn a_key_whose_time_is_over_when_it_is_stored_expires() {
    let directory = Directory::new();
    let server = directory.start(&KEYED);
    // The time of some is over before their records come back from the disk.
    for nth in 0..20 {
        post(&server, &format!("rooms/a?key=brief{nth}&ttl=1ms"), "1").published();
    }
    let mut subscriber = server.subscribe(Transport::Sse, "/rooms/a");
    let mut rooms = Mirror::confirmed(&mut subscriber);
    let last = post(&server, "rooms/a?key=last", "1").published().position;
    while offset(&rooms.position) < offset(&last) || rooms.map.len() > 1 {
        rooms.next(&mut subscriber);
    }
    assert!(rooms.map.contains_key("last"));
}

#[test]
fn an_expiry_does_not_remove_a_later_event_of_its_key() {
    for shards in ["1", "2"] {
        let directory = Directory::new();
        let settings = [&KEYED[..], &["--shards", shards]].concat();
        let server = directory.start(&settings);
        let text = "x".repeat(1 << 10);
        let fill = |server: &Server| {
            let lines: String = (0..200)
                .map(|id| format!("{}\n", json!({"id": id.to_string(), "text": text})))
                .collect();
            for _ in 0..10 {
                server.post("users/a", "application/x-ndjson", &*lines).published();
            }
        };
        // The old and the new event of a key are on different pages.
        for nth in 0..20 {
            let event = json!({"id": format!("k{nth}")}).to_string();
            post(&server, "users/a?ttl=1ms", &event).published();
        }
        fill(&server);
        for nth in 0..20 {
            let event = json!({"id": format!("k{nth}")}).to_string();
            post(&server, "users/a", &event).published();
        }
        fill(&server);
        server.kill();
        let server = directory.start(&settings);
        let mut subscriber = server.subscribe(Transport::Sse, "/users/a");
        let mut users = Mirror::confirmed(&mut subscriber);
        // A removal would be stored before this event.
        let last = post(&server, "users/a", &json!({"id": "last"}).to_string()).published();
        users.follow(&mut subscriber, &last.position);
        let missing: Vec<_> =
            (0..20).filter(|nth| !users.map.contains_key(&format!("k{nth}"))).collect();
        assert!(missing.is_empty(), "{missing:?} of {} keys", users.map.len());
    }
}

#[test]
fn a_state_that_does_not_fit_is_not_read_again_and_again() {
    let directory = Directory::new();
    let server = directory.start(&KEYED);
    let text = "x".repeat(1 << 10);
    for post in 0..10 {
        let event = |nth| json!({"id": format!("{post}-{nth}"), "text": text});
        let lines: String = (0..200).map(|nth| format!("{}\n", event(nth))).collect();
        server.post("users/large", "application/x-ndjson", lines).published();
    }
    post(&server, "rooms/a?key=a", "1").published();
    server.kill();
    let small = ["--shards", "1", "--set", "limits.history-bytes=1MiB"];
    let server = directory.start(&[&KEYED[..], &small].concat());
    let read_large = || {
        server.get("/v1/topics/users/large?limit=1").refused(409, "too_many_keys");
    };
    read_large();
    let pages = server.metric("thalweg_cold_reads_total");
    for _ in 0..100 {
        read_large();
        assert_eq!(Mirror::read(&server, "rooms/a", 10).map.len(), 1);
    }
    // One for the other topic, and few if the reads take longer than the first delay.
    let more = server.metric("thalweg_cold_reads_total") - pages;
    assert!(more < 10.0, "{more} pages");
    post(&server, "users/large?key=a", "{\"id\":\"a\"}").refused(409, "too_many_keys");
}

#[test]
fn reads_of_names_without_keys_push_no_topic_out_of_memory() {
    let directory = Directory::new();
    let few = ["--shards", "1", "--set", "limits.topics=4"];
    let server = directory.start(&[&KEYED[..], &few].concat());
    for nth in 0..4 {
        post(&server, &format!("rooms/{nth}?key=a"), "1").published();
    }
    for nth in 0..50 {
        let none = server.get(&format!("/v1/topics/rooms/none{nth}?limit=1"));
        assert_eq!(none.status, 404, "{}", none.text());
    }
    assert_eq!(server.metric("thalweg_topics_evicted_total"), 0.0);
    for nth in 0..4 {
        assert_eq!(Mirror::read(&server, &format!("rooms/{nth}"), 10).map.len(), 1);
    }
}

#[test]
fn clients_that_push_each_others_topics_out_of_memory_read_them() {
    let directory = Directory::new();
    let server = directory.start(&KEYED);
    let text = "x".repeat(1 << 10);
    for topic in ["users/a", "users/b"] {
        let event = |nth| json!({"id": format!("{nth}"), "text": text});
        let lines: String = (0..300).map(|nth| format!("{}\n", event(nth))).collect();
        server.post(topic, "application/x-ndjson", lines).published();
    }
    server.kill();
    // One of the states fits, both do not. Reads of one client wait for each other, so there are two.
    let small = ["--shards", "1", "--set", "limits.history-bytes=1MiB"];
    let tokens = ["--token", "a=secret-of-a-1234567890,subscribe=**"];
    let more = ["--token", "b=secret-of-b-1234567890,subscribe=**"];
    let server = directory.start(&[&KEYED[..], &small, &tokens, &more].concat());
    let read = |name: &str| {
        let authorization = format!("Bearer secret-of-{name}-1234567890");
        let headers = [("Authorization", authorization.as_str())];
        let pages = (0..200)
            .map(|_| server.ask("GET", &format!("/v1/topics/users/{name}?limit=1"), &headers, ""));
        let (found, others): (Vec<_>, Vec<_>) = pages.partition(|page| page.status == 200);
        assert!(found.iter().all(|page| page.json()["events"][0].is_object()));
        // A read gives up after three loads.
        others.iter().for_each(|page| _ = page.refused(503, "busy"));
        found.len()
    };
    let (a, b) = thread::scope(|scope| {
        let other = scope.spawn(|| read("b"));
        (read("a"), other.join().expect("pages"))
    });
    assert!(a > 0 && b > 0, "{a} and {b} pages");
}
