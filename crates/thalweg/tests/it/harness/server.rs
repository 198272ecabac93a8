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

/// What the server says on its first line.
const LISTENING: &str = "listening on ";

/// Trusts the test as a proxy, and shows its metrics to the harness.
pub(crate) const TRUSTED: [&str; 4] =
    ["--trusted-proxy", "127.0.0.1", "--inspect-token", "inspect-secret"];

/// A running `thalweg serve`. Dropped, it is asked to stop, and must.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(super) pid: Pid,
    /// Locked, so that the threads of a test may share the server.
    exit: Mutex<Receiver<ExitStatus>>,
    has_exited: bool,
    /// What is presented to see its metrics.
    inspect_token: Option<String>,
    /// What it printed; shown when the test fails.
    pub(super) log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts it on a free port. One shard, unless `arguments` say otherwise.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        Self::start_by(command.arg("serve"), arguments, Stdio::piped())
    }

    /// The same by a command that becomes it, and with a stderr of its own.
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
        let inspect_token = arguments.iter().skip_while(|flag| **flag != "--inspect-token").nth(1);
        let inspect_token = inspect_token.map(|token| format!("Bearer {token}"));
        Self { address, pid, exit, has_exited: false, inspect_token, log }
    }

    /// Where a server started with `--admin-listen` listens for that.
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

    /// One request on a connection of its own.
    pub(crate) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Response {
        let mut socket = self.connect();
        // An answer to HEAD is delimited by nothing that this reader knows but the connection's end.
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

    /// Publishes numbers: an event's value says which one it is.
    pub(crate) fn publish(&self, topic: &str, numbers: Range<u64>) -> Published {
        let lines: String = numbers.map(|number| format!("{number}\n")).collect();
        self.post(topic, "application/x-ndjson", lines).published()
    }

    /// Subscribes to `target`, what follows `/v1/topics` in the path.
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

    /// A connection of many streams.
    pub(crate) fn http2(&self) -> Http2 {
        Http2::connect(self.address)
    }

    /// The headers with which its metrics are seen.
    pub(super) fn inspection(&self) -> Vec<(&str, &str)> {
        self.inspect_token.iter().map(|token| ("Authorization", &**token)).collect()
    }

    /// The sum of a metric's samples.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.ask("GET", "/metrics", &self.inspection(), "").text();
        metric(&text, name).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    /// Waits until a metric is as it should be: nothing else tells of it.
    pub(crate) fn await_metric(&self, name: &str, mut is_met: impl FnMut(f64) -> bool) {
        wait_for_value(name, || self.metric(name), |value| is_met(*value));
    }

    /// Waits until so many connections (streams, waiting polls) subscribe.
    pub(crate) fn await_connections(&self, count: usize) {
        self.await_metric("thalweg_connections", |value| value == count as f64);
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        kill_process(self.pid, Signal::TERM).expect("signal the server");
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(mut self) {
        kill_process(self.pid, Signal::KILL).expect("signal the server");
        self.exit();
    }

    /// Waits for its end: how it ended.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let exit = self.exit.get_mut().expect("how it ended");
        let status = receive(exit, "the server to end").expect("how it ended");
        self.has_exited = true;
        status
    }
}

/// Where a server that listens everywhere is reached from this machine other than over
/// loopback, which it does not count; none on a machine that has only loopback.
pub(crate) fn outside(server: &Server) -> Option<SocketAddr> {
    // Finds the way to an address of documentation (RFC 5737), and sends nothing.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    let own = socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr());
    let own = own.ok().map(|own| own.ip()).filter(|own| !own.is_loopback());
    if own.is_none() {
        super::skipped("this machine has no address besides loopback");
    }
    own.map(|own| SocketAddr::new(own, server.address.port()))
}

/// The sum of a metric's samples.
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

/// Keeps what the server prints, so that its pipe never fills.
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
