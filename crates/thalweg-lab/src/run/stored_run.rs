//! A run loaded from its folder.

use super::files::{MANIFEST, PLAN, SAMPLES, expect_percentiles, read_json};
use super::lines::Lines;
use crate::measure::Sample;
use crate::report::{Manifest, Summary, models};
use crate::scenario::{Plan, ScenarioError};
use crate::sizing::Basis;
use anyhow::bail;
use std::path::{Path, PathBuf};

/// A run loaded from its folder.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Name of its folder.
    pub name: String,
    /// The path of its folder.
    pub folder: PathBuf,
    /// The plan of the run.
    pub plan: Plan,
    /// Machine, versions and times.
    pub manifest: Manifest,
    /// The samples of the run.
    pub samples: Vec<Sample>,
    /// Remarks on the files for the reader.
    pub remarks: Vec<String>,
}

impl StoredRun {
    /// Reads a run.
    ///
    /// # Errors
    /// A file is missing or broken, or the run is of an earlier lab.
    pub fn read(folder: &Path) -> anyhow::Result<StoredRun> {
        expect_percentiles(folder)?;
        let plan: Plan = read_json(folder, PLAN)?;
        let lines: Lines<Sample> = Lines::read(folder, SAMPLES)?;
        let mut samples = lines.values;
        for sample in &mut samples {
            sample.verdict = std::mem::take(&mut sample.verdict).beside(sample.swarm_busy);
            if !has(&plan, sample) {
                bail!(
                    "{}: samples.jsonl has a sample that plan.json does not have",
                    folder.display()
                );
            }
        }
        let mut remarks: Vec<String> = lines.remark.into_iter().collect();
        let manifest = read_json(folder, MANIFEST).unwrap_or_else(|error| {
            remarks.push(format!("nothing is known of machine and versions: {error:#}"));
            Manifest::default()
        });
        Ok(StoredRun {
            name: name_of(folder),
            folder: folder.to_owned(),
            plan,
            manifest,
            samples,
            remarks,
        })
    }

    /// Returns the heading of its table: name, times, versions, typed arguments.
    pub fn head(&self) -> String {
        let Manifest { version, measured, command_line, begun, .. } = &self.manifest;
        let taken = self.samples.len();
        let planned =
            self.plan.samples_planned().map(|count| format!(" of {count}")).unwrap_or_default();
        let mut text = format!("{} · {begun} · {taken}{planned} samples\n", self.name);
        text += &format!("{command_line}\nlab {version}\n");
        if !measured.is_empty() && measured != version {
            text += &format!("measured {measured}\n");
        }
        text
    }

    /// Compares the others with this subject, in every cell that has it. The old baseline appears once, without its control.
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

    /// Returns the results of the run.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.plan, &self.samples, self.manifest.clone())
    }

    /// Returns the costs of its subjects, for [`crate::sizing`].
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

    /// Returns whether it was neither killed nor interrupted.
    pub fn is_complete(&self) -> bool {
        !self.manifest.ended.is_empty() && !self.manifest.was_interrupted
    }
}

/// Returns the folder's manifest; empty where there is none.
pub(super) fn manifest(folder: &Path) -> Manifest {
    read_json(folder, MANIFEST).unwrap_or_default()
}

/// Returns the last part of a path.
pub(super) fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

fn has(plan: &Plan, sample: &Sample) -> bool {
    let cell = plan.parts.get(sample.part).and_then(|part| part.cells.get(sample.cell));
    cell.is_some_and(|cell| sample.subject < cell.subjects.len())
}

#[cfg(test)]
mod tests {
    use super::super::archive;
    use super::super::files::{self, SUMMARY};
    use super::super::store::Store;
    use super::super::tests::{ARCHIVE, scratch};
    use super::*;
    use crate::measure::Point;
    use crate::report::{self, Document, csv, table};
    use crate::subject::TemporaryFolder;
    use serde_json::{Value, json};
    use std::fs;

    const FIGURES: [&str; 4] =
        ["/latency/p99_us", "/cpu/us_per_event/median", "/memory/rss_bytes", "/round_trip/mean_us"];

    #[test]
    fn reading_archived_runs_restores_their_figures() {
        let days = fs::read_dir(Path::new(ARCHIVE).join("..")).unwrap();
        let folders = days.flat_map(|day| {
            let store = Store::new(day.unwrap().path());
            let names = store.names().unwrap_or_default();
            names.into_iter().map(move |name| store.folder_of(&name))
        });
        let mut compared = 0;
        for folder in folders {
            let run = StoredRun::read(&folder).unwrap();
            let name = folder.display();
            assert_eq!(run.remarks, [""; 0], "{name}");
            assert!(run.is_complete(), "{name}");
            let summary = run.summary();
            let subject = &summary.parts[0].rows[1].subject;
            assert!(table(&summary).contains(subject) && csv(&summary).contains(subject), "{name}");
            assert!(serde_json::to_string(&Document::new(&summary)).unwrap().contains(subject));
            let then: Value = files::read_json(&folder, SUMMARY).unwrap();
            for (part, then) in summary.parts.iter().zip(then["parts"].as_array().unwrap()) {
                let rows = then["rows"].as_array().unwrap();
                assert_eq!(rows.len(), part.rows.len(), "{name}");
                for (row, then) in part.rows.iter().zip(rows) {
                    compared +=
                        figures_compared(&serde_json::to_value(row).unwrap(), then, &folder);
                }
            }
        }
        assert!(compared > 0, "no figure can be compared");
    }

