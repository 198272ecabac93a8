//! The cost of signed tokens for a server, and its resistance to attacks: see `lab/rights.md`.
//!
//! ```sh
//! cargo build --release -p thalweg && cargo build --release -p thalweg --example rights
//! target/release/examples/rights handshakes target/release/thalweg
//! sudo target/release/examples/rights ending target/release/thalweg
//! sudo target/release/examples/rights flood target/release/thalweg
//! ```
//!
//! The server runs on core 0, everything else on core 1. Each line of output is a JSON object.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail, ensure};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket, sockopt::set_socket_linger},
    process::setpriority_process,
    thread::{CpuSet, gettid, sched_setaffinity},
};
use serde_json::{Value, json};
use thalweg_token::{Claims, SigningKey};

const KEY: &str = include_str!("../../thalweg-token/tests/keys/ec.pem");
const PUBLIC_KEY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../thalweg-token/tests/keys/ec.public.pem");

/// The number of connections that are opened in parallel.
const AT_A_TIME: usize = 16;

/// The number of handshakes of each kind, in each round.
const HANDSHAKES: usize = 4_000;

const ROUNDS: usize = 7;

/// The number of connections whose tokens expire at the same moment. The first half of them is refreshed.
const ENDING: usize = 10_000;

/// The number of addresses of the flood, and of its threads.
const ADDRESSES: u32 = 1_000;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [own, experiment, server] = &*arguments else {
        bail!("rights handshakes|ending|flood PATH-OF-THALWEG");
    };
    let mut core = CpuSet::new();
    core.set(1);
    sched_setaffinity(None, &core)?;
    match experiment.as_str() {
        "handshakes" => handshakes(server),
        "ending" => ending(server),
        "flood" => in_a_namespace(own, server),
        "flood-inside" => flood(server),
        other => bail!("{other}: handshakes, ending or flood"),
    }
}

/// A server on core 0.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(program: &str, listen: Ipv4Addr) -> anyhow::Result<Self> {
        let key = format!("@{PUBLIC_KEY}");
        let listen = format!("{listen}:0");
        let mut child = Command::new("taskset")
            .args(["-c", "0", program, "serve", "--listen", &listen, "--jwt-key", &key])
            .args(["--set", "jwt-leeway=0s", "--log", "error"])
            .args(["--set", "limits.subject-rates.handshakes=10000000"])
            .args(["--set", "limits.subject-rates.publishes=10000000"])
            .args(["--token", "everybody,subscribe=**"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut first = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut first)?;
        let address = first.trim().strip_prefix("listening on http://").context(first.clone())?;
        Ok(Self { address: address.parse()?, child })
    }

    /// Returns the CPU time of user and system, in µs.
    fn cpu_us(&self) -> anyhow::Result<u64> {
        // Threads that have ended count too. A tick is 10 ms.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        Ok((fields[11].parse::<u64>()? + fields[12].parse::<u64>()?) * 10_000)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Signs an ES256 token that expires at `ends_s`.
fn token(subject: &str, ends_s: u64) -> anyhow::Result<String> {
    let claims: Claims = serde_json::from_value(json!({
        "sub": subject, "exp": ends_s, "thalweg": { "subscribe": ["**"], "publish": ["**"] },
    }))?;
    static OWN: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::new(KEY).expect("a key"));
    OWN.sign(&claims, None).map_err(anyhow::Error::msg)
}

/// Connects, optionally from one of several addresses.
fn dial(address: SocketAddr, from: Option<Ipv4Addr>) -> anyhow::Result<TcpStream> {
    match from {
        None => Ok(TcpStream::connect(address)?),
        Some(from) => {
            let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            bind(&fd, &SocketAddr::new(IpAddr::V4(from), 0))?;
            connect(&fd, &address)?;
            Ok(fd.into())
        }
    }
}

