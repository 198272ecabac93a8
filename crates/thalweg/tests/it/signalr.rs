//! Hubs for SignalR: the official client, unmodified, over each transport; and clients that misbehave.

mod client;
mod hostile;
mod silence;

use serde_json::{Value, json};
use thalweg_testing::ReservedPort;

use self::client::HubClient;
use crate::{
    durable::Directory,
    harness::{Proxy, Server, Transport, wait_for},
};

/// A server with a hub. Its shards differ from those of most requests of a client.
const HUB: [&str; 4] = ["--set", "signalr.paths=[\"/hub\"]", "--shards", "2"];

const TRANSPORTS: [&str; 3] = ["WebSockets", "ServerSentEvents", "LongPolling"];

/// The client's words for a close message, before the reason.
const CLOSED: &str = "Server returned an error on close: ";

fn over_each(test: impl Fn(&str)) {
    for transport in TRANSPORTS {
        eprintln!("over {transport}");
        test(transport);
    }
}

fn assert_refused(error: &Value, reason: &str) {
    assert!(error.as_str().is_some_and(|error| error.contains(reason)), "{reason:?}: {error}");
}

/// Returns the events of messages with events, in order, until `last` has come.
fn events_until(client: &mut HubClient, last: &Value) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    while events.last() != Some(last) {
        let message = client.next("item");
        let more = message["events"].as_array().unwrap_or_else(|| panic!("no events: {message}"));
        events.extend_from_slice(more);
    }
    events
}

#[test]
fn a_client_streams_and_publishes() {
    let server = Server::start(&HUB);
    over_each(|transport| {
        let topic = format!("cars/{transport}");
        let mut client = HubClient::start(&server.address.to_string(), transport, None);
        client.say(&json!(["stream", "Subscribe", topic, "latest"]));
        let confirmed = client.next("item");
        assert_eq!((&confirmed["topic"], &confirmed["events"]), (&json!(topic), &json!([])));
        client.say(&json!(["invoke", "Publish", topic, { "n": 1 }, "two", [3, "ü\u{2028}"]]));
        let result = client.next("result");
        assert_eq!((&result["topic"], &result["count"]), (&json!(topic), &json!(3)));
        let message = client.next("item");
        assert_eq!(message["events"], json!([{ "n": 1 }, "two", [3, "ü\u{2028}"]]));
        assert_eq!(message["position"], result["position"]);
        client.say(&json!(["send", "Publish", topic, 4]));
        client.say(&json!(["invoke", "Unsubscribe", "other"]));
        assert_refused(&client.next("error"), "not_subscribed: this connection is not subscribed");
        assert_eq!(client.next("item")["events"], json!([4]));
        client.say(&json!(["invoke", "Unsubscribe", topic]));
        assert_eq!(client.next("complete"), Value::Null);
        assert_eq!(client.next("result"), Value::Null);
        client.stop();
    });
    server.await_connections(0);
}

#[test]
fn an_ack_opens_the_window_of_a_subscription() {
    let server = Server::start(&HUB);
    over_each(|transport| {
        let [narrow, wide] = ["narrow", "wide"].map(|name| format!("{name}/{transport}"));
        let mut client = HubClient::start(&server.address.to_string(), transport, None);
        client.say(&json!(["stream", "Subscribe", narrow, "latest", { "window": "1KiB" }]));
        client.next("item");
        client.say(&json!(["stream", "Subscribe", wide, "latest"]));
        client.next("item");
        // The window has room for one of these.
        let [first, second] = ["1", "2"].map(|text| text.repeat(700));
        for (topic, event) in [(&narrow, json!(first)), (&narrow, json!(second)), (&wide, json!(3))]
        {
            client.say(&json!(["invoke", "Publish", topic, event]));
            client.next("result");
        }
        let message = client.next("item");
        assert_eq!(message["events"], json!([first]));
        assert_eq!(client.next("item")["events"], json!([3]), "the window is full");
        client.say(&json!(["invoke", "Ack", narrow, message["position"]]));
        assert_eq!(client.next("result"), Value::Null);
        assert_eq!(client.next("item")["events"], json!([second]));
        client.stop();
    });
}

#[test]
fn events_of_an_invoked_subscription_are_invocations_of_the_client() {
    let server = Server::start(&HUB);
    over_each(|transport| {
        let topic = format!("cars/{transport}");
        let mut client = HubClient::start(&server.address.to_string(), transport, None);
        client.say(&json!(["invoke", "Subscribe", topic]));
        assert_eq!(client.next("result"), Value::Null);
        assert_eq!(client.next("Events")["events"], json!([]));
        server.publish(&topic, 0..3);
        let mut events = Vec::new();
        while events.len() < 3 {
            events.extend(client.next("Events")["events"].as_array().expect("events").clone());
        }
        assert_eq!(events, [0, 1, 2]);
        assert_eq!(server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "").status, 204);
        assert_eq!(client.next("End")["end"]["code"], "deleted");
        client.stop();
    });
}

