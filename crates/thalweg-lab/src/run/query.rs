//! Reads finished runs, without measuring.

use super::OutputOptions;
use super::bundle::Bundle;
use super::ending::{hits, leave_junit, refuse};
use super::store::Store;
use super::stored_run::StoredRun;
use crate::report::{Entry, State, Summary};

/// Returns every run of a store, or the reason why it cannot be read.
pub fn entries(store: &Store) -> anyhow::Result<Vec<Result<Entry, String>>> {
    let entry = |name: String| {
        let folder = store.folder_of(&name);
        // Checked first, because the run may end while it is read.
        let is_growing = Bundle::is_growing(&folder);
        let run = StoredRun::read(&folder)
            .map_err(|error| format!("{name}\n  cannot be read: {error:#}\n"))?;
        let state = match run.is_complete() {
            true => State::Over,
            false if is_growing => State::Running,
            false => State::EndedEarly,
        };
        let (summary, taken) = (run.summary(), run.samples.len());
        Ok(Entry::new(&name, &run.plan, taken, &summary, state))
    };
    Ok(store.names()?.into_iter().map(entry).collect())
}

/// Judges a run that is over by thresholds, as if they had been given at its start. The error says which were crossed.
pub fn judge(run: &StoredRun, summary: &Summary, output: &OutputOptions) -> anyhow::Result<()> {
    output.check(&run.plan)?;
    // A run that is only shown is not judged.
    if output.fail_if.is_empty() && output.junit.is_none() {
        return Ok(());
    }
    let hits = hits(output, summary);
    if let Some(path) = &output.junit {
        leave_junit(path, &run.plan, summary, &hits)?;
    }
    refuse(&hits)
}
