//! JSON Web Tokens: their rights and expiry, and tokens that are refused.

mod disconnecting;
mod keys;
mod members;
mod reloading;
mod traces;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use thalweg_token::{Claims, SigningKey};

use crate::harness::{
    LOOK_AGAIN_AFTER, Received, Reply, Server, Subscriber, Transport, Upstream, close, request,
    wait_for,
};

const EC: [&str; 2] = key("ec");
const RSA: [&str; 2] = key("rsa");

/// Returns a key pair of the token crate's tests: private and public.
const fn key(name: &str) -> [&str; 2] {
    match name.as_bytes() {
        b"ec" => [
            include_str!("../../../thalweg-token/tests/keys/ec.pem"),
            concat!(env!("CARGO_MANIFEST_DIR"), "/../thalweg-token/tests/keys/ec.public.pem"),
        ],
        _ => [
            include_str!("../../../thalweg-token/tests/keys/rsa.pem"),
            concat!(env!("CARGO_MANIFEST_DIR"), "/../thalweg-token/tests/keys/rsa.public.pem"),
        ],
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs()
}

/// Returns a token of alice, with these claims in place of the usual ones.
fn token(key: &str, id: Option<&str>, changes: Value) -> String {
    SigningKey::new(key).expect("a key").sign(&claims(changes), id).expect("a token")
}

#[expect(clippy::needless_pass_by_value, reason = "it is given what `json!` makes")]
fn claims(changes: Value) -> Claims {
    let mut claims = json!({
        "sub": "alice",
        "exp": now_s() + 600,
        "thalweg": {
            "subscribe": ["users/{sub}/**", "news/*"],
            "publish": ["users/{sub}/out"],
            "inspect": ["users/{sub}/**"],
        },
    });
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    serde_json::from_value(claims).expect("claims")
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Starts a server that accepts tokens signed with [`EC`], without clock tolerance.
fn server(more: &[&str]) -> Server {
    let key = format!("@{}", EC[1]);
    Server::start(&[&["--jwt-key", &key, "--set", "jwt-leeway=0"], more].concat())
}

/// The right that an entry point requires; `None` if it needs none.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Right {
    Subscribe,
    Publish,
    Inspect,
    Admin,
}

/// An entry point: its name in docs/reference, and a request for a topic (method, target, body).
struct Way {
    called: &'static str,
    right: Option<Right>,
    method: &'static str,
    target: String,
    body: String,
}

/// All entry points by request. Commands are in `commands`.
fn ways(topic: &str) -> Vec<Way> {
    use Right::{Admin, Inspect, Publish, Subscribe};
    let way = |called, right, method, target: &str, body: &str| {
        let [target, body] = [target, body].map(|text| text.replace("TOPIC", topic));
        Way { called, right, method, target, body }
    };
    let (one, many) = ("/v1/topics/{topic}", "/v1/topics");
    let mut ways: Vec<Way> = Transport::ALL
        .into_iter()
        .filter_map(|transport| transport.query())
        .flat_map(|query| {
            [
                way(one, Some(Subscribe), "GET", &format!("/v1/topics/TOPIC?{query}"), ""),
                way(many, Some(Subscribe), "GET", &format!("/v1/topics?topic=TOPIC&{query}"), ""),
                way(
                    many,
                    Some(Subscribe),
                    "GET",
                    &format!("/v1/topics?topic=news/a&topic=TOPIC&{query}"),
                    "",
                ),
            ]
        })
        .collect();
    let sql = "SELECT%20*%20FROM%20%22TOPIC%22";
    ways.extend([
        way(one, Some(Subscribe), "GET", "/v1/topics/TOPIC?limit=1", ""),
        way(many, Some(Subscribe), "GET", "/v1/topics?topic=TOPIC&limit=1", ""),
        way(many, Some(Subscribe), "GET", &format!("/v1/topics?query={sql}"), ""),
        way(many, Some(Subscribe), "GET", &format!("/v1/topics?query=EXPLAIN%20{sql}"), ""),
        way(many, Some(Subscribe), "GET", &format!("/v1/topics?query={sql}&transport=sse"), ""),
        way("/v1/columns/{topic}", Some(Subscribe), "GET", "/v1/columns/TOPIC", ""),
        way(one, Some(Publish), "POST", "/v1/topics/TOPIC", "1"),
        way(one, Some(Publish), "DELETE", "/v1/topics/TOPIC", ""),
        way(many, Some(Inspect), "GET", "/v1/topics", ""),
        way("/metrics", Some(Inspect), "GET", "/metrics", ""),
        way("/overview/topics", Some(Inspect), "GET", "/overview/topics", ""),
        way("/overview/settings", Some(Inspect), "GET", "/overview/settings/TOPIC", ""),
        way("/overview/subscribers", Some(Inspect), "GET", "/overview/subscribers/TOPIC", ""),
        way("/overview/trace", Some(Inspect), "GET", "/overview/trace?subject=TOPIC", ""),
        way("/runs", Some(Subscribe), "GET", "/runs", ""),
        way(
            "/v1/admin/disconnect",
            Some(Admin),
            "POST",
            "/v1/admin/disconnect",
            r#"{"topics":"TOPIC"}"#,
        ),
        way("/v1/tickets", None, "POST", "/v1/tickets", ""),
    ]);
    for (command, right) in commands(topic) {
        let body = command.to_string();
        ways.push(Way {
            called: "/v1/commands",
            right,
            method: "POST",
            target: "/v1/commands".to_owned(),
            body,
        });
    }
    ways
}

/// All commands, with the right that each requires.
fn commands(topic: &str) -> Vec<(Value, Option<Right>)> {
    use Right::{Publish, Subscribe};
    vec![
        (json!({ "command": "publish", "topic": topic, "event": 1 }), Some(Publish)),
        (json!({ "command": "subscribe", "topic": topic }), Some(Subscribe)),
        (json!({ "command": "ack", "topic": topic, "position": "1.1" }), Some(Subscribe)),
        (json!({ "command": "unsubscribe", "topic": topic }), None),
        (json!({ "command": "echo", "data": 1 }), None),
        (json!({ "command": "refresh", "token": "x" }), None),
    ]
}

/// A new entry point needs a row.
#[test]
fn the_table_of_ways_in_is_complete() {
    let wire = concat!(
        include_str!("../../../../docs/reference/access.md"),
        include_str!("../../../../docs/reference/columns.md"),
        include_str!("../../../../docs/reference/http.md"),
        include_str!("../../../../docs/reference/subscribing.md"),
    );
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "/{}_-".contains(c));
    let mut documented: Vec<&str> = wire
        .match_indices("/v1/")
        .map(|(at, _)| wire[at..].split(ends).next().unwrap_or_default().trim_end_matches('/'))
        .filter(|path| !matches!(*path, "/v1"))
        .map(|path| if path.starts_with("/v1/topics/") { "/v1/topics/{topic}" } else { path })
        .collect();
    documented.extend(["/metrics", "/runs"]);
    let known: Vec<&str> = ways("t").iter().map(|way| way.called).collect();
    for path in documented {
        assert!(known.contains(&path), "{path} is in docs/reference, and in no row of `ways`");
    }
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../vectors/commands.json")).expect("JSON");
    for good in vectors["commands"].as_array().expect("commands") {
        let text: Value =
            serde_json::from_str(good["text"].as_str().expect("a text")).expect("JSON");
        let is_known =
            commands("t").iter().any(|(command, _)| command["command"] == text["command"]);
        assert!(is_known, "{} is in no row of `commands`", text["command"]);
    }
}

