//! Tickets in large numbers.

use crate::harness::{Raw, Server, Transport, request};

const PUBLISH: (&str, &str) = ("Authorization", "Bearer publish-secret");
const SUBSCRIBE: (&str, &str) = ("Authorization", "Bearer subscribe-secret");

/// The number of tickets that a token may have outstanding.
const TICKETS: usize = 10_000;

/// The number of requests that are sent before their responses are read.
const AT_A_TIME: usize = 100;

fn server() -> Server {
    Server::start(&[
        "--token",
        "publisher=publish-secret,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=subscribe-secret,subscribe=**",
    ])
}

/// Requests this many tickets for a token. The oldest comes first.
fn tickets(server: &Server, token: (&str, &str), count: usize) -> Vec<String> {
    let mut raw = Raw::connect(server.address);
    let asked = request("POST", "/v1/tickets", &[token], b"").repeat(AT_A_TIME);
    let mut tickets = Vec::new();
    while tickets.len() < count {
        raw.send(&asked);
        for _ in 0..AT_A_TIME {
            let answer = raw.answer();
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
            let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
            tickets.push(json["ticket"].as_str().expect("a ticket").to_owned());
        }
    }
    tickets
}

fn is_good(server: &Server, ticket: &str) -> bool {
    let mut socket = server.connect();
    let target = format!("/v1/topics/t?ticket={ticket}");
    socket.send(request("GET", &target, &Transport::WebSocket.headers(), b""));
    socket.response_head().status == 101
}

#[test]
fn the_ticket_limit_is_per_token() {
    let server = server();
    let before = tickets(&server, PUBLISH, AT_A_TIME);
    let taken = tickets(&server, SUBSCRIBE, TICKETS + AT_A_TIME);
    // The oldest tickets are invalid.
    assert!(!is_good(&server, &taken[0]) && !is_good(&server, &taken[AT_A_TIME - 1]));
    assert!(is_good(&server, &taken[AT_A_TIME]) && is_good(&server, &taken[TICKETS]));
    let after = tickets(&server, PUBLISH, AT_A_TIME);
    assert!(is_good(&server, &before[0]) && is_good(&server, &after[0]));
    let mut raw = Raw::connect(server.address);
    raw.ask("GET", "/metrics", &[PUBLISH], "");
    let metrics = String::from_utf8(raw.answer().body).expect("text");
    let replaced = crate::harness::metric(&metrics, "thalweg_tickets_replaced_total");
    assert_eq!(replaced, Some(AT_A_TIME as f64));
}
