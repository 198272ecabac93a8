//! Subscribers and readers of some keys, and rights to some keys.

use std::time::Instant;

use serde_json::{Value, json};

use super::mirror::{Map, Mirror};
use super::{CONNECTIONS, publish, remove, start};
use crate::harness::{Received, Server, Subscriber, Transport, offset, request};

const FILTER: &str = "key=u7&key=u%2C&prefix=u29";

fn is_selected(key: &str) -> bool {
    ["u7", "u,"].contains(&key) || key.starts_with("u29")
}

fn selected(state: &Map) -> Map {
    let mut state = state.clone();
    state.retain(|key, _| is_selected(key));
    state
}

/// Reads until the map is this one.
fn follow(mirror: &mut Mirror, subscriber: &mut Subscriber, expected: &Map) {
    while !mirror.is_complete() || mirror.map != *expected {
        mirror.next(subscriber);
    }
}

#[test]
fn a_subscriber_gets_only_the_keys_of_its_filter() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        for transport in Transport::ALL {
            let topic = format!("users/{transport:?}");
            let mut state = Map::new();
            publish(&server, &topic, &(0..300).map(|id| (id, 0)).collect::<Vec<_>>(), &mut state);
            let begun = Instant::now();
            let clients = (0..CONNECTIONS).map(|connection| {
                let more = ["", "&interval=20ms"][connection % 2];
                let target = format!("/{topic}?{FILTER}{more}");
                let mut subscriber = server.subscribe(transport, &target);
                let mut mirror = Mirror::confirmed(&mut subscriber);
                follow(&mut mirror, &mut subscriber, &selected(&state));
                assert_eq!(mirror.events, 12, "u7, u29, and u290 to u299");
                (mirror, subscriber)
            });
            let mut clients: Vec<(Mirror, Subscriber)> = clients.collect();
            // Changes of other keys bring no messages: the next one has a selected key.
            for round in 1..20 {
                publish(&server, &topic, &[(1, round), (2, round), (3, round)], &mut state);
            }
            remove(&server, &topic, &[4, 5], &mut state);
            let head = publish(&server, &topic, &[(7, 1)], &mut state);
            for (mirror, subscriber) in &mut clients {
                let mut messages = 0;
                while mirror.events < 13 {
                    mirror.next(subscriber);
                    messages += 1;
                }
                // A client without messages for ten seconds learns its position.
                let late = begun.elapsed().as_secs() / 10;
                assert!(messages <= 1 + late, "{transport:?}: {messages} messages");
                assert_eq!((mirror.events, &mirror.position), (13, &head), "{transport:?}");
                assert_eq!(mirror.map, selected(&state));
            }
            // A client that was away gets only selected keys, too, and the removal of one.
            let kept: Vec<Mirror> = clients.iter().map(|(mirror, _)| mirror.kept()).collect();
            drop(clients);
            let removed = remove(&server, &topic, &[29, 30], &mut state);
            publish(&server, &topic, &[(8, 1), (299, 1)], &mut state);
            for mut mirror in kept {
                let target = format!("/{topic}?{FILTER}&cursor={head}");
                let mut subscriber = server.subscribe(transport, &target);
                follow(&mut mirror, &mut subscriber, &selected(&state));
                assert_eq!((mirror.events, mirror.gaps.len()), (2, 0), "{transport:?}");
                assert!(offset(&mirror.position) > offset(&removed));
            }
        }
    }
}

#[test]
fn a_client_without_any_of_its_keys_is_complete_at_once_and_after_a_gap() {
    let server = start("1", &[]);
    for transport in Transport::ALL {
        let topic = format!("users/{transport:?}");
        let mut state = Map::new();
        let head = publish(&server, &topic, &[(1, 0), (2, 0)], &mut state);
        let mut subscriber = server.subscribe(transport, &format!("/{topic}?key=none"));
        let mirror = Mirror::confirmed(&mut subscriber);
        assert!(mirror.is_complete(), "{transport:?}");
        let (epoch, _) = head.split_once('.').expect("a position");
        let other = u64::from_str_radix(epoch, 16).expect("hexadecimal") ^ 1;
        let target = format!("/{topic}?key=none&cursor={other:x}.7");
        let mut subscriber = server.subscribe(transport, &target);
        let mut mirror = Mirror::default();
        mirror.next(&mut subscriber);
        assert_eq!(mirror.gaps.len(), 1, "{transport:?}");
        // An envelope without events ends the wait for the keys.
        mirror.next(&mut subscriber);
        assert_eq!((mirror.events, &mirror.position), (0, &head), "{transport:?}");
    }
}

