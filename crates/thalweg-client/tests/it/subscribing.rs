//! Tests reconnecting: after cuts, closes, silence and refusals.

use std::time::Duration;

use thalweg_client::{Options, Subscribe, Transport, Update};
use thalweg_testing::patiently;
use thalweg_wire::{EndCode, close};
use tokio::time::timeout;

use crate::fake::{Fake, both, envelope, expect, next};

const NDJSON: &str = "application/x-ndjson";

#[tokio::test]
async fn a_cut_in_mid_frame_is_resumed_and_nothing_comes_twice() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::HttpStreaming);
    let server = async {
        let mut peer = fake.accept().await;
        assert!(peer.asked().contains("/v1/topics/cars?cursor=latest&policy=skip&deltas=patch"));
        peer.stream(NDJSON).await;
        peer.say(envelope(8..8) + "\n" + &envelope(8..10) + "\n" + &envelope(10..12)[..30]).await;
        drop(peer);
        let mut peer = fake.accept().await;
        assert!(peer.asked().contains("?cursor=9f.9&"), "{}", peer.asked());
        peer.stream(NDJSON).await;
        peer.say(envelope(10..10) + "\n" + &envelope(8..12) + "\n").await;
        let _ = peer.socket.readable().await;
    };
    let client = async {
        expect(&mut subscription, &["connected http-streaming 9f.7", "events 8 9"]).await;
        expect(&mut subscription, &["disconnected the connection was cut"]).await;
        expect(&mut subscription, &["connected http-streaming 9f.9", "events 10 11"]).await;
        drop(subscription);
    };
    both(server, client).await;
}

