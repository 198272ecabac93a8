//! A run read back from its folder.

use super::lines::Lines;
use crate::measure::{Latency, Sample};
use crate::report::{Manifest, Summary, models};
use crate::scenario::{Plan, ScenarioError};
use crate::sizing::Basis;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

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
    /// What was measured. Of a place in the plan that has several, the last: runs of old could be
    /// completed so.
    pub samples: Vec<Sample>,
    /// What a reader must know of the files.
    pub remarks: Vec<String>,
}

impl Archive {
    /// Reads everything.
    pub fn read(folder: &Path) -> anyhow::Result<Archive> {
        let mut archive = Archive::without_latencies(folder)?;
        archive.read_latencies()?;
        Ok(archive)
    }

    /// Reads what `without_latencies` has left out.
    pub(super) fn read_latencies(&mut self) -> anyhow::Result<()> {
        let lines: Lines<Histogram> = Lines::read(&self.folder, "histograms.jsonl")?;
        self.remarks.extend(lines.remark);
        let buckets: HashMap<_, _> =
            lines.values.into_iter().map(|it| (it.key(), it.latency_us)).collect();
        for sample in &mut self.samples {
            sample.latency = Latency::default();
            for &(us, count) in buckets.get(&key(sample)).into_iter().flatten() {
                sample.latency.record(us, count);
            }
        }
        Ok(())
    }

    /// The same without histograms, which are nearly all of it.
    pub fn without_latencies(folder: &Path) -> anyhow::Result<Archive> {
        let plan: Plan = read_json(folder, "plan.json")?;
        let lines: Lines<Sample> = Lines::read(folder, "samples.jsonl")?;
        let (mut samples, mut places) = (Vec::new(), HashMap::new());
        for mut sample in lines.values {
            sample.verdict = sample.verdict.beside(sample.swarm_busy);
            if !has(&plan, &sample) {
                bail!("{}: samples.jsonl has a sample that plan.json has not", folder.display());
            }
            match places.entry(key(&sample)) {
                Entry::Occupied(place) => samples[*place.get()] = sample,
                Entry::Vacant(place) => {
                    place.insert(samples.len());
                    samples.push(sample);
                }
            }
        }
        let mut remarks: Vec<String> = lines.remark.into_iter().collect();
        let manifest = read_json(folder, "manifest.json").unwrap_or_else(|error| {
            remarks.push(format!("nothing is known of machine and versions: {error:#}"));
            Manifest::default()
        });
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
        let Manifest { version, measured, command_line, begun, .. } = &self.manifest;
        let taken = self.samples.len();
        let planned = self.plan.samples_planned().map(|it| format!(" of {it}")).unwrap_or_default();
        let mut text = format!("{} · {begun} · {taken}{planned} samples\n", self.name);
        text += &format!("{command_line}\nlab {version}\n");
        if !measured.is_empty() && measured != version {
            text += &format!("measured {measured}\n");
        }
        text
    }

    /// Compares the others with this subject, in every cell that has it. There the baseline before
    /// stands once, without its control.
    ///
    /// # Errors
    /// No cell has it.
    pub fn compare_with(&mut self, baseline: &str) -> Result<(), ScenarioError> {
        let mut plan = self.plan.clone();
        plan.compare_with(baseline)?;
        let before = std::mem::replace(&mut self.plan, plan);
        self.samples.retain(|sample| {
            let of = |plan: &'_ Plan| plan.parts[sample.part].cells[sample.cell].baseline;
            let cell = &before.parts[sample.part].cells[sample.cell];
            let is_other = of(&self.plan) != cell.baseline && of(&self.plan) != sample.subject;
            !(is_other && cell.is_control(sample.subject))
        });
        Ok(())
    }

