//! The highest rate that a browser can process, if a scenario offers the same load at several rates.
//!
//! The rates of a ladder are cells that differ in `interval_us` alone. The rate with the most events of a subject counts, by the
//! geometric mean over all starts: the best of every start by itself would favour noisy subjects. Each start at that rate is compared
//! with the start of the same number of the baseline at its own rate, and Student's t uses these ratios.

use super::choice::Choice;
use crate::measure::Sample;
use crate::measure::comparison::{Comparison, Difference, Metric};
use crate::measure::statistics::{Estimate, estimate};
use crate::scenario::{Cell, Part, Settings};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most events of a subject at any rate of a ladder.
#[derive(Clone, Debug, Serialize)]
pub struct Most {
    /// Settings of the ladder, without the rate.
    pub ladder: String,
    /// The subject.
    pub subject: String,
    /// The cell's label.
    pub cell: String,
    /// Events that arrived in this cell.
    pub events_per_s: Option<Estimate>,
    /// The limit in this cell.
    pub verdict: String,
    /// Comparison with the most of the baseline; `None` for the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_baseline: Option<Comparison>,
}

/// Events of a subject in a cell, start by start.
struct Rung<'a> {
    cell: &'a Cell,
    subject: &'a str,
    counted: Vec<&'a Sample>,
    verdict: String,
}

/// Returns the highest rate of each subject on each ladder.
pub(super) fn highest_rates(part: &Part, samples: &[&Sample]) -> Vec<Most> {
    let mut ladders: Vec<(Settings, Vec<usize>)> = Vec::new();
    for (index, cell) in part.cells.iter().enumerate() {
        let without_rate = Settings { interval_us: 0, ..cell.settings.clone() };
        match ladders.iter_mut().find(|(known, _)| *known == without_rate) {
            Some((_, cells)) => cells.push(index),
            None => ladders.push((without_rate, vec![index])),
        }
    }
    ladders.retain(|(_, cells)| cells.len() > 1);
    ladders.iter().flat_map(|(_, cells)| highest_of_ladder(part, cells, samples)).collect()
}

/// Returns each subject with DevTools compared with the same without, for two cells that differ in this alone.
pub(super) fn observed(part: &Part, samples: &[&Sample]) -> Vec<Comparison> {
    let mut found = Vec::new();
    for (index, cell) in part.cells.iter().enumerate().filter(|(_, cell)| cell.settings.devtools) {
        let alone = Settings { devtools: false, ..cell.settings.clone() };
        let Some(other) = part.cells.iter().position(|cell| cell.settings == alone) else {
            continue;
        };
        for subject in &cell.subjects {
            let rungs = [index, other].map(|found| Rung::new(part, found, &subject.name, samples));
            let [Some(own), Some(alone)] = rungs else { continue };
            let names = [&*format!("{} with DevTools", subject.name), &subject.name];
            found.extend(own.beside(&alone, names, Some(cell.label.clone())));
        }
    }
    found
}

fn highest_of_ladder(part: &Part, cells: &[usize], samples: &[&Sample]) -> Vec<Most> {
    let mut names: Vec<&str> = Vec::new();
    for subject in cells.iter().flat_map(|cell| &part.cells[*cell].subjects) {
        if !names.contains(&&*subject.name) {
            names.push(&subject.name);
        }
    }
    let best = |name: &&str| {
        let rungs = cells.iter().filter_map(|cell| Rung::new(part, *cell, name, samples));
        rungs.max_by(|one, other| one.log().total_cmp(&other.log()))
    };
    let best: Vec<Rung<'_>> = names.iter().filter_map(best).collect();
    let first = &part.cells[cells[0]];
    let baseline = &first.subjects[first.baseline].name;
    let base = best.iter().find(|rung| rung.subject == baseline);
    let most = |own: &Rung<'_>| Most {
        ladder: first.label.split(" / ").next().unwrap_or_default().to_owned(),
        subject: own.subject.to_owned(),
        cell: own.cell.label.clone(),
        events_per_s: estimate(
            &own.counted.iter().map(|sample| sample.events_per_s()).collect::<Vec<_>>(),
        ),
        verdict: own.verdict.clone(),
        to_baseline: base
            .filter(|base| base.subject != own.subject)
            .and_then(|base| own.beside(base, [own.subject, base.subject], None)),
    };
    best.iter().map(most).collect()
}

