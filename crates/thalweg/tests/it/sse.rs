//! Server-Sent Events as an EventSource reads them: it keeps the last id, and reconnects with it (WHATWG HTML §9.2).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::harness::{Received, Response, Server, Socket, Transport, at, offset, request};

#[derive(Debug)]
struct EventSource<'a> {
    server: &'a Server,
    target: &'a str,
    last_id: Option<String>,
    /// Bytes of ids, and of data.
    id_bytes: usize,
    data_bytes: usize,
}

impl<'a> EventSource<'a> {
    fn new(server: &'a Server, target: &'a str) -> Self {
        Self { server, target, last_id: None, id_bytes: 0, data_bytes: 0 }
    }

    /// Opens a connection. Returns its head.
    fn connect(&self) -> (Response, Socket) {
        let mut socket = self.server.connect();
        let mut headers = Transport::Sse.headers();
        headers.extend(self.last_id.as_deref().map(|id| ("Last-Event-ID", id)));
        socket.send(request("GET", self.target, &headers, b""));
        (socket.response_head(), socket)
    }

    /// Returns the data of the next event of type message. The id counts as soon as an event is complete, of any type.
    fn message(&mut self, socket: &mut Socket) -> Value {
        loop {
            let (kind, data) = self.event(socket);
            if kind == "message" {
                return data;
            }
        }
    }

    /// Returns the next event of any type. Each block must be an event: some clients dispatch a block without
    /// data as an empty event, and fail to parse it.
    fn event(&mut self, socket: &mut Socket) -> (String, Value) {
        let block = socket.until(b"\n\n", "an event").expect("an event");
        let block = String::from_utf8(block).expect("UTF-8");
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        if let Some(id) = field("id:") {
            self.last_id = Some(id.to_owned());
            self.id_bytes += "id:\n".len() + id.len();
        }
        let data = field("data:").unwrap_or_else(|| panic!("a block without data: {block:?}"));
        self.data_bytes += "data:\n".len() + data.len();
        let kind = field("event:").unwrap_or("message").to_owned();
        (kind, serde_json::from_str(data).expect("JSON"))
    }
}

/// Pseudorandom numbers, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn a_stream_begins_with_how_soon_to_come_back() {
    let server = Server::start(&[]);
    let mut source = EventSource::new(&server, "/v1/topics/t");
    let (head, mut socket) = source.connect();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    let begin = socket.until(b"\n", "the first line").expect("a line");
    let begin = String::from_utf8(begin).expect("UTF-8");
    let retry_ms = begin.strip_prefix("retry:").and_then(|ms| ms.trim_end().parse::<u32>().ok());
    assert!(retry_ms.is_some_and(|ms| (1_000..=2_000).contains(&ms)), "{begin:?}");
    source.message(&mut socket);
}

/// Clients that lose their connection at the same time do not reconnect at the same time.
#[test]
fn each_connection_has_its_own_time_to_come_back() {
    let server = Server::start(&[]);
    let retry = |_| {
        let (_, mut socket) = EventSource::new(&server, "/v1/topics/t").connect();
        socket.until(b"\n", "the first line").expect("a line")
    };
    let times: BTreeSet<Vec<u8>> = (0..20).map(retry).collect();
    assert!(times.len() > 5, "{times:?}");
}

#[test]
fn every_block_of_every_stream_has_data() {
    let server =
        Server::start(&["--shards", "2", "--heartbeat", "200ms", "--topic", "v,kind=value"]);
    server.publish("a", 0..3);
    server.publish("v", 0..1);
    for target in [
        "/v1/topics/a?cursor=earliest",
        "/v1/topics/a?cursor=1.1",
        "/v1/topics?topic=a&topic=b&topic=c&topic=d&cursor=earliest",
        "/v1/topics?topic=a&topic=v&topic=c&cursor=1.1",
    ] {
        let mut source = EventSource::new(&server, target);
        let (_, mut socket) = source.connect();
        // `event` fails at a block without data.
        while source.event(&mut socket).0 != "heartbeat" {}
        server.publish("a", 3..4);
        while source.event(&mut socket).0 == "heartbeat" {}
        assert!(source.last_id.is_some());
    }
    let mut source = EventSource::new(&server, "/v1/topics?topic=x&topic=y");
    let (_, mut socket) = source.connect();
    server.publish("x", 0..1);
    server.publish("y", 0..1);
    server.ask("DELETE", "/v1/topics/x", &[], "");
    server.ask("DELETE", "/v1/topics/y", &[], "");
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "close") {
        kinds.push(source.event(&mut socket).0);
    }
    assert_eq!(kinds.iter().filter(|kind| *kind == "end").count(), 2, "{kinds:?}");
}

