//! Invalid input of clients. The server answers or closes the connection, and continues to serve others.

use crate::harness::{Frame, Server, Socket, Transport, chunk, opcode, request};

fn answer_to(server: &Server, bytes: &[u8]) -> String {
    let mut socket = server.connect();
    socket.send_if_open(bytes);
    String::from_utf8_lossy(&socket.rest("the connection to be closed")).into_owned()
}

fn assert_serving(server: &Server) {
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn garbage_is_refused_and_hung_up_on() {
    let server = Server::start(&[]);
    for garbage in [
        &b"\r\n\r\n\r\n\r\nhello\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\n\r\n",
        b"GET /v1/topics/t HTTP/1.1\r\nno colon here\r\n\r\n",
        b"GET /v1/topics/t HTTP/1.1\r\nHost : x\r\n\r\n",
    ] {
        let answer = answer_to(&server, garbage);
        let is_refusal = answer.starts_with("HTTP/1.1 400 ");
        assert!(is_refusal, "{:?}: {answer}", String::from_utf8_lossy(garbage));
    }
    server.has_refused("bad_parameter", 8);
    assert_serving(&server);
}

#[test]
fn a_head_without_end_is_refused() {
    let server = Server::start(&[]);
    let mut endless = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ".to_vec();
    endless.resize(1 << 20, b'x');
    let many = format!("GET /healthz HTTP/1.1\r\n{}", "X: y\r\n".repeat(100_000));
    for head in [endless, many.into_bytes()] {
        let answer = answer_to(&server, &head);
        // The client still sends while it is refused, so that a reset may replace the response.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    server.has_refused("head_too_large", 2);
    assert_serving(&server);
}

#[test]
fn a_head_that_comes_too_slowly_is_hung_up_on() {
    let server = Server::start(&["--header-timeout", "300ms"]);
    let mut sockets: Vec<Socket> = ["", "GET /v1/topics/t HTT", "GET / HTTP/1.1\r\nHost: x\r\n"]
        .iter()
        .map(|start| {
            let mut socket = server.connect();
            socket.send(start);
            socket
        })
        .collect();
    for socket in &mut sockets {
        let answer = String::from_utf8_lossy(&socket.rest("the server to hang up")).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    // The one without a request is closed silently.
    server.has_refused("slow_request", 2);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(&[]);
    let mut socket = server.connect();
    let mut requests = Vec::new();
    for number in 0..50 {
        let body = number.to_string();
        requests.extend(request("POST", "/v1/topics/t", &[], body.as_bytes()));
    }
    socket.send(requests);
    for first in 1..=50 {
        assert_eq!(socket.response().published().first, first);
    }
}

#[test]
fn a_subscription_may_follow_a_request_in_one_packet() {
    let server = Server::start(&[]);
    let mut socket = server.connect();
    let publish = request("POST", "/v1/topics/t", &[], b"7");
    let accept = [("Accept", "application/x-ndjson")];
    let subscribe = request("GET", "/v1/topics/t?cursor=earliest", &accept, b"");
    socket.send([publish, subscribe].concat());
    assert_eq!(socket.response().published().first, 1);
    assert_eq!(socket.response_head().status, 200);
    let first = socket.until(b"\n", "the first envelope").expect("an envelope");
    assert!(String::from_utf8_lossy(&first).contains(r#""first":1,"events":[]"#));
    let event = socket.until(b"\n", "the event").expect("an envelope");
    assert!(String::from_utf8_lossy(&event).contains(r#""events":[7]"#));
}

#[test]
fn data_from_a_one_way_subscriber_does_no_harm() {
    let server = Server::start(&[]);
    for transport in [Transport::Sse, Transport::HttpStreaming] {
        let mut subscriber = server.subscribe(transport, "/t");
        subscriber.confirmed();
        subscriber.socket.send_if_open("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        subscriber.socket.send_if_open([b'x'; 100_000]);
        // The connection may be closed, but its stream contains nothing else.
        server.publish("t", 0..1);
        use crate::harness::Received;
        match subscriber.next() {
            Received::Envelope(envelope) => assert_eq!(envelope.events.len(), 1),
            received => assert_eq!(received, Received::End),
        }
    }
    assert_serving(&server);
}

#[test]
fn broken_chunks_are_refused() {
    let server = Server::start(&[]);
    for broken in ["zz\r\n1\n\r\n", "1\r\nab\r\n", "-1\r\n", "ffffffffffffffffff\r\n", "\r\n\r\n"] {
        let head = "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = answer_to(&server, format!("{head}{}{broken}", chunk("1\n")).as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{broken:?}: {answer}");
    }
    server.has_refused("bad_event", 5);
    assert_serving(&server);
}

#[test]
fn a_request_that_says_two_lengths_is_refused() {
    let server = Server::start(&[]);
    for headers in [
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: x\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: gzip\r\n",
    ] {
        let request = format!("POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n1");
        let answer = answer_to(&server, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers:?}: {answer}");
    }
    server.has_refused("bad_parameter", 4);
    assert_serving(&server);
}

#[test]
fn a_publisher_that_goes_in_the_middle_leaves_whole_lines_only() {
    let server = Server::start(&[]);
    let mut subscriber = server.subscribe(Transport::Sse, "/t");
    subscriber.confirmed();
    let mut publisher = server.connect();
    publisher.send(
        "POST /v1/topics/t HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    publisher.send(chunk("1\n2\n345"));
    assert_eq!(subscriber.numbers(2).0, [1, 2]);
    drop(publisher);
    server.publish("t", 7..8);
    assert_eq!(subscriber.numbers(1).0, [7]);
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    // No heartbeat finds the clients that have gone.
    let server = Server::start(&["--heartbeat", "1h"]);
    for round in 0..100 {
        let transport = Transport::ALL[round % 3];
        let mut subscriber = server.subscribe(transport, "/t");
        match round % 4 {
            0 => drop(subscriber),
            1 => {
                subscriber.confirmed();
            }
            2 if transport == Transport::WebSocket => {
                subscriber.send(&Frame::new(opcode::CLOSE, ""));
            }
            _ => drop(server.connect()),
        }
    }
    server.await_connections(0);
    let mut subscriber = server.subscribe(Transport::Sse, "/t");
    subscriber.confirmed();
    server.publish("t", 0..1);
    assert_eq!(subscriber.numbers(1).0, [0]);
}

#[test]
fn a_peer_that_speaks_and_leaves_at_once_is_let_go() {
    let server = Server::start(&[]);
    for transport in Transport::ALL.into_iter().cycle().take(60) {
        let mut subscriber = server.subscribe(transport, "/quiet");
        subscriber.confirmed();
        // The last message and the end arrive together, and no later event would reveal that the client is gone.
        subscriber.send(&Frame::new(opcode::PONG, "bye"));
    }
    server.await_connections(0);
}
