//! Events that arrive together share a batch and its sends, whichever way they arrive.

use crate::harness::{
    Frame, H2, Raw, Server, Subscriber, Transport, chunk, flag, frame, hpack, kind, opcode, request,
};

const SUBSCRIBERS: usize = 100;
const EVENTS: u64 = 64;

const TOPIC: &str = "/v1/topics/t";
const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");

/// Starts a server without heartbeats and timeouts, and subscribers to a topic.
fn subscribed(arguments: &[&str], topic: &str) -> (Server, Vec<Subscriber>) {
    let server =
        Server::start(&[&["--heartbeat", "10m", "--header-timeout", "10m"], arguments].concat());
    let subscribers = subscribe(&server, topic);
    (server, subscribers)
}

fn subscribe(server: &Server, topic: &str) -> Vec<Subscriber> {
    let subscribe = |_| server.subscribe(Transport::HttpStreaming, &format!("/{topic}"));
    let mut subscribers: Vec<_> = (0..SUBSCRIBERS).map(subscribe).collect();
    for subscriber in &mut subscribers {
        subscriber.confirmed();
    }
    subscribers
}

/// Publishes `events` numbers through what each connection sends. All of it is sent before the server reads.
/// The events make at most `batches_max` batches, and one send for each subscriber and batch.
fn published_at_once(
    (server, subscribers): &mut (Server, Vec<Subscriber>),
    mut connections: Vec<Raw>,
    sent: impl Fn(u64) -> Vec<u8>,
    events: u64,
    batches_max: u64,
) {
    let counted = || {
        ["batches_sealed", "sends"]
            .map(|name| server.metric(&format!("thalweg_{name}_total")) as u64)
    };
    let before = counted();
    server.while_stopped(|| {
        for (connection, index) in connections.iter_mut().zip(0..) {
            assert!(connection.send(sent(index)), "the server takes what is sent");
        }
        connections.iter().for_each(Raw::await_arrival);
    });
    for subscriber in subscribers {
        let (mut numbers, _) = subscriber.numbers(events as usize);
        // The order across connections is not defined.
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..events));
    }
    let after = counted();
    let [batches, sends] = [after[0] - before[0], after[1] - before[1]];
    assert!(batches <= batches_max, "{events} events were {batches} batches");
    // Publishers over WebSocket get replies.
    let sends_max = batches * (SUBSCRIBERS + connections.len()) as u64;
    assert!(sends <= sends_max, "{events} events were {batches} batches and {sends} sends");
}

fn raw(server: &Server) -> Vec<Raw> {
    vec![Raw::connect(server.address)]
}

fn posted(number: u64) -> Vec<u8> {
    request("POST", TOPIC, &[], number.to_string().as_bytes())
}

fn chunks(topic: &str) -> Vec<u8> {
    let head = format!(
        "POST /v1/topics/{topic} HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let chunks = (0..EVENTS).map(|number| chunk(&format!("{number}\n")));
    chunks.fold(head, |body, chunk| body + &chunk).into_bytes()
}

#[test]
fn lines_in_a_chunk_each() {
    let mut there = subscribed(&[], "t");
    let connection = raw(&there.0);
    published_at_once(&mut there, connection, |_| chunks("t"), EVENTS, 2);
}

/// A publisher that sends a chunk after each reply shares batches, too.
#[test]
fn lines_in_a_chunk_each_for_another_shard() {
    let topics = ["a", "b", "c", "d", "e", "f"];
    let mut there = subscribed(&["--shards", "2"], topics[0]);
    for topic in topics {
        if topic != topics[0] {
            there.1 = subscribe(&there.0, topic);
        }
        let connection = raw(&there.0);
        published_at_once(&mut there, connection, |_| chunks(topic), EVENTS, 4);
    }
}

#[test]
fn lines_in_a_data_frame_each() {
    let mut there = subscribed(&[], "t");
    let mut connection = H2::start(Raw::connect(there.0.address), &[]);
    connection.until_kind(kind::SETTINGS).expect("the server's settings");
    let sent = |_| {
        let head = [H2::head("POST", TOPIC), hpack(&[("content-type", NDJSON.1)])].concat();
        let data =
            (0..EVENTS).map(|number| frame(kind::DATA, flag::NONE, 1, format!("{number}\n")));
        let head = frame(kind::HEADERS, flag::END_HEADERS, 1, head);
        data.fold(head, |sent, data| [sent, data].concat())
    };
    published_at_once(&mut there, vec![connection.raw], sent, EVENTS, 4);
}

#[test]
fn a_request_each_on_streams() {
    let mut there = subscribed(&[], "t");
    let mut connection = H2::start(Raw::connect(there.0.address), &[]);
    connection.until_kind(kind::SETTINGS).expect("the server's settings");
    let sent = |_| {
        let streams = (0..EVENTS as u32).flat_map(|number| {
            let (stream, head) = (2 * number + 1, H2::head("POST", TOPIC));
            let head = frame(kind::HEADERS, flag::END_HEADERS, stream, head);
            [head, frame(kind::DATA, flag::END_STREAM, stream, number.to_string())]
        });
        streams.collect::<Vec<_>>().concat()
    };
    published_at_once(&mut there, vec![connection.raw], sent, EVENTS, 4);
}

#[test]
fn pipelined_requests() {
    // hyper answers sixteen requests before it yields.
    const REQUESTS: u64 = 256;
    let mut there = subscribed(&[], "t");
    let connection = raw(&there.0);
    let sent = |_| (0..REQUESTS).flat_map(posted).collect();
    published_at_once(&mut there, connection, sent, REQUESTS, REQUESTS / 16 / 2);
}

#[test]
fn requests_on_a_connection_each() {
    let mut there = subscribed(&[], "t");
    let connections = (0..EVENTS).flat_map(|_| raw(&there.0)).collect();
    published_at_once(&mut there, connections, posted, EVENTS, 4);
}

fn command(number: u64) -> Vec<u8> {
    let command = format!(r#"{{"command":"publish","topic":"t","events":[{number}]}}"#);
    Frame::new(opcode::TEXT, &command).bytes()
}

fn commanding(server: &Server) -> Raw {
    let mut connection = Raw::connect(server.address);
    let headers = Transport::WebSocket.headers();
    connection.ask("GET", "/v1/topics/another", &headers, "");
    connection.until(br#""events":[]"#, "the confirmation").expect("a subscription");
    connection
}

#[test]
fn commands_on_a_connection() {
    let mut there = subscribed(&[], "t");
    let connection = vec![commanding(&there.0)];
    let sent = |_| (0..EVENTS).flat_map(command).collect();
    published_at_once(&mut there, connection, sent, EVENTS, 8);
}

#[test]
fn commands_on_a_connection_each() {
    let mut there = subscribed(&[], "t");
    let connections = (0..EVENTS).map(|_| commanding(&there.0)).collect();
    published_at_once(&mut there, connections, command, EVENTS, 8);
}
