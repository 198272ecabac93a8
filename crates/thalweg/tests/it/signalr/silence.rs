//! Pings to clients of a hub, and the end of clients that are silent.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{HUB, hostile::invocation};
use crate::harness::{Frame, Response, Server, Socket, Transport, metric, opcode, request};

/// The server sends a ping after this time without other data.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A client that sends nothing for this time is closed.
const TIMEOUT: Duration = Duration::from_secs(30);

const HANDSHAKE: &str = "{\"protocol\":\"json\",\"version\":1}\u{1e}";
const ACCEPTED: &str = "{}\u{1e}";
const PING: &str = "{\"type\":6}\u{1e}";

/// A connection for all requests of a test, so that they take one place of the server's connections.
struct Requests(Socket);

impl Requests {
    fn ask(&mut self, method: &str, target: &str, body: &str) -> Response {
        self.0.send(request(method, target, &[], body.as_bytes()));
        self.0.response()
    }

    /// Returns the number of polled sessions.
    fn sessions(&mut self) -> usize {
        let text = self.ask("GET", "/metrics", "").text();
        metric(&text, "thalweg_polled_connections").expect("the metric") as usize
    }

    /// Returns the target of a new session.
    fn negotiate(&mut self) -> String {
        let answer = self.ask("POST", "/hub/negotiate?negotiateVersion=1", "");
        format!("/hub?id={}", answer.json()["connectionToken"].as_str().expect("a token"))
    }

    fn send(&mut self, session: &str, records: &str) {
        assert_eq!(self.ask("POST", session, records).status, 200);
    }

    /// Opens a polled session, and shakes hands.
    fn open(&mut self) -> String {
        let session = self.negotiate();
        assert_eq!(self.ask("GET", &session, "").status, 200);
        self.send(&session, HANDSHAKE);
        assert_eq!(self.ask("GET", &session, "").text(), ACCEPTED);
        session
    }

    /// Opens Server-Sent Events, and shakes hands.
    fn open_stream(&mut self, server: &Server) -> (Socket, String) {
        let session = self.negotiate();
        let mut stream = server.connect();
        stream.send(request("GET", &session, &Transport::Sse.headers(), b""));
        assert_eq!(stream.response_head().status, 200);
        self.send(&session, HANDSHAKE);
        assert_eq!(streamed(&mut stream), ACCEPTED);
        (stream, session)
    }
}

/// Returns the next record of a stream.
fn streamed(stream: &mut Socket) -> String {
    loop {
        let frame = stream.until(b"\n\n", "a record").expect("a record");
        let frame = String::from_utf8(frame).expect("UTF-8");
        if let Some(record) = frame.trim_end().strip_prefix("data:") {
            return record.trim_start().to_owned();
        }
    }
}

/// Opens a WebSocket, and shakes hands.
fn websocket(server: &Server) -> Socket {
    let mut socket = server.connect();
    socket.send(request("GET", "/hub", &Transport::WebSocket.headers(), b""));
    assert_eq!(socket.response_head().status, 101);
    say(&mut socket, HANDSHAKE);
    assert_eq!(received(&mut socket), Ok(ACCEPTED.to_owned()));
    socket
}

fn say(socket: &mut Socket, record: &str) {
    socket.send(Frame::new(opcode::TEXT, record).bytes());
}

/// Returns the next record, or the code of a close.
fn received(socket: &mut Socket) -> Result<String, u16> {
    match socket.websocket_frame("a record").expect("a frame") {
        (opcode::TEXT, record) => Ok(String::from_utf8(record).expect("UTF-8")),
        (opcode::CLOSE, payload) => Err(u16::from_be_bytes([payload[0], payload[1]])),
        other => panic!("{other:?}"),
    }
}

/// Counts the pings before the next other record, the completion of a refused invocation.
fn pings_before_completion(mut next: impl FnMut() -> String) -> u32 {
    let mut pings = 0;
    loop {
        let record = next();
        if record != PING {
            assert!(record.contains("not_subscribed"), "{record}");
            return pings;
        }
        pings += 1;
    }
}

/// Asserts that a silent WebSocket has received pings, then a close message, and a close frame.
fn assert_closed_as_silent(mut socket: Socket) {
    let mut records = Vec::new();
    let code = loop {
        match received(&mut socket) {
            Ok(record) => records.push(record),
            Err(code) => break code,
        }
    };
    let (close, pings) = records.split_last().expect("a close message");
    assert!(!pings.is_empty() && pings.iter().all(|record| record == PING), "{records:?}");
    let close: Value = serde_json::from_str(close.trim_end_matches('\u{1e}')).expect("JSON");
    assert_eq!(close, json!({ "type": 7, "error": "silent", "allowReconnect": true }));
    assert_eq!(code, 4007);
}

/// This takes a minute of real time, because the times have no settings.
#[test]
fn idle_clients_get_pings_and_silent_ones_end() {
    const SESSIONS: usize = 8;
    // The others are the requests, two WebSockets and a stream.
    let server = Server::start(&[&HUB[..], &["--set", "limits.connections=12"]].concat());
    let mut requests = Requests(server.connect());
    let abandoned: Vec<String> = (0..SESSIONS).map(|_| requests.open()).collect();
    let begun = Instant::now();
    let (mut idle, silent) = (websocket(&server), websocket(&server));
    let (mut stream, streaming) = requests.open_stream(&server);
    let one_more = requests.negotiate();
    requests.ask("GET", &one_more, "").refused(503, "too_many_connections");

    // The clients of `idle` and `stream` send a ping for each ping of the server.
    let (mut pings, mut lived) = (0, Duration::ZERO);
    loop {
        let before = begun.elapsed();
        match requests.sessions() {
            0 => break,
            SESSIONS => lived = before,
            _ => {}
        }
        assert_eq!(received(&mut idle), Ok(PING.to_owned()));
        pings += 1;
        say(&mut idle, PING);
        requests.send(&streaming, PING);
    }
    assert!(lived >= TIMEOUT, "a session ended before {TIMEOUT:?}: at {lived:?}, all lived");
    let unsubscribe = invocation(Some("0"), "Unsubscribe", &json!(["cars"]));
    say(&mut idle, &unsubscribe);
    pings += pings_before_completion(|| received(&mut idle).expect("a record"));
    // The sessions ended 55 s after their last polls, which could have waited for 25 s. The first ping comes
    // after 7.5 s to 15 s.
    assert!(pings >= 4, "{pings} pings before the sessions ended");
    assert!(begun.elapsed() >= KEEP_ALIVE * (pings - 1), "{pings} pings in {:?}", begun.elapsed());
    requests.send(&streaming, &unsubscribe);
    let of_stream = pings_before_completion(|| streamed(&mut stream));
    assert!(of_stream + 1 >= pings, "{of_stream} pings in the stream, {pings} in the WebSocket");

    server.has_closed(4007, SESSIONS as u64 + 1);
    assert_closed_as_silent(silent);
    for session in abandoned {
        requests.ask("GET", &session, "").refused(404, "not_found");
    }
    requests.open();
}
