//! What measures: a scenario, `continue`, `rerun`.

use super::{EndArgs, StoreArgs};
use anyhow::Context;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use thalweg_lab::run::{self, Asked, Continuation, Ended, Means, Order};
use thalweg_lab::scenario::{Again, Changes, Endpoint, Typed};
use thalweg_lab::subject::Place;

/// A scenario, and what is different about it.
#[derive(Args, Debug)]
pub(super) struct ScenarioArgs {
    /// A scenario by name, or a file ending in .toml.
    #[arg(default_value = "quick")]
    scenario: String,
    /// Measure an endpoint that somebody runs instead of a scenario: ws, wss, http or
    /// https. Several are compared with the first. Values in its query are not kept.
    #[arg(long, value_name = "URL", conflicts_with_all = ["scenario", "quick", "subject"])]
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
    /// Take the scenario's quick form: fewer cells, shorter spans.
    #[arg(long)]
    quick: bool,
    /// Samples of each subject in each cell.
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Time measured per sample.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Only these transports, e.g. websocket,sse.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    transports: Vec<String>,
    /// Only these subjects, as the scenario names them.
    #[arg(long, alias = "subjects", value_name = "LIST", value_delimiter = ',')]
    subject: Vec<String>,
    /// Without a second run of the baseline, which shows the noise.
    #[arg(long)]
    no_again: bool,
    /// Override a setting in every cell, e.g. connections=500 or window=[1,4].
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
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
    means: MeansArgs,
}

/// What every way to measure has.
#[derive(Args, Debug)]
struct MeansArgs {
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
    end: EndArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// A run to go on with.
#[derive(Args, Debug)]
pub(super) struct ContinueArgs {
    /// By name, a part of it that no other has, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    /// Take those repeats again too that have a sample which does not count.
    #[arg(long)]
    invalid: bool,
    /// Also with another version, or on another machine.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    means: MeansArgs,
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
    means: MeansArgs,
}

impl MeansArgs {
    fn means(self) -> anyhow::Result<Means> {
        let program = match self.thalweg {
            Some(program) => program,
            None => std::env::current_exe().context("this binary's own path is not known")?,
        };
        Ok(Means {
            program,
            peers: self.peers,
            system_calls: self.system_calls,
            store: self.store.store(),
            manner: self.end.manner(self.quiet),
            arguments: std::env::args().skip(1).collect(),
            version: env!("THALWEG_VERSION").to_owned(),
        })
    }
}

impl ScenarioArgs {
    fn asked(&self) -> anyhow::Result<Asked> {
        if self.url.is_empty() {
            return Ok(Asked::Scenario(self.scenario.clone()));
        }
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
            })
        };
        Ok(Asked::Endpoints(self.url.iter().map(read).collect::<Result<_, _>>()?))
    }
}

/// Runs a scenario, or visits endpoints.
pub(super) fn run(args: ScenarioArgs) -> anyhow::Result<Ended> {
    let asked = args.asked()?;
    // Of an endpoint, --transports has said what is spoken there.
    let transports = if args.url.is_empty() { args.transports } else { Vec::new() };
    let order = Order {
        asked,
        changes: Changes {
            quick: args.quick,
            repeats: args.repeats,
            measured_ms: args.seconds.map(|seconds| (seconds * 1000.0).round() as u64),
            subjects: args.subject,
            again: args.no_again.then_some(Again::None),
            set: args.set,
            transports,
        },
        place: Place {
            under: args.under.split_whitespace().map(str::to_owned).collect(),
            address: args.at,
        },
        out: args.out,
    };
    run::run(&order, &args.means.means()?)
}

/// Takes what a run lacks.
pub(super) fn resume(args: ContinueArgs) -> anyhow::Result<Ended> {
    let ContinueArgs { run, invalid, force, means } = args;
    run::resume(&run, Continuation { also_invalid: invalid, force }, &means.means()?)
}

/// Runs a plan again.
pub(super) fn rerun(args: RerunArgs) -> anyhow::Result<Ended> {
    let RerunArgs { run, out, means } = args;
    run::rerun(&run, out.as_deref(), &means.means()?)
}
