//! Peers are built before a run, so that no sample waits for a compiler.

use super::version_of;
use crate::scenario::{Peer, Plan, Program};
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Every peer in a folder of folders, each with its `subject.toml`. None where
/// there is no such folder.
pub fn peers(folder: &Path) -> anyhow::Result<Vec<Peer>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut peers = Vec::new();
    for entry in entries {
        let folder = entry?.path();
        let file = folder.join("subject.toml");
        if file.exists() {
            let text = fs::read_to_string(&file);
            let text = text.with_context(|| format!("{} cannot be read", file.display()))?;
            let peer = Peer::read(&text, &folder.to_string_lossy());
            peers.push(peer.with_context(|| file.display().to_string())?);
        }
    }
    peers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(peers)
}

/// Builds the plan's peers where their sources are newer than what was built;
/// says each one's version, by name. What is built is said on stderr, unless it is
/// to be quiet there; then an error has what the tool said.
pub fn build_peers(plan: &Plan, is_quiet: bool) -> anyhow::Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    for subject in plan.subjects() {
        match &subject.program {
            Program::Peer(peer) if !versions.contains_key(&peer.name) => {
                build(peer, is_quiet)?;
                versions.insert(peer.name.clone(), version(peer));
            }
            Program::Build(binary) if !versions.contains_key(&subject.name) => {
                versions.insert(subject.name.clone(), version_of(binary)?);
            }
            _ => {}
        }
    }
    Ok(versions)
}

fn build(peer: &Peer, is_quiet: bool) -> anyhow::Result<()> {
    let Some((tool, words)) = peer.install.split_first() else {
        return Ok(());
    };
    let built = peer.fill(peer.installed.as_deref().unwrap_or("{out}"));
    if is_newer(Path::new(&built), Path::new(&peer.folder)) {
        return Ok(());
    }
    if !is_quiet {
        // Nobody may be there to read it.
        let _ = writeln!(stderr(), "building {}: {}", peer.name, peer.install.join(" "));
    }
    // It runs in the peer's folder, so what it leaves has to be named from the root.
    let program = std::path::absolute(peer.program())?;
    let fill = |word: &String| word.replace("{out}", &program.to_string_lossy());
    let output = Command::new(tool)
        .args(words.iter().map(fill))
        .current_dir(&peer.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if is_quiet { Stdio::piped() } else { Stdio::inherit() })
        .output()
        .with_context(|| format!("`{tool}` is needed to build the subject `{}`", peer.name))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let failed = format!("`{}` failed\n{said}", peer.install.join(" "));
        bail!("the subject `{}` cannot be built: {}", peer.name, failed.trim_end());
    }
    Ok(())
}

/// Whether this was built after every source beside the `subject.toml`.
fn is_newer(built: &Path, folder: &Path) -> bool {
    let modified = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let (Some(built), Ok(entries)) = (modified(built), fs::read_dir(folder)) else {
        return false;
    };
    let mut files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    files.all(|file| modified(&file).is_some_and(|changed| changed <= built))
}

/// What it says of its version, on one line.
fn version(peer: &Peer) -> String {
    let words: Vec<String> = peer.version.iter().map(|word| peer.fill(word)).collect();
    let Some((tool, words)) = words.split_first() else {
        return "not told".to_owned();
    };
    let Ok(output) = Command::new(tool).args(words).stdin(Stdio::null()).output() else {
        return "not told".to_owned();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("build\t"));
    lines
        .collect::<Vec<_>>()
        .join("; ")
        .replace('\t', " ")
        .replace(&format!("{}/", peer.folder), "")
}
