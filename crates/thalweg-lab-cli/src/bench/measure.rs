//! Commands that measure: a scenario, `continue`, `rerun`.

use super::endpoint::{ENDPOINT, EndpointArgs, duration};
use super::{OUTPUT, OutputArgs, StoreArgs};
use anyhow::Context;
use clap::Args;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_lab::report::metric_table;
use thalweg_lab::run::{self, Ended, Misuse, PlanSource, RunContext, RunRequest};
use thalweg_lab::scenario::{Changes, Control, LoadIn, parse_bytes, published_config};
use thalweg_lab::subject::{Place, Programs};
use thalweg_terminal::print;

/// Options that need programs which the lab starts, and have no meaning for a running endpoint.
const NOT_OF_URL: [&str; 10] = [
    "scenario",
    "quick",
    "subject",
    "subjects_of",
    "against",
    "no_control",
    "under",
    "at",
    "thalweg",
    "peers",
];

/// Headings of the help.
const LOAD: &str = "Load";
const TIME: &str = "Time";
const SUBJECTS: &str = "Subjects";

/// A scenario, and changes to it.
#[derive(Args, Debug)]
pub(super) struct ScenarioArgs {
    /// Name of a scenario, or a file that ends in .toml.
    #[arg(default_value = "quick")]
    scenario: String,
    /// Run the short form of the scenario: fewer cells and shorter measurements.
    #[arg(long)]
    quick: bool,
    /// Run scenario c with the settings in this file, in the format of that experiment's published program.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "quick"])]
    config: Option<PathBuf>,
    /// Set a key of the scenario in every cell, e.g. topics=10 or window=[1,4].
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Measure this running endpoint (ws, wss, http or https) instead of a scenario. Repeat the flag to
    /// compare several endpoints. The report does not contain the values of the query string.
    #[arg(long, value_name = "URL", conflicts_with_all = NOT_OF_URL, help_heading = ENDPOINT)]
    url: Vec<String>,
    #[command(flatten)]
    endpoint: EndpointArgs,
    /// Break all connections at once, and measure how clients reconnect.
    #[arg(long, requires = "url", help_heading = ENDPOINT)]
    stampede: bool,
    /// Open this many connections in every cell. Several numbers, e.g. 100,1000, are measured one after the
    /// other.
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = LOAD)]
    connections: Vec<u32>,
    /// Open connections at this rate, in stages, e.g. 100/s or "50/s 10s, 200/s 1m", and measure how long
    /// each takes to open, counted from its scheduled time. With --rate, measure the answers meanwhile.
    #[arg(long, value_name = "RATE", conflicts_with_all = ["stay", "stampede"], help_heading = LOAD)]
    arrivals: Option<String>,
    /// Close each connection after about this time, e.g. 10s, and open another one.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "stampede", help_heading = LOAD)]
    stay: Option<Duration>,
    /// Publish this many events per second and topic, on a fixed schedule. With 0, publish as fast as
    /// subscribers receive: at most `window` (a key of the scenario) events are sent and not yet received.
    /// With --url: send this many messages per second on each WebSocket.
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = LOAD)]
    rate: Vec<u32>,
    /// Let this many of the connections read slowly during the measurement: 1000 bytes a second, or with
    /// --set slow_bytes_per_s=N another number.
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = LOAD)]
    slow: Vec<u32>,
    /// Publish events, or send messages, of this size, e.g. 100 or 16KiB.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_bytes, help_heading = LOAD)]
    size: Vec<usize>,
    /// Measure only these transports, e.g. websocket,sse.
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = LOAD)]
    transports: Vec<String>,
    /// Use the tabs of a browser as load generator, in scenarios that allow it (such as a1 to a4, b and
    /// tab): the system's Chromium, or the one that THALWEG_CHROMIUM names.
    #[arg(long, value_name = "NAME", conflicts_with = "url", help_heading = LOAD)]
    browser: Option<Browser>,
    /// Measure each sample for this time, e.g. 500ms, 10s or 1m. A number without unit is in seconds.
    #[arg(long, alias = "seconds", value_name = "TIME", value_parser = duration, help_heading = TIME)]
    duration: Option<Duration>,
    /// Measure all cells in this time, e.g. 10m. Each cell is measured until its result is precise enough, or
    /// its share of the time is used up. A scenario that consists of several scenarios (such as all) divides the
    /// time among them.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["repeats", "url"])]
    #[arg(help_heading = TIME)]
    budget: Option<Duration>,
    /// Measure each cell exactly this many times, each time with freshly started subjects, even if the result
    /// is already precise.
    #[arg(long, value_name = "N", help_heading = TIME)]
    repeats: Option<u32>,
    /// Measure only these subjects of the scenario, e.g. limit,thalweg.
    #[arg(long, alias = "subjects", value_name = "LIST", value_delimiter = ',', help_heading = SUBJECTS)]
    subject: Vec<String>,
    /// Measure the subjects of this suite in the scenario, e.g. peers. Cells that name their own subjects are
    /// left out.
    #[arg(long, value_name = "SUITE", help_heading = SUBJECTS)]
    subjects_of: Option<String>,
    /// Compare Thalweg subjects with this build, e.g. target/before/thalweg.
    #[arg(long, value_name = "OLD-BINARY", help_heading = SUBJECTS)]
    against: Option<PathBuf>,
    /// Skip the A/A control, which measures one subject twice: the difference of the two results is the noise
    /// of the machine.
    #[arg(long, alias = "no-again", help_heading = SUBJECTS)]
    no_control: bool,
    /// Install these peers (other servers), or `all`, and exit.
    #[arg(long, value_name = "PEER", value_delimiter = ',', conflicts_with = "url", help_heading = SUBJECTS)]
    install: Vec<String>,
    /// Print the metrics of --fail-if with their units, and exit.
    #[arg(long, exclusive = true, help_heading = OUTPUT)]
    metrics: bool,
    /// Start each subject through this command, e.g. "ip netns exec far".
    #[arg(long, value_name = "COMMAND", default_value = "", hide_default_value = true, help_heading = SUBJECTS)]
    under: String,
    /// Let the subjects listen on this address. Warning: if it is not loopback, everyone who can reach it can
    /// use the subjects without a token.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", help_heading = SUBJECTS)]
    at: IpAddr,
    /// Write the run to this folder [default: a new folder in the store].
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    context: ContextArgs,
}

