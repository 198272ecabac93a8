//! Facts about endpoints before they are measured: addresses, the program that serves them, and its cores.

use crate::measure::Resources;
use crate::scenario::{Endpoint, Plan, Program};
use crate::subject::{Cores, Listener};
use crate::swarm;

/// Returns whether only endpoints are measured.
pub(super) fn is_only_endpoints(plan: &Plan) -> bool {
    plan.parts.iter().all(|part| {
        part.cells.iter().all(|cell| {
            cell.subjects.iter().all(|subject| matches!(subject.program, Program::Url(_)))
        })
    })
}

/// Returns a sentence for each endpoint that can be looked up. It has only the name of the program, because arguments may be secrets.
pub(super) fn found(plan: &Plan, swarm_core: usize) -> Vec<String> {
    let mut found = Vec::new();
    for subject in plan.subjects() {
        if let Program::Url(endpoint) = &subject.program
            && let Some(sentence) = found_of(endpoint, swarm_core)
            && !found.contains(&sentence)
        {
            found.push(sentence);
        }
    }
    found
}

fn found_of(endpoint: &Endpoint, swarm_core: usize) -> Option<String> {
    let addresses = swarm::addresses(endpoint).ok()?;
    let listener = match Listener::find(&addresses) {
        Ok(listener) => listener,
        Err(not_seen) => return Some(not_seen.to_string()),
    };
    let is_loopback = addresses.iter().all(|address| address.ip().is_loopback());
    let way = if is_loopback { "over loopback" } else { "on this machine" };
    let cores = Cores::used_by(&Resources::tree(&listener.pids));
    let shared = if cores.contains(&swarm_core) { ", the swarm's too" } else { "" };
    let word = if cores.len() == 1 { "core" } else { "cores" };
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    let (program, cores) = (listener.program(), cores.join(", "));
    let url = &endpoint.url;
    Some(format!("{url}: {way}, served by {program}, which may run on {word} {cores}{shared}"))
}
