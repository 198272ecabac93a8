use super::{MISUSES, connect, error};
use crate::harness::{H2, Server, flag, frame, hpack, kind, ticking, unharmed};

const CANCEL: [u8; 4] = error::CANCEL.to_be_bytes();

/// Sends `bytes` again and again until the server closes the connection. Returns the error code.
fn flood(server: &Server, times: usize, mut bytes: impl FnMut(u32) -> Vec<u8>) -> Option<u32> {
    let mut h2 = connect(server);
    for number in 0..times {
        if !h2.raw.send(bytes(number as u32)) {
            break;
        }
    }
    h2.ended_with()
}

/// CVE-2023-44487.
#[test]
fn rapid_resets_end_the_connection() {
    let server = ticking(&[]);
    let ended = unharmed(&server, || {
        flood(&server, 20_000, |number| {
            let stream = 2 * number + 1;
            let head = H2::head("GET", "/v1/topics/tick?transport=sse");
            let flags = flag::END_HEADERS | flag::END_STREAM;
            let request = frame(kind::HEADERS, flags, stream, head);
            [request, frame(kind::RST_STREAM, 0, stream, CANCEL)].concat()
        })
    });
    assert!(ended.is_none_or(|code| code == error::ENHANCE_YOUR_CALM), "{ended:?}");
    server.has_counted(MISUSES, 1);
    server.has_counted("thalweg_piped_connections", 0);
}

/// The server itself resets the streams (the variant of 2025).
#[test]
fn resets_provoked_from_the_server_end_the_connection() {
    let server = ticking(&[]);
    let ended = unharmed(&server, || {
        flood(&server, 20_000, |number| {
            let stream = 2 * number + 1;
            let head = H2::head("POST", "/v1/topics/t");
            let request = frame(kind::HEADERS, flag::END_HEADERS, stream, head);
            // An increment of 0 is an error of the stream (RFC 9113 §6.9).
            [request, frame(kind::WINDOW_UPDATE, 0, stream, [0; 4])].concat()
        })
    });
    assert!(ended.is_none_or(|code| code != 0), "{ended:?}");
    server.has_counted(MISUSES, 1);
    server.has_counted("thalweg_requests", 0);
}

#[test]
fn streams_beyond_the_limit_are_refused_and_the_others_go_on() {
    const STREAMS: u32 = 8;
    let server = ticking(&["--set", "limits.http2-streams=8"]);
    unharmed(&server, || {
        let mut h2 = connect(&server);
        let stream_of = |number: u32| 2 * number + 1;
        for number in 0..STREAMS {
            h2.get(stream_of(number), "/v1/topics/tick?transport=http-streaming", &[]);
        }
        for number in 0..STREAMS {
            let stream = stream_of(number);
            h2.until(|frame| frame.stream == stream && frame.kind == kind::DATA).expect("data");
        }
        let one_more = stream_of(STREAMS);
        h2.get(one_more, "/healthz", &[]);
        let reset = h2.until(|frame| frame.stream == one_more).expect("a refusal");
        assert_eq!((reset.kind, reset.error()), (kind::RST_STREAM, error::REFUSED_STREAM));
        server.has_counted("thalweg_h2_refused_streams_total", 1);
        // The end of a stream frees its place.
        h2.send(kind::RST_STREAM, 0, 1, CANCEL);
        let again = stream_of(STREAMS + 1);
        h2.get(again, "/healthz", &[]);
        assert_eq!(h2.body(again), "ok\n");
        h2.until(|frame| frame.stream == 3 && frame.kind == kind::DATA).expect("data");
    });
    server.has_counted("thalweg_piped_connections", 0);
}

