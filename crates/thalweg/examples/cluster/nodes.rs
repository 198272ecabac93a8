//! Nodes on this machine, which end when their value is dropped.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{http, servers::Servers, wait_for};

/// The stream of all topics.
const STREAM: &str = "all";

/// A running node.
pub(crate) struct Node {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Node {
    /// Starts a node with further arguments, and waits until it is ready.
    pub(crate) fn start(servers: &Servers, arguments: &[&str]) -> Node {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("a port");
        drop(listener);
        let stream = format!("{STREAM}=**,replicas={}", servers.urls().len());
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", &address.to_string(), "--shards", "1"]);
        command.args(["--nats", &servers.urls().join(","), "--stream", &stream, "--log", "error"]);
        let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let node = Node { child: child.expect("start a node"), address };
        wait_for("a node that is ready", || (node.readiness() == 200).then_some(()));
        node
    }

    /// Returns the status of `/readyz`, or 0 without a response.
    pub(crate) fn readiness(&self) -> u16 {
        http::get(self.address, "/readyz").map_or(0, |(status, _)| status)
    }

    /// Returns a number of `/metrics`, or `None` if the node does not answer in time.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = http::get(self.address, "/metrics").ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value?.trim().parse().ok()
    }

    /// Resident memory, bytes.
    pub(crate) fn rss_bytes(&self) -> u64 {
        let path = format!("/proc/{}/statm", self.child.id());
        let text = fs::read_to_string(path).unwrap_or_default();
        let pages: u64 = text.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
        pages * rustix::param::page_size() as u64
    }

    /// Stops the node, or lets it continue.
    pub(crate) fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.child), signal).expect("signal a node");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail only if the node has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary() -> PathBuf {
    std::env::var_os("THALWEG_BIN").map_or_else(beside, PathBuf::from)
}

/// `target/release/thalweg` of `target/release/examples/cluster`.
fn beside() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    own.parent().and_then(|folder| folder.parent()).expect("a folder").join("thalweg")
}