#[test]
fn a_stream_ends_with_its_topic_or_by_its_client() {
    let server = Server::start(&HUB);
    over_each(|transport| {
        let topic = format!("cars/{transport}");
        let mut client = HubClient::start(&server.address.to_string(), transport, None);
        server.publish(&topic, 0..2);
        client.say(&json!(["stream", "Subscribe", topic, "earliest"]));
        assert_eq!(client.next("item")["events"], json!([]));
        assert_eq!(events_until(&mut client, &json!(1)), [0, 1]);
        assert_eq!(server.ask("DELETE", &format!("/v1/topics/{topic}"), &[], "").status, 204);
        assert_eq!(client.next("item")["end"]["code"], "deleted");
        assert_eq!(client.next("complete"), Value::Null);
        client.say(&json!(["stream", "Subscribe", topic, "latest"]));
        client.next("item");
        client.say(&json!(["stream", "Subscribe", topic, "latest"]));
        assert_refused(&client.next("error"), "already_subscribed: ");
        client.say(&json!(["cancel", topic]));
        // The client drops what comes after its cancellation. Only the server knows that the topic is free again.
        client.say(&json!(["invoke", "Unsubscribe", topic]));
        assert_refused(&client.next("error"), "not_subscribed: ");
        client.stop();
    });
}

#[test]
fn many_streams_of_one_client_are_told_apart() {
    let server = Server::start(&HUB);
    over_each(|transport| {
        let mut client = HubClient::start(&server.address.to_string(), transport, None);
        // Streams from the sixteenth on do not share their frames.
        let topics: Vec<String> = (0..20).map(|n| format!("{transport}/{n}")).collect();
        for topic in &topics {
            client.say(&json!(["stream", "Subscribe", topic, "latest"]));
            assert_eq!(client.next("item")["topic"], **topic);
        }
        for (n, topic) in (0..).zip(&topics) {
            server.publish(topic, n..n + 1);
            let message = client.next("item");
            assert_eq!((&message["topic"], &message["events"]), (&json!(topic), &json!([n])));
        }
        client.stop();
    });
}

#[test]
fn a_cut_connection_resumes_at_its_cursor_without_loss() {
    let server = Server::start(&HUB);
    over_each(|transport| {
        let proxy = Proxy::start(server.address);
        let topic = format!("cars/{transport}");
        let mut client = HubClient::start(&proxy.address.to_string(), transport, None);
        client.say(&json!(["follow", topic, "latest"]));
        client.next("item");
        let mut received = Vec::new();
        for round in 0..3 {
            server.publish(&topic, round * 100..round * 100 + 50);
            received.extend(events_until(&mut client, &json!(round * 100 + 49)));
            proxy.cut();
            server.publish(&topic, round * 100 + 50..round * 100 + 100);
            client.next("reconnecting");
            client.next("reconnected");
            received.extend(events_until(&mut client, &json!(round * 100 + 99)));
        }
        assert_eq!(received, (0..300).map(Value::from).collect::<Vec<_>>());
        client.stop();
    });
}

#[test]
fn a_killed_server_is_found_again_and_the_loss_is_announced() {
    over_each(|transport| {
        let port = ReservedPort::new();
        let address = format!("127.0.0.1:{}", port.number());
        let arguments = [&HUB[..], &["--listen", &address]].concat();
        let server = Server::start(&arguments);
        let mut client = HubClient::start(&address, transport, None);
        client.say(&json!(["follow", "cars", "latest"]));
        client.next("item");
        server.publish("cars", 0..5);
        assert_eq!(events_until(&mut client, &json!(4)).len(), 5);
        server.kill();
        let error = client.next("reconnecting");
        assert!(!error.as_str().unwrap().contains(CLOSED), "nothing was said: {error}");
        let server = Server::start(&arguments);
        server.publish("cars", 5..7);
        client.next("reconnected");
        let gap = client.next("item");
        assert_eq!(gap["gap"], json!({ "missed": null, "reason": "epoch" }), "{gap}");
        assert_eq!(events_until(&mut client, &json!(6)), [5, 6]);
        client.stop();
    });
}

