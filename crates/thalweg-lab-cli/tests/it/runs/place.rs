//! A folder with a tiny scenario and a store, and `thalweg-lab bench` in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::programs::LAB;

pub(super) const TINY: &str = r#"
name = "tiny"
title = "a tiny load"
drive = "published-load"
control = "none"
repeats = 2
rounds = 1
warm_up_ms = 20
measured_ms = 100

[defaults]
connections = 2
"#;

/// Attempts at a run that the machine does not disturb.
const ATTEMPTS: usize = 8;

pub(super) struct Place {
    pub(super) folder: PathBuf,
}

impl Place {
    pub(super) fn new(name: &str) -> Self {
        Self::with(name, TINY)
    }

    pub(super) fn with(name: &str, scenario: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runs-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("make a folder");
        fs::write(folder.join("tiny.toml"), scenario).expect("write the scenario");
        Self { folder }
    }

    /// Returns `thalweg-lab bench` with these arguments, in the folder.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(LAB);
        command.arg("bench").args(words).current_dir(&self.folder);
        // The variable identifies its processes.
        command.env("THALWEG_RUNS_TEST", &self.folder);
        command
    }

    pub(super) fn bench(&self, words: &[&str]) -> Said {
        Said::from_output(&self.command(words).output().expect("start the binary"))
    }

    /// Runs the scenario. The store keeps the run under this name.
    pub(super) fn take(&self, name: &str, words: &[&str]) -> Said {
        let out = format!("store/{name}");
        self.valid(&out, &[&["tiny.toml", "--out", &out], words].concat())
    }

    /// Runs `thalweg-lab bench` with these arguments, which name the folder `out`. A busy machine makes samples
    /// invalid: the run is repeated until there are none, a few times at most.
    pub(super) fn valid(&self, out: &str, words: &[&str]) -> Said {
        let out = self.folder.join(out);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let existed = out.exists();
            let said = self.bench(words);
            let samples = fs::read_to_string(out.join("samples.jsonl")).unwrap_or_default();
            // A clock that is read late has the second of these reasons.
            let reasons = [r#""verdict":"machine""#, "Little's law"];
            let is_disturbed = !existed && reasons.iter().any(|reason| samples.contains(reason));
            if attempts == ATTEMPTS || !is_disturbed || !has_cores() {
                return said;
            }
            fs::remove_dir_all(&out).expect("remove the run");
        }
    }

    pub(super) fn file(&self, run: &str, name: &str) -> PathBuf {
        self.folder.join("store").join(run).join(name)
    }

    pub(super) fn text(&self, run: &str, name: &str) -> String {
        fs::read_to_string(self.file(run, name)).unwrap_or_default()
    }

    pub(super) fn json(&self, run: &str, name: &str) -> Value {
        serde_json::from_str(&self.text(run, name)).expect("JSON")
    }

    /// Returns the place in the plan of each sample, in the order of the file.
    pub(super) fn slots(&self, run: &str) -> Vec<String> {
        let slot = |line: &str| {
            let sample: Value = serde_json::from_str(line).expect("a sample");
            ["part", "cell", "subject", "repeat"].map(|key| sample[key].to_string()).join(".")
        };
        self.text(run, "samples.jsonl").lines().map(slot).collect()
    }

    pub(super) fn change_samples(&self, run: &str, change: impl Fn(&mut Vec<Value>)) {
        let text = self.text(run, "samples.jsonl");
        let parsed = text.lines().map(|line| serde_json::from_str(line).expect("a sample"));
        let mut samples: Vec<Value> = parsed.collect();
        change(&mut samples);
        let text: String = samples.iter().map(|sample| format!("{sample}\n")).collect();
        fs::write(self.file(run, "samples.jsonl"), text).expect("write samples");
    }

    /// Returns the command lines of running processes that were started from here.
    pub(super) fn processes(&self) -> Vec<String> {
        let line = |process: PathBuf| {
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).replace('\0', " ")
        };
        self.process_folders().into_iter().map(line).collect()
    }

    /// Kills these processes: a killed lab leaves its subject.
    pub(super) fn end_processes(&self) {
        for process in self.process_folders() {
            let number = process.file_name().and_then(|name| name.to_str()?.parse().ok());
            if let Some(process) = number.and_then(Pid::from_raw) {
                // It may have exited.
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }

    fn process_folders(&self) -> Vec<PathBuf> {
        let mark = format!("THALWEG_RUNS_TEST={}", self.folder.display());
        let is_ours = |process: &Path| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
        };
        let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        processes.filter(|process| is_ours(process)).collect()
    }
}

pub(super) struct Said {
    code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Said {
    fn from_output(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    pub(super) fn ended_with(&self, code: i32) -> &str {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "it said:\n{stdout}\n{stderr}");
        stdout
    }
}

/// With one core no sample is valid, and a run without one fails.
pub(super) fn has_cores() -> bool {
    thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Rounds figures to nine digits: reading and writing one may change its last digit.
pub(super) fn rounded(text: &str) -> String {
    let separators = [',', ' ', '\n'];
    let round = |piece: &str| match piece.trim_end_matches(separators).parse::<f64>() {
        Ok(figure) => format!("{figure:.8e} "),
        Err(_) => piece.to_owned(),
    };
    text.trim_end().split_inclusive(separators).map(round).collect()
}
