//! Peers are installed on demand and before a run, so that no sample waits for a compiler.

use super::programs::{find_program, version_of};
use crate::scenario::{Peer, Plan, Program};
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime};

/// Folders that an installation creates: they are not sources.
const INSTALLED: [&str; 2] = ["build", "node_modules"];

/// Reads every peer in a folder, each in a subfolder with a `subject.toml`. Returns none if the folder does not exist.
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

/// Installs the plan's peers whose sources are newer, and returns versions by name. Cells of a missing peer show the reason.
pub fn install_peers(plan: &mut Plan, is_quiet: bool) -> anyhow::Result<BTreeMap<String, String>> {
    let (mut versions, mut missing) = (BTreeMap::new(), BTreeMap::new());
    let mut seen = BTreeSet::new();
    for subject in plan.subjects() {
        match &subject.program {
            Program::Peer(peer) if seen.insert(peer.name.clone()) => {
                match install(peer, is_quiet) {
                    Ok(version) => drop(versions.insert(peer.name.clone(), version)),
                    Err(error) => drop(missing.insert(peer.name.clone(), format!("{error:#}"))),
                }
            }
            Program::Build(binary) if seen.insert(subject.name.clone()) => {
                versions.insert(subject.name.clone(), version_of(binary)?);
            }
            _ => {}
        }
    }
    for (name, why) in &missing {
        if !is_quiet {
            // Stderr may be closed.
            let _ = writeln!(stderr(), "{name} is left out: {why}");
        }
        plan.leave_out(name, why);
    }
    if plan.parts.is_empty() {
        let why: Vec<String> = missing.into_values().collect();
        bail!("no subject is left: {}", why.join("; "));
    }
    Ok(versions)
}

/// Installs a peer, unless it is newer than its sources, and returns its version. Progress goes to stderr; with `is_quiet`, an error
/// has the tool's output instead.
pub fn install(peer: &Peer, is_quiet: bool) -> anyhow::Result<String> {
    let is_missing = |program: &&String| find_program(program).is_none();
    if let Some(missing) = peer.needs.iter().find(is_missing) {
        bail!("`{}` needs `{missing}`, which is not on the PATH", peer.name);
    }
    let installed = peer.fill(peer.installed.as_deref().unwrap_or("{out}"));
    if !peer.install.is_empty() && !is_newer(Path::new(&installed), Path::new(&peer.folder)) {
        run_install(peer, is_quiet)?;
        // A tool with nothing to do keeps the old modification time.
        let touched = fs::File::options().append(true).open(&installed);
        touched
            .and_then(|file| file.set_modified(SystemTime::now()))
            .with_context(|| format!("installing `{}` did not create {installed}", peer.name))?;
    }
    Ok(version(peer))
}

fn run_install(peer: &Peer, is_quiet: bool) -> anyhow::Result<()> {
    let Some((tool, words)) = peer.install.split_first() else { return Ok(()) };
    let say = |text: &str| {
        if !is_quiet {
            // Stderr may be closed.
            let _ = writeln!(stderr(), "{text}");
        }
    };
    say(&format!("installing {}: {}", peer.name, peer.install.join(" ")));
    let begun = Instant::now();
    // The command runs in the peer's folder, so the path of its program must be absolute.
    let (program, folder) =
        (std::path::absolute(peer.program())?, std::path::absolute(&peer.folder)?);
    let fill = |word: &String| {
        word.replace("{out}", &program.to_string_lossy())
            .replace("{folder}", &folder.to_string_lossy())
    };
    let output = Command::new(tool)
        .args(words.iter().map(fill))
        .current_dir(&peer.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if is_quiet { Stdio::piped() } else { Stdio::inherit() })
        .output()
        .with_context(|| format!("`{tool}` is needed to install `{}`", peer.name))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        let failed = format!("`{}` failed\n{printed}", peer.install.join(" "));
        bail!("`{}` cannot be installed: {}", peer.name, failed.trim_end());
    }
    say(&format!("installed {} in {} s", peer.name, begun.elapsed().as_secs()));
    Ok(())
}

/// Returns whether `built` is newer than every source in the folder of a `subject.toml`.
fn is_newer(built: &Path, folder: &Path) -> bool {
    let modified = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let Some(built) = modified(built) else { return false };
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { return false };
        for path in entries.flatten().map(|entry| entry.path()) {
            if !path.is_dir() {
                if modified(&path).is_none_or(|changed| changed > built) {
                    return false;
                }
            } else if !INSTALLED.iter().any(|name| path.ends_with(name)) {
                folders.push(path);
            }
        }
    }
    true
}

fn version(peer: &Peer) -> String {
    let words: Vec<String> = peer.version.iter().map(|word| peer.fill(word)).collect();
    let Some((tool, words)) = words.split_first() else {
        return "not told".to_owned();
    };
    let Ok(output) = Command::new(tool).args(words).stdin(Stdio::null()).output() else {
        return "not told".to_owned();
    };
    let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&printed);
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("build\t"));
    lines
        .collect::<Vec<_>>()
        .join("; ")
        .replace('\t', " ")
        .replace(&format!("{}/", peer.folder), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::TemporaryFolder;
    use std::time::Duration;

    #[test]
    fn newer_sources_are_found_in_any_folder() {
        let folder = TemporaryFolder::new("install").unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, age_s: u64| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            let file = fs::File::create(path(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
        };
        let is_newer = || super::is_newer(&path("build/peer"), folder.path());
        assert!(!is_newer(), "there is none");
        write("build/peer", 100);
        for name in ["subject.toml", "src/deep/main.rs"] {
            write(name, 200);
            assert!(is_newer(), "{name} is older");
            write(name, 50);
            assert!(!is_newer(), "{name} is newer");
            write(name, 200);
        }
        for name in ["build/other", "node_modules/ws/index.js"] {
            write(name, 50);
            assert!(is_newer(), "{name} is no source");
        }
    }
}
