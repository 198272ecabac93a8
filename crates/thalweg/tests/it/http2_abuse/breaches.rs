use super::{MISUSES, connect, error, setting};
use crate::harness::{H2, Raw, flag, frame, hpack, kind, ticking, unharmed};

#[test]
fn breaches_end_the_connection_and_are_counted() {
    use error::*;
    let server = ticking(&[]);
    let get = || {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        frame(kind::HEADERS, flags, 1, H2::head("GET", "/healthz"))
    };
    let setting = |identifier: u16, value: u32| {
        let payload = [&identifier.to_be_bytes()[..], &value.to_be_bytes()].concat();
        frame(kind::SETTINGS, 0, 0, payload)
    };
    let twice = |first: Vec<u8>, second: Vec<u8>| [first, second].concat();
    let begun = frame(kind::HEADERS, 0, 1, H2::head("GET", "/healthz"));
    let wrong: Vec<(&str, u32, Vec<u8>)> = vec![
        ("DATA on no stream (§6.1)", PROTOCOL_ERROR, frame(kind::DATA, 0, 0, "x")),
        ("DATA on an idle stream (§5.1)", PROTOCOL_ERROR, frame(kind::DATA, 0, 1, "x")),
        ("HEADERS on no stream (§6.2)", PROTOCOL_ERROR, frame(kind::HEADERS, 4, 0, "")),
        (
            "HEADERS on an even stream (§5.1.1)",
            PROTOCOL_ERROR,
            frame(kind::HEADERS, 5, 2, H2::head("GET", "/healthz")),
        ),
        (
            "a stream lower than the last (§5.1.1)",
            PROTOCOL_ERROR,
            twice(
                frame(kind::HEADERS, 5, 5, H2::head("GET", "/healthz")),
                frame(kind::HEADERS, 5, 3, H2::head("GET", "/healthz")),
            ),
        ),
        (
            "RST_STREAM on an idle stream (§6.4)",
            PROTOCOL_ERROR,
            frame(kind::RST_STREAM, 0, 1, [0; 4]),
        ),
        ("RST_STREAM on no stream (§6.4)", PROTOCOL_ERROR, frame(kind::RST_STREAM, 0, 0, [0; 4])),
        (
            "RST_STREAM of 3 bytes (§6.4)",
            FRAME_SIZE_ERROR,
            twice(get(), frame(kind::RST_STREAM, 0, 1, [0; 3])),
        ),
        ("SETTINGS on a stream (§6.5)", PROTOCOL_ERROR, frame(kind::SETTINGS, 0, 1, "")),
        ("SETTINGS of 5 bytes (§6.5)", FRAME_SIZE_ERROR, frame(kind::SETTINGS, 0, 0, [0; 5])),
        (
            "SETTINGS ack with a payload (§6.5)",
            FRAME_SIZE_ERROR,
            frame(kind::SETTINGS, 1, 0, [0; 6]),
        ),
        ("ENABLE_PUSH of 2 (§6.5.2)", PROTOCOL_ERROR, setting(setting::ENABLE_PUSH, 2)),
        (
            "a window of 2^31 (§6.5.2)",
            FLOW_CONTROL_ERROR,
            setting(setting::INITIAL_WINDOW_SIZE, 1 << 31),
        ),
        ("frames of 1 byte (§6.5.2)", PROTOCOL_ERROR, setting(setting::MAX_FRAME_SIZE, 1)),
        (
            "PUSH_PROMISE (§8.4)",
            PROTOCOL_ERROR,
            twice(get(), frame(kind::PUSH_PROMISE, 4, 1, [0, 0, 0, 2])),
        ),
        ("PING on a stream (§6.7)", PROTOCOL_ERROR, frame(kind::PING, 0, 1, [0; 8])),
        ("PING of 7 bytes (§6.7)", FRAME_SIZE_ERROR, frame(kind::PING, 0, 0, [0; 7])),
        ("GOAWAY on a stream (§6.8)", PROTOCOL_ERROR, frame(kind::GOAWAY, 0, 1, [0; 8])),
        ("an increment of 0 (§6.9)", PROTOCOL_ERROR, frame(kind::WINDOW_UPDATE, 0, 0, [0; 4])),
        (
            "WINDOW_UPDATE of 3 bytes (§6.9)",
            FRAME_SIZE_ERROR,
            frame(kind::WINDOW_UPDATE, 0, 0, [0; 3]),
        ),
        (
            "a window over 2^31 - 1 (§6.9.1)",
            FLOW_CONTROL_ERROR,
            frame(kind::WINDOW_UPDATE, 0, 0, 0x7fff_ffff_u32.to_be_bytes()).repeat(2),
        ),
        ("CONTINUATION of nothing (§6.10)", PROTOCOL_ERROR, frame(kind::CONTINUATION, 4, 1, "")),
        (
            "a PING within headers (§6.10)",
            PROTOCOL_ERROR,
            twice(begun.clone(), frame(kind::PING, 0, 0, [0; 8])),
        ),
        (
            "another stream's CONTINUATION (§6.10)",
            PROTOCOL_ERROR,
            twice(begun, frame(kind::CONTINUATION, 4, 3, "")),
        ),
        (
            "headers that cannot be read (§4.3)",
            COMPRESSION_ERROR,
            frame(kind::HEADERS, 5, 1, [0xff, 0xff, 0xff]),
        ),
        (
            "a frame over 16 KiB (§4.2)",
            FRAME_SIZE_ERROR,
            frame(kind::PING, 0, 0, vec![0; 17 << 10]),
        ),
    ];
    unharmed(&server, || {
        for (what, code, bytes) in &wrong {
            let mut h2 = connect(&server);
            h2.raw.send(bytes);
            let ended = h2.ended_with().expect(what);
            // A more general error is allowed (§7).
            assert!([*code, PROTOCOL_ERROR].contains(&ended), "{what}: {ended}");
        }
    });
    server.has_counted(MISUSES, wrong.len() as u64);
}

