//! A node dies, and its subscribers resume at the two others: the number of backfilled events, if these nodes
//! have the history (warm), and if they have just started without it (cold).

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::{
    http::{self, Subscriber},
    nats::Nats,
    nodes::Node,
    servers::Servers,
    wait_for,
};

const TOPICS: usize = 45;
/// The history of a node that starts cold.
const COLD_HISTORY: &str = "**,history-age=1s";

pub(crate) fn run(subscribers: u64) -> Option<Value> {
    let limit = getrlimit(Resource::Nofile);
    // The nodes inherit the limit. If it is too low, a connection fails with an error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let warm = resume(subscribers as usize, false)?;
    let cold = resume(subscribers as usize, true)?;
    Some(json!({
        "what": "subscribers of a dead node resume at two others",
        "subscribers": subscribers,
        "topics": TOPICS,
        "warm": warm,
        "cold": cold,
    }))
}

fn resume(count: usize, is_cold: bool) -> Option<Value> {
    let servers = Servers::start(1)?;
    let mut nodes: Vec<Node> = (0..3).map(|_| Node::start(&servers, &[])).collect();
    let mut nats = Nats::open(&servers.urls()[0]).expect("NATS");
    publish(&mut nats, 1);
    let target = |index: usize| format!("/r/{}", index % TOPICS);
    let dying = nodes.remove(0);
    let open = |index| {
        let target = format!("{}?cursor=earliest", target(index));
        Subscriber::open(dying.address, &target).expect("a node")
    };
    let mut subscribers: Vec<Subscriber> = (0..count).map(open).collect();
    let positions = subscribers.iter_mut().map(|subscriber| {
        let envelope = subscriber.events().expect("an event");
        http::position(envelope).expect("a position").to_owned()
    });
    let positions: Vec<String> = positions.collect();
    publish(&mut nats, 2);
    drop(dying);
    drop(subscribers);
    if is_cold {
        // This is longer than their history.
        thread::sleep(Duration::from_secs(3));
        nodes = (0..2).map(|_| Node::start(&servers, &["--topic", COLD_HISTORY])).collect();
    }
    let messages = nodes.iter().map(|node| node.metric("thalweg_nats_messages_total"));
    let messages: Vec<_> = messages.collect();
    let pages = |nodes: &[Node]| -> Vec<f64> {
        let of = |node: &Node| wait_for("metrics", || node.metric("thalweg_nats_pages_total"));
        nodes.iter().map(of).collect()
    };
    let before = pages(&nodes);
    let begun = Instant::now();
    let open = |(index, position): (usize, &String)| {
        let target = format!("{}?cursor={position}", target(index));
        Subscriber::open(nodes[index % 2].address, &target).expect("a node")
    };
    let mut resumed: Vec<Subscriber> = positions.iter().enumerate().map(open).collect();
    let (mut gaps, mut wrong, mut served_ms) = (0, 0, Vec::new());
    for subscriber in &mut resumed {
        loop {
            let envelope = subscriber.envelope().expect("an envelope");
            if envelope.contains("\"gap\":{") {
                gaps += 1;
                break;
            }
            if envelope.contains("\"events\":[{") {
                wrong += u64::from(!envelope.contains("\"events\":[{\"n\":2}]"));
                break;
            }
        }
        served_ms.push(begun.elapsed().as_millis() as u64);
    }
    let pages: Vec<f64> = pages(&nodes).iter().zip(before).map(|(now, was)| now - was).collect();
    Some(json!({
        "messages_read_before": messages,
        "pages_of_each_node": pages,
        "gaps": gaps,
        "wrong": wrong,
        "all_served_ms": served_ms.iter().max(),
        "served_ms": served_ms,
    }))
}

fn publish(nats: &mut Nats, number: u64) {
    for topic in 0..TOPICS {
        nats.publish(&format!("r.{topic}"), &format!("{{\"n\":{number}}}")).expect("NATS");
    }
    nats.settle(0).expect("NATS");
}
