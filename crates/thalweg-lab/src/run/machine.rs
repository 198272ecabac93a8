//! The machine of a run, and where on it the subjects, the swarm and a browser run.

use super::{arguments, endpoints};
use crate::measure::MachineNote;
use crate::scenario::{Plan, Settings};
use crate::subject::{Cores, Place};

pub(super) fn machine_note(plan: &Plan, cores: &Cores, place: &Place) -> MachineNote {
    let shards_max = plan.subjects().map(|subject| subject.settings.shards).max().unwrap_or(1);
    let mut note = MachineNote::read();
    note.cores = cores.count();
    note.swarm_core = cores.swarm_core(1);
    if endpoints::is_only_endpoints(plan) {
        note.remarks = endpoints::found(plan, note.swarm_core);
        return note;
    }
    // The note names the first of several placements, and says that there are others.
    let mut all = plan.subjects().map(|subject| subject.settings.cores);
    let used = Settings { cores: all.next().unwrap_or_default(), ..Settings::default() };
    note.subject_cores = cores.subject_cores(&used).to_vec();
    if plan.load.is_browser() {
        note.browser_cores = cores.browser_cores(&used).to_vec();
    }
    if !place.is_loopback() {
        let under = arguments::without_folders(&place.under).join(" ");
        note.remarks = vec![format!("one machine, subjects at {} under `{under}`", place.address)];
    }
    if all.any(|found| found != used.cores) {
        let others = "subject and browser have other cores where a cell says so";
        note.remarks.push(others.to_owned());
    }
    if !cores.are_disjoint(1) {
        note.remarks.push("only one core: subject and swarm share it, nothing is valid".to_owned());
    } else if !cores.are_disjoint(shards_max) {
        note.remarks.push(format!(
            "{shards_max} shards leave no core of its own to the swarm: it shares core {}",
            cores.swarm_core(shards_max)
        ));
    }
    note
}
