//! `thalweg bench`: the lab's command line.
//!
//! - `measure`: what measures: a scenario, `continue`, `rerun`
//! - `query`: what asks runs that are over: `list`, `show`, `export`, `archive`

mod measure;
mod query;

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg_lab::report::Condition;
use thalweg_lab::run::{Ended, INTERRUPTED, Misuse, OutputOptions, STORE, Store, say};
use thalweg_lab::scenario::{ScenarioError, titles};

/// The end of what was asked for in vain: as clap's own.
const MISUSED: u8 = 2;

/// A command comes first. Clap would take options before it for the scenario's, and
/// forget them.
const USAGE: &str = "thalweg bench [OPTIONS] [SCENARIO]
       thalweg bench <COMMAND>";

/// Measure what push costs on this machine.
///
/// Runs a scenario: every subject in every cell, several times, interleaved,
/// the subject on the first core and the load on the next. Ends with a table;
/// raw data, summary and machine note are left in a folder.
///
/// Ctrl-C ends a run with what it has. Ends with 0, with 1 where something failed or
/// --fail-if says so, with 2 where it was asked for what is not there, with 130 after
/// Ctrl-C.
#[derive(Args, Debug)]
#[command(subcommand_negates_reqs = true, override_usage = USAGE)]
#[command(after_help = examples())]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<RunCommand>,
    #[command(flatten)]
    scenario: measure::ScenarioArgs,
}

#[derive(Subcommand, Debug)]
enum RunCommand {
    /// Runs of the store: when, what, how complete, and one figure.
    List(query::ListArgs),
    /// The table of a run, and what it is held to.
    Show(query::ShowArgs),
    /// Go on with a run that was interrupted, with the same binary on the same machine.
    Continue(measure::ContinueArgs),
    /// Run the same plan again, in a new folder.
    Rerun(measure::RerunArgs),
    /// A run in another form.
    Export(query::ExportArgs),
    /// Copy a run's manifest, plan, summary and samples to another folder, compressed.
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

    /// Refuses what stands between `bench` and the command: it would be for nothing.
    fn expect_first(&self, mut words: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let name = self.name();
        match words.find(|word| word != "bench") {
            Some(word) if word != name => Err(Misuse(format!(
                "`{word}` stands before `{name}`: the command comes first and its options behind \
                 it, which `thalweg bench {name} --help` names"
            ))
            .into()),
            _ => Ok(()),
        }
    }
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
struct OutputArgs {
    /// End with 1 where a figure is so, e.g. 'parts.fanout.pooled.cpu > 1.05'.
    ///
    /// PATH OP NUMBER. PATH goes into summary.json; of an array each step picks
    /// those of this name, cell, subject or metric, or goes into all:
    /// 'parts.rows.thalweg.latency.p99_us > 5000'. A ratio and a median also have .low
    /// and .high. OP is < <= > >= == or !=. The baseline's second run is held to nothing
    /// unless it is named; what has no figure is passed over, and if nothing has one,
    /// that fails too. A subject of which no sample counts fails always. May be given
    /// several times.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Leave JUnit XML there: a suite for each scenario, a case for each row.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the summary as JSON, and nothing else on stdout.
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    fn options(self, is_quiet: bool) -> OutputOptions {
        let OutputArgs { fail_if, junit, json, .. } = self;
        OutputOptions { is_quiet, is_json: json, fail_if, junit }
    }
}

/// Measures, or asks for runs that are over.
pub(crate) fn run(args: BenchArgs) -> ExitCode {
    let done = match args.command {
        None => measure::run(args.scenario),
        Some(command) => run_command(command),
    };
    match done {
        Ok(Ended::Complete) => ExitCode::SUCCESS,
        Ok(Ended::Interrupted) => INTERRUPTED.into(),
        Err(error) => {
            say(format_args!("thalweg: {error:#}"));
            let is_misused = error.is::<Misuse>() || error.is::<ScenarioError>();
            if is_misused { MISUSED.into() } else { ExitCode::FAILURE }
        }
    }
}

fn run_command(command: RunCommand) -> anyhow::Result<Ended> {
    command.expect_first(std::env::args().skip(1))?;
    match command {
        RunCommand::Continue(args) => measure::go_on(args),
        RunCommand::Rerun(args) => measure::rerun(args),
        RunCommand::List(args) => query::list(&args),
        RunCommand::Show(args) => query::show(args),
        RunCommand::Export(args) => query::export(&args),
        RunCommand::Archive(args) => query::archive(&args),
    }
}

const EXAMPLES: &str = "\
Examples:
  thalweg bench --url ws://127.0.0.1:3000/live --connections 100 --duration 10s
  thalweg bench --url https://127.0.0.1/events --timestamp data.ts --fail-if 'parts.rows.latency.p99_us > 5000'
  thalweg bench
  thalweg bench a1 --quick --subject limit,thalweg
  thalweg bench fanout --transports websocket --connections 1000 --size 16KiB --repeats 9
  thalweg bench fanout --subject thalweg --against target/before/thalweg
  thalweg bench my-load.toml --junit results.xml
  thalweg bench show last

Scenarios:
";

/// Columns of a help text, as clap has them.
const HELP_COLUMNS: usize = 100;

fn examples() -> String {
    let width = titles().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, title)| {
        let lines = wrapped(title, HELP_COLUMNS - width - 4).join(&format!("\n    {:width$}", ""));
        format!("  {name:<width$}  {lines}\n")
    };
    EXAMPLES.to_owned() + &titles().map(line).collect::<String>()
}

/// A text in lines of at most so many columns.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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
    fn no_scenario_hides_behind_a_subcommand() {
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
            assert_eq!(alone.args.command.map(|it| it.name()), Some(name));
        }
    }
}
