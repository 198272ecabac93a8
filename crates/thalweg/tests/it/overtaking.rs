//! Replies overtake data on a connection with a slow reader.

use serde_json::json;

use crate::harness::{Line, Received, Server, Socket, Subscriber, Transport};

/// The kernel buffers less than one such event for a connection that is not read.
const EVENT_BYTES: usize = 1 << 20;

#[test]
fn an_answer_overtakes_all_but_the_frame_under_way() {
    const EVENTS: u64 = 40;
    for shards in ["1", "2"] {
        let server = Server::start(&["--topic", "**,history-bytes=128MiB", "--shards", shards]);
        let narrow = Socket::connect_narrow(server.address);
        let line = Line::Http1(server.address);
        let mut socket = Subscriber::on(narrow, line, Transport::WebSocket, "/v1/topics/t", &[]);
        socket.confirmed();
        let event = format!("\"{}\"", "x".repeat(EVENT_BYTES - 2));
        for _ in 0..EVENTS {
            server.post("t", "application/json", &event).published();
        }
        let mut seen = 0;
        for id in 0..10 {
            socket.say(&format!(r#"{{"command":"echo","id":{id},"data":1}}"#));
            socket.say(&format!(r#"{{"command":"publish","topic":"received/{id}","event":1}}"#));
            // The client reads nothing before the server has taken the commands.
            let target = format!("/received/{id}?cursor=earliest");
            let mut received = server.subscribe(Transport::Sse, &target);
            received.confirmed();
            received.numbers(1);
            let mut overtaken = 0;
            let mut answers = Vec::new();
            while answers.len() < 2 {
                match socket.next() {
                    Received::Envelope(envelope) => {
                        overtaken += 1;
                        seen += 1;
                        assert_eq!(envelope.first, seen);
                    }
                    Received::Answer(answer) => answers.push(answer["answer"].get("id").cloned()),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(answers, [Some(json!(id)), None]);
            assert!(overtaken <= 1, "{overtaken} frames came before the answers");
        }
        assert!(seen < EVENTS, "there was something to overtake at the end");
        while seen < EVENTS {
            seen += 1;
            assert_eq!(socket.envelope().first, seen);
        }
    }
}
