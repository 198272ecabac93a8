//! Forever frames: documents that never end.

use std::collections::HashSet;

use serde_json::json;

use crate::harness::{Received, Response, Server, Socket, Transport, offset};

/// Requests a document. Returns its head and the beginning of the body.
fn load(server: &Server, target: &str, headers: &str) -> (Response, Socket) {
    let separator = if target.contains('?') { '&' } else { '?' };
    let mut socket = server.connect();
    socket.send(format!(
        "GET /v1/topics{target}{separator}transport=forever-frame HTTP/1.1\r\n\
         Host: localhost\r\n{headers}\r\n"
    ));
    (socket.response_head(), socket)
}

fn directive(head: &Response, name: &str) -> String {
    let policy = head.header("content-security-policy").expect("a policy");
    let found = policy.split(';').map(str::trim).find_map(|each| each.strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name} in {policy}")).trim().to_owned()
}

fn script(socket: &mut Socket) -> (String, String) {
    let piece = socket.until(b"</script>", "a script").expect("a script");
    let piece = String::from_utf8(piece).expect("UTF-8");
    let (_, script) = piece.split_once("<script").expect("its tag");
    let (attributes, text) = script.split_once('>').expect("the tag's end");
    let text = text.strip_suffix("</script>").expect("the script's end");
    (attributes.trim().to_owned(), text.to_owned())
}

#[test]
fn the_head_lets_only_its_own_scripts_run_and_only_its_own_pages_frame_it() {
    let server = Server::start(&[]);
    let (head, mut socket) = load(&server, "/t", "");
    assert_eq!(head.status, 200);
    let content_type = head.header("content-type").expect("a type").to_lowercase();
    assert_eq!(content_type.replace(' ', ""), "text/html;charset=utf-8");
    assert_eq!(head.header("x-content-type-options"), Some("nosniff"));
    assert!(head.header("cache-control").is_some_and(|value| value.contains("no-cache")));
    assert_eq!(directive(&head, "default-src"), "'none'");
    let sources = directive(&head, "script-src");
    let nonce = sources.strip_prefix("'nonce-").and_then(|nonce| nonce.strip_suffix('\''));
    let nonce = nonce.unwrap_or_else(|| panic!("a nonce and nothing else: {sources}"));
    assert!(nonce.len() >= 22, "128 bits in base64: {nonce}");
    assert_eq!(directive(&head, "frame-ancestors"), "'self'");
    let (attributes, text) = script(&mut socket);
    assert_eq!(attributes, format!("nonce=\"{nonce}\""));
    // The surrounding page defines `thalweg`, and tells its frames apart.
    assert!(text.contains("parent.thalweg(") && text.contains("window"), "{text}");
    for _ in 0..3 {
        let (attributes, text) = script(&mut socket);
        assert_eq!(attributes, format!("nonce=\"{nonce}\""));
        assert!(text.starts_with("receive('"), "{text}");
        server.publish("t", 0..1);
    }
}

#[test]
fn each_document_has_another_nonce() {
    let server = Server::start(&["--shards", "2"]);
    let sources: HashSet<String> =
        (0..50).map(|_| directive(&load(&server, "/t", "").0, "script-src")).collect();
    assert_eq!(sources.len(), 50);
}

#[test]
fn text_that_could_end_a_script_is_escaped_and_arrives_unchanged() {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::ForeverFrame, "/t");
    subscriber.confirmed();
    for event in [
        json!("</script><script>alert(1)</script>"),
        json!("<!-- <script>"),
        json!("]]> --> <SCRIPT </ScRiPt "),
        json!("\u{2028}\u{2029}"),
        json!({"</script>": ["<", "\\<", "\\\\<", "\u{2028}<\u{2029}"]}),
        json!("\\u003c \\\\u003c"),
        json!({"it's": "'\\' \"'\\\"')</script>"}),
    ] {
        server.post("t", "application/json", event.to_string()).published();
        let envelope = subscriber.envelope();
        assert_eq!(envelope.events, [event]);
    }
    // Other framings do not change this event.
    let event = "\"</script>\u{2028}\"";
    let mut line = server.subscribe(Transport::HttpStreaming, "/t");
    line.confirmed();
    server.post("t", "application/json", event).published();
    assert!(line.envelope().text.contains(event));
}

#[test]
fn a_large_document_asks_for_a_reload_that_resumes_at_its_end() {
    const LIMIT: usize = 4 << 20;
    const EVENTS: u64 = 1_000;
    let server = Server::start(&["--topic", "**,history-bytes=64MiB"]);
    let line = format!("\"{}\"\n", "x".repeat(9_990));
    for _ in 0..EVENTS / 10 {
        server.post("t", "application/x-ndjson", line.repeat(10)).published();
    }
    let mut cursor = "earliest".to_owned();
    let mut seen = 0;
    let mut documents = 0;
    while seen < EVENTS {
        let (head, mut socket) = load(&server, &format!("/t?cursor={cursor}"), "");
        assert_eq!(head.status, 200);
        let begin = socket.used();
        documents += 1;
        loop {
            let (_, text) = script(&mut socket);
            let Some(call) = text.strip_prefix("receive('") else { continue };
            // Inside the string there is nothing to unescape.
            let json = call.strip_suffix("')").expect("the call's end");
            match Received::parse(json.as_bytes(), None, "the document") {
                Received::Envelope(envelope) => {
                    assert_eq!(envelope.first, seen + 1);
                    seen = offset(&envelope.position);
                    cursor = envelope.position;
                }
                Received::Close(code, reason, reconnect) => {
                    assert_eq!((code, reason.as_str(), reconnect), (4003, "reload", Some(true)));
                    let size = socket.used() - begin;
                    // The limit, and the frame that was begun before it.
                    assert!((LIMIT..LIMIT + (256 << 10)).contains(&size), "{size} B");
                    let rest = socket.rest("the document's end");
                    assert!(!String::from_utf8_lossy(&rest).contains("receive("));
                    break;
                }
                other => panic!("{other:?} after {seen} events"),
            }
            if seen == EVENTS {
                break;
            }
        }
    }
    assert!(documents > 2, "{documents} documents for 10 MB");
}

#[test]
fn documents_loaded_again_under_a_firehose_lose_and_repeat_nothing() {
    const TOTAL: u64 = 1_500;
    let server = Server::start(&["--topic", "**,history-bytes=64MiB"]);
    let mut subscriber = server.subscribe(Transport::ForeverFrame, "?topic=a&topic=b");
    subscriber.confirmed();
    subscriber.confirmed();
    let event = |number: u64| format!("{{\"n\":{number},\"text\":\"{}\"}}\n", "x".repeat(5_000));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for start in (0..TOTAL).step_by(20) {
                let lines: String = (start..start + 20).map(event).collect();
                for topic in ["a", "b"] {
                    server.post(topic, "application/x-ndjson", &lines).published();
                }
            }
        });
        let mut seen = [0, 0];
        while seen != [TOTAL, TOTAL] {
            let envelope = subscriber.envelope();
            let seen = &mut seen[usize::from(envelope.topic == "b")];
            for event in &envelope.events {
                assert_eq!(event["n"].as_u64(), Some(*seen), "of {}", envelope.topic);
                *seen += 1;
            }
        }
    });
}

#[test]
fn a_document_is_not_written_for_a_page_of_another_origin() {
    let server = Server::start(&[]);
    let (mut head, mut socket) = load(&server, "/t", "Origin: http://elsewhere.example\r\n");
    head.body = socket.body(&head);
    head.refused(403, "bad_origin");
}
