//! Stamps the binary with what it was built from, so that a run says what was
//! measured.

use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let commit = said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    let rustc = std::env::var("RUSTC").map_or_else(|_| String::new(), |it| said_by(&it, &["-V"]));
    let parts = [version, &commit, &rustc];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    println!("cargo::rustc-env=THALWEG_VERSION={}", parts.join(", "));
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    // Whether it is dirty changes with any source.
    println!("cargo::rerun-if-changed=../../crates");
    println!("cargo::rerun-if-changed=../../lab/subjects/limit");
}

/// Empty where the program is not there: a source archive has no git.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}
