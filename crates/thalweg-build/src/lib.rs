//! The parts of build scripts that both programs share. The scripts run in the folders of their crates.

use std::{
    env,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// The path of the workspace.
const ROOT: &str = "../..";
/// Sources that affect the figures of a run. Others are docs, pages and archives.
const MEASURED: [&str; 3] = ["crates", "lab/subjects", "Cargo.lock"];

/// Adds the version and tree of the sources to the program as `THALWEG_VERSION`, so that a run names the measured program and
/// the lab. The script runs again when they change.
pub fn name_version() {
    let version = env!("CARGO_PKG_VERSION");
    let commit = said_by("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    let rustc = env::var("RUSTC").map_or_else(|_| String::new(), |found| said_by(&found, &["-V"]));
    let tree = tree().map_or_else(String::new, |tree| format!("tree {tree}"));
    let parts = [version, &commit, &tree, &rustc];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    println!("cargo::rustc-env=THALWEG_VERSION={}", parts.join(", "));
    // In a linked worktree the file is elsewhere.
    watch([Path::new(&said_by("git", &["rev-parse", "--git-path", "logs/HEAD"]))]);
    // The state `modified` may change with any source.
    println!("cargo::rerun-if-changed=../../crates");
    // Files are watched one by one, because the build of a subject leaves other files beside its sources.
    for path in said_by("git", &["-C", ROOT, "ls-files", "lab/subjects", "Cargo.lock"]).lines() {
        println!("cargo::rerun-if-changed={ROOT}/{path}");
    }
}

/// Lets cargo build again when the first existing one of these changes. A missing file would trigger every
/// build.
pub fn watch<'a>(paths: impl IntoIterator<Item = &'a Path>) {
    if let Some(path) = paths.into_iter().find(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Returns the hash of the measured sources: `git ls-tree HEAD crates lab/subjects Cargo.lock | git
/// hash-object --stdin`, with `modified` if files differ from the commit. Returns `None` without git.
fn tree() -> Option<String> {
    let listed = |command: &[&str]| said_by("git", &[&["-C", ROOT], command, &MEASURED].concat());
    let entries = listed(&["ls-tree", "HEAD"]);
    if entries.is_empty() {
        return None;
    }
    let mut git = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    git.stdin.take()?.write_all(format!("{entries}\n").as_bytes()).ok()?;
    let hash = String::from_utf8(git.wait_with_output().ok()?.stdout).ok()?;
    let is_clean = listed(&["diff", "--name-only", "HEAD", "--"]).is_empty();
    let modified = if is_clean { "" } else { " modified" };
    Some(format!("{}{modified}", hash.get(..12)?))
}

/// Returns the output of a program, empty if it is missing: a source archive has no git.
fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => String::new(),
    }
}
