//! `thalweg tail` with a foreign server: it prints whatever the server sends, and nothing else happens.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::harness::{Program, Server, Terminal, connect, thalweg};

/// A server whose responses the test writes.
struct Foreign(TcpListener);

impl Foreign {
    fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    fn url(&self) -> String {
        format!("http://{}/v1/topics/cars", self.0.local_addr().expect("its address"))
    }

    fn accept(&self) -> (TcpStream, String) {
        let (mut socket, _) = self.0.accept().expect("a connection");
        let head = read_head(&mut socket);
        (socket, head)
    }

    /// Accepts the next subscription over HTTP. Returns the first line of its request.
    fn stream(&self, content_type: &str) -> (TcpStream, String) {
        let (mut socket, head) = self.accept();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n");
        socket.write_all(answer.as_bytes()).expect("a client that listens");
        (socket, head.lines().next().unwrap_or_default().to_owned())
    }
}

fn read_head(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    String::from_utf8(head).expect("text")
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).expect(name).1
}

/// Returns the reply of a real WebSocket server to a key.
fn accept_key(key: &str) -> String {
    let server = Server::start(&[]);
    let mut socket = connect(server.address);
    let request = format!(
        "GET /v1/topics/cars HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n",
        server.address
    );
    say(&mut socket, &request);
    header(&read_head(&mut socket), "sec-websocket-accept").to_owned()
}

fn say(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).expect("a client that listens");
}

const NDJSON: &str = "application/x-ndjson";
const STREAMING: [&str; 2] = ["--transport", "http-streaming"];

fn tail(url: &str, more: &[&str]) -> Program {
    thalweg(&[&["tail", url], more].concat())
}

#[test]
fn an_end_is_read_however_its_json_is_written() {
    let foreign = Foreign::start();
    let mut tail = tail(&foreign.url(), &STREAMING);
    let (mut socket, _) = foreign.stream(NDJSON);
    say(
        &mut socket,
        "{\"topic\":\"c\\u0061rs\",\"position\":\"9f.1\",\"first\":1,\"events\":[1]}\n",
    );
    assert_eq!(tail.lines(1), ["1"]);
    let reason = r"no \u0022cars\u0022\nany more \u001b[31m";
    say(
        &mut socket,
        &format!(
            r#"{{"topic":"cars","position":"9f.1","end":{{"code":"gone","reason":"{reason}"}}}}"#
        ),
    );
    say(&mut socket, "\n");
    let (status, said) = tail.end();
    assert!(status.success(), "{said}");
    let sentence = r#"cars has ended: no "cars"\nany more \u001b[31m"#;
    assert!(said.lines().any(|line| line == sentence), "{said}");
}

#[test]
fn a_refusal_says_nothing_of_its_own_to_a_terminal() {
    let foreign = Foreign::start();
    let mut tail = tail(&foreign.url(), &STREAMING);
    let (mut socket, _) = foreign.accept();
    let body =
        r#"{"error":{"code":"bad_topic","message":"no\nthalweg: all is well\u001b[2J\u009b"}}"#;
    let head = format!("HTTP/1.1 400 X\r\nContent-Length: {}\r\n\r\n", body.len());
    say(&mut socket, &(head + body));
    let (status, said) = tail.end();
    assert!(!status.success());
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!said.trim_end().contains(char::is_control), "{said:?}");
}