#[tokio::test]
async fn close_codes_decide_whether_to_come_back() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::WebSocket);
    let server = async {
        for (cursor, close) in [("latest", close::DRAINING), ("9f.7", close::TOO_SLOW)] {
            let mut peer = fake.accept().await;
            assert!(peer.asked().contains(&format!("?cursor={cursor}&")), "{}", peer.asked());
            peer.upgrade().await;
            peer.frame(&envelope(8..8)).await;
            peer.close(close).await;
            let _ = peer.socket.readable().await;
        }
    };
    let client = async {
        expect(&mut subscription, &["connected websocket 9f.7"]).await;
        expect(&mut subscription, &["disconnected the server closed: draining (1001)"]).await;
        expect(&mut subscription, &["connected websocket 9f.7", "closed 1008 too slow"]).await;
        expect(&mut subscription, &["error: the subscription has ended"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn silence_is_an_end() {
    let fake = Fake::start().await;
    let options = Options { heartbeat: Duration::from_millis(300), ..Options::default() };
    let subscribe = Subscribe { transport: Some(Transport::Sse), ..Subscribe::default() };
    let client = fake.client_with(options);
    let mut subscription = client.subscribe(vec!["cars".parse().unwrap()], subscribe).unwrap();
    let came_back = tokio::sync::Notify::new();
    let server = async {
        let mut peer = fake.accept().await;
        peer.stream("text/event-stream").await;
        peer.say(format!("data:{}\n\n", envelope(8..8))).await;
        let _again = fake.accept().await;
        came_back.notify_one();
    };
    let client = async {
        expect(&mut subscription, &["connected", "disconnected nothing received for 900ms"]).await;
        // The next attempt begins; the test does not wait for its silence.
        tokio::select! {
            _ = subscription.next() => {}
            () = came_back.notified() => {}
        }
    };
    both(server, client).await;
}

/// `vectors/reconnecting.json` has the delays; here they are those of real connections.
#[tokio::test]
async fn delays_grow_after_short_connections_and_obey_retry_after() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::HttpStreaming);
    let server = async {
        for _ in 0..2 {
            let mut peer = fake.accept().await;
            peer.stream(NDJSON).await;
            peer.say(envelope(8..8) + "\n").await;
            peer.say(
                r#"{"close":{"code":1013,"reason":"busy","reconnect":true}}"#.to_owned() + "\n",
            )
            .await;
        }
        fake.accept().await.answer(429, "Retry-After: 3600\r\n", "<h1>Busy</h1>").await;
    };
    let client = async {
        for (least_s, most_s) in [(1, 2), (2, 4), (3600, 3601)] {
            let delay = loop {
                match patiently("an update", subscription.next()).await.unwrap() {
                    Update::Disconnected(end) => break end.retry_in,
                    Update::Connected(_) => {}
                    update => panic!("not expected: {update:?}"),
                }
            };
            let range = Duration::from_secs(least_s)..=Duration::from_secs(most_s);
            assert!(range.contains(&delay), "{delay:?} is not in {range:?}");
        }
    };
    both(server, client).await;
}

#[tokio::test]
async fn a_passing_refusal_is_waited_for_and_a_lasting_one_is_an_error() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::HttpStreaming);
    let server = async {
        let busy = r#"{"error":{"code":"busy","message":"try again"}}"#;
        fake.accept().await.answer(503, "", busy).await;
        let mut peer = fake.accept().await;
        peer.stream(NDJSON).await;
        peer.say(envelope(8..8) + "\n").await;
        drop(peer);
        let no = r#"{"error":{"code":"unauthorized","message":"present a token"}}"#;
        fake.accept().await.answer(401, "", no).await;
    };
    let client = async {
        expect(&mut subscription, &["disconnected try again (503 busy)", "connected"]).await;
        expect(&mut subscription, &["disconnected the connection was cut"]).await;
        let lasting = "error: present a token (401 unauthorized)";
        expect(&mut subscription, &[lasting, "error: the subscription has ended"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn an_invalid_answer_is_an_error() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::Sse);
    let server = async { fake.accept().await.stream("text/html").await };
    let client = async {
        let other_server = "error: the server answered with text/html instead of text/event-stream";
        expect(&mut subscription, &[other_server]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn without_an_upgrade_it_falls_back_unless_a_websocket_was_asked_for() {
    let fake = Fake::start().await;
    let mut either = fake.subscribe(None);
    let mut websocket = fake.subscribe(Transport::WebSocket);
    let server = async {
        fake.accept().await.answer(400, "", "<html>a proxy's page").await;
        let mut peer = fake.accept().await;
        assert_eq!(peer.header("accept"), NDJSON);
        peer.stream(NDJSON).await;
        peer.say(envelope(8..8) + "\n").await;
        fake.accept().await.answer(400, "", "<html>a proxy's page").await;
    };
    let client = async {
        expect(&mut either, &["connected http-streaming 9f.7"]).await;
        expect(&mut websocket, &["error: the WebSocket handshake failed (status 400"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn malformed_messages_end_only_the_connection() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::HttpStreaming);
    let server = async {
        let mut peer = fake.accept().await;
        peer.stream(NDJSON).await;
        peer.say(envelope(8..8) + "\n<html>\n").await;
        let mut peer = fake.accept().await;
        peer.stream(NDJSON).await;
        peer.say(envelope(8..9) + "\n").await;
    };
    let client = async {
        expect(
            &mut subscription,
            &["connected", "disconnected invalid message: expected value at line 1 column 1"],
        )
        .await;
        expect(&mut subscription, &["events 8", "connected"]).await;
    };
    both(server, client).await;
}

#[derive(serde::Deserialize)]
struct Vectors {
    messages: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    end: Option<EndVector>,
    json: serde_json::Value,
}

#[derive(serde::Deserialize)]
struct EndVector {
    topic: String,
    position: String,
    code: String,
    reason: String,
}

#[tokio::test]
async fn every_end_is_told_with_its_code_and_reason() {
    let vectors = include_str!("../../../../vectors/messages.json");
    let Vectors { messages } = serde_json::from_str(vectors).expect("vectors as their README says");
    let mut codes = Vec::new();
    for Vector { end, json } in messages {
        let Some(end) = end else { continue };
        let json = json.as_str().expect("a text");
        let fake = Fake::start().await;
        let subscribe =
            Subscribe { transport: Some(Transport::HttpStreaming), ..Subscribe::default() };
        let topics = vec![end.topic.parse().expect("a topic")];
        let mut subscription = fake.client().subscribe(topics, subscribe).expect("a subscription");
        let server = async {
            let mut peer = fake.accept().await;
            peer.stream(NDJSON).await;
            peer.say(format!("{json}\n")).await;
            let _ = peer.socket.readable().await;
        };
        let client = async {
            let update = patiently("the end", subscription.next()).await.expect("an update");
            let Update::Ended(told) = update else { panic!("{json} is told as {update:?}") };
            assert_eq!(
                (told.topic.as_str(), told.position.to_string()),
                (&*end.topic, end.position.clone())
            );
            assert_eq!((told.code.as_str(), told.reason.as_str()), (&*end.code, &*end.reason));
            drop(subscription);
        };
        both(server, client).await;
        codes.push(end.code);
    }
    assert_eq!(codes, EndCode::ALL.map(EndCode::name));
}

#[tokio::test]
async fn an_impatient_caller_loses_nothing() {
    let fake = Fake::start().await;
    let mut subscription = fake.subscribe(Transport::WebSocket);
    let server = async {
        let mut peer = fake.accept().await;
        peer.upgrade().await;
        peer.frame(&envelope(1..1)).await;
        for offset in 1..50 {
            peer.frame(&envelope(offset..offset + 1)).await;
            tokio::task::yield_now().await;
        }
        let _ = peer.socket.readable().await;
    };
    let client = async {
        let mut expected = 1;
        while expected < 50 {
            let update = timeout(Duration::from_micros(50), next(&mut subscription)).await;
            match update {
                Ok(update) if update.starts_with("connected") => {}
                Ok(update) => {
                    assert_eq!(update, format!("events {expected}"));
                    expected += 1;
                }
                Err(_) => {}
            }
        }
        subscription.close().await;
    };
    both(server, client).await;
}
