//! Runs the examples of the README in bash, each with ports and a folder of its own.

use std::{env, fmt::Write, fs, os::unix::process::CommandExt, path::Path, process::Command};

use rustix::process::{Pid, Signal, kill_process_group};
use thalweg_testing::{ReservedPort, TemporaryPath};

use super::read;
use crate::harness::{Program, Server, thalweg};

/// The port of `make run`.
const DEMO_PORT: &str = "8080";

/// Prints the first line of a stream that has events, and ends it.
const FIRST_EVENTS: &str =
    r#"curl() { command curl --fail --silent --show-error "$@" | grep -m 1 '"events"'; }"#;

/// An example in its own process group, which ends with it.
struct Example {
    program: Program,
    group: Pid,
    _folder: TemporaryPath,
    ports: Vec<(String, ReservedPort)>,
}

impl Drop for Example {
    fn drop(&mut self) {
        // Fails if the whole group has ended.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Example {
    /// Runs the blocks of shell under this heading, and prints a line `done` after it.
    fn start(heading: &str, demo: &Server) -> Self {
        let mut script = format!("echo $$\n{FIRST_EVENTS}\n");
        let commands = commands(&read("README.md"), heading);
        let mut ports: Vec<(String, ReservedPort)> = Vec::new();
        for command in &commands {
            for port in ports_in(command).filter(|port| *port != DEMO_PORT) {
                if !ports.iter().any(|(name, _)| name == port) {
                    ports.push((port.to_owned(), ReservedPort::new()));
                }
            }
            script += command;
            if let (true, Some(port)) = (command.ends_with('&'), listens_at(command)) {
                let is_open = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&-");
                write!(script, "\nuntil {is_open}; do sleep 0.05; done").expect("a string grows");
            }
            script.push('\n');
        }
        script = script.replace(DEMO_PORT, &demo.address.port().to_string());
        for (name, port) in &ports {
            script = script.replace(name.as_str(), &port.number().to_string());
        }
        let folder = TemporaryPath::folder("readme");
        // A file: `pkill -f` finds the words of a command line.
        let file = folder.join("example.sh");
        fs::write(&file, script + "echo done\nwait\n").expect("write the example");
        let binary = Path::new(env!("CARGO_BIN_EXE_thalweg"));
        let folder_of_binary = binary.parent().expect("a folder").to_owned();
        let path = env::var("PATH").expect("a PATH");
        let path = env::join_paths([folder_of_binary].into_iter().chain(env::split_paths(&path)));
        let mut program = Program::start(
            Command::new("bash")
                .arg(&file)
                .env("PATH", path.expect("folders"))
                .current_dir(&*folder)
                .process_group(0),
        );
        let group = program.line().expect("the process id of bash").parse().ok();
        let group = group.and_then(Pid::from_raw).expect("a process id");
        Self { program, group, _folder: folder, ports }
    }

    /// Returns what it prints until its last command has ended.
    fn output(&mut self) -> String {
        let mut output = String::new();
        loop {
            match self.program.line() {
                Some(line) if line == "done" => return output,
                Some(line) => output += &(line + "\n"),
                None => panic!("it ended after {output}{}", self.program.said()),
            }
        }
    }

    /// The port that stands for one of the README.
    fn port(&self, name: &str) -> u16 {
        let port = self.ports.iter().find(|(one, _)| one == name);
        port.expect("a port of the example").1.number()
    }
}

/// The commands of the blocks of shell under a heading, each on one line and without comments.
fn commands(document: &str, heading: &str) -> Vec<String> {
    let (_, section) = document.split_once(&format!("\n### {heading}\n")).expect("the heading");
    let section = section.split("\n##").next().unwrap_or(section);
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let blocks: String = blocks.collect();
    assert!(!blocks.is_empty(), "a block of shell under {heading}");
    let lines = blocks.replace("\\\n", "");
    lines.lines().map(|line| line.split("   #").next().unwrap_or(line).trim().to_owned()).collect()
}

/// The numbers of four digits in a command.
fn ports_in(command: &str) -> impl Iterator<Item = &str> {
    command.split(|character: char| !character.is_ascii_digit()).filter(|number| number.len() == 4)
}

/// The port at which a command of the background listens, if it does.
fn listens_at(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("--listen").or_else(|| command.split_once("--port"))?;
    ports_in(rest).next()
}

#[test]
fn an_http_api_becomes_a_live_feed() {
    let demo = Server::start(&["--demo"]);
    let mut example = Example::start("An HTTP API as a live feed", &demo);
    let output = example.output();
    assert!(output.contains("matchesfeed/8/matchcentre"), "{output}");
}

#[test]
fn rows_of_a_query_arrive() {
    let demo = Server::start(&["--demo"]);
    let output = Example::start("SQL over live events", &demo).output();
    assert!(output.contains("events"), "{output}");
}

#[test]
fn a_server_is_load_tested() {
    let demo = Server::start(&["--demo"]);
    let output = Example::start("A load test of your own server", &demo).output();
    assert!(output.contains(" of 100 established"), "{output}");
}

#[test]
fn no_event_is_lost_when_the_server_is_killed() {
    let demo = Server::start(&[]);
    let heading = "A page that survives `kill -9`";
    let last = commands(&read("README.md"), heading).pop();
    assert!(last.is_some_and(|last| last.starts_with("pkill -9")), "the example kills the server");
    let mut example = Example::start(heading, &demo);
    example.output();
    let url = format!("http://127.0.0.1:{}/v1/topics/numbers", example.port("8090"));
    let arguments = ["tail", &url, "--from", "earliest", "--count", "50", "--format", "plain"];
    let numbers = thalweg(&arguments).lines(50);
    let expected: Vec<String> = (1..=50).map(|number| number.to_string()).collect();
    assert_eq!(numbers, expected);
}
