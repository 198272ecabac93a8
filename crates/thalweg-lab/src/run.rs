//! Connects plan, samples and report.
//!
//! ```text
//! request ──┐
//! rerun ────┼─► plan ─► sampling ─► ending: folder, table, thresholds
//! continue ─┘
//! ```
//!
//! - `sampling`: the starts of a plan's cells; `start`: the subjects of one, in turns; `sample`: what one span shows
//! - `span_points`: what a subject uses over a span of any length
//! - `start_barrier`: samples that are taken at the same time begin together
//! - `ending`: what is saved, printed and judged at the end; `continue_run`: continues an interrupted run
//! - `machine`, `endpoints`: facts about them before the run; `peers`: installs and finds peers
//! - `bundle`: the folder that a run leaves; `files`: its files; `lines`: files with a JSON value on each line
//! - `stored_run`: a bundle that is loaded; `archive`: a compressed copy of it; `store`: a folder of runs; `query`: reads runs
//! - `progress` and `eta`: where the run stands, how long it still takes
//! - `interrupt`: Ctrl-C; `arguments`: as they are archived; `secrets`: never archived

mod archive;
mod arguments;
mod bundle;
mod continue_run;
mod ending;
mod endpoints;
mod eta;
mod files;
mod interrupt;
mod lines;
mod machine;
mod peers;
mod progress;
mod query;
mod sample;
mod sampling;
mod secrets;
mod span_points;
mod start;
mod start_barrier;
mod store;
mod stored_run;
#[cfg(test)]
mod tests;
mod watch;

pub use archive::archive;
pub use continue_run::continue_run;
pub use interrupt::INTERRUPTED;
pub use peers::install;
pub use query::{entries, judge};
pub use store::{STORE, Store};
pub use stored_run::StoredRun;

use crate::browser::{self, Chromium};
use crate::load_generator::LoadGenerator;
use crate::measure::Sample;
use crate::report::{Manifest, Threshold};
use crate::scenario::{self, Changes, Endpoint, Plan, Program};
use crate::subject::{self, Cores, NoThalweg, Place, Programs};
use crate::swarm::Swarm;
use anyhow::Context;
use bundle::Bundle;
use machine::machine_note;
use peers::{find_programs, peers_in};
use sample::Bench;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

/// Where the plan comes from.
#[derive(Clone, Debug)]
pub enum PlanSource {
    /// A scenario of the library by name, or a file.
    Scenario(String),
    /// Endpoints that somebody runs.
    Endpoints(Vec<Endpoint>),
}

/// A run to make, and where its results go.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Source of the plan.
    pub plan: PlanSource,
    /// Changes by the command line.
    pub changes: Changes,
    /// Where the subjects run.
    pub place: Place,
    /// The folder to write to; `None` is a new one in the store.
    pub out: Option<PathBuf>,
}

/// Settings of every run, new or repeated.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The measured binary and the lab's own program.
    pub programs: Programs,
    /// Folders of peers, each with a `subject.toml`.
    pub peers: Vec<PathBuf>,
    /// Whether to count the subjects' system calls after every span.
    pub system_calls: bool,
    /// Where runs are kept.
    pub store: Store,
    /// Output, and the thresholds of the run.
    pub output: OutputOptions,
    /// Typed arguments, without the program's name.
    pub arguments: Vec<String>,
    /// The lab's own version.
    pub version: String,
}

/// Output of a run, and its thresholds.
#[derive(Clone, Debug, Default)]
pub struct OutputOptions {
    /// Whether to print only errors and the folder.
    pub is_quiet: bool,
    /// Whether to print the summary as JSON on stdout, and nothing else there.
    pub is_json: bool,
    /// Thresholds that fail the run.
    pub fail_if: Vec<Threshold>,
    /// Kinds of faults of endpoints that do not fail the run, e.g. `refused`.
    pub allowed: Vec<&'static str>,
    /// The file for the JUnit XML.
    pub junit: Option<PathBuf>,
    /// The built report page without a summary. Without it a run has no report.html.
    pub page: Option<&'static str>,
    /// Whether to print the lines of experiment C's published program below the table.
    pub as_published: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With every sample.
    Complete,
    /// By Ctrl-C or SIGTERM; what was measured is kept.
    Interrupted,
}

/// A request for something that does not exist, or for options that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(pub String);

fn misuse(sentence: impl Into<String>) -> anyhow::Error {
    Misuse(sentence.into()).into()
}

/// Runs a scenario in a folder of its own.
pub fn run(request: &RunRequest, context: &RunContext) -> anyhow::Result<Ended> {
    let plan = read_plan(request, context)?;
    begin(plan, &request.place, request.out.as_deref(), None, context)
}

/// Runs a stored run's plan again, in a folder of its own.
pub fn rerun(run: &str, out: Option<&Path>, context: &RunContext) -> anyhow::Result<Ended> {
    let folder = context.store.find(run)?;
    let plan: Plan = files::read_json(&folder, files::PLAN)?;
    secrets::expect_all_kept(&plan)?;
    let place = place_of(&stored_run::manifest(&folder))?;
    begin(plan, &place, out, Some(stored_run::name_of(&folder)), context)
}

