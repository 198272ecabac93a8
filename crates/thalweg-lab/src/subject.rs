//! A server under test: started on its own cores, probed until it is ready, stopped.
//!
//! - `install`: peers, installed before a run; `command`: how each program is started; `probe`: whether it answers
//! - `child`, `temporary_folder`: a process, and a folder, that end with their values
//! - `processes`: what a subject needs beside its own process; `cores`: where each runs
//! - `listener`: the server at an address, if the lab has not started it; `place`: under which command, at which address
//! - `sockets`: what the kernel holds for a subject's connections; `system_calls`: how many a subject makes
//! - `tls`: TLS as a client of a subject speaks it

mod child;
mod command;
mod cores;
mod install;
mod listener;
mod place;
mod probe;
mod processes;
mod sockets;
mod system_calls;
mod temporary_folder;
pub mod tls;

pub use child::OwnedChild;
use command::in_old_words;
pub use command::{Launch, arguments, topic_name};
pub use cores::Cores;
pub use install::{install, install_peers, peers};
pub use listener::{Listener, NotSeen};
pub use place::Place;
pub use probe::get;
pub use sockets::{Socket, sends_at_once, sockets};
pub use system_calls::SystemCallCount;
pub use temporary_folder::TemporaryFolder;

use crate::scenario::{Program, Role};
use anyhow::{Context, bail};
use processes::{Processes, READY_WITHIN};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROBE_EVERY: Duration = Duration::from_millis(5);

/// Kills every running subject, with its children and the processes beside it, because this process is about to end.
pub fn kill_all() {
    child::kill_all();
    temporary_folder::remove_all();
}

/// Whether a build has the flag `--set`: older ones have a flag for each setting.
fn has_set(binary: &Path) -> anyhow::Result<bool> {
    let help = Command::new(binary).args(["serve", "--help"]).stdin(Stdio::null()).output();
    let help = help.with_context(|| format!("{} cannot be started", name_of(binary)))?;
    Ok(String::from_utf8_lossy(&help.stdout).contains("--set <"))
}

/// A running subject, with the processes beside it. Dropped, all are killed.
#[derive(Debug)]
pub struct Running {
    child: OwnedChild,
    address: SocketAddr,
    // After the child: they outlive it.
    beside: Processes,
}

impl Running {
    /// Starts the processes beside `program`, then `program` on `cores`, and returns once it answers. Output goes to `log`.
    pub fn start(
        program: &Path,
        launch: &Launch<'_>,
        place: &Place,
        cores: &Cores,
        log: &File,
    ) -> anyhow::Result<Running> {
        if !launch.processes.is_empty() && !place.is_loopback() {
            bail!("a subject of several processes runs on loopback: leave --under and --at out");
        }
        let shards = launch.settings.shards;
        let mut beside = Processes::start(launch.processes, program, shards, cores, READY_WITHIN)?;
        let address = place.free_address()?;
        let mut words = arguments(launch, address);
        if let Program::Build(binary) = launch.program
            && !has_set(binary)?
        {
            words = in_old_words(words);
        }
        let words = words.into_iter().map(|word| beside.fill(&word, program));
        let mut words = words.collect::<anyhow::Result<Vec<String>>>()?;
        let program = match launch.program {
            Program::Peer(_) => match words.remove(0) {
                this if this == "{thalweg}" => program.to_owned(),
                other => other.into(),
            },
            Program::Build(binary) => binary.clone(),
            _ => program.to_owned(),
        };
        let mut command = place.command(&program);
        command.args(words).stdout(log.try_clone()?).stderr(log.try_clone()?);
        let child = cores
            .spawn_pinned(launch.settings, || OwnedChild::spawn(&mut command))?
            .with_context(|| format!("{} cannot be started", name_of(&program)))?;
        let mut running = Running { child, address, beside };
        let ready = match launch.program {
            Program::Peer(peer) => &peer.ready,
            _ => "/healthz",
        };
        running
            .wait_until_ready(ready, launch.settings.tls)
            .inspect_err(|_| running.keep_logs(log))?;
        Ok(running)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the id of the subject's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Names and numbers of the processes beside it.
    pub fn pids_beside(&self) -> impl Iterator<Item = (&str, u32)> {
        self.beside.pids()
    }

    /// Where those of this role listen.
    pub fn addresses_beside(&self, role: Role) -> impl Iterator<Item = SocketAddr> {
        self.beside.addresses(role)
    }

    /// Where it listens besides, at `{port.client}` in its command.
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.beside.address_of("client")
    }

    /// Asks it to drain, and kills it if it does not, and those beside it. Output of these goes to `log`.
    pub fn stop(mut self, log: &File) {
        self.child.drain();
        self.keep_logs(log);
    }

    /// Logs are only for diagnosis: nothing else fails without them.
    fn keep_logs(&self, log: &File) {
        let _ = self.beside.append_logs(log);
    }

    fn wait_until_ready(&mut self, ready: &str, is_tls: bool) -> anyhow::Result<()> {
        // A node answers before it has the data of the others.
        let path = if self.beside.pids().next().is_some() { "/readyz" } else { ready };
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.ended()? {
                bail!("the subject ended before it was ready ({status}); see subjects.log");
            }
            if probe::answers(self.address, path, is_tls) {
                return Ok(());
            }
            std::thread::sleep(PROBE_EVERY);
        }
        let seconds = READY_WITHIN.as_secs();
        bail!("the subject did not answer GET {path} with 200 within {seconds} s; see subjects.log")
    }
}

/// A program without its folder, because the name is archived.
fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// Version and commit of a binary of Thalweg, as it prints them.
pub fn version_of(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{} cannot be started", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.trim().trim_start_matches("thalweg ").to_owned())
}
