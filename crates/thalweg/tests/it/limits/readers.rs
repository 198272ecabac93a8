use std::time::Duration;

use crate::harness::{
    Frame, H2, Raw, Server, Transport, flag, hpack, kind, opcode, ticking, unharmed, wait_for,
};

/// A topic with 100 kB, 200 times per second.
const HOSE: [&str; 4] =
    ["--source", "hose=dummy,interval=5ms,size=100000", "--topic", "**,history-bytes=1MiB"];

/// Starts a server whose topic `read` has 4 MB of history, the maximum of one response.
fn with_history(arguments: &[&str]) -> Server {
    let server = ticking(arguments);
    let line = format!("\"{}\"\n", "x".repeat(10_000));
    server.post("read", "application/x-ndjson", line.repeat(400)).published();
    server
}

fn websocket(server: &Server, target: &str) -> Raw {
    let mut raw = Raw::connect(server.address);
    raw.ask("GET", target, &Transport::WebSocket.headers(), "");
    raw.until(b"\r\n\r\n", "the handshake").expect("a handshake");
    raw
}

/// Responses wait for their client, and its next requests wait for them.
#[test]
fn commands_without_end_whose_answers_are_not_read_hold_little() {
    const CONNECTIONS: usize = 16;
    let server = ticking(&[]);
    let echo = format!(r#"{{"command":"echo","data":"{}"}}"#, "x".repeat(1000));
    let mut waiting = Vec::new();
    for frame in [
        Frame::new(opcode::PING, "are you there?").bytes(),
        Frame::new(opcode::TEXT, &echo).bytes(),
        // The reply is far longer than the message.
        Frame::new(opcode::TEXT, "{}").bytes(),
    ] {
        let before = server.memory();
        unharmed(&server, || {
            let many = frame.repeat(100_000 / frame.len());
            for _ in 0..CONNECTIONS {
                let mut raw = websocket(&server, "/v1/topics");
                let sent = raw.stuff(&many, 64 << 20, Duration::from_millis(100));
                assert!(sent < 64 << 20, "it is read no more when it does not read");
                waiting.push(raw);
            }
        });
        let grown = server.memory().saturating_sub(before);
        assert!(grown < CONNECTIONS << 19, "{grown} bytes for {CONNECTIONS} connections");
    }
    drop(waiting);
    server.has_counted("thalweg_connections", 0);
}

#[test]
fn subscribers_that_read_nothing_are_reset_after_the_stall_over_every_transport() {
    let server = ticking(&[&HOSE[..], &["--write-timeout", "500ms"]].concat());
    unharmed(&server, || {
        let mut stopped = Vec::new();
        for (query, headers) in [
            ("", Transport::WebSocket.headers()),
            ("?transport=sse", vec![]),
            ("?transport=http-streaming", vec![]),
            ("?transport=forever-frame", vec![]),
        ] {
            let mut raw = Raw::connect(server.address);
            raw.ask("GET", &format!("/v1/topics/hose{query}"), &headers, "");
            stopped.push(raw);
        }
        server.has_closed(4002, 4);
        for raw in &mut stopped {
            // The kernel's buffered bytes arrive, but not the whole response.
            raw.rest("the reset");
        }
    });
    server.has_counted("thalweg_blocked_connections", 0);
}

/// Over HTTP/1.1 an unread response ends its connection and frees its memory.
#[test]
fn answers_that_are_not_read_are_given_up_after_the_stall() {
    const READERS: usize = 16;
    let server = with_history(&["--write-timeout", "500ms"]);
    let before = server.memory();
    unharmed(&server, || {
        let mut stopped: Vec<Raw> = (0..READERS).map(|_| Raw::connect(server.address)).collect();
        for raw in &mut stopped {
            raw.ask("GET", "/v1/topics/read?limit=10000", &[], "");
        }
        server.has_closed(4002, READERS as u64);
        for raw in &mut stopped {
            raw.rest("the reset");
        }
    });
    // Sixteen responses would take 64 MB.
    wait_for("the memory to be given back", || {
        (server.memory().saturating_sub(before) < 24 << 20).then_some(())
    });
}

#[test]
fn long_polls_whose_answers_are_not_read_are_given_up_after_the_stall() {
    let server = with_history(&["--write-timeout", "500ms"]);
    unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        for _ in 0..1000 {
            raw.ask("GET", "/v1/topics/read?cursor=earliest&wait=0", &[], "");
        }
        server.has_closed(4002, 1);
        raw.rest("the reset");
    });
    server.has_counted("thalweg_piped_connections", 0);
}

