//! `thalweg-lab bench`: the lab's command line.
//!
//! - `endpoint`: options for a running endpoint
//! - `measure`: commands that measure: a scenario, `continue`, `rerun`
//! - `query`: commands that read finished runs: `list`, `show`, `export`, `archive`

mod endpoint;
mod measure;
mod query;

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_lab::report::{Threshold, metrics, wrapped};
use thalweg_lab::run::{Ended, INTERRUPTED, Misuse, OutputOptions, STORE, Store};
use thalweg_lab::scenario::{ScenarioError, titles};
use thalweg_terminal::say;

/// The exit status for wrong arguments, the same as clap's.
const MISUSED: u8 = 2;

/// A command comes first: clap would assign options before it to the scenario, and ignore them.
const USAGE: &str = "thalweg-lab bench [OPTIONS] [SCENARIO]
       thalweg-lab bench <COMMAND>";

/// Measure the cost of push on this machine.
///
/// A scenario lists servers (subjects) and combinations of settings (cells). A run measures each subject in
/// each cell several times, and alternates between the subjects. The subject uses the first core, the load
/// generator the next one. The result is a table, and a folder with raw data, a summary and a description of
/// the machine.
///
/// Press Ctrl-C to end a run and keep its results. Exit status: 0 for success, 1 for an error or if a
/// threshold of --fail-if is crossed, 2 for wrong arguments, 130 after Ctrl-C.
#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true, override_usage = USAGE)]
#[command(after_help = format!("{EXAMPLES}\nRun `thalweg-lab bench --help` for the list of scenarios."))]
#[command(after_long_help = format!("{EXAMPLES}\nScenarios:\n{}", scenarios()))]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<RunCommand>,
    #[command(flatten)]
    scenario: measure::ScenarioArgs,
}

#[derive(Subcommand, Debug)]
enum RunCommand {
    List(query::ListArgs),
    Show(query::ShowArgs),
    Continue(measure::ContinueArgs),
    Rerun(measure::RerunArgs),
    Export(query::ExportArgs),
    Archive(query::ArchiveArgs),
}

impl RunCommand {
    fn name(&self) -> &'static str {
        match self {
            RunCommand::List(_) => "list",
            RunCommand::Show(_) => "show",
            RunCommand::Continue(_) => "continue",
            RunCommand::Rerun(_) => "rerun",
            RunCommand::Export(_) => "export",
            RunCommand::Archive(_) => "archive",
        }
    }

    /// Rejects words between `bench` and the command, which would have no effect.
    fn expect_first(&self, mut words: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let name = self.name();
        match words.find(|word| word != "bench") {
            Some(word) if word != name => Err(Misuse(format!(
                "`{word}` is before `{name}`; write options after the command (see `thalweg-lab bench \
                 {name} --help`)"
            ))
            .into()),
            _ => Ok(()),
        }
    }
}

/// The folder of runs.
#[derive(Args, Debug)]
struct StoreArgs {
    /// Keep runs in this folder.
    #[arg(long, value_name = "DIR", default_value = STORE, help_heading = OUTPUT)]
    store: PathBuf,
}

impl StoreArgs {
    fn store(&self) -> Store {
        Store::new(&self.store)
    }
}

/// The heading of options for the result.
const OUTPUT: &str = "Output";

/// Output and thresholds of a run.
#[derive(Args, Debug)]
struct OutputArgs {
    /// Exit with status 1 if a metric crosses this threshold, e.g. 'p99>50ms' or 'thalweg:cpu-ratio>1.05'.
    #[arg(long, value_name = "THRESHOLD", help_heading = OUTPUT, long_help = fail_if_help())]
    fail_if: Vec<Threshold>,
    /// Exit with status 0 even if the endpoint of --url refused connections.
    #[arg(long, help_heading = OUTPUT)]
    allow_refused: bool,
    /// Exit with status 0 even if the endpoint of --url ended connections early.
    #[arg(long, help_heading = OUTPUT)]
    allow_ended_early: bool,
    /// Exit with status 0 even if messages of --rate got no answer.
    #[arg(long, help_heading = OUTPUT)]
    allow_unanswered: bool,
    /// Exit with status 0 even if connections to the endpoint of --url got no message.
    #[arg(long, help_heading = OUTPUT)]
    allow_silent: bool,
    /// Exit with status 0 even if messages of --sequence are lost.
    #[arg(long, help_heading = OUTPUT)]
    allow_lost: bool,
    /// Exit with status 0 even if messages of --sequence come twice.
    #[arg(long, help_heading = OUTPUT)]
    allow_duplicated: bool,
    /// Exit with status 0 even if messages of --sequence come out of order.
    #[arg(long, help_heading = OUTPUT)]
    allow_reordered: bool,
    /// Write JUnit XML to this file: a test suite for each scenario, a test case for each row of the table.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    junit: Option<PathBuf>,
    /// Print only the summary on stdout, as JSON.
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
}

