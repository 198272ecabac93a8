//! The binary under test.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::{
    Http2, Line, Published, Response, Socket, Subscriber, Transport, receive, request, try_receive,
    wait_for, wait_for_value,
};

const LISTENING: &str = "listening on ";

/// Trusts the test as a proxy, and shows its metrics to the harness.
pub(crate) const TRUSTED: [&str; 4] =
    ["--trusted-proxy", "127.0.0.1", "--token", "inspector=inspect-secret,inspect=**"];

/// Clients without a token may subscribe and publish, as they may on a server without tokens.
pub(crate) const OPEN: [&str; 2] = ["--token", "everybody,subscribe=**,publish=**"];

/// A token with all rights, `publish-secret-1234567890`; other clients may subscribe and inspect.
pub(crate) const PUBLISHER: [&str; 4] = [
    "--token",
    "publisher=publish-secret-1234567890,subscribe=**,publish=**,inspect=**,admin=true",
    "--token",
    "everybody,subscribe=**,inspect=**",
];

/// A client that reads nothing is stalled soon: after 500 ms, and with small buffers.
pub(crate) const STALLS_SOON: [&str; 6] = [
    "--write-timeout",
    "500ms",
    "--set",
    "tuning.unsent-bytes=4KiB",
    "--set",
    "tuning.send-buffer-bytes=64KiB",
];

