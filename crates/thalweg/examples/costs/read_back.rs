//! The cost of reading a stored topic again after a start: see `lab/README.md`.
//!
//! ```sh
//! cargo build --release -p thalweg && cargo build --release -p thalweg --example read_back
//! target/release/examples/read_back target/release/thalweg            # 1,000,000 events, 100 readers
//! target/release/examples/read_back target/release/thalweg 20000 10   # a quick check
//! ```
//!
//! It stores events of 128 bytes in one topic, kills the server, and drops the caches of the kernel, which
//! needs root. Then:
//!
//! - `one`: a subscriber reads all events from the beginning
//! - `alone`: a bystander, the subscriber of another topic with 100 events a second, has the server alone
//! - `many`: all readers begin at the same position, while the bystander continues
//!
//! The server runs on core 0, everything else on core 1, with the readers at the lowest priority. Each line
//! of output is a JSON object. The directory is in the system's folder for temporary files (TMPDIR), which
//! must not be in memory.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::{
    process::setpriority_process,
    thread::{CpuSet, sched_setaffinity},
};
use serde_json::{Value, json};

const EVENT_BYTES: usize = 128;

/// Events of a request to publish.
const REQUEST_EVENTS: usize = 1_000;

/// The time between two events of the bystander.
const BYSTANDER_EVERY: Duration = Duration::from_millis(10);

/// How long the bystander has the server for itself.
const ALONE: Duration = Duration::from_secs(10);

/// A data directory that is removed at the end.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server on core 0.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(program: &str, directory: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new("taskset")
            .args(["-c", "0", program, "serve", "--listen", "127.0.0.1:0", "--shards", "1"])
            .args(["--log", "error", "--data"])
            .arg(directory)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut first = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut first)?;
        let address = first.trim().strip_prefix("listening on http://").context(first.clone())?;
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
    fn publish(&self, topic: &str, lines: &[u8]) -> anyhow::Result<u64> {
        let answer = self.ask(&format!("POST /v1/topics/{topic}"), lines)?;
        let answer: Value = serde_json::from_str(&answer)?;
        offset(answer["position"].as_str().unwrap_or_default()).context("a position")
    }

    /// Returns the pages that were read from the directory.
    fn pages(&self) -> anyhow::Result<f64> {
        let metrics = self.ask("GET /metrics", b"")?;
        let value = |line: &str| line.strip_prefix("thalweg_disk_pages_total ")?.parse().ok();
        metrics.lines().find_map(value).context("a metric of the directory")
    }

    fn subscribe(&self, target: &str) -> anyhow::Result<Subscriber> {
        let mut socket = TcpStream::connect(self.address)?;
        write!(
            socket,
            "GET /v1/topics/{target} HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n"
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
struct Subscriber {
    socket: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Subscriber {
    /// Reads the next envelope. Returns the offset of its last event.
    fn envelope(&mut self) -> anyhow::Result<u64> {
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
    fn read_to(&mut self, last: u64) -> anyhow::Result<()> {
        while self.envelope()? < last {}
        Ok(())
    }
}

/// Returns the p50 and the p99 in ms of the delays of a bystander's events, until `is_over`, and their
/// number.
fn bystander(server: &Server, is_over: impl Fn(Instant) -> bool) -> anyhow::Result<Value> {
    let mut subscriber = server.subscribe("live")?;
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

fn drop_caches() -> anyhow::Result<()> {
    rustix::fs::sync();
    let file = "/proc/sys/vm/drop_caches";
    std::fs::write(file, "3").context("the caches of the kernel need root")
}

/// Stores the events, and measures their readers.
fn run(program: &str, events: usize, readers: usize) -> anyhow::Result<()> {
    let name = format!("thalweg-read-back-{}", std::process::id());
    let directory = Directory(std::env::temp_dir().join(name));
    let lines = format!("\"{}\"\n", "x".repeat(EVENT_BYTES - 2)).repeat(REQUEST_EVENTS);
    let server = Server::start(program, &directory.0)?;
    let mut last = 0;
    for _ in 0..events / REQUEST_EVENTS {
        last = server.publish("old", lines.as_bytes())?;
    }
    drop(server);
    let bytes = (events / REQUEST_EVENTS * REQUEST_EVENTS * EVENT_BYTES) as f64;

    drop_caches()?;
    let server = Server::start(program, &directory.0)?;
    let begun = Instant::now();
    server.subscribe("old?cursor=earliest")?.read_to(last)?;
    let rate = bytes / begun.elapsed().as_secs_f64() / 1e6;
    let pages = server.pages()?;
    println!("{}", json!({ "measured": "one", "mb_per_s": rate, "pages": pages }));
    drop(server);

    drop_caches()?;
    let server = Server::start(program, &directory.0)?;
    let alone = bystander(&server, |begun| begun.elapsed() >= ALONE)?;
    println!("{}", json!({ "measured": "alone", "bystander": alone }));
    let before = server.pages()?;
    let begun = Instant::now();
    let is_over = AtomicBool::new(false);
    let (beside, seconds) = thread::scope(|scope| -> anyhow::Result<_> {
        let read = || -> anyhow::Result<()> {
            // The priority of this thread: 19 is the lowest.
            setpriority_process(None, 19)?;
            server.subscribe("old?cursor=earliest")?.read_to(last)
        };
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        let live = scope.spawn(|| bystander(&server, |_| is_over.load(Relaxed)));
        let read = threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"));
        let seconds = begun.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        let live = live.join().expect("no panic")?;
        read.map(|()| (live, seconds))
    })?;
    let read = server.pages()? - before;
    let found = json!({
        "measured": "many", "readers": readers, "seconds": seconds, "pages": read,
        "pages_of_one": read / pages, "bystander": beside,
    });
    println!("{found}");
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |nth: usize, default: usize| {
        arguments.get(nth).map_or(Ok(default), |word| word.parse().context("a number"))
    };
    let Some(program) = arguments.get(1) else {
        bail!("the arguments are the path of thalweg, and the numbers of events and readers")
    };
    let (events, readers) = (number(2, 1_000_000)?, number(3, 100)?);
    ensure!(events >= REQUEST_EVENTS && readers > 0, "at least {REQUEST_EVENTS} events");
    let mut core = CpuSet::new();
    core.set(1);
    sched_setaffinity(None, &core)?;
    run(program, events, readers)
}
