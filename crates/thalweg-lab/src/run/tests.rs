//! Common parts of this module's tests.

use crate::subject::TemporaryFolder;

/// Archived runs of this repository.
pub(super) const ARCHIVE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/runs/2026-11-23-epyc-2");

/// Returns a new, empty folder.
pub(super) fn scratch() -> TemporaryFolder {
    TemporaryFolder::new("run").unwrap()
}
