//! Common parts of this module's tests.

use std::path::PathBuf;

/// Archived runs of this repository.
pub(super) const ARCHIVE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/runs/2026-11-23-epyc-2");

/// A folder of its own that is empty.
pub(super) fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-lab-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