/// CVE-2024-27316 and similar: a header block without end.
#[test]
fn continuations_without_end_end_the_connection() {
    let server = ticking(&["--set", "limits.header-bytes=16KiB"]);
    let before = server.memory();
    unharmed(&server, || {
        let ended = flood(&server, 10_000, |number| {
            let block = hpack(&[("x-more", &"x".repeat(4096))]);
            match number {
                0 => frame(kind::HEADERS, 0, 1, H2::head("GET", "/healthz")),
                _ => frame(kind::CONTINUATION, 0, 1, block),
            }
        });
        assert!(ended.is_none_or(|code| code != 0), "{ended:?}");
        // Empty frames cost no memory, but time.
        let ended = flood(&server, 50_000, |number| match number {
            0 => frame(kind::HEADERS, 0, 1, H2::head("GET", "/healthz")),
            _ => frame(kind::CONTINUATION, 0, 1, ""),
        });
        assert!(ended.is_none_or(|code| code != 0), "{ended:?}");
    });
    server.has_counted(MISUSES, 2);
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more than before");
}

#[test]
fn a_header_list_over_the_limit_is_431() {
    let server = ticking(&["--set", "limits.header-bytes=16KiB"]);
    unharmed(&server, || {
        let mut h2 = connect(&server);
        let block =
            [H2::head("GET", "/healthz"), hpack(&[("x-large", &"x".repeat(15_000))])].concat();
        let more = hpack(&[("x-large", &"x".repeat(15_000))]);
        h2.send(kind::HEADERS, flag::END_STREAM, 1, block);
        h2.send(kind::CONTINUATION, flag::END_HEADERS, 1, more);
        let answer = h2.until(|frame| frame.stream == 1).expect("an answer");
        assert_eq!(answer.kind, kind::HEADERS, "{answer:?}");
        // `:status: 431` (RFC 7541 §6.2.1, §B).
        assert!(answer.payload.starts_with(&[0x48, 0x83, 0x69, 0x90, 0xff]), "{answer:?}");
        h2.get(3, "/healthz", &[]);
        assert_eq!(h2.body(3), "ok\n", "the connection goes on");
    });
}

/// Each frame requires a reply. If the client does not read replies, the server stops reading, or closes the connection.
#[test]
fn settings_and_pings_without_end_do_not_fill_memory() {
    let server = ticking(&[]);
    let before = server.memory();
    unharmed(&server, || {
        for one in [
            frame(kind::SETTINGS, 0, 0, ""),
            frame(kind::PING, 0, 0, [7; 8]),
            frame(kind::PRIORITY, 0, 5, [0, 0, 0, 3, 9]),
            frame(kind::WINDOW_UPDATE, 0, 0, 1_u32.to_be_bytes()),
            // An unknown frame type (RFC 9113 §5.5).
            frame(0xbe, 0, 0, "hello"),
        ] {
            let mut h2 = connect(&server);
            let many = one.repeat(1000);
            h2.raw.stuff(&many, 16 << 20, std::time::Duration::from_millis(300));
        }
    });
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more than before");
}

/// Empty DATA frames do not reduce the sender's window (CVE-2019-9518).
#[test]
fn empty_data_without_end_ends_the_connection() {
    let server = ticking(&[]);
    let ended = unharmed(&server, || {
        flood(&server, 20_000, |number| match number {
            0 => frame(kind::HEADERS, flag::END_HEADERS, 1, H2::head("POST", "/v1/topics/t")),
            _ => frame(kind::DATA, 0, 1, ""),
        })
    });
    assert!(ended.is_none_or(|code| code == error::ENHANCE_YOUR_CALM), "{ended:?}");
    server.has_counted(MISUSES, 1);
    server.has_counted("thalweg_requests", 0);
}

#[test]
fn empty_data_does_not_move_the_bodys_deadline() {
    let server = ticking(&["--body-timeout", "300ms"]);
    unharmed(&server, || {
        let mut h2 = connect(&server);
        let head = H2::head("POST", "/v1/topics/t");
        h2.send(kind::HEADERS, flag::END_HEADERS, 1, head);
        // More than a hundred would end the connection.
        for _ in 0..90 {
            h2.send(kind::DATA, 0, 1, "");
            thalweg_testing::let_pass(std::time::Duration::from_millis(10));
        }
        let data = h2.until(|frame| frame.stream == 1 && frame.kind == kind::DATA);
        let data = data.expect("a refusal").payload;
        let text = String::from_utf8_lossy(&data);
        assert!(text.contains("\"slow_request\""), "{text}");
    });
    server.has_refused("slow_request", 1);
    server.has_counted("thalweg_requests", 0);
}
