//! Continues an interrupted run.

use super::bundle::Bundle;
use super::files::SAMPLES;
use super::machine::machine_note;
use super::peers::find_programs;
use super::stored_run::StoredRun;
use super::{Ended, RunContext, measure, measured, misuse, now, place_of, secrets};
use crate::report::Addition;
use crate::subject::{self, Cores};

/// Continues an interrupted run in its folder, with the same binaries on the same machine.
pub fn continue_run(run: &str, context: &RunContext) -> anyhow::Result<Ended> {
    let run = StoredRun::read(&context.store.find(run)?)?;
    secrets::expect_all_kept(&run.plan)?;
    let StoredRun { name, folder, mut plan, mut manifest, samples, .. } = run;
    if !manifest.ended.is_empty() && !manifest.was_interrupted {
        return Err(misuse(format!(
            "`{name}` is complete; start a new run with `thalweg-lab bench rerun`"
        )));
    }
    if !folder.join(SAMPLES).exists() {
        return Err(misuse(format!(
            "`{name}` is archived; start a new run with `thalweg-lab bench rerun`"
        )));
    }
    context.output.check(&plan)?;
    find_programs(&mut plan, &context.peers)?;
    let measured = measured(&plan, &context.programs)?;
    let peers = subject::install_peers(&mut plan, context.output.is_quiet)?;
    let place = place_of(&manifest)?;
    let cores = Cores::allowed()?;
    let machine = machine_note(&plan, &cores, &place);
    let addition = Addition { begun: now(), version: context.version.clone(), measured };
    let same = |what: &str, is_same: bool| match is_same {
        true => Ok(()),
        false => Err(misuse(format!(
            "`{name}` was begun with another {what}, and figures of both must not be mixed; \
             start a new run with `thalweg-lab bench rerun`"
        ))),
    };
    same("version of the lab", manifest.version == addition.version)?;
    same("build of Thalweg", manifest.measured == addition.measured)?;
    same("version of a peer", manifest.peers == peers)?;
    same(
        "machine",
        (&manifest.machine.cpu, manifest.machine.cores) == (&machine.cpu, machine.cores),
    )?;
    manifest.continued.push(addition);
    (manifest.was_interrupted, manifest.ended) = (false, String::new());
    let bundle = Bundle::reopen(folder)?;
    bundle.note(&manifest)?;
    measure(&plan, &place, &cores, manifest, bundle, samples, context)
}