impl OutputArgs {
    fn options(self, is_quiet: bool) -> OutputOptions {
        let allowed = [
            ("refused", self.allow_refused),
            ("ended-early", self.allow_ended_early),
            ("unanswered", self.allow_unanswered),
            ("silent", self.allow_silent),
            ("lost", self.allow_lost),
            ("duplicated", self.allow_duplicated),
            ("reordered", self.allow_reordered),
        ];
        let allowed = allowed.into_iter().filter_map(|(kind, is)| is.then_some(kind)).collect();
        let OutputArgs { fail_if, junit, json, .. } = self;
        let page = crate::report_page::report_page();
        OutputOptions {
            is_quiet,
            is_json: json,
            fail_if,
            allowed,
            junit,
            page,
            as_published: false,
        }
    }
}

/// Measures, or reads finished runs.
pub(crate) fn run(args: BenchArgs) -> ExitCode {
    let done = match args.command {
        None => measure::run(args.scenario),
        Some(command) => run_command(command),
    };
    match done {
        Ok(Ended::Complete) => ExitCode::SUCCESS,
        Ok(Ended::Interrupted) => INTERRUPTED.into(),
        Err(error) => {
            say(format_args!("thalweg-lab: {error:#}"));
            let is_misused = error.is::<Misuse>() || error.is::<ScenarioError>();
            if is_misused { MISUSED.into() } else { ExitCode::FAILURE }
        }
    }
}

fn run_command(command: RunCommand) -> anyhow::Result<Ended> {
    command.expect_first(std::env::args().skip(1))?;
    match command {
        RunCommand::Continue(args) => measure::continue_run(args),
        RunCommand::Rerun(args) => measure::rerun(args),
        RunCommand::List(args) => query::list(&args),
        RunCommand::Show(args) => query::show(args),
        RunCommand::Export(args) => query::export(&args),
        RunCommand::Archive(args) => query::archive(&args),
    }
}

const EXAMPLES: &str = "\
Examples:
  thalweg-lab bench --url ws://127.0.0.1/live --connections 100 --duration 10s
  thalweg-lab bench --url https://127.0.0.1/events --timestamp data.ts \\
    --fail-if 'p99>5ms'
  thalweg-lab bench
  thalweg-lab bench a1 --quick --subject limit,thalweg
  thalweg-lab bench fanout --transports sse --connections 1000 --size 16KiB
  thalweg-lab bench fanout --subject thalweg --against target/before/thalweg
  thalweg-lab bench my-load.toml --junit results.xml
  thalweg-lab bench show last
";

fn fail_if_help() -> String {
    let names = wrapped(&metrics().join(", "), HELP_COLUMNS - 10).join("\n");
    format!(
        "Exit with status 1 if a metric crosses this threshold, e.g. 'p99>50ms' or \
         'thalweg:cpu-ratio>1.05'.\n\n\
         THRESHOLD is [SUBJECT:]METRIC, then >, >=, < or <=, and a value with a unit: times in us, ms or s, \
         memory in B, KiB or MiB, shares in %. A ratio is to the baseline, over all cells; with -low or -high \
         it is an end of the 95 % interval. The A/A control is compared only if it is named. If the run has no \
         figure, or a subject has no valid sample, the threshold counts as crossed. Repeat the flag for several \
         thresholds. `thalweg-lab bench --metrics` lists the metrics with their units:\n\n{names}"
    )
}

/// Columns of the narrowest usual terminal.
const HELP_COLUMNS: usize = 80;

fn scenarios() -> String {
    let width = titles().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, title)| {
        let lines = wrapped(title, HELP_COLUMNS - width - 4).join(&format!("\n    {:width$}", ""));
        format!("  {name:<width$}  {lines}\n")
    };
    titles().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: BenchArgs,
    }

    #[test]
    fn no_scenario_has_the_name_of_a_subcommand() {
        let command = Alone::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names, ["list", "show", "continue", "rerun", "export", "archive"]);
        assert!(titles().all(|(scenario, _)| !names.contains(&scenario)));
        for name in names {
            let words = match name {
                "export" => vec!["", name, "--format", "csv"],
                "archive" => vec!["", name, "last", "kept"],
                _ => vec!["", name],
            };
            let alone = <Alone as clap::Parser>::try_parse_from(words).expect("arguments");
            assert_eq!(alone.args.command.map(|command| command.name()), Some(name));
        }
    }
}
