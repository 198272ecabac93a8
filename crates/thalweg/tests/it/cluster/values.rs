use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
};

use serde_json::{Value, json};

use super::{Nodes, Servers};
use crate::harness::{Received, Reply, Server, Subscriber, Transport, Upstream, response};

/// Reads until this version arrives. Returns its position.
fn until(subscriber: &mut Subscriber, version: &Value) -> String {
    loop {
        let envelope = subscriber.envelope();
        if envelope.events.first() == Some(version) {
            return envelope.position;
        }
    }
}

/// Reads until the topic ends. Returns the reason.
fn end(subscriber: &mut Subscriber) -> String {
    loop {
        if let Received::TopicEnd(_, _, code) = subscriber.next() {
            return code;
        }
    }
}

#[test]
fn a_value_topic_has_the_same_version_at_every_node() {
    let Some(servers) = Servers::start(1) else { return };
    let mut nodes = Nodes::start_with(&servers, 2, "all=**,kind=value", &[]);
    let mut readers = [0, 1].map(|nth| nodes.at(nth).subscribe(Transport::WebSocket, "/scores/a"));
    for version in 0..20 {
        let body = json!({ "version": version });
        let answer = nodes.at(version % 2).post("scores/a", "application/json", body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let [first, second] = readers.each_mut().map(|reader| until(reader, &body));
        assert_eq!(first, second);
    }
    let page = |node: &Server| node.get("/v1/topics/scores/a?limit=1").text();
    let before = page(nodes.at(0));
    assert_eq!(before, page(nodes.at(1)));
    // A node that starts without events reads the version from NATS.
    nodes.drain(1);
    nodes.run(1);
    assert_eq!(before, page(nodes.at(1)));
    let mut reader = nodes.at(1).subscribe(Transport::Sse, "/scores/a");
    until(&mut reader, &json!({ "version": 19 }));
    let deleted = nodes.at(1).ask("DELETE", "/v1/topics/scores/a", &[], "");
    assert_eq!(deleted.status, 204, "{}", deleted.text());
    assert_eq!((end(&mut reader), end(&mut readers[0])), ("deleted".into(), "deleted".into()));
    let again = nodes.at(0).ask("DELETE", "/v1/topics/scores/a", &[], "");
    assert_eq!(again.status, 404, "{}", again.text());
}

#[test]
fn each_node_with_subscribers_fetches_and_one_stores() {
    const VERSIONS: u64 = 30;
    let Some(servers) = Servers::start(1) else { return };
    let number = Arc::new(AtomicU64::new(0));
    let current = Arc::clone(&number);
    let upstream = Upstream::start(move |asked| {
        let tag = format!("\"{}\"", current.load(SeqCst));
        let headers = format!("ETag: {tag}\r\nCache-Control: no-cache\r\n");
        match current.load(SeqCst) {
            VERSIONS => Reply::with(410, "", ""),
            _ if asked.header("if-none-match") == Some(&tag) => {
                Reply::Bytes(response(304, &headers, b""))
            }
            version => Reply::json(&headers, &version),
        }
    });
    let fetched = upstream.flag("f/**", ",min-interval=20ms,max-age=20ms,linger=0,timeout=2s");
    let nodes = Nodes::start_with(&servers, 2, "all=f/**,kind=value", &["--upstream", &fetched]);
    let mut readers = [0, 1].map(|nth| nodes.at(nth).subscribe(Transport::WebSocket, "/f/x"));
    let mut first = None;
    for version in 0..VERSIONS {
        number.store(version, SeqCst);
        let [one, other] = readers.each_mut().map(|reader| until(reader, &json!(version)));
        assert_eq!(one, other, "stored once");
        first.get_or_insert(one);
    }
    // Each version is one record, so the sequence shows their number.
    let last = last_sequence(nodes.at(1), "f/x");
    assert_eq!(last - sequence(&first.expect("one")), VERSIONS - 1);
    number.store(VERSIONS, SeqCst);
    assert_eq!(readers.each_mut().map(end), ["gone", "gone"]);
}

/// Publishes to a subject of NATS, as other programs may. The message is stored when this returns.
fn publish(servers: &Servers, subject: &str, body: &str) {
    let address = servers.urls().remove(0).replace("nats://", "");
    let mut socket = TcpStream::connect(address).expect("NATS");
    let connect = "CONNECT {\"verbose\":false}\r\nSUB answer 1\r\n";
    let message = format!("PUB {subject} answer {}\r\n{body}\r\n", body.len());
    socket.write_all([connect, &message].concat().as_bytes()).expect("sent");
    let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("\"seq\"")));
}

fn sequence(position: &str) -> u64 {
    position.split_once('.').expect("two").1.parse::<u64>().expect("a number") / 256
}

fn last_sequence(node: &Server, topic: &str) -> u64 {
    let text = node.get(&format!("/v1/topics/{topic}?limit=1")).text();
    let page: Value = serde_json::from_str(&text).expect("JSON");
    sequence(page["position"].as_str().expect("a position"))
}

#[test]
fn a_fetch_older_than_a_published_version_is_not_stored() {
    let Some(servers) = Servers::start(1) else { return };
    let (go_on, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let upstream = Upstream::start(move |asked| {
        let body = match asked.before {
            // The first response is slow.
            0 => {
                wait.lock().expect("the end").recv().expect("a word");
                "old"
            }
            _ => "new",
        };
        Reply::json("Cache-Control: no-cache\r\n", &json!(body))
    });
    let fetched = upstream.flag("f/**", ",min-interval=20ms,max-age=20ms,linger=0,timeout=5s");
    let nodes = Nodes::start_with(&servers, 2, "all=f/**,kind=value", &["--upstream", &fetched]);
    let mut slow = nodes.at(0).subscribe(Transport::WebSocket, "/f/x");
    upstream.await_asked("/f/x", 1);
    let mut quick = nodes.at(1).subscribe(Transport::WebSocket, "/f/x");
    let first = until(&mut quick, &json!("new"));
    assert_eq!(until(&mut slow, &json!("new")), first);
    go_on.send(()).expect("the upstream");
    upstream.await_asked("/f/x", upstream.count() + 20);
    assert_eq!(last_sequence(nodes.at(1), "f/x"), sequence(&first), "nothing is stored over it");
}

#[test]
fn a_fetched_document_replaces_an_unreadable_record() {
    let Some(servers) = Servers::start(1) else { return };
    let number = Arc::new(AtomicU64::new(0));
    let current = Arc::clone(&number);
    let upstream = Upstream::start(move |_| {
        Reply::json("Cache-Control: no-cache\r\n", &json!(current.load(SeqCst)))
    });
    let fetched = upstream.flag("f/**", ",min-interval=20ms,max-age=20ms,linger=0,timeout=2s");
    let nodes = Nodes::start_with(&servers, 1, "all=f/**,kind=value", &["--upstream", &fetched]);
    let mut reader = nodes.at(0).subscribe(Transport::WebSocket, "/f/x");
    let first = until(&mut reader, &json!(0));
    publish(&servers, "thalweg.f.x", "nonsense");
    number.store(1, SeqCst);
    let second = until(&mut reader, &json!(1));
    assert_eq!(sequence(&second), sequence(&first) + 2);
}
