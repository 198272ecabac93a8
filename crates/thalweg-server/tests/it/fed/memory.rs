//! The broker in memory, which several servers share.

use thalweg_broker_tests::memory;
use thalweg_server::broker::BrokerService;

use crate::running::{Running, wait_for};

pub(crate) use memory::{Fault, Streams};

/// One server's end of the streams.
pub(crate) fn broker(streams: &Streams) -> BrokerService {
    BrokerService::open(async { Ok(streams.broker()) }).expect("a broker")
}

/// Waits until these nodes together have this many subscribers.
pub(crate) fn until_subscribed(nodes: &[Running], count: usize) {
    let of_line = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse::<usize>().ok());
    let at = |node: &Running| -> usize {
        let metrics = node.get("/metrics", &[]);
        let lines =
            metrics.text().lines().filter(|line| line.starts_with("thalweg_subscribed_total{"));
        lines.filter_map(of_line).sum()
    };
    wait_for(&format!("{count} subscribers"), || {
        (nodes.iter().map(at).sum::<usize>() >= count).then_some(())
    });
}
