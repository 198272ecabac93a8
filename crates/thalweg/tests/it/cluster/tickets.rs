//! Tickets, which any node accepts.

use std::{fs, path::Path};

use super::{Nodes, Servers};
use crate::harness::{Response, Server, Transport, request, wait_for};

const TOKENS: [&str; 4] = [
    "--token",
    "subscriber=subscribe-secret,subscribe=**",
    "--token",
    "publisher=publish-secret,subscribe=**,publish=**,inspect=**,admin=true",
];

const TOKEN: (&str, &str) = ("Authorization", "Bearer subscribe-secret");

fn asked_for_a_ticket(node: &Server) -> Response {
    node.ask("POST", "/v1/tickets", &[TOKEN], "")
}

fn ticket_of(answer: &Response) -> Option<String> {
    (answer.status == 200).then(|| answer.json()["ticket"].as_str().expect("a ticket").to_owned())
}

fn is_good(node: &Server, ticket: &str) -> bool {
    let mut socket = node.connect();
    let target = format!("/v1/topics/t?ticket={ticket}");
    socket.send(request("GET", &target, &Transport::WebSocket.headers(), b""));
    socket.response_head().status == 101
}

fn delete_bucket(servers: &Servers) {
    let deleted = servers.ask("$JS.API.STREAM.DELETE.KV_thalweg-tickets").expect("an answer");
    assert_eq!(deleted["success"], true, "{deleted}");
}

#[test]
fn there_are_tickets_again_when_their_bucket_was_deleted() {
    let Some(servers) = Servers::start(1) else { return };
    let arguments = [
        "--token",
        "subscriber=subscribe-secret,subscribe=**",
        "--token",
        "publisher=publish-secret,subscribe=**,publish=**,inspect=**,admin=true",
    ];
    let nodes = Nodes::start_with(&servers, 2, "all=live/**", &arguments);
    let before = ticket_of(&asked_for_a_ticket(nodes.at(0))).expect("a ticket");
    servers.ask("$JS.API.STREAM.DELETE.KV_thalweg-tickets").expect("an answer");
    asked_for_a_ticket(nodes.at(0)).refused(503, "unavailable");
    let ticket = wait_for("a ticket", || ticket_of(&asked_for_a_ticket(nodes.at(0))));
    assert!(!is_good(nodes.at(1), &before));
    assert!(is_good(nodes.at(1), &ticket) && !is_good(nodes.at(0), &ticket));
    nodes.at(0).has_said("the bucket of tickets was deleted");
}

#[test]
fn a_node_without_the_right_to_create_the_bucket_says_so_and_retries() {
    let config =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.conf", std::process::id()));
    let deny = |subjects: &str| {
        let user = format!(
            "{{user: node, password: x, permissions: {{publish: {{deny: [{subjects}]}}}}}}"
        );
        let text = format!("authorization {{ users: [{user}] }}\nno_auth_user: node\n");
        fs::write(&config, text).expect("write a file");
    };
    deny("");
    let arguments = ["-c", config.to_str().expect("a path of text")];
    let Some(mut servers) = Servers::start_with(1, &arguments) else { return };
    let nodes = Nodes::start_with(&servers, 1, "all=live/**", &TOKENS);
    deny("\"$JS.API.STREAM.CREATE.>\"");
    servers.kill(0);
    servers.run(0);
    wait_for("a ticket", || ticket_of(&asked_for_a_ticket(nodes.at(0))));
    delete_bucket(&servers);
    asked_for_a_ticket(nodes.at(0)).refused(503, "unavailable");
    nodes.at(0).has_said("was deleted and cannot be created again (no answer within the timeout)");
    deny("");
    servers.kill(0);
    servers.run(0);
    wait_for("a ticket", || ticket_of(&asked_for_a_ticket(nodes.at(0))));
    let _ = fs::remove_file(&config);
}
