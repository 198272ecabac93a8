//! The files of a run's folder. Those of an archived run are compressed by gzip, all but the manifest.

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The first file of a run that is written: a folder that has it holds a run.
pub(super) const PLAN: &str = "plan.json";
/// Machine, versions, command, times.
pub(super) const MANIFEST: &str = "manifest.json";
/// A line for each sample.
pub(super) const SAMPLES: &str = "samples.jsonl";
pub(super) const SUMMARY: &str = "summary.json";

/// Files of earlier labs, which kept latencies apart from the samples.
const EARLIER: [&str; 3] = ["histograms.jsonl", "histograms.jsonl.xz", "samples.jsonl.xz"];

/// Returns whether the folder has the file, compressed or not.
pub(super) fn has(folder: &Path, name: &str) -> bool {
    folder.join(name).is_file() || folder.join(compressed(name)).is_file()
}

/// Returns the path of the file, compressed or not.
pub(super) fn path(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(name);
    if plain.exists() { plain } else { folder.join(compressed(name)) }
}

/// Returns the bytes of the file, or of the compressed one in its place.
pub(super) fn read(folder: &Path, name: &str) -> io::Result<Vec<u8>> {
    match fs::read(folder.join(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut bytes = Vec::new();
            let file = fs::File::open(folder.join(compressed(name)))?;
            MultiGzDecoder::new(io::BufReader::new(file)).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        read => read,
    }
}

/// Reads the value in a file.
///
/// # Errors
/// Names the file that cannot be read or holds no such value.
pub(super) fn read_json<T: DeserializeOwned>(folder: &Path, name: &str) -> anyhow::Result<T> {
    let path = || folder.join(name).display().to_string();
    let text = read(folder, name).with_context(|| format!("{} cannot be read", path()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no longer whole", path()))
}

pub(super) fn write_compressed(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    fs::write(folder.join(compressed(name)), encoder.finish()?)
}

/// Refuses a run whose latencies would be missing silently.
pub(super) fn expect_percentiles(folder: &Path) -> anyhow::Result<()> {
    if let Some(name) = EARLIER.into_iter().find(|name| folder.join(name).exists()) {
        bail!(
            "{} has {name}, as runs of labs before 28 November 2026: read it with the build that \
             its manifest.json names, or take the run again with `thalweg-lab bench rerun`",
            folder.display()
        );
    }
    Ok(())
}

fn compressed(name: &str) -> String {
    format!("{name}.gz")
}
