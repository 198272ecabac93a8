//! A run read back from its folder.

use crate::measure::{Latency, Sample};
use crate::report::{Manifest, Summary};
use crate::scenario::{Plan, Slot};
use anyhow::{Context, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A run read back from its folder.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Of its folder.
    pub name: String,
    /// Where it lies.
    pub folder: PathBuf,
    /// What was to be measured.
    pub plan: Plan,
    /// On what, with what, when.
    pub manifest: Manifest,
    /// What was measured; of a place in the plan that was measured again, the
    /// last.
    pub samples: Vec<Sample>,
    /// What a reader must know of the files.
    pub remarks: Vec<String>,
}

impl Archive {
    /// Reads everything.
    pub fn read(folder: &Path) -> anyhow::Result<Archive> {
        let mut archive = Archive::without_latencies(folder)?;
        let lines: Lines<Histogram> = Lines::read(folder, "histograms.jsonl")?;
        archive.remarks.extend(lines.remark);
        let buckets: HashMap<_, _> =
            lines.values.into_iter().map(|it| (it.key(), it.latency_us)).collect();
        for sample in &mut archive.samples {
            sample.latency = Latency::default();
            for &(us, count) in buckets.get(&key(sample)).into_iter().flatten() {
                sample.latency.record(us, count);
            }
        }
        Ok(archive)
    }

    /// The same without histograms, which are nearly all of it.
    pub fn without_latencies(folder: &Path) -> anyhow::Result<Archive> {
        let plan: Plan = read_json(folder, "plan.json")?;
        let lines: Lines<Sample> = Lines::read(folder, "samples.jsonl")?;
        let mut samples: Vec<Sample> = Vec::new();
        let mut places = HashMap::new();
        for sample in lines.values {
            if !has(&plan, &sample) {
                bail!("{}: samples.jsonl has a sample that plan.json has not", folder.display());
            }
            match places.get(&key(&sample)) {
                Some(&index) => samples[index] = sample,
                None => {
                    places.insert(key(&sample), samples.len());
                    samples.push(sample);
                }
            }
        }
        let manifest = read_json(folder, "manifest.json");
        let mut remarks: Vec<String> = lines.remark.into_iter().collect();
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => {
                remarks.push(format!("nothing is known of machine and versions: {error:#}"));
                Manifest::default()
            }
        };
        Ok(Archive {
            name: name_of(folder),
            folder: folder.to_owned(),
            plan,
            manifest,
            samples,
            remarks,
        })
    }

    /// Whose table follows: name, times, versions, what was typed.
    pub fn head(&self) -> String {
        let Manifest { version, measured, command_line, begun, continued, .. } = &self.manifest;
        let (taken, planned) = (self.samples.len(), self.plan.slots().count());
        let mut text = format!("{} · {begun} · {taken} of {planned} samples\n", self.name);
        text += &format!("{command_line}\nlab {version}\n");
        if !measured.is_empty() && measured != version {
            text += &format!("measured {measured}\n");
        }
        for later in continued {
            text +=
                &format!("{} samples more at {}: {}\n", later.samples, later.begun, later.version);
        }
        text
    }

    /// What was found.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.plan, &self.samples, self.manifest.clone())
    }

    /// The places in the plan without a sample, or, if so asked, without one that
    /// counts.
    pub fn missing(&self, also_invalid: bool) -> Vec<Slot> {
        let has = |slot: &Slot| {
            let place = (slot.part, slot.cell, slot.subject, slot.repeat);
            let sample = self.samples.iter().find(|sample| key(sample) == place);
            sample.is_some_and(|sample| !also_invalid || sample.verdict.is_valid())
        };
        self.plan.slots().filter(|slot| !has(slot)).collect()
    }
}

/// When a run began, as its manifest says; empty where it does not.
pub(super) fn begun(folder: &Path) -> String {
    read_json::<Manifest>(folder, "manifest.json").unwrap_or_default().begun
}

/// The last part of a path.
pub(super) fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// A line of `histograms.jsonl`.
#[derive(Deserialize)]
struct Histogram {
    part: usize,
    cell: usize,
    subject: usize,
    repeat: u32,
    latency_us: Vec<(u64, u64)>,
}

impl Histogram {
    fn key(&self) -> (usize, usize, usize, u32) {
        (self.part, self.cell, self.subject, self.repeat)
    }
}

fn key(sample: &Sample) -> (usize, usize, usize, u32) {
    (sample.part, sample.cell, sample.subject, sample.repeat)
}

fn has(plan: &Plan, sample: &Sample) -> bool {
    let cell = plan.parts.get(sample.part).and_then(|part| part.cells.get(sample.cell));
    cell.is_some_and(|cell| sample.subject < cell.subjects.len())
}

fn read_json<T: DeserializeOwned>(folder: &Path, name: &str) -> anyhow::Result<T> {
    let path = folder.join(name);
    let text =
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no longer whole", path.display()))
}

/// A file of one JSON value a line.
struct Lines<T> {
    values: Vec<T>,
    /// That its last line was cut off.
    remark: Option<String>,
}