#[test]
fn every_way_in_asks_for_its_right() {
    let server = server(&["--topic", "**,columns=a:int"]);
    let all = json!({ "subscribe": ["**"], "publish": ["**"], "inspect": ["**"], "admin": true });
    let with = |rights: &Value| bearer(&token(EC[0], None, json!({ "thalweg": rights })));
    let without = |right: Right, body: &str| {
        let mut rights = all.clone();
        // Other patterns of this right do not help, and a pattern for one key does not help without the key. An ack has none.
        let mut others = vec!["users/bob", "users/bob/in/*", "users/*/out", "users/alice/**"];
        if !body.contains("\"ack\"") {
            others.extend(["users/bob/in?key=alice", "users/bob/in?prefix=a", "**?key=alice"]);
        }
        match right {
            Right::Subscribe => rights["subscribe"] = json!(others),
            Right::Publish => rights["publish"] = json!(others),
            Right::Inspect => rights["inspect"] = json!([]),
            Right::Admin => rights["admin"] = json!(false),
        }
        with(&rights)
    };
    let everything = with(&all);
    for Way { right, method, target, body, .. } in ways("users/bob/in") {
        let status = |token: &str| {
            let mut socket = server.connect();
            let headers = [("Authorization", token), ("Content-Type", "application/json")];
            let headers = if token.is_empty() { &headers[1..] } else { &headers[..] };
            socket.send_if_open(request(method, &target, headers, body.as_bytes()));
            socket.response_head().status
        };
        let told = format!("{method} {target} {body}");
        assert!(!matches!(status(&everything), 401 | 403), "{told} with all rights");
        match right {
            Some(right) => {
                assert_eq!(status(&without(right, &body)), 403, "{told} without {right:?}");
                assert_eq!(status(""), 401, "{told} without a token");
            }
            None => {
                let few = with(&json!({ "subscribe": ["nothing"] }));
                assert_ne!(status(&few), 403, "{told} with few rights");
            }
        }
    }
    // The same commands over a connection.
    for (command, right) in commands("users/bob/in") {
        let Some(right) = right else { continue };
        let command = command.to_string();
        let headers = [("Authorization", &*without(right, &command))];
        let mut socket = server.subscribe_with(Transport::WebSocket, "", &headers);
        let answer = socket.command(&command);
        assert_eq!(answer["error"]["code"], json!("forbidden"), "{command}");
    }
}