#[test]
fn an_event_source_of_several_topics_that_is_cut_again_and_again_misses_nothing() {
    const TOTAL: u64 = 3_000;
    for (shards, seed) in [("1", 1), ("1", 2), ("2", 3), ("2", 4)] {
        let server = Server::start(&["--shards", shards]);
        let mut chance = Chance(seed);
        let target = "/v1/topics?topic=a&topic=b%2Fc&topic=d&cursor=earliest";
        let mut source = EventSource::new(&server, target);
        let topics = ["a", "b/c", "d"];
        let mut seen = [0; 3];
        let mut connections = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for start in (0..TOTAL).step_by(10) {
                    for topic in topics {
                        server.publish(topic, start..start + 10);
                    }
                }
            });
            while seen != [TOTAL; 3] {
                let (head, mut socket) = source.connect();
                assert_eq!(head.status, 200, "with {:?}", source.last_id);
                connections += 1;
                // The connection may also break between the confirmations.
                for _ in 0..chance.below(12) {
                    if seen == [TOTAL; 3] {
                        break;
                    }
                    let message = source.message(&mut socket);
                    let topic = message["topic"].as_str().expect("a topic");
                    let index = topics.iter().position(|each| *each == topic);
                    let seen = &mut seen[index.expect("one of them")];
                    for event in message["events"].as_array().expect("events") {
                        assert_eq!(event.as_u64(), Some(*seen), "of {topic}, seed {seed}");
                        *seen += 1;
                    }
                }
            }
        });
        assert!(connections > 20, "{connections} connections");
        let ids = source.last_id.expect("an id");
        assert_eq!(ids.split(',').count(), 3, "{ids}");
    }
}

#[test]
fn one_topic_cut_again_and_again_misses_nothing() {
    const TOTAL: u64 = 5_000;
    let server = Server::start(&["--shards", "2"]);
    let mut chance = Chance(5);
    let target = "/v1/topics/t?cursor=earliest";
    let mut source = EventSource::new(&server, target);
    let mut seen = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for start in (0..TOTAL).step_by(10) {
                server.publish("t", start..start + 10);
            }
        });
        while seen < TOTAL {
            let (_, mut socket) = source.connect();
            for _ in 0..chance.below(8) {
                if seen == TOTAL {
                    break;
                }
                let message = source.message(&mut socket);
                for event in message["events"].as_array().expect("events") {
                    assert_eq!(event.as_u64(), Some(seen));
                    seen += 1;
                }
            }
        }
    });
}

/// Ids with many cursors are rare, and a client that resumes with the last one receives exactly the events after it.
#[test]
fn ids_of_many_topics_are_at_most_half_of_sent_bytes() {
    const TOPICS: usize = 256;
    const ROUNDS: u64 = 4;
    for shards in ["1", "2"] {
        let server = Server::start(&["--shards", shards]);
        let topics: Vec<String> = (0..TOPICS).map(|topic| format!("topic=t{topic}")).collect();
        let target = format!("/v1/topics?{}", topics.join("&"));
        let mut source = EventSource::new(&server, &target);
        let (_, mut socket) = source.connect();
        let mut had: BTreeMap<String, u64> = BTreeMap::new();
        while had.len() < TOPICS {
            let message = source.message(&mut socket);
            had.insert(message["topic"].as_str().expect("a topic").to_owned(), 0);
        }
        let id = source.last_id.clone().expect("an id");
        assert!(!id.contains("latest"), "each is confirmed, and named: {id}");
        let confirming_bytes = source.id_bytes;
        assert!(confirming_bytes < 8 * id.len(), "{confirming_bytes} bytes of ids at once");

        let mut ids = 0;
        for round in 0..ROUNDS {
            for topic in 0..TOPICS {
                server.publish(&format!("t{topic}"), round..round + 1);
                let before = source.last_id.clone();
                let message = source.message(&mut socket);
                ids += u32::from(source.last_id != before);
                *had.get_mut(message["topic"].as_str().expect("a topic")).expect("one of them") +=
                    1;
            }
        }
        let named_bytes = source.id_bytes - confirming_bytes;
        assert!(ids > 2, "{ids} ids");
        assert!(named_bytes <= source.data_bytes, "{named_bytes} of ids, {}", source.data_bytes);

        // The events after the last id come again, and no others.
        let named: Vec<u64> =
            source.last_id.iter().flat_map(|id| id.split(',')).map(offset).collect();
        let (head, mut socket) = source.connect();
        assert_eq!(head.status, 200);
        let mut again = ROUNDS * TOPICS as u64 - named.iter().sum::<u64>();
        assert!(again < (2 * id.len() / 60) as u64, "{again} events come again");
        let mut next = named.clone();
        while again > 0 {
            let message = source.message(&mut socket);
            let topic = message["topic"].as_str().expect("a topic");
            let index: usize = topic[1..].parse().expect("a number");
            for event in message["events"].as_array().expect("events") {
                assert_eq!(event.as_u64(), Some(next[index]), "of {topic}");
                next[index] += 1;
                again -= 1;
            }
        }
        assert_eq!(next, vec![ROUNDS; TOPICS]);
    }
}

