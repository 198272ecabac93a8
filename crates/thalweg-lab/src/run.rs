//! The only wiring: plan, samples, report.

mod bundle;
mod date;
mod progress;
mod sample;
mod watch;

use crate::measure::{MachineNote, Sample};
use crate::report::{self, Manifest, Summary};
use crate::scenario::{self, Changes, Plan};
use crate::subject::{self, Cores, Place};
use anyhow::{Context, bail};
use bundle::Bundle;
use progress::Progress;
use sample::Bench;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to run and where to put it.
#[derive(Clone, Debug)]
pub struct Order {
    /// Name of a scenario of the library, or a file.
    pub scenario: String,
    /// What the command line changes about it.
    pub changes: Changes,
    /// The binary that `serve` and `limit` are run from.
    pub program: PathBuf,
    /// Where the subjects run.
    pub place: Place,
    /// Folders of peers, each with a `subject.toml`.
    pub peers: Vec<PathBuf>,
    /// The folder to write to; a new one under `thalweg-runs`, else.
    pub out: Option<PathBuf>,
    /// Whether to count the subjects' system calls behind every span.
    pub system_calls: bool,
    /// What was typed, for the archive.
    pub command_line: String,
    /// Thalweg's version.
    pub version: String,
}

/// Runs the order, prints the table and leaves everything in a folder.
pub fn run(order: &Order) -> anyhow::Result<()> {
    let plan = read_plan(order)?;
    let versions = subject::build_peers(&plan)?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let cores = Cores::allowed()?;
    let machine = machine_note(&plan, &cores, &order.place);
    let mut bundle = Bundle::create(order, &plan, &machine)?;
    cores.pin_swarm(1)?;

    let mut progress = Progress::new(&plan);
    let bench = Bench {
        plan: &plan,
        program: &order.program,
        place: &order.place,
        cores: &cores,
        log: bundle.log()?,
        interrupted: &interrupted,
        system_calls: order.system_calls,
        remark: std::cell::RefCell::default(),
    };
    let samples = take_samples(&bench, &mut progress, &mut bundle)?;
    progress.finish();

    let mut machine = machine;
    machine.remarks.extend(bench.remark.take());
    let mut manifest = Manifest::new(&order.version, &order.command_line, machine);
    manifest.peers = versions;
    manifest.begun = date::rfc3339(bundle.begun());
    manifest.ended = date::rfc3339(std::time::SystemTime::now());
    manifest.was_interrupted = interrupted.load(Ordering::Relaxed);
    let summary = Summary::new(&plan, &samples, manifest);
    let table = report::table(&summary);
    bundle.finish(&summary, &table)?;
    println!("{table}");
    if summary.manifest.was_interrupted {
        println!("Interrupted: {} samples were kept.", samples.len());
    }
    println!("Everything is in {}", bundle.folder().display());
    if !summary.has_valid_sample() {
        bail!(
            "no sample was valid; the reasons are above, what the subjects printed is in subjects.log"
        );
    }
    Ok(())
}

/// Every sample of the plan; fewer if interrupted.
fn take_samples(
    bench: &Bench<'_>,
    progress: &mut Progress,
    bundle: &mut Bundle,
) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for slot in bench.plan.slots() {
        progress.begin(bench.plan, slot);
        let Some(sample) = bench.take(slot, progress) else {
            break;
        };
        progress.end(bench.plan, &sample);
        bundle.append(&sample)?;
        samples.push(sample);
    }
    Ok(samples)
}

fn read_plan(order: &Order) -> anyhow::Result<Plan> {
    let is_file = order.scenario.ends_with(".toml");
    let text = if is_file {
        std::fs::read_to_string(&order.scenario)
            .with_context(|| format!("{} cannot be read", order.scenario))?
    } else {
        scenario::find(&order.scenario)?.to_owned()
    };
    let source =
        if is_file { order.scenario.clone() } else { format!("scenario {}", order.scenario) };
    let mut peers = Vec::new();
    for folder in &order.peers {
        peers.extend(subject::peers(folder)?);
    }
    scenario::read(&text, &order.changes, &peers).context(source)
}

fn machine_note(plan: &Plan, cores: &Cores, place: &Place) -> MachineNote {
    let shards_max = plan.subjects().map(|subject| subject.settings.shards).max().unwrap_or(1);
    let mut note = MachineNote::read();
    note.cores = cores.count();
    note.subject_cores = cores.of_subject(1).to_vec();
    note.swarm_core = cores.of_swarm(1);
    if !place.is_loopback() {
        let under = place.under.join(" ");
        note.remarks = vec![format!("one machine, subjects at {} under `{under}`", place.address)];
    }
    if !cores.are_disjoint(1) {
        note.remarks.push("only one core: subject and swarm share it, nothing is valid".to_owned());
    } else if !cores.are_disjoint(shards_max) {
        note.remarks.push(format!(
            "{shards_max} shards leave no core of its own to the swarm: it shares core {}",
            cores.of_swarm(shards_max)
        ));
    }
    note
}
