//! Responses that clients do not read: their cost, which connection is closed, and no effect on other clients.

mod histories;

use thalweg_testing::undisturbed;

use crate::harness::{
    Frame, H2, H2Frame, Raw, STALLS_SOON, Server, Transport, flag, hpack, kind, opcode, ticking,
    unharmed, wait_for,
};

const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// The maximum cost of an attack, in total, beside the cost of the bystander.
const COST_MAX: usize = 16 << 20;

/// The bytes that an HTTP/2 client may send before the server's first frame (RFC 9113 §6.9.2).
const FIRST_WINDOW: usize = 65_535;

fn echo(bytes: usize) -> String {
    format!(r#"{{"command":"echo","data":"{}"}}"#, "x".repeat(bytes))
}

/// Starts a server whose topic `read` has 4 MB of history, in batches of 100 kB.
fn with_history(arguments: &[&str]) -> Server {
    let server = ticking(arguments);
    fill(&server, 40);
    server
}

/// Adds this many batches of 100 kB.
fn fill(server: &Server, batches: usize) {
    let line = format!("\"{}\"\n", "x".repeat(10_000));
    for _ in 0..batches {
        server.post("read", "application/x-ndjson", line.repeat(10)).published();
    }
}

/// Posts a command on a stream, within the window of its connection. Returns `None` after the connection has ended.
fn post(h2: &mut H2, stream: u32, window: &mut usize, body: &[u8]) -> Option<()> {
    h2.send(kind::HEADERS, flag::END_HEADERS, stream, H2::head("POST", "/v1/commands"));
    let mut pieces = body.chunks(16 << 10).peekable();
    while let Some(piece) = pieces.next() {
        while *window < piece.len() {
            let more = h2.until(|frame| frame.kind == kind::WINDOW_UPDATE && frame.stream == 0)?;
            *window += u32::from_be_bytes(more.payload[..4].try_into().ok()?) as usize;
        }
        *window -= piece.len();
        let end = if pieces.peek().is_none() { flag::END_STREAM } else { flag::NONE };
        if !h2.send(kind::DATA, end, stream, piece) {
            return None;
        }
    }
    Some(())
}

fn await_some(server: &Server, name: &str) {
    wait_for(name, || (server.count(name) > 0).then_some(()));
}

#[test]
fn answers_over_http_2_with_closed_windows_cost_little_and_end_their_connection() {
    let server = ticking(&["--shards", "2", "--set", "limits.unread-answer-bytes=4MiB"]);
    let body = echo(100_000);
    unharmed(&server, || {
        let before = server.memory();
        for _ in 0..2 {
            let raw = Raw::connect(server.address);
            let mut h2 = H2::start(raw, &[(INITIAL_WINDOW_SIZE, 0)]);
            let mut window = FIRST_WINDOW;
            let posted = (0..256)
                .take_while(|n| post(&mut h2, 2 * n + 1, &mut window, body.as_bytes()).is_some());
            assert!(posted.count() < 256, "its connection ends before");
        }
        let grown = server.memory().saturating_sub(before);
        assert!(grown < COST_MAX, "{grown} bytes for answers that nobody reads");
    });
    assert_eq!(server.count("thalweg_answers_cut_total"), 2);
    server.has_closed(4002, 2);
    server.has_counted("thalweg_answer_bytes", 0);
}

#[test]
fn answers_over_websockets_are_in_the_same_budget() {
    const CONNECTIONS: usize = 30;
    let server = ticking(&["--shards", "2"]);
    let message = Frame::new(opcode::TEXT, &echo(1_000_000)).bytes();
    unharmed(&server, || {
        let before = server.memory();
        let mut waiting = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut raw = Raw::connect(server.address);
            raw.ask("GET", "/v1/topics", &Transport::WebSocket.headers(), "");
            raw.until(b"\r\n\r\n", "the handshake").expect("a handshake");
            raw.send(&message);
            waiting.push(raw);
        }
        server.has_counted("thalweg_unfinished_bytes", 0);
        await_some(&server, "thalweg_answers_cut_total");
        // Some commands are still being received, and the allocator keeps some of 30 MB.
        wait_for("30 connections to cost little", || {
            (server.memory().saturating_sub(before) < COST_MAX + (8 << 20)).then_some(())
        });
        wait_for("answers within the budget", || {
            (server.count("thalweg_answer_bytes") <= 8 << 20).then_some(())
        });
    });
    server.has_counted("thalweg_answer_bytes", 0);
}

/// A few bytes from time to time are no progress.
#[test]
fn a_client_that_reads_less_than_its_share_is_stalled() {
    // A client that gets no core for half a second reads too little as well.
    undisturbed(take_little);
}

