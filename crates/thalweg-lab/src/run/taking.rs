//! The samples of some of a plan's slots.

use super::bundle::Bundle;
use super::ending::{self, Taken};
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::sample::Bench;
use super::{Ended, Means, visits};
use crate::measure::Sample;
use crate::report::Manifest;
use crate::scenario::{Plan, Slot};
use crate::subject::{Cores, Place};
use std::sync::Mutex;

/// Everything that is settled before the first sample.
pub(super) struct Session<'a> {
    pub(super) plan: &'a Plan,
    pub(super) place: &'a Place,
    pub(super) cores: &'a Cores,
    pub(super) means: &'a Means,
    pub(super) bundle: Bundle,
}

impl Session<'_> {
    /// Takes the samples of `slots`, fewer if interrupted, beside those that the
    /// run `had`, and ends the run.
    pub(super) fn take(
        mut self,
        slots: &[Slot],
        had: Vec<Sample>,
        mut manifest: Manifest,
    ) -> anyhow::Result<Ended> {
        let interrupt = Interrupt::listen()?;
        self.cores.pin_swarm(1)?;
        let bench = Bench {
            plan: self.plan,
            program: &self.means.program,
            place: self.place,
            cores: self.cores,
            log: self.bundle.log()?,
            interrupted: interrupt.flag(),
            system_calls: self.means.system_calls,
            remark: Mutex::default(),
        };
        let manner = &self.means.manner;
        let mut progress = Progress::new(self.plan, slots, manner.is_quiet);
        let mut samples = had;
        let mut taken = 0;
        for turn in self.plan.turns(slots) {
            progress.begin(self.plan, turn[0]);
            let Some(found) = bench.take(turn, &mut progress) else {
                break;
            };
            for sample in found {
                progress.end(self.plan, &sample);
                self.bundle.append(&sample)?;
                samples.retain(|other| !is_of_one_place(other, &sample));
                samples.push(sample);
                taken += 1;
            }
            // Whoever does not answer once is not asked again and again.
            if visits::is_visit(self.plan) && !samples.iter().any(|it| it.verdict.is_valid()) {
                break;
            }
        }
        progress.finish();
        // Those who continued may have seen it before.
        let remark = bench
            .remark
            .into_inner()
            .ok()
            .flatten()
            .filter(|it| !manifest.machine.remarks.contains(it));
        manifest.machine.remarks.extend(remark);
        let taken = Taken {
            plan: self.plan,
            samples,
            count: taken,
            was_interrupted: interrupt.is_asked() && taken < slots.len(),
        };
        ending::end(&self.bundle, &taken, manifest, manner)
    }
}

fn is_of_one_place(a: &Sample, b: &Sample) -> bool {
    (a.part, a.cell, a.subject, a.repeat) == (b.part, b.cell, b.subject, b.repeat)
}
