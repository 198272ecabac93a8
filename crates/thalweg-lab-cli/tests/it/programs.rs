//! The program under test, and the one that it measures.

use std::path::{Path, PathBuf};

pub(crate) const LAB: &str = env!("CARGO_BIN_EXE_thalweg-lab");

/// Returns the path of the `thalweg` that the lab measures here.
pub(crate) fn thalweg() -> String {
    let beside = Path::new(LAB).with_file_name("thalweg");
    let path = std::env::var_os("THALWEG_BIN").map_or(beside, PathBuf::from);
    let path = path.to_str().expect("UTF-8");
    assert!(Path::new(path).is_file(), "there is no {path}: run cargo build -p thalweg");
    path.to_owned()
}