/// A browser that can generate the load.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Browser {
    Chromium,
}

/// Options of all commands that measure.
#[derive(Args, Debug)]
struct ContextArgs {
    /// Read peers from this folder. Each has a subject.toml.
    #[arg(long, value_name = "DIR", default_value = "lab/subjects", help_heading = SUBJECTS)]
    peers: Vec<PathBuf>,
    /// Measure this thalweg binary [default: that of the variable THALWEG_BIN, the one beside thalweg-lab, or on the PATH].
    // Not with `env`: clap would count a variable as an option, which conflicts with --url.
    #[arg(long, value_name = "PATH", help_heading = SUBJECTS)]
    thalweg: Option<PathBuf>,
    /// Count the system calls of subjects, in a separate measurement after each sample. This needs perf.
    #[arg(long, help_heading = SUBJECTS)]
    system_calls: bool,
    /// Print only errors and the path of the run's folder.
    #[arg(long, short, help_heading = OUTPUT)]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Run the same plan again, in a new folder.
#[derive(Args, Debug)]
pub(super) struct RerunArgs {
    /// Name of the run, a unique part of it, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    /// Write the run to this folder [default: a new folder in the store].
    #[arg(long, value_name = "DIR", help_heading = OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    context: ContextArgs,
}

/// Continue an interrupted run, with the same binaries on the same machine.
#[derive(Args, Debug)]
pub(super) struct ContinueArgs {
    /// Name of the run, a unique part of it, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    #[command(flatten)]
    context: ContextArgs,
}

impl ContextArgs {
    fn context(self) -> anyhow::Result<RunContext> {
        let lab = std::env::current_exe().context("cannot find the path of this program")?;
        let variable = || std::env::var_os("THALWEG_BIN").map(PathBuf::from);
        let thalweg = self.thalweg.or_else(variable);
        Ok(RunContext {
            programs: Programs::find(thalweg, lab),
            peers: self.peers,
            system_calls: self.system_calls,
            store: self.store.store(),
            output: self.output.options(self.quiet),
            arguments: std::env::args().skip(1).collect(),
            version: env!("THALWEG_VERSION").to_owned(),
        })
    }
}

impl ScenarioArgs {
    fn plan(&self) -> anyhow::Result<PlanSource> {
        if self.config.is_some() {
            return match self.scenario.as_str() {
                "c" => Ok(PlanSource::Scenario("c".to_owned())),
                other => {
                    let message =
                        format!("--config has the settings of experiment c, not of {other}");
                    Err(Misuse(message).into())
                }
            };
        }
        if self.url.is_empty() {
            return Ok(PlanSource::Scenario(self.scenario.clone()));
        }
        if self.transports.len() > 1 {
            return Err(Misuse(
                "name one transport with --transports when you measure an endpoint".to_owned(),
            )
            .into());
        }
        let endpoints = self.endpoint.endpoints(&self.url, self.transports.first())?;
        Ok(PlanSource::Endpoints(endpoints))
    }

