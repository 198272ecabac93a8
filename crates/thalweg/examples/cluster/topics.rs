//! A million topics in a stream. Each of two nodes has a thousand of them with subscribers: the memory of the
//! nodes, compared with their bound.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{http::Subscriber, nats::Nats, nodes::Node, servers::Servers, wait_for};

const MAX_HISTORY_BYTES: u64 = 256 << 20;
const NODES: usize = 2;
/// The number of topics with subscribers on each node, distributed among the others.
const SUBSCRIBED: usize = 1000;
const TOPICS_PER_CONNECTION: usize = 10;
const EVENT_BYTES: usize = 128;

pub(crate) fn run(topics: u64) -> Option<Value> {
    let servers = Servers::start(1)?;
    let history = format!("limits.history-bytes={MAX_HISTORY_BYTES}");
    let nodes: Vec<Node> =
        (0..NODES).map(|_| Node::start(&servers, &["--set", &history])).collect();
    let step = (topics / (NODES * SUBSCRIBED) as u64).max(1);
    let mut subscribers = Vec::new();
    let mut first = 0;
    for node in &nodes {
        for _ in 0..SUBSCRIBED / TOPICS_PER_CONNECTION {
            let names = (0..TOPICS_PER_CONNECTION as u64).map(|_| {
                let name = format!("topic=t/{first}");
                first += step;
                name
            });
            let target = format!("?{}", names.collect::<Vec<_>>().join("&"));
            subscribers.push(Subscriber::open(node.address, &target).expect("a node"));
        }
    }
    for subscriber in &mut subscribers {
        for _ in 0..TOPICS_PER_CONNECTION {
            subscriber.envelope().expect("a confirmation");
        }
    }
    let (begun, mut samples) = (Instant::now(), Vec::new());
    let each = |name: &str| nodes.iter().map(|node| node.metric(name)).collect::<Vec<_>>();
    let sample = |published: u64, samples: &mut Vec<Value>| {
        samples.push(json!({
            "at_ms": begun.elapsed().as_millis() as u64, "published": published,
            "rss_bytes": nodes.iter().map(Node::rss_bytes).collect::<Vec<_>>(),
            "lag": each("thalweg_nats_lag"),
            "topics": each("thalweg_topics{shard=\"0\"}"),
            "history_bytes": each("thalweg_history_bytes{shard=\"0\"}"),
        }));
    };
    sample(0, &mut samples);
    let mut nats = Nats::open(&servers.urls()[0]).expect("NATS");
    let pad = "x".repeat(EVENT_BYTES - 28);
    let mut sampled = Instant::now();
    for topic in 0..topics {
        nats.publish(&format!("t.{topic}"), &format!("{{\"n\":{topic},\"pad\":\"{pad}\"}}"))
            .expect("NATS");
        if sampled.elapsed() > Duration::from_secs(1) {
            sampled = Instant::now();
            sample(topic, &mut samples);
        }
    }
    nats.settle(0).expect("NATS");
    wait_for("the nodes have caught up", || {
        nodes
            .iter()
            .all(|node| node.metric("thalweg_nats_messages_total") == Some(topics as f64))
            .then_some(())
    });
    sample(topics, &mut samples);
    // Each topic with a subscriber has received its event.
    let mut received = 0;
    for subscriber in &mut subscribers {
        for _ in 0..TOPICS_PER_CONNECTION {
            subscriber.events().expect("an event");
            received += 1;
        }
    }
    let rss_max =
        samples.iter().flat_map(|sample| sample["rss_bytes"].as_array().cloned()).flatten();
    Some(json!({
        "what": "topics of one event each, a thousand with subscribers on each of two nodes",
        "topics": topics,
        "subscribed_per_node": SUBSCRIBED,
        "event_bytes": EVENT_BYTES,
        "max_history_bytes": MAX_HISTORY_BYTES,
        "received": received,
        "rss_bytes_max": rss_max.filter_map(|bytes| bytes.as_u64()).max(),
        "samples": samples,
    }))
}
