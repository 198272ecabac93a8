//! A process that ends with the value that stands for it.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a process may take to drain before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Subjects and the processes beside them, which must end with this process, however that ends.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn kill_all() {
    for pid in running().drain(..).filter_map(|pid| Pid::from_raw(pid as i32)) {
        // Each leads a group of its own. Fails only if it has ended already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// A child that leads a group of its own. Dropped, all of the group is killed.
#[derive(Debug)]
pub struct OwnedChild(Child);

impl OwnedChild {
    /// Starts it, without an input.
    pub(super) fn spawn(command: &mut Command) -> io::Result<OwnedChild> {
        OwnedChild::spawn_in_group(command.stdin(Stdio::null()))
    }

    /// Starts it with pipes as its input and its output.
    pub fn spawn_piped(command: &mut Command) -> io::Result<(OwnedChild, ChildStdin, ChildStdout)> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = OwnedChild::spawn_in_group(command)?;
        let pipes = child.0.stdin.take().zip(child.0.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((child, input, output))
    }

    fn spawn_in_group(command: &mut Command) -> io::Result<OwnedChild> {
        // A Ctrl-C in the terminal is the lab's to handle: it stops the subject itself, after it has saved what it has.
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
            // Fails only if it has ended already.
            let _ = kill_process(pid, Signal::TERM);
        }
        self.wait();
    }

    /// Waits a few seconds for its end; it was asked for that.
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