/// The same over HTTP/2 ends the stream only.
#[test]
fn answers_that_are_not_read_over_http_2_end_their_streams() {
    const STREAMS: u32 = 32;
    let server = with_history(&["--write-timeout", "500ms"]);
    let before = server.memory();
    unharmed(&server, || {
        const INITIAL_WINDOW_SIZE: u16 = 4;
        let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
        for number in 0..STREAMS {
            let path = match number % 2 {
                0 => "/v1/topics/read?limit=10000",
                _ => "/v1/topics/read?cursor=earliest&wait=0",
            };
            h2.get(2 * number + 1, path, &[]);
        }
        let mut ended = 0;
        while ended < STREAMS {
            h2.until_kind(kind::RST_STREAM).expect("a reset");
            ended += 1;
        }
        h2.send(kind::WINDOW_UPDATE, 0, 2 * STREAMS + 1, [0, 0, 4, 0]);
        let block = [H2::head("GET", "/healthz"), hpack(&[])].concat();
        h2.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 2 * STREAMS + 1, block);
    });
    server.has_closed(4002, u64::from(STREAMS));
    wait_for("the memory to be given back", || {
        (server.memory().saturating_sub(before) < 24 << 20).then_some(())
    });
}

/// Its windows are open, but its socket is not read: another client gets its place.
#[test]
fn a_connection_of_http_2_that_is_not_read_is_ended() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const WINDOW: u32 = 1 << 30;
    let limits = ["--write-timeout", "500ms", "--heartbeat", "1h", "--set", "limits.connections=3"];
    let server = with_history(&limits);
    unharmed(&server, || {
        let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, WINDOW)]);
        h2.send(kind::WINDOW_UPDATE, 0, 0, WINDOW.to_be_bytes());
        for number in 0..8 {
            h2.get(2 * number + 1, "/v1/topics/read?limit=10000", &[]);
        }
        let mut kept = Raw::connect(server.address);
        wait_for("its place", || {
            kept.ask("GET", "/healthz", &[], "");
            kept.answer();
            let mut raw = Raw::connect(server.address);
            raw.ask("GET", "/healthz", &[], "");
            (raw.answer_if_any()?.status == 200).then_some(())
        });
    });
    wait_for("it to be counted", || {
        (server.count("thalweg_closed_total{code=\"4002\"}") > 0).then_some(())
    });
}

/// The end of the frame ends the subscription, and here the connection ends with it.
#[test]
fn an_unsubscribe_inside_of_a_frame_survives_a_disconnect() {
    let server = ticking(&HOSE);
    let mut raw = websocket(&server, "/v1/topics/hose");
    wait_for("its socket to be full", || {
        (server.count("thalweg_blocked_connections") > 0).then_some(())
    });
    raw.send(Frame::new(opcode::TEXT, r#"{"command":"unsubscribe","topic":"hose"}"#).bytes());
    raw.send(Frame::new(opcode::CLOSE, &[3, 232]).bytes());
    wait_for("it to be received", || {
        (server.count("thalweg_blocked_connections") == 1).then(|| server.get("/healthz"))
    });
    raw.rest("the end of the frame and of the connection");
    server.has_counted("thalweg_connections", 0);
    let listed = server.get("/v1/topics").json();
    let hose =
        listed["topics"].as_array().and_then(|all| all.iter().find(|one| one["topic"] == "hose"));
    assert_eq!(hose.expect("the topic")["subscribers"], 0, "{listed}");
}

/// The subscription holds the feed twice until the frame ends. Its pinned batch counts once.
#[test]
fn an_unsubscribe_and_subscribe_inside_of_a_frame_stalls() {
    let server = ticking(&[&HOSE[..], &["--write-timeout", "500ms"]].concat());
    unharmed(&server, || {
        let mut raw = websocket(&server, "/v1/topics/hose");
        wait_for("its socket to be full", || {
            (server.count("thalweg_blocked_connections") > 0).then_some(())
        });
        for command in ["unsubscribe", "subscribe"] {
            let command = format!(r#"{{"command":"{command}","topic":"hose"}}"#);
            raw.send(Frame::new(opcode::TEXT, &command).bytes());
        }
        server.has_closed(4002, 1);
        raw.rest("the reset");
    });
    server.has_counted("thalweg_blocked_connections", 0);
    server.has_counted("thalweg_pinned_bytes", 0);
}

/// A slow but steady reader receives its whole response: the timeout closes only clients that read less than their share.
#[test]
fn an_answer_read_slowly_is_whole() {
    let server = with_history(&["--write-timeout", "2s"]);
    unharmed(&server, || {
        let mut h1 = Raw::connect(server.address);
        h1.ask("GET", "/v1/topics/read?limit=10000", &[], "");
        h1.until(b"\r\n\r\n", "a head").expect("a head");
        const INITIAL_WINDOW_SIZE: u16 = 4;
        let mut h2 = H2::start(Raw::connect(server.address), &[(INITIAL_WINDOW_SIZE, 0)]);
        h2.get(1, "/v1/topics/read?limit=10000", &[]);
        let mut read = 0;
        for _ in 0..20 {
            h1.exact(200_000, "a part of the answer").expect("a part");
            for stream in [0, 1] {
                h2.send(kind::WINDOW_UPDATE, 0, stream, 200_000_u32.to_be_bytes());
            }
            while read < 200_000 {
                let data = h2.until(|f| f.kind == kind::DATA || f.kind == kind::RST_STREAM);
                let data = data.expect("data");
                assert_eq!(data.kind, kind::DATA, "{data:?}");
                read += data.payload.len();
            }
            read -= 200_000;
            thalweg_testing::let_pass(Duration::from_millis(100));
        }
    });
    server.has_closed(4002, 0);
}
