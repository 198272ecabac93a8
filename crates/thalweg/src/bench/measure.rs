//! What measures: a scenario, `continue`, `rerun`.

use super::{OutputArgs, StoreArgs};
use anyhow::Context;
use clap::Args;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_lab::run::{self, Ended, Misuse, PlanSource, RunContext, RunRequest};
use thalweg_lab::scenario::{Changes, Control, Endpoint, LoadIn, Typed};
use thalweg_lab::subject::Place;
use thalweg_server::config::{parse_bytes, parse_duration};

/// What is about programs that the lab starts, and not about an endpoint that runs.
const NOT_OF_URL: [&str; 9] =
    ["scenario", "quick", "subject", "against", "no_control", "under", "at", "thalweg", "peers"];

/// A scenario, and what is different about it.
#[derive(Args, Debug)]
pub(super) struct ScenarioArgs {
    /// A scenario by name, or a file ending in .toml.
    #[arg(default_value = "quick")]
    scenario: String,
    /// Measure an endpoint that somebody runs instead of a scenario: ws, wss, http or
    /// https. Several are compared with the first. Values in its query are not kept.
    #[arg(long, value_name = "URL", conflicts_with_all = NOT_OF_URL)]
    url: Vec<String>,
    /// Send this header to it, as "Name: value"; its value is not kept.
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
    /// Offer this WebSocket subprotocol.
    #[arg(long, value_name = "NAME", requires = "url")]
    subprotocol: Option<String>,
    /// Send this text on each WebSocket once it stands, e.g. to subscribe; not kept.
    #[arg(long, value_name = "TEXT", requires = "url")]
    send_on_open: Vec<String>,
    /// Send the lines of this file in turn as messages, at --rate; not kept. {id} in a line
    /// is filled in and makes it want an answer, {connection} is the connection's number.
    #[arg(long, value_name = "FILE", requires = "url")]
    data: Option<PathBuf>,
    /// A line for each connection, for {token} in URL, headers and messages; not kept.
    #[arg(long, value_name = "FILE", requires = "url")]
    tokens: Option<PathBuf>,
    /// Send messages as binary ones.
    #[arg(long, requires = "url")]
    binary: bool,
    /// Offer compression: permessage-deflate without context takeover, or gzip.
    #[arg(long, requires = "url")]
    compress: bool,
    /// Where an event says when it was made, e.g. data.ts, $.items[0].time or /data/ts:
    /// seconds to nanoseconds since 1970, or RFC 3339.
    #[arg(long, value_name = "PATH", requires = "url")]
    timestamp: Option<String>,
    /// Trust these authorities besides the machine's (PEM).
    #[arg(long, value_name = "FILE", requires = "url")]
    cacert: Option<PathBuf>,
    /// Take any certificate.
    #[arg(long, requires = "url")]
    insecure: bool,
    /// Have tabs of a browser be the load: of a1 to a5, b, decode, and scenarios like these.
    /// The system's Chromium, or the one that THALWEG_CHROMIUM names.
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    browser: Option<Browser>,
    /// Take the scenario's quick form: fewer cells, shorter spans.
    #[arg(long)]
    quick: bool,
    /// Time for all cells together, e.g. 10m: each is measured until it is decided, or its
    /// share is over. A suite shares it out among its scenarios.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["repeats", "url"])]
    budget: Option<Duration>,
    /// Start the subjects of each cell so often instead, whatever they find.
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Time measured per sample, e.g. 500ms, 10s or 1m; a number alone is seconds.
    #[arg(long, alias = "seconds", value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Connections in every cell; of several numbers, cells for each.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    connections: Vec<u32>,
    /// Connections arrive at this rate, in stages, e.g. 100/s or "50/s 10s, 200/s 1m":
    /// measured is how long each takes from when it was due.
    #[arg(long, value_name = "RATE", conflicts_with_all = ["stay", "stampede"])]
    arrivals: Option<String>,
    /// Connections come and go: each stays about so long, and another comes as it leaves.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "stampede")]
    stay: Option<Duration>,
    /// All connections are lost at once, and come again.
    #[arg(long, requires = "url")]
    stampede: bool,
    /// Events per second and topic, on a schedule set in advance; 0 is as fast as the
    /// window allows. With --url messages per second on each WebSocket; what comes back with
    /// a message's id is its answer.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    rate: Vec<u32>,
    /// Bytes of an event, or of a message that is sent, e.g. 100 or 16KiB.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_bytes)]
    size: Vec<usize>,
    /// Only these transports, e.g. websocket,sse.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transports: Vec<String>,
    /// Only these subjects, as the scenario names them.
    #[arg(long, alias = "subjects", value_name = "LIST", value_delimiter = ',')]
    subject: Vec<String>,
    /// Beside each Thalweg measure this other build of it, e.g. target/before/thalweg, and
    /// compare with that.
    #[arg(long, value_name = "OLD-BINARY")]
    against: Option<PathBuf>,
    /// Without the A/A control: the baseline once more, which shows the noise.
    #[arg(long, alias = "no-again")]
    no_control: bool,
    /// Override any setting in every cell, e.g. topics=10 or window=[1,4].
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Install these peers, or `all`, and measure nothing.
    #[arg(long, value_name = "PEER", value_delimiter = ',', conflicts_with = "url")]
    install: Vec<String>,
    /// Run the subjects under a command, e.g. "ip netns exec far".
    #[arg(long, value_name = "COMMAND", default_value = "")]
    under: String,
    /// Where the subjects listen; anywhere but on loopback they are told to be open.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    at: IpAddr,
    /// Where to leave everything [default: a new folder in the store].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    context: ContextArgs,
}

