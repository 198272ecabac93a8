use std::time::Duration;

use super::{connect, error, setting};
use crate::harness::{H2, Raw, flag, kind, ticking, unharmed, wait_for};

/// A topic with 100 kB, 200 times per second.
const HOSE: [&str; 4] =
    ["--source", "hose=dummy,interval=5ms,size=100000", "--topic", "**,history-bytes=1MiB"];

/// Subscribes on this many streams, with a window of 0.
fn stopped(raw: Raw, streams: u32) -> H2 {
    let mut h2 = H2::start(raw, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
    for number in 0..streams {
        h2.get(2 * number + 1, "/v1/topics/hose?transport=sse", &[]);
    }
    h2
}

#[test]
fn streams_whose_window_stays_shut_hold_little() {
    const STREAMS: u32 = 64;
    let server = ticking(&[&HOSE[..], &["--write-timeout", "60s"]].concat());
    let before = server.memory();
    unharmed(&server, || {
        let _held = stopped(Raw::connect(server.address), STREAMS);
        wait_for("all of them to be full", || {
            (server.count("thalweg_blocked_connections") >= u64::from(STREAMS)).then_some(())
        });
        let sent = server.count("thalweg_sent_bytes_total");
        thalweg_testing::let_pass(Duration::from_millis(500));
        // The server sends to the bystander only, which is little.
        let more = server.count("thalweg_sent_bytes_total") - sent;
        assert!(more < 1 << 20, "{more} bytes for those who read nothing");
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes for {STREAMS} streams");
    });
    server.has_counted("thalweg_piped_connections", 0);
}

#[test]
fn a_stream_that_is_not_read_is_reset_after_the_stall() {
    let server = ticking(&[&HOSE[..], &["--write-timeout", "500ms"]].concat());
    unharmed(&server, || {
        let mut h2 = stopped(Raw::connect(server.address), 1);
        let reset = h2.until(|f| f.stream == 1 && f.kind == kind::RST_STREAM).expect("a reset");
        assert_eq!(reset.error(), error::CANCEL);
        // The connection itself stays open.
        h2.get(3, "/healthz", &[]);
        h2.until(|frame| frame.stream == 3 && frame.kind == kind::HEADERS).expect("an answer");
    });
    server.has_closed(4002, 1);
    server.has_counted("thalweg_piped_connections", 0);
}

/// A client that reads something from time to time is only slow.
#[test]
fn a_stream_read_slowly_hears_of_its_gaps() {
    let server = ticking(&HOSE);
    unharmed(&server, || {
        let mut h2 = stopped(Raw::connect(server.address), 1);
        let mut received = String::new();
        while !received.contains("\"reason\":\"slow\"") {
            for stream in [0, 1] {
                h2.send(kind::WINDOW_UPDATE, 0, stream, 20_000_u32.to_be_bytes());
            }
            let data = h2.until(|f| f.stream == 1 && f.kind == kind::DATA).expect("data");
            received.push_str(&String::from_utf8_lossy(&data.payload));
            thalweg_testing::let_pass(Duration::from_millis(10));
        }
    });
}

#[test]
fn a_streams_window_over_its_bound_resets_the_stream() {
    let server = ticking(&[]);
    unharmed(&server, || {
        let mut h2 = connect(&server);
        h2.get(1, "/v1/topics/tick?transport=sse", &[]);
        h2.until(|frame| frame.stream == 1 && frame.kind == kind::DATA).expect("data");
        h2.send(kind::WINDOW_UPDATE, 0, 1, 0x7fff_ffff_u32.to_be_bytes());
        let reset = h2.until(|f| matches!(f.kind, kind::RST_STREAM | kind::GOAWAY));
        assert_eq!(reset.expect("an error").error(), error::FLOW_CONTROL_ERROR);
    });
    server.has_counted("thalweg_piped_connections", 0);
}

/// A connection whose socket is not read at all: pings detect it.
#[test]
fn a_connection_that_reads_nothing_is_ended() {
    let arguments = [&HOSE[..], &["--write-timeout", "500ms", "--heartbeat", "500ms"]].concat();
    let server = ticking(&arguments);
    let before = server.memory();
    unharmed(&server, || {
        let window = (1 << 31) - 1;
        let raw = Raw::connect(server.address);
        let mut h2 = H2::start(raw, &[(setting::INITIAL_WINDOW_SIZE, window)]);
        h2.send(kind::WINDOW_UPDATE, 0, 0, (1_u32 << 30).to_be_bytes());
        for number in 0..16 {
            h2.get(2 * number + 1, "/v1/topics/hose?transport=sse", &[]);
        }
        wait_for("its streams", || (server.count("thalweg_piped_connections") == 16).then_some(()));
        server.has_counted("thalweg_piped_connections", 0);
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes more than before");
    });
}

/// Bodies that are sent faster than the server reads them wait in the client.
#[test]
fn a_body_waits_for_its_window() {
    let server = ticking(&["--body-timeout", "500ms", "--set", "limits.event-bytes=64KiB"]);
    unharmed(&server, || {
        let mut h2 = connect(&server);
        let head = H2::head("POST", "/v1/topics/t");
        h2.send(kind::HEADERS, flag::END_HEADERS, 1, head);
        // The client exceeds every window (RFC 9113 §6.9.1), until an error follows.
        for _ in 0..1_000 {
            if !h2.send(kind::DATA, 0, 1, vec![b'1'; 16 << 10]) {
                break;
            }
        }
        let ended = h2.until(|f| matches!(f.kind, kind::RST_STREAM | kind::GOAWAY));
        assert!(ended.is_none_or(|frame| frame.error() != 0 || frame.kind == kind::RST_STREAM));
    });
    server.has_counted("thalweg_requests", 0);
}

/// The same rule holds for an HTTP/1.1 connection without a request.
#[test]
fn a_connection_without_a_stream_is_kept_for_as_long_as_one_without_a_request() {
    let server = ticking(&["--set", "limits.keep-alive-timeout=500ms", "--write-timeout", "100ms"]);
    unharmed(&server, || {
        let mut kept = connect(&server);
        kept.get(1, "/v1/topics/tick?transport=sse", &[]);
        let mut idle = connect(&server);
        idle.get(1, "/healthz", &[]);
        assert_eq!(idle.body(1), "ok\n");
        assert_eq!(idle.ended_with(), Some(error::NO_ERROR));
        assert!(idle.until(|_| false).is_none());
        // The other connection has had a stream for longer than that.
        kept.get(3, "/healthz", &[]);
        kept.until(|frame| frame.stream == 3 && frame.kind == kind::HEADERS).expect("an answer");
        assert!(kept.until_kind(kind::DATA).is_some());
    });
}
