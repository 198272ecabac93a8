//! A process that is killed when its value is dropped.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a process may take to drain before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Subjects and the processes beside them, which must end with this process, whatever ends it.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn kill_all() {
    for pid in running().drain(..).filter_map(|pid| Pid::from_raw(pid as i32)) {
        // Each child leads its own process group. Fails only if the child has ended.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// A child that leads its own process group, which is killed when this value is dropped.
#[derive(Debug)]
pub struct OwnedChild(Child);

impl OwnedChild {
    /// Starts the command without input.
    pub(super) fn spawn(command: &mut Command) -> io::Result<OwnedChild> {
        OwnedChild::spawn_in_group(command.stdin(Stdio::null()))
    }

    /// Starts the command with pipes as its input and output.
    pub fn spawn_piped(command: &mut Command) -> io::Result<(OwnedChild, ChildStdin, ChildStdout)> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = OwnedChild::spawn_in_group(command)?;
        let pipes = child.0.stdin.take().zip(child.0.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((child, input, output))
    }

    fn spawn_in_group(command: &mut Command) -> io::Result<OwnedChild> {
        // The lab handles Ctrl-C in the terminal: it saves its results, then stops the subject itself.
        let child = command.process_group(0).spawn()?;
        running().push(child.id());
        Ok(OwnedChild(child))
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns the exit status, if the child has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    pub(super) fn drain(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            // Fails only if the child has ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        self.wait();
    }

    /// Waits a few seconds until the child ends, which the caller has asked it to do.
    pub fn wait(&mut self) {
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            // The child's id is the id of its group until the last member has ended and is waited for. Fails
            // only if no member is left.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
        running().retain(|pid| *pid != self.0.id());
    }
}
