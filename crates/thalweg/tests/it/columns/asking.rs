use std::process::{Command, Stdio};

use serde_json::json;

use super::{
    publish,
    reading::read,
    stream::{Columns, MEDIA_TYPE, StreamItem, as_objects},
};
use crate::harness::{Raw, Server, TlsClient, request, wait_for};

const ROWS: &str = "{\"n\":1,\"car\":\"c1\"}\n{\"n\":2,\"car\":\"c2\"}\n";

/// Over every version of HTTP, in cleartext and over TLS, the response ends with its topic, and it is a complete stream.
#[test]
fn every_protocol_carries_the_same_stream() {
    for (tls, versions) in [
        (&[][..], ["--http1.0", "--http1.1", "--http2-prior-knowledge"]),
        (&["--tls-self-signed"], ["--http1.1", "--http2", "--http2"]),
    ] {
        let server = Server::start(tls);
        let connect = || match tls {
            [] => Raw::connect(server.address),
            _ => TlsClient::raw(server.address),
        };
        let mut streams = Vec::new();
        for (subscribed, version) in versions.into_iter().enumerate() {
            let topic = format!("cars/{subscribed}");
            let mut raw = connect();
            let lines = [("Content-Type", "application/x-ndjson")];
            raw.ask("POST", &format!("/v1/topics/{topic}"), &lines, ROWS);
            assert_eq!(raw.answer().status, 200);
            let scheme = if tls.is_empty() { "http" } else { "https" };
            let url = format!("{scheme}://{}/v1/topics/{topic}?cursor=earliest", server.address);
            let mut command = Command::new("curl");
            command.args(["--insecure", "--silent", "--include", "--max-time", "20", version]);
            command.args(["--header", &format!("Accept: {MEDIA_TYPE}"), &url]);
            let curl = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
            let curl = curl.expect("run curl");
            wait_for("curl to subscribe", || {
                (server.count_over(connect(), "thalweg_connections") == 1).then_some(())
            });
            raw.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "");
            assert_eq!(raw.answer().status, 204);
            let output = curl.wait_with_output().expect("the end of curl");
            assert!(output.status.success(), "{version}: {output:?}");
            wait_for("curl to leave", || {
                (server.count_over(connect(), "thalweg_connections") == 0).then_some(())
            });
            streams.push((version, output.stdout));
        }
        for (version, bytes) in streams {
            let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            let (head, body) = bytes.split_at(head);
            let head = String::from_utf8_lossy(head).to_ascii_lowercase();
            assert!(head.contains(&format!("content-type: {MEDIA_TYPE}")), "{version}: {head}");
            let stream = read(body);
            let epoch = &stream.schema.metadata()["thalweg.epoch"];
            assert!(head.contains(&format!("thalweg-position: {epoch}.0")), "{version}: {head}");
            assert!(!head.contains("thalweg-resume"), "{version}: {head}");
            let rows = vec![(1, json!({"n": 1, "car": "c1"})), (2, json!({"n": 2, "car": "c2"}))];
            assert_eq!(as_objects(&stream), rows, "{version}");
            let last_words = br#"{"code":4500,"reason":"ended","reconnect":false,"end":{"code":"deleted","reason":"the topic was deleted"}}"#;
            assert!(body.windows(last_words.len()).any(|at| at == last_words), "{version}");
            assert!(body.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), "{version}");
        }
    }
}

#[test]
fn accept_decides_the_transport() {
    let server = Server::start(&[]);
    publish(&server, "cars", ROWS);
    let http2 = server.http2();
    let arrow = MEDIA_TYPE;
    let lines = "application/x-ndjson";
    for (accept, query, expected) in [
        (arrow, "", arrow),
        (arrow, "transport=http-streaming", arrow),
        ("Application/Vnd.Apache.Arrow.Stream; q=0.5", "", arrow),
        ("text/html, application/vnd.apache.arrow.stream;q=0.9, */*;q=0.1", "", arrow),
        ("application/vnd.apache.arrow.stream, application/x-ndjson", "", arrow),
        ("application/vnd.apache.arrow.stream;q=0, application/x-ndjson", "", lines),
        ("*/*", "transport=http-streaming", lines),
        ("application/x-ndjson", "", lines),
        ("application/vnd.apache.arrow.stream, text/event-stream", "", "text/event-stream"),
        (arrow, "transport=sse", "text/event-stream"),
    ] {
        let target = format!("/v1/topics/cars?cursor=earliest&{query}");
        let second = http2.start("GET", &target, &[("Accept", accept)], b"");
        let mut sockets = [server.connect(), second];
        sockets[0].send(request("GET", &target, &[("Accept", accept)], b""));
        for mut socket in sockets {
            let head = socket.response_head();
            let media_type = head.header("content-type").and_then(|value| value.split(';').next());
            assert_eq!((head.status, media_type), (200, Some(expected)), "{accept} {query}");
            if expected == arrow {
                let mut stream = Columns::taken(socket, head);
                assert_eq!(stream.next(), StreamItem::NoRows);
                assert_eq!(stream.rows_next().len(), 2, "{accept} {query}");
            }
        }
    }
}

