//! A run as the repository keeps it: manifest, plan, summary and samples, compressed.

use super::bundle::Bundle;
use super::files::{MANIFEST, PLAN, SAMPLES, SUMMARY, has, read, write_compressed};
use super::misuse;
use super::stored_run::StoredRun;
use anyhow::Context;
use std::fs;
use std::path::Path;

/// Writes the run into a folder that holds none yet. The summary is made of the samples, as `show` makes it.
///
/// # Errors
/// The run is still running, the folder holds a run, or a file cannot be read or written.
pub fn archive(run: &StoredRun, to: &Path) -> anyhow::Result<()> {
    if Bundle::is_growing(&run.folder) {
        return Err(misuse(format!("`{}` is still running: archive it at its end", run.name)));
    }
    if has(to, PLAN) {
        return Err(misuse(format!("{} holds a run already: name another folder", to.display())));
    }
    let write = || -> anyhow::Result<()> {
        fs::create_dir_all(to)?;
        fs::write(to.join(MANIFEST), read(&run.folder, MANIFEST)?)?;
        write_compressed(to, SUMMARY, &serde_json::to_vec(&run.summary())?)?;
        write_compressed(to, SAMPLES, &read(&run.folder, SAMPLES)?)?;
        // Written last, because a folder with a plan counts as a run.
        write_compressed(to, PLAN, &read(&run.folder, PLAN)?)?;
        Ok(())
    };
    write().with_context(|| format!("`{}` cannot be archived in {}", run.name, to.display()))
}
