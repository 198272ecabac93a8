//! The result of a run: a line of output, and a ledger for the archive.

use std::{
    fs,
    io::{Write, stderr},
    path::Path,
    process::Command,
};

use serde::Serialize;

use super::{
    fault::{Bound, Fault, How, Target},
    ledger::Totals,
    load::{Answers, Seen},
};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    fault: &'static str,
    /// The binary's version, with commit and tree.
    version: String,
    seed: u64,
    took_s: f64,
    bound: Option<Limit>,
    /// Over all faults: the longest pause of a subscriber in each.
    silence_s: Percentiles,
    publishing_silence_s: Percentiles,
    /// Over all subscribers whose node was killed.
    back_s: Option<Percentiles>,
    totals: Totals,
    answers: Answers,
    violations: Vec<String>,
    strikes: Vec<Strike>,
}

/// One fault, and measurements until the cluster was complete again.
#[derive(Debug, Serialize)]
pub(super) struct Strike {
    /// Since the start of the load.
    pub(super) at_s: f64,
    pub(super) victims: Vec<String>,
    #[serde(flatten)]
    pub(super) seen: Seen,
}

#[derive(Debug, Serialize)]
struct Limit {
    of: &'static str,
    s_max: f64,
    is_kept: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Percentiles {
    count: usize,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Report {
    pub(super) fn new(
        fault: &Fault,
        seed: u64,
        took_s: f64,
        strikes: Vec<Strike>,
        answers: Answers,
        totals: Totals,
        violations: Vec<String>,
    ) -> Self {
        let longest = |strike: &Strike| strike.seen.silence_s.values().copied().fold(0.0, f64::max);
        let silence_s =
            Percentiles::from_values(strikes.iter().map(longest)).unwrap_or(Percentiles::NONE);
        let publishing = strikes.iter().map(|strike| strike.seen.publishing_silence_s);
        let publishing_silence_s =
            Percentiles::from_values(publishing).unwrap_or(Percentiles::NONE);
        let back = strikes.iter().flat_map(|strike| strike.seen.back_s.values().copied());
        let back_s = Percentiles::from_values(back);
        let bound = fault.bound.map(|bound| {
            let (of, s_max, was) = match bound {
                Bound::Silence(s) => {
                    ("silence_s.max", s, silence_s.max.max(publishing_silence_s.max))
                }
                Bound::Back(s) => ("back_s.p99", s, back_s.map_or(0.0, |back| back.p99)),
            };
            Limit { of, s_max, is_kept: was <= s_max }
        });
        let version = version();
        Self {
            fault: fault.name,
            version,
            seed,
            took_s,
            bound,
            silence_s,
            publishing_silence_s,
            back_s,
            totals,
            answers,
            violations,
            strikes,
        }
    }

    /// Prints without the test harness, which would suppress the output of a passing test.
    pub(super) fn print(&self, is_long: bool) {
        let Self { fault, seed, took_s, silence_s, publishing_silence_s, totals, .. } = self;
        let Totals { stored, not_stored, unknown, unknown_stored, .. } = totals;
        let Totals { lost, repeated, reordered, .. } = totals;
        let back = self.back_s.map_or(String::new(), |back| format!("; back after {back}"));
        let bound = match &self.bound {
            Some(Limit { of, s_max, is_kept }) if is_long => {
                let word = if *is_kept { "within" } else { "BEYOND" };
                format!("; {of} is {word} the bound of {s_max} s")
            }
            _ => String::new(),
        };
        let line = format!(
            "{fault}: {} faults in {took_s:.0} s, seed {seed}; silence {silence_s}, of publishing \
             {publishing_silence_s}{back}; {stored} stored, {not_stored} not, {unknown} unknown \
             ({unknown_stored} stored); {lost} lost, {repeated} repeated, {reordered} reordered{bound}",
            self.strikes.len()
        );
        writeln!(stderr(), "{line}").expect("stderr can be written to");
    }

    /// Writes the report to a folder, under the name of the fault.
    pub(super) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("make the folder of ledgers");
        let mut text = serde_json::to_string_pretty(self).expect("JSON");
        text.push('\n');
        fs::write(folder.join(format!("{}.json", self.fault)), text).expect("write a ledger");
    }

    /// Fails for every error except a time.
    pub(super) fn check(&self, fault: &Fault) {
        let Self { violations, seed, answers, .. } = self;
        assert!(violations.is_empty(), "THALWEG_FAULT_SEED={seed}: {violations:#?}");
        if (fault.target, fault.how) == (Target::NextNode, How::Terminate) {
            assert_eq!(
                (answers.unknown, answers.cut),
                (0, 0),
                "THALWEG_FAULT_SEED={seed}: {answers:?}"
            );
        }
    }
}

impl Percentiles {
    const NONE: Self = Self { count: 0, p50: 0.0, p99: 0.0, max: 0.0 };

    /// Returns percentiles by nearest rank, or `None` without values.
    fn from_values(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let max = *values.last()?;
        let count = values.len();
        let at = |percent: usize| values[(count * percent).div_ceil(100) - 1];
        Some(Self { count, p50: at(50), p99: at(99), max })
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {:.2} p99 {:.2} max {:.2} s", self.p50, self.p99, self.max)
    }
}

fn version() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("--version").output();
    let output = output.expect("the binary's version").stdout;
    String::from_utf8_lossy(&output).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let of = |values: &[f64]| Percentiles::from_values(values.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[2.0]), Some(Percentiles { count: 1, p50: 2.0, p99: 2.0, max: 2.0 }));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            of(&hundred),
            Some(Percentiles { count: 100, p50: 50.0, p99: 99.0, max: 100.0 })
        );
    }
}
