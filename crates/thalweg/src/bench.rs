//! `thalweg bench`: the lab's command line.
//!
//! - `taking`: what measures: a scenario, `continue`, `rerun`
//! - `looking`: what asks runs that are over: `list`, `show`, `compare`, `export`

mod looking;
mod taking;

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_lab::report::Condition;
use thalweg_lab::run::{Ended, INTERRUPTED, Manner, Misuse, STORE, Store};
use thalweg_lab::scenario::{ScenarioError, titles};

/// The end of what was asked for in vain: as clap's own.
const MISUSED: u8 = 2;

/// Measure what push costs on this machine.
///
/// Runs a scenario: every subject in every cell, several times, interleaved,
/// the subject on the first core and the load on the next. Ends with a table;
/// raw data, summary and machine note are left in a folder.
///
/// Ctrl-C ends a run with what it has, and `continue` takes the rest. Ends with 0,
/// with 1 where something failed or --fail-if says so, with 2 where it was asked
/// for what is not there, with 130 after Ctrl-C.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = examples())]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    of_runs: Option<OfRuns>,
    #[command(flatten)]
    scenario: taking::ScenarioArgs,
}

#[derive(Subcommand, Debug)]
enum OfRuns {
    /// Runs of the store: when, what, how complete, and one figure.
    List(looking::ListArgs),
    /// The table of a run, and what it is held to.
    Show(looking::ShowArgs),
    /// Two runs next to each other: what differs in how they were made, then figures.
    Compare(looking::CompareArgs),
    /// Take the samples that a run lacks.
    Continue(taking::ContinueArgs),
    /// Run the same plan again, in a new folder.
    Rerun(taking::RerunArgs),
    /// A run in another form.
    Export(looking::ExportArgs),
}

/// Where runs are kept.
#[derive(Args, Debug)]
struct StoreArgs {
    /// The folder that runs are kept in.
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store: PathBuf,
}

impl StoreArgs {
    fn store(&self) -> Store {
        Store::new(&self.store)
    }
}

/// What is said at the end, and what a run is held to.
#[derive(Args, Debug)]
struct EndArgs {
    /// End with 1 where a figure is so, e.g. 'latency.p99_us > 5000'.
    ///
    /// [SCENARIO] SUBJECT: FIGURE OP NUMBER, of which scenario and subject may be
    /// left out: '[fanout] thalweg: cpu.compared.ratio.low > 1.1'. FIGURE is a path
    /// into a row of summary.json; an estimate stands for its median and has .low
    /// and .high. OP is < <= > >= == or !=. Every row is held to it but the
    /// baseline's second run; a row without the figure is passed over, and if no
    /// row has it, that fails too. May be given several times.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Leave JUnit XML there: a suite for each scenario, a case for each row.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the summary as JSON, and nothing else on stdout.
    #[arg(long)]
    json: bool,
}

impl EndArgs {
    fn manner(self, is_quiet: bool) -> Manner {
        let EndArgs { fail_if, junit, json, .. } = self;
        Manner { is_quiet, is_json: json, fail_if, junit }
    }
}

/// Runs the lab as told, or looks at what it has left.
pub(crate) fn run(args: BenchArgs) -> ExitCode {
    let done = match args.of_runs {
        None => taking::run(args.scenario),
        Some(OfRuns::Continue(args)) => taking::resume(args),
        Some(OfRuns::Rerun(args)) => taking::rerun(args),
        Some(OfRuns::List(args)) => looking::list(&args),
        Some(OfRuns::Show(args)) => looking::show(args),
        Some(OfRuns::Compare(args)) => looking::compare(&args),
        Some(OfRuns::Export(args)) => looking::export(&args),
    };
    match done {
        Ok(Ended::Complete) => ExitCode::SUCCESS,
        Ok(Ended::Interrupted) => INTERRUPTED.into(),
        Err(error) => {
            eprintln!("thalweg: {error:#}");
            let is_misused = error.is::<Misuse>() || error.is::<ScenarioError>();
            if is_misused { MISUSED.into() } else { ExitCode::FAILURE }
        }
    }
}

fn examples() -> String {
    let mut text = "Scenarios:\n".to_owned();
    for (name, title) in titles() {
        text += &format!("  {name:<12}{title}\n");
    }
    text + "
Examples:
  thalweg bench
  thalweg bench fanout --transports websocket --set connections=1000 --repeats 9
  thalweg bench a1 --quick --subject limit,thalweg
  thalweg bench my-load.toml --fail-if 'latency.p99_us > 5000' --junit results.xml
  thalweg bench show last
  thalweg bench compare fanout fanout-2"
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        _args: BenchArgs,
    }

    #[test]
    fn no_scenario_hides_behind_a_subcommand() {
        let command = Alone::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, ["list", "show", "compare", "continue", "rerun", "export"]);
        assert!(titles().all(|(scenario, _)| !names.contains(&scenario)));
    }
}
