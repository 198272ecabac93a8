//! System calls of a subject, counted by the kernel itself: `perf` with the tracepoint that every system call passes.
//!
//! `/proc/PID/io` counts reads and writes of files only, not `send` or `epoll_wait`, and `strace` stops the subject at each call.
//! A tracepoint costs the subject a few hundred ns per call, so the lab counts after the measured span, in a separate period.

use anyhow::{Context, anyhow};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// A running count. `perf` counts as long as its program runs. This program is `cat`, which echoes the first line once counting has
/// begun, and ends with its input.
#[derive(Debug)]
pub struct SystemCallCount {
    perf: Child,
    /// Input of `cat`, which ends when this is closed.
    input: Option<ChildStdin>,
    has_begun: Receiver<()>,
}

impl SystemCallCount {
    /// Begins to count the calls of these processes.
    pub fn start(processes: &[u32]) -> anyhow::Result<SystemCallCount> {
        let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
        let mut perf = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &processes.join(",")])
            .args(["--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("`perf` is not available")?;
        let (mut input, output) = (perf.stdin.take(), perf.stdout.take());
        if let Some(input) = &mut input {
            // Fails only if `perf` has ended, which a later call reports.
            let _ = input.write_all(b"begin\n");
        }
        let (began, has_begun) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            if output.is_some_and(|output| BufReader::new(output).read_line(&mut line).is_ok())
                && !line.is_empty()
            {
                // The receiver is gone if the count was given up.
                let _ = began.send(());
            }
        });
        Ok(SystemCallCount { perf, input, has_begun })
    }

    /// Returns whether counting has begun since the last call; fails if it never will.
    pub fn has_begun(&mut self) -> anyhow::Result<bool> {
        match self.has_begun.try_recv() {
            Ok(()) => Ok(true),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(self.complaint()),
        }
    }

    /// Ends the count.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        drop(self.input.take());
        let mut printed = String::new();
        if let Some(mut output) = self.perf.stderr.take() {
            output.read_to_string(&mut printed)?;
        }
        self.perf.wait()?;
        count(&printed).ok_or_else(|| anyhow!("perf counted no system calls: {}", printed.trim()))
    }

    fn complaint(&mut self) -> anyhow::Error {
        let mut printed = String::new();
        if let Some(mut output) = self.perf.stderr.take() {
            // An unreadable rest is left out of the error.
            let _ = output.read_to_string(&mut printed);
        }
        let first =
            printed.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        anyhow!("perf cannot count system calls here: {}", first.trim())
    }
}

impl Drop for SystemCallCount {
    fn drop(&mut self) {
        drop(self.input.take());
        // Both fail only if it has ended already.
        let _ = self.perf.kill();
        let _ = self.perf.wait();
    }
}

/// Parses the count from `57824,,raw_syscalls:sys_enter,300512944,100.00,,`.
fn count(printed: &str) -> Option<u64> {
    printed
        .lines()
        .find(|line| line.contains("raw_syscalls:sys_enter"))
        .and_then(|line| line.split(',').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_the_first_field() {
        assert_eq!(count("57824,,raw_syscalls:sys_enter,300512944,100.00,,\n"), Some(57824));
        assert_eq!(count("<not counted>,,raw_syscalls:sys_enter,0,100.00,,"), None);
        assert_eq!(count(""), None);
    }
}
