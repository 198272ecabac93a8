//! Further processes that a subject needs, such as NATS servers and other nodes. The lab starts them before the subject, in order, each
//! when the previous one is ready, and ends them after it.

use super::child::OwnedChild;
use super::temporary_folder::TemporaryFolder;
use super::{Cores, Programs, place::free_port, probe};
use crate::scenario::{Process, Role};
use anyhow::{Context, bail};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than the 30 s that a node waits for NATS before it reports the problem.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(40);
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// Variable with the path of the NATS server, if `make nats` did not install it.
const NATS_SERVER: &str = "THALWEG_NATS_SERVER";
const NATS_INSTALLED: &str = "target/nats/nats-server";
/// Limits of the part of a log that an error quotes.
const TAIL_LINES: usize = 5;
const TAIL_BYTES: usize = 2000;

/// Running processes, in the order of the scenario.
#[derive(Debug, Default)]
pub(super) struct Processes {
    // First, so that no process writes to the folder when it is removed.
    running: Vec<RunningProcess>,
    places: Option<Places>,
}

#[derive(Debug)]
struct RunningProcess {
    name: String,
    role: Role,
    child: OwnedChild,
    address: SocketAddr,
    log: PathBuf,
}

impl Processes {
    /// Starts the processes on the cores beside the subject's; each must be ready `within` this time.
    /// An error names the failed process, and the processes already started are ended.
    pub(super) fn start(
        processes: &[Process],
        programs: &Programs,
        shards: u32,
        cores: &Cores,
        within: Duration,
    ) -> anyhow::Result<Processes> {
        let mut started = Processes::default();
        if processes.is_empty() {
            return Ok(started);
        }
        let places = started.places.insert(Places::new()?);
        for process in processes {
            let name = &process.name;
            let running = RunningProcess::start(process, programs, shards, cores, places)
                .with_context(|| format!("the process `{name}` beside the subject"))?;
            started.running.push(running);
            // Pushed before the wait, so that an error ends this process, too.
            if let Some(running) = started.running.last_mut() {
                running.wait_until_ready(within)?;
            }
        }
        Ok(started)
    }

    /// Replaces the placeholders in a word of the subject's command.
    pub(super) fn fill(&mut self, word: &str, programs: &Programs) -> anyhow::Result<String> {
        const SUBJECT: &str = "subject";
        let wants_folder = word.contains("{dir}");
        let places = match &mut self.places {
            Some(places) => places,
            None if wants_folder || word.contains("{port.") => self.places.insert(Places::new()?),
            None => return programs.fill(word),
        };
        if wants_folder {
            fs::create_dir_all(places.folder.path().join(SUBJECT))
                .context("the subject's folder cannot be created")?;
        }
        places.fill(word, SUBJECT, programs)
    }

    /// Returns the address that replaces `{port.NAME}`, if a command has this placeholder.
    pub(super) fn address_of(&self, name: &str) -> Option<SocketAddr> {
        let port = self.places.as_ref()?.ports.get(name)?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)))
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = (&str, u32)> {
        self.running.iter().map(|running| (running.name.as_str(), running.child.id()))
    }

    pub(super) fn addresses(&self, role: Role) -> impl Iterator<Item = SocketAddr> {
        self.running
            .iter()
            .filter(move |running| running.role == role)
            .map(|running| running.address)
    }

    pub(super) fn append_logs(&self, mut out: &File) -> io::Result<()> {
        for RunningProcess { name, log, .. } in &self.running {
            writeln!(out, "-- {name}")?;
            io::copy(&mut File::open(log)?, &mut out)?;
        }
        Ok(())
    }
}

impl RunningProcess {
    fn start(
        process: &Process,
        programs: &Programs,
        shards: u32,
        cores: &Cores,
        places: &mut Places,
    ) -> anyhow::Result<RunningProcess> {
        let Process { name, role, command } = process;
        let folder = places.folder.path().join(name);
        fs::create_dir(&folder).context("its folder cannot be created")?;
        let words = command.iter().map(|word| places.fill(word, name, programs));
        let words = words.collect::<anyhow::Result<Vec<String>>>()?;
        let (first, rest) = words.split_first().context("it has no command")?;
        let log = places.folder.path().join(format!("{name}.log"));
        let out = File::create(&log).context("its log cannot be created")?;
        let mut command = Command::new(first);
        command.args(rest).stdout(out.try_clone()?).stderr(out);
        let spawn = || OwnedChild::spawn(&mut command);
        let spawned = cores.spawn_on(cores.cores_beside(shards), shards, spawn)?;
        let child =
            spawned.with_context(|| format!("`{}` cannot be started", process.command[0]))?;
        let port = places.port(name)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(RunningProcess { name: name.clone(), role: *role, child, address, log })
    }

