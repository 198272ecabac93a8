//! What shows from outside how a server is: its metrics, its memory, its log.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

use super::{Raw, Server, wait_for, wait_for_value};

impl Server {
    /// The sum of a metric's samples: `thalweg_name`, or `thalweg_name{code="…"}`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.count_over(Raw::connect(self.address), name)
    }

    /// The same, asked on this connection.
    pub(crate) fn count_over(&self, raw: Raw, name: &str) -> u64 {
        self.amount_over(raw, name) as u64
    }

    /// The same of a metric that has fractions.
    pub(crate) fn amount(&self, name: &str) -> f64 {
        self.amount_over(Raw::connect(self.address), name)
    }

    fn amount_over(&self, mut raw: Raw, name: &str) -> f64 {
        raw.ask("GET", "/metrics", &self.inspection(), "");
        let answer = raw.answer();
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let samples = text.lines().filter_map(|line| line.strip_prefix(name));
        let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
        let values: Vec<f64> =
            samples.filter_map(|rest| rest.rsplit(' ').next()?.parse().ok()).collect();
        assert!(!values.is_empty(), "no {name} in {text}");
        values.iter().sum()
    }

    /// Waits until that many were refused with `code`.
    pub(crate) fn has_refused(&self, code: &str, times: u64) {
        self.has_counted(&format!("thalweg_refused_total{{code=\"{code}\"}}"), times);
    }

    /// Waits until that many were closed with `code`.
    pub(crate) fn has_closed(&self, code: u16, times: u64) {
        self.has_counted(&format!("thalweg_closed_total{{code=\"{code}\"}}"), times);
    }

    /// Waits until a metric is `expected`.
    pub(crate) fn has_counted(&self, name: &str, expected: u64) {
        wait_for_value(name, || self.count(name), |last| *last == expected);
    }

    /// Its process, to signal.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Does something while none of its threads runs.
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

    /// Its resident memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_pid()));
        let status = status.expect("a running server");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kib.expect("VmRSS") << 10
    }

    /// All that it has said.
    pub(crate) fn said(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    /// Waits until it has said `words`.
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