#[test]
fn a_server_killed_while_events_are_in_flight_loses_and_repeats_none() {
    // More than the buffers of sockets hold while a client reads nothing.
    const BATCHES: u64 = 160;
    const BATCH: u64 = 10;
    let count = BATCHES * BATCH;
    let padding = "x".repeat(10_000);
    over_each(|transport| {
        for way in ["follow", "read"] {
            eprintln!("with {way}");
            let directory = Directory::new();
            let port = ReservedPort::new();
            let address = format!("127.0.0.1:{}", port.number());
            let arguments = [&HUB[..], &["--listen", &address]].concat();
            let server = directory.start(&arguments);
            let mut client = HubClient::start(&address, transport, None);
            client.say(&json!([way, "cars"]));
            client.next("item");
            client.program.pause();
            for batch in 0..BATCHES {
                let events = (0..BATCH).map(|n| format!("[{},\"{padding}\"]\n", batch * BATCH + n));
                let body: String = events.collect();
                let ndjson = [("Content-Type", "application/x-ndjson")];
                assert_eq!(server.ask("POST", "/v1/topics/cars", &ndjson, body).status, 200);
            }
            server.kill();
            client.program.resume();
            client.next("reconnecting");
            if way == "read" {
                client.next("broken");
            }
            let mut received = numbers_of(&client.take("item"));
            assert!(received.len() < count as usize, "none was in flight");
            let _server = directory.start(&arguments);
            client.next("reconnected");
            while received.last() != Some(&(count - 1)) {
                received.extend(numbers_of(&[client.next("item")]));
            }
            assert_eq!(received, (0..count).collect::<Vec<_>>());
            client.stop();
        }
    });
}

/// Returns the first element of each event of these messages, which are no gaps.
fn numbers_of(messages: &[Value]) -> Vec<u64> {
    let events = messages.iter().flat_map(|message| {
        message["events"].as_array().unwrap_or_else(|| panic!("no events: {message}"))
    });
    events.map(|event| event[0].as_u64().expect("a number")).collect()
}

#[test]
fn a_draining_server_tells_its_clients_to_reconnect() {
    over_each(|transport| {
        let port = ReservedPort::new();
        let address = format!("127.0.0.1:{}", port.number());
        let arguments = [&HUB[..], &["--listen", &address]].concat();
        let mut server = Server::start(&arguments);
        let mut client = HubClient::start(&address, transport, None);
        client.say(&json!(["follow", "cars", "latest"]));
        client.next("item");
        server.terminate();
        let why = client.next("reconnecting");
        // A client between two polls finds that the server accepts no connections. `hostile` tests that a
        // waiting poll gets the close message.
        let is_between_polls = transport == "LongPolling" && why == "fetch failed";
        assert!(is_between_polls || why == json!(format!("{CLOSED}draining")), "{why}");
        assert_eq!(server.exit().code(), Some(0));
        let _server = Server::start(&arguments);
        client.next("reconnected");
        assert_eq!(client.next("item")["gap"]["reason"], "epoch");
        client.stop();
    });
}

#[test]
fn rights_are_those_of_the_token() {
    const TOKEN: &str = "subscribe-secret-1234567890";
    let named = format!("subscriber={TOKEN},subscribe=cars/**");
    let tokens = ["--token", "everybody,subscribe=public/**", "--token", &named];
    let server = Server::start(&[&HUB[..], &tokens, &["--log", "debug"]].concat());
    let address = server.address.to_string();
    over_each(|transport| {
        let mut nobody = HubClient::start(&address, transport, None);
        nobody.say(&json!(["stream", "Subscribe", "cars/1"]));
        assert_refused(&nobody.next("error"), "unauthorized: subscribing to cars/1");
        nobody.say(&json!(["stream", "Subscribe", "public/1"]));
        nobody.next("item");
        nobody.stop();
        let mut subscriber = HubClient::start(&address, transport, Some(TOKEN));
        subscriber.say(&json!(["stream", "Subscribe", "cars/1"]));
        subscriber.next("item");
        subscriber.say(&json!(["invoke", "Publish", "cars/1", 1]));
        assert_refused(&subscriber.next("error"), "forbidden: publishing to cars/1");
        subscriber.stop();
    });
    let mut unauthorized = HubClient::new(&address, "WebSockets", Some("wrong-secret-1234567890"));
    unauthorized.say(&json!(["start"]));
    assert!(unauthorized.next("failed").as_str().unwrap().contains("401"));
    // Over Server-Sent Events this client puts its token into the URL; in a browser, also over WebSockets.
    let target = "/hub?access_token=wrong-secret-1234567890";
    let upgrade = Transport::WebSocket.headers();
    server.ask("GET", target, &upgrade, "").refused(401, "unauthorized");
    let version = ("sec-websocket-version", "13");
    let client = server.http2();
    let tunnelled = client.tunnel("websocket", target, &[version]).response();
    tunnelled.refused(401, "unauthorized");
    let log = wait_for("a line about each of these requests", || {
        let log = server.log();
        let is_of_request =
            |line: &&str| line.contains("unauthorized") && line.contains("what=\"/hub\"");
        (log.lines().filter(is_of_request).count() == 2).then_some(log)
    });
    // The HTTP/2 library logs each frame.
    assert!(log.contains("forbidden") && log.contains("DEBUG"), "{log}");
    assert!(!log.contains("secret-1234567890") && !log.contains("access_token"), "{log}");
}

#[test]
fn the_documented_helper_is_that_of_the_tests() {
    let documented = include_str!("../../../../docs/how-to/signalr.md");
    let helper = include_str!("../../../../examples/node/signalr-cursor.js");
    assert!(documented.contains(&format!("```js\n{helper}```")));
}