#[test]
fn a_poll_without_events_tells_the_position_when_its_time_is_over() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let mut state = Map::new();
        let position = publish(&server, "users/a", &[(7, 0)], &mut state);
        let head = publish(&server, "users/a", &[(1, 0)], &mut state);
        let poll = |position: &str| {
            let target = format!(
                "/v1/topics/users/a?key=u7&cursor={position}&transport=long-polling&wait=10ms"
            );
            let answer = server.get(&target);
            assert_eq!(answer.status, 200);
            let text = answer.text();
            text.lines()
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect::<Vec<Value>>()
        };
        // The first poll may end before its shard has the state.
        let mut polls = (0..1000).map(|_| poll(&position));
        let messages = polls.find(|messages| messages.len() > 1).expect("a position");
        assert_eq!(messages.len(), 2, "the confirmation and the position: {messages:?}");
        assert_eq!((&messages[1]["position"], &messages[1]["events"]), (&json!(head), &json!([])));
        assert_eq!(poll(&head).len(), 1, "nothing has changed");
    }
}

#[test]
fn each_topic_of_a_connection_has_its_own_filter() {
    for shards in ["1", "2"] {
        let server = start(shards, &[]);
        let mut state = Map::new();
        let users: Vec<(u64, u64)> = (0..20).map(|id| (id, 0)).collect();
        publish(&server, "users/a", &users, &mut state);
        publish(&server, "users/b", &users, &mut state);
        for transport in Transport::ALL {
            let target = "?topic=users/a%3Fkey%3Du7%26key%3Du1&topic=users/b";
            let mut subscriber = server.subscribe(transport, target);
            let (mut a, mut b) = (Mirror::default(), Mirror::default());
            while a.events < 2 || b.events < 20 {
                let Received::Envelope(envelope) = subscriber.news() else { panic!() };
                let mirror = if envelope.topic == "users/a" { &mut a } else { &mut b };
                mirror.take_message(&envelope.text);
            }
            assert_eq!(a.map.keys().collect::<Vec<_>>(), ["u1", "u7"], "{transport:?}");
            assert_eq!(b.map, state);
        }
    }
}