    fn wait_until_ready(&mut self, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        let name = self.name.clone();
        while Instant::now() < deadline {
            if let Some(status) = self.child.ended()? {
                let reported = self.tail();
                bail!("the process `{name}` ended before it was ready ({status}){reported}");
            }
            let is_ready = match self.role {
                Role::Nats => probe::greets_as_nats(self.address),
                Role::Node => probe::answers(self.address, "/readyz", false),
            };
            if is_ready {
                return Ok(());
            }
            std::thread::sleep(PROBE_EVERY);
        }
        let (wanted, reported) = (self.wanted(), self.tail());
        bail!("the process `{name}` did not {wanted} within {} s{reported}", within.as_secs())
    }

    fn wanted(&self) -> &'static str {
        match self.role {
            Role::Nats => "greet as a NATS server",
            Role::Node => "answer GET /readyz with 200",
        }
    }

    /// Returns `: ` and the end of the output, or nothing if the output is empty.
    fn tail(&self) -> String {
        tail_of(&String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()))
    }
}

fn tail_of(text: &str) -> String {
    let text = text.trim_end();
    let mut from = text.len().saturating_sub(TAIL_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let lines: Vec<&str> = text[from..].lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join("\n")) }
}

/// Ports and folders of one start.
#[derive(Debug)]
struct Places {
    folder: TemporaryFolder,
    ports: HashMap<String, u16>,
}

impl Places {
    fn new() -> anyhow::Result<Places> {
        let folder = TemporaryFolder::new("beside")
            .context("the folder of a subject's processes cannot be created")?;
        Ok(Places { folder, ports: HashMap::new() })
    }

    /// Returns the port of this name, which was free when it was first chosen.
    fn port(&mut self, name: &str) -> io::Result<u16> {
        if let Some(port) = self.ports.get(name) {
            return Ok(*port);
        }
        loop {
            let port = free_port(Ipv4Addr::LOCALHOST.into())?;
            if !self.ports.values().any(|taken| *taken == port) {
                self.ports.insert(name.to_owned(), port);
                return Ok(port);
            }
        }
    }

    /// Replaces all placeholders in a word, for the process with this name.
    fn fill(&mut self, word: &str, name: &str, programs: &Programs) -> anyhow::Result<String> {
        let mut filled = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once("{port.") {
            let Some((name, after)) = after.split_once('}') else {
                bail!("`{word}` has a port without a closing brace");
            };
            filled += before;
            filled += &self.port(name)?.to_string();
            rest = after;
        }
        filled += rest;
        if filled.contains("{nats}") {
            filled = filled.replace("{nats}", &nats_server()?);
        }
        programs.fill(&filled.replace("{dir}", &self.folder.path().join(name).to_string_lossy()))
    }
}

