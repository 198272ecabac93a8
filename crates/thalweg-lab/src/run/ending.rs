//! Saves, prints and judges a run when no more samples are taken.

use super::bundle::Bundle;
use super::{Ended, OutputOptions, endpoints, now};
use crate::measure::Sample;
use crate::report::{self, Hit, Manifest, Summary};
use crate::scenario::Plan;
use anyhow::{Context, bail};
use std::path::Path;
use thalweg_terminal::{print, say};

/// Saves everything, prints results, and only then errors.
pub(super) fn end(
    bundle: &Bundle,
    plan: &Plan,
    samples: &[Sample],
    mut manifest: Manifest,
    output: &OutputOptions,
) -> anyhow::Result<Ended> {
    manifest.ended = now();
    let summary = Summary::new(plan, samples, manifest);
    let table = report::table(&summary);
    let has_failed = endpoints::is_only_endpoints(plan) && !summary.has_valid_sample();
    let failed = samples.first().filter(|_| has_failed);
    if failed.is_none() {
        bundle.finish(&summary, &table, output.page)?;
    }
    let hits = hits(output, &summary);
    if let Some(path) = &output.junit {
        leave_junit(path, plan, &summary, &hits)?;
    }
    if let Some(failed) = failed {
        bundle.discard();
        bail!("{}", failed.why);
    }
    let folder = bundle.folder();
    match output {
        OutputOptions { is_json: true, .. } => {
            print(&(serde_json::to_string_pretty(&report::Document::new(&summary))? + "\n"))?;
        }
        OutputOptions { is_quiet: true, .. } => print(&format!("{}\n", folder.display()))?,
        _ => {
            let folder = folder.display();
            let page = match output.page {
                Some(_) => "; its report.html has charts",
                None => "",
            };
            let where_to = format!("Everything is in {folder}{page}.");
            let as_published = match output.as_published || report::has_published_program(plan) {
                true => format!("\n{}", report::as_published(plan, samples)),
                false => String::new(),
            };
            let last = report::deliveries(&summary).map_or(String::new(), |last| {
                format!("\n{}\n", report::wrapped(&last, report::COLUMNS).join("\n"))
            });
            print(&format!("{table}{as_published}\n{where_to}\n{last}"))?;
        }
    }
    if summary.manifest.was_interrupted {
        let kept = samples.len();
        let planned =
            plan.samples_planned().map(|count| format!(" of {count}")).unwrap_or_default();
        say(format_args!("Interrupted: {kept}{planned} samples were kept."));
        return Ok(Ended::Interrupted);
    }
    if !summary.has_valid_sample() {
        bail!(
            "no sample was valid; the reasons are in samples.jsonl, the output of the subjects is \
             in subjects.log, both in {}",
            folder.display()
        );
    }
    refuse(&hits)?;
    Ok(Ended::Complete)
}

/// Returns faults that are not allowed, and thresholds that are crossed.
pub(super) fn hits(output: &OutputOptions, summary: &Summary) -> Vec<Hit> {
    let met = output.fail_if.iter().flat_map(|threshold| threshold.hits(summary));
    report::faults(summary, &output.allowed).into_iter().chain(met).collect()
}

/// Fails with an error that names all hits, if there are any.
pub(super) fn refuse(hits: &[Hit]) -> anyhow::Result<()> {
    if hits.is_empty() {
        return Ok(());
    }
    let (met, faults): (Vec<&Hit>, Vec<&Hit>) = hits.iter().partition(|hit| hit.is_threshold());
    let lines = |hits: &[&Hit]| -> Vec<String> { hits.iter().map(ToString::to_string).collect() };
    let mut reported = lines(&faults);
    if !met.is_empty() {
        reported.push(format!("--fail-if: {}", lines(&met).join("\n  ")));
    }
    bail!("{}", reported.join("\n"))
}

pub(super) fn leave_junit(
    path: &Path,
    plan: &Plan,
    summary: &Summary,
    hits: &[Hit],
) -> anyhow::Result<()> {
    std::fs::write(path, report::junit(plan, summary, hits))
        .with_context(|| format!("{} cannot be written", path.display()))
}
