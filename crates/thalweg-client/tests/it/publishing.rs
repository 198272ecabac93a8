//! Tests publishing and reading.

use bytes::Bytes;
use thalweg_client::{Error, StartAt};

use crate::fake::{Fake, both, refused};

const PUBLISHED: &str = r#"{"topic":"cars","position":"9f.7","first":7,"count":1}"#;

#[tokio::test]
async fn a_publish_is_repeated_with_its_key_until_it_is_answered() {
    let fake = Fake::start().await;
    let client = fake.client();
    let server = async {
        let mut peer = fake.accept().await;
        let key = peer.header("idempotency-key").to_owned();
        assert_eq!(peer.read_body().await, "{\"speed\":39}");
        drop(peer);
        let again = async |status: u16, headers: &str, body: &str| {
            let mut peer = fake.accept().await;
            assert_eq!(peer.header("idempotency-key"), key);
            assert_eq!(peer.read_body().await, "{\"speed\":39}");
            peer.answer(status, headers, body).await;
        };
        again(503, "Connection: close\r\n", "").await;
        again(429, "Connection: close\r\n", "").await;
        again(200, "Idempotency-Replayed: true\r\nConnection: close\r\n", PUBLISHED).await;
        let mut peer = fake.accept().await;
        assert_ne!(peer.header("idempotency-key"), key, "another event, another key");
        peer.read_body().await;
        peer.answer(200, "", PUBLISHED).await;
    };
    let publisher = async {
        let topic = "cars".parse().unwrap();
        let mut retries = Vec::new();
        let retry = |error: &Error, _| retries.push(error.to_string());
        let published = client.publish_notify(&topic, "{\"speed\":39}", retry).await.unwrap();
        assert_eq!((published.position.as_str(), published.is_replayed), ("9f.7", true));
        assert_eq!(retries.len(), 3, "{retries:?}");
        assert!(!client.publish(&topic, "1").await.unwrap().is_replayed);
    };
    both(server, publisher).await;
}

#[tokio::test]
async fn a_kept_connection_that_has_ended_is_no_failure() {
    let fake = Fake::start().await;
    let client = fake.client();
    let server = async {
        let mut peer = fake.accept().await;
        peer.read_body().await;
        peer.answer(200, "", PUBLISHED).await;
        // The connection ends when the next request is already on its way.
        peer.read_head().await;
        drop(peer);
        let mut peer = fake.accept().await;
        peer.read_body().await;
        peer.answer(200, "", PUBLISHED).await;
    };
    let publisher = async {
        let topic = "cars".parse().unwrap();
        for _ in 0..2 {
            let no_retry = |error: &Error, _| panic!("{error}");
            client.publish_notify(&topic, "1", no_retry).await.unwrap();
        }
    };
    both(server, publisher).await;
}

#[tokio::test]
async fn a_lasting_refusal_is_not_repeated() {
    let fake = Fake::start().await;
    let client = fake.client();
    let server = async {
        let mut peer = fake.accept().await;
        peer.read_body().await;
        peer.answer(400, "", r#"{"error":{"code":"bad_event","message":"not JSON"}}"#).await;
    };
    let publisher = async {
        let error = client.publish(&"cars".parse().unwrap(), "{").await.unwrap_err();
        assert_eq!(refused(&error), 400);
        assert_eq!(error.to_string(), "not JSON (400 bad_event)");
    };
    both(server, publisher).await;
}

#[tokio::test]
async fn refused_lines_say_what_was_published_before() {
    let fake = Fake::start().await;
    let client = fake.client();
    let (sender, lines) = tokio::sync::mpsc::channel(1);
    let server = async {
        let mut peer = fake.accept().await;
        assert_eq!(peer.header("content-type"), "application/x-ndjson");
        let refusal = format!(
            r#"{{"error":{{"code":"bad_event","message":"line 2: not JSON"}},"published":{PUBLISHED}}}"#
        );
        peer.answer(400, "Connection: close\r\n", &refusal).await;
        let _ = peer.socket.readable().await;
    };
    let publisher = async {
        sender.send(Bytes::from("1\n{\n")).await.unwrap();
        let error = client.publish_lines(&"cars".parse().unwrap(), lines).await.unwrap_err();
        let Error::Refused(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.published.map(|published| published.count), Some(1));
        drop(sender);
    };
    both(server, publisher).await;
}

#[tokio::test]
async fn history_and_topics_are_read_page_by_page() {
    let fake = Fake::start().await;
    let client = fake.client();
    let server = async {
        let mut peer = fake.accept().await;
        assert!(peer.asked().starts_with("GET /v1/topics/cars?limit=2&cursor=earliest "));
        let history = r#"{"topic":"cars","position":"9f.2","first":1,"events":[{"a": 1},2],"head":"9f.9","gap":{"missed":4,"reason":"trimmed"}}"#;
        peer.answer(200, "", history).await;
        peer.read_head().await;
        let row = |n: u32| {
            format!(r#"{{"topic":"t{n:04}","position":"1.0","events":0,"subscribers":0}}"#)
        };
        let rows: Vec<String> = (0..1000).map(row).collect();
        peer.answer(200, "", &format!(r#"{{"topics":[{}]}}"#, rows.join(","))).await;
        peer.read_head().await;
        assert!(peer.asked().contains("&after=t0999 "), "{}", peer.asked());
        peer.answer(200, "", &format!(r#"{{"topics":[{}]}}"#, row(1000))).await;
        peer.read_head().await;
        peer.answer(200, "", "<html>").await;
    };
    let reader = async {
        let read = client.read(&"cars".parse().unwrap(), StartAt::Earliest, 2).await.unwrap();
        assert_eq!((read.events[0].get(), read.head.as_str()), ("{\"a\": 1}", "9f.9"));
        assert_eq!(read.gap.and_then(|gap| gap.missed), Some(4));
        assert_eq!(client.topics().await.unwrap().len(), 1001);
        assert!(matches!(client.topics().await, Err(Error::InvalidAnswer(_))));
    };
    both(server, reader).await;
}
