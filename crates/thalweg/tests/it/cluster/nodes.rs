use std::{
    net::SocketAddr,
    sync::{Arc, RwLock},
};

use super::Servers;
use crate::harness::{Server, wait_for};

/// Thalweg servers that share a stream of all topics.
pub(super) struct Nodes {
    arguments: Vec<String>,
    running: Vec<Option<Server>>,
    addresses: Addresses,
}

#[derive(Clone, Default)]
pub(super) struct Addresses(Arc<RwLock<Vec<Option<SocketAddr>>>>);

impl Addresses {
    /// Returns any of them, and its number.
    pub(super) fn any(&self, rng: &mut fastrand::Rng) -> (usize, SocketAddr) {
        let running = self.running();
        running[rng.usize(..running.len())]
    }

    /// Returns three addresses, all different if three nodes run.
    pub(super) fn three(&self, rng: &mut fastrand::Rng) -> [SocketAddr; 3] {
        let mut running = self.running();
        rng.shuffle(&mut running);
        [0, 1, 2].map(|nth| running[nth % running.len()].1)
    }

    fn running(&self) -> Vec<(usize, SocketAddr)> {
        let addresses = self.0.read().expect("addresses");
        (0..).zip(addresses.iter()).filter_map(|(nth, it)| Some((nth, (*it)?))).collect()
    }
}

impl Nodes {
    pub(super) fn start(servers: &Servers, count: usize) -> Self {
        Self::start_with(servers, count, "all=**", &[])
    }

    pub(super) fn start_with(servers: &Servers, count: usize, stream: &str, more: &[&str]) -> Self {
        let stream = format!("{stream},replicas={}", servers.count());
        let arguments = ["--nats", &servers.urls().join(","), "--stream", &stream, "--log", "warn"];
        let arguments = arguments.iter().chain(more).map(|argument| (*argument).to_owned());
        let mut nodes = Self {
            arguments: arguments.collect(),
            running: (0..count).map(|_| None).collect(),
            addresses: Addresses::default(),
        };
        nodes.addresses.0.write().expect("addresses").resize(count, None);
        (0..count).for_each(|nth| nodes.run(nth));
        nodes
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    pub(super) fn at(&self, nth: usize) -> &Server {
        self.running[nth].as_ref().expect("it runs")
    }

    pub(super) fn run(&mut self, nth: usize) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let server = Server::start(&arguments);
        let address = server.address;
        self.running[nth] = Some(server);
        self.await_ready();
        self.addresses.0.write().expect("addresses")[nth] = Some(address);
    }

    pub(super) fn kill(&mut self, nth: usize) {
        self.running[nth].take().expect("it runs").kill();
        self.addresses.0.write().expect("addresses")[nth] = None;
    }

    /// Starts the shutdown of a node, which completes requests in flight.
    pub(super) fn drain(&mut self, nth: usize) {
        self.addresses.0.write().expect("addresses")[nth] = None;
        let mut server = self.running[nth].take().expect("it runs");
        server.terminate();
        assert!(server.exit().success(), "an orderly end");
    }

    pub(super) fn await_ready(&self) {
        for server in self.running.iter().flatten() {
            wait_for("a node that is ready", || {
                (server.get("/readyz").status == 200).then_some(())
            });
        }
    }
}
