//! A server under test: started on its own cores, probed until it is ready, stopped.
//!
//! - `install`: peers, installed before a run; `command`: how each program is started; `probe`: whether it answers
//! - `child`, `temporary_folder`: a process that is killed, and a folder that is removed, when dropped
//! - `processes`: further processes that a subject needs; `cores`: the cores of each
//! - `listener`: finds a server that the lab did not start; `place`: command prefix and address of a subject
//! - `loop_delay`: the delay of a subject's event loop, as it reports it
//! - `programs`: the measured binary and the lab's own program
//! - `sockets`: kernel memory of a subject's connections; `system_calls`: counts a subject's system calls
//! - `tls`: TLS of a subject's clients

mod child;
mod command;
mod cores;
mod install;
mod listener;
mod loop_delay;
mod place;
mod probe;
mod processes;
mod programs;
mod sockets;
mod system_calls;
mod temporary_folder;
pub mod tls;

pub use child::OwnedChild;
use command::to_old_flags;
pub use command::{Launch, arguments, topic_name};
pub use cores::Cores;
pub use install::{install, install_peers, peers};
pub use listener::{Listener, NotSeen};
pub use loop_delay::{LoopDelays, LoopMeter};
pub use place::Place;
pub use probe::get;
pub use programs::{NoThalweg, Programs, version_of};
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

/// Kills every running subject, its children and the processes beside it, before this process ends.
pub fn kill_all() {
    child::kill_all();
    temporary_folder::remove_all();
}

/// Returns whether a build has the flag `--set`: older builds have a flag for each setting.
fn has_set(binary: &Path) -> anyhow::Result<bool> {
    let help = Command::new(binary).args(["serve", "--help"]).stdin(Stdio::null()).output();
    let help = help.with_context(|| format!("{} cannot be started", name_of(binary)))?;
    Ok(String::from_utf8_lossy(&help.stdout).contains("--set <"))
}

/// A running subject and the processes beside it, which are all killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: OwnedChild,
    address: SocketAddr,
    // Dropped after the child, which needs them.
    beside: Processes,
}

impl Running {
    /// Starts the processes beside the subject, then the subject on `cores`, and returns once it answers. Output goes to `log`.
    pub fn start(
        programs: &Programs,
        launch: &Launch<'_>,
        place: &Place,
        cores: &Cores,
        log: &File,
    ) -> anyhow::Result<Running> {
        if !launch.processes.is_empty() && !place.is_loopback() {
            bail!("a subject with several processes runs on loopback: remove --under and --at");
        }
        let shards = launch.settings.shards;
        let mut beside = Processes::start(launch.processes, programs, shards, cores, READY_WITHIN)?;
        let address = place.free_address()?;
        let mut words = arguments(launch, address);
        if let Program::Build(binary) = launch.program
            && !has_set(binary)?
        {
            words = to_old_flags(words);
        }
        let words = words.into_iter().map(|word| beside.fill(&word, programs));
        let mut words = words.collect::<anyhow::Result<Vec<String>>>()?;
        let program = match launch.program {
            Program::Peer(_) => words.remove(0).into(),
            Program::Build(binary) => binary.clone(),
            Program::Limit => programs.lab.clone(),
            Program::Thalweg | Program::Url(_) => programs.thalweg()?.to_owned(),
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

    /// Returns the address at which the subject listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the id of the subject's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the names and ids of the processes beside the subject.
    pub fn pids_beside(&self) -> impl Iterator<Item = (&str, u32)> {
        self.beside.pids()
    }

    /// Returns the addresses at which processes of this role listen.
    pub fn addresses_beside(&self, role: Role) -> impl Iterator<Item = SocketAddr> {
        self.beside.addresses(role)
    }

    /// Returns the subject's second address, which replaces `{port.client}` in its command.
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.beside.address_of("client")
    }

    /// Drains the subject, or kills it after a timeout, then kills the processes beside it and appends their output to `log`.
    pub fn stop(mut self, log: &File) {
        self.child.drain();
        self.keep_logs(log);
    }

    /// Appends the logs. Ignores errors, because logs are only for diagnosis.
    fn keep_logs(&self, log: &File) {
        let _ = self.beside.append_logs(log);
    }

    fn wait_until_ready(&mut self, ready: &str, is_tls: bool) -> anyhow::Result<()> {
        // A node of a cluster answers before it has the other nodes' data.
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

/// Returns a program's name without its folder, because the archive contains this name.
fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}