#[test]
fn a_command_has_a_filter() {
    let server = start("1", &[]);
    let mut state = Map::new();
    publish(&server, "users/a", &(0..300).map(|id| (id, 0)).collect::<Vec<_>>(), &mut state);
    let mut socket = server.subscribe(Transport::WebSocket, "");
    socket.say(
        r#"{"command":"subscribe","id":1,"topic":"users/a","keys":["u7","u,"],"prefix":"u29"}"#,
    );
    let mut mirror = Mirror::default();
    while mirror.map != selected(&state) {
        if let received @ Received::Envelope(_) = socket.news() {
            mirror.take(&received);
        }
    }
    for (members, code) in [
        (r#""topic":"users/b","keys":[]"#, "bad_command"),
        (r#""topic":"users/b","keys":"a""#, "bad_command"),
        (r#""topic":"users/b","keys":[""]"#, "bad_key"),
        (r#""topic":"users/b","prefix":"""#, "bad_key"),
        (r#""topic":"log","keys":["a"]"#, "bad_parameter"),
    ] {
        let answer = socket.command(&format!(r#"{{"command":"subscribe","id":2,{members}}}"#));
        assert_eq!(answer["error"]["code"], code, "{members}");
    }
}

#[test]
fn a_read_has_a_filter() {
    let server = start("2", &[]);
    let mut state = Map::new();
    publish(&server, "users/a", &(0..300).map(|id| (id, 0)).collect::<Vec<_>>(), &mut state);
    let (mut position, mut keys, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let page = server.get(&format!("/v1/topics/users/a?limit=5&{FILTER}{position}")).json();
        keys.extend(page["keys"].as_array().expect("keys").clone());
        pages += 1;
        if page["position"] == page["head"] {
            break;
        }
        position = format!("&cursor={}", page["position"].as_str().expect("a position"));
    }
    assert_eq!((keys.len(), pages), (12, 3));
    assert!(keys.iter().all(|key| key.as_str().is_some_and(is_selected)));
    let one = server.get("/v1/topics?topic=users/a%3Fkey%3Du3&limit=9").json();
    assert_eq!(one["keys"], json!(["u3"]));
}

#[test]
fn a_filter_that_cannot_work_is_refused_with_the_remedy() {
    let server = start("1", &[]);
    let stream = |target: &str| {
        let target = format!("/v1/topics{target}&transport=sse");
        server.get(&target)
    };
    let keys: String = (0..101).map(|number| format!("&key={number}")).collect();
    for (target, code, remedy) in [
        ("/log?key=a".to_owned(), "bad_parameter", "declare it with --topic 'log,kind=keyed'"),
        ("/users/a?prefix=a&prefix=b".to_owned(), "bad_parameter", "remove the others"),
        ("/users/a?prefix=".to_owned(), "bad_key", "1 to 256 bytes"),
        (format!("/users/a?{keys}"), "bad_parameter", "at most 100 keys"),
        ("?topic=users/a&topic=users/b&key=c".to_owned(), "bad_parameter", "%3Fkey%3D"),
        ("?topic=users/a%3Fkye%3Dc".to_owned(), "bad_parameter", "key"),
        ("?topic=users/a%3Fkey%3Dc&key=d".to_owned(), "bad_parameter", "remove one"),
    ] {
        let message = stream(&target).refused(400, code);
        assert!(message.contains(remedy), "{target}: {message}");
    }
    let different: String = (0..20).map(|number| format!("&key={number:0>250}")).collect();
    let message = stream(&format!("/users/a?{different}")).refused(400, "bad_parameter");
    assert!(message.contains("4096 bytes"), "{message}");
    server.get("/v1/topics?key=a").refused(400, "bad_parameter");
    server.get("/v1/topics/log?limit=1&key=a").refused(400, "bad_parameter");
    server.post("users/a?key=a&key=b", "application/json", "1").refused(400, "bad_parameter");
}

const ALICE: &str = "alice-secret-1234567890";

/// Alice may read and write the key `alice` and read those that begin with `public/`.
fn with_rights(shards: &str) -> Server {
    let alice = format!(
        "alice={ALICE},subscribe=rooms/*?key=alice rooms/*?prefix=public/,publish=rooms/*?key=alice"
    );
    let admin = "admin=admin-secret-1234567890,subscribe=**,publish=**,inspect=**";
    start(shards, &["--token", &alice, "--token", admin])
}

fn ask(server: &Server, method: &str, target: &str, body: &str) -> crate::harness::Response {
    let headers =
        [("Authorization", &*format!("Bearer {ALICE}")), ("Content-Type", "application/json")];
    let mut socket = server.connect();
    socket.send_if_open(request(method, &format!("/v1/{target}"), &headers, body.as_bytes()));
    let mut head = socket.response_head();
    if head.header("content-length").is_some() {
        head.body = socket.body(&head);
    }
    head
}

#[test]
fn rights_to_some_keys_are_checked_on_each_way_in() {
    for shards in ["1", "2"] {
        let server = with_rights(shards);
        let headers = [("Authorization", "Bearer admin-secret-1234567890")];
        for key in ["alice", "bob", "public%2Fx"] {
            let target = format!("/v1/topics/rooms/a?key={key}");
            assert_eq!(server.ask("POST", &target, &headers, "0").status, 200);
        }
        let command = |members: &str| ("POST", "commands".to_owned(), format!("{{{members}}}"));
        let publish = |members: &str| {
            command(&format!(r#""command":"publish","topic":"rooms/a","event":1,{members}"#))
        };
        let topic = |method: &'static str, query: &str| {
            (method, format!("topics/rooms/a{query}"), "1".to_owned())
        };
        let read = |query: &str| ("GET", format!("topics/rooms/a{query}"), String::new());
        let allowed = [
            topic("POST", "?key=alice"),
            topic("POST", "?key=alice&if=exists"),
            publish(r#""key":"alice","id":1"#),
            command(r#""command":"ack","topic":"rooms/a","position":"1.1","id":1"#),
            read("?limit=9&key=alice"),
            read("?limit=9&key=alice&prefix=public/"),
            read("?limit=9&key=public/x&prefix=public/y"),
            read("?transport=sse&key=alice"),
            read("?transport=http-streaming&prefix=public/"),
            ("GET", "topics?transport=sse&topic=rooms/a%3Fkey%3Dalice".to_owned(), String::new()),
            ("DELETE", "topics/rooms/a?key=alice".to_owned(), String::new()),
        ];
        for (method, target, body) in allowed {
            let answer = ask(&server, method, &target, &body);
            let expected = if method == "DELETE" { 204 } else { 200 };
            assert_eq!(answer.status, expected, "{method} {target} {body}: {}", answer.text());
        }
        let refused = [
            topic("POST", ""),
            topic("POST", "?key=bob"),
            topic("POST", "?key=alice2"),
            topic("POST", "?key=public/x"),
            publish(r#""key":"bob","id":1"#),
            publish(r#""id":1"#),
            command(r#""command":"ack","topic":"users/a","position":"1.1","id":1"#),
            read("?limit=9"),
            read("?limit=9&key=alice&key=bob"),
            read("?limit=9&prefix=alice"),
            read("?limit=9&prefix=pub"),
            read("?newest=1"),
            read("?transport=sse"),
            read("?transport=long-polling&wait=0s"),
            ("GET", "topics/presence/rooms/a?limit=9&key=alice".to_owned(), String::new()),
            read("?transport=http-streaming&key=bob"),
            ("GET", "topics?transport=sse&topic=rooms/a%3Fkey%3Dbob".to_owned(), String::new()),
            (
                "GET",
                "topics?transport=sse&topic=rooms/a%3Fkey%3Dalice&topic=rooms/b".to_owned(),
                String::new(),
            ),
            ("GET", "columns/rooms/a".to_owned(), String::new()),
            ("DELETE", "topics/rooms/a?key=bob".to_owned(), String::new()),
            ("DELETE", "topics/rooms/a".to_owned(), String::new()),
        ];
        for (method, target, body) in refused {
            let answer = ask(&server, method, &target, &body);
            assert_eq!(answer.status, 403, "{method} {target} {body}: {}", answer.text());
        }
        let message = ask(&server, "GET", "topics/rooms/a?limit=9", "").refused(403, "forbidden");
        assert!(message.contains("without key= or prefix="), "{message}");
        let message = ask(&server, "POST", "topics/rooms/a", "1").refused(403, "forbidden");
        assert!(message.contains("without key="), "{message}");
        let state = server.ask("GET", "/v1/topics/rooms/a?limit=9", &headers, "").json();
        assert_eq!(state["keys"], json!(["bob", "public/x"]), "only alice's key has changed");
        assert_eq!(state["events"].as_array().map(Vec::len), Some(2));
        assert_ne!(state["head"], Value::Null);
    }
}

#[test]
fn commands_over_a_websocket_need_the_right_to_the_keys() {
    let server = with_rights("1");
    let headers = [("Authorization", &*format!("Bearer {ALICE}"))];
    let mut socket = server.subscribe_with(Transport::WebSocket, "", &headers);
    for (members, is_allowed) in [
        (r#""command":"subscribe","topic":"rooms/a""#, false),
        (r#""command":"subscribe","topic":"rooms/a","keys":["bob"]"#, false),
        (r#""command":"subscribe","topic":"rooms/a","keys":["alice"],"prefix":"p""#, false),
        (r#""command":"publish","topic":"rooms/a","key":"bob","event":1"#, false),
        (r#""command":"publish","topic":"rooms/a","event":1"#, false),
        (r#""command":"publish","topic":"rooms/a","key":"alice","event":1"#, true),
        (r#""command":"subscribe","topic":"rooms/a","keys":["alice"],"prefix":"public/""#, true),
    ] {
        let answer = socket.command(&format!(r#"{{{members},"id":1}}"#));
        let code = answer["error"]["code"].as_str();
        assert_eq!(code, (!is_allowed).then_some("forbidden"), "{members}: {answer}");
    }
}
