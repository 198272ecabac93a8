//! Storms: many keys expire at once, keys come and go without end, and more members join than there is room for.

use std::{ops::Range, time::Duration};

use serde_json::json;
use thalweg_testing::let_pass;

use super::mirror::{Map, Mirror};
use crate::harness::{Received, Server, Subscriber, Transport, ticking, unharmed, wait_for_value};

const LINES: &str = "application/x-ndjson";

/// Topics with a key in each event, and little memory.
const SMALL: [&str; 4] =
    ["--topic", "users/**,kind=keyed,key=/id", "--set", "limits.history-bytes=1MiB"];

/// The most bytes that the keys of [`SMALL`] may have on one shard: half of the memory, and a sixteenth of that for updates.
const KEYED_BYTES_MAX: f64 = (512 + 32) as f64 * 1024.0;

fn lines(ids: Range<usize>) -> String {
    ids.map(|id| format!("{{\"id\":\"u{id:06}\"}}\n")).collect()
}

/// Returns how many keys a topic has; 0 if it is not there.
fn count_keys(server: &Server, topic: &str) -> u64 {
    let listed = server.get("/v1/topics").json();
    let topics = listed["topics"].as_array().expect("topics");
    let found = topics.iter().find(|found| found["topic"] == topic);
    found.and_then(|found| found["events"].as_u64()).unwrap_or(0)
}

#[test]
fn other_topics_go_on_while_many_keys_expire() {
    const KEYS: usize = 30_000;
    let server = ticking(&["--topic", "users/**,kind=keyed,key=/id", "--shards", "1"]);
    let publish_all = |ttl: &str| {
        for first in (0..KEYS).step_by(1000) {
            let topic = format!("users/a?ttl={ttl}");
            server.post(&topic, LINES, lines(first..first + 1000)).published();
        }
    };
    let expired = |count: usize| {
        server.await_metric("thalweg_keys_expired_total", |expired| expired == count as f64);
        server.await_metric("thalweg_keys", |keys| keys == 0.0);
    };
    unharmed(&server, || {
        publish_all("1s");
        expired(KEYS);
    });
    // The server stands still until all are due. It must read requests before all of them are gone.
    publish_all("5s");
    server.while_stopped(|| let_pass(Duration::from_secs(5)));
    let mut seen = Vec::new();
    while seen.last() != Some(&0) {
        seen.push(count_keys(&server, "users/a"));
    }
    seen.retain(|keys| (1..KEYS as u64).contains(keys));
    assert!(!seen.is_empty(), "all keys expired in one turn");
    expired(2 * KEYS);
}

#[test]
fn keys_that_will_expire_count_in_the_memory_of_keys() {
    let server = Server::start(&[&SMALL[..], &["--shards", "1"]].concat());
    let mut refused = None;
    for first in (0..100_000).step_by(100) {
        let answer = server.post("users/a?ttl=1h", LINES, lines(first..first + 100));
        if answer.status != 200 {
            refused = Some(answer.refused(409, "too_many_keys"));
            break;
        }
    }
    assert!(refused.expect("a limit").starts_with("the memory for keys is full"));
    server.has_refused("too_many_keys", 1);
    let keys = count_keys(&server, "users/a") as f64;
    server.await_metric("thalweg_keys", |counted| counted == keys);
    let bytes = server.metric("thalweg_keyed_bytes");
    assert!((KEYED_BYTES_MAX / 2.0..=KEYED_BYTES_MAX).contains(&bytes), "{bytes} of {keys} keys");
    // They may be renewed, and then expire later.
    server.post("users/a?ttl=2h", LINES, lines(0..1)).published();
}

#[test]
fn a_key_that_is_renewed_has_one_timer() {
    let server = Server::start(&[&SMALL[..], &["--shards", "1"]].concat());
    let renew = |id: usize, count: usize| {
        server.post("users/a?ttl=1h", LINES, lines(id..id + 1).repeat(count)).published();
    };
    renew(0, 1);
    server.await_metric("thalweg_keys", |keys| keys == 1.0);
    let one = server.metric("thalweg_keyed_bytes");
    for _ in 0..50 {
        renew(0, 1000);
    }
    // The server counts once a second. When it knows the second key, it has counted all of this.
    renew(1, 1);
    server.await_metric("thalweg_keys", |keys| keys == 2.0);
    let two = server.metric("thalweg_keyed_bytes");
    assert!(two <= 2.0 * one, "{one} bytes for a key, {two} for two");
}

#[test]
fn keys_that_come_and_go_are_never_refused_and_old_readers_begin_again() {
    for shards in ["1", "2"] {
        let server = Server::start(&[&SMALL[..], &["--shards", shards]].concat());
        let mut state = Map::new();
        let before = super::publish(&server, "users/a", &[(1, 0), (2, 0)], &mut state);
        let mut posts = 0;
        // Removals stay in memory for ten minutes, if there is room.
        while server.metric("thalweg_removals_forgotten_total") == 0.0 {
            for first in (0..5000).step_by(250) {
                let ids = posts * 5000 + first..posts * 5000 + first + 250;
                server.post("users/a?ttl=1ms", LINES, lines(ids)).published();
                let remaining = || count_keys(&server, "users/a");
                wait_for_value("keys to expire", remaining, |keys| *keys == 2);
            }
            posts += 1;
            assert!(posts < 20, "the memory has no limit");
        }
        server.await_metric("thalweg_keyed_bytes", |bytes| bytes <= KEYED_BYTES_MAX);
        let head = super::publish(&server, "users/a", &[(3, 0)], &mut state);
        for transport in Transport::ALL {
            let mut again = server.subscribe(transport, &format!("/users/a?cursor={before}"));
            let mut mirror = Mirror::default();
            mirror.follow(&mut again, &head);
            assert_eq!(mirror.map, state, "{transport:?}");
            let reasons: Vec<&str> = mirror.gaps.iter().map(|gap| &*gap.reason).collect();
            assert_eq!(reasons, ["trimmed"], "{transport:?}");
        }
        // An EventSource must not be ended for good: the policy has no effect.
        let returns = [("Last-Event-ID", before.as_str())];
        let target = "/users/a?policy=close";
        let mut source = server.subscribe_with(Transport::Sse, target, &returns);
        assert_eq!(source.gap().reason, "trimmed");
    }
}

