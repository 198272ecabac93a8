//! Behind HAProxy with the configuration in `deploy/`: any node serves any request.

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Nodes, Servers, wait_for};
use crate::{
    harness::{Line, Received, Response, Server, Socket, Subscriber, Transport, request},
    proxies::{Behind, ProxyKind},
    vanishing::Network,
};

const TOKENS: [&str; 6] = [
    "--token",
    "publisher=publish-secret,subscribe=**,publish=**,inspect=**,admin=true",
    "--token",
    "subscriber=subscribe-secret,subscribe=**",
    "--token",
    "inspector=inspect-secret,inspect=**",
];
const PUBLISHER: (&str, &str) = ("Authorization", "Bearer publish-secret");
const SUBSCRIBER: (&str, &str) = ("Authorization", "Bearer subscribe-secret");
const INSPECTOR: (&str, &str) = ("Authorization", "Bearer inspect-secret");
const WRONG: (&str, &str) = ("Authorization", "Bearer wrong-secret");

/// The lifetime of a ticket. By the clock of NATS it is at most this much longer.
const TICKET_LIFE_S: u64 = 30;
const LATE_S: u64 = 3;

/// Starts HAProxy in front of three nodes. Returns `None`, and notes that, if it is not installed.
fn balancer(nodes: &Nodes) -> Option<Behind> {
    balancer_before([0, 1, 2].map(|nth| nodes.at(nth).address))
}

fn balancer_before(nodes: [SocketAddr; 3]) -> Option<Behind> {
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/haproxy.cfg");
    Behind::start_by(ProxyKind::HAProxy, |program, address| {
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(&configuration).env("BIND", address.to_string());
        for (address, name) in nodes.iter().zip(["NODE1", "NODE2", "NODE3"]) {
            command.env(name, address.to_string());
        }
        command
    })
}

fn ask(
    to: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut socket = Socket::connect(to);
    socket.send(request(method, target, headers, body.as_bytes()));
    socket.response()
}

fn publish(to: SocketAddr, event: &str, headers: &[(&str, &str)]) -> Response {
    let headers = [headers, &[("Content-Type", "application/json")]].concat();
    ask(to, "POST", "/v1/topics/cars", &headers, event)
}

fn ticket(to: SocketAddr, token: (&str, &str)) -> String {
    let answer = ask(to, "POST", "/v1/tickets", &[token], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["ticket"].as_str().expect("a ticket").to_owned()
}

/// Returns the response to a subscription with this ticket.
fn redeem(to: SocketAddr, ticket: &str, transport: Transport) -> u16 {
    let mut socket = Socket::connect(to);
    let named = transport.query().map(|named| format!("&{named}")).unwrap_or_default();
    let target = format!("/v1/topics/cars?ticket={ticket}{named}");
    socket.send(request("GET", &target, &transport.headers(), b""));
    socket.response_head().status
}

/// Returns the list of topics, without the numbers of subscribers, which are separate per node.
fn list(to: SocketAddr) -> Value {
    let mut list = ask(to, "GET", "/v1/topics", &[INSPECTOR], "").json();
    for topic in list["topics"].as_array_mut().expect("topics") {
        topic.as_object_mut().expect("a topic").remove("subscribers");
    }
    list
}

#[test]
fn tickets_and_tokens_are_good_at_every_node() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = Nodes::start_with(&servers, 3, "all=**", &TOKENS);
    let Some(balancer) = balancer(&nodes) else { return };
    let (expiring, issued) = (ticket(balancer.address, SUBSCRIBER), Instant::now());
    let all = [0, 1, 2].map(|nth| nodes.at(nth).address);

    // Tokens are valid at every node and through HAProxy.
    for (nth, to) in all.into_iter().chain([balancer.address; 6]).enumerate() {
        let event = nth.to_string();
        assert_eq!(publish(to, &event, &[PUBLISHER]).status, 200);
        publish(to, &event, &[SUBSCRIBER]).refused(403, "forbidden");
        for wrong in [&[WRONG][..], &[]] {
            publish(to, &event, wrong).refused(401, "unauthorized");
        }
        let read = |token| ask(to, "GET", "/v1/topics/cars?limit=1", &[token], "").status;
        assert_eq!([SUBSCRIBER, WRONG, INSPECTOR].map(read), [200, 401, 403]);
    }
    // All have the same list.
    let first = wait_for("nine events", || {
        let list = list(all[0]);
        (list["topics"][0]["events"] == 9).then_some(list)
    });
    for to in all.into_iter().chain([balancer.address; 3]) {
        wait_for("the same list", || (list(to) == first).then_some(()));
    }

    // One request issues a ticket at one node, and another presents it at the next node.
    for transport in Transport::ALL {
        let ticket = ticket(balancer.address, SUBSCRIBER);
        let opened = if transport == Transport::WebSocket { 101 } else { 200 };
        assert_eq!(redeem(balancer.address, &ticket, transport), opened, "{transport:?}");
        for to in all.into_iter().chain([balancer.address]) {
            assert_eq!(redeem(to, &ticket, transport), 401, "{transport:?}");
        }
    }
    // If many requests present a ticket at the same instant, through different nodes, one succeeds.
    for _ in 0..20 {
        let ticket = &ticket(balancer.address, SUBSCRIBER);
        let statuses: Vec<u16> = thread::scope(|scope| {
            let redeem = |to| scope.spawn(move || redeem(to, ticket, Transport::Sse));
            let both = [all, [balancer.address; 3]].concat();
            let redeeming: Vec<_> = both.into_iter().map(redeem).collect();
            redeeming.into_iter().map(|thread| thread.join().expect("a status")).collect()
        });
        let count = |status| statuses.iter().filter(|found| **found == status).count();
        assert_eq!((count(200), count(401)), (1, 5), "{statuses:?}");
    }
    // A ticket has its token's rights.
    let publishers = ticket(balancer.address, PUBLISHER);
    let target = format!("/v1/topics/cars?ticket={publishers}");
    let json = [("Content-Type", "application/json")];
    assert_eq!(ask(balancer.address, "POST", &target, &json, "9").status, 200);
    ask(balancer.address, "POST", &target, &json, "9").refused(401, "unauthorized");
    // An invalid ticket is refused at once, and one that was never issued after a look-up.
    for garbage in ["nonsense", &"0".repeat(32)] {
        assert_eq!(redeem(balancer.address, garbage, Transport::Sse), 401);
    }

    let life = Duration::from_secs(TICKET_LIFE_S + LATE_S);
    thalweg_testing::let_pass(life.saturating_sub(issued.elapsed()));
    assert_eq!(redeem(balancer.address, &expiring, Transport::Sse), 401, "it has expired");
}

