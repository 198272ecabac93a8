//! Access by host and origin, on loopback.

use crate::harness::{Response, Server, Transport, request};

/// Sends a request. Returns the response, or only the head of a stream.
pub(crate) fn ask(
    server: &Server,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut socket = server.connect();
    socket.send_if_open(request(method, target, headers, body.as_bytes()));
    let mut head = socket.response_head();
    if head.header("content-length").is_some() {
        head.body = socket.body(&head);
    }
    head
}

/// One request of each kind: method, target, body, and the status when it is accepted.
const REQUESTS: [(&str, &str, &str, u16); 14] = [
    ("POST", "/v1/topics/t", "1", 200),
    ("POST", "/v1/commands", r#"{"command":"echo","data":1}"#, 200),
    ("GET", "/v1/topics/t?limit=1", "", 200),
    ("GET", "/v1/topics", "", 200),
    ("GET", "/v1/topics/t?transport=sse", "", 200),
    ("GET", "/v1/topics/t?transport=http-streaming", "", 200),
    ("GET", "/v1/topics/t?transport=forever-frame", "", 200),
    ("GET", "/v1/topics/t?wait=0", "", 200),
    ("GET", "/metrics", "", 200),
    ("POST", "/v1/tickets", "", 200),
    ("POST", "/hub/negotiate?negotiateVersion=1", "", 200),
    // A session that does not exist.
    ("GET", "/hub?id=1", "", 404),
    ("POST", "/hub?id=1", "", 404),
    ("DELETE", "/hub?id=1", "", 404),
];

const WEBSOCKETS: [&str; 2] = ["/v1/topics/t", "/hub"];

fn start() -> Server {
    Server::start(&["--set", "signalr.paths=[\"/hub\"]"])
}

fn handshake<'a>(headers: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&Transport::WebSocket.headers(), headers].concat()
}

#[test]
fn on_loopback_only_loopbacks_names_are_served() {
    let server = start();
    let port = server.address.port();
    let loopback = [
        "localhost".to_owned(),
        "LOCALHOST".to_owned(),
        format!("localhost:{port}"),
        format!("127.0.0.1:{port}"),
        "127.0.0.1".to_owned(),
        format!("[::1]:{port}"),
    ];
    for host in &loopback {
        for (method, target, body, status) in REQUESTS {
            let answer = ask(&server, method, target, &[("Host", host)], body);
            assert_eq!(answer.status, status, "{host}: {method} {target}: {}", answer.text());
        }
        for path in WEBSOCKETS {
            let answer = ask(&server, "GET", path, &handshake(&[("Host", host)]), "");
            assert_eq!(answer.status, 101, "{host} {path}");
        }
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example@localhost",
        "10.0.0.1",
        "",
    ] {
        for (method, target, body, _) in REQUESTS {
            let answer = ask(&server, method, target, &[("Host", host)], body);
            assert_eq!(answer.status, 421, "{host:?}: {method} {target}");
            answer.refused(421, "bad_host");
        }
        for path in WEBSOCKETS {
            let answer = ask(&server, "GET", path, &handshake(&[("Host", host)]), "");
            answer.refused(421, "bad_host");
        }
    }
}

#[test]
fn the_hosts_rule_holds_over_http2() {
    let server = start();
    let client = server.http2();
    client.ask("GET", "/v1/topics", &[("host", "evil.example")], "").refused(421, "bad_host");
    assert_eq!(client.ask("GET", "/v1/topics", &[("host", "localhost:1")], "").status, 200);
}

#[test]
fn a_page_of_the_servers_own_origin_is_served() {
    let server = start();
    let port = server.address.port();
    let host = format!("127.0.0.1:{port}");
    let origin = format!("http://{host}");
    for (method, target, body, status) in REQUESTS {
        let headers = [("Host", host.as_str()), ("Origin", origin.as_str())];
        let answer = ask(&server, method, target, &headers, body);
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.text());
    }
    let headers = handshake(&[("Host", host.as_str()), ("Origin", origin.as_str())]);
    for path in WEBSOCKETS {
        assert_eq!(ask(&server, "GET", path, &headers, "").status, 101);
    }
}

#[test]
fn a_page_of_another_origin_is_turned_away_and_does_nothing() {
    let server = start();
    let port = server.address.port();
    let other_port = format!("http://localhost:{}", port ^ 1);
    for origin in [
        "http://evil.example",
        "https://evil.example:443",
        "null",
        "http://localhost.evil.example",
        other_port.as_str(),
        "",
    ] {
        for (method, target, body, _) in REQUESTS {
            let host = format!("localhost:{port}");
            let headers = [("Host", host.as_str()), ("Origin", origin)];
            let answer = ask(&server, method, target, &headers, body);
            assert_eq!(answer.status, 403, "{origin:?}: {method} {target}");
            answer.refused(403, "bad_origin");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
        let headers = handshake(&[("Origin", origin)]);
        for path in WEBSOCKETS {
            ask(&server, "GET", path, &headers, "").refused(403, "bad_origin");
        }
    }
    server.get("/v1/topics/t?limit=1").refused(404, "no_such_topic");
}

#[test]
fn a_preflight_of_another_origin_is_not_granted() {
    let server = start();
    let headers = [("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")];
    let answer = ask(&server, "OPTIONS", "/v1/topics/t", &headers, "");
    answer.refused(403, "bad_origin");
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(answer.header("access-control-allow-methods"), None);
}

#[test]
fn it_is_ready_until_it_drains() {
    let mut server = start();
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.get("/healthz").status, 200);
    // This client does not answer its close, so that the server drains for a while.
    let mut mute = server.subscribe(Transport::WebSocket, "/t");
    mute.confirmed();
    let mut alive = server.connect();
    alive.send(request("GET", "/readyz", &[], b""));
    assert_eq!(alive.response().status, 200);
    let client = server.http2();
    assert_eq!(client.ask("GET", "/readyz", &[], "").status, 200);
    server.terminate();
    mute.next();
    // An existing connection may get one more response, or be closed.
    alive.send_if_open(request("GET", "/readyz", &[], b""));
    if let Some(answer) = alive.response_if_open() {
        answer.refused(503, "draining");
    }
    drop((mute, client));
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn responses_forbid_caching_and_sniffing() {
    let server = start();
    for (method, target, body, _) in REQUESTS {
        let answer = ask(&server, method, target, &[], body);
        assert!(answer.header("content-type").is_some(), "{target}");
        if target == "/metrics" {
            continue;
        }
        let cache = answer.header("cache-control");
        // A cache cannot reuse a stream.
        let rule = if target.contains("transport=") || target.contains("wait=") {
            "no-cache"
        } else {
            "no-store"
        };
        assert!(cache.is_some_and(|value| value.contains(rule)), "{target}: {cache:?}");
    }
    for target in ["/v1/topics/t?transport=sse", "/v1/topics/t?transport=http-streaming"] {
        let answer = ask(&server, "GET", target, &[], "");
        assert_eq!(answer.header("x-accel-buffering"), Some("no"), "{target}");
    }
}
