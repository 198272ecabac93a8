//! Tests the particulars of each transport.

use thalweg_client::{Http, Options, Subscribe, Transport};

use crate::fake::{Fake, both, envelope, expect};

#[tokio::test]
async fn with_a_window_what_was_taken_is_acked_when_more_is_asked_for() {
    let fake = Fake::start().await;
    let subscribe = Subscribe { window: Some(4096), ..Subscribe::default() };
    let topics = vec!["cars".parse().unwrap()];
    let mut subscription = fake.client().subscribe(topics, subscribe).unwrap();
    let (taken, is_taken) = tokio::sync::oneshot::channel();
    let (checked, is_checked) = tokio::sync::oneshot::channel();
    let server = async {
        let mut peer = fake.accept().await;
        assert!(peer.asked().contains("&window=4096 "), "{}", peer.asked());
        peer.upgrade().await;
        peer.frame(&envelope(8..8)).await;
        peer.frame(&envelope(8..10)).await;
        is_taken.await.unwrap();
        let mut none = [0; 1];
        let early = peer.socket.try_read(&mut none);
        assert!(early.is_err(), "acked before more was asked for");
        checked.send(()).unwrap();
        peer.frame(&envelope(10..11)).await;
        let ack = r#"{"command":"ack","topic":"cars","position":"9f.9"}"#;
        assert_eq!(peer.read_frame().await, ack);
        let shut = r#"{"error":{"code":"bad_command","message":"no window"}}"#;
        peer.frame(shut).await;
    };
    let client = async {
        expect(&mut subscription, &["connected", "events 8 9"]).await;
        taken.send(()).unwrap();
        is_checked.await.unwrap();
        expect(&mut subscription, &["events 10", "error: no window (bad_command)"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn polls_begin_without_waiting_and_go_on_where_the_last_ended() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::LongPolling);
    let ndjson = "Content-Type: application/x-ndjson\r\n";
    let server = async {
        let mut peer = fake.accept().await;
        assert!(
            peer.asked().contains("?cursor=latest&policy=skip&deltas=patch&wait=0ms "),
            "{}",
            peer.asked()
        );
        peer.answer(200, ndjson, &(envelope(8..8) + "\n")).await;
        // The connection is kept.
        peer.read_head().await;
        assert!(peer.asked().contains("?cursor=9f.7&policy=skip&deltas=patch&wait=25000ms "));
        peer.answer(200, ndjson, &(envelope(8..8) + "\n" + &envelope(8..10) + "\n")).await;
        peer.read_head().await;
        assert!(peer.asked().contains("?cursor=9f.9&"), "{}", peer.asked());
        let body = envelope(10..10) + "\n" + &envelope(10..12) + "\n";
        peer.answer(200, ndjson, &body).await;
    };
    let client = async {
        expect(&mut subscription, &["connected long-polling 9f.7", "events 8 9"]).await;
        expect(&mut subscription, &["events 10 11"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn a_poll_cut_short_is_asked_again() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::LongPolling);
    let server = async {
        let head =
            "HTTP/1.1 200 X\r\nContent-Type: application/x-ndjson\r\nContent-Length: 9999\r\n\r\n";
        let mut peer = fake.accept().await;
        peer.say(format!("{head}{}\n{}\n", envelope(8..8), envelope(8..9))).await;
        drop(peer);
        let mut peer = fake.accept().await;
        assert!(
            peer.asked().contains("?cursor=9f.8&policy=skip&deltas=patch&wait=0ms "),
            "{}",
            peer.asked()
        );
        let body = envelope(9..9) + "\n" + &envelope(9..10) + "\n";
        peer.answer(200, "Content-Type: application/x-ndjson\r\n", &body).await;
    };
    let client = async {
        expect(&mut subscription, &["connected", "events 8"]).await;
        expect(&mut subscription, &["disconnected the connection was cut"]).await;
        expect(&mut subscription, &["connected long-polling 9f.8", "events 9"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn gaps_and_the_close_come_over_sse() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::Sse);
    let server = async {
        let mut peer = fake.accept().await;
        assert_eq!(peer.header("accept"), "text/event-stream");
        peer.stream("text/event-stream; charset=utf-8").await;
        let gap = r#"{"topic":"cars","position":"9f.20","gap":{"missed":13,"reason":"slow"}}"#;
        let close = r#"{"close":{"code":1003,"reason":"over","reconnect":false}}"#;
        peer.say(format!("retry:1437\ndata:{}\nid:9f.7\n\n", envelope(8..8))).await;
        peer.say(format!("event:gap\ndata:{gap}\nid:9f.20\n\nevent:close\ndata:{close}\n\n")).await;
    };
    let client = async {
        expect(&mut subscription, &["connected sse 9f.7", "Slow gap of Some(13) to 9f.20"]).await;
        expect(&mut subscription, &["closed 1003 over"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn a_topic_that_ends_leaves_the_others_and_the_last_one_ends_all() {
    for transport in [Transport::Sse, Transport::WebSocket] {
        let fake = Fake::start().await;
        let mut subscription = fake.subscribe(transport);
        let end =
            r#"{"topic":"cars","position":"9f.7","end":{"code":"sold","reason":"it is sold"}}"#;
        let server = async {
            let mut peer = fake.accept().await;
            if transport == Transport::Sse {
                peer.stream("text/event-stream").await;
                peer.say(format!("data:{}\nid:9f.7\n\n", envelope(8..8))).await;
                peer.say(format!("event:end\ndata:{end}\nid:9f.7\n\n")).await;
            } else {
                peer.upgrade().await;
                peer.frame(&envelope(8..8)).await;
                peer.frame(end).await;
            }
        };
        let client = async {
            expect(&mut subscription, &["connected", "ended cars 9f.7 sold", "error: "]).await;
        };
        both(server, client).await;
    }
}

#[tokio::test]
async fn a_grown_forever_frame_is_loaded_again() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::ForeverFrame);
    let script = |json: &str| format!("<script nonce=\"a\">receive('{json}')</script>\n");
    let server = async {
        let mut peer = fake.accept().await;
        assert!(peer.asked().contains("transport=forever-frame"), "{}", peer.asked());
        peer.stream("text/html; charset=utf-8").await;
        let reload = r#"{"close":{"code":4003,"reason":"reload","reconnect":true}}"#;
        peer.say(format!("<!doctype html>{}{}", script(&envelope(8..8)), script(reload))).await;
        let mut peer = fake.accept().await;
        assert!(peer.asked().contains("?cursor=9f.7&"), "{}", peer.asked());
        peer.stream("text/html").await;
        peer.say(script(&envelope(8..8))).await;
    };
    let client = async {
        expect(&mut subscription, &["connected forever-frame 9f.7"]).await;
        expect(&mut subscription, &["disconnected the server closed: reload (4003)"]).await;
        expect(&mut subscription, &["connected forever-frame 9f.7"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn http2_begins_with_its_preface() {
    let fake = Fake::start().await;
    let client = fake.client_with(Options { http: Http::Http2, ..Options::default() });
    let server = async {
        // RFC 9113 §3.4: the preface looks like a request's head.
        assert_eq!(fake.accept().await.head, "PRI * HTTP/2.0\r\n\r\n");
    };
    let asking = async {
        let error = client.topics().await.expect_err("the fake speaks no HTTP/2");
        assert!(error.is_transient(), "{error}");
    };
    both(server, asking).await;
}