#[test]
fn an_event_is_one_line() {
    let foreign = Foreign::start();
    let more = ["--transport", "sse", "--format", "plain", "--count", "2"];
    let mut tail = tail(&foreign.url(), &more);
    let (mut socket, _) = foreign.stream("text/event-stream");
    say(
        &mut socket,
        "data:{\"topic\":\"cars\",\"position\":\"9f.2\",\"first\":1,\"events\":[{\ndata: \"a\" :\ndata: 1},\
         \"x\\ny\"]}\n\n",
    );
    assert_eq!(tail.lines(2), [r#"{ "a" : 1}"#, r"x\ny"]);
    assert!(tail.end().0.success());
}

#[test]
fn a_terminal_shows_control_characters_and_does_not_obey_them() {
    let server = Server::start(&[]);
    server.post("cars", "application/json", "\"\\u001b]0;mine\\u0007 \\u009b2J\"");
    let url = format!("http://{}/v1/topics/cars", server.address);
    let arguments = ["tail", &url, "--from", "earliest", "--format", "plain", "--count", "1"];
    let terminal = Terminal::open();
    let mut program = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(terminal.stdio())
        .stderr(Stdio::null())
        .spawn()
        .expect("start the program");
    let shown = terminal.read_to_end();
    assert!(program.wait().expect("its status").success());
    assert_eq!(shown.trim_end(), r"\u001b]0;mine\u0007 \u009b2J");
    // If stdout is not a terminal, the text is not escaped.
    assert_eq!(thalweg(&arguments).lines(1), ["\u{1b}]0;mine\u{7} \u{9b}2J"]);
}

/// Some megabytes of a message must not take ten seconds.
#[test]
fn a_patch_that_is_too_much_work_is_given_up_and_the_document_asked_for() {
    let foreign = Foreign::start();
    let mut tail = tail(&foreign.url(), &STREAMING);
    let (mut socket, asked) = foreign.stream(NDJSON);
    assert!(asked.contains("deltas=patch"), "{asked}");
    let zeros = vec!["0"; 200_000].join(",");
    let version = format!(
        "{{\"topic\":\"cars\",\"position\":\"9f.1\",\"first\":1,\"previous\":0,\"events\":[[{zeros}]]}}\n"
    );
    say(&mut socket, &version);
    assert_eq!(tail.lines(1)[0].len(), 400_001);
    let operations = vec![r#"{"op":"add","path":"/0","value":1}"#; 100].join(",");
    let patch = format!(
        "{{\"topic\":\"cars\",\"position\":\"9f.2\",\"first\":2,\"previous\":1,\"patch\":[{operations}]}}\n"
    );
    say(&mut socket, &patch);
    let (mut socket, asked) = foreign.stream(NDJSON);
    assert!(!asked.contains("deltas"), "{asked}");
    assert!(tail.said().contains("too many elements"), "{}", tail.said());
    say(
        &mut socket,
        "{\"topic\":\"cars\",\"position\":\"9f.2\",\"first\":2,\"previous\":0,\"events\":[7]}\n",
    );
    assert_eq!(tail.lines(1), ["7"]);
}

const PINGS: u32 = 200_000;
const PING_BYTES: usize = 125;

/// The client does not store a pong for each ping: a server could fill its memory.
#[test]
fn a_server_that_pings_and_does_not_read_is_answered_once() {
    let foreign = Foreign::start();
    let mut tail = tail(&foreign.url(), &["--transport", "websocket"]);
    let (mut socket, head) = foreign.accept();
    let key = header(&head, "sec-websocket-key");
    let accept = accept_key(key);
    say(
        &mut socket,
        &format!(
            "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        ),
    );
    let mut pings = Vec::new();
    for number in 0..PINGS {
        pings.extend([0x89, PING_BYTES as u8]);
        pings.extend(number.to_be_bytes());
        pings.resize(pings.len() + PING_BYTES - 4, 0);
    }
    socket.write_all(&pings).expect("a client that reads");
    let text = r#"{"topic":"cars","position":"9f.1","first":1,"events":[1]}"#;
    socket.write_all(&[0x81, text.len() as u8]).expect("a client that reads");
    say(&mut socket, text);
    assert_eq!(tail.lines(1), ["1"]);
    // The client has read all pings, so every pong is due.
    let mut pongs = 0;
    let mut frame = [0; PING_BYTES + 6];
    loop {
        socket.read_exact(&mut frame).expect("a pong");
        assert_eq!(frame[..2], [0x8A, 0x80 | PING_BYTES as u8]);
        pongs += 1;
        let number: Vec<u8> = (0..4).map(|at| frame[6 + at] ^ frame[2 + at]).collect();
        if number == (PINGS - 1).to_be_bytes() {
            break;
        }
    }
    assert!(pongs < PINGS / 2, "{pongs} pongs");
}
