//! Commands that read finished runs.

use super::{OutputArgs, StoreArgs};
use crate::report_page::report_page;
use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use thalweg_lab::report::{self, Document};
use thalweg_lab::run::{self, Ended, StoredRun};
use thalweg_terminal::say;

/// List runs with time, scenario, completeness and one figure.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// A run, and its baseline.
#[derive(Args, Debug)]
struct ReadArgs {
    /// Name of the run, a unique part of it, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    /// Compare other subjects with this one, in every cell that has it.
    #[arg(long, value_name = "SUBJECT")]
    baseline: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Show the table and the settings of a run, and check its thresholds.
#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Export a run as HTML, CSV, JSON or JUnit XML, or its costs for `thalweg-lab plan`.
#[derive(Args, Debug)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    read: ReadArgs,
    /// Write this format.
    #[arg(long, value_enum)]
    format: ReportFormat,
    /// Write to this file; `-` is stdout.
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Copy manifest, plan, summary and samples of a run to another folder, compressed, without points over time of
/// most spans under 10 s.
#[derive(Args, Debug)]
pub(super) struct ArchiveArgs {
    /// Name of the run, a unique part of it, a path, or `last`.
    run: String,
    /// Folder to write to. It must not contain a run.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReportFormat {
    /// A self-contained page with charts.
    Html,
    /// A line for each subject and cell, with exact figures.
    Csv,
    /// The summary.
    Json,
    /// JUnit XML, for tools that show test results.
    Junit,
    /// Costs of connections, messages and bytes, for `thalweg-lab plan`.
    Cost,
}

/// The error of a program that was built without pages.
const NO_PAGE: &str =
    "this program has no report page: run `make pages`, which needs Node, and build it again";

pub(super) fn list(args: &ListArgs) -> anyhow::Result<Ended> {
    let entries = run::entries(&args.store.store())?;
    if args.json {
        let readable: Vec<_> = entries.iter().filter_map(|entry| entry.as_ref().ok()).collect();
        return print(&json(&readable)?);
    }
    let texts: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.map_or_else(|error| error, |run| run.text()))
        .collect();
    if texts.is_empty() {
        say(format_args!(
            "There is no run in {}; make one with `thalweg-lab bench`, or name another folder with --store.",
            args.store.store.display()
        ));
    }
    print(&texts.join("\n"))
}

/// Prints the table of a run, and its settings.
pub(super) fn show(args: ShowArgs) -> anyhow::Result<Ended> {
    let run = read(&args.read)?;
    let output = args.output.options(false);
    let summary = run.summary();
    if output.is_json {
        print(&json(&Document::new(&summary))?)?;
    } else {
        let (table, manifest) = (report::table(&summary), report::manifest(&summary));
        print(&format!("{}\n{table}\n{manifest}", run.head()))?;
    }
    run::judge(&run, &summary, &output)?;
    Ok(Ended::Complete)
}

pub(super) fn export(args: &ExportArgs) -> anyhow::Result<Ended> {
    let run = read(&args.read)?;
    let summary = run.summary();
    let text = match args.format {
        ReportFormat::Html => report::html(&summary, report_page().context(NO_PAGE)?)?,
        ReportFormat::Csv => report::csv(&summary),
        ReportFormat::Json => json(&Document::new(&summary))?,
        ReportFormat::Junit => report::junit(&run.plan, &summary, &[]),
        ReportFormat::Cost => json(&run.basis())?,
    };
    if args.out.as_os_str() == "-" {
        return print(&text);
    }
    std::fs::write(&args.out, text).with_context(|| {
        format!("cannot write {}; name another file with --out", args.out.display())
    })?;
    Ok(Ended::Complete)
}

pub(super) fn archive(args: &ArchiveArgs) -> anyhow::Result<Ended> {
    let run = stored(&args.store, &args.run)?;
    run::archive(&run, &args.to)?;
    Ok(Ended::Complete)
}

fn read(args: &ReadArgs) -> anyhow::Result<StoredRun> {
    let mut run = stored(&args.store, &args.run)?;
    if let Some(baseline) = &args.baseline {
        run.compare_with(baseline)?;
    }
    Ok(run)
}

/// Reads a run, and prints remarks about its files to stderr: a program may read stdout.
fn stored(store: &StoreArgs, run: &str) -> anyhow::Result<StoredRun> {
    let run = StoredRun::read(&store.store().find(run)?)?;
    for remark in &run.remarks {
        say(format_args!("{}: {remark}", run.name));
    }
    Ok(run)
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn print(text: &str) -> anyhow::Result<Ended> {
    thalweg_terminal::print(text)?;
    Ok(Ended::Complete)
}