/// A browser that can be the load.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Browser {
    Chromium,
}

/// What every way to measure has.
#[derive(Args, Debug)]
struct ContextArgs {
    /// Folders of peers, each with its subject.toml.
    #[arg(long, value_name = "DIR", default_value = "lab/subjects")]
    peers: Vec<PathBuf>,
    /// The thalweg binary to measure [default: this one].
    #[arg(long, value_name = "PATH")]
    thalweg: Option<PathBuf>,
    /// Count the subjects' system calls behind every measured span; needs perf.
    #[arg(long)]
    system_calls: bool,
    /// Print nothing but errors and the path of the run's folder.
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A run to repeat.
#[derive(Args, Debug)]
pub(super) struct RerunArgs {
    /// By name, a part of it that no other has, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    /// Where to leave everything [default: a new folder in the store].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    context: ContextArgs,
}

/// A run to go on with.
#[derive(Args, Debug)]
pub(super) struct ContinueArgs {
    /// By name, a part of it that no other has, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    #[command(flatten)]
    context: ContextArgs,
}

impl ContextArgs {
    fn context(self) -> anyhow::Result<RunContext> {
        let program = match self.thalweg {
            Some(program) => program,
            None => std::env::current_exe().context("this binary's own path is not known")?,
        };
        Ok(RunContext {
            program,
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
        if self.url.is_empty() {
            return Ok(PlanSource::Scenario(self.scenario.clone()));
        }
        if self.transports.len() > 1 {
            return Err(Misuse("an endpoint is asked for one of --transports".to_owned()).into());
        }
        let (data, tokens) = (lines("--data", &self.data)?, lines("--tokens", &self.tokens)?);
        let read = |url: &String| {
            Endpoint::read(&Typed {
                url: url.clone(),
                transport: self.transports.first().cloned(),
                headers: self.header.clone(),
                subprotocol: self.subprotocol.clone(),
                send_on_open: self.send_on_open.clone(),
                timestamp: self.timestamp.clone(),
                cacert: self.cacert.clone(),
                insecure: self.insecure,
                data: data.clone(),
                tokens: tokens.clone(),
                binary: self.binary,
                compress: self.compress,
            })
        };
        Ok(PlanSource::Endpoints(self.url.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// What `--set` says, and the options that stand for one of its keys.
    fn settings(&self) -> Vec<String> {
        let mut set = self.set.clone();
        let mut add = |key: &str, values: String| {
            if values != "[]" {
                set.push(format!("{key}={values}"));
            }
        };
        add("connections", format!("{:?}", self.connections));
        add("rate", format!("{:?}", self.rate));
        if let Some(arrivals) = &self.arrivals {
            add("arrivals", format!("{arrivals:?}"));
        }
        if let Some(stay) = self.stay {
            add("stay_ms", stay.as_millis().to_string());
        }
        add("event_bytes", format!("{:?}", self.size));
        set
    }
}

/// The lines of a file, without those that are empty.
fn lines(option: &str, path: &Option<PathBuf>) -> anyhow::Result<Option<Vec<String>>> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Misuse(format!("{option} {}: {error}", path.display())))?;
    Ok(Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()))
}

/// Reads `10s`, and `10` as well.
fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => parse_duration(text),
    }
}

/// Runs a scenario, or measures endpoints.
pub(super) fn run(args: ScenarioArgs) -> anyhow::Result<Ended> {
    if !args.install.is_empty() {
        return run::install(&args.install, &args.context.context()?);
    }
    let plan = args.plan()?;
    let set = args.settings();
    // Of an endpoint, --transports has said what is spoken there.
    let transports = if args.url.is_empty() { args.transports } else { Vec::new() };
    let request = RunRequest {
        plan,
        changes: Changes {
            quick: args.quick,
            repeats: args.repeats,
            budget_s: args.budget.map(|budget| budget.as_secs().max(1)),
            measured_ms: args.duration.map(|duration| duration.as_millis() as u64),
            subjects: args.subject,
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
    run::run(&request, &args.context.context()?)
}

/// Goes on with a run that was interrupted.
pub(super) fn go_on(args: ContinueArgs) -> anyhow::Result<Ended> {
    let ContinueArgs { run, context } = args;
    run::go_on(&run, &context.context()?)
}

/// Runs a plan again.
pub(super) fn rerun(args: RerunArgs) -> anyhow::Result<Ended> {
    let RerunArgs { run, out, context } = args;
    run::rerun(&run, out.as_deref(), &context.context()?)
}
