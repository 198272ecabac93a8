//! Behind common proxies, with the lines of `docs/how-to/proxies.md`.

mod behind;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use behind::PATIENCE_S;
pub(crate) use behind::{Behind, ProxyKind};

use crate::harness::{
    Line, Program, Received, Response, Server, Socket, Subscriber, Transport, request, thalweg,
};

const ROOTS: [&str; 2] = ["", "/live"];

const NAMES: [&str; 5] = ["websocket", "sse", "http-streaming", "forever-frame", "long-polling"];

#[test]
fn nginx_carries_everything() {
    carries_everything(ProxyKind::Nginx);
}

#[test]
fn haproxy_carries_everything() {
    carries_everything(ProxyKind::HAProxy);
}

#[test]
fn caddy_carries_everything() {
    carries_everything(ProxyKind::Caddy);
}

#[test]
fn apache_carries_everything() {
    carries_everything(ProxyKind::Apache);
}

#[test]
fn varnish_carries_everything() {
    carries_everything(ProxyKind::Varnish);
}

/// A subscriber with `thalweg tail`, and the events published for it.
struct Tail {
    program: Program,
    name: &'static str,
    path: String,
    last: u64,
}

impl Tail {
    /// The next event arrives through the proxy before another is published, over the same connection: no part of the path
    /// waits for more data.
    fn exchange(&mut self, behind: &Behind) {
        self.last += 1;
        let event = self.last.to_string();
        ask(behind, "POST", &self.path, &event).published();
        let received = self.program.line();
        let said = self.program.said();
        assert_eq!(received, Some(event), "{}: {said}", self.path);
        assert!(!said.contains("reconnecting"), "{}: {said}", self.path);
    }
}

/// Starts a subscriber of each transport at each root. Each receives some events.
fn tails(behind: &Behind) -> Vec<Tail> {
    let mut tails = Vec::new();
    for (root, name) in ROOTS.iter().flat_map(|root| NAMES.map(|name| (root, name))) {
        let path = format!("{root}/v1/topics/{name}{}", root.replace('/', "-"));
        let url = format!("http://{}{path}", behind.address);
        let arguments = ["tail", &url, "--transport", name, "--from", "earliest"];
        let mut tail = Tail { program: thalweg(&arguments), name, path, last: 0 };
        (0..3).for_each(|_| tail.exchange(behind));
        tails.push(tail);
    }
    tails
}

/// Without heartbeats, which would push out an event that the proxy holds back.
fn holds_nothing_back(kind: ProxyKind) {
    let server = Server::start(&["--heartbeat", "1h"]);
    let Some(behind) = Behind::start(kind, server.address) else { return };
    tails(&behind);
}

fn carries_everything(kind: ProxyKind) {
    holds_nothing_back(kind);
    let server = Server::start(&["--heartbeat", "1s"]);
    let Some(behind) = Behind::start(kind, server.address) else { return };
    let mut tails = tails(&behind);
    // A waiting poll sends no data, so it must be shorter than the timeout of the proxy.
    tails.retain(|tail| tail.name != "long-polling");
    endures_silence(&behind);
    for tail in &mut tails {
        tail.exchange(&behind);
    }
    if kind != ProxyKind::Apache {
        takes_a_request_without_an_end(&behind, &server);
    }
    redirects_a_path_without_slash(&behind);
    shows_the_pages(&behind);
    names_the_client(kind);
    // Caddy trusts no client on this machine: all would be one client.
    if kind != ProxyKind::Caddy {
        is_trusted(kind);
    }
}

fn ask(behind: &Behind, method: &str, target: &str, body: &str) -> Response {
    let mut socket = Socket::connect(behind.address);
    let headers = [("Content-Type", "application/json"), ("Accept", "text/html")];
    socket.send(request(method, target, &headers, body.as_bytes()));
    socket.response()
}

/// Receives only heartbeats for twice the idle timeout of the proxy.
fn endures_silence(behind: &Behind) {
    let line = Line::Http1(behind.address);
    let mut subscriber =
        Subscriber::open(line, Transport::WebSocket, "/live/v1/topics/silence", &[]);
    subscriber.confirmed();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2 * PATIENCE_S) {
        assert!(matches!(subscriber.next(), Received::Heartbeat));
    }
}

