//! Requests of a Rust program other than subscriptions, with `thalweg-client` and the real server.

use serde_json::value::RawValue;
use thalweg_client::{Client, Error, Http, Options, StartAt, Topic};

use crate::harness::{Server, offset};

fn asking<T>(server: &Server, http: Http, ask: impl AsyncFnOnce(Client) -> T) -> T {
    let options = Options { http, ..Options::default() };
    let client = Client::new(&format!("http://{}", server.address), options).expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(ask(client))
}

fn topic(name: &str) -> Topic {
    name.parse().expect("a topic")
}

#[test]
fn a_history_is_read_on_until_its_head() {
    for http in [Http::Http1, Http::Http2] {
        let server = Server::start(&["--shards", "2"]);
        let published = server.publish("numbers", 0..25);
        let numbers = asking(&server, http, async |client| {
            let mut numbers = Vec::new();
            let mut from = StartAt::Earliest;
            loop {
                let read = client.read(&topic("numbers"), from, 10).await.expect("a page");
                assert_eq!((read.topic.as_str(), read.gap), ("numbers", None));
                assert_eq!(read.first, numbers.len() as u64 + 1);
                numbers.extend(read.events.iter().map(|event| event.get().to_owned()));
                if read.position == read.head {
                    assert_eq!(read.head, published.position);
                    return numbers;
                }
                from = StartAt::After(read.position.parse().expect("a position"));
            }
        });
        assert_eq!(numbers, (0..25).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}

#[test]
fn topics_are_listed_beyond_one_page() {
    const TOPICS: u64 = 1_200;
    let server = Server::start(&["--shards", "2"]);
    for number in 0..TOPICS {
        server.publish(&format!("t/{number:04}"), 0..2);
    }
    let topics = asking(&server, Http::Http2, async |client| client.topics().await);
    let topics = topics.expect("the topics");
    assert_eq!(topics.len() as u64, TOPICS);
    for (number, listed) in (0..).zip(&topics) {
        assert_eq!(listed.topic, format!("t/{number:04}"));
        assert_eq!(
            (
                listed.events,
                listed.subscribers,
                offset(listed.position.as_deref().expect("a position"))
            ),
            (2, 0, 2)
        );
    }
}

#[test]
fn commands_are_answered_and_their_refusals_are_errors() {
    for http in [Http::Http1, Http::Http2] {
        let server = Server::start(&[]);
        asking(&server, http, async |client| {
            let data = RawValue::from_string(r#"{"a":[1,"ü",null]}"#.into()).expect("JSON");
            let echoed = client.echo(&data).await.expect("an echo");
            assert_eq!(echoed.get(), data.get());
            let publish = r#"{"command":"publish","id":7,"topic":"t","events":[1,2]}"#;
            let answer = client.command(publish).await.expect("an answer");
            let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
            assert_eq!(
                (&answer["answer"]["id"], &answer["answer"]["count"]),
                (&7.into(), &2.into())
            );
            let refused = client.command(r#"{"command":"sing"}"#).await.expect_err("a refusal");
            assert!(
                matches!(&refused, Error::Refused(refusal) if refusal.code.as_deref() == Some("bad_command"))
            );
            assert!(refused.to_string().contains("sing"), "{refused}");
            let nothing = client.read(&topic("nothing"), StartAt::Latest, 1).await;
            let nothing = nothing.expect_err("a refusal");
            assert!(
                matches!(&nothing, Error::Refused(refusal) if refusal.code.as_deref() == Some("no_such_topic"))
            );
        });
    }
}
