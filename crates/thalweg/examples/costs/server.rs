//! A server on core 0, subscribers, and a bystander.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use rustix::process::setpriority_process;
use serde_json::{Value, json};

/// The time between two events of the bystander.
const BYSTANDER_EVERY: Duration = Duration::from_millis(10);

/// How long the bystander has the server for itself.
pub(crate) const ALONE: Duration = Duration::from_secs(10);

/// A server on core 0, which ends with this value.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start(settings: &[impl AsRef<OsStr>]) -> anyhow::Result<Self> {
        let program = match std::env::var_os("THALWEG_BIN") {
            Some(path) => PathBuf::from(path),
            None => std::env::current_exe()?.with_file_name("../thalweg"),
        };
        let mut child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--shards", "1", "--log", "error"])
            .args(settings)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut first = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut first)?;
        let address = first.trim().strip_prefix("listening on http://");
        let address = address.context("the server did not start")?;
        Ok(Self { address: address.parse()?, child })
    }

    /// Sends a request, and returns the body of the response.
    fn ask(&self, request: &str, body: &[u8]) -> anyhow::Result<String> {
        let mut socket = TcpStream::connect(self.address)?;
        let length = body.len();
        write!(
            socket,
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n"
        )?;
        socket.write_all(body)?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(body.to_owned())
    }

    /// Publishes lines. Returns the offset of the last event.
    pub(crate) fn publish(&self, topic: &str, lines: &[u8]) -> anyhow::Result<u64> {
        let answer = self.ask(&format!("POST /v1/topics/{topic}"), lines)?;
        let answer: Value = serde_json::from_str(&answer)?;
        offset(answer["position"].as_str().unwrap_or_default()).context("a position")
    }

    /// Returns the sum of a metric over its labels.
    pub(crate) fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let metrics = self.ask("GET /metrics", b"")?;
        let value = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix(name)?;
            let is_it = rest.starts_with(['{', ' ']);
            is_it.then(|| rest.rsplit_once(' ')?.1.parse().ok()).flatten()
        };
        Ok(metrics.lines().filter_map(value).sum())
    }

    /// Returns the seconds for which the server's threads ran.
    pub(crate) fn cpu_s(&self) -> anyhow::Result<f64> {
        let mut nanoseconds = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            nanoseconds += text.split(' ').next().context("a time")?.parse::<u64>()?;
        }
        Ok(nanoseconds as f64 / 1e9)
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value =
            |line: &str| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok();
        let kib: f64 = text.lines().find_map(value).context("its memory")?;
        Ok(kib * 1024.0)
    }

    /// Subscribes to `/v1/topics` followed by the target. `interval=…` and other parameters are a part of it.
    pub(crate) fn subscribe(&self, target: &str) -> anyhow::Result<Subscriber> {
        let mut socket = TcpStream::connect(self.address)?;
        write!(
            socket,
            "GET /v1/topics{target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n"
        )?;
        Ok(Subscriber { socket: BufReader::with_capacity(256 << 10, socket), line: Vec::new() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the offset of a position.
fn offset(position: &str) -> Option<u64> {
    position.split_once('.')?.1.parse().ok()
}

/// A subscriber over HTTP streaming: an envelope is a line.
pub(crate) struct Subscriber {
    socket: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Subscriber {
    /// Reads the next envelope. Returns the offset of its last event.
    pub(crate) fn envelope(&mut self) -> anyhow::Result<u64> {
        const POSITION: &str = "\"position\":\"";
        loop {
            self.line.clear();
            ensure!(self.socket.read_until(b'\n', &mut self.line)? > 0, "it was closed");
            // The members before the events are short. Other lines are the head, sizes of chunks, and
            // heartbeats.
            let begin = String::from_utf8_lossy(&self.line[..self.line.len().min(200)]);
            if !begin.starts_with('{') {
                continue;
            }
            ensure!(!begin.contains("\"gap\""), "a gap: {begin}");
            let position = begin.split_once(POSITION).and_then(|(_, rest)| rest.split_once('"'));
            if let Some(offset) = position.and_then(|(position, _)| offset(position)) {
                return Ok(offset);
            }
        }
    }

    /// Reads until an event has this offset.
    pub(crate) fn read_to(&mut self, last: u64) -> anyhow::Result<()> {
        while self.envelope()? < last {}
        Ok(())
    }

    /// Returns the socket, for a reader that looks at no bytes.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket.into_inner()
    }
}

/// Returns the p50 and the p99 in ms of the delays of a bystander's events, until `is_over`, and their
/// number. The bystander is the subscriber of a topic of its own.
pub(crate) fn bystander(
    server: &Server,
    is_over: impl Fn(Instant) -> bool,
) -> anyhow::Result<Value> {
    let mut subscriber = server.subscribe("/live")?;
    subscriber.envelope()?;
    let begun = Instant::now();
    let mut delays = Vec::new();
    loop {
        // An event that is late delays the next ones, and all of them count from the time when they are due.
        let due = begun + BYSTANDER_EVERY * delays.len() as u32;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let last = server.publish("live", b"1")?;
        subscriber.read_to(last)?;
        delays.push(due.elapsed());
        if is_over(begun) {
            break;
        }
    }
    delays.sort_unstable();
    let at = |share: usize| delays[(delays.len() * share / 100).min(delays.len() - 1)];
    let [p50, p99] = [50, 99].map(|share| at(share).as_secs_f64() * 1e3);
    Ok(json!({ "events": delays.len(), "p50_ms": p50, "p99_ms": p99 }))
}

/// Reads up to an offset with many subscribers, which have the lowest priority, beside a bystander. Returns what the bystander found, and the
/// seconds until all subscribers had everything.
pub(crate) fn crowd(
    server: &Server,
    readers: usize,
    target: &str,
    last: u64,
) -> anyhow::Result<(Value, f64)> {
    let begun = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || -> anyhow::Result<()> {
            // The priority of this thread: 19 is the lowest.
            setpriority_process(None, 19)?;
            server.subscribe(target)?.read_to(last)
        };
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        let live = scope.spawn(|| bystander(server, |_| is_over.load(Relaxed)));
        let read = threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"));
        let seconds = begun.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        let live = live.join().expect("no panic")?;
        read.map(|()| (live, seconds))
    })
}

/// Raises the number of open files to the hard limit, and checks that it suffices.
pub(crate) fn allow_sockets(number: usize) -> anyhow::Result<()> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let files = limit.current.unwrap_or(u64::MAX);
    ensure!(files > number as u64 + 100, "the limit of open files is {files}: see `ulimit -Hn`");
    Ok(())
}
