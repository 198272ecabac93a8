//! Installs the peers of a plan, and finds them on this machine.

use super::{Ended, RunContext, misuse, programs};
use crate::scenario::{self, LAB, Plan, Program, THALWEG};
use crate::subject;
use std::path::PathBuf;
use thalweg_terminal::print;

/// Installs peers by name, or all; prints the version of each, or why it is missing.
pub fn install(names: &[String], context: &RunContext) -> anyhow::Result<Ended> {
    let peers = peers_in(&context.peers)?;
    if peers.is_empty() {
        return Err(misuse("no folder of --peers has a subject.toml: name one that has"));
    }
    let known: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
    let is_all = names.iter().any(|name| name == "all");
    if let Some(name) = names.iter().find(|name| !is_all && !known.contains(&name.as_str())) {
        return Err(misuse(scenario::unknown("peer", name, &known)));
    }
    let mut failed = 0;
    // Parts of Thalweg itself need no installation.
    let of_all = |peer: &scenario::Peer| !peer.install.is_empty() || !peer.needs.is_empty();
    let is_meant = |peer: &&scenario::Peer| is_all && of_all(peer) || names.contains(&peer.name);
    for peer in peers.iter().filter(is_meant) {
        let name = &peer.name;
        match subject::install(peer, context.output.is_quiet) {
            Ok(version) => print(&format!("{name:<16} {version}\n"))?,
            Err(error) => {
                failed += 1;
                print(&format!("{name:<16} not installed: {error:#}\n"))?;
            }
        }
    }
    // With `all`, some may need a package that no registry has.
    if failed > 0 && !is_all {
        anyhow::bail!("{failed} of {} peers are not installed", names.len());
    }
    Ok(Ended::Complete)
}

pub(super) fn peers_in(folders: &[PathBuf]) -> anyhow::Result<Vec<scenario::Peer>> {
    let mut peers = Vec::new();
    for folder in folders {
        peers.extend(subject::peers(folder)?);
    }
    Ok(peers)
}

/// Finds the programs of a plan on this machine. An archived plan only names them.
pub(super) fn find_programs(plan: &mut Plan, folders: &[PathBuf]) -> anyhow::Result<()> {
    let known = peers_in(folders)?;
    for program in programs(plan) {
        match program {
            Program::Build(binary) if !binary.is_file() => {
                return Err(misuse(format!(
                    "the other build {} does not exist here: name one with --against",
                    binary.display()
                )));
            }
            Program::Peer(peer) => {
                let Some(found) = known.iter().find(|known| known.name == peer.name) else {
                    return Err(misuse(format!(
                        "the subject `{}` is in none of the folders of peers: name its folder \
                         with --peers",
                        peer.name
                    )));
                };
                peer.folder.clone_from(&found.folder);
                // Archived when `limit` was a command of the measured binary.
                if let [program, command, ..] = &mut *peer.command
                    && (&**program, &**command) == (THALWEG, "limit")
                {
                    LAB.clone_into(program);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Changes;

    #[test]
    fn limit_of_an_archived_plan_is_a_command_of_the_lab() {
        let folders = [PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/subjects"))];
        let text = include_str!("../../../../lab/subjects/limit/power.toml");
        let peers = peers_in(&folders).unwrap();
        let mut plan = scenario::read(text, &Changes::default(), &peers).unwrap();
        for program in programs(&mut plan) {
            if let Program::Peer(peer) = program {
                THALWEG.clone_into(&mut peer.command[0]);
            }
        }
        assert!(plan.runs_thalweg());
        find_programs(&mut plan, &folders).unwrap();
        assert!(!plan.runs_thalweg());
    }
}