fn take_little() {
    let server = with_history(&STALLS_SOON);
    let event = format!("\"{}\"", "x".repeat(1_000_000));
    server.post("large", "application/json", event).published();
    let stalled = || server.count("thalweg_closed_total{code=\"4002\"}");
    unharmed(&server, || {
        let mut h1 = Raw::connect(server.address);
        h1.ask("GET", "/v1/topics/read?limit=10000", &[], "");
        let mut frame = Raw::connect(server.address);
        frame.ask("GET", "/v1/topics/large?transport=sse&cursor=earliest", &[], "");
        let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
        h2.get(1, "/v1/topics/read?limit=10000", &[]);
        let (mut given, mut taken, mut is_reset) = (0, 0, false);
        wait_for("all of them to be stalled", || {
            // The kernel's buffers, about 300 kB, count as read, so these stay far below a quarter.
            h1.some(5_000);
            frame.some(1_000);
            if !is_reset {
                given += 20_000;
                for stream in [0, 1] {
                    h2.send(kind::WINDOW_UPDATE, 0, stream, 20_000_u32.to_be_bytes());
                }
            }
            // This takes everything in the window: otherwise the unread connection would be stalled.
            while taken < given && !is_reset {
                let H2Frame { kind, stream, payload, .. } = h2.next().expect("a frame");
                is_reset = kind == kind::RST_STREAM && stream == 1;
                taken += if kind == kind::DATA { payload.len() } else { 0 };
            }
            (is_reset && stalled() == 3).then_some(())
        });
    });
    server.has_counted("thalweg_answer_bytes", 0);
}

#[test]
fn answers_of_long_polls_over_http_2_are_in_the_budget() {
    let server = ticking(&["--shards", "2", "--set", "limits.unread-answer-bytes=4MiB"]);
    unharmed(&server, || {
        let mut waiting = Vec::new();
        for connection in 1..=8 {
            let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
            for number in 0..250 {
                h2.get(2 * number + 1, "/v1/topics/poll?wait=60s", &[]);
            }
            server.has_counted("thalweg_piped_connections", connection * 250);
            waiting.push(h2);
        }
        let event = format!("\"{}\"", "x".repeat(31_000));
        server.post("poll", "application/json", event).published();
        // Each holds more than a shard may.
        server.has_counted("thalweg_answers_cut_total", waiting.len() as u64);
        server.has_counted("thalweg_answer_bytes", 0);
    });
}

/// Many clients that read nothing of small responses do not end clients that read larger ones at once.
#[test]
fn clients_that_read_are_not_closed_for_others_that_do_not() {
    let server = ticking(&["--shards", "1", "--set", "limits.unread-answer-bytes=4MiB"]);
    unharmed(&server, || {
        let mut hoarding = Vec::new();
        for _ in 0..90 {
            let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
            post(&mut h2, 1, &mut { FIRST_WINDOW }, echo(60_000).as_bytes()).expect("a command");
            h2.until_kind(kind::HEADERS);
            hoarding.push(h2);
            let mut raw = Raw::connect(server.address);
            raw.ask("POST", "/v1/commands", &[], &echo(200_000));
            assert_eq!(raw.answer().status, 200);
        }
    });
    assert!(server.count("thalweg_answers_cut_total") > 0);
}

#[test]
fn the_answer_to_a_largest_command_is_not_cut() {
    let server = ticking(&[
        "--set",
        "limits.event-bytes=16MiB",
        "--set",
        "limits.unread-answer-bytes=64KiB",
    ]);
    let mut raw = Raw::connect(server.address);
    raw.ask("POST", "/v1/commands", &[], &echo(6_000_000));
    assert!(raw.answer().body.len() > 6_000_000);
    assert_eq!(server.count("thalweg_answers_cut_total"), 0);
}

/// Enlarges a head by 250 bytes on the wire, and by 15 kB after decoding.
fn large(head: Vec<u8>) -> Vec<u8> {
    // `accept-encoding: gzip, deflate` is one byte (RFC 7541 §A), and 60 in the list.
    [head, vec![0x80 | 16; 250]].concat()
}

/// The number of large heads that are sent at once. More of them would take a debug build so long that other clients wait.
const HEADS_AT_ONCE: usize = 50;

/// Returns the first stream ids of a client.
fn odd_streams(count: usize) -> Vec<u32> {
    (1..).step_by(2).take(count).collect()
}

/// A waiting long poll does not hold its request.
#[test]
fn long_polls_wait_without_their_heads() {
    const STREAMS: usize = 250;
    let server = ticking(&[]);
    unharmed(&server, || {
        let before = server.memory();
        let mut all = 0;
        let mut waiting = Vec::new();
        for _ in 0..4 {
            let mut h2 = H2::start(Raw::connect(server.address), &[]);
            for some in odd_streams(STREAMS).chunks(HEADS_AT_ONCE) {
                for stream in some {
                    let head = large(H2::head("GET", "/v1/topics/quiet?wait=60s"));
                    let flags = flag::END_HEADERS | flag::END_STREAM;
                    h2.send(kind::HEADERS, flags, *stream, head);
                }
                all += some.len();
                server.has_counted("thalweg_piped_connections", all as u64);
            }
            waiting.push(h2);
        }
        let grown = server.memory().saturating_sub(before);
        assert!(grown < COST_MAX, "{grown} bytes for {all} polls");
    });
}

