//! What measures: a scenario, `continue`, `rerun`.

use super::{EndArgs, StoreArgs};
use anyhow::Context;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use thalweg_lab::run::{self, Ended, Means, Order};
use thalweg_lab::scenario::{Again, Changes};
use thalweg_lab::subject::Place;

/// A scenario, and what is different about it.
#[derive(Args, Debug)]
pub(super) struct ScenarioArgs {
    /// A scenario by name, or a file ending in .toml.
    #[arg(default_value = "quick")]
    scenario: String,
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
    /// Take those again too that do not count.
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

/// Runs a scenario.
pub(super) fn run(args: ScenarioArgs) -> anyhow::Result<Ended> {
    let order = Order {
        scenario: args.scenario,
        changes: Changes {
            quick: args.quick,
            repeats: args.repeats,
            measured_ms: args.seconds.map(|seconds| (seconds * 1000.0).round() as u64),
            subjects: args.subject,
            again: args.no_again.then_some(Again::None),
            set: args.set,
            transports: args.transports,
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
    run::resume(&args.run, args.invalid, args.force, &args.means.means()?)
}

/// Runs a plan again.
pub(super) fn rerun(args: RerunArgs) -> anyhow::Result<Ended> {
    run::rerun(&args.run, args.out.as_deref(), &args.means.means()?)
}