fn begin(
    mut plan: Plan,
    place: &Place,
    out: Option<&Path>,
    rerun_of: Option<String>,
    context: &RunContext,
) -> anyhow::Result<Ended> {
    context.output.check(&plan)?;
    find_programs(&mut plan, &context.peers)?;
    let measured = measured(&plan, &context.programs)?;
    let peers = subject::install_peers(&mut plan, context.output.is_quiet)?;
    let cores = Cores::allowed()?;
    let machine = machine_note(&plan, &cores, place);
    let begun = now();
    let folder = out.map(Path::to_owned).unwrap_or_else(|| {
        let (day, _) = begun.split_once('T').unwrap_or_default();
        let (cpu, cores) = (machine.cpu_slug(), machine.cores);
        context.store.unused(&format!("{day}-{cpu}-{cores}-{}", plan.name))
    });
    let arguments = arguments::without_folders(&context.arguments);
    let mut manifest = Manifest {
        begun,
        measured,
        under: arguments::without_folders(&place.under),
        at: (place.address != Place::default().address).then(|| place.address.to_string()),
        rerun_of,
        peers,
        ..Manifest::new(&context.version, &arguments::line(&arguments), machine)
    };
    manifest.arguments = arguments;
    if plan.load.is_browser() {
        browser::find().map_err(|error| misuse(error.to_string()))?;
    }
    let bundle = Bundle::create(folder, &archived(&plan), &manifest)?;
    measure(&plan, place, &cores, manifest, bundle, Vec::new(), context)
}

/// Takes the missing samples of a plan, and ends the run.
fn measure(
    plan: &Plan,
    place: &Place,
    cores: &Cores,
    mut manifest: Manifest,
    mut bundle: Bundle,
    samples: Vec<Sample>,
    context: &RunContext,
) -> anyhow::Result<Ended> {
    let program = plan.load.is_browser().then(browser::find).transpose()?;
    let interrupted = interrupt::listen()?;
    cores.pin_swarm(1)?;
    let generator: Box<dyn LoadGenerator> = match program {
        None => Box::new(Swarm),
        Some(program) => {
            let chromium = Chromium::new(program, cores.clone(), bundle.log()?);
            manifest.browser = Some(chromium.version()?);
            manifest.browser_flags = browser::flags().into_iter().map(str::to_owned).collect();
            Box::new(chromium)
        }
    };
    let bench = Bench {
        plan,
        context,
        place,
        cores,
        generator: &*generator,
        log: bundle.log()?,
        interrupted: &interrupted,
        remark: Mutex::default(),
    };
    let (samples, was_interrupted) = sampling::take(&bench, &mut bundle, samples)?;
    manifest.was_interrupted = was_interrupted;
    manifest.machine.remarks.extend(bench.remark.into_inner().ok().flatten());
    ending::end(&bundle, plan, &samples, manifest, &context.output)
}

/// Returns the version of the measured binary, which is empty if the plan does not need one.
fn measured(plan: &Plan, programs: &Programs) -> anyhow::Result<String> {
    if !plan.runs_thalweg() {
        return Ok(String::new());
    }
    subject::version_of(programs.thalweg().map_err(|error: NoThalweg| misuse(error.to_string()))?)
}

/// Returns the time as `2026-11-21T00:43:29Z`.
fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

impl OutputOptions {
    /// Refuses thresholds of subjects that the plan does not have.
    fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        self.fail_if.iter().try_for_each(|threshold| threshold.check(plan)).map_err(misuse)
    }
}

fn place_of(manifest: &Manifest) -> anyhow::Result<Place> {
    let address = match &manifest.at {
        Some(at) => at.parse().with_context(|| format!("manifest.json has no address in {at}"))?,
        None => Place::default().address,
    };
    Ok(Place { under: manifest.under.clone(), address })
}

fn read_plan(request: &RunRequest, context: &RunContext) -> anyhow::Result<Plan> {
    let name = match &request.plan {
        PlanSource::Endpoints(endpoints) => {
            return Ok(scenario::listen(endpoints, &request.changes)?);
        }
        PlanSource::Scenario(name) => name,
    };
    let is_file = name.ends_with(".toml");
    let text = if is_file {
        std::fs::read_to_string(name)
            .map_err(|error| misuse(format!("{name} cannot be read: {error}")))?
    } else {
        scenario::find(name)?.to_owned()
    };
    let source = if is_file { name.clone() } else { format!("scenario {name}") };
    let peers = peers_in(&context.peers)?;
    scenario::read(&text, &request.changes, &peers).context(source)
}

/// Returns the plan as it is archived: without folders of this machine, and without secrets.
fn archived(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for program in programs(&mut plan) {
        match program {
            Program::Peer(peer) => {
                let folder = [std::mem::take(&mut peer.folder)];
                peer.folder = arguments::without_folders(&folder).concat();
            }
            // A name without a folder would be searched on the `PATH`.
            Program::Build(binary) if binary.is_absolute() => {
                *binary = Path::new("(not kept)").join(binary.file_name().unwrap_or_default());
            }
            _ => {}
        }
    }
    secrets::hide(&mut plan);
    plan
}

fn programs(plan: &mut Plan) -> impl Iterator<Item = &mut Program> {
    let cells = plan.parts.iter_mut().flat_map(|part| &mut part.cells);
    cells.flat_map(|cell| &mut cell.subjects).map(|subject| &mut subject.program)
}
