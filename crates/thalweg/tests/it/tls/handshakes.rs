use super::{FAILURES, has_counted, secure, unharmed};
use crate::harness::{H2, Raw, TlsClient, ticking};

/// The beginning of a ClientHello (RFC 8446 §4.1.2), of a record of 512 bytes.
const HALF_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[test]
fn handshakes_that_come_to_nothing_are_ended_and_counted() {
    let server = secure(&["--header-timeout", "500ms"]);
    unharmed(&server, || {
        let starts: [&[u8]; 5] = [
            b"",
            HALF_HELLO,
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &[0xff; 20_000],
        ];
        let mut raws = starts.map(|start| {
            let mut raw = Raw::connect(server.address);
            raw.send(start);
            raw
        });
        for raw in &mut raws {
            let said = raw.rest("the server to hang up");
            // The reply is an alert (RFC 8446 §6), empty, or a remedy in cleartext, like the request.
            let is_pointed = said.starts_with(b"HTTP/1.1 400 ") || said.starts_with(&[0; 3]);
            assert!(said.is_empty() || said[0] == 0x15 || is_pointed, "{said:?}");
        }
    });
    has_counted(&server, FAILURES, 5);
}

/// After a complete handshake no byte follows, or only a part of a record.
#[test]
fn a_client_that_stops_after_the_handshake_is_closed() {
    let server = secure(&["--header-timeout", "500ms", "--heartbeat", "60s"]);
    unharmed(&server, || {
        let mut raws = Vec::new();
        for (protocol, start) in [
            ("http/1.1", ""),
            ("http/1.1", "GET /healthz HTT"),
            ("h2", ""),
            ("h2", "PRI * HTTP/2.0\r\n"),
            ("h2", "GET /healthz HTTP/1.1\r\n\r\n"),
        ] {
            let mut raw = Raw::over(TlsClient::connect(server.address, &[protocol]));
            raw.send(start);
            raws.push(raw);
        }
        for raw in &mut raws {
            raw.rest("the server to hang up");
        }
    });
}

#[test]
fn a_hundred_incomplete_handshakes_block_no_client() {
    let server = secure(&["--header-timeout", "1s"]);
    unharmed(&server, || {
        let mut raws: Vec<Raw> = (0..100).map(|_| Raw::connect(server.address)).collect();
        for raw in &mut raws {
            raw.send(HALF_HELLO);
        }
        for raw in &mut raws {
            raw.rest("the server to hang up");
        }
    });
    has_counted(&server, FAILURES, 100);
}

#[test]
fn tls_on_a_cleartext_port_is_refused_like_garbage() {
    let server = ticking(&[]);
    crate::harness::unharmed(&server, || {
        let mut raw = Raw::connect(server.address);
        raw.send([HALF_HELLO, b"\r\n\r\n"].concat());
        let said = raw.rest_text("the server to hang up");
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
    });
    server.has_refused("bad_parameter", 1);
}

#[test]
fn garbage_within_tls_ends_the_connection_only() {
    let server = secure(&[]);
    unharmed(&server, || {
        let mut raw = TlsClient::raw(server.address);
        raw.send("\0\0\0\r\n\r\n");
        assert_eq!(raw.answer().status, 400);
        let mut h2 = H2::start(Raw::over(TlsClient::connect(server.address, &["h2"])), &[]);
        h2.raw.send([0xff; 4096]);
        assert!(h2.ended_with().is_some_and(|code| code != 0));
    });
    has_counted(&server, "thalweg_h2_misuses_total", 1);
}
