//! What can be asked of runs that are over. Nothing here measures.

use super::archive::Archive;
use super::ending::{hits, leave_junit, refuse};
use super::store::Store;
use super::{OutputOptions, lock, misuse};
use crate::report::{self, Entry, State, Summary};
use crate::scenario::Figure;
use std::path::Path;

/// What a run can be exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One self-contained page with charts.
    Html,
    /// The findings and a table for each scenario.
    Markdown,
    /// One line for each subject of each cell, figures unrounded.
    Csv,
    /// The whole summary.
    Json,
    /// For what shows tests.
    Junit,
}

/// Every run of a store; what cannot be read is said instead, with its reason.
pub fn entries(store: &Store) -> anyhow::Result<Vec<Result<Entry, String>>> {
    let entry = |name: String| {
        let folder = store.folder_of(&name);
        let archive =
            read(&folder).map_err(|error| format!("{name}\n  cannot be read: {error:#}\n"))?;
        let state = match lock::holder(&folder) {
            Some(said) => State::Running(said),
            None if archive.is_complete() => State::Over,
            None => State::EndedEarly,
        };
        let (summary, taken) = (archive.summary(), archive.samples.len());
        Ok(Entry::new(&name, &archive.plan, taken, &summary, state))
    };
    Ok(store.names()?.into_iter().map(entry).collect())
}

/// With latencies only where they are the figure of a part: they are nearly all of it.
fn read(folder: &Path) -> anyhow::Result<Archive> {
    let mut archive = Archive::without_latencies(folder)?;
    if archive.plan.parts.iter().any(|part| part.figure() == Figure::Latency) {
        archive.read_latencies()?;
    }
    Ok(archive)
}

/// A run in another form.
pub fn export(archive: &Archive, format: Format) -> anyhow::Result<String> {
    let summary = archive.summary();
    Ok(match format {
        Format::Html => report::html(&summary),
        Format::Markdown => report::markdown(&summary),
        Format::Csv => report::csv(&summary),
        Format::Json => serde_json::to_string_pretty(&summary)? + "\n",
        Format::Junit => report::junit(&archive.plan, &summary, &[]),
    })
}

/// Holds a run that is over to conditions, as if they had been given when it was
/// made; the error says which were met.
pub fn judge(archive: &Archive, summary: &Summary, output: &OutputOptions) -> anyhow::Result<()> {
    let check = |it: &report::Condition| it.check(&archive.plan).map_err(misuse);
    output.fail_if.iter().try_for_each(check)?;
    let hits = hits(&output.fail_if, summary);
    if let Some(path) = &output.junit {
        leave_junit(path, &archive.plan, summary, &hits)?;
    }
    refuse(&hits)
}
