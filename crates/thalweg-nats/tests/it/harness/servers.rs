//! NATS servers on this machine, alone or as a cluster.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use thalweg_testing::{ReservedPort, wait_for};

use super::skipped;

/// The environment variable that names the binary.
const BINARY: &str = "THALWEG_NATS_SERVER";

/// Servers, which end when this is dropped.
pub(crate) struct Servers {
    binary: PathBuf,
    folder: PathBuf,
    ports: Vec<ReservedPort>,
    routes: Vec<ReservedPort>,
    running: Vec<Option<Child>>,
    arguments: Vec<String>,
    /// Whether each has a file system of its own for its streams.
    has_disks: bool,
}

/// The size of a server's file system: a test stores less.
const DISK: &str = "size=64m";

const FILLER: &str = "filler";

impl Servers {
    /// Starts servers. `None` if this machine has no binary: then the test is skipped.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_with(count, &[])
    }

    pub(crate) fn start_with(count: usize, arguments: &[&str]) -> Option<Self> {
        Self::start_on(false, count, arguments)
    }

    /// Starts servers, each with a file system of its own, which can be [filled](Self::fill). `None` also if the
    /// machine does not let a test mount one.
    pub(crate) fn start_on_disks(count: usize, arguments: &[&str]) -> Option<Self> {
        Self::start_on(true, count, arguments)
    }

    fn start_on(has_disks: bool, count: usize, arguments: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let binary = binary()?;
        let name = format!("thalweg-nats-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("make a folder");
        let reserve = || (0..count).map(|_| ReservedPort::new()).collect();
        let (ports, routes) = (reserve(), reserve());
        let running = (0..count).map(|_| None).collect();
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut servers = Self { binary, folder, ports, routes, running, arguments, has_disks };
        if has_disks && !servers.mount() {
            skipped("this machine does not let a test mount a file system");
            return None;
        }
        (0..count).for_each(|index| servers.run(index));
        if count > 1 {
            servers.await_jetstream();
        }
        Some(servers)
    }

    /// Waits until a cluster has elected a leader of JetStream. Sends no credentials.
    fn await_jetstream(&self) {
        wait_for("JetStream", || self.ask("$JS.API.INFO")?.get("error").is_none().then_some(()));
    }

    pub(crate) fn count(&self) -> usize {
        self.ports.len()
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.ports.iter().map(url).collect()
    }

    pub(crate) fn run(&mut self, index: usize) {
        let folder = self.store(index);
        let mut command = Command::new(&self.binary);
        command.args(["-a", "127.0.0.1", "-p", &self.ports[index].number().to_string()]);
        command.args(["-n", &format!("n{index}"), "-js", "-sd"]).arg(&folder);
        command.arg("-l").arg(self.folder.join(format!("{index}.log")));
        command.args(&self.arguments);
        if self.count() > 1 {
            let routes: Vec<_> = self.routes.iter().map(url).collect();
            command.args(["--cluster_name", "c", "--cluster", &routes[index]]);
            command.args(["--routes", &routes.join(",")]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.running[index] = Some(command.spawn().expect("start a NATS server"));
        let port = self.ports[index].number();
        wait_for("a NATS server listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    }

    /// Kills a server, as a power cut does.
    pub(crate) fn kill(&mut self, index: usize) {
        self.end(index, Signal::KILL);
    }

    pub(crate) fn end(&mut self, index: usize, signal: Signal) {
        if let Some(mut child) = self.running[index].take() {
            kill_process(Pid::from_child(&child), signal).expect("signal a server");
            child.wait().expect("end a server");
        }
    }

    /// Waits for the leader of a stream, and returns its index.
    pub(crate) fn leader(&self, stream: &str) -> usize {
        wait_for("a leader", || {
            let leader =
                self.info(stream)?["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse();
            leader.ok().filter(|leader: &usize| self.running[*leader].is_some())
        })
    }

    /// Returns the state of a stream, from the first server that answers.
    pub(crate) fn info(&self, stream: &str) -> Option<serde_json::Value> {
        self.ask(&format!("$JS.API.STREAM.INFO.{stream}"))
    }

    pub(crate) fn ask(&self, subject: &str) -> Option<serde_json::Value> {
        let mut running = (0..self.count()).filter(|index| self.running[*index].is_some());
        running.find_map(|index| self.ask_one(index, subject))
    }

    /// Sends a request to a server over a plain socket. `None` if the server does not answer with JSON.
    fn ask_one(&self, index: usize, subject: &str) -> Option<serde_json::Value> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.ports[index].number())).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let ask = format!("CONNECT {{\"verbose\":false}}\r\nSUB r 1\r\nPUB {subject} r 0\r\n\r\n");
        socket.write_all(ask.as_bytes()).ok()?;
        let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = socket.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&said);
            // MSG SUBJECT ID BYTES, then the bytes on a line of their own.
            let message =
                text.split_once("\r\nMSG r 1 ").and_then(|(_, rest)| rest.split_once("\r\n"));
            if let Some((bytes, body)) = message
                && let Some(body) = body.get(..bytes.parse().ok()?)
            {
                return serde_json::from_str(body).ok();
            }
        }
        None
    }

    /// Stops a server's process, or continues it. Its connections stay open.
    pub(crate) fn freeze(&self, index: usize, is_frozen: bool) {
        if let Some(child) = &self.running[index] {
            let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
            kill_process(Pid::from_child(child), signal).expect("signal a server");
        }
    }

    /// Mounts a file system for each server. Returns whether the machine allows it.
    fn mount(&mut self) -> bool {
        self.has_disks = (0..self.count()).all(|index| {
            let folder = self.store(index);
            fs::create_dir_all(&folder).expect("make a folder");
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder).stderr(Stdio::null());
            mount.status().is_ok_and(|status| status.success())
        });
        self.has_disks
    }

    pub(crate) fn fill(&self, index: usize) {
        let mut file = fs::File::create(self.store(index).join(FILLER)).expect("make a file");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Frees a server's disk and restarts the server: JetStream does not recover by itself.
    pub(crate) fn restart_with_room(&mut self, index: usize) {
        self.end(index, Signal::TERM);
        fs::remove_file(self.store(index).join(FILLER)).expect("remove a file");
        self.run(index);
    }

    pub(crate) fn store(&self, index: usize) -> PathBuf {
        self.folder.join(index.to_string())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        (0..self.count()).for_each(|index| self.kill(index));
        if self.has_disks {
            for index in 0..self.count() {
                let _ = Command::new("umount").arg(self.store(index)).status();
            }
        }
        if std::thread::panicking() {
            eprintln!("the servers' logs are in {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn binary() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats/nats-server");
    let path = std::env::var_os(BINARY).map_or(built, PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    skipped(&format!("no NATS server at {}: name one with {BINARY}", path.display()));
    None
}

fn url(port: &ReservedPort) -> String {
    format!("nats://127.0.0.1:{}", port.number())
}