/// An invalid request ends its stream, or also its connection (§5.4.1). It is never answered.
#[test]
fn a_malformed_request_is_not_answered() {
    let server = ticking(&[]);
    let host = (":authority", "localhost");
    let (get, http, path) = ((":method", "GET"), (":scheme", "http"), (":path", "/healthz"));
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("no path (§8.3.1)", hpack(&[get, http, host])),
        ("an empty path (§8.3.1)", hpack(&[get, http, host, (":path", "")])),
        ("no method (§8.3.1)", hpack(&[http, host, path])),
        ("two paths (§8.3.1)", hpack(&[get, http, host, path, path])),
        ("a pseudo-header that is not (§8.3)", hpack(&[get, http, host, path, (":x", "y")])),
        ("a response's (§8.3)", hpack(&[get, http, host, path, (":status", "200")])),
        ("one behind the others (§8.3)", hpack(&[get, http, host, ("x", "y"), path])),
        ("uppercase (§8.2.1)", hpack(&[get, http, host, path, ("X-Upper", "y")])),
        ("connection (§8.2.2)", hpack(&[get, http, host, path, ("connection", "close")])),
        ("te other than trailers (§8.2.2)", hpack(&[get, http, host, path, ("te", "gzip")])),
        ("a line break (§8.2.1)", hpack(&[get, http, host, path, ("x", "a\r\nb: c")])),
    ];
    unharmed(&server, || {
        for (what, block) in &wrong {
            let mut h2 = connect(&server);
            h2.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, block);
            let ended = h2.until(|frame| frame.stream == 1 || frame.kind == kind::GOAWAY);
            let ended = ended.expect(what);
            assert!(matches!(ended.kind, kind::RST_STREAM | kind::GOAWAY), "{what}: {ended:?}");
            assert_eq!(ended.error(), error::PROTOCOL_ERROR, "{what}");
        }
        // The body is shorter than announced (§8.1.1): only this request fails.
        let mut h2 = connect(&server);
        let head = [H2::head("POST", "/v1/topics/t"), hpack(&[("content-length", "5")])].concat();
        h2.send(kind::HEADERS, flag::END_HEADERS, 1, head);
        h2.send(kind::DATA, flag::END_STREAM, 1, "1");
        h2.until(|frame| frame.stream == 1).expect("an end or a refusal");
        h2.get(3, "/healthz", &[]);
        assert_eq!(h2.body(3), "ok\n");
    });
    let mut raw = Raw::connect(server.address);
    raw.ask("GET", "/v1/topics/t?limit=1", &[], "");
    assert!(
        !String::from_utf8_lossy(&raw.answer().body).contains("[1]"),
        "half a body is no event"
    );
}

/// RFC 9113 §5.1: frames on a closed stream are ignored.
#[test]
fn data_on_a_closed_stream_is_an_error() {
    let server = ticking(&[]);
    unharmed(&server, || {
        let mut h2 = connect(&server);
        h2.get(1, "/healthz", &[]);
        assert_eq!(h2.body(1), "ok\n");
        h2.send(kind::DATA, flag::END_STREAM, 1, "more");
        let ended = h2.until(|frame| matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY));
        assert_eq!(ended.expect("an error").error(), error::STREAM_CLOSED);
    });
}

#[test]
fn a_preface_cut_off_is_let_go() {
    let server = ticking(&["--header-timeout", "300ms"]);
    unharmed(&server, || {
        let mut cut = ["PRI", "PRI * HTTP/2.0\r\n\r\nS"].map(|start| {
            let mut raw = Raw::connect(server.address);
            raw.send(start);
            raw
        });
        for raw in &mut cut {
            let answer = raw.rest_text("the server to hang up");
            assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        }
        // A client that disconnects inside of the preface frees its connection, too.
        let mut gone = Raw::connect(server.address);
        gone.send("PRI * HTT");
        gone.finish();
        gone.rest("the server to hang up");
        // An invalid preface is a request like any other, for an unknown path.
        let mut other = Raw::connect(server.address);
        other.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
        let answer = other.rest_text("the server to hang up");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    });
    server.has_refused("slow_request", 2);
}
