//! Tests that this machine cannot run.

use std::fs::OpenOptions;
use std::io::Write;

/// The environment variable that names the file of skipped tests, one per line, which `make test` counts.
const SKIPPED: &str = "THALWEG_SKIPPED";

/// Records that a test is skipped, and why.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(path) = std::env::var_os(SKIPPED) {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "{why}")).expect("note what is skipped");
    }
}
