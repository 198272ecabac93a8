//! Shell completions and man pages.

use std::{
    fs,
    process::{Command, Stdio},
};

use thalweg_testing::{TemporaryPath, skipped};

fn thalweg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments);
    command
}

fn said_by(command: &mut Command) -> String {
    let output = command.output().expect("run it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let found =
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skipped(&format!("there is no {program} on this machine"));
    }
    found
}

/// bash runs the script, and completes commands and flags with it.
#[test]
fn bash_completes_commands_and_flags() {
    if !has("bash") {
        return;
    }
    let script = said_by(&mut thalweg(&["completions", "bash"]));
    let complete = |words: &str, count: u32| {
        let test = format!(
            "{script}\nCOMP_WORDS=({words})\nCOMP_CWORD={count}\n\
             _thalweg thalweg \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{}]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            count - 1
        );
        said_by(Command::new("bash").args(["--norc", "-c", &test]))
    };
    assert_eq!(complete("thalweg doc", 1).trim(), "doctor");
    assert_eq!(complete("thalweg doctor --id", 2).trim(), "--idle");
}

#[test]
fn each_shell_gets_a_script() {
    for (shell, part) in [
        ("zsh", "#compdef thalweg"),
        ("fish", "complete -c thalweg"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = said_by(&mut thalweg(&["completions", shell]));
        assert!(script.contains(part) && script.contains("doctor"), "{shell}: {script}");
    }
}

/// A page for each command that the help shows. `man` and `mandoc` would read them; groff may not be installed.
#[test]
fn each_command_has_a_man_page() {
    let folder = TemporaryPath::new("man");
    said_by(thalweg(&["man"]).arg(&*folder));
    let page = |name: &str| {
        let path = folder.join(format!("{name}.1"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    for name in ["thalweg", "thalweg-serve", "thalweg-tail", "thalweg-doctor", "thalweg-data-check"]
    {
        assert!(page(name).contains(".TH"), "{name}");
    }
    assert!(page("thalweg-doctor").contains("\\-\\-idle"));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let output = thalweg(&["man", "/proc/thalweg"]).output().expect("run it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("cannot write man pages to /proc"), "{said}");
}
