//! A server under test: started on its own cores, probed until it is ready,
//! stopped.
//!
//! - `build`: peers, built before a run
//! - `command`: how each program is started
//! - `cores`: who runs where
//! - `probe`: whether it answers
//! - `listener`: who listens at an address, if the lab has not started it
//! - `place`: under which command, at which address
//! - `sockets`: what the kernel holds for a subject's connections
//! - `system_calls`: how many a subject makes
//! - `tls`: TLS as a client of a subject speaks it

mod build;
mod command;
mod cores;
mod listener;
mod place;
mod probe;
mod sockets;
mod system_calls;
pub mod tls;

pub use build::{build_peers, peers};
pub use command::{Launch, arguments, topic_name};
pub use cores::Cores;
pub use listener::{Listener, NotSeen};
pub use place::Place;
pub use sockets::{Socket, sockets};
pub use system_calls::SystemCallCount;

use crate::scenario::Program;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const READY_WITHIN: Duration = Duration::from_secs(10);
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// How long a subject may take to drain before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// The processes of all running subjects: what must end with this one, however
/// that ends.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every running subject and what it has started, because this process is
/// about to end without cleaning up.
pub fn kill_all() {
    for pid in running().drain(..).filter_map(|pid| Pid::from_raw(pid as i32)) {
        // Each leads a group of its own. Fails only if it has ended already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// A running subject. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    address: SocketAddr,
}

impl Running {
    /// Starts `program` on `cores` and returns once it answers. What it prints
    /// goes to `log`.
    pub fn start(
        program: &Path,
        launch: &Launch<'_>,
        place: &Place,
        cores: &Cores,
        log: &File,
    ) -> anyhow::Result<Running> {
        let address = place.free_address()?;
        let mut words = arguments(launch, address);
        let program = match launch.program {
            Program::Peer(_) => match words.remove(0) {
                this if this == "{thalweg}" => program.to_owned(),
                other => other.into(),
            },
            Program::Build(binary) => binary.clone(),
            _ => program.to_owned(),
        };
        let mut command = place.command(&program);
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            // A Ctrl-C in the terminal is the lab's to handle: it stops the
            // subject itself, after it has saved what it has.
            .process_group(0);
        let child = cores
            .spawn_pinned(launch.settings.shards, || command.spawn())?
            .with_context(|| format!("{} cannot be started", name_of(&program)))?;
        running().push(child.id());
        let mut running = Running { child, address };
        running.wait_until_ready(launch.settings.tls)?;
        Ok(running)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to drain, and kills it if it does not.
    pub fn stop(mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // Fails only if it has ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn wait_until_ready(&mut self, is_tls: bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                bail!("the subject ended before it was ready ({status}); see subjects.log");
            }
            if probe::is_ready(self.address, is_tls) {
                return Ok(());
            }
            std::thread::sleep(PROBE_EVERY);
        }
        bail!("the subject did not answer GET /healthz with 200 within 10 s; see subjects.log")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        running().retain(|pid| *pid != self.child.id());
    }
}

/// A program without the folder that it lies in: what is said of it is archived.
fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// What a binary of Thalweg says of its version and commit.
pub fn version_of(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{} cannot be started", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.trim().trim_start_matches("thalweg ").to_owned())
}
