use std::process::{Command, Stdio};
use std::thread;

use super::{FAILURES, has_counted, secure};
use crate::harness::{H2, Raw, Server, TlsClient, Transport};

/// Returns the output of curl, or its standard error if it fails.
fn curl(server: &Server, arguments: &[&str], target: &str) -> Result<String, String> {
    let url = format!("https://{}{target}", server.address);
    let base = ["--insecure", "--silent", "--show-error", "--no-buffer", "--max-time", "20"];
    let mut command = Command::new("curl");
    command.args(base).args(arguments).arg(url).stdin(Stdio::null());
    let output = command.output().expect("run curl");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_nothing_older() {
    let server = secure(&[]);
    for (arguments, version) in [
        (["--tlsv1.2", "--tls-max", "1.2", "--http1.1"], "1.1"),
        (["--tlsv1.3", "--tls-max", "1.3", "--http1.1"], "1.1"),
        (["--tlsv1.2", "--tls-max", "1.2", "--http2"], "2"),
        (["--tlsv1.3", "--tls-max", "1.3", "--http2"], "2"),
    ] {
        let write = ["--write-out", "%{http_version}"];
        let said = curl(&server, &[&arguments[..], &write].concat(), "/healthz");
        assert_eq!(said, Ok(format!("ok\n{version}")), "{arguments:?}");
    }
    let old = ["--tlsv1.0", "--tls-max", "1.1", "--ciphers", "DEFAULT:@SECLEVEL=0"];
    curl(&server, &old, "/healthz").expect_err("TLS 1.1 is refused");
}

#[test]
fn the_protocol_is_negotiated() {
    let server = secure(&[]);
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&["spdy/3", "http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let client = TlsClient::connect(server.address, offered);
        assert_eq!(client.protocol().as_deref(), agreed, "{offered:?}");
        let raw = Raw::over(client);
        if agreed == Some("h2") {
            let mut h2 = H2::start(raw, &[]);
            h2.get(1, "/healthz", &[]);
            assert_eq!(h2.body(1), "ok\n");
        } else {
            let mut raw = raw;
            raw.ask("GET", "/healthz", &[], "");
            assert_eq!(raw.answer().status, 200);
        }
    }
}

/// Every transport over TLS receives all events from a position on, which were published over TLS.
#[test]
fn every_transport_is_spoken_over_tls() {
    let server = secure(&[]);
    let posted = curl(&server, &["--data", "{\"hello\":\"world\"}"], "/v1/topics/t");
    assert!(posted.as_ref().is_ok_and(|text| text.contains("\"count\":1")), "{posted:?}");
    let lines = ["--header", "Content-Type: application/x-ndjson", "--data-binary", "1\n2\n3\n"];
    let posted = curl(&server, &lines, "/v1/topics/t").expect("a publish");
    assert!(posted.contains("\"count\":3"), "{posted}");
    for version in ["--http1.1", "--http2"] {
        for query in ["transport=sse", "transport=http-streaming", "transport=forever-frame"] {
            let mut command = Command::new("curl");
            let url = format!("https://{}/v1/topics/t?cursor=earliest&{query}", server.address);
            command.args([
                "--insecure",
                "--silent",
                "--no-buffer",
                "--max-time",
                "20",
                version,
                &url,
            ]);
            let mut child = command.stdout(Stdio::piped()).spawn().expect("run curl");
            let output = child.stdout.take().expect("its output");
            let received = received_until(output, "\"events\":[{\"hello\":\"world\"}");
            child.kill().expect("end curl");
            child.wait().expect("the end of curl");
            assert!(received, "{version} {query}");
        }
        let polled = curl(&server, &[version], "/v1/topics/t?cursor=earliest&wait=1s");
        assert!(polled.as_ref().is_ok_and(|text| text.contains("\"world\"")), "{polled:?}");
        let read = curl(&server, &[version], "/v1/topics/t?limit=10");
        assert!(read.as_ref().is_ok_and(|text| text.contains("\"world\"")), "{read:?}");
    }
    websocket_over_tls(&server);
    has_counted(&server, FAILURES, 0);
}

fn received_until(mut output: impl std::io::Read + Send + 'static, words: &'static str) -> bool {
    let reader = thread::spawn(move || {
        let (mut text, mut piece) = (String::new(), [0; 4096]);
        while let Ok(read @ 1..) = output.read(&mut piece) {
            text.push_str(&String::from_utf8_lossy(&piece[..read]));
            if text.contains(words) {
                return true;
            }
        }
        false
    });
    reader.join().expect("a reader")
}

fn websocket_over_tls(server: &Server) {
    use crate::harness::{Frame, opcode};
    let mut raw = TlsClient::raw(server.address);
    let headers = Transport::WebSocket.headers();
    raw.ask("GET", "/v1/topics/t?cursor=earliest", &headers, "");
    let head = raw.until(b"\r\n\r\n", "the handshake").expect("a handshake");
    assert!(head.starts_with(b"HTTP/1.1 101"));
    raw.until(b"[{\"hello\":\"world\"}", "the events").expect("events");
    let command = r#"{"command":"publish","id":1,"topic":"other","event":5}"#;
    raw.send(Frame::new(opcode::TEXT, command).bytes());
    raw.until(b"\"count\":1}}", "an answer").expect("an answer");
    raw.send(Frame::new(opcode::CLOSE, "").bytes());
    let rest = raw.rest("the end");
    assert!(rest.ends_with(b"\x03\xe8done"), "{}", String::from_utf8_lossy(&rest));
}