/// A running `thalweg serve`. Dropping it stops it, and fails if it does not stop.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(super) pid: Pid,
    /// Locked, so that the threads of a test may share the server.
    exit: Mutex<Receiver<ExitStatus>>,
    has_exited: bool,
    inspect_token: Option<String>,
    pub(super) log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts a server on a free port. It has one shard, unless `arguments` set another number.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        Self::start_by(command.arg("serve"), arguments, Stdio::piped())
    }

    /// Does the same through a command that becomes the server, with another stderr.
    pub(crate) fn start_by(command: &mut Command, arguments: &[&str], stderr: Stdio) -> Self {
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !arguments.contains(&"--shards") {
            command.args(["--shards", "1"]);
        }
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("start the binary");
        let pid = Pid::from_child(&child);
        let log = Arc::new(Mutex::new(String::new()));
        let (sender, addresses) = channel();
        keep(child.stdout.take().expect("its stdout"), Arc::clone(&log), Some(sender));
        if let Some(stderr) = child.stderr.take() {
            keep(stderr, Arc::clone(&log), None);
        }
        let exit = Mutex::new(watch(child));
        let address = receive(&addresses, "the server to listen").unwrap_or_else(|| {
            let log = log.lock().expect("the log");
            panic!("{arguments:?}: ended without a line {LISTENING}…; it said: {log}")
        });
        let inspector = arguments.iter().find_map(|value| value.strip_prefix("inspector="));
        let inspector = inspector.and_then(|token| token.split(',').next());
        let inspect_token = inspector.map(|secret| format!("Bearer {secret}"));
        Self { address, pid, exit, has_exited: false, inspect_token, log }
    }

    pub(crate) fn admin_address(&self) -> SocketAddr {
        wait_for("the admin address", || {
            let log = self.log.lock().expect("the log");
            let url = log.lines().find_map(|line| line.strip_prefix("metrics "))?.trim();
            url.strip_prefix("http://")?.strip_suffix("/metrics")?.parse().ok()
        })
    }

    pub(crate) fn connect(&self) -> Socket {
        Socket::connect(self.address)
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Response {
        let mut socket = self.connect();
        // A response to HEAD ends, for this reader, with the connection.
        let close: &[_] = if method == "HEAD" { &[("Connection", "close")] } else { &[] };
        let headers = [headers, close].concat();
        socket.send_if_open(request(method, target, &headers, body.as_ref()));
        socket.response()
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, &[], "")
    }

    pub(crate) fn post(&self, topic: &str, content_type: &str, body: impl AsRef<[u8]>) -> Response {
        let target = format!("/v1/topics/{topic}");
        self.ask("POST", &target, &[("Content-Type", content_type)], body)
    }

    /// Publishes numbered events: the value is the number.
    pub(crate) fn publish(&self, topic: &str, numbers: Range<u64>) -> Published {
        let lines: String = numbers.map(|number| format!("{number}\n")).collect();
        self.post(topic, "application/x-ndjson", lines).published()
    }

    /// Subscribes to `target`, the part of the path after `/v1/topics`.
    pub(crate) fn subscribe(&self, transport: Transport, target: &str) -> Subscriber {
        self.subscribe_with(transport, target, &[])
    }

    pub(crate) fn subscribe_with(
        &self,
        transport: Transport,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Subscriber {
        let line = Line::Http1(self.address);
        Subscriber::open(line, transport, &format!("/v1/topics{target}"), headers)
    }

    pub(crate) fn http2(&self) -> Http2 {
        Http2::connect(self.address)
    }

    pub(super) fn inspection(&self) -> Vec<(&str, &str)> {
        self.inspect_token.iter().map(|token| ("Authorization", &**token)).collect()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.ask("GET", "/metrics", &self.inspection(), "").text();
        metric(&text, name).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    pub(crate) fn await_metric(&self, name: &str, mut is_met: impl FnMut(f64) -> bool) {
        wait_for_value(name, || self.metric(name), |value| is_met(*value));
    }

    /// Waits until this many connections (streams, waiting polls) have subscribed.
    pub(crate) fn await_connections(&self, count: usize) {
        self.await_metric("thalweg_connections", |value| value == count as f64);
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        kill_process(self.pid, Signal::TERM).expect("signal the server");
    }

    pub(crate) fn kill(mut self) {
        self.kill_now();
        self.exit();
    }

    /// Kills the server while others use it.
    pub(crate) fn kill_now(&self) {
        kill_process(self.pid, Signal::KILL).expect("signal the server");
    }

    pub(crate) fn exit(&mut self) -> ExitStatus {
        let exit = self.exit.get_mut().expect("how it ended");
        let status = receive(exit, "the server to end").expect("how it ended");
        self.has_exited = true;
        status
    }
}

/// Returns the address of a server that listens on all interfaces, as seen from this machine outside of
/// loopback, which it does not count. Returns `None` on a machine with loopback only.
pub(crate) fn outside(server: &Server) -> Option<SocketAddr> {
    // Finds the route to an address of documentation (RFC 5737), without sending.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    let own = socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr());
    let own = own.ok().map(|own| own.ip()).filter(|own| !own.is_loopback());
    if own.is_none() {
        super::skipped("this machine has no address besides loopback");
    }
    own.map(|own| SocketAddr::new(own, server.address.port()))
}

pub(crate) fn metric(text: &str, name: &str) -> Option<f64> {
    let samples: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with(name))
        .filter(|line| matches!(line.as_bytes().get(name.len()), Some(b'{' | b' ')))
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    (!samples.is_empty()).then(|| samples.iter().sum())
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.has_exited {
            let _ = kill_process(self.pid, Signal::TERM);
            let status = self.exit.get_mut().ok().and_then(|exit| try_receive(exit).ok());
            if status.is_none() {
                let _ = kill_process(self.pid, Signal::KILL);
            }
            if !thread::panicking() {
                assert!(
                    status.is_some_and(|status| status.success()),
                    "it must stop when asked to"
                );
            }
        }
        if thread::panicking()
            && let Ok(log) = self.log.lock()
        {
            eprintln!("the server said:\n{log}");
        }
    }
}

/// Stores the server's output, so that its pipe never fills.
fn keep(
    output: impl Read + Send + 'static,
    log: Arc<Mutex<String>>,
    address: Option<Sender<SocketAddr>>,
) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let url = line.strip_prefix(LISTENING).and_then(|url| url.split_once("://"));
            let found = url.and_then(|(_, address)| address.trim().parse().ok());
            if let (Some(found), Some(address)) = (found, &address) {
                let _ = address.send(found);
            }
            if let Ok(mut log) = log.lock() {
                log.push_str(&line);
                log.push('\n');
            }
        }
    });
}

fn watch(mut child: Child) -> Receiver<ExitStatus> {
    let (sender, exit) = channel();
    thread::spawn(move || child.wait().map(|status| sender.send(status)));
    exit
}