/// Neither does a publisher between two lines.
#[test]
fn publishers_of_lines_wait_without_their_heads() {
    const CONNECTIONS: usize = 4;
    const STREAMS: usize = 250;
    let server = ticking(&[]);
    let lines = hpack(&[("content-type", "application/x-ndjson")]);
    let mut subscriber = server.subscribe(Transport::HttpStreaming, "/lines");
    subscriber.confirmed();
    unharmed(&server, || {
        let before = server.memory();
        let mut waiting = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut h2 = H2::start(Raw::connect(server.address), &[]);
            for some in odd_streams(STREAMS).chunks(HEADS_AT_ONCE) {
                for stream in some {
                    let head = [H2::head("POST", "/v1/topics/lines"), lines.clone()].concat();
                    h2.send(kind::HEADERS, flag::END_HEADERS, *stream, large(head));
                    h2.send(kind::DATA, flag::NONE, *stream, "1\n");
                }
                subscriber.numbers(some.len());
            }
            waiting.push(h2);
        }
        let publishers = CONNECTIONS * STREAMS;
        let grown = server.memory().saturating_sub(before);
        assert!(grown < COST_MAX, "{grown} bytes for {publishers} publishers");
    });
}

#[test]
fn a_get_with_a_body_is_refused() {
    let server = ticking(&[]);
    unharmed(&server, || {
        let wanting = "Host: localhost\r\nContent-Length: 1000000\r\n\r\n";
        let chunked = "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        for (method, path) in [
            ("GET", "/v1/topics/t?wait=60s"),
            ("GET", "/v1/topics/t?transport=sse"),
            ("GET", "/v1/topics"),
            ("GET", "/healthz"),
            ("GET", "/nothing"),
        ] {
            for rest in [wanting, chunked] {
                let mut raw = Raw::connect(server.address);
                raw.send(format!("{method} {path} HTTP/1.1\r\n{rest}"));
                raw.answer().refused(400, "bad_parameter");
                raw.rest("the end, for its body is not waited for");
            }
            let mut h2 = H2::start(Raw::connect(server.address), &[]);
            h2.send(kind::HEADERS, flag::END_HEADERS, 1, H2::head(method, path));
            assert!(h2.body(1).contains("bad_parameter"), "{path}");
        }
        let mut raw = Raw::connect(server.address);
        raw.ask("GET", "/healthz", &[("Content-Length", "0")], "");
        assert_eq!(raw.answer().status, 200);
    });
    server.has_refused("bad_parameter", 15);
}

/// The bytes that a client may send early over HTTP/2 (RFC 9113 §6.5.2).
#[test]
fn windows_and_heads_over_http_2_have_small_bounds() {
    let server = ticking(&[]);
    let mut h2 = H2::start(Raw::connect(server.address), &[]);
    let settings = h2.until_kind(kind::SETTINGS).expect("settings").payload;
    let value = |wanted: u16| {
        let mut all = settings.chunks(6).map(|entry| {
            let (identifier, value) = entry.split_at(2);
            let value = u32::from_be_bytes(value.try_into().expect("four bytes"));
            (u16::from_be_bytes(identifier.try_into().expect("two bytes")), value)
        });
        all.find(|(identifier, _)| *identifier == wanted).map(|(_, value)| value)
    };
    assert_eq!(value(INITIAL_WINDOW_SIZE), Some(128 << 10));
    assert_eq!(value(MAX_HEADER_LIST_SIZE), Some(16 << 10));
    let more = h2.until_kind(kind::WINDOW_UPDATE).expect("the connection's window").payload;
    let more = u32::from_be_bytes(more[..4].try_into().expect("four bytes"));
    assert_eq!(more as usize + FIRST_WINDOW, 512 << 10);
    let long = "x".repeat(20_000);
    h2.send(
        kind::HEADERS,
        flag::END_STREAM,
        1,
        [H2::head("GET", "/healthz"), hpack(&[("x-long", &long[..10_000])])].concat(),
    );
    let rest = hpack(&[("x-longer", &long[..10_000])]);
    h2.send(kind::CONTINUATION, flag::END_HEADERS, 1, rest);
    let answer = h2.until(|f| f.stream == 1).expect("an answer");
    assert_ne!(answer.payload.first(), Some(&0x88), "not 200 (RFC 7541 §A)");
}
