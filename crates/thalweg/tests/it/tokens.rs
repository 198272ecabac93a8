//! Tokens, tickets, and allowed origins.

use serde_json::json;

use crate::{
    access::ask,
    harness::{PUBLISHER, Server, Transport, wait_for_value},
};

const PUBLISH: &str = "Bearer publish-secret-1234567890";
const SUBSCRIBE: &str = "Bearer subscribe-secret-1234567890";

const PUBLISH_TOKEN: [&str; 2] = [
    "--token",
    "publisher=publish-secret-1234567890,subscribe=**,publish=**,inspect=**,admin=true",
];
const SUBSCRIBE_TOKEN: [&str; 2] =
    ["--token", "subscriber=subscribe-secret-1234567890,subscribe=**"];

fn with_both() -> Server {
    Server::start(&[PUBLISH_TOKEN, SUBSCRIBE_TOKEN].concat())
}

/// Requests of publishers: target and body of a `POST`.
const PUBLISHING: [(&str, &str); 2] = [
    ("/v1/topics/t", "1"),
    ("/v1/commands", r#"{"command":"publish","id":1,"topic":"t","event":1}"#),
];

/// Requests of subscribers: method, target, body.
const SUBSCRIBING: [(&str, &str, &str); 6] = [
    ("GET", "/v1/topics/t?transport=sse", ""),
    ("GET", "/v1/topics/t?transport=http-streaming", ""),
    ("GET", "/v1/topics/t?transport=forever-frame", ""),
    ("GET", "/v1/topics/t?wait=0", ""),
    ("GET", "/v1/topics/t?limit=1", ""),
    ("POST", "/v1/commands", r#"{"command":"ack","id":1,"topic":"t","position":"1.1"}"#),
];

#[test]
fn publishing_needs_the_publishers_token() {
    let server = Server::start(&PUBLISHER);
    for (target, body) in PUBLISHING {
        for headers in [
            &[][..],
            &[("Authorization", "Bearer wrong")],
            &[("Authorization", "Bearer ")],
            &[("Authorization", "publish-secret-1234567890")],
            &[("Authorization", "Basic publish-secret-1234567890")],
        ] {
            ask(&server, "POST", target, headers, body).refused(401, "unauthorized");
        }
        let answer = ask(&server, "POST", target, &[("Authorization", PUBLISH)], body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        // RFC 9110 §11.1: the scheme is case-insensitive.
        let headers = [("Authorization", "bearer publish-secret-1234567890")];
        assert_eq!(ask(&server, "POST", target, &headers, body).status, 200);
    }
    // Subscribing needs no token.
    for (method, target, body) in SUBSCRIBING {
        let answer = ask(&server, method, target, &[], body);
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    }
}

/// RFC 9110 §15.5.2: a 401 names the scheme.
fn check_scheme(method: &str, target: &str, body: &str) {
    let answer = ask(&with_both(), method, target, &[], body);
    answer.refused(401, "unauthorized");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{method} {target}");
}

#[test]
fn a_401_names_the_scheme() {
    for (method, target) in
        [("POST", "/v1/topics/t"), ("GET", "/v1/topics/t?wait=0"), ("POST", "/v1/tickets")]
    {
        check_scheme(method, target, "1");
    }
}

#[test]
fn a_401_for_a_command_names_the_scheme() {
    let (target, body) = PUBLISHING[1];
    check_scheme("POST", target, body);
}

#[test]
fn subscribing_needs_one_of_both_tokens_if_there_are_two() {
    let server = with_both();
    ask(&server, "POST", "/v1/topics/t", &[("Authorization", PUBLISH)], "1").published();
    for (method, target, body) in SUBSCRIBING {
        ask(&server, method, target, &[], body).refused(401, "unauthorized");
        ask(&server, method, target, &[("Authorization", "Bearer x")], body)
            .refused(401, "unauthorized");
        for token in [PUBLISH, SUBSCRIBE] {
            let answer = ask(&server, method, target, &[("Authorization", token)], body);
            assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        }
    }
    for (target, body) in PUBLISHING {
        let headers = [("Authorization", SUBSCRIBE)];
        ask(&server, "POST", target, &headers, body).refused(403, "forbidden");
    }
    for target in ["/healthz", "/readyz"] {
        assert_eq!(server.get(target).status, 200, "{target} is everybody's");
    }
    let websocket = Transport::WebSocket.headers();
    ask(&server, "GET", "/v1/topics/t", &websocket, "").refused(401, "unauthorized");
    ask(&server, "GET", "/v1/topics?topic=t", &websocket, "").refused(401, "unauthorized");
}

#[test]
fn a_websocket_without_topics_or_rights_can_do_nothing() {
    let server = with_both();
    let mut socket = server.subscribe(Transport::WebSocket, "");
    for command in [
        r#"{"command":"publish","id":1,"topic":"t","event":1}"#,
        r#"{"command":"subscribe","id":1,"topic":"t"}"#,
        r#"{"command":"ack","id":1,"topic":"t","position":"1.1"}"#,
    ] {
        let answer = socket.command(command);
        assert_eq!(answer["error"]["code"], json!("unauthorized"), "{command}");
    }
    let headers = [("Authorization", PUBLISH)];
    let topics = ask(&server, "GET", "/v1/topics", &headers, "").json();
    assert_eq!(topics, json!({"topics": []}));
}

#[test]
fn each_command_over_a_websocket_needs_its_token() {
    let server = with_both();
    let headers = [("Authorization", SUBSCRIBE)];
    let mut socket = server.subscribe_with(Transport::WebSocket, "/t", &headers);
    let position = socket.confirmed();
    let publish = r#"{"command":"publish","id":1,"topic":"t","event":1}"#;
    let answer = socket.command(publish);
    assert_eq!(answer["error"]["code"], json!("forbidden"));
    assert_eq!(answer["error"]["id"], json!(1));
    for command in [
        json!({"command": "echo", "id": 2, "data": 1}),
        json!({"command": "ack", "id": 3, "topic": "t", "position": position}),
        json!({"command": "subscribe", "id": 4, "topic": "u"}),
        json!({"command": "unsubscribe", "id": 5, "topic": "u"}),
    ] {
        let answer = socket.command(&command.to_string());
        assert_eq!(answer["answer"]["id"], command["id"], "{answer}");
    }
    let headers = [("Authorization", PUBLISH)];
    let mut publisher = server.subscribe_with(Transport::WebSocket, "", &headers);
    assert_eq!(publisher.command(publish)["answer"]["count"], json!(1));
    assert_eq!(socket.numbers(1).0, [1]);
}

fn ticket(server: &Server, token: &str) -> String {
    let answer = ask(server, "POST", "/v1/tickets", &[("Authorization", token)], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.header("cache-control").is_some_and(|value| value.contains("no-store")));
    let json = answer.json();
    assert_eq!(json["expires_in_s"], json!(30));
    json["ticket"].as_str().expect("a ticket").to_owned()
}

#[test]
fn a_ticket_opens_once_with_its_tokens_rights() {
    for shards in ["1", "4"] {
        let server =
            Server::start(&[&PUBLISH_TOKEN[..], &SUBSCRIBE_TOKEN, &["--shards", shards]].concat());
        for transport in Transport::ALL {
            let pass = ticket(&server, SUBSCRIBE);
            let target = format!("/v1/topics/t?ticket={pass}");
            let target = match transport.query() {
                Some(query) => format!("{target}&{query}"),
                None => target,
            };
            let opened = ask(&server, "GET", &target, &transport.headers(), "");
            assert!(matches!(opened.status, 101 | 200), "{transport:?}: {}", opened.text());
            for _ in 0..4 {
                let again = ask(&server, "GET", &target, &transport.headers(), "");
                again.refused(401, "unauthorized");
            }
        }
    }
}

/// Otherwise a ticket would be valid for ever.
#[test]
fn a_ticket_is_not_given_for_a_ticket() {
    let server = with_both();
    let pass = ticket(&server, PUBLISH);
    let target = format!("/v1/tickets?ticket={pass}");
    for token in [&[][..], &[("Authorization", PUBLISH)]] {
        ask(&server, "POST", &target, token, "").refused(400, "bad_parameter");
    }
    let opened = ask(&server, "GET", &format!("/v1/topics/t?limit=1&ticket={pass}"), &[], "");
    opened.refused(404, "no_such_topic");
}

#[test]
fn a_ticket_does_not_give_more_than_its_token() {
    let server = with_both();
    let target = |pass: &str| format!("/v1/topics/t?ticket={pass}");
    let mut socket = server
        .subscribe(Transport::WebSocket, &format!("/t?ticket={}", ticket(&server, SUBSCRIBE)));
    socket.confirmed();
    let publish = r#"{"command":"publish","id":1,"topic":"t","event":1}"#;
    assert_eq!(socket.command(publish)["error"]["code"], json!("forbidden"));
    let mut socket =
        server.subscribe(Transport::WebSocket, &format!("/t?ticket={}", ticket(&server, PUBLISH)));
    socket.confirmed();
    assert_eq!(socket.command(publish)["answer"]["count"], json!(1));
    for wrong in ["", "x", &"0".repeat(32)] {
        let refused = ask(&server, "GET", &target(wrong), &Transport::Sse.headers(), "");
        refused.refused(401, "unauthorized");
    }
    ask(&server, "POST", "/v1/tickets", &[], "").refused(401, "unauthorized");
    let wrong = [("Authorization", "Bearer wrong")];
    ask(&server, "POST", "/v1/tickets", &wrong, "").refused(401, "unauthorized");
}

#[test]
fn a_token_in_the_query_is_no_token() {
    let server = with_both();
    let target = "/v1/topics/t?transport=sse&token=subscribe-secret-1234567890";
    let refused = ask(&server, "GET", target, &[], "");
    assert!(matches!(refused.status, 400 | 401), "{}", refused.status);
}

#[test]
fn keys_of_different_publishers_are_different() {
    let server = with_both();
    let post = |key: &str, token: &str| {
        let headers = [("Idempotency-Key", key), ("Authorization", token)];
        ask(&server, "POST", "/v1/topics/t", &headers, "1")
    };
    assert_eq!(post("k", PUBLISH).published().first, 1);
    let again = post("k", PUBLISH);
    assert_eq!((again.header("idempotency-replayed"), again.published().first), (Some("true"), 1));
    // The token is checked before the key: a client without the right learns nothing.
    post("k", SUBSCRIBE).refused(403, "forbidden");
    post("k", "Bearer wrong").refused(401, "unauthorized");
}

#[test]
fn a_key_is_forgotten_after_its_time() {
    let server = Server::start(&["--set", "limits.idempotency-window=300ms"]);
    let post = || {
        let headers = [("Idempotency-Key", "k")];
        ask(&server, "POST", "/v1/topics/t", &headers, "1").published().first
    };
    assert_eq!((post(), post()), (1, 1));
    wait_for_value("the key to be forgotten", post, |first| *first != 1);
}

#[test]
fn more_keys_than_are_remembered_push_out_the_oldest() {
    let server = Server::start(&["--set", "limits.idempotency-keys=10"]);
    let post = |key: u32| {
        let key = format!("k{key}");
        let headers = [("Idempotency-Key", key.as_str())];
        ask(&server, "POST", "/v1/topics/t", &headers, "1").published().first
    };
    for key in 0..11 {
        assert_eq!(post(key), u64::from(key) + 1);
    }
    assert_eq!(post(10), 11, "the newest is remembered");
    assert_eq!(post(0), 12, "the oldest is not");
}

const APP: &str = "https://app.example";

#[test]
fn an_allowed_origin_gets_cors_headers_on_every_answer() {
    let server = Server::start(&["--allow-origin", APP]);
    let origin = [("Origin", APP)];
    for (method, target, body, status) in [
        ("POST", "/v1/topics/t", "1", 200),
        ("POST", "/v1/topics/t", "{", 400),
        ("GET", "/v1/topics/t?limit=1", "", 200),
        ("GET", "/v1/topics/new?limit=1", "", 404),
        ("GET", "/v1/topics/t?wait=0", "", 200),
        ("GET", "/v1/topics/t?transport=sse", "", 200),
        ("GET", "/v1/topics/t?transport=http-streaming", "", 200),
        ("POST", "/v1/commands", r#"{"command":"echo","data":1}"#, 200),
        ("POST", "/v1/tickets", "", 200),
        ("GET", "/nowhere", "", 404),
    ] {
        let answer = ask(&server, method, target, &origin, body);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some(APP), "{target}");
        // The response depends on the origin, so a cache must not reuse it for another one.
        let vary = answer.header("vary").unwrap_or_default().to_ascii_lowercase();
        assert!(vary.contains("origin"), "{target}: {vary:?}");
        let without = ask(&server, method, target, &[], body);
        assert_eq!(without.header("access-control-allow-origin"), None, "{target}");
    }
    let crowded = Server::start(&["--allow-origin", APP, "--set", "limits.connections=2"]);
    let client = crowded.http2();
    let mut streams =
        [0; 2].map(|_| client.start("GET", "/v1/topics/t?transport=sse", &origin, b""));
    for (stream, status) in streams.iter_mut().zip([200, 503]) {
        let head = stream.response_head();
        assert_eq!((head.status, head.header("access-control-allow-origin")), (status, Some(APP)));
    }
    let answer = ask(&server, "GET", "/v1/topics", &[("Origin", "https://other.example")], "");
    answer.refused(403, "bad_origin");
    let headers = [&Transport::WebSocket.headers()[..], &origin].concat();
    assert_eq!(ask(&server, "GET", "/v1/topics/t", &headers, "").status, 101);
    let frame = ask(&server, "GET", "/v1/topics/t?transport=forever-frame", &origin, "");
    let policy = frame.header("content-security-policy").expect("a policy");
    let (_, ancestors) = policy.split_once("frame-ancestors ").expect("who may frame it");
    let ancestors = ancestors.split(';').next().unwrap_or_default();
    assert_eq!(ancestors.trim(), format!("'self' {APP}"));
}

#[test]
fn a_preflight_lists_headers_that_a_page_may_send() {
    let server = Server::start(&[&["--allow-origin", APP][..], &PUBLISH_TOKEN].concat());
    for target in ["/v1/topics/t", "/v1/commands", "/v1/tickets", "/v1/topics"] {
        let headers = [
            ("Origin", APP),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization,content-type,idempotency-key"),
        ];
        // A preflight has no token.
        let answer = ask(&server, "OPTIONS", target, &headers, "");
        assert!(matches!(answer.status, 200 | 204), "{target}: {}", answer.status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(APP));
        let methods = answer.header("access-control-allow-methods").unwrap_or_default();
        assert!(methods.contains("GET") && methods.contains("POST"), "{methods}");
        let allowed = answer.header("access-control-allow-headers").unwrap_or_default();
        let allowed = allowed.to_ascii_lowercase();
        for name in
            ["authorization", "content-type", "idempotency-key", "last-event-id", "x-request-id"]
        {
            assert!(allowed.contains(name), "{name} in {allowed}");
        }
    }
    let answer =
        ask(&server, "POST", "/v1/topics/t", &[("Origin", APP), ("Authorization", PUBLISH)], "1");
    let exposed = answer.header("access-control-expose-headers").unwrap_or_default();
    for name in ["idempotency-replayed", "x-request-id"] {
        assert!(exposed.to_ascii_lowercase().contains(name), "{name} in {exposed}");
    }
}

#[test]
fn every_origin_may_be_allowed() {
    let server = Server::start(&["--allow-origin", "*"]);
    for origin in ["https://a.example", "http://b.example:8080", "null"] {
        let answer = ask(&server, "GET", "/v1/topics", &[("Origin", origin)], "");
        assert_eq!(answer.status, 200, "{origin}");
        let allowed = answer.header("access-control-allow-origin");
        assert!(allowed == Some("*") || allowed == Some(origin), "{allowed:?}");
    }
}

#[test]
fn a_host_that_the_server_was_told_of_is_served() {
    let server = Server::start(&["--allow-host", "push.example"]);
    for host in ["push.example", "PUSH.example", "push.example:8443", "localhost"] {
        assert_eq!(
            ask(&server, "GET", "/v1/topics/t?wait=0", &[("Host", host)], "").status,
            200,
            "{host}"
        );
    }
    ask(&server, "GET", "/v1/topics/t?wait=0", &[("Host", "other.example")], "")
        .refused(421, "bad_host");
    let own = [("Host", "push.example"), ("Origin", "https://push.example")];
    assert_eq!(ask(&server, "GET", "/v1/topics/t?wait=0", &own, "").status, 200);
}