impl<T: DeserializeOwned> Lines<T> {
    /// The file, or the one beside it that xz has compressed; nothing if there is
    /// neither.
    fn read(folder: &Path, name: &str) -> anyhow::Result<Lines<T>> {
        let path = folder.join(name);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => unpacked(folder, name)?,
            Err(error) => {
                return Err(error).with_context(|| format!("{} cannot be read", path.display()));
            }
        };
        Lines::parse(&text).with_context(|| path.display().to_string()).map(|mut lines| {
            if lines.remark.is_some() {
                lines.remark = Some(format!(
                    "the last line of {name} is half-written, as when a run is killed: left out"
                ));
            }
            lines
        })
    }

    fn parse(text: &[u8]) -> anyhow::Result<Lines<T>> {
        let whole = whole_lines(text);
        let mut values = Vec::new();
        for (number, line) in (1..).zip(text[..whole].split(|byte| *byte == b'\n')) {
            if !line.is_empty() {
                let value = serde_json::from_slice(line);
                values.push(value.with_context(|| format!("line {number}"))?);
            }
        }
        let remark = (whole < text.len()).then(String::new);
        Ok(Lines { values, remark })
    }
}

/// Length of what ends with a newline: a line is written in one piece with its
/// own, so what comes after the last was cut off.
pub(super) fn whole_lines(text: &[u8]) -> usize {
    text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
}

fn unpacked(folder: &Path, name: &str) -> anyhow::Result<Vec<u8>> {
    let name = format!("{name}.xz");
    let path = folder.join(&name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let output = Command::new("xz").arg("-dc").arg(&path).stdin(Stdio::null()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{name} is compressed: install xz (xz-utils), which is asked to read it");
        }
        Err(error) => return Err(error).context("xz cannot be started"),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("xz cannot read {}: {}", path.display(), said.trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ARCHIVE, scratch};
    use super::*;
    use crate::report::{csv, table};

    #[test]
    fn archived_runs_are_read_back() {
        for name in ["fanout", "c", "publish", "stopped", "topics"] {
            let archive = Archive::read(&Path::new(ARCHIVE).join(name)).unwrap();
            assert_eq!(archive.remarks, [""; 0], "{name}");
            assert!(archive.missing(false).is_empty(), "{name}");
            let summary = archive.summary();
            // Unrounded figures, as they were written then.
            let then = fs::read_to_string(archive.folder.join("summary.json")).unwrap();
            let then: serde_json::Value = serde_json::from_str(&then).unwrap();
            let rows = then["parts"][0]["rows"].as_array().unwrap();
            assert_eq!(rows.len(), summary.parts[0].rows.len());
            for (row, then) in summary.parts[0].rows.iter().zip(rows) {
                let row = serde_json::to_value(row).unwrap();
                for path in ["/cell", "/subject", "/samples"] {
                    assert_eq!(row.pointer(path), then.pointer(path), "{name}");
                }
                // Disturbed samples counted then.
                if row["valid"] != then["valid"] {
                    continue;
                }
                let p99 = row.pointer("/latency/p99_us").and_then(serde_json::Value::as_f64);
                let text = then.to_string();
                if let Some(p99) = p99 {
                    assert!(text.contains(&format!("{p99:?}")), "{name}: {p99} in {text}");
                }
            }
            let subject = &summary.parts[0].rows[1].subject;
            assert!(table(&summary).contains(subject) && csv(&summary).contains(subject));
        }
    }

    /// An archived run, unpacked, with these bytes in place of its last `cut`.
    fn unpacked_copy(name: &str, cut: usize, instead: &str) -> PathBuf {
        let (from, to) = (Path::new(ARCHIVE).join("idle"), scratch(name));
        for file in ["plan.json", "manifest.json"] {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
        for file in ["samples.jsonl", "histograms.jsonl"] {
            fs::write(to.join(file), unpacked(&from, file).unwrap()).unwrap();
        }
        let mut samples = fs::read(to.join("samples.jsonl")).unwrap();
        samples.truncate(samples.len() - cut);
        samples.extend(instead.bytes());
        fs::write(to.join("samples.jsonl"), samples).unwrap();
        to
    }

    #[test]
    fn a_half_written_line_is_left_out_and_said() {
        let whole = Archive::read(&unpacked_copy("whole", 0, "")).unwrap();
        let cut = Archive::read(&unpacked_copy("cut", 20, "")).unwrap();
        assert_eq!(cut.samples.len() + 1, whole.samples.len());
        assert_eq!(cut.missing(false).len(), 1);
        assert_eq!(
            cut.remarks,
            ["the last line of samples.jsonl is half-written, as when a run is killed: left out"]
        );
        let broken = Archive::read(&unpacked_copy("broken", 20, "\n"));
        assert!(format!("{:#}", broken.unwrap_err()).contains("line "));
    }

    #[test]
    fn what_was_measured_again_counts_once_and_the_last() {
        let folder = unpacked_copy("again", 0, "");
        let text = fs::read_to_string(folder.join("samples.jsonl")).unwrap();
        let first = text.lines().next().unwrap();
        let mut again: serde_json::Value = serde_json::from_str(first).unwrap();
        again["verdict"] = serde_json::json!({"invalid": "3 missing"});
        fs::write(folder.join("samples.jsonl"), format!("{text}{again}\n")).unwrap();
        let archive = Archive::read(&folder).unwrap();
        assert_eq!(archive.samples.len(), text.lines().count());
        assert!(archive.missing(false).is_empty());
        assert_eq!(archive.missing(true).len(), 1);
    }
}
