//! WebSockets over HTTP/2 (RFC 8441): the handshake, and the frames of HTTP/2 around those of WebSocket. `websocket` and `http2`
//! test the messages.

use serde_json::json;

use crate::harness::{
    Frame, H2, H2Frame, Http2, Raw, Received, Response, Server, Transport, flag, hpack, kind,
    opcode, request, ticking, unharmed, wait_for,
};

/// RFC 8441 §3.
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

/// RFC 9113 §6.5.2.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// RFC 9113 §7.
const CANCEL: u32 = 8;

const VERSION: (&str, &str) = ("sec-websocket-version", "13");

/// A topic with 100 kB, 200 times per second.
const HOSE: [&str; 4] =
    ["--source", "hose=dummy,interval=5ms,size=100000", "--topic", "**,history-bytes=1MiB"];

fn connect(server: &Server, settings: &[(u16, u32)]) -> H2 {
    H2::start(Raw::connect(server.address), settings)
}

fn ask(h2: &mut H2, stream: u32, path: &str) {
    let protocol = hpack(&[(":protocol", "websocket"), VERSION]);
    let block = [H2::head("CONNECT", path), protocol].concat();
    h2.send(kind::HEADERS, flag::END_HEADERS, stream, block);
}

fn next_of(h2: &mut H2, stream: u32) -> H2Frame {
    h2.until(|frame| frame.stream == stream).expect("a frame of the stream")
}

/// Returns a connection with a WebSocket at `/v1/topics/t`, which is stream 1 and has received its first message.
fn opened(server: &Server) -> H2 {
    let mut h2 = connect(server, &[]);
    ask(&mut h2, 1, "/v1/topics/t");
    let head = next_of(&mut h2, 1);
    assert_eq!((head.kind, head.flags & flag::END_STREAM), (kind::HEADERS, 0));
    assert_eq!(next_of(&mut h2, 1).kind, kind::DATA);
    h2
}

/// Reads stream 1 to its end. Returns its data.
fn rest(h2: &mut H2) -> Vec<u8> {
    let mut rest = Vec::new();
    loop {
        let frame = next_of(h2, 1);
        assert_eq!(frame.kind, kind::DATA, "{frame:?}");
        rest.extend(frame.payload);
        if frame.flags & flag::END_STREAM != 0 {
            return rest;
        }
    }
}

fn refused(
    client: &Http2,
    target: &str,
    headers: &[(&str, &str)],
    status: u16,
    code: &str,
) -> Response {
    let answer = client.tunnel("websocket", target, headers).response();
    answer.refused(status, code);
    answer
}

