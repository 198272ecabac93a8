use std::net::SocketAddr;

use crate::harness::{Answer, Http2, Raw, Server, Transport, outside, ticking, unharmed, wait_for};

/// Connections that arrive at once, several times the limit.
const FLOOD: usize = 300;

/// Loopback is not counted.
const ANYWHERE: [&str; 6] = [
    "--listen",
    "0.0.0.0:0",
    "--token",
    "everybody,subscribe=**,publish=**",
    "--admin-listen",
    "127.0.0.1:0",
];

const PLACES: usize = 20;

/// Connects without a request. Returns the response.
fn greeting(address: SocketAddr) -> Option<Answer> {
    Raw::connect(address).answer_if_any()
}

/// Opens connections until no more are accepted. Returns their number. The bystander has a connection
/// already, and the metrics need one later.
fn flood(address: SocketAddr, status: u16, code: &str) {
    let mut sockets: Vec<Raw> = (0..FLOOD).map(|_| Raw::connect(address)).collect();
    let mut told = 0;
    // Accepted connections wait for a request. They are the first ones.
    for socket in sockets.iter_mut().skip(PLACES) {
        // In a flood only some connections get a reason.
        if let Some(answer) = socket.answer_if_any() {
            answer.refused(status, code);
            assert!(answer.head.contains("\r\nretry-after: "), "{}", answer.head);
            assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
            told += 1;
        }
    }
    assert!(told > 0, "some are told why");
    // As soon as some have got a reason, another one does.
    let answer = wait_for("a word", || greeting(address));
    answer.refused(status, code);
}

/// After the flood its places are free again, also for the metrics.
fn all_were_counted(server: &Server, code: &str) {
    wait_for("a place", || {
        let mut raw = Raw::connect(server.address);
        raw.ask("GET", "/healthz", &[], "");
        raw.answer_if_any().filter(|answer| answer.status == 200)
    });
    let metrics = Raw::connect(server.admin_address());
    let refused = server.count_over(metrics, &format!("thalweg_refused_total{{code=\"{code}\"}}"));
    assert!(refused as usize > FLOOD - PLACES, "{refused}");
}

#[test]
fn connections_above_the_limit_are_refused_and_places_are_freed() {
    let server = ticking(&["--set", "limits.connections=20", "--admin-listen", "127.0.0.1:0"]);
    unharmed(&server, || flood(server.address, 503, "too_many_connections"));
    all_were_counted(&server, "too_many_connections");
}

#[test]
fn connections_from_one_address_are_limited_on_their_own() {
    let server =
        ticking(&[&ANYWHERE[..], &["--set", "limits.connections-per-address=20"]].concat());
    let Some(outside) = outside(&server) else { return };
    unharmed(&server, || flood(outside, 429, "too_many_from_address"));
    all_were_counted(&server, "too_many_from_address");
}

/// A subscriber frees its place as well, and so does a stream that was taken over.
#[test]
fn a_place_is_given_back_however_its_connection_ends() {
    const FEW: usize = 8;
    let server = ticking(&["--set", "limits.connections=8", "--shards", "2"]);
    for round in 0..3 {
        let mut sockets: Vec<Raw> = Vec::new();
        while sockets.len() < FEW {
            let mut raw = Raw::connect(server.address);
            match (round, sockets.len() % 2) {
                (0, _) => raw.ask("GET", "/healthz", &[], ""),
                (1, 0) => raw.ask("GET", "/v1/topics/tick", &Transport::Sse.headers(), ""),
                _ => raw.ask("GET", "/v1/topics/tick", &Transport::WebSocket.headers(), ""),
            }
            // A connection before the other places are free is refused: it tries again.
            let head = raw.until(b"\r\n\r\n", "an answer's head").expect("an answer");
            if !head.starts_with(b"HTTP/1.1 503") {
                sockets.push(raw);
            }
        }
        wait_for("a word", || greeting(server.address)).refused(503, "too_many_connections");
        for raw in sockets.iter().step_by(2) {
            raw.finish();
        }
    }
}

/// Streams that share a connection cost as much as separate connections.
#[test]
fn subscribers_that_share_a_connection_count_for_its_address() {
    let server =
        Server::start(&[&ANYWHERE[..], &["--set", "limits.connections-per-address=8"]].concat());
    let Some(outside) = outside(&server) else { return };
    let client = Http2::connect(outside);
    let mut streams: Vec<_> =
        (0..16).map(|_| client.start("GET", "/v1/topics/t?transport=sse", &[], b"")).collect();
    let statuses: Vec<u16> =
        streams.iter_mut().map(|stream| stream.response_head().status).collect();
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((served, statuses[15]), (7, 429), "{statuses:?}");
}

/// A publisher of lines may be silent for as long as a subscriber.
#[test]
fn publishers_of_lines_that_share_a_connection_have_places() {
    let server = Server::start(&["--set", "limits.connections=3"]);
    let client = server.http2();
    let lines = [("content-type", "application/x-ndjson")];
    let mut silent: Vec<_> =
        (0..2).map(|_| client.start_open("POST", "/v1/topics/t", &lines)).collect();
    client.ask("POST", "/v1/topics/t", &lines, "1\n").refused(503, "too_many_connections");
    // A request with one event must arrive soon.
    assert_eq!(client.ask("POST", "/v1/topics/t", &[], "1").status, 200);
    silent.remove(0).finish();
    wait_for("its place", || {
        let answer = client.ask("POST", "/v1/topics/t", &lines, "1\n");
        (answer.status == 200).then_some(())
    });
}

/// A place is taken before topics are created.
#[test]
fn a_subscriber_without_a_place_leaves_no_topic_behind() {
    let server = Server::start(&["--set", "limits.connections=2"]);
    let client = server.http2();
    let mut served = client.start("GET", "/v1/topics/a?transport=sse", &[], b"");
    assert_eq!(served.response_head().status, 200);
    client.ask("GET", "/v1/topics/b?transport=sse", &[], b"").refused(503, "too_many_connections");
    client.ask("GET", "/v1/topics/b?limit=1", &[], b"").refused(404, "no_such_topic");
}

/// A poll over HTTP/1.1 takes no place beside its connection.
#[test]
fn as_many_may_poll_as_may_connect() {
    const FEW: usize = 4;
    let server = Server::start(&["--set", "limits.connections=4"]);
    let mut polls: Vec<Raw> = (0..FEW).map(|_| Raw::connect(server.address)).collect();
    for poll in &mut polls {
        poll.ask("GET", "/v1/topics/t?wait=2s", &[], "");
    }
    for poll in &mut polls {
        assert_eq!(poll.answer().status, 200);
    }
}