    /// What was found.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.plan, &self.samples, self.manifest.clone())
    }

    /// What its subjects cost, for [`crate::sizing`].
    pub fn basis(&self) -> Basis {
        let Manifest { machine, measured, version, begun, .. } = &self.manifest;
        let measured = if measured.is_empty() { version } else { measured };
        Basis {
            run: self.name.clone(),
            machine: format!("{}, {} cores", machine.cpu, machine.cores),
            begun: begun.clone(),
            version: measured.clone(),
            models: models(&self.summary()),
        }
    }

    /// Whether it was neither killed nor interrupted.
    pub fn is_complete(&self) -> bool {
        !self.manifest.ended.is_empty() && !self.manifest.was_interrupted
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

#[cfg(test)]
mod tests {
    use super::super::lines::unpacked;
    use super::super::tests::{ARCHIVE, scratch};
    use super::*;
    use crate::report::{self, csv, table};
    use serde_json::Value;

    /// Some that every kind of run has one of: where a row has them, and where rows had
    /// them before the first release.
    const FIGURES: [(&str, &str); 4] = [
        ("/latency/p99_us", "/latency_us_p99"),
        ("/cpu/us_per_event/median", "/cpu_us_per_event/median"),
        ("/memory/rss_bytes", "/rss_bytes"),
        ("/round_trip/mean_us", "/talk/mean_us"),
    ];

    #[test]
    fn archived_runs_are_read_back() {
        for name in ["fanout", "c", "publish", "stopped", "topics"] {
            let archive = Archive::read(&Path::new(ARCHIVE).join(name)).unwrap();
            assert_eq!(archive.remarks, [""; 0], "{name}");
            assert!(archive.is_complete(), "{name}");
            let summary = archive.summary();
            // Unrounded figures, as they were written then.
            let then = fs::read_to_string(archive.folder.join("summary.json")).unwrap();
            let then: Value = serde_json::from_str(&then).unwrap();
            let rows = then["parts"][0]["rows"].as_array().unwrap();
            assert_eq!(rows.len(), summary.parts[0].rows.len());
            let mut compared = 0;
            for (row, then) in summary.parts[0].rows.iter().zip(rows) {
                let row = serde_json::to_value(row).unwrap();
                for path in ["/cell", "/subject", "/samples"] {
                    assert_eq!(row.pointer(path), then.pointer(path), "{name}");
                }
                // Disturbed samples counted then.
                if row["valid"] != then["valid"] {
                    continue;
                }
                for (path, old_path) in FIGURES {
                    let then = then.pointer(path).or_else(|| then.pointer(old_path));
                    let now = row.pointer(path).and_then(Value::as_f64);
                    if let (Some(now), Some(then)) = (now, then.and_then(Value::as_f64)) {
                        let is_same = (now - then).abs() <= 1e-9 * then.abs();
                        assert!(is_same, "{name} {path}: {now}, and then {then}");
                        compared += 1;
                    }
                }
            }
            assert!(compared > 0, "{name}: no figure of it can be compared");
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
        assert_eq!(
            cut.remarks,
            ["the last line of samples.jsonl is half-written, as when a run is killed: left out"]
        );
        let broken = Archive::read(&unpacked_copy("broken", 20, "\n"));
        assert!(format!("{:#}", broken.unwrap_err()).contains("line "));
    }

    /// As runs of old, whose samples could be taken again.
    #[test]
    fn a_run_that_was_continued_is_read() {
        let folder = unpacked_copy("continued", 0, "");
        let text = fs::read_to_string(folder.join("samples.jsonl")).unwrap();
        let first = text.lines().next().unwrap();
        let mut again: Value = serde_json::from_str(first).unwrap();
        again["verdict"] = serde_json::json!({"invalid": "3 missing"});
        fs::write(folder.join("samples.jsonl"), format!("{text}{again}\n")).unwrap();
        let mut manifest: Value = read_json(&folder, "manifest.json").unwrap();
        manifest["continued"] = serde_json::json!([{
            "begun": "later", "ended": "soon", "version": "1", "measured": "2",
            "command_line": "thalweg bench continue", "samples": 1, "machine": {"cores": 2},
        }]);
        fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        let archive = Archive::read(&folder).unwrap();
        assert_eq!(archive.samples.len(), text.lines().count());
        let last = archive.samples.iter().filter(|it| !it.verdict.is_valid());
        assert_eq!(last.count(), 1);
        let told = report::manifest(&archive.summary());
        assert!(told.contains("\nSamples added: at later with 1, measured 2\n"), "{told}");
    }
}