#[test]
fn invalid_column_requests_are_refused_with_the_remedy() {
    let server = Server::start(&["--topic", "documents/**,kind=value"]);
    let accept = [("Accept", MEDIA_TYPE)];
    for (target, status, code, remedy) in [
        ("/documents/a", 400, "bad_parameter", "request JSON"),
        ("?topic=a&topic=b", 400, "bad_parameter", "each topic separately"),
        ("", 400, "bad_parameter", "name a topic"),
        ("/a?window=4KiB", 400, "bad_parameter", "WebSocket"),
        ("/a?cursor=soon", 400, "bad_cursor", "earliest"),
        ("/a?wait=0", 400, "bad_parameter", "accept application/x-ndjson"),
        ("/a?transport=long-polling", 400, "bad_parameter", "accept application/x-ndjson"),
    ] {
        let target = format!("/v1/topics{target}");
        for answer in [
            server.ask("GET", &target, &accept, ""),
            server.http2().ask("GET", &target, &accept, ""),
        ] {
            let said = answer.refused(status, code);
            assert!(said.contains(remedy), "{target}: {said}");
            assert_eq!(answer.header("content-type"), Some("application/json"));
        }
    }
}

#[test]
fn a_long_poll_that_takes_json_too_is_answered_in_json() {
    let server = Server::start(&[]);
    publish(&server, "cars", ROWS);
    let accept = [("Accept", "application/vnd.apache.arrow.stream, application/x-ndjson")];
    let answer = server.ask("GET", "/v1/topics/cars?cursor=earliest&wait=0", &accept, "");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
}

#[test]
fn head_answers_like_get_without_opening_a_subscription() {
    let server = Server::start(&[]);
    publish(&server, "cars", ROWS);
    let mut socket = server.connect();
    let accept = [("Accept", MEDIA_TYPE)];
    socket.send(request("HEAD", "/v1/topics/cars", &accept, b""));
    let head = socket.until(b"\r\n\r\n", "a head").expect("a head");
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200") && head.contains(MEDIA_TYPE), "{head}");
    // The connection stays open.
    socket.send(request("GET", "/healthz", &[], b""));
    assert_eq!(socket.response().status, 200);
    assert_eq!(server.metric("thalweg_connections"), 0.0);
}

#[test]
fn tokens_and_origins_hold_for_columns_too() {
    let server = Server::start(&[
        "--token",
        "publisher=publish-secret-1234567890,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=subscribe-secret-1234567890,subscribe=**",
        "--allow-origin",
        "https://app.example",
    ]);
    let origin = ("Origin", "https://app.example");
    let ask = |headers: &[(&str, &str)]| {
        let headers = [&[("Accept", MEDIA_TYPE), origin], headers].concat();
        let mut socket = server.connect();
        socket.send(request("GET", "/v1/topics/cars", &headers, b""));
        let mut head = socket.response_head();
        if head.status != 200 {
            head.body = socket.body(&head);
        }
        head
    };
    ask(&[]).refused(401, "unauthorized");
    let head = ask(&[("Authorization", "Bearer subscribe-secret-1234567890")]);
    assert_eq!(head.status, 200, "{head:?}");
    let exposed = head.header("access-control-expose-headers").unwrap_or_default();
    for name in ["thalweg-position", "thalweg-resume"] {
        assert!(exposed.split(", ").any(|exposed_name| exposed_name == name), "{exposed}");
        assert_eq!(head.header(name).is_some(), name == "thalweg-position");
    }
    assert_eq!(head.header("access-control-allow-origin"), Some("https://app.example"));
}
