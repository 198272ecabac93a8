//! A run read back from its folder.

use super::lines::Lines;
use crate::measure::{Latency, Sample};
use crate::report::{Manifest, Summary};
use crate::scenario::{Plan, Slot};
use anyhow::{Context, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
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
    /// What was measured; of a place in the plan that was measured again, the
    /// last.
    pub samples: Vec<Sample>,
    /// What a reader must know of the files.
    pub remarks: Vec<String>,
    /// Of each sample, its line.
    lines: Vec<usize>,
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
        let (mut samples, mut numbers): (Vec<Sample>, Vec<usize>) = Default::default();
        let mut places = HashMap::new();
        for (number, mut sample) in lines.values.into_iter().enumerate() {
            sample.verdict = sample.verdict.beside(sample.swarm_busy);
            if !has(&plan, &sample) {
                bail!("{}: samples.jsonl has a sample that plan.json has not", folder.display());
            }
            match places.get(&key(&sample)) {
                Some(&index) => (samples[index], numbers[index]) = (sample, number),
                None => {
                    places.insert(key(&sample), samples.len());
                    samples.push(sample);
                    numbers.push(number);
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
            lines: numbers,
        })
    }

    /// Whose table follows: name, times, versions, what was typed.
    pub fn head(&self) -> String {
        let Manifest { version, measured, command_line, begun, continued, .. } = &self.manifest;
        let taken = self.samples.len();
        let planned = self.plan.samples_planned().map(|it| format!(" of {it}")).unwrap_or_default();
        let mut text = format!("{} · {begun} · {taken}{planned} samples\n", self.name);
        text += &format!("{command_line}\nlab {version}\n");
        if !measured.is_empty() && measured != version {
            text += &format!("measured {measured}\n");
        }
        for later in continued {
            text += &format!("{}\n", later.line());
        }
        text
    }

    /// What was found.
    pub fn summary(&self) -> Summary {
        Summary::new(&self.plan, &self.samples, self.manifest.clone())
    }

    /// The places in the plan that are to be measured: of every repeat that is not
    /// whole, all. Ratios are of pairs taken side by side, so a sample taken alone
    /// would find no partner. Whole is a repeat with all its samples, taken in one go,
    /// and, if so asked, all of them valid.
    pub fn missing(&self, also_invalid: bool) -> Vec<Slot> {
        let mut repeats: HashMap<(usize, usize, u32), Repeat> = HashMap::new();
        for (sample, &line) in self.samples.iter().zip(&self.lines) {
            let repeat = repeats.entry((sample.part, sample.cell, sample.start())).or_default();
            repeat.count += 1;
            repeat.first = repeat.first.min(line);
            repeat.last = repeat.last.max(line);
            repeat.has_invalid |= !sample.verdict.is_valid();
        }
        let is_whole = |slot: &Slot| {
            let repeat = repeats.get(&(slot.part, slot.cell, slot.repeat));
            repeat.is_some_and(|it| {
                it.count >= self.plan.cell(*slot).subjects.len()
                    && it.last - it.first < it.count
                    && !(also_invalid && it.has_invalid)
            })
        };
        self.plan.slots().filter(|slot| !is_whole(slot)).collect()
    }

    /// Whether everything was saved: the last process that added to it was not killed.
    pub fn is_finished(&self) -> bool {
        !self.manifest.ended.is_empty() && self.folder.join("summary.json").exists()
    }
}

/// What there is of one repeat of a cell.
struct Repeat {
    /// Samples.
    count: usize,
    /// Lines of the first and the last.
    first: usize,
    last: usize,
    has_invalid: bool,
}

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat { count: 0, first: usize::MAX, last: 0, has_invalid: false }
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
    use crate::report::{csv, table};
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
            assert!(archive.missing(false).is_empty(), "{name}");
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
        unpacked_copy_of("idle", name, cut, instead)
    }

    fn unpacked_copy_of(run: &str, name: &str, cut: usize, instead: &str) -> PathBuf {
        let (from, to) = (Path::new(ARCHIVE).join(run), scratch(name));
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
        let last = whole.samples.last().unwrap();
        let is_last = |it: &Slot| (it.cell, it.repeat) == (last.cell, last.repeat);
        let missing = cut.missing(false);
        assert!(!missing.is_empty() && missing.iter().all(is_last), "{missing:?}");
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
        let last = archive.samples.iter().filter(|it| !it.verdict.is_valid());
        assert_eq!(last.count(), 1);
    }

    /// Pairs are of samples that were taken side by side.
    #[test]
    fn a_repeat_is_taken_whole_or_not_at_all() {
        let text =
            fs::read_to_string(unpacked_copy_of("stopped", "repeats", 0, "").join("samples.jsonl"));
        let text = text.unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let check = |change: &dyn Fn(&mut Vec<Value>), also_invalid, expected: &[u64]| {
            let folder = unpacked_copy_of("stopped", "repeats", 0, "");
            let mut lines = lines.clone();
            change(&mut lines);
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(folder.join("samples.jsonl"), text).unwrap();
            let archive = Archive::read(&folder).unwrap();
            let missing = archive.missing(also_invalid);
            let subjects = archive.plan.parts[0].cells[0].subjects.len();
            assert_eq!(missing.len(), expected.len() * subjects);
            for (slots, expected) in missing.chunks(subjects).zip(expected) {
                let is_of_it = |it: &Slot| (it.cell, u64::from(it.repeat)) == (0, *expected);
                assert!(slots.iter().all(is_of_it), "{slots:?}");
            }
        };
        let invalid = || serde_json::json!({"invalid": "3 missing"});
        let of_repeat = |lines: &[Value], repeat: u64| {
            lines.iter().position(|it| it["cell"] == 0 && it["repeat"] == repeat).unwrap()
        };
        assert!(lines.iter().any(|it| it["subject"] == 1), "several subjects");
        check(&|_| {}, true, &[]);
        check(
            &|lines| {
                let index = of_repeat(lines, 1);
                lines.remove(index);
            },
            false,
            &[1],
        );
        let make_invalid = |lines: &mut Vec<Value>| {
            let index = of_repeat(lines, 1);
            lines[index]["verdict"] = invalid();
        };
        check(&make_invalid, false, &[]);
        check(&make_invalid, true, &[1]);
        // One of them was taken again alone, much later.
        check(
            &|lines| {
                let again = lines[of_repeat(lines, 0)].clone();
                lines.push(again);
            },
            false,
            &[0],
        );
    }
}