    fn figures_compared(row: &Value, then: &Value, folder: &Path) -> usize {
        for path in ["/cell", "/subject", "/samples"] {
            assert_eq!(row.pointer(path), then.pointer(path), "{}", folder.display());
        }
        // Earlier labs counted some samples otherwise.
        if row["valid"] != then["valid"] {
            return 0;
        }
        let figure = |row: &Value, path| row.pointer(path).and_then(Value::as_f64);
        // Some runs were archived without latencies.
        let known = FIGURES
            .into_iter()
            .filter_map(|path| Some((path, figure(row, path)?, figure(then, path)?)));
        known
            .map(|(path, now, then)| {
                let is_same = (now - then).abs() <= 1e-9 * then.abs();
                assert!(is_same, "{} {path}: {now}, and then {then}", folder.display());
            })
            .count()
    }

    /// Returns the archived `idle` as a measured run leaves it: unpacked, with these bytes in place of the last `cut` of its samples.
    fn unpacked_copy(cut: usize, instead: &str) -> TemporaryFolder {
        let (from, folder) = (Path::new(ARCHIVE).join("idle"), scratch());
        let to = folder.path();
        for file in [PLAN, MANIFEST, SAMPLES] {
            fs::write(to.join(file), files::read(&from, file).unwrap()).unwrap();
        }
        let mut samples = fs::read(to.join(SAMPLES)).unwrap();
        samples.truncate(samples.len() - cut);
        samples.extend(instead.bytes());
        fs::write(to.join(SAMPLES), samples).unwrap();
        folder
    }

    #[test]
    fn a_half_written_line_is_left_out_and_reported() {
        let whole = StoredRun::read(unpacked_copy(0, "").path()).unwrap();
        let cut = StoredRun::read(unpacked_copy(20, "").path()).unwrap();
        assert_eq!(cut.samples.len() + 1, whole.samples.len());
        assert_eq!(
            cut.remarks,
            ["the last line of samples.jsonl is half-written, as when a run is killed: left out"]
        );
        let broken = StoredRun::read(unpacked_copy(20, "\n").path());
        assert!(format!("{:#}", broken.unwrap_err()).contains("line "));
    }

    #[test]
    fn an_archived_run_says_the_same_and_has_four_files() {
        let folder = unpacked_copy(0, "");
        let run = StoredRun::read(folder.path()).unwrap();
        let to = run.folder.join("archived");
        archive(&run, &to).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let expected = ["manifest.json", "plan.json.gz", "samples.jsonl.gz", "summary.json.gz"];
        assert_eq!(names, expected);
        let archived = StoredRun::read(&to).unwrap();
        assert_eq!(json!(Document::new(&archived.summary())), json!(Document::new(&run.summary())));
        let summary: Value = files::read_json(&to, SUMMARY).unwrap();
        assert_eq!(summary, json!(run.summary()));
        let again = archive(&archived, &to).unwrap_err().to_string();
        assert!(again.ends_with("holds a run already: name another folder"), "{again}");
    }

    #[test]
    fn an_archived_run_has_the_figures_without_points_of_short_spans() {
        let folder = unpacked_copy(0, "");
        let samples = fs::read_to_string(folder.path().join(SAMPLES)).unwrap();
        let point = serde_json::to_string(&Point::default()).unwrap();
        let with_points = samples.replace("\"timeline\":[]", &format!("\"timeline\":[{point}]"));
        fs::write(folder.path().join(SAMPLES), with_points).unwrap();
        let run = StoredRun::read(folder.path()).unwrap();
        let to = run.folder.join("archived");
        archive(&run, &to).unwrap();
        let archived = StoredRun::read(&to).unwrap();
        let points =
            |run: &StoredRun| run.samples.iter().flat_map(|sample| &sample.timeline).count();
        assert_eq!((points(&run), points(&archived)), (run.samples.len(), 0));
        assert_eq!(json!(archived.summary()), json!(run.summary()));
    }

    #[test]
    fn a_run_of_an_earlier_lab_is_refused_with_the_remedy() {
        for name in ["histograms.jsonl", "histograms.jsonl.xz", "samples.jsonl.xz"] {
            let folder = unpacked_copy(0, "");
            fs::write(folder.path().join(name), "").unwrap();
            let error = StoredRun::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("bench rerun"), "{error}");
        }
    }

    #[test]
    fn samples_added_by_continuing_are_reported() {
        let folder = unpacked_copy(0, "");
        let folder = folder.path();
        let mut manifest: Value = read_json(folder, MANIFEST).unwrap();
        manifest["continued"] = json!([{"begun": "later", "version": "1", "measured": "2"}]);
        fs::write(folder.join(MANIFEST), manifest.to_string()).unwrap();
        let reported = report::manifest(&StoredRun::read(folder).unwrap().summary());
        assert!(reported.contains("\nSamples added: at later with 1, measured 2\n"), "{reported}");
    }
}
