use std::time::Duration;

use crate::harness::{OPEN, PUBLISHER, Raw, Server, TRUSTED, chunk, ticking, unharmed};

fn begin(server: &Server, headers: &str) -> Raw {
    let mut raw = Raw::connect(server.address);
    raw.send(format!("POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
    raw
}

const LINES: &str = "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n";

#[test]
fn a_body_that_does_not_come_in_time_is_408() {
    let server = ticking(&["--body-timeout", "300ms"]);
    unharmed(&server, || {
        let mut silent = begin(&server, "Content-Length: 10\r\n");
        let mut half = begin(&server, "Content-Length: 10\r\n");
        half.send("12345");
        let mut dripping = begin(&server, "Content-Length: 10000\r\n");
        for _ in 0..200 {
            if !dripping.send("1") {
                break;
            }
            thalweg_testing::let_pass(Duration::from_millis(10));
        }
        for raw in [&mut silent, &mut half, &mut dripping] {
            raw.answer().refused(408, "slow_request");
        }
        let mut command = Raw::connect(server.address);
        let head = "POST /v1/commands HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
        command.send(format!("{head}{{"));
        command.answer().refused(408, "slow_request");
    });
    server.has_refused("slow_request", 4);
}

/// A line must be completed in time; between lines there is no limit.
#[test]
fn a_slow_line_is_408_and_slow_lines_are_not() {
    let server = ticking(&["--body-timeout", "300ms"]);
    unharmed(&server, || {
        let mut patient = begin(&server, LINES);
        patient.send(chunk("1\n"));
        let mut slow = begin(&server, LINES);
        slow.send(chunk("1\n2"));
        let answer = slow.answer();
        answer.refused(408, "slow_request");
        let told: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(told["published"]["count"], 1, "{told}");
        // For the other client, too, more than the time for a line has passed.
        patient.send(chunk("2\n"));
        patient.send("0\r\n\r\n");
        assert_eq!(patient.answer().status, 200);
    });
    server.has_refused("slow_request", 1);
}

#[test]
fn bodies_that_are_too_large_are_413() {
    let server = ticking(&["--set", "limits.event-bytes=16KiB"]);
    let large = format!("\"{}\"", "x".repeat(16 << 10));
    unharmed(&server, || {
        let length = format!("Content-Length: {}\r\n", large.len());
        let mut raw = begin(&server, &length);
        raw.send(&large);
        raw.answer().refused(413, "event_too_large");
        // The server does not wait for a body that is known to be too large.
        let mut raw = begin(&server, "Content-Length: 1099511627776\r\n");
        raw.send(&large);
        raw.answer().refused(413, "event_too_large");
        let mut raw = begin(&server, LINES);
        raw.send(chunk(&format!("1\n{large}")));
        let answer = raw.answer();
        answer.refused(413, "event_too_large");
        let mut raw = begin(&server, "Transfer-Encoding: chunked\r\n");
        raw.send(chunk(&large));
        raw.answer().refused(413, "event_too_large");
    });
    server.has_refused("event_too_large", 4);
}

/// Bytes after the announced length are the next request, and an invalid one.
#[test]
fn a_body_larger_than_said_is_cut_where_it_was_said_to_end() {
    let server = ticking(&[]);
    unharmed(&server, || {
        let mut raw = begin(&server, "Content-Length: 2\r\n");
        raw.send("1234\r\n\r\n");
        assert_eq!(raw.answer().status, 200);
        assert_eq!(raw.answer().status, 400);
    });
    let mut raw = Raw::connect(server.address);
    raw.ask("GET", "/v1/topics/t?limit=10", &[], "");
    let answer = raw.answer();
    let read: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(read["events"], serde_json::json!([12]), "{read}");
    server.has_refused("bad_parameter", 1);
}

#[test]
fn broken_chunks_are_refused_and_earlier_events_stay() {
    let server = ticking(&[]);
    let broken = ["zz\r\n1\n\r\n", "1\r\nab\r\n", "-1\r\n", "ffffffffffffffffff\r\n1\n"];
    unharmed(&server, || {
        for broken in broken {
            let mut raw = begin(&server, LINES);
            raw.send(chunk("1\n"));
            raw.send(broken);
            if let Some(answer) = raw.answer_if_any() {
                answer.refused(400, "bad_event");
            }
        }
    });
    server.has_refused("bad_event", broken.len() as u64);
    server.has_counted("thalweg_requests", 0);
}

#[test]
fn too_many_bodies_at_a_time_are_503_and_told_to_try_again() {
    let server = ticking(&["--set", "limits.requests=4"]);
    unharmed(&server, || {
        let mut held: Vec<Raw> = (0..4).map(|_| begin(&server, LINES)).collect();
        for raw in &mut held {
            raw.send(chunk("1\n2"));
        }
        let mut subscriber =
            server.subscribe(crate::harness::Transport::HttpStreaming, "/t?cursor=earliest");
        subscriber.confirmed();
        // Each client has begun a second line when its first one is published.
        subscriber.numbers(4);
        server.has_counted("thalweg_requests", 4);
        for target in ["/v1/topics/t", "/v1/commands"] {
            let mut raw = Raw::connect(server.address);
            raw.ask("POST", target, &[], r#"{"command":"echo","data":1}"#);
            let answer = raw.answer();
            answer.refused(503, "busy");
            assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{}", answer.head);
        }
        held.pop().expect("one").send("0\r\n\r\n");
        crate::harness::wait_for("a place", || {
            let mut raw = Raw::connect(server.address);
            raw.ask("POST", "/v1/topics/t", &[], "5");
            (raw.answer().status == 200).then_some(())
        });
    });
    assert!(server.count("thalweg_refused_total{code=\"busy\"}") >= 2);
    server.has_counted("thalweg_requests", 0);
}

/// Between lines a publisher may wait for hours.
#[test]
fn publishers_between_lines_hold_no_place() {
    let server = ticking(&["--set", "limits.requests=8"]);
    unharmed(&server, || {
        let mut idle: Vec<Raw> = (0..8).map(|_| begin(&server, LINES)).collect();
        let mut subscriber =
            server.subscribe(crate::harness::Transport::HttpStreaming, "/t?cursor=earliest");
        subscriber.confirmed();
        for raw in &mut idle {
            raw.send(chunk("1\n"));
        }
        subscriber.numbers(8);
        server.has_counted("thalweg_requests", 0);
        assert_eq!(server.post("t", "application/json", "9").status, 200);
        // Incomplete lines have taken all places: a new line is refused, and a publisher of earlier lines waits for a place.
        let mut begun: Vec<Raw> = (0..8).map(|_| begin(&server, LINES)).collect();
        for raw in &mut begun {
            raw.send(chunk("1"));
        }
        server.has_counted("thalweg_requests", 8);
        server.post("t", "application/json", "9").refused(503, "busy");
        for raw in &mut idle {
            raw.send(chunk("2\n"));
        }
        begun[0].send(chunk("\n"));
        subscriber.numbers(1 + 1 + 8);
        server.has_counted("thalweg_requests", 7);
        for raw in idle.iter_mut().chain(&mut begun) {
            raw.send("0\r\n\r\n");
            assert_eq!(raw.answer().status, 200);
        }
    });
    server.has_counted("thalweg_requests", 0);
}

/// The server would have to decompress a body for anyone who sends it.
#[test]
fn a_body_in_a_content_coding_is_415() {
    let server = ticking(&[]);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        for target in ["/v1/topics/t", "/v1/commands"] {
            for coding in ["gzip", "identity, br", "x"] {
                raw.ask("POST", target, &[("Content-Encoding", coding)], "\x1f\u{8b}");
                let answer = raw.answer();
                assert!(answer.refused(415, "unsupported_encoding").contains("Content-Encoding"));
                assert!(answer.head.contains("\r\naccept-encoding: identity\r\n"));
            }
        }
        for coding in ["identity", "Identity"] {
            raw.ask("POST", "/v1/topics/t", &[("Content-Encoding", coding)], "1");
            assert_eq!(raw.answer().status, 200);
        }
    });
    server.has_refused("unsupported_encoding", 6);
}

/// Any client may send a command, and its body takes a place before it is parsed.
#[test]
fn those_without_the_token_have_places_of_their_own() {
    const TOKEN: &str = "publish-secret-1234567890";
    let bearer = format!("Bearer {TOKEN}");
    let echo = r#"{"command":"echo","data":1}"#;
    for (places, others) in [("1", 1), ("4", 1), ("8", 2)] {
        let limit = format!("limits.requests={places}");
        let server = ticking(&[&["--set", &limit], &PUBLISHER[..]].concat());
        let mut raw = Raw::connect(server.address);
        raw.ask("POST", "/v1/commands", &[], echo);
        assert_eq!(raw.answer().status, 200);
        unharmed(&server, || {
            let begin = |headers: &str| {
                let mut raw = Raw::connect(server.address);
                raw.send(format!(
                    "POST {headers}\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1"
                ));
                raw
            };
            let held: Vec<Raw> = (0..others).map(|_| begin("/v1/commands HTTP/1.1")).collect();
            server.has_counted("thalweg_requests", others);
            raw.ask("POST", "/v1/commands", &[], echo);
            raw.answer().refused(503, "busy");
            // However many other bodies there are, all places belong to publishers.
            let places: u64 = places.parse().expect("a number");
            let publish = format!("/v1/topics/t HTTP/1.1\r\nAuthorization: {bearer}");
            let publishers: Vec<Raw> = (1..places).map(|_| begin(&publish)).collect();
            server.has_counted("thalweg_requests", others + places - 1);
            raw.ask("POST", "/v1/topics/t", &[("Authorization", &bearer)], "1");
            assert_eq!(raw.answer().status, 200);
            drop((held, publishers));
        });
    }
}

/// However many slow bodies a client has, others find places.
#[test]
fn one_client_has_half_of_the_places() {
    let server = ticking(&[&["--set", "limits.requests=8"], &TRUSTED[..], &OPEN].concat());
    let of = |client: &str, body: &str| {
        let headers = format!("X-Forwarded-For: {client}\r\nContent-Length: 1\r\n");
        let mut raw = begin(&server, &headers);
        raw.send(body);
        raw
    };
    unharmed(&server, || {
        let mut slow: Vec<Raw> = (0..4).map(|_| of("192.0.2.1", "")).collect();
        server.has_counted("thalweg_requests", 4);
        of("192.0.2.1", "1").answer().refused(503, "busy");
        assert_eq!(of("192.0.2.2", "1").answer().status, 200);
        for raw in &mut slow {
            raw.send("1");
            assert_eq!(raw.answer().status, 200);
        }
        assert_eq!(of("192.0.2.1", "1").answer().status, 200);
    });
    server.has_counted("thalweg_requests", 0);
}

/// Endless bodies have a bound in total. Small ones are read nevertheless.
#[test]
fn large_bodies_that_do_not_end_leave_room_and_small_ones_pass() {
    let server = ticking(&[
        "--set",
        "limits.event-bytes=200KiB",
        "--set",
        "limits.unfinished-bytes=256KiB",
        "--body-timeout",
        "60s",
    ]);
    let half = "x".repeat(100_000);
    let begun: Vec<Raw> = (0..6)
        .map(|number| {
            let lines = if number % 2 == 0 { LINES } else { "Content-Length: 200000\r\n" };
            let mut raw = begin(&server, lines);
            raw.send(if number % 2 == 0 { chunk(&half) } else { half.clone() });
            raw
        })
        .collect();
    server.await_metric("thalweg_refused_total{code=\"busy\"}", |count| count >= 2.0);
    unharmed(&server, || {
        let mut small = begin(&server, "Content-Length: 2\r\n");
        small.send("12");
        assert_eq!(small.answer().status, 200);
    });
    drop(begun);
    server.has_counted("thalweg_body_bytes{shard=\"0\"}", 0);
    let mut large = begin(&server, "Content-Length: 200000\r\n");
    large.send("1".repeat(200_000));
    assert_eq!(large.answer().status, 200);
}