#[test]
fn a_refusal_does_not_reveal_which_topics_exist() {
    let server = server(&["--topic", "**,columns=a:int"]);
    let alice = bearer(&token(EC[0], None, json!({})));
    let all = bearer(&token(EC[0], None, json!({ "thalweg": { "publish": ["**"] } })));
    let published =
        server.ask("POST", "/v1/topics/users/bob/in", &[("Authorization", &all)], "{\"a\":1}");
    assert_eq!(published.status, 200, "{}", published.text());
    let said = |topic: &str| -> Vec<String> {
        let reads = ways(topic).into_iter().filter(|way| way.right == Some(Right::Subscribe));
        let reads = reads.filter(|way| way.called != "/runs");
        let asked = reads.map(|Way { method, target, body, .. }| {
            let headers = [("Authorization", &*alice), ("Content-Type", "application/json")];
            server.ask(method, &target, &headers, &body).refused(403, "forbidden")
        });
        asked.collect()
    };
    let nowhere = said("users/eve/in");
    assert_eq!(
        said("users/bob/in"),
        nowhere.iter().map(|pattern| pattern.replace("users/eve", "users/bob")).collect::<Vec<_>>()
    );
    assert!(nowhere.iter().all(|error| error.contains("subscribe patterns match")), "{nowhere:?}");
    // Encodings of a name are another name, or invalid.
    for trick in [
        "users/alice/../bob/in",
        "users%2Fbob/in",
        "users/%62ob/in",
        "users//bob/in",
        "Users/bob/in",
    ] {
        let target = format!("/v1/topics/{trick}?limit=1");
        let status = server.ask("GET", &target, &[("Authorization", &alice)], "").status;
        assert!(matches!(status, 400 | 403), "{trick}: {status}");
    }
}

