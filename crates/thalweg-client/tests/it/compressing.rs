//! Tests responses that are compressed with gzip.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use thalweg_client::{Subscribe, Subscription, Transport};

use crate::fake::{Fake, Peer, both, envelope, expect};

const NDJSON: &str = "application/x-ndjson";

/// Larger than a message may be, and a hundredth of it when compressed.
const BOMB_BYTES: usize = 80 << 20;

fn subscribe(fake: &Fake, transport: Option<Transport>) -> Subscription {
    let subscribe = Subscribe { transport, compress: true, ..Subscribe::default() };
    fake.client()
        .subscribe(vec!["cars".parse().expect("a topic")], subscribe)
        .expect("a subscription")
}

async fn begin(peer: &mut Peer, content_type: &str) -> GzEncoder<Vec<u8>> {
    assert_eq!(peer.header("accept-encoding"), "gzip");
    peer.stream(&format!("{content_type}\r\nContent-Encoding: gzip")).await;
    GzEncoder::new(Vec::new(), Compression::fast())
}

fn flushed(encoder: &mut GzEncoder<Vec<u8>>, text: &str) -> Vec<u8> {
    encoder.write_all(text.as_bytes()).expect("a Vec takes it");
    encoder.flush().expect("a Vec takes it");
    std::mem::take(encoder.get_mut())
}

#[tokio::test]
async fn a_compressed_response_is_inflated_message_by_message() {
    for (transport, name) in [(None, "http-streaming"), (Some(Transport::Sse), "sse")] {
        let fake = Fake::start().await;
        let mut subscription = subscribe(&fake, transport);
        let message = |text: String| match transport {
            Some(_) => format!("data:{text}\n\n"),
            None => text + "\n",
        };
        let client = async {
            expect(&mut subscription, &[&format!("connected {name} 9f.7")]).await;
            expect(&mut subscription, &["events 8 9", "events 10"]).await;
            expect(&mut subscription, &["disconnected the answer is not valid gzip"]).await;
        };
        let server = async {
            let mut peer = fake.accept().await;
            let content_type = if transport.is_some() { "text/event-stream" } else { NDJSON };
            let mut encoder = begin(&mut peer, content_type).await;
            for offsets in [8..8, 8..10, 10..11] {
                let bytes = flushed(&mut encoder, &message(envelope(offsets)));
                let (first, rest) = bytes.split_at(bytes.len() / 2);
                peer.say(first).await;
                peer.say(rest).await;
            }
            peer.say([0xff; 9]).await;
            let _ = peer.socket.readable().await;
        };
        both(server, client).await;
    }
}

#[tokio::test]
async fn a_compressed_stream_that_is_cut_resumes_after_the_last_whole_message() {
    let fake = Fake::start().await;
    let mut subscription = subscribe(&fake, None);
    let server = async {
        let mut peer = fake.accept().await;
        let mut encoder = begin(&mut peer, NDJSON).await;
        let whole = envelope(8..8) + "\n" + &envelope(8..10) + "\n";
        peer.say(flushed(&mut encoder, &whole)).await;
        let cut = flushed(&mut encoder, &(envelope(10..12) + "\n"));
        peer.say(&cut[..cut.len() / 2]).await;
        drop(peer);
        // The next response is another gzip stream.
        let mut peer = fake.accept().await;
        assert!(peer.asked().contains("?cursor=9f.9&"), "{}", peer.asked());
        let mut encoder = begin(&mut peer, NDJSON).await;
        let again = envelope(10..10) + "\n" + &envelope(8..12) + "\n";
        peer.say(flushed(&mut encoder, &again)).await;
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
async fn a_compressed_refusal_keeps_the_servers_sentence() {
    let fake = Fake::start().await;
    let mut subscription = subscribe(&fake, None);
    let server = async {
        let mut peer = fake.accept().await;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let refusal = br#"{"error":{"code":"no_such_topic","message":"no topic cars"}}"#;
        encoder.write_all(refusal).expect("a Vec takes it");
        let body = encoder.finish().expect("a Vec takes it");
        let head = "HTTP/1.1 404 X\r\nContent-Encoding: gzip\r\nContent-Length:";
        peer.say(format!("{head} {}\r\n\r\n", body.len())).await;
        peer.say(body).await;
    };
    let client = async {
        expect(&mut subscription, &["error: no topic cars (404 no_such_topic)"]).await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn a_bomb_ends_the_connection_with_the_reason() {
    let fake = Fake::start().await;
    let mut subscription = subscribe(&fake, Some(Transport::HttpStreaming));
    let server = async {
        let mut peer = fake.accept().await;
        let mut encoder = begin(&mut peer, NDJSON).await;
        peer.say(flushed(&mut encoder, &(envelope(8..8) + "\n"))).await;
        let bomb = flushed(&mut encoder, &" ".repeat(BOMB_BYTES));
        assert!(bomb.len() < BOMB_BYTES / 50, "{} bytes", bomb.len());
        // The client leaves before the end.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut peer.socket, &bomb).await;
    };
    let client = async {
        expect(&mut subscription, &["connected", "disconnected a message is larger than 64 MiB"])
            .await;
    };
    both(server, client).await;
}

#[tokio::test]
async fn a_server_may_decline_compression_but_not_choose_another() {
    let fake = Fake::start().await;
    let mut subscription = subscribe(&fake, None);
    let server = async {
        let mut peer = fake.accept().await;
        peer.stream(NDJSON).await;
        peer.say(envelope(8..8) + "\n" + &envelope(8..9) + "\n").await;
        drop(peer);
        let mut peer = fake.accept().await;
        peer.stream(&format!("{NDJSON}\r\nContent-Encoding: br")).await;
        let _ = peer.socket.readable().await;
    };
    let client = async {
        expect(&mut subscription, &["connected", "events 8", "disconnected"]).await;
        expect(&mut subscription, &["error: the server answered with Content-Encoding: br"]).await;
        drop(subscription);
    };
    both(server, client).await;
}
