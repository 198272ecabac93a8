//! What can be asked of runs that are over. Nothing here measures.

use super::OutputOptions;
use super::archive::Archive;
use super::bundle::Bundle;
use super::ending::{hits, leave_junit, refuse};
use super::store::Store;
use crate::report::{Entry, State, Summary};
use crate::scenario::Figure;
use std::path::Path;

/// Every run of a store; what cannot be read is said instead, with its reason.
pub fn entries(store: &Store) -> anyhow::Result<Vec<Result<Entry, String>>> {
    let entry = |name: String| {
        let folder = store.folder_of(&name);
        // First, as it may end while it is read.
        let is_growing = Bundle::is_growing(&folder);
        let archive =
            read(&folder).map_err(|error| format!("{name}\n  cannot be read: {error:#}\n"))?;
        let state = match archive.is_complete() {
            true => State::Over,
            false if is_growing => State::Running,
            false => State::EndedEarly,
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

/// Holds a run that is over to conditions, as if they had been given when it was
/// made; the error says which were met.
pub fn judge(archive: &Archive, summary: &Summary, output: &OutputOptions) -> anyhow::Result<()> {
    output.check(&archive.plan)?;
    let hits = hits(&output.fail_if, summary);
    if let Some(path) = &output.junit {
        leave_junit(path, &archive.plan, summary, &hits)?;
    }
    refuse(&hits)
}
