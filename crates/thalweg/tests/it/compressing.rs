//! Compressed messages that refer to earlier ones, as their readers inflate them: whenever they come, and whatever they read with.

mod clients;
mod firefox;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use crate::harness::{Frame, Server, Socket, opcode, request, thalweg};

/// Offers that keep the context of the server.
const OFFERS: [&str; 2] = ["permessage-deflate; client_max_window_bits", "permessage-deflate"];
const WITHOUT_CONTEXT: &str = "permessage-deflate; server_no_context_takeover";
/// The bit of a compressed message (RFC 7692 §6).
const RSV1: u8 = 0x40;
/// The end of a compressed message, which is not sent (RFC 7692 §7.2.1).
const TAIL: &[u8] = &[0, 0, 0xff, 0xff];

const CARS: &str = "cars";

fn event(number: u64) -> String {
    let (speed, longitude) = (number * 37 % 140, number * 7_919 % 180_000);
    format!(
        r#"{{"car":"c{}","speed_kmh":{speed},"longitude":{longitude},"total_km":{number},"is_locked":false,"is_in_use":true}}"#,
        number % 5
    )
}

fn publish(server: &Server, topic: &str, number: u64) {
    let answer = server.post(topic, "application/json", event(number));
    assert_eq!(answer.status, 200);
}

/// A WebSocket that keeps the server's context, or asks for none.
struct Reader {
    socket: Socket,
    inflate: Decompress,
    has_context: bool,
}

