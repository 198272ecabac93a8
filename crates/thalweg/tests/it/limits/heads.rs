use std::time::Duration;

use crate::harness::{Raw, Server, ticking, unharmed};

const SLOW: &[&str] = &["--header-timeout", "300ms", "--set", "limits.keep-alive-timeout=500ms"];

/// Sends `bytes` on a new connection. Returns the response until its end.
fn answer_to(server: &Server, bytes: impl AsRef<[u8]>) -> String {
    let mut raw = Raw::connect(server.address);
    raw.send(bytes);
    raw.rest_text("the server to hang up")
}

#[test]
fn a_head_that_does_not_end_in_time_is_408() {
    let server = ticking(SLOW);
    unharmed(&server, || {
        let starts = ["G", "GET /v1/topics/t HTT", "GET / HTTP/1.1\r\nHost: localhost\r\n"];
        let mut raws = starts.map(|start| {
            let mut raw = Raw::connect(server.address);
            raw.send(start);
            raw
        });
        for raw in &mut raws {
            raw.answer().refused(408, "slow_request");
            assert_eq!(raw.rest_text("the end"), "");
        }
    });
    server.has_refused("slow_request", 3);
}

/// A byte from time to time is no progress: the head has a deadline as a whole.
#[test]
fn a_head_that_drips_is_408() {
    let server = ticking(SLOW);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        raw.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
        for _ in 0..200 {
            if !raw.send("x") {
                break;
            }
            thalweg_testing::let_pass(Duration::from_millis(10));
        }
        raw.answer().refused(408, "slow_request");
    });
    server.has_refused("slow_request", 1);
}

/// Browsers connect in advance: a connection without a request is closed, and counts as no error.
#[test]
fn a_connection_without_a_request_is_closed_silently() {
    let server = ticking(SLOW);
    unharmed(&server, || {
        assert_eq!(answer_to(&server, ""), "");
        // An earlier request makes no difference.
        let mut raw = Raw::connect(server.address);
        raw.ask("GET", "/healthz", &[], "");
        assert_eq!(raw.answer().status, 200);
        assert_eq!(raw.rest_text("the server to hang up"), "");
    });
    server.has_refused("slow_request", 0);
}

/// A load balancer keeps its connections for a minute: waiting for the next request is not a slow head.
#[test]
fn a_connection_without_a_request_is_kept_for_longer_than_a_head_may_take() {
    let server = ticking(&["--header-timeout", "100ms"]);
    let mut raw = Raw::connect(server.address);
    for _ in 0..3 {
        raw.ask("GET", "/healthz", &[], "");
        assert_eq!(raw.answer().status, 200);
        thalweg_testing::let_pass(Duration::from_millis(500));
    }
    let body = "1\n2\n";
    raw.ask("POST", "/v1/topics/t", &[("Content-Type", "application/x-ndjson")], body);
    assert_eq!(raw.answer().status, 200);
    thalweg_testing::let_pass(Duration::from_millis(500));
    // The next head has the same deadline as the first one.
    raw.send("GET /healthz HTTP/1.1\r\nHost: loc");
    raw.answer().refused(408, "slow_request");
    assert_eq!(raw.rest_text("the end"), "");
    server.has_refused("slow_request", 1);
}

/// The HTTP library answers these with a status only.
#[test]
fn heads_that_are_too_large_are_431() {
    let server = ticking(&["--set", "limits.header-bytes=16KiB"]);
    let start = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    let many = "X-Many: y\r\n";
    let one = format!("{start}X-One: {}", "x".repeat(1 << 20));
    let endless = format!("{start}{}", many.repeat(100_000));
    let ten_thousand = format!("{start}{}\r\n", "a:\r\n".repeat(10_000));
    unharmed(&server, || {
        for head in [one, endless, ten_thousand] {
            let mut raw = Raw::connect(server.address);
            raw.send(&head);
            // The client still sends while it is refused, so that a reset may replace the response.
            if let Some(answer) = raw.answer_if_any() {
                assert_eq!(answer.status, 431, "{}", answer.head);
            }
        }
        // A client that stops just above the limit receives the response.
        let just_over = format!("{start}X-One: {}", "x".repeat(16 << 10));
        let mut raw = Raw::connect(server.address);
        raw.send(just_over);
        assert_eq!(raw.answer().status, 431);
    });
    server.has_refused("head_too_large", 4);
}

#[test]
fn a_request_line_without_end_is_refused() {
    let server = ticking(&["--set", "limits.header-bytes=16KiB"]);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        raw.send(format!("GET /{}", "x".repeat(16 << 10)));
        let answer = raw.answer();
        assert!([414, 431].contains(&answer.status), "{}", answer.head);
    });
    server.has_refused("head_too_large", 1);
}

#[test]
fn garbage_behind_a_request_is_refused_after_its_answer() {
    let server = ticking(&[]);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        raw.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\0\x01garbage\r\n\r\n");
        assert_eq!(raw.answer().status, 200);
        assert_eq!(raw.answer().status, 400);
        assert_eq!(raw.rest_text("the end"), "");
        // A thousand requests arrive at once, then garbage: each request is answered.
        let mut raw = Raw::connect(server.address);
        raw.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000));
        raw.send("\0\r\n\r\n");
        for _ in 0..1000 {
            assert_eq!(raw.answer().status, 200);
        }
        assert_eq!(raw.answer().status, 400);
    });
    server.has_refused("bad_parameter", 2);
}

/// RFC 9110 §7.8: a server ignores an upgrade over HTTP/1.0.
#[test]
fn an_upgrade_over_http_1_0_is_ignored() {
    let server = ticking(&[]);
    let upgrade = "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    unharmed(&server, || {
        let text = answer_to(&server, format!("GET /v1/topics/t HTTP/1.0\r\n{upgrade}\r\n"));
        assert!(text.starts_with("HTTP/1.0 4"), "{text}");
        assert!(text.contains("{\"error\":{\"code\":"), "{text}");
        let mut raw = Raw::connect(server.address);
        let accept = "Accept: text/event-stream\r\n";
        raw.send(format!("GET /v1/topics/tick HTTP/1.0\r\n{upgrade}{accept}\r\n"));
        let head = raw.until(b"\r\n\r\n", "the head").expect("an answer");
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        assert!(head.contains(" 200 ") && head.contains("text/event-stream"), "{head}");
    });
}