/// Opens a WebSocket on a topic. Returns it, and the status of the response.
fn open(
    address: SocketAddr,
    from: Option<Ipv4Addr>,
    (topic, token): (&str, &str),
) -> anyhow::Result<(TcpStream, u16)> {
    let mut stream = dial(address, from)?;
    // A closed connection must not leave a port in TIME_WAIT.
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut head = format!(
        "GET /v1/topics/{topic} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    );
    if !token.is_empty() {
        write!(head, "Authorization: Bearer {token}\r\n")?;
    }
    stream.write_all((head + "\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "it was closed");
        answer.extend_from_slice(&buffer[..count]);
    }
    let status = std::str::from_utf8(&answer[9..12])?.parse()?;
    Ok((stream, status))
}

/// Returns the CPU time of the server for one handshake, in µs, and the number of handshakes per second.
fn cost(server: &Server, tokens: &[String]) -> anyhow::Result<(f64, f64)> {
    let (before_us, begun) = (server.cpu_us()?, Instant::now());
    thread::scope(|scope| {
        let parts = tokens.chunks(tokens.len().div_ceil(AT_A_TIME));
        let all: Vec<_> = parts
            .map(|part| {
                scope.spawn(move || -> anyhow::Result<()> {
                    for token in part {
                        let (_, status) = open(server.address, None, ("events", token))?;
                        ensure!(status == 101, "{status}");
                    }
                    Ok(())
                })
            })
            .collect();
        all.into_iter().try_for_each(|found| found.join().expect("a thread that ends"))
    })?;
    let passed = begun.elapsed().as_secs_f64();
    // The server completes the work for the last ones meanwhile.
    thread::sleep(Duration::from_millis(50));
    let cpu_us = server.cpu_us()? - before_us;
    Ok((cpu_us as f64 / tokens.len() as f64, tokens.len() as f64 / passed))
}

/// Handshakes without a token, with a known token, and with an unknown one, in turn.
fn handshakes(program: &str) -> anyhow::Result<()> {
    let server = Server::start(program, Ipv4Addr::LOCALHOST)?;
    let ends_s = now().as_secs() + 3600;
    let seen = token("seen", ends_s)?;
    cost(&server, &vec![seen.clone(); 500])?;
    for round in 0..ROUNDS {
        let fresh: Vec<String> = (0..HANDSHAKES)
            .map(|nth| token(&format!("{round}-{nth}"), ends_s))
            .collect::<anyhow::Result<_>>()?;
        let without = vec![String::new(); HANDSHAKES];
        let mut kinds =
            [("without", without), ("seen", vec![seen.clone(); HANDSHAKES]), ("fresh", fresh)];
        kinds.rotate_left(round % 3);
        for (kind, tokens) in kinds {
            let (cpu_us, per_s) = cost(&server, &tokens)?;
            let per_core_s = 1e6 / cpu_us;
            println!(
                "{}",
                json!({ "handshakes": kind, "round": round, "cpu_us": cpu_us, "per_core_s": per_core_s, "per_s": per_s })
            );
        }
    }
    Ok(())
}

/// Well-behaved subscribers, which receive 100 events per second. Their threads have the highest priority.
struct Honest {
    is_over: Arc<AtomicBool>,
    /// The time at which each event arrived, and its latency in µs.
    late: Arc<Mutex<Vec<(Instant, u64)>>>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

/// Lets this thread run whenever it can: a thread of another priority may delay it until the kernel's next
/// tick, after 4 ms.
fn come_first() -> anyhow::Result<()> {
    let own = gettid().as_raw_nonzero().to_string();
    let status = Command::new("chrt").args(["--fifo", "--pid", "1", &own]).status()?;
    ensure!(status.success(), "chrt --fifo needs root");
    Ok(())
}

impl Honest {
    fn begin(address: SocketAddr, from: Option<Ipv4Addr>) -> anyhow::Result<Self> {
        let token = token("honest", now().as_secs() + 3600)?;
        let (is_over, late) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let mut threads = Vec::new();
        for _ in 0..10 {
            let (mut stream, status) = open(address, from, ("events", &token))?;
            ensure!(status == 101, "{status}");
            let (is_over, late) = (Arc::clone(&is_over), Arc::clone(&late));
            threads.push(thread::spawn(move || {
                come_first()?;
                let mut buffer = [0; 65_536];
                while !is_over.load(Relaxed) {
                    let count = stream.read(&mut buffer)?;
                    ensure!(count > 0, "an honest subscriber was closed");
                    let (came, now_us) = (Instant::now(), now().as_micros() as u64);
                    let text = String::from_utf8_lossy(&buffer[..count]);
                    let sent =
                        text.split("{\"t\":").skip(1).filter_map(|text| text.split('}').next());
                    let mut late = late.lock().expect("nobody panics with it");
                    late.extend(
                        sent.filter_map(|sent| sent.parse::<u64>().ok())
                            .map(|sent_us| (came, now_us - sent_us)),
                    );
                }
                Ok(())
            }));
        }
        let publishing = Arc::clone(&is_over);
        let mut publisher = dial(address, from)?;
        publisher.set_nodelay(true)?;
        let head = format!(
            "POST /v1/topics/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        publisher.write_all(head.as_bytes())?;
        threads.push(thread::spawn(move || {
            come_first()?;
            let mut due = Instant::now();
            while !publishing.load(Relaxed) {
                due += Duration::from_millis(10);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                let line = format!("{{\"t\":{}}}\n", now().as_micros());
                publisher.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())?;
            }
            Ok(())
        }));
        Ok(Self { is_over, late, threads })
    }

    /// Returns the median, the 99th percentile and the maximum between two times, in µs, and the number of
    /// events.
    fn late(&self, from: Instant, to: Instant) -> Value {
        let late = self.late.lock().expect("nobody panics with it");
        let mut own: Vec<u64> =
            late.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, late)| *late).collect();
        own.sort_unstable();
        let at = |share: f64| own.get((own.len() as f64 * share) as usize).copied();
        json!({ "count": own.len(), "p50_us": at(0.5), "p99_us": at(0.99), "max_us": own.last() })
    }

    fn end(self) -> anyhow::Result<()> {
        self.is_over.store(true, Relaxed);
        self.threads.into_iter().try_for_each(|thread| thread.join().expect("a thread that ends"))
    }
}

/// Encodes a masked text frame (RFC 6455 §5.2), with a mask of zeros.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend_from_slice(&(text.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// Reads connections in turn, without waiting, until each has received `what`. Returns the time of the last
/// one.
fn await_all(streams: &mut Vec<TcpStream>, what: &[u8]) -> anyhow::Result<Vec<TcpStream>> {
    let (mut done, begun) = (Vec::new(), Instant::now());
    let mut buffer = [0; 16_384];
    while !streams.is_empty() {
        ensure!(begun.elapsed() < Duration::from_secs(60), "{} did not get it", streams.len());
        for (nth, mut stream) in std::mem::take(streams).into_iter().enumerate() {
            // Closing all at once would keep the kernel of this core busy for milliseconds, and delay the
            // measured ones.
            if nth % 100 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            match stream.read(&mut buffer) {
                Ok(count) if buffer[..count].windows(what.len()).any(|part| part == what) => {
                    done.push(stream);
                }
                Ok(0) => bail!("it was closed without a word"),
                _ => streams.push(stream),
            }
        }
    }
    Ok(done)
}

/// Tokens that expire at the same moment: half of the connections are refreshed just before, the others
/// closed.
fn ending(program: &str) -> anyhow::Result<()> {
    for round in 0..ROUNDS {
        let server = Server::start(program, Ipv4Addr::LOCALHOST)?;
        let honest = Honest::begin(server.address, None)?;
        setpriority_process(None, 19)?;
        let long_s = now().as_secs() + 3600;
        let ends_s = now().as_secs() + 30;
        let next: Vec<Vec<u8>> = (0..ENDING / 2)
            .map(|nth| {
                // The order in which they are opened below.
                let nth = nth % (ENDING / AT_A_TIME) * AT_A_TIME + nth / (ENDING / AT_A_TIME);
                let token = token(&format!("user-{nth}"), long_s)?;
                Ok(frame(&format!(r#"{{"command":"refresh","id":1,"token":"{token}"}}"#)))
            })
            .collect::<anyhow::Result<_>>()?;
        let own = |nth: usize| -> anyhow::Result<TcpStream> {
            let own = token(&format!("user-{nth}"), ends_s)?;
            let (stream, status) = open(server.address, None, ("quiet", &own))?;
            ensure!(status == 101, "{status}");
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let mut streams = thread::scope(|scope| {
            let some = |part: usize| move || (part..ENDING).step_by(AT_A_TIME).map(own).collect();
            let parts: Vec<_> = (0..AT_A_TIME).map(|part| scope.spawn(some(part))).collect();
            let mut streams = Vec::new();
            for part in parts {
                let part: anyhow::Result<Vec<TcpStream>> = part.join().expect("a thread that ends");
                streams.extend(part?);
            }
            anyhow::Ok(streams)
        })?;
        let left = Duration::from_secs(ends_s).saturating_sub(now());
        ensure!(left > Duration::from_secs(5), "this machine is too slow: {left:?} are left");
        thread::sleep(left - Duration::from_secs(4));
        let refreshing = Instant::now();
        for (stream, frame) in streams.iter_mut().zip(&next) {
            stream.write_all(frame)?;
        }
        let mut closing = streams.split_off(ENDING / 2);
        let refreshed = await_all(&mut streams, b"\"answer\":{\"id\":1")?;
        let refreshed_after = refreshing.elapsed();
        let left = Duration::from_secs(ends_s).saturating_sub(now());
        thread::sleep(left);
        let ended = Instant::now();
        // The code of the close: 4004.
        await_all(&mut closing, &4004_u16.to_be_bytes())?;
        let closed_after = ended.elapsed();
        let rest = ended + Duration::from_secs(4);
        thread::sleep(rest.saturating_duration_since(Instant::now()));
        let mut buffer = [0; 16_384];
        for mut stream in &refreshed {
            let read = stream.read(&mut buffer);
            ensure!(!matches!(read, Ok(0)), "one that was refreshed was closed");
        }
        println!(
            "{}",
            json!({
                "ending": ENDING, "round": round,
                "refreshed_s": refreshed_after.as_secs_f64(), "closed_s": closed_after.as_secs_f64(),
                "before_refreshing": honest.late(refreshing - refreshed_after, refreshing),
                "refreshing": honest.late(refreshing, refreshing + refreshed_after),
                "before_closing": honest.late(ended - closed_after, ended),
                "closing": honest.late(ended, ended + closed_after),
            })
        );
        drop(refreshed);
        honest.end()?;
    }
    Ok(())
}

/// Runs the flood in its own network namespace, which is removed at the end.
fn in_a_namespace(own: &str, program: &str) -> anyhow::Result<()> {
    let mut commands = "link set lo up\n".to_owned();
    for nth in 0..ADDRESSES + 2 {
        writeln!(commands, "addr add {}/32 dev lo", address_of(nth))?;
    }
    let script = r#"ip -batch - && exec "$0" flood-inside "$1""#;
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-c", script, own, program])
        .stdin(Stdio::piped())
        .spawn()
        .context("it needs unshare and ip, and root")?;
    child.stdin.take().context("a pipe")?.write_all(commands.as_bytes())?;
    ensure!(child.wait()?.success(), "the flood has failed");
    Ok(())
}

fn address_of(nth: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 9, 0, 1).to_bits() + nth)
}

/// Handshakes at full speed from all addresses: with tokens of unknown keys, and with valid ones. In between
/// there is none.
fn flood(program: &str) -> anyhow::Result<()> {
    let server = Server::start(program, address_of(ADDRESSES))?;
    let honest = Honest::begin(server.address, Some(address_of(ADDRESSES + 1)))?;
    let good = token("flood", now().as_secs() + 3600)?;
    let wrong = good[..good.len() - 4].to_owned() + "AAAA";
    for (round, (kind, token)) in
        [("wrong token", &wrong), ("good token", &good)].iter().cycle().take(6).enumerate()
    {
        thread::sleep(Duration::from_secs(1));
        let before = Instant::now();
        thread::sleep(Duration::from_secs(5));
        let (begun, count, refused) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
        let cpu_us = server.cpu_us()?;
        let until = begun + Duration::from_secs(5);
        thread::scope(|scope| {
            for thread in 0..AT_A_TIME as u32 {
                let (count, refused, address) = (&count, &refused, server.address);
                scope.spawn(move || {
                    let _ = setpriority_process(None, 19);
                    let mut nth = thread;
                    while Instant::now() < until {
                        nth = (nth + AT_A_TIME as u32) % ADDRESSES;
                        let opened = open(address, Some(address_of(nth)), ("events", token));
                        count.fetch_add(1, Relaxed);
                        refused.fetch_add(u64::from(!matches!(opened, Ok((_, 101)))), Relaxed);
                    }
                });
            }
        });
        let cores = (server.cpu_us()? - cpu_us) as f64 / 1e6 / begun.elapsed().as_secs_f64();
        println!(
            "{}",
            json!({
                "flood": kind, "round": round, "per_s": count.into_inner() as f64 / 5.0,
                "refused": refused.into_inner(), "server_cores": cores,
                "quiet": honest.late(before, begun), "flooded": honest.late(begun, until),
            })
        );
    }
    honest.end()
}
