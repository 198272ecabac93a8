//! Every curl line of the README and of the pages it leads to works as it stands there, and so
//! do its settings.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::Server;

/// Where curl lines stand.
const DOCUMENTS: [&str; 3] = ["README.md", "docs/clients.md", "docs/queries.md"];

/// The address that the lines name.
const ADDRESS: &str = ":8080";

/// Streams do not end by themselves.
const SECONDS_PER_LINE: &str = "3";

/// `curl` ran into `--max-time`.
const TIMED_OUT: i32 = 28;

#[test]
fn every_curl_line_works() {
    let server = Server::start(&["--demo"]);
    std::thread::scope(|scope| {
        for document in DOCUMENTS {
            let lines = curl_lines(&read(document));
            assert!(!lines.is_empty(), "{document} shows no curl line in a sh or console block");
            for line in lines {
                let port = server.address.port();
                scope.spawn(move || check(&line, port));
            }
        }
    });
}

/// What a newcomer copies into `thalweg.toml` is taken.
#[test]
fn the_settings_of_the_readme_are_served() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("a block of TOML");
    let (settings, _) = rest.split_once("```").expect("the end of the block");
    let file = std::env::temp_dir().join(format!("thalweg-readme-{}.toml", std::process::id()));
    fs::write(&file, settings).expect("write it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output = command.args(["serve", "--check", "--config"]).arg(&file).output();
    fs::remove_file(&file).expect("remove it");
    let output = output.expect("run the binary");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("127.0.0.1:9000"));
}

/// A document, by its path from the top of the repository.
fn read(document: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    fs::read_to_string(path).expect("a document of the repository")
}

fn check(line: &str, port: u16) {
    let options = format!("curl --fail --silent --show-error --max-time {SECONDS_PER_LINE}");
    let here = line.replace(ADDRESS, &format!(":{port}")).replacen("curl", &options, 1);
    let output = Command::new("sh").args(["-c", &here]).output().expect("run sh");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(TIMED_OUT) => assert!(!said.is_empty(), "{line}: a stream without a byte"),
        code => panic!("{line}: exit code {code:?}: {said}{complained}"),
    }
}

/// The commands that begin with `curl`, of blocks marked `sh` or `console`; a
/// prompt before them and a backslash at a line's end are the shell's.
fn curl_lines(document: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut in_block = false;
    let mut command = String::new();
    for line in document.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            in_block = matches!(language.trim(), "sh" | "console") && !in_block;
            continue;
        }
        let line = line.trim().trim_start_matches("$ ");
        if !in_block || (command.is_empty() && !line.starts_with("curl ")) {
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
fn curl_lines_are_found_in_shell_blocks_only() {
    let readme = "curl no\n```sh\nmake run\ncurl one\n$ curl two \\\n  three\n```\n\
                  ```rust\ncurl no\n```\n```console\n$ curl four\nanswer\n```\n";
    assert_eq!(curl_lines(readme), ["curl one", "curl two three", "curl four"]);
}