#[test]
fn removals_of_idle_topics_make_room_for_keys_of_others() {
    let server = Server::start(&[&SMALL[..], &["--shards", "1"]].concat());
    // The server does not keep a topic that has only removals and no subscriber.
    let mut reader = server.subscribe(Transport::WebSocket, "/users/idle");
    reader.confirmed();
    // Two thirds of the memory.
    for first in (0..2000).step_by(250) {
        server.post("users/idle?ttl=1ms", LINES, lines(first..first + 250)).published();
        let remaining = || count_keys(&server, "users/idle");
        wait_for_value("keys to expire", remaining, |keys| *keys == 0);
    }
    assert_eq!(server.metric("thalweg_removals_forgotten_total"), 0.0);
    // These keys alone fit, but not beside the removals.
    for first in (0..1500).step_by(50) {
        server.post("users/other", LINES, lines(first..first + 50)).published();
    }
    server.await_metric("thalweg_removals_forgotten_total", |count| count >= 1000.0);
    assert_eq!(count_keys(&server, "users/other"), 1500);
}

#[test]
fn a_publisher_that_fills_the_memory_takes_no_removals_from_other_topics() {
    let server = Server::start(&[&SMALL[..], &["--shards", "1"]].concat());
    let mut reader = server.subscribe(Transport::WebSocket, "/users/idle");
    reader.confirmed();
    let before = server.post("users/idle?ttl=1ms", LINES, lines(0..2)).published().position;
    let remaining = || count_keys(&server, "users/idle");
    wait_for_value("keys to expire", remaining, |keys| *keys == 0);
    let mut refused = 0;
    for first in (0..).step_by(50) {
        // Two removals make no room for fifty keys.
        if server.post("users/other", LINES, lines(first..first + 50)).status == 409 {
            refused += 1;
        }
        if refused == 20 {
            break;
        }
    }
    // The client was away when the keys were removed.
    let target = format!("/users/idle?cursor={before}");
    server.subscribe(Transport::WebSocket, &target).confirmed();
}

#[test]
fn removals_of_members_count_in_the_memory_of_keys() {
    let settings = ["--topic", "room,presence=users,presence-grace=0", "--shards", "1"];
    let server = Server::start(&[&settings[..], &["--set", "limits.history-bytes=1MiB"]].concat());
    let mut count = 0;
    while server.metric("thalweg_removals_forgotten_total") == 0.0 {
        for _ in 0..100 {
            count += 1;
            let target = format!("/room?member={count:0>250}");
            server.subscribe(Transport::WebSocket, &target).confirmed();
        }
        assert!(count < 20_000, "the memory has no limit");
    }
    server.await_metric("thalweg_keyed_bytes", |bytes| bytes <= KEYED_BYTES_MAX);
}

#[test]
fn members_without_room_get_all_events_and_take_no_memory() {
    const CLIENTS: usize = 300;
    // A member takes 512 bytes and more, and all of them an eighth of the memory.
    const MEMBERS_MAX: f64 = (1 << 20) as f64 / 8.0 / 512.0;
    for shards in ["1", "2"] {
        let server = Server::start(&[
            "--topic",
            "room,presence=users,presence-grace=0",
            "--set",
            "limits.history-bytes=1MiB",
            "--shards",
            shards,
        ]);
        for storm in 1..=2 {
            let refused_before = server.metric("thalweg_members_refused_total");
            let mut clients: Vec<Subscriber> = (0..CLIENTS)
                .map(|nth| {
                    let target = format!("/room?cursor=latest&member=m{nth}");
                    let mut client = server.subscribe(Transport::WebSocket, &target);
                    client.confirmed();
                    client
                })
                .collect();
            // All joins are counted when none is missing.
            let counts = || {
                let members = server.metric("thalweg_members");
                (members, server.metric("thalweg_members_refused_total") - refused_before)
            };
            let is_all = |(members, refused): &(f64, f64)| members + refused >= CLIENTS as f64;
            let (members, refused) = wait_for_value("all joins", counts, is_all);
            assert!(members <= MEMBERS_MAX && refused > 0.0, "{members} members");
            let listed = Mirror::read(&server, "presence/room", 1000).map;
            assert_eq!(listed.len() as f64, members, "{shards}");
            server.post("room", "application/json", storm.to_string()).published();
            for client in &mut clients {
                match client.news() {
                    Received::Envelope(envelope) => assert_eq!(envelope.events, [json!(storm)]),
                    other => panic!("{other:?}"),
                }
            }
            drop(clients);
            server.await_metric("thalweg_members", |members| members == 0.0);
        }
    }
}