#[test]
fn a_list_shows_topics_that_its_reader_may_see() {
    let server = server(&["--token", "all=s3cret,publish=**,inspect=**"]);
    let all = [("Authorization", "Bearer s3cret")];
    for topic in ["news/a", "users/alice/in", "users/alice/out", "users/bob/in"] {
        assert_eq!(server.ask("POST", &format!("/v1/topics/{topic}"), &all, "1").status, 200);
    }
    let listed = |token: &str, query: &str| {
        let list =
            server.ask("GET", &format!("/v1/topics{query}"), &[("Authorization", token)], "");
        let list = list.json();
        let topics = list["topics"].as_array().expect("a list").clone();
        topics
            .iter()
            .map(|topic| topic["topic"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    let alice = bearer(&token(EC[0], None, json!({})));
    assert_eq!(listed(&alice, ""), ["users/alice/in", "users/alice/out"]);
    assert_eq!(listed(&alice, "?limit=1&after=users/alice/in"), ["users/alice/out"]);
    assert_eq!(listed("Bearer s3cret", "").len(), 4);
    server.ask("GET", "/metrics", &[("Authorization", &alice)], "").refused(403, "forbidden");
    assert_eq!(server.ask("GET", "/metrics", &all, "").status, 200);
    let none = bearer(&token(EC[0], None, json!({ "thalweg": {} })));
    server.ask("GET", "/v1/topics", &[("Authorization", &none)], "").refused(403, "forbidden");
    server.get("/v1/topics").refused(401, "unauthorized");
}

#[test]
fn a_query_needs_the_right_to_its_source() {
    let query = "news/fast=SELECT speed FROM \"users/bob/cars\"";
    let server = server(&["--query", query, "--topic", "users/bob/cars,columns=speed:double"]);
    let get = |token: &str| {
        let headers = [("Authorization", token), ("Accept", "text/event-stream")];
        let mut socket = server.connect();
        socket.send(request("GET", "/v1/topics/news/fast", &headers, b""));
        socket.response_head().status
    };
    assert_eq!(get(&bearer(&token(EC[0], None, json!({})))), 403);
    let both = json!({ "thalweg": { "subscribe": ["news/*", "users/bob/*"] } });
    assert_eq!(get(&bearer(&token(EC[0], None, both))), 200);
}

#[test]
fn a_token_error_is_named_and_counted() {
    let server = server(&[
        "--jwt-audience",
        "push",
        "--jwt-issuer",
        "app",
        "--token",
        "inspector=i,inspect=**",
        "--token",
        "publisher=p,subscribe=**,publish=**,inspect=**,admin=true",
    ]);
    let right = json!({ "iss": "app", "aud": "push" });
    let with = |changes: Value| {
        let mut claims = right.clone();
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        token(EC[0], None, claims)
    };
    let good = with(json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    // {"alg":"none"}
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.", parts[1]);
    let cases = [
        (with(json!({ "exp": now_s() - 1 })), "expired"),
        (with(json!({ "nbf": now_s() + 600 })), "not valid yet"),
        (with(json!({ "aud": "other" })), "audience"),
        (with(json!({ "iss": "other" })), "issuer"),
        (with(json!({ "thalweg": "**" })), "claim thalweg"),
        (token(RSA[0], None, right.clone()), "no key"),
        (unsigned, "algorithm"),
        (format!("{}.{}.AAAA", parts[0], parts[1]), "signature"),
        (format!("{good}x"), "signature"),
        ("a.b.c".to_owned(), "malformed"),
    ];
    let topic = "/v1/topics/users/alice/in?limit=1";
    for (times, (token, words)) in cases.iter().enumerate() {
        let refused = server.ask("GET", topic, &[("Authorization", &bearer(token))], "");
        let said = refused.refused(401, "unauthorized");
        assert!(said.contains(words), "{words}: {said}");
        server.has_refused("unauthorized", times as u64 + 1);
    }
    let opened = server.ask("GET", topic, &[("Authorization", &bearer(&good))], "");
    opened.refused(404, "no_such_topic");
}

/// Opens a connection for alice, with a token that expires after this time.
fn short_lived(server: &Server, transport: Transport, lasts_s: u64) -> Subscriber {
    let token = token(EC[0], None, json!({ "exp": now_s() + lasts_s }));
    server.subscribe_with(transport, "/users/alice/in", &[("Authorization", &bearer(&token))])
}

#[test]
fn a_connection_ends_with_its_token() {
    let server = server(&[]);
    for transport in Transport::ALL {
        if transport == Transport::LongPolling {
            continue;
        }
        let mut subscriber = short_lived(&server, transport, 2);
        subscriber.confirmed();
        assert_eq!(subscriber.next(), close(transport, 4004, "expired", true), "{transport:?}");
    }
}

#[test]
fn a_connection_goes_on_with_another_token() {
    let server = server(&[]);
    let all = bearer(&token(EC[0], None, json!({ "thalweg": { "publish": ["**"] } })));
    let publish = |topic: &str| {
        let target = format!("/v1/topics/{topic}");
        assert_eq!(server.ask("POST", &target, &[("Authorization", &all)], "7").status, 200);
    };
    let mut subscriber = short_lived(&server, Transport::WebSocket, 2);
    let mut other = short_lived(&server, Transport::Sse, 3);
    subscriber.confirmed();
    other.confirmed();
    let refresh = |subscriber: &mut Subscriber, token: &str| {
        subscriber.command(&json!({ "command": "refresh", "id": 1, "token": token }).to_string())
    };
    // An invalid token, or one of another subject, changes nothing.
    let bobs = token(EC[0], None, json!({ "sub": "bob" }));
    assert_eq!(refresh(&mut subscriber, &bobs)["error"]["code"], json!("forbidden"));
    assert_eq!(refresh(&mut subscriber, "x")["error"]["code"], json!("unauthorized"));
    let answer = refresh(&mut subscriber, &token(EC[0], None, json!({})));
    assert!(answer["answer"]["expires_in_s"].as_u64().is_some_and(|left| left > 500), "{answer}");
    // On the other connection the first token has expired.
    assert_eq!(other.next(), close(Transport::Sse, 4004, "expired", true));
    publish("users/alice/in");
    assert_eq!(subscriber.numbers(1).0, [7]);
    // The new token determines the rights.
    let fewer = json!({ "thalweg": { "subscribe": ["news/*"] } });
    assert!(refresh(&mut subscriber, &token(EC[0], None, fewer))["answer"].is_object());
    let Received::TopicEnd(topic, _, code) = subscriber.next() else { panic!("an end") };
    assert_eq!((&*topic, &*code), ("users/alice/in", "forbidden"));
    publish("users/alice/in");
    publish("news/a");
    subscriber.command(r#"{"command":"subscribe","topic":"news/a","cursor":"earliest"}"#);
    assert_eq!(subscriber.numbers(1).0, [7]);
}

#[test]
fn a_token_that_ends_may_follow_one_that_hardly_does() {
    let server = server(&[]);
    let mut subscriber = short_lived(&server, Transport::WebSocket, 2);
    let mut other = short_lived(&server, Transport::Sse, 3);
    subscriber.confirmed();
    other.confirmed();
    let refresh = |subscriber: &mut Subscriber, ends_s: u64| {
        let token = token(EC[0], None, json!({ "exp": ends_s }));
        let command = json!({ "command": "refresh", "id": 1, "token": token }).to_string();
        assert!(subscriber.command(&command)["answer"].is_object());
    };
    refresh(&mut subscriber, 1 << 60);
    // By then, the timer of the first token has found the second one.
    assert_eq!(other.next(), close(Transport::Sse, 4004, "expired", true));
    refresh(&mut subscriber, now_s() + 2);
    assert_eq!(subscriber.next(), close(Transport::WebSocket, 4004, "expired", true));
}

#[test]
fn the_limit_of_messages_follows_the_rights_of_another_token() {
    let server = server(&[]);
    let reader = json!({ "thalweg": { "subscribe": ["users/{sub}/**"] } });
    let [reader, publisher] = [reader, json!({})].map(|changes| token(EC[0], None, changes));
    let authorization = bearer(&reader);
    let mut subscriber = server.subscribe_with(
        Transport::WebSocket,
        "/users/alice/in",
        &[("Authorization", &authorization)],
    );
    subscriber.confirmed();
    let refresh = |subscriber: &mut Subscriber, token: &str| {
        let command = json!({ "command": "refresh", "id": 1, "token": token }).to_string();
        assert!(subscriber.command(&command)["answer"].is_object());
    };
    // Longer than a command of a client without the right to publish.
    let event = "x".repeat(40 << 10);
    let publish =
        json!({ "command": "publish", "id": 2, "topic": "users/alice/out", "event": event });
    refresh(&mut subscriber, &publisher);
    assert!(subscriber.command(&publish.to_string())["answer"].is_object());
    refresh(&mut subscriber, &reader);
    subscriber.say(&publish.to_string());
    assert_eq!(subscriber.next(), close(Transport::WebSocket, 1009, "too big", false));
}

/// Returns the key set of an issuer, with one key of this id.
fn key_set(id: &str) -> Value {
    let text = std::fs::read_to_string(EC[1]).expect("a key");
    let text: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let der = base64(&text);
    let point = &der[der.len() - 64..];
    let [x, y] = [&point[..32], &point[32..]].map(url_text);
    json!({ "keys": [{ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "x": x, "y": y }] })
}

fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(value).collect();
    digits
        .chunks(4)
        .flat_map(|four| {
            let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
            let bits = bits << (6 * (4 - four.len()));
            bits.to_be_bytes()[1..four.len()].to_vec()
        })
        .collect()
}

fn url_text(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    bytes
        .chunks(3)
        .flat_map(|three| {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            (0..=three.len()).map(move |nth| DIGITS[(bits >> (18 - 6 * nth) & 63) as usize] as char)
        })
        .collect()
}

#[test]
fn keys_are_read_at_their_url_and_cached() {
    let issuer = Upstream::start(|_| Reply::json("", &key_set("one")));
    let url = issuer.url("/keys");
    let server = Server::start(&[
        "--jwks-url",
        &url,
        "--token",
        "inspector=i,inspect=**",
        "--token",
        "publisher=p,subscribe=**,publish=**,inspect=**,admin=true",
    ]);
    let get = |token: &str| {
        let headers = [("Authorization", &*bearer(token))];
        server.ask("GET", "/v1/topics/users/alice/in?limit=1", &headers, "")
    };
    get(&token(EC[0], Some("one"), json!({}))).refused(404, "no_such_topic");
    // The server requests the issuer's keys once in ten seconds, whatever key ids tokens name.
    for nth in 0..50 {
        let said =
            get(&token(EC[0], Some(&format!("k{nth}")), json!({}))).refused(401, "unauthorized");
        assert!(said.contains("no key"), "{said}");
    }
    assert!(issuer.count() <= 2, "{}", issuer.count());
}

#[test]
fn keys_that_were_read_stay_while_their_url_does_not_answer() {
    let (answers, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let issuer = Upstream::start({
        let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
        move |_| {
            asked.store(true, Relaxed);
            match answers.load(Relaxed) {
                true => Reply::json("", &key_set("one")),
                false => Reply::with(500, "", "not now"),
            }
        }
    });
    let server = Server::start(&["--jwks-url", &issuer.url("/keys")]);
    let get = |token: &str| {
        let headers = [("Authorization", &*bearer(token))];
        server.ask("GET", "/v1/topics/users/alice/in?limit=1", &headers, "")
    };
    let good = token(EC[0], Some("one"), json!({}));
    get(&good).refused(404, "no_such_topic");
    answers.store(false, Relaxed);
    asked.store(false, Relaxed);
    // The server requests an unknown key again, without result, as soon as it may.
    wait_for("another request", || {
        get(&token(EC[0], Some("two"), json!({}))).refused(401, "unauthorized");
        asked.load(Relaxed).then_some(())
    });
    get(&token(EC[0], Some("one"), json!({ "sub": "bob" }))).refused(403, "forbidden");
    get(&good).refused(404, "no_such_topic");
}

#[test]
fn a_slow_or_huge_key_set_delays_no_other_client() {
    let huge = format!(r#"{{"keys":[],"padding":"{}"}}"#, "x".repeat(300 << 10));
    for reply in [Some(huge), None] {
        let is_huge = reply.is_some();
        let issuer = Upstream::start(move |_| match &reply {
            Some(text) => Reply::with(200, "", text),
            None => Reply::Never(Vec::new()),
        });
        let server = Server::start(&[
            "--jwks-url",
            &issuer.url("/keys"),
            "--token",
            "a=s3cret,subscribe=**",
        ]);
        let signed = bearer(&token(EC[0], Some("one"), json!({})));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let headers = [("Authorization", &*signed)];
                server.ask("GET", "/v1/topics/t?limit=1", &headers, "").refused(503, "unavailable");
            });
            let mut served = 0;
            while !waiting.is_finished() {
                let headers = [("Authorization", "Bearer s3cret")];
                server
                    .ask("GET", "/v1/topics/t?limit=1", &headers, "")
                    .refused(404, "no_such_topic");
                served += 1;
                thalweg_testing::let_pass(LOOK_AGAIN_AFTER);
            }
            // A key set that is too large is detected early.
            assert!(is_huge || served > 0, "{served}");
        });
    }
}

#[test]
fn without_keys_every_token_is_refused() {
    for reply in ["", "{}", "nonsense"] {
        let issuer = Upstream::start(move |_| Reply::with(200, "", reply));
        let server = Server::start(&["--jwks-url", &issuer.url("/keys")]);
        let headers = [("Authorization", &*bearer(&token(EC[0], Some("one"), json!({}))))];
        let refused = server.ask("GET", "/v1/topics/users/alice/in?limit=1", &headers, "");
        refused.refused(503, "unavailable");
        // Other requests are served meanwhile.
        assert_eq!(server.get("/healthz").status, 200);
    }
}

#[test]
fn a_ticket_carries_rights_and_end() {
    let server = server(&[]);
    let short = bearer(&token(EC[0], None, json!({ "exp": now_s() + 3 })));
    let ticket = server.ask("POST", "/v1/tickets", &[("Authorization", &short)], "").json();
    let ticket = ticket["ticket"].as_str().expect("a ticket").to_owned();
    let mut subscriber =
        server.subscribe(Transport::Sse, &format!("/users/alice/in?ticket={ticket}"));
    subscriber.confirmed();
    assert_eq!(subscriber.next(), close(Transport::Sse, 4004, "expired", true));
    let long = bearer(&token(EC[0], None, json!({})));
    let ticket = server.ask("POST", "/v1/tickets", &[("Authorization", &long)], "").json();
    let ticket = ticket["ticket"].as_str().expect("a ticket").to_owned();
    server
        .get(&format!("/v1/topics/users/bob/in?limit=1&ticket={ticket}"))
        .refused(403, "forbidden");
}

/// Without this limit, a client without a token would make the server verify a token per command.
#[test]
fn a_connection_without_a_token_cannot_have_tokens_verified() {
    let server = server(&["--token", "everybody,subscribe=**"]);
    let mut subscriber = server.subscribe(Transport::WebSocket, "/t");
    subscriber.confirmed();
    let good = token(EC[0], None, json!({}));
    let answer = subscriber.command(&format!(r#"{{"command":"refresh","id":1,"token":"{good}"}}"#));
    let said = format!("{answer:?}");
    assert!(said.contains("forbidden") && said.contains("opened without a token"), "{said}");
}