#[test]
fn without_nats_the_nodes_serve_their_history() {
    let Some(mut servers) = Servers::start(1) else { return };
    let nodes = Nodes::start(&servers, 3);
    let Some(balancer) = balancer(&nodes) else { return };
    let to = balancer.address;
    let first = publish(to, "0", &[]).published().position;
    for event in 1..3 {
        assert_eq!(publish(to, &event.to_string(), &[]).status, 200);
    }
    let hear = || {
        let path = format!("/v1/topics/cars?cursor={first}");
        let mut subscriber = Subscriber::open(Line::Http1(to), Transport::WebSocket, &path, &[]);
        subscriber.confirmed();
        let mut events = Vec::new();
        while events.len() < 2 {
            events.extend(subscriber.envelope().events);
        }
        events
    };
    assert_eq!(hear(), [1, 2]);

    servers.kill(0);
    let ready = |nth| nodes.at(nth).get("/readyz").status;
    wait_for("not ready", || ([0, 1, 2].map(ready) == [503; 3]).then_some(()));
    // For a moment HAProxy has no node; then it uses those that run.
    let target = format!("/v1/topics/cars?limit=9&cursor={first}");
    let read = || ask(to, "GET", &target, &[], "");
    wait_for("a node that is asked", || (read().status == 200).then_some(()));
    for _ in 0..6 {
        assert_eq!(read().json()["events"], serde_json::json!([1, 2]));
    }
    assert_eq!(hear(), [1, 2]);
    publish(to, "3", &[]).refused(503, "unavailable");

    servers.run(0);
    nodes.await_ready();
    wait_for("stored", || (publish(to, "4", &[]).status == 200).then_some(()));
}

/// The packets to a node are lost without notice. Without a bound HAProxy waits for 75 s.
#[test]
fn clients_of_a_machine_that_dies_are_told() {
    let Some(network) = Network::new(2) else { return };
    let nodes = [network.serve(&[]), Server::start(&[]), Server::start(&[])];
    let mut addresses = nodes.each_ref().map(|node| node.address);
    addresses[0].set_ip(network.cut().into());
    let Some(balancer) = balancer_before(addresses) else { return };
    let to = Line::Http1(balancer.address);
    let subscribe = |_| Subscriber::open(to.clone(), Transport::Sse, "/v1/topics/t", &[]);
    let mut subscribers: Vec<_> = (0..3).map(subscribe).collect();
    subscribers.iter_mut().for_each(|subscriber| drop(subscriber.confirmed()));
    // One event per node: without NATS an event reaches only subscribers of its node.
    for (node, number) in nodes.iter().zip(0..) {
        node.publish("t", number..number + 1);
    }
    let mut of_nodes: Vec<_> = subscribers
        .into_iter()
        .map(|mut subscriber| (subscriber.numbers(1).0[0], subscriber))
        .collect();
    of_nodes.sort_by_key(|(number, _)| *number);
    network.drop_packets();
    assert_eq!(of_nodes.remove(0).1.next(), Received::End);
    for (node, (_, subscriber)) in nodes[1..].iter().zip(&mut of_nodes) {
        node.publish("t", 3..4);
        assert_eq!(subscriber.numbers(1).0, [3]);
    }
}
