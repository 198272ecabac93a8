//! What can be asked of runs that are over. Nothing here measures.

use super::archive::Archive;
use super::ending::{hits, leave_junit, refuse};
use super::store::Store;
use super::{Manner, misuse};
use crate::report::{self, Against, Entry, Side, Summary};

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
        let archive = Archive::without_latencies(&store.folder_of(&name))
            .map_err(|error| format!("{name}\n  cannot be read: {error:#}\n"))?;
        let summary = archive.summary();
        Ok(Entry::new(&name, &archive.plan, archive.samples.len(), &summary))
    };
    Ok(store.names()?.into_iter().map(entry).collect())
}

/// Two runs next to each other.
pub fn compare(first: &Archive, second: &Archive) -> Against {
    fn side(archive: &Archive) -> Side<'_> {
        let Archive { name, plan, samples, manifest, .. } = archive;
        Side { name, plan, samples, manifest }
    }
    report::against(side(first), side(second))
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
pub fn judge(archive: &Archive, summary: &Summary, manner: &Manner) -> anyhow::Result<()> {
    let check = |it: &report::Condition| it.check(&archive.plan).map_err(misuse);
    manner.fail_if.iter().try_for_each(check)?;
    let hits = hits(&manner.fail_if, summary);
    if let Some(path) = &manner.junit {
        leave_junit(path, &archive.plan, summary, &hits)?;
    }
    refuse(&hits)
}