/// Each line is appended when it is sent, and not when the request ends.
fn takes_a_request_without_an_end(behind: &Behind, server: &Server) {
    let mut subscriber = server.subscribe(Transport::HttpStreaming, "/fast");
    subscriber.confirmed();
    let url = format!("http://{}/live/v1/topics/fast", behind.address);
    let mut publisher = thalweg(&["pub", &url, "--fast", "--quiet"]);
    for number in 1..=3 {
        publisher.give(&format!("{number}\n"));
        assert_eq!(subscriber.envelope().events, [number]);
    }
    let (status, said) = publisher.end();
    assert!(status.success(), "{said}");
}

fn redirects_a_path_without_slash(behind: &Behind) {
    let answer = ask(behind, "GET", "/live", "");
    assert!(matches!(answer.status, 301 | 302 | 307 | 308), "{answer:?}");
    let to = answer.header("location").expect("where it is");
    assert!(to.ends_with("/live/"), "{to}");
}

/// Requests the document and all its files, below a path.
fn shows_the_pages(behind: &Behind) {
    let document = ask(behind, "GET", "/live/", "");
    assert_eq!(document.status, 200);
    for path in super::pages::references(&document.text()) {
        assert_eq!(ask(behind, "GET", &format!("/live{path}"), "").status, 200, "{path}");
    }
}

/// Checks the head that a server receives: with its own path, the client's `Host`, and the client's address
/// as the proxy sees it, in place of the client's claim or after it.
fn names_the_client(kind: ProxyKind) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let Some(behind) = Behind::start(kind, server.local_addr().expect("its address")) else {
        return;
    };
    let mut client = Socket::connect(behind.address);
    let claimed = vec![("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-Proto", "https")];
    let headers = [Transport::WebSocket.headers(), claimed].concat();
    client.send(request("GET", "/live/v1/topics/cars?cursor=latest", &headers, b""));
    let (server, _) = server.accept().expect("the proxy");
    let lines = BufReader::new(server).lines().map(|line| line.expect("a line"));
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    assert_eq!(head[0], "GET /v1/topics/cars?cursor=latest HTTP/1.1");
    let values = |name: &str| -> Vec<&str> {
        let fields = head[1..].iter().filter_map(|line| line.split_once(':'));
        let fields = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        fields.flat_map(|(_, value)| value.split(',').map(str::trim)).collect()
    };
    assert_eq!(values("X-Forwarded-For").last(), Some(&"127.0.0.1"), "{head:?}");
    assert_eq!(values("X-Forwarded-Proto"), ["http"], "{head:?}");
    assert_eq!(values("Host"), ["localhost"], "{head:?}");
    assert!(
        values("Upgrade").iter().any(|value| value.eq_ignore_ascii_case("websocket")),
        "{head:?}"
    );
    assert!(
        values("Connection").iter().any(|value| value.eq_ignore_ascii_case("upgrade")),
        "{head:?}"
    );
}

/// A server that trusts the proxy counts each client separately.
fn is_trusted(kind: ProxyKind) {
    let trust = ["--trusted-proxy", "127.0.0.1", "--set", "limits.connections-per-address=1"];
    let server = Server::start(&trust);
    let Some(behind) = Behind::start(kind, server.address) else { return };
    // On this machine the client of the proxy is a trusted proxy as well.
    let subscribe = |client: &str| {
        let mut socket = Socket::connect(behind.address);
        let asked = [Transport::Sse.headers(), vec![("X-Forwarded-For", client)]].concat();
        socket.send(request("GET", "/live/v1/topics/cars", &asked, b""));
        (socket.response_head().status, socket)
    };
    let (first, _kept) = subscribe("192.0.2.1");
    let (second, _) = subscribe("192.0.2.1");
    let (other, _) = subscribe("192.0.2.2");
    assert_eq!([first, second, other], [200, 429, 200]);
}