impl<'a> Rung<'a> {
    /// Returns the rung; `None` if no sample counts, or nothing came.
    fn new(part: &'a Part, cell: usize, subject: &str, samples: &[&'a Sample]) -> Option<Rung<'a>> {
        let of_cell = &part.cells[cell];
        let index = of_cell.subjects.iter().position(|found| found.name == subject)?;
        let own = samples.iter().filter(|sample| (sample.cell, sample.subject) == (cell, index));
        let own: Vec<&Sample> = own.copied().collect();
        let choice = Choice::new(&own);
        let verdict = choice.verdict(&own);
        let mut counted = choice.counted;
        counted.retain(|sample| sample.events_per_s() > 0.0);
        let subject = &of_cell.subjects[index].name;
        (!counted.is_empty()).then_some(Rung { cell: of_cell, subject, counted, verdict })
    }

    fn log(&self) -> f64 {
        let logs = self.counted.iter().map(|sample| sample.events_per_s().ln());
        logs.sum::<f64>() / self.counted.len() as f64
    }

    /// Compares two rungs start by start; `None` if they have no start in common.
    fn beside(
        &self,
        base: &Rung<'_>,
        names: [&str; 2],
        cell: Option<String>,
    ) -> Option<Comparison> {
        let of_base: BTreeMap<u32, f64> = base
            .counted
            .iter()
            .map(|sample| (sample.start(), sample.events_per_s().ln()))
            .collect();
        let log =
            |sample: &&Sample| Some(sample.events_per_s().ln() - of_base.get(&sample.start())?);
        let logs: Vec<f64> = self.counted.iter().filter_map(log).collect();
        if logs.is_empty() {
            return None;
        }
        let difference = Difference::from_starts(&logs, logs.len());
        Some(Comparison { cell, ..Comparison::new(Metric::Throughput, names, false, &difference) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{BrowserUse, Traffic, Verdict};
    use crate::scenario::{Changes, LoadIn, Plan, read};

    fn plan() -> Plan {
        let text = "name = \"x\"\ndrive = \"generated-load\"\n[browser]\nrepeats = 4\n\
             control = \"none\"\n[[browser.cells]]\nconnections = 6\nbatch = 1000\n\
             interval_us = [2000, 1000]\n[[browser.cells]]\nconnections = 6\nbatch = 1000\n\
             devtools = true\n[[browser.subjects]]\nname = \"rows\"\nprogram = \"thalweg\"\n\
             [[browser.subjects]]\nname = \"arrow\"\nprogram = \"thalweg\"\nwith = { transport = \
             \"http-streaming\", consumer = \"arrow\" }\n";
        read(text, &Changes { load: LoadIn::Chromium, ..Changes::default() }, &[]).unwrap()
    }

    /// Rows are best at the lower rate, although it is the second best in one start.
    #[test]
    fn the_rate_is_that_of_all_starts_and_the_ratio_start_by_start() {
        let plan = plan();
        let events = [
            [[200, 210, 190, 200], [300, 600, 300, 600]], // 2 ms: rows, arrow
            [[150, 220, 140, 150], [1600, 1680, 1520, 1600]],
            [[50, 55, 45, 50], [1600, 1680, 1520, 1600]],
        ];
        let samples: Vec<Sample> = plan
            .slots()
            .map(|slot| Sample {
                cell: slot.cell,
                subject: slot.subject,
                repeat: slot.repeat,
                start: Some(slot.repeat),
                verdict: Verdict::Browser,
                span_us: 1_000_000,
                traffic: Traffic {
                    events: events[slot.cell][slot.subject][slot.repeat as usize],
                    ..Traffic::default()
                },
                browser: Some(BrowserUse::default()),
                ..Sample::default()
            })
            .collect();
        let all: Vec<&Sample> = samples.iter().collect();
        let most = highest_rates(&plan.parts[0], &all);
        let [rows, arrow] = &most[..] else { panic!("{most:?}") };
        assert_eq!(
            (&*rows.cell, &*rows.ladder),
            ("6 connections × 1000 rows / 2 ms", "6 connections × 1000 rows")
        );
        assert_eq!(rows.events_per_s.unwrap().median, 200.0);
        let beside = arrow.to_baseline.as_ref().unwrap();
        // Eight times as many in every start.
        assert!((beside.ratio - 8.0).abs() < 1e-9 && beside.starts == 4, "{beside:?}");
        assert!(beside.high.unwrap() - beside.low.unwrap() < 1e-6, "{beside:?}");
        let with = observed(&plan.parts[0], &all);
        let shares: Vec<(&str, f64)> =
            with.iter().map(|found| (&*found.subject, (found.ratio * 100.0).round())).collect();
        assert_eq!(shares, [("rows with DevTools", 31.0), ("arrow with DevTools", 100.0)]);
    }
}
