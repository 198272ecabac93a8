use std::net::SocketAddr;

use crate::harness::{Answer, Http2, Raw, Server, outside, ticking, unharmed, wait_for};

/// Connections that come at once, several times what may be there.
const FLOOD: usize = 300;

/// Loopback is not counted.
const ANYWHERE: [&str; 5] = ["--listen", "0.0.0.0:0", "--open", "--admin-listen", "127.0.0.1:0"];

/// Connections that may be there.
const PLACES: usize = 20;

/// Says nothing, and reads what it is told.
fn greeting(address: SocketAddr) -> Option<Answer> {
    Raw::connect(address).answer_if_any()
}

/// Opens connections that stay until there is no place for more; how many got in. The
/// bystander has a place already, and the metrics need one later.
fn flood(address: SocketAddr, status: u16, code: &str) {
    let mut sockets: Vec<Raw> = (0..FLOOD).map(|_| Raw::connect(address)).collect();
    let mut told = 0;
    // Those that got in wait for a request; they are the first.
    for socket in sockets.iter_mut().skip(PLACES) {
        // Of a flood only some are told why.
        if let Some(answer) = socket.answer_if_any() {
            answer.refused(status, code);
            assert!(answer.head.contains("\r\nretry-after: "), "{}", answer.head);
            assert!(answer.head.contains("\r\nconnection: close\r\n"), "{}", answer.head);
            told += 1;
        }
    }
    assert!(told > 0, "some are told why");
    // As soon as some of those have been told, another one is.
    let answer = wait_for("a word", || greeting(address));
    answer.refused(status, code);
}

/// The flood is over, and its places are there for whoever wants to know.
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
fn connections_beyond_the_limit_are_told_so_and_places_come_back() {
    let server = ticking(&["--max-connections", "20", "--admin-listen", "127.0.0.1:0"]);
    unharmed(&server, || flood(server.address, 503, "too_many_connections"));
    all_were_counted(&server, "too_many_connections");
}

#[test]
fn connections_from_one_address_are_limited_on_their_own() {
    let server = ticking(&[&ANYWHERE[..], &["--max-connections-per-address", "20"]].concat());
    let Some(outside) = outside(&server) else { return };
    unharmed(&server, || flood(outside, 429, "too_many_from_address"));
    all_were_counted(&server, "too_many_from_address");
}

/// A subscriber's place is given back too, and a stream's that was taken over.
#[test]
fn a_place_is_given_back_however_its_connection_ends() {
    const FEW: usize = 8;
    let server = ticking(&["--max-connections", "8", "--shards", "2"]);
    for round in 0..3 {
        let mut sockets: Vec<Raw> = Vec::new();
        while sockets.len() < FEW {
            let mut raw = Raw::connect(server.address);
            let (upgrade, accept) = (("Upgrade", "websocket"), ("Accept", "text/event-stream"));
            match (round, sockets.len() % 2) {
                (0, _) => raw.ask("GET", "/healthz", &[], ""),
                (1, 0) => raw.ask("GET", "/v1/topics/tick", &[accept], ""),
                _ => raw.ask(
                    "GET",
                    "/v1/topics/tick",
                    &[
                        upgrade,
                        ("Connection", "Upgrade"),
                        ("Sec-WebSocket-Version", "13"),
                        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
                    ],
                    "",
                ),
            }
            // Whoever comes before the others' places are back is refused: once more.
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

/// However many share a connection: each costs as much as one of its own.
#[test]
fn subscribers_that_share_a_connection_count_for_its_address() {
    let server = Server::start(&[&ANYWHERE[..], &["--max-connections-per-address", "8"]].concat());
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
    let server = Server::start(&["--max-connections", "3"]);
    let client = server.http2();
    let lines = [("content-type", "application/x-ndjson")];
    let mut silent: Vec<_> =
        (0..2).map(|_| client.start_open("POST", "/v1/topics/t", &lines)).collect();
    client.ask("POST", "/v1/topics/t", &lines, "1\n").refused(503, "too_many_connections");
    // What is of one event is not long in coming.
    assert_eq!(client.ask("POST", "/v1/topics/t", &[], "1").status, 200);
    silent.remove(0).finish();
    wait_for("its place", || {
        let answer = client.ask("POST", "/v1/topics/t", &lines, "1\n");
        (answer.status == 200).then_some(())
    });
}

/// A place is taken before topics are made.
#[test]
fn a_subscriber_without_a_place_leaves_no_topic_behind() {
    let server = Server::start(&["--max-connections", "2"]);
    let client = server.http2();
    let mut served = client.start("GET", "/v1/topics/a?transport=sse", &[], b"");
    assert_eq!(served.response_head().status, 200);
    client.ask("GET", "/v1/topics/b?transport=sse", &[], b"").refused(503, "too_many_connections");
    client.ask("GET", "/v1/topics/b?limit=1", &[], b"").refused(404, "no_such_topic");
}

/// A poll over HTTP/1.1 has its connection to itself, and no place beside it.
#[test]
fn as_many_may_poll_as_may_connect() {
    const FEW: usize = 4;
    let server = Server::start(&["--max-connections", "4"]);
    let mut polls: Vec<Raw> = (0..FEW).map(|_| Raw::connect(server.address)).collect();
    for poll in &mut polls {
        poll.ask("GET", "/v1/topics/t?wait=2s", &[], "");
    }
    for poll in &mut polls {
        assert_eq!(poll.answer().status, 200);
    }
}
