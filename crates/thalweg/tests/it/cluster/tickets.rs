//! Tickets, which any node takes.

use super::{Nodes, Servers};
use crate::harness::{Response, Server, Transport, request, wait_for};

const TOKEN: (&str, &str) = ("Authorization", "Bearer subscribe-secret");

fn asked_for_a_ticket(node: &Server) -> Response {
    node.ask("POST", "/v1/tickets", &[TOKEN], "")
}

/// The ticket in an answer.
fn ticket_of(answer: &Response) -> Option<String> {
    (answer.status == 200).then(|| answer.json()["ticket"].as_str().expect("a ticket").to_owned())
}

/// Whether a ticket opens a WebSocket.
fn is_good(node: &Server, ticket: &str) -> bool {
    let mut socket = node.connect();
    let target = format!("/v1/topics/t?ticket={ticket}");
    socket.send(request("GET", &target, &Transport::WebSocket.headers(), b""));
    socket.response_head().status == 101
}

#[test]
fn there_are_tickets_again_when_their_bucket_was_deleted() {
    let Some(servers) = Servers::start(1) else { return };
    let arguments = ["--subscribe-token", "subscribe-secret", "--publish-token", "publish-secret"];
    let nodes = Nodes::start_with(&servers, 2, "all=live/**", &arguments);
    let before = ticket_of(&asked_for_a_ticket(nodes.at(0))).expect("a ticket");
    servers.ask("$JS.API.STREAM.DELETE.KV_thalweg-tickets").expect("an answer");
    asked_for_a_ticket(nodes.at(0)).refused(503, "unavailable");
    let ticket = wait_for("a ticket", || ticket_of(&asked_for_a_ticket(nodes.at(0))));
    assert!(!is_good(nodes.at(1), &before));
    assert!(is_good(nodes.at(1), &ticket) && !is_good(nodes.at(0), &ticket));
    nodes.at(0).has_said("the bucket of tickets was deleted");
}
