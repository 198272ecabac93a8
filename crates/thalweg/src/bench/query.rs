//! What asks runs that are over.

use super::{OutputArgs, StoreArgs};
use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use thalweg_lab::report;
use thalweg_lab::run::{self, Ended, StoredRun};

#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Which run, and how it is looked at.
#[derive(Args, Debug)]
struct ReadArgs {
    /// By name, a part of it that no other has, a path, or `last`.
    #[arg(default_value = "last")]
    run: String,
    /// Compare the others with this subject, in every cell that has it.
    #[arg(long, value_name = "SUBJECT")]
    baseline: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args, Debug)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    read: ReadArgs,
    /// What it shall be.
    #[arg(long, value_enum)]
    format: Format,
    /// Where to; `-` is stdout.
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

#[derive(Args, Debug)]
pub(super) struct ArchiveArgs {
    /// By name, a part of it that no other has, a path, or `last`.
    run: String,
    /// The folder to write to; it holds no run yet.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One self-contained page with charts.
    Html,
    /// The findings and a table for each scenario.
    Markdown,
    /// A line for each subject of each cell, figures unrounded.
    Csv,
    /// The whole summary.
    Json,
    /// For what shows tests.
    Junit,
    /// What connections, messages and bytes cost, as `thalweg plan` counts with it.
    Cost,
}

/// Lists the store's runs.
pub(super) fn list(args: &ListArgs) -> anyhow::Result<Ended> {
    let entries = run::entries(&args.store.store())?;
    if args.json {
        let readable: Vec<_> = entries.iter().filter_map(|entry| entry.as_ref().ok()).collect();
        return print(&json(&readable)?);
    }
    let texts: Vec<String> =
        entries.into_iter().map(|it| it.map_or_else(|it| it, |it| it.text())).collect();
    if texts.is_empty() {
        run::say(format_args!(
            "There is no run in {}: `thalweg bench` makes one, --store names another folder.",
            args.store.store.display()
        ));
    }
    print(&texts.join("\n"))
}

/// Prints a run's table, and what it was made with.
pub(super) fn show(args: ShowArgs) -> anyhow::Result<Ended> {
    let run = read(&args.read)?;
    let output = args.output.options(false);
    let summary = run.summary();
    if output.is_json {
        print(&json(&summary)?)?;
    } else {
        let (table, manifest) = (report::table(&summary), report::manifest(&summary));
        print(&format!("{}\n{table}\n{manifest}", run.head()))?;
    }
    run::judge(&run, &summary, &output)?;
    Ok(Ended::Complete)
}

/// Writes a run in another form.
pub(super) fn export(args: &ExportArgs) -> anyhow::Result<Ended> {
    let run = read(&args.read)?;
    let summary = run.summary();
    let text = match args.format {
        Format::Html => report::html(&summary),
        Format::Markdown => report::markdown(&summary),
        Format::Csv => report::csv(&summary),
        Format::Json => json(&summary)?,
        Format::Junit => report::junit(&run.plan, &summary, &[]),
        Format::Cost => json(&run.basis())?,
    };
    if args.out.as_os_str() == "-" {
        return print(&text);
    }
    std::fs::write(&args.out, text)
        .with_context(|| format!("{} cannot be written", args.out.display()))?;
    Ok(Ended::Complete)
}

/// Keeps a run as the repository does.
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

/// Remarks about the files go to stderr: stdout may be read by a program.
fn stored(store: &StoreArgs, run: &str) -> anyhow::Result<StoredRun> {
    let run = StoredRun::read(&store.store().find(run)?)?;
    for remark in &run.remarks {
        run::say(format_args!("{}: {remark}", run.name));
    }
    Ok(run)
}

fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

fn print(text: &str) -> anyhow::Result<Ended> {
    run::print(text)?;
    Ok(Ended::Complete)
}