#[test]
fn the_server_offers_tunnels_in_its_settings() {
    let server = Server::start(&["--admin-listen", "127.0.0.1:0"]);
    let settings = |address| {
        let mut h2 = H2::start(Raw::connect(address), &[]);
        h2.until_kind(kind::SETTINGS).expect("settings").payload
    };
    let offer = [&ENABLE_CONNECT_PROTOCOL.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    let offers = |payload: Vec<u8>| payload.chunks(6).any(|setting| setting == offer);
    assert!(offers(settings(server.address)));
    assert!(!offers(settings(server.admin_address())), "the admin listener has no WebSockets");
}

#[test]
fn the_stream_ends_after_the_close_and_the_connection_lives_on() {
    let server = Server::start(&[]);
    let mut h2 = opened(&server);
    server.await_connections(1);
    let close = Frame::new(opcode::CLOSE, &1000_u16.to_be_bytes()).bytes();
    h2.send(kind::DATA, 0, 1, &close);
    let rest = rest(&mut h2);
    assert_eq!(rest[..4], [0x88, rest.len() as u8 - 2, 3, 232], "{rest:?}");
    h2.send(kind::DATA, flag::END_STREAM, 1, []);
    server.await_connections(0);
    h2.get(3, "/healthz", &[]);
    assert_eq!(h2.body(3), "ok\n");
}

#[test]
fn an_end_in_the_middle_of_a_frame_ends_the_stream() {
    let server = Server::start(&[]);
    let mut h2 = opened(&server);
    server.await_connections(1);
    let frame = Frame::new(opcode::TEXT, r#"{"command":"echo","data":1}"#).bytes();
    h2.send(kind::DATA, flag::END_STREAM, 1, &frame[..9]);
    rest(&mut h2);
    server.await_connections(0);
    h2.get(3, "/healthz", &[]);
    assert_eq!(h2.body(3), "ok\n");
}

#[test]
fn a_reset_ends_the_connection_of_its_stream_alone() {
    let server = Server::start(&[]);
    let mut h2 = opened(&server);
    ask(&mut h2, 3, "/v1/topics/t");
    server.await_connections(2);
    h2.send(kind::RST_STREAM, 0, 1, CANCEL.to_be_bytes());
    server.await_connections(1);
    h2.send(kind::DATA, 0, 3, Frame::new(opcode::PING, "hi").bytes());
    let pong = [0x8a, 2, b'h', b'i'];
    h2.until(|frame| frame.stream == 3 && frame.payload == pong).expect("a pong");
}

#[test]
fn a_handshake_has_the_answers_of_http_1() {
    let token = ["--token", "writer=publish-secret-1234567890,publish=**"];
    let server = Server::start(&token);
    let client = server.http2();
    let bearer = ("authorization", "Bearer publish-secret-1234567890");
    refused(&client, "/v1/topics/t", &[VERSION], 401, "unauthorized");
    refused(&client, "/v1/topics/t", &[VERSION, bearer], 403, "forbidden");
    let foreign = ("origin", "https://example.org");
    refused(&client, "/v1/topics/t", &[VERSION, foreign], 403, "bad_origin");
    refused(&client, "/v1/topics/t?window=1", &[VERSION, bearer], 400, "bad_parameter");
    for version in [&[][..], &[("sec-websocket-version", "8")]] {
        let answer = refused(&client, "/v1/topics", version, 426, "upgrade_required");
        assert_eq!(answer.header("sec-websocket-version"), Some("13"));
    }
    let mut publisher = client.tunnel("websocket", "/v1/topics", &[VERSION, bearer]);
    assert_eq!(publisher.response_head().status, 200);
}

#[test]
fn a_tunnel_is_for_websockets_alone() {
    let server = Server::start(&[]);
    let client = server.http2();
    for protocol in ["webtransport", "connect-udp", "WebSocket"] {
        let answer = client.tunnel(protocol, "/v1/topics/t", &[VERSION]).response();
        assert!(answer.refused(501, "unsupported_protocol").contains(protocol));
    }
    for target in ["/", "/healthz", "/v1/commands", "/nowhere"] {
        refused(&client, target, &[VERSION], 404, "not_found");
    }
    client.ask("CONNECT", "/v1/topics/t", &[], "").refused(404, "not_found");
}

#[test]
fn extensions_and_protocols_are_chosen_as_over_http_1() {
    let server = Server::start(&["--compression"]);
    let client = server.http2();
    let offer = ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits");
    let head = client.tunnel("websocket", "/v1/topics/t", &[VERSION, offer]).response_head();
    let headers = [&Transport::WebSocket.headers()[..], &[offer]].concat();
    let mut of_http1 = server.connect();
    of_http1.send(crate::harness::request("GET", "/v1/topics/t", &headers, b""));
    let extensions = of_http1.response_head().header(offer.0).map(str::to_owned);
    assert!(extensions.is_some());
    assert_eq!(head.header(offer.0).map(str::to_owned), extensions);
    for name in ["connection", "upgrade", "sec-websocket-accept", "content-length"] {
        assert_eq!(head.header(name), None, "{name}");
    }
}

#[test]
fn a_hub_of_signalr_is_reached_as_over_http_1() {
    let server = Server::start(&["--set", "signalr.paths=[\"/hub\"]"]);
    let client = server.http2();
    let mut hub = client.tunnel("websocket", "/hub", &[VERSION]);
    assert_eq!(hub.response_head().status, 200);
    let handshake = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
    hub.send(Frame::new(opcode::TEXT, handshake).bytes());
    assert_eq!(hub.websocket_frame("an answer"), Some((opcode::TEXT, b"{}\x1e".to_vec())));
}

#[test]
fn tunnels_whose_window_stays_shut_hold_little() {
    const STREAMS: u32 = 64;
    let server = ticking(&[&HOSE[..], &["--write-timeout", "60s"]].concat());
    let before = server.memory();
    unharmed(&server, || {
        let mut held = connect(&server, &[(INITIAL_WINDOW_SIZE, 0)]);
        for number in 0..STREAMS {
            ask(&mut held, 2 * number + 1, "/v1/topics/hose");
        }
        wait_for("all of them to be full", || {
            (server.count("thalweg_blocked_connections") >= u64::from(STREAMS)).then_some(())
        });
        let sent = server.count("thalweg_sent_bytes_total");
        let seen = server.count("thalweg_events_published_total");
        wait_for("more events", || {
            (server.count("thalweg_events_published_total") > seen + 50).then_some(())
        });
        // The server sends to the bystander only, which is little.
        let more = server.count("thalweg_sent_bytes_total") - sent;
        assert!(more < 1 << 20, "{more} bytes for those who read nothing");
        let grown = server.memory().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes for {STREAMS} streams");
        // Other streams of the connection continue.
        held.get(2 * STREAMS + 1, "/healthz", &[]);
        let is_answer = |frame: &H2Frame| frame.stream == 2 * STREAMS + 1;
        assert_eq!(held.until(is_answer).map(|frame| frame.kind), Some(kind::HEADERS));
    });
    server.has_counted("thalweg_piped_connections", 0);
}

#[test]
fn a_tunnel_that_is_not_read_is_reset_after_the_stall() {
    let server = ticking(&[&HOSE[..], &["--write-timeout", "500ms"]].concat());
    unharmed(&server, || {
        let mut h2 = connect(&server, &[(INITIAL_WINDOW_SIZE, 0)]);
        ask(&mut h2, 1, "/v1/topics/hose");
        let reset = h2.until(|f| f.stream == 1 && f.kind == kind::RST_STREAM).expect("a reset");
        assert_eq!(reset.error(), CANCEL);
        // The connection itself stays open.
        h2.get(3, "/healthz", &[]);
        h2.until(|frame| frame.stream == 3 && frame.kind == kind::HEADERS).expect("an answer");
    });
    server.has_closed(4002, 1);
    server.has_counted("thalweg_piped_connections", 0);
}

/// Pings whose pongs are not read: the server then reads no more of them, and the client's window stays shut.
#[test]
fn input_waits_in_its_window_while_answers_are_unread() {
    const PIECE: usize = 16 << 10;
    let server = ticking(&["--write-timeout", "60s"]);
    let before = server.memory();
    unharmed(&server, || {
        let mut h2 = connect(&server, &[(INITIAL_WINDOW_SIZE, 0)]);
        ask(&mut h2, 1, "/v1/topics/t");
        // The windows of the settings, which come before.
        h2.until_kind(kind::HEADERS).expect("an answer");
        let ping = Frame::new(opcode::PING, &[b'x'; 122]).bytes();
        let pings = ping.repeat(PIECE / ping.len());
        let (mut window, mut all, mut sent, mut unchanged) = (128 << 10, 512 << 10, 0, 0);
        while unchanged < 50 {
            while window >= pings.len() && all >= pings.len() {
                h2.send(kind::DATA, 0, 1, &pings);
                (window, all, sent) = (window - pings.len(), all - pings.len(), sent + pings.len());
                assert!(sent < 4 << 20, "{sent} bytes were read without a reader of the answers");
            }
            h2.send(kind::PING, 0, 0, [7; 8]);
            unchanged += 1;
            loop {
                let frame = h2.next().expect("a pong");
                match (frame.kind, frame.flags & flag::ACK) {
                    (kind::PING, flag::ACK) => break,
                    (kind::WINDOW_UPDATE, _) => {
                        let more = u32::from_be_bytes(frame.payload.try_into().expect("a window"));
                        if frame.stream == 1 {
                            (window, unchanged) = (window + more as usize, 0);
                        } else {
                            all += more as usize;
                        }
                    }
                    _ => {}
                }
            }
        }
        assert!(server.memory().saturating_sub(before) < 32 << 20);
        // Once they are read, the server reads on.
        h2.send(kind::WINDOW_UPDATE, 0, 0, (1_u32 << 20).to_be_bytes());
        h2.send(kind::WINDOW_UPDATE, 0, 1, (1_u32 << 20).to_be_bytes());
        h2.until(|frame| frame.stream == 1 && frame.kind == kind::WINDOW_UPDATE).expect("room");
    });
    server.has_counted("thalweg_piped_connections", 0);
}

/// The bytes that a client has not read outlive its end of the stream, and count until then.
#[test]
fn ended_tunnels_count_as_long_as_their_bytes_are_held() {
    const TUNNELS: u32 = 20;
    let own = ["--write-timeout", "60s", "--set", "limits.connections=30"];
    let server = ticking(&[&HOSE[..], &own].concat());
    let mut h2 = connect(&server, &[(INITIAL_WINDOW_SIZE, 0)]);
    for stream in (1..).step_by(2).take(TUNNELS as usize) {
        ask(&mut h2, stream, "/v1/topics/hose");
        server.has_counted("thalweg_blocked_connections", 1);
        h2.send(kind::DATA, flag::END_STREAM, stream, []);
        server.await_connections(0);
    }
    let mut kept = Vec::new();
    let statuses = (0..15).map(|_| {
        let mut socket = server.connect();
        socket.send(request("GET", "/healthz", &[], b""));
        let status = socket.response().status;
        kept.push(socket);
        status
    });
    let statuses: Vec<_> = statuses.collect();
    assert_eq!((statuses[0], statuses[14]), (200, 503), "{statuses:?}");
}

/// More than 1,024 unread frames would end the connection.
#[test]
fn short_frames_that_come_together_are_read_together() {
    const PINGS: usize = 20_000;
    const UNANSWERED_MAX: usize = 1_000;
    let server = Server::start(&[]);
    let mut h2 = opened(&server);
    let ping = Frame::new(opcode::PING, &[b'x'; 40]).bytes();
    let pong = [&[0x8a, 40], &[b'x'; 40][..]].concat();
    let (mut sent, mut answers) = (0, Vec::new());
    while answers.len() < PINGS * pong.len() {
        while sent < PINGS && sent - answers.len() / pong.len() < UNANSWERED_MAX {
            h2.send(kind::DATA, 0, 1, &ping);
            sent += 1;
        }
        let frame = next_of(&mut h2, 1);
        if frame.kind == kind::DATA {
            let more = (frame.payload.len() as u32).to_be_bytes();
            h2.send(kind::WINDOW_UPDATE, 0, 0, more);
            h2.send(kind::WINDOW_UPDATE, 0, 1, more);
            answers.extend(frame.payload);
        }
    }
    assert!(answers.chunks(pong.len()).all(|answer| answer == pong));
}

#[test]
fn a_websocket_publishes_and_subscribes_beside_other_streams() {
    let server = Server::start(&["--shards", "2"]);
    let client = server.http2();
    let mut socket = client.subscribe(Transport::WebSocket, "/t");
    let mut stream = client.subscribe(Transport::Sse, "/t");
    socket.confirmed();
    stream.confirmed();
    for first in 1..20 {
        socket.say(&format!(r#"{{"command":"publish","id":{first},"topic":"t","event":{first}}}"#));
        let (mut is_answered, mut is_received) = (false, false);
        while !(is_answered && is_received) {
            match socket.next() {
                Received::Answer(answer) => {
                    assert_eq!(answer["answer"]["first"], json!(first));
                    is_answered = true;
                }
                Received::Envelope(envelope) => {
                    assert_eq!(envelope.events, [json!(first)]);
                    is_received = true;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(stream.numbers(1).0, [first]);
    }
}
