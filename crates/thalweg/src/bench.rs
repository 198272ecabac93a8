//! `thalweg bench`: the lab's command line.

use anyhow::Context;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use thalweg_lab::run::{Order, run as run_lab};
use thalweg_lab::scenario::{Again, Changes};
use thalweg_lab::subject::Place;

/// Measure what push costs on this machine.
///
/// Runs a scenario: every subject in every cell, several times, interleaved,
/// the subject on the first core and the load on the next. Ends with a table;
/// raw data, summary and machine note are left in a folder.
#[derive(Args, Debug)]
#[command(after_help = SCENARIOS)]
pub(crate) struct BenchArgs {
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
    /// Folders of peers, each with its subject.toml.
    #[arg(long, value_name = "DIR", default_value = "lab/subjects")]
    peers: Vec<PathBuf>,
    /// Without a second run of the baseline, which shows the noise.
    #[arg(long)]
    no_again: bool,
    /// Count the subjects' system calls behind every measured span; needs perf.
    #[arg(long)]
    system_calls: bool,
    /// Override a setting in every cell, e.g. connections=500 or window=[1,4].
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where to leave everything [default: a new folder in thalweg-runs].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run the subjects under a command, e.g. "ip netns exec far".
    #[arg(long, value_name = "COMMAND", default_value = "")]
    under: String,
    /// Where the subjects listen; anywhere but on loopback they are told to be open.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    at: IpAddr,
    /// The thalweg binary to measure [default: this one].
    #[arg(long, value_name = "PATH")]
    thalweg: Option<PathBuf>,
}

const SCENARIOS: &str = "\
Scenarios:
  quick             the quick suite, under four minutes on two cores
  full              every scenario in full
  fanout            posted events to many connections, against the machine's limit
  topics            several topics per connection
  stopped           subscribers that stop reading
  shards            one shard and two
  publish           events taken per second
  idle              10,000 connections that only stand there
  tls, idle-tls     the same over TLS
  h2                SSE over HTTP/2, a hundred subscribers on a connection
  a1 a2 a3-1 a3-2   the published experiments A1, A2, A3.1, A3.2
  b, c              the published experiments B and C: round trips
  a-a               the same subject against itself, twenty times
  netem             send buffers over a slow link, see lab/netem.md

Examples:
  thalweg bench
  thalweg bench fanout --transports websocket --set connections=1000 --repeats 9
  thalweg bench a1 --quick --subject limit,thalweg
  thalweg bench my-load.toml --out runs/my-load";

/// Runs the lab as told.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    let program = match args.thalweg {
        Some(program) => program,
        None => std::env::current_exe().context("this binary's own path is not known")?,
    };
    run_lab(&Order {
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
        program,
        place: Place {
            under: args.under.split_whitespace().map(str::to_owned).collect(),
            address: args.at,
        },
        peers: args.peers,
        out: args.out,
        system_calls: args.system_calls,
        command_line: command_line(),
        version: env!("THALWEG_VERSION").to_owned(),
    })
}

/// What was typed, without the folder that the binary lies in.
fn command_line() -> String {
    let rest = std::env::args().skip(1);
    std::iter::once("thalweg".to_owned()).chain(rest).collect::<Vec<_>>().join(" ")
}