    /// Returns how often each cell is measured, if an option sets it.
    fn repeats(&self) -> Option<u32> {
        let published = self.config.is_some() && self.budget.is_none();
        self.repeats.or(published.then_some(published_config::REPEATS))
    }

    /// Returns the settings of `--config`, the values of `--set`, and those of options for one of its keys.
    fn settings(&self) -> anyhow::Result<Vec<String>> {
        let mut set = match &self.config {
            None => Vec::new(),
            Some(path) => {
                let wrong =
                    |why: &dyn Display| Misuse(format!("--config {}: {why}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
                published_config::settings(&text).map_err(|error| wrong(&error))?
            }
        };
        set.extend_from_slice(&self.set);
        let mut add = |key: &str, values: String| {
            if values != "[]" {
                set.push(format!("{key}={values}"));
            }
        };
        add("connections", format!("{:?}", self.connections));
        add("rate", format!("{:?}", self.rate));
        add("slow", format!("{:?}", self.slow));
        if let Some(arrivals) = &self.arrivals {
            add("arrivals", format!("{arrivals:?}"));
        }
        if let Some(stay) = self.stay {
            add("stay_ms", stay.as_millis().to_string());
        }
        add("event_bytes", format!("{:?}", self.size));
        Ok(set)
    }
}

/// Runs a scenario, or measures endpoints.
pub(super) fn run(args: ScenarioArgs) -> anyhow::Result<Ended> {
    if args.metrics {
        print(&metric_table())?;
        return Ok(Ended::Complete);
    }
    if !args.install.is_empty() {
        return run::install(&args.install, &args.context.context()?);
    }
    let (plan, repeats) = (args.plan()?, args.repeats());
    let set = args.settings()?;
    let as_published = args.config.is_some();
    // For an endpoint, the plan has the transport already.
    let transports = if args.url.is_empty() { args.transports } else { Vec::new() };
    let (mut subjects, mut subjects_of) = (args.subject, args.subjects_of);
    if as_published && subjects_of.is_none() {
        subjects_of = Some(published_config::SUITE.to_owned());
        if subjects.is_empty() {
            subjects = published_config::SUBJECTS.map(str::to_owned).to_vec();
        }
    }
    let request = RunRequest {
        plan,
        changes: Changes {
            quick: args.quick,
            repeats,
            rounds: as_published.then_some(published_config::ROUNDS),
            budget_s: args.budget.map(|budget| budget.as_secs().max(1)),
            measured_ms: args.duration.map(|duration| duration.as_millis() as u64),
            subjects,
            subjects_of,
            against: args.against.map(|binary| Path::new(".").join(binary)),
            control: args.no_control.then_some(Control::None),
            set,
            stampede: args.stampede,
            load: match args.browser {
                None => LoadIn::Swarm,
                Some(Browser::Chromium) => LoadIn::Chromium,
            },
            transports,
        },
        place: Place {
            under: args.under.split_whitespace().map(str::to_owned).collect(),
            address: args.at,
        },
        out: args.out,
    };
    let mut context = args.context.context()?;
    context.output.as_published = as_published;
    run::run(&request, &context)
}

pub(super) fn continue_run(args: ContinueArgs) -> anyhow::Result<Ended> {
    let ContinueArgs { run, context } = args;
    run::continue_run(&run, &context.context()?)
}

pub(super) fn rerun(args: RerunArgs) -> anyhow::Result<Ended> {
    let RerunArgs { run, out, context } = args;
    run::rerun(&run, out.as_deref(), &context.context()?)
}