fn nats_server() -> anyhow::Result<String> {
    let path = std::env::var_os(NATS_SERVER).map_or(PathBuf::from(NATS_INSTALLED), PathBuf::from);
    if !path.is_file() {
        bail!(
            "there is no NATS server at {}: install it with `make nats`, or name one with \
             {NATS_SERVER}",
            path.display()
        );
    }
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn process(name: &str, role: Role, command: &[&str]) -> Process {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Process { name: name.to_owned(), role, command }
    }

    /// Greets as a NATS server does, and keeps running.
    const GREETS: &str = "import socket,sys\n\
         s=socket.socket();s.bind(('127.0.0.1',int(sys.argv[1])));s.listen()\n\
         open(sys.argv[2]+'/pid','w').write('x')\n\
         while True: s.accept()[0].sendall(b'INFO {}\\r\\n')";

    fn greeter(name: &str) -> Process {
        let port = format!("{{port.{name}}}");
        process(name, Role::Nats, &["python3", "-c", GREETS, &port, "{dir}"])
    }

    fn start(processes: &[Process]) -> anyhow::Result<Processes> {
        start_within(processes, READY_WITHIN)
    }

    fn start_within(processes: &[Process], within: Duration) -> anyhow::Result<Processes> {
        let cores = Cores::allowed().unwrap();
        Processes::start(processes, &programs(), 1, &cores, within)
    }

    fn programs() -> Programs {
        Programs::find(Some("thalweg".into()), "thalweg-lab".into())
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    fn folders() -> Vec<PathBuf> {
        let own = format!("thalweg-beside-{}-", std::process::id());
        let entries = fs::read_dir(std::env::temp_dir()).unwrap();
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| path.to_string_lossy().contains(&own)).collect()
    }

    // One test, because a parallel test of this process would have folders and children, too.
    #[test]
    fn processes_end_together_and_leave_nothing() {
        let mut running = start(&[greeter("a"), greeter("b")]).unwrap();
        let pids: Vec<u32> = running.pids().map(|(_, pid)| pid).collect();
        let addresses: Vec<SocketAddr> = running.addresses(Role::Nats).collect();
        assert!(pids.iter().all(|pid| is_alive(*pid)) && addresses[0] != addresses[1]);
        let filled = running.fill("nats://{port.b}:{port.c}:{port.b}", &programs()).unwrap();
        let port = addresses[1].port();
        assert!(
            filled.starts_with(&format!("nats://{port}:")) && filled.ends_with(&port.to_string())
        );
        assert_eq!(folders().len(), 1);
        drop(running);
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{pids:?}");
        assert!(folders().is_empty());

        // If a process dies, the earlier ones are ended, and the error has the reason.
        let dies =
            process("dies", Role::Nats, &["sh", "-c", "echo no disk >&2; exit 3 # {port.dies}"]);
        let error = format!("{:#}", start(&[greeter("a"), dies]).unwrap_err());
        let reported = "the process `dies` ended before it was ready (exit status: 3): no disk";
        assert_eq!(error, reported);
        assert!(folders().is_empty());

        // The same for a process that never becomes ready.
        let mute = "echo $$ > {dir}/../pid; echo thinking; exec sleep 1000 # {port.mute}";
        let mute = process("mute", Role::Node, &["sh", "-c", mute]);
        // On a busy machine, the first process may take longer than a second.
        let both = [greeter("a"), mute];
        let error = thalweg_testing::wait_for("the first one to be ready", || {
            let error = start_within(&both, Duration::from_secs(1)).unwrap_err();
            Some(format!("{error:#}")).filter(|reported| !reported.contains("`a`"))
        });
        let reported =
            "the process `mute` did not answer GET /readyz with 200 within 1 s: thinking";
        assert_eq!(error, reported);
        assert!(folders().is_empty());

        // Children of a command end, too.
        let nested = "sleep 1000 & echo $! > {dir}/../pid; exec python3 -c \"$0\" \"$@\"";
        let port = "{port.nested}";
        let nested = process("nested", Role::Nats, &["sh", "-c", nested, GREETS, port, "{dir}"]);
        let running = start(&[nested]).unwrap();
        let pid = fs::read_to_string(folders()[0].join("pid")).unwrap().trim().parse().unwrap();
        assert!(is_alive(pid));
        drop(running);
        // The orphan's new parent waits for it, not this test.
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_alive(pid) && !is_zombie(pid) {
            assert!(Instant::now() < deadline, "{pid} lives on");
            std::thread::yield_now();
        }

        let missing = process("missing", Role::Node, &["/no/such/program", "{port.missing}"]);
        let error = format!("{:#}", start(&[missing]).unwrap_err());
        assert!(
            error.contains("process `missing`") && error.contains("cannot be started"),
            "{error}"
        );
        assert!(folders().is_empty());
    }

    fn is_zombie(pid: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
    }

    #[test]
    fn the_tail_of_a_log_is_quoted() {
        assert_eq!(tail_of(""), "");
        assert_eq!(tail_of("one\n"), ": one");
        assert_eq!(tail_of("1\n2\n3\n4\n5\n6\n"), ": 2\n3\n4\n5\n6");
        assert_eq!(tail_of(&"ä".repeat(5000)).chars().count(), 2 + TAIL_BYTES / 2);
    }
}