#[test]
fn the_gap_of_one_of_several_topics_has_its_own_id() {
    let server = Server::start(&["--topic", "b,history-events=1"]);
    let a = server.publish("a", 0..3).position;
    let mut b = String::new();
    for number in 0..3 {
        b = server.publish("b", number..number + 1).position;
    }
    let (old, other) = (at(&b, 0), "1.5");
    let target = format!("/v1/topics?topic=a&topic=b&cursor={other}&cursor={old}");
    let mut source = EventSource::new(&server, &target);
    let (_, mut socket) = source.connect();
    let mut gaps = 0;
    let first_a = at(&a, 0);
    let after_b = at(&b, 2);
    while gaps < 2 {
        let (kind, data) = source.event(&mut socket);
        gaps += usize::from(kind == "gap");
        let expected = match (gaps, data["topic"].as_str()) {
            (1, Some("a")) => format!("{first_a},{old}"),
            (2, Some("b")) => format!("{first_a},{after_b}"),
            _ => panic!("{kind}: {data}"),
        };
        assert_eq!(source.last_id.as_deref(), Some(expected.as_str()));
    }
    // A reconnecting client does not receive them again.
    let (_, mut socket) = source.connect();
    let mut events = 0;
    while events < 4 {
        let (kind, data) = source.event(&mut socket);
        assert_eq!(kind, "message", "{data}");
        events += data["events"].as_array().expect("events").len();
    }
}

/// An id for another list of topics has no effect. If one part of an id is invalid, the others still count.
#[test]
fn an_id_with_another_number_of_cursors_is_a_gap() {
    let server = Server::start(&[]);
    let a = server.publish("a", 0..3).position;
    let b = server.publish("b", 0..3).position;
    let gaps = |id: &str| {
        let headers = [("Last-Event-ID", id)];
        let mut stream = server.subscribe_with(Transport::Sse, "?topic=a&topic=b", &headers);
        let first = [stream.next(), stream.next()];
        let gaps = first.iter().filter_map(|received| match received {
            Received::Gap(gap) if gap.reason == "epoch" => Some(gap.topic.clone()),
            _ => None,
        });
        gaps.collect::<Vec<_>>()
    };
    assert_eq!(gaps(&format!("{a},{b},{b}")), ["a", "b"]);
    assert_eq!(gaps(","), ["a", "b"]);
    assert_eq!(gaps(&format!("{a},")), ["b"]);
    assert_eq!(gaps(&format!(",{b}")), ["a"]);
    assert_eq!(gaps(&format!("{a},first")), ["b"]);
    assert_eq!(gaps(&format!("{a} {b}")), ["a", "b"]);
    assert_eq!(gaps(&format!("{a},{b}")), [""; 0]);
}

#[test]
fn the_words_of_an_id_hold_for_their_topics() {
    let server = Server::start(&[]);
    let a = server.publish("a", 0..3).position;
    server.publish("b", 0..3);
    let id = format!("{a},earliest");
    let headers = [("Last-Event-ID", id.as_str())];
    for transport in Transport::ALL {
        let mut subscriber = server.subscribe_with(transport, "?topic=a&topic=b", &headers);
        let mut numbers = Vec::new();
        let mut topics = 0;
        while topics < 2 || numbers.len() < 3 {
            let envelope = subscriber.envelope();
            topics += usize::from(envelope.events.is_empty());
            assert!(envelope.events.is_empty() || envelope.topic == "b");
            numbers.extend(envelope.events.iter().filter_map(Value::as_u64));
        }
        assert_eq!(numbers, [0, 1, 2]);
    }
}
