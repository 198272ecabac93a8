//! Peers that disappear: their machine or network fails, and no packet reports it.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use thalweg_testing::skipped;

use crate::harness::{Http2, Line, Raw, Server, Subscriber, Transport};

/// A separate network, in which a server has two addresses: the packets to one can be dropped, and the other
/// one serves metrics. Dropping the value removes the network.
pub(crate) struct Network {
    name: String,
    cut: Ipv4Addr,
    whole: Ipv4Addr,
}

impl Network {
    /// Returns `None` on a machine where the test may not create one.
    pub(crate) fn new(number: u8) -> Option<Self> {
        let id = std::process::id();
        let name = format!("thalweg-{id}-{number}");
        let [third, fourth] = [(id >> 6) as u8, ((id << 2) as u8) & 0xfc];
        // A part of 198.18.0.0/15, which is for tests of networks (RFC 2544).
        let address = |last: u8| Ipv4Addr::new(198, 18 + (number & 1), third, fourth | last);
        let network = Self { name, cut: address(2), whole: address(3) };
        let (outer, inner) = (format!("tw{id}a{number}"), format!("tw{id}b{number}"));
        let Self { name, cut, whole } = &network;
        let own = address(1);
        let steps = [
            format!("netns add {name}"),
            format!("link add name {outer} type veth peer name {inner}"),
            format!("link set {inner} netns {name}"),
            format!("address add {own}/32 dev {outer}"),
            format!("link set {outer} up"),
            format!("-n {name} link set lo up"),
            format!("-n {name} address add {cut}/32 dev {inner}"),
            format!("-n {name} address add {whole}/32 dev {inner}"),
            format!("-n {name} link set {inner} up"),
            format!("route add {cut}/32 dev {outer} src {own}"),
            format!("route add {whole}/32 dev {outer} src {own}"),
            format!("-n {name} route add {own}/32 dev {inner}"),
        ];
        match steps.iter().all(|step| ip(step)) {
            true => Some(network),
            false => {
                skipped("this machine does not let a test make a network of its own");
                None
            }
        }
    }

    pub(crate) fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_thalweg"), "serve"]);
        let all = [
            &[
                "--listen",
                "0.0.0.0:0",
                "--token",
                "everybody,subscribe=**,publish=**",
                "--token",
                "inspector=t,inspect=**",
            ],
            arguments,
        ]
        .concat();
        let mut server = Server::start_by(&mut command, &all, Stdio::piped());
        server.address = SocketAddr::from((self.whole, server.address.port()));
        server
    }

    pub(crate) fn cut(&self) -> Ipv4Addr {
        self.cut
    }

    pub(crate) fn drop_packets(&self) {
        assert!(ip(&format!("route replace blackhole {}/32", self.cut)), "drop packets");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&format!("route del blackhole {}/32", self.cut));
        ip(&format!("netns del {}", self.name));
    }
}

fn ip(arguments: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Without a bound the kernel retries for 15 minutes.
#[test]
fn subscribers_that_vanish_are_gone_after_a_heartbeat_and_the_timeout() {
    let Some(network) = Network::new(0) else { return };
    let timeouts =
        ["--heartbeat", "1s", "--set", "limits.peer-timeout=2s", "--write-timeout", "1h"];
    let server = network.serve(&timeouts);
    let cut = SocketAddr::from((network.cut, server.address.port()));
    let mut streams = Vec::new();
    for transport in Transport::ALL {
        if transport == Transport::LongPolling {
            continue;
        }
        let mut stream = Subscriber::open(Line::Http1(cut), transport, "/v1/topics/t", &[]);
        stream.confirmed();
        streams.push(stream);
    }
    let line = Line::Http2(Http2::connect(cut));
    let mut stream = Subscriber::open(line, Transport::Sse, "/v1/topics/t", &[]);
    stream.confirmed();
    streams.push(stream);
    server.await_connections(streams.len());
    network.drop_packets();
    server.await_connections(0);
    let count = streams.len() as f64;
    server.await_metric("thalweg_peers_vanished_total", |vanished| vanished == count);
}

/// The server sends no data to clients that wait or send, so the kernel probes them.
#[test]
fn others_that_vanish_are_gone_after_the_timeout() {
    let Some(network) = Network::new(1) else { return };
    let timeouts = [
        "--heartbeat",
        "1h",
        "--set",
        "limits.peer-timeout=2s",
        "--write-timeout",
        "1h",
        "--set",
        "limits.keep-alive-timeout=1h",
    ];
    let server = network.serve(&timeouts);
    let cut = SocketAddr::from((network.cut, server.address.port()));
    // A long poll, an idle publisher of lines, and a connection without a request.
    let mut poll = Raw::connect(cut);
    poll.ask("GET", "/v1/topics/t?wait=5m", &[], "");
    let mut publisher = Raw::connect(cut);
    publisher.send(
        "POST /v1/topics/t HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\n1\n\r\n",
    );
    let mut idle = Raw::connect(cut);
    idle.ask("GET", "/healthz", &[], "");
    assert_eq!(idle.answer().status, 200);
    server.await_connections(1);
    server.await_metric("thalweg_events_published_total", |published| published == 1.0);
    network.drop_packets();
    server.await_connections(0);
    server.await_metric("thalweg_peers_vanished_total", |vanished| vanished == 3.0);
}
