//! Compatibility with clients and tools of other projects.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::harness::{Raw, Server, TlsClient, Transport, skipped};

/// Returns what HEAD and GET answer. `Date` may differ.
fn heads(raw: &mut Raw, method: &str, target: &str) -> (u16, Vec<String>) {
    let authorization = "Authorization: Bearer may-listen";
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n\r\n");
    raw.send(request);
    let head = raw.until(b"\r\n\r\n", "a head").expect("a head");
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let lines = head.lines().skip(1).filter(|line| !line.starts_with("date:"));
    (status.expect("a status"), lines.map(str::to_owned).collect())
}

#[test]
fn head_is_get_without_the_body() {
    let server = Server::start(&[]);
    server.publish("t", 0..3);
    let targets = ["/", "/healthz", "/readyz", "/v1/topics", "/v1/topics/t?limit=2"];
    // All requests use one connection: a body would be read as the next head.
    let mut asking_heads = Raw::connect(server.address);
    for target in targets.iter().chain(&["/metrics", "/v1/topics/none?limit=1", "/nowhere"]) {
        let head = heads(&mut asking_heads, "HEAD", target);
        let get = heads(&mut Raw::connect(server.address), "GET", target);
        if *target == "/metrics" {
            // The length grows from one request to the next.
            assert_eq!(head.0, 200);
            continue;
        }
        assert_eq!(head, get, "{target}");
    }
    let http2 = server.http2();
    for target in targets {
        let mut stream = http2.start("HEAD", target, &[], b"");
        let head = stream.response_head();
        assert_eq!((head.status, stream.rest("the end").len()), (200, 0), "{target}");
        let length = server.get(target).header("content-length").map(str::to_owned);
        assert_eq!(head.header("content-length"), length.as_deref());
    }
}

/// HEAD shows how a subscription would begin, without opening it.
#[test]
fn head_subscribes_to_nothing() {
    let server = Server::start(&[
        "--token",
        "publisher=may-publish,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=may-listen,subscribe=**",
    ]);
    let http2 = server.http2();
    let token = [("Authorization", "Bearer may-listen")];
    for (query, content_type) in [
        ("transport=sse", "text/event-stream"),
        ("transport=http-streaming", "application/x-ndjson"),
        ("wait=25s", "application/x-ndjson"),
        ("transport=forever-frame", "text/html; charset=utf-8"),
    ] {
        let target = format!("/v1/topics/new?{query}");
        let (status, head) = heads(&mut Raw::connect(server.address), "HEAD", &target);
        assert_eq!(status, 200, "{query}: {head:?}");
        assert!(head.contains(&format!("content-type: {content_type}")), "{head:?}");
        assert!(!head.iter().any(|line| line.starts_with("content-length")), "{head:?}");
        for (headers, status) in [(&token[..], 200), (&[], 401)] {
            let mut stream = http2.start("HEAD", &target, headers, b"");
            let head = stream.response_head();
            assert_eq!((head.status, stream.rest("the end").len()), (status, 0), "{query}");
            let expected = if status == 200 { content_type } else { "application/json" };
            assert_eq!(head.header("content-type"), Some(expected));
        }
    }
    server.ask("GET", "/v1/topics/new?limit=1", &token, "").refused(404, "no_such_topic");
}

/// RFC 9112 §3.2.
#[test]
fn http1_1_without_host_is_refused() {
    let server = Server::start(&[]);
    let check = |head: &str, status: u16| {
        let mut raw = Raw::connect(server.address);
        raw.send(format!("{head}\r\n\r\n"));
        let answer = raw.answer();
        assert_eq!(answer.status, status, "{head:?}: {answer:?}");
        if status == 400 {
            let sentence = answer.refused(400, "bad_parameter");
            assert!(sentence.contains("Host"), "{sentence}");
        }
    };
    check("GET /healthz HTTP/1.1", 400);
    check("GET http://localhost/healthz HTTP/1.1", 400);
    check("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b", 400);
    check("GET http://localhost/healthz HTTP/1.1\r\nHost: a\r\nHost: b", 400);
    check("GET /healthz HTTP/1.1\r\nHost: localhost", 200);
    check("GET /healthz HTTP/1.0", 200);
    server.has_refused("bad_parameter", 4);
}

/// nginx sends this by default: HTTP/1.0 without hop-by-hop headers.
#[test]
fn a_handshake_without_upgrade_is_told_of_the_proxy() {
    let server = Server::start(&[]);
    let handshake = "Host: localhost\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    for version in ["1.0", "1.1"] {
        for path in ["/v1/topics/t", "/v1/topics"] {
            let mut raw = Raw::connect(server.address);
            raw.send(format!("GET {path} HTTP/{version}\r\n{handshake}"));
            let sentence = raw.answer().refused(426, "upgrade_required");
            assert!(sentence.contains("proxy") && sentence.contains("Upgrade"), "{sentence}");
        }
    }
    // A refusal without a named transport lists all of them.
    server.get("/v1/topics/t").refused(406, "not_acceptable");
}

#[test]
fn metrics_come_in_the_form_that_is_asked_for() {
    let server = Server::start(&["--source", "t=dummy,interval=1ms"]);
    server.subscribe(Transport::Sse, "/t").confirmed();
    let metrics = |accept: &str| {
        let answer = server.ask("GET", "/metrics", &[("Accept", accept)], "");
        (answer.header("content-type").expect("a type").to_owned(), answer.text())
    };
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,\
                      text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let (content_type, open) = metrics(prometheus);
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open.contains("# TYPE thalweg_sends counter\n") && open.ends_with("\n# EOF\n"));
    let (content_type, plain) = metrics("*/*");
    assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
    assert!(plain.contains("# TYPE thalweg_sends_total counter\n") && !plain.contains("EOF"));
    for text in [&open, &plain] {
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        let helps = text.lines().filter(|line| line.starts_with("# HELP ")).collect::<Vec<_>>();
        assert!(families > 20 && helps.len() == families, "{text}");
        assert!(helps.iter().all(|line| line.ends_with('.') && line.split(' ').count() > 3));
    }
}

/// Prometheus checks names, types and help texts.
#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let server = Server::start(&[]);
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut promtool) = started else {
        skipped("promtool is not here: Debian has it in its package prometheus");
        return;
    };
    let mut stdin = promtool.stdin.take().expect("its stdin");
    stdin.write_all(server.get("/metrics").text().as_bytes()).expect("promtool reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("its end");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

/// A duration without a unit is refused.
#[test]
fn plain_http_on_the_port_of_tls_is_pointed_to_https() {
    let server = Server::start(&["--tls-self-signed"]);
    let mut raw = Raw::connect(server.address);
    raw.ask("POST", "/v1/topics/t", &[("Content-Type", "text/plain")], "hello");
    let sentence = raw.answer().refused(400, "bad_parameter");
    assert!(sentence.contains("https://"), "{sentence}");
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20"])
        .arg(format!("http://{}/", server.address))
        .output()
        .expect("run curl");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("https://"), "{output:?}");
    let refused = "thalweg_refused_total{code=\"bad_parameter\"} 2";
    let mut raw = TlsClient::raw(server.address);
    raw.ask("GET", "/metrics", &[], "");
    let metrics = String::from_utf8(raw.answer().body).expect("text");
    assert!(metrics.contains(refused), "{metrics}");
}
