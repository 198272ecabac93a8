//! The state of a server from outside: metrics, memory, log.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

use super::{Raw, Server, metric, wait_for, wait_for_value};

impl Server {
    /// Returns the sum of a metric's samples: `thalweg_name`, or `thalweg_name{code="…"}`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.count_over(Raw::connect(self.address), name)
    }

    pub(crate) fn count_over(&self, mut raw: Raw, name: &str) -> u64 {
        raw.ask("GET", "/metrics", &self.inspection(), "");
        let text = String::from_utf8_lossy(&raw.answer().body).into_owned();
        metric(&text, name).unwrap_or_else(|| panic!("no {name} in {text}")) as u64
    }

    pub(crate) fn has_refused(&self, code: &str, times: u64) {
        self.has_counted(&format!("thalweg_refused_total{{code=\"{code}\"}}"), times);
    }

    pub(crate) fn has_closed(&self, code: u16, times: u64) {
        self.has_counted(&format!("thalweg_closed_total{{code=\"{code}\"}}"), times);
    }

    pub(crate) fn has_counted(&self, name: &str, expected: u64) {
        wait_for_value(name, || self.count(name), |last| *last == expected);
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn while_stopped(&self, act: impl FnOnce()) {
        kill_process(self.pid, Signal::STOP).expect("stop the server");
        wait_for("the server to stop", || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid.as_raw_pid()));
            let mut threads = threads.expect("its threads").map_while(Result::ok);
            threads.all(|thread| is_stopped(&thread.path())).then_some(())
        });
        act();
        kill_process(self.pid, Signal::CONT).expect("let it go on");
    }

    pub(crate) fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_pid()));
        let status = status.expect("a running server");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kib.expect("VmRSS") << 10
    }

    pub(crate) fn said(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    pub(crate) fn has_said(&self, words: &str) {
        wait_for(&format!("the server to say {words:?}"), || {
            self.log.lock().expect("the log").contains(words).then_some(())
        });
    }
}

/// Whether a thread is stopped (proc_pid_stat(5), field 3), or has ended.
fn is_stopped(thread: &Path) -> bool {
    let Ok(stat) = fs::read_to_string(thread.join("stat")) else { return true };
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}
