//! The commands and examples of the README, and the commands of the quickstart, work as they stand there. With `THALWEG_DOCS=all`, as `make test-all` sets
//! it, so do those of all pages of `docs`.
//!
//! Commands are lines of blocks marked `sh` or `console` that begin with one of `PROGRAMS`. A block marked
//! `sh ignore` needs what a test does not have: other machines, files, or minutes.

mod examples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::Server;

const DOCUMENTS: [&str; 2] = ["README.md", "docs/quickstart.md"];

const PROGRAMS: [&str; 5] =
    ["curl ", "thalweg serve ", "thalweg tail ", "thalweg pub ", "thalweg token "];

/// The address that the lines name.
const ADDRESS: &str = ":8080";

/// Streams do not end by themselves.
const SECONDS_PER_LINE: &str = "3";

const CURL_TIMED_OUT: i32 = 28;

const TIMED_OUT: i32 = 124;

#[test]
fn every_command_works() {
    let mut documents: Vec<String> = DOCUMENTS.map(str::to_owned).into();
    if std::env::var("THALWEG_DOCS").is_ok_and(|which| which == "all") {
        pages(&root().join("docs"), &mut documents);
    }
    let server = Server::start(&["--demo"]);
    let port = server.address.port();
    for document in documents {
        let lines = commands(&read(&document));
        assert!(
            !lines.is_empty() || !DOCUMENTS.contains(&&*document),
            "{document} shows no command"
        );
        std::thread::scope(|scope| {
            // The README also has commands for other addresses and for the reader's own files.
            let tried = |line: &String| {
                document != "README.md" || (line.starts_with("curl ") && line.contains(ADDRESS))
            };
            for line in lines.into_iter().filter(tried) {
                scope.spawn(move || check(&line, port));
            }
        });
    }
}

/// Adds the pages below a folder by their paths from the top of the repository. Decisions and the SDK's reference have
/// no commands.
fn pages(folder: &Path, documents: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("decisions") && !path.ends_with("sdk") {
            pages(&path, documents);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            let path = path.strip_prefix(root()).expect("a path below it");
            documents.push(path.to_str().expect("UTF-8").to_owned());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).expect("a document of the repository")
}

fn check(line: &str, port: u16) {
    let limit = format!("timeout {SECONDS_PER_LINE} thalweg");
    // A server of its own would not end: `--check` reads the same command line.
    let serve = "thalweg serve --check";
    let options = format!("curl --fail --silent --show-error --max-time {SECONDS_PER_LINE}");
    let here = line.replace(ADDRESS, &format!(":{port}"));
    let here = match here.strip_prefix("thalweg serve") {
        Some(rest) => serve.to_owned() + rest,
        None => here.replacen("curl", &options, 1).replacen("thalweg", &limit, 1),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_thalweg"));
    let folder = program.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new("sh").args(["-c", &here]).env("PATH", path).stdin(Stdio::null()).output();
    let output = output.expect("run sh");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(CURL_TIMED_OUT) => assert!(!said.is_empty(), "{line}: a stream without a byte"),
        // A topic without events: it is enough to be subscribed.
        Some(TIMED_OUT) => assert!(complained.contains("subscribed"), "{line}: {said}{complained}"),
        code => panic!("{line}: exit code {code:?}: {said}{complained}"),
    }
}

/// The commands of blocks marked `sh` or `console`; a prompt before them and a backslash at a line's end are the shell's.
fn commands(document: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut in_block = false;
    let mut command = String::new();
    for line in document.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            in_block = matches!(language.trim(), "sh" | "console") && !in_block;
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        if !in_block
            || (command.is_empty() && !PROGRAMS.iter().any(|program| line.starts_with(program)))
        {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(start) => command.push_str(start),
            None => lines.push(std::mem::take(&mut command) + line),
        }
    }
    lines
}

#[test]
fn commands_are_found_in_shell_blocks_only() {
    let readme = "curl no\n```sh\nmake run\ncurl one\n$ curl two \\\n  three\n```\n\
                  ```rust\ncurl no\n```\n```console\n$ curl four\nanswer\n```\n\
                  ```sh ignore\nthalweg no\n```\n```sh\nthalweg tail five\nthalweg-lab bench\n```\n";
    assert_eq!(commands(readme), ["curl one", "curl two three", "curl four", "thalweg tail five"]);
}