impl Reader {
    fn open(server: &Server, offer: &str, topic: &str) -> Self {
        let mut reader = Self::at(server, offer, &format!("/v1/topics/{topic}"));
        assert!(reader.message().0.contains(r#""events":[]"#));
        reader
    }

    fn at(server: &Server, offer: &str, path: &str) -> Self {
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhhbHdlZyBzYXlzIGhpIQ=="),
            ("Sec-WebSocket-Extensions", offer),
        ];
        let mut socket = server.connect();
        socket.send(request("GET", path, &headers, b""));
        let head = socket.until(b"\r\n\r\n", "a head").expect("a head");
        let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
        assert!(head.contains("permessage-deflate"), "{head}");
        let has_context = !head.contains("server_no_context_takeover");
        Self { socket, inflate: Decompress::new(false), has_context }
    }

    /// Returns the next message, and the bytes of its payload.
    fn message(&mut self) -> (String, usize) {
        self.message_if_valid().expect("a message that can be inflated")
    }

    fn message_if_valid(&mut self) -> Option<(String, usize)> {
        let head = self.socket.exact(2, "a frame").expect("a frame");
        let len = match head[1] {
            126 => {
                let len = self.socket.exact(2, "a length").expect("a length");
                usize::from(u16::from_be_bytes([len[0], len[1]]))
            }
            short => usize::from(short),
        };
        let payload = self.socket.exact(len, "a payload").expect("a payload");
        let plain = match head[0] {
            first if first == 0x80 | RSV1 | opcode::TEXT => {
                self.inflated(&[&payload[..], TAIL].concat())?
            }
            first => {
                assert_eq!(first, 0x80 | opcode::TEXT);
                payload
            }
        };
        Some((String::from_utf8(plain).expect("text"), len))
    }

    fn inflated(&mut self, deflated: &[u8]) -> Option<Vec<u8>> {
        if !self.has_context {
            self.inflate.reset(false);
        }
        let mut plain = Vec::with_capacity(64 << 10);
        let result = self.inflate.decompress_vec(deflated, &mut plain, FlushDecompress::Sync);
        result.is_ok().then_some(plain)
    }

    /// Reads `count` events from `first` on. Returns the bytes of their payloads.
    fn events(&mut self, first: u64, count: u64) -> usize {
        (first..first + count)
            .map(|number| {
                let (message, bytes) = self.message();
                let ending = format!(r#""events":[{}]}}"#, event(number));
                assert!(message.ends_with(&ending), "{message}");
                bytes
            })
            .sum()
    }
}

#[test]
fn subscribers_share_messages_that_refer_to_earlier_ones_whenever_they_come() {
    const EVENTS: u64 = 120;
    const LAST: u64 = 20;
    let server = Server::start(&["--compression", "--shards", "2"]);
    let mut alone = Reader::open(&server, WITHOUT_CONTEXT, CARS);
    assert!(!alone.has_context);
    let mut readers: Vec<(u64, Reader)> = Vec::new();
    for number in 0..EVENTS {
        if number % 30 == 0 {
            let offer = OFFERS[number as usize / 30 % OFFERS.len()];
            readers.push((number, Reader::open(&server, offer, CARS)));
        }
        publish(&server, CARS, number);
    }
    alone.events(0, EVENTS - LAST);
    let alone_bytes = alone.events(EVENTS - LAST, LAST);
    for (first, mut reader) in readers {
        assert!(reader.has_context);
        let before = EVENTS - LAST - first;
        reader.events(first, before);
        let bytes = reader.events(first + before, LAST);
        // The newest reader has not received a whole context.
        let share = bytes as f64 / alone_bytes as f64;
        assert!(share < 0.45 || before * 200 < 4 << 10, "{share} from event {first} on");
    }
}

#[test]
fn messages_of_one_connection_leave_the_context_untouched() {
    let server = Server::start(&["--compression"]);
    let mut reader = Reader::open(&server, OFFERS[0], CARS);
    for number in 0..80 {
        if number % 8 == 0 {
            let ping = Frame::new(opcode::TEXT, r#"{"command":"echo","id":1,"data":1}"#);
            reader.socket.send(ping.bytes());
            assert!(reader.message().0.starts_with(r#"{"answer""#));
        }
        publish(&server, CARS, number);
        reader.events(number, 1);
    }
}

#[test]
fn without_a_context_each_message_is_compressed_alone() {
    let none = ["--compression", "--set", "tuning.compression-context-bytes=0"];
    let server = Server::start(&none);
    let reader = Reader::open(&server, OFFERS[0], CARS);
    assert!(!reader.has_context);
}

#[test]
fn an_echo_inflates_messages() {
    let server = Server::start(&["--compression", "--echo-path", "/echo"]);
    for offer in [OFFERS[1], WITHOUT_CONTEXT] {
        let mut reader = Reader::at(&server, offer, "/echo");
        for number in 0..3 {
            let message = format!("{}{number}", "the same again and again, ".repeat(30));
            let mut deflated = Vec::with_capacity(message.len());
            let mut deflate = Compress::new(Compression::fast(), false);
            let status =
                deflate.compress_vec(message.as_bytes(), &mut deflated, FlushCompress::Sync);
            assert!(status.is_ok() && deflated.ends_with(TAIL));
            deflated.truncate(deflated.len() - TAIL.len());
            let frame = Frame::new(opcode::TEXT, &deflated).with_reserved_bits(RSV1);
            reader.socket.send(frame.bytes());
            assert_eq!(reader.message().0, message);
        }
    }
}

/// Publishes 200 events to a `thalweg tail` with these flags. Returns what the server sent: lines, and bytes.
fn tailed(flags: &[&str]) -> (Vec<String>, f64) {
    const EVENTS: u64 = 200;
    let server = Server::start(&["--compression"]);
    let url = format!("http://{}/v1/topics/{CARS}", server.address);
    let mut tail = thalweg(&[&["tail", &url], flags].concat());
    server.await_connections(1);
    let before = server.metric("thalweg_sent_bytes_total");
    let lines = (0..EVENTS).map(|number| {
        publish(&server, CARS, number);
        let line = tail.line().unwrap_or_else(|| panic!("{flags:?}: {}", tail.said()));
        assert_eq!(line, event(number), "{flags:?}");
        line
    });
    let lines = lines.collect();
    (lines, server.metric("thalweg_sent_bytes_total") - before)
}

#[test]
fn a_compressed_tail_prints_the_same_lines_for_half_of_the_bytes() {
    for transport in ["http-streaming", "sse"] {
        let (lines, plain_bytes) = tailed(&["--transport", transport]);
        let (inflated, bytes) = tailed(&["--transport", transport, "--compress"]);
        assert_eq!(inflated, lines);
        let share = bytes / plain_bytes;
        assert!(share < 0.5, "{transport}: {bytes} of {plain_bytes} bytes");
    }
}

#[test]
fn a_tail_is_compressed_only_where_gzip_is_possible() {
    let (lines, bytes) = tailed(&["--compress"]);
    assert!(bytes < lines.iter().map(|line| line.len() as f64).sum::<f64>());
    let tail = ["tail", "http://127.0.0.1:1", "--topic", CARS, "--compress"];
    let (status, said) = thalweg(&[&tail[..], &["--transport", "websocket"]].concat()).end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("use --transport http-streaming or sse"), "{said}");
}

/// Publishes 12 events to each of 2,000 topics, which have a compressed reader each. Returns the memory that a topic takes.
fn memory_of_topics(context: &str) -> usize {
    const TOPICS: usize = 2_000;
    let context = format!("tuning.compression-context-bytes={context}");
    let server = Server::start(&["--shards", "1", "--compression", "--set", &context]);
    let before = server.memory();
    let mut publisher = server.connect();
    let readers = (0..TOPICS).map(|number| {
        let topic = format!("t{number}");
        let mut reader = Reader::open(&server, OFFERS[0], &topic);
        for number in 0..12 {
            let json = [("Content-Type", "application/json")];
            let target = format!("/v1/topics/{topic}");
            publisher.send(request("POST", &target, &json, event(number).as_bytes()));
            assert_eq!(publisher.response().status, 200);
        }
        reader.events(0, 12);
        reader
    });
    let readers: Vec<Reader> = readers.collect();
    let memory = server.memory().saturating_sub(before) / TOPICS;
    drop(readers);
    memory
}

#[test]
fn frames_of_more_topics_than_compressors_are_read_and_counted() {
    let server = Server::start(&["--shards", "1", "--compression"]);
    let topics: Vec<String> = (0..40).map(|number| format!("t{number}")).collect();
    let mut readers: Vec<Reader> =
        topics.iter().map(|topic| Reader::open(&server, OFFERS[1], topic)).collect();
    for number in 0..30 {
        for (topic, reader) in topics.iter().zip(&mut readers) {
            publish(&server, topic, number);
            reader.events(number, 1);
        }
    }
    server.await_metric("thalweg_contexts_primed_total", |frames| frames >= 100.0);
}

/// A client that does not ask for `server_no_context_takeover` must inflate with the context (RFC 7692 §7.1.1.1). Some clients do not.
#[test]
fn clients_that_inflate_each_message_alone_come_again_and_harm_nobody() {
    const VISITS: usize = 50;
    const FIRST: usize = 10;
    let server =
        Server::start(&["--compression", "--set", "tuning.compression-context-bytes=1KiB"]);
    let mut right = Reader::open(&server, OFFERS[0], CARS);
    let (mut published, mut memory, mut primed) = (0, 0, 0.0);
    for visit in 0..VISITS {
        let mut wrong = Reader::open(&server, OFFERS[1], CARS);
        wrong.has_context = false;
        let mut received = 0;
        loop {
            publish(&server, CARS, published);
            right.events(published, 1);
            published += 1;
            match wrong.message_if_valid() {
                Some(_) => received += 1,
                None => break,
            }
        }
        assert!(received > 0, "the first messages are compressed alone");
        // RFC 6455 §7.4.1: data that is not consistent with the type of the message.
        wrong.socket.send(Frame::new(opcode::CLOSE, &1007_u16.to_be_bytes()).bytes());
        wrong.socket.rest("the end of the connection");
        if visit + 1 == FIRST {
            memory = server.memory();
            primed = server.metric("thalweg_contexts_primed_total");
        }
    }
    server.await_connections(1);
    let grown = server.memory().saturating_sub(memory);
    println!("{published} events, {grown} bytes more after {VISITS} visits than after {FIRST}");
    assert!(grown < 1 << 20, "{grown} bytes more after {VISITS} visits than after {FIRST}");
    assert_eq!(server.metric("thalweg_contexts_primed_total"), primed);
}

#[test]
fn the_context_of_a_topic_takes_little_memory() {
    let (with, without) = (memory_of_topics("4KiB"), memory_of_topics("0"));
    println!("{with} bytes for each topic, {without} without contexts");
    assert!(with < without + (16 << 10), "{with} bytes for each topic, {without} without contexts");
}
