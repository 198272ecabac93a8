//! `--fail-if`: conditions that fail a run.
//!
//! ```text
//! PATH OP NUMBER          e.g. parts.fanout.pooled.thalweg.cpu > 1.05
//! ```
//!
//! PATH goes into `summary.json`, step by step: into an object by a name of it; of an array to the elements that have the step as
//! their `name`, `cell`, `subject` or `metric`, or else by a name of theirs, into all of them. A comparison stands for its ratio
//! and an estimate for its median.

use super::summary::{Manifest, Summary};
use crate::measure::{MachineNote, Percentiles, Received, RoundTrips, Sample, Traffic, Verdict};
use crate::scenario::{Plan, Program, unknown};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// The kind of a condition that was met.
pub(super) const FAIL_IF: &str = "fail-if";

/// Members that identify an element of an array.
const NAMES: [&str; 4] = ["name", "cell", "subject", "metric"];
/// Members that a condition stands for if it ends before them.
const FIGURES: [&str; 2] = ["ratio", "median"];
/// Conditions hold for the baseline's control only if they name it.
const CONTROLS: [&str; 2] = ["is_control", "is_noise"];

type Holds = fn(&f64, &f64) -> bool;

/// Longer signs before those they begin with.
const COMPARATORS: [(&str, Holds); 6] = [
    ("<=", f64::le),
    (">=", f64::ge),
    ("==", f64::eq),
    ("!=", f64::ne),
    ("<", f64::lt),
    (">", f64::gt),
];

/// A condition that fails a run.
#[derive(Clone, Debug)]
pub struct Condition {
    path: String,
    sign: &'static str,
    holds: Holds,
    limit: f64,
}

/// A condition that was met or had no figure, or a fault that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Scenario, cell and subject; `None` if it is of no single row.
    pub row: Option<[String; 3]>,
    /// `fail-if` of a condition, or the kind of the fault.
    pub kind: &'static str,
    /// The figure and the condition.
    pub reason: String,
    /// Whether it is one for want of a sample that counts.
    pub is_for_want: bool,
}

impl Hit {
    /// Whether it is a condition of `--fail-if`, and no fault.
    pub fn is_condition(&self) -> bool {
        self.kind == FAIL_IF
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.row {
            Some(row) => write!(f, "{}: {}", row.join(" · "), self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong = || {
            format!(
                "`{text}` is not PATH OP NUMBER, of which OP is < <= > >= == or !=, e.g. \
                 parts.fanout.pooled.cpu > 1.05"
            )
        };
        let at = text.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
        let (path, rest) = text.split_at(at);
        let (sign, holds) =
            COMPARATORS.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(wrong)?;
        let limit = rest[sign.len()..].trim().parse().ok().filter(|limit: &f64| limit.is_finite());
        let path = path.trim().to_owned();
        if path.is_empty() {
            return Err(wrong());
        }
        Ok(Condition { path, sign, holds, limit: limit.ok_or_else(wrong)? })
    }
}

impl Condition {
    /// Whether a run of this plan has what the path names, if all goes well; if not, what there is at that place.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let manifest = Manifest::new("", "", MachineNote::default());
        let whole = serde_json::to_value(Summary::new(plan, &imagined(plan), manifest));
        self.places(&whole.map_err(|error| error.to_string())?).map(|_| ())
    }

    /// Where it is met. A subject without a sample that counts meets every condition about its scenario: a broken one passes
    /// none. Places without a figure are passed over; if no place has one, that is a hit, too.
    pub fn hits(&self, summary: &Summary) -> Vec<Hit> {
        let mut hits = self.broken(summary);
        let is_known = !hits.is_empty();
        let whole = serde_json::to_value(summary).unwrap_or_default();
        let figures: Vec<(SummaryPlace<'_>, f64)> = match self.places(&whole) {
            Ok(places) => {
                places.into_iter().filter_map(|place| Some((place, figure(place.at)?))).collect()
            }
            Err(_) => Vec::new(),
        };
        let path = &self.path;
        if figures.is_empty() && !is_known {
            let remedy = remedy(path);
            let reason = format!("nothing here has a figure at {path}, fail if {self}{remedy}");
            return vec![Hit { row: None, kind: FAIL_IF, reason, is_for_want: false }];
        }
        for (place, value) in figures {
            if (self.holds)(&value, &self.limit) {
                let row = place.row();
                let whose = match (&row, place.subject) {
                    (None, Some(subject)) => format!("{subject}: "),
                    _ => String::new(),
                };
                let reason = format!("{whose}{path} is {}, fail if {self}", plain(value));
                hits.push(Hit { row, kind: FAIL_IF, reason, is_for_want: false });
            }
        }
        hits
    }

    /// Rows without a sample that counts, where the path is about them.
    fn broken(&self, summary: &Summary) -> Vec<Hit> {
        let names = |name: &str| self.path.split('.').any(|step| step == name);
        let mut hits = Vec::new();
        let is_any = !summary.parts.iter().any(|part| names(&part.name));
        for part in summary.parts.iter().filter(|part| is_any || names(&part.name)) {
            let is_all = !part.rows.iter().any(|row| names(&row.subject));
            let is_concerned =
                |subject: &str, is_noise: bool| names(subject) || is_all && !is_noise;
            for row in part.rows.iter().filter(|row| row.samples > 0 && row.valid == 0) {
                if is_concerned(&row.subject, row.is_noise) {
                    let reason = format!(
                        "no sample counts, so nothing is known of {}, fail if {self}: {}",
                        self.path, row.verdict
                    );
                    let place = [part.name.clone(), row.cell.clone(), row.subject.clone()];
                    hits.push(Hit { row: Some(place), kind: FAIL_IF, reason, is_for_want: true });
                }
            }
        }
        hits
    }

    /// Everything that the path leads to.
    fn places<'a>(&self, whole: &'a Value) -> Result<Vec<SummaryPlace<'a>>, String> {
        let mut places = vec![SummaryPlace { at: whole, ..SummaryPlace::default() }];
        let mut trodden = String::new();
        for step in self.path.split('.').map(str::trim) {
            let next: Vec<SummaryPlace<'a>> =
                places.iter().flat_map(|place| place.step(step)).collect();
            if next.is_empty() {
                let known: Vec<&str> = places.iter().flat_map(SummaryPlace::known).collect();
                let at = if trodden.is_empty() { "summary.json" } else { &trodden };
                return Err(format!("{at}: {}", not_there(step, known)));
            }
            trodden =
                if trodden.is_empty() { step.to_owned() } else { format!("{trodden}.{step}") };
            places = next;
        }
        let is_named = |place: &SummaryPlace<'_>| {
            place.subject.is_some_and(|name| self.path.split('.').any(|step| step == name))
        };
        places.retain(|place| !place.is_control || is_named(place));
        let has_figure = |place: &SummaryPlace<'_>| {
            matches!(place.at, Value::Null | Value::Number(_)) || figure(place.at).is_some()
        };
        match places.iter().any(has_figure) {
            true => Ok(places),
            false => {
                let known = places.iter().flat_map(SummaryPlace::known).collect();
                Err(format!("{} is no figure; {}", self.path, listed(known)))
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sign, plain(self.limit))
    }
}

/// A place in the summary, and its row.
#[derive(Clone, Copy, Debug)]
struct SummaryPlace<'a> {
    at: &'a Value,
    part: Option<&'a str>,
    cell: Option<&'a str>,
    subject: Option<&'a str>,
    is_control: bool,
}

impl Default for SummaryPlace<'_> {
    fn default() -> Self {
        SummaryPlace { at: &Value::Null, part: None, cell: None, subject: None, is_control: false }
    }
}

impl<'a> SummaryPlace<'a> {
    /// One step on; of an array into all its elements.
    fn step(&self, step: &str) -> Vec<SummaryPlace<'a>> {
        let is_named = |name: &&str| self.at.get(name).and_then(Value::as_str) == Some(step);
        match self.at.get(step) {
            _ if NAMES.iter().any(is_named) => vec![*self],
            Some(Value::Array(elements)) => {
                elements.iter().map(|element| self.enter(element)).collect()
            }
            Some(at) => vec![SummaryPlace { at, ..*self }],
            None => Vec::new(),
        }
    }

    /// An element of an array, with what it says of itself.
    fn enter(&self, at: &'a Value) -> SummaryPlace<'a> {
        let text = |name: &str| at.get(name).and_then(Value::as_str);
        SummaryPlace {
            at,
            part: self.part.or(text("name")),
            cell: text("cell").or(self.cell),
            subject: text("subject").or(self.subject),
            is_control: CONTROLS.iter().any(|name| at.get(name) == Some(&Value::Bool(true))),
        }
    }

    /// Steps that exist from here.
    fn known(&self) -> impl Iterator<Item = &'a str> {
        let members = self.at.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let names = NAMES.into_iter().filter_map(|name| self.at.get(name)?.as_str());
        names.chain(members)
    }

    fn row(&self) -> Option<[String; 3]> {
        Some([self.part?.to_owned(), self.cell?.to_owned(), self.subject?.to_owned()])
    }
}

fn figure(at: &Value) -> Option<f64> {
    at.as_f64().or_else(|| FIGURES.into_iter().find_map(|name| at.get(name)?.as_f64()))
}

fn not_there(step: &str, mut known: Vec<&str>) -> String {
    known.sort_unstable();
    known.dedup();
    unknown("step", step, &known)
}

fn listed(mut known: Vec<&str>) -> String {
    known.sort_unstable();
    known.dedup();
    match known.as_slice() {
        [] => "there is nothing in it".to_owned(),
        known => format!("there are {}", known.join(", ")),
    }
}

fn remedy(path: &str) -> &'static str {
    let has = |words: &[&str]| path.split('.').any(|step| words.contains(&step));
    if has(&["low", "high", "p", "p_corrected", "not_excluded"]) {
        "; an interval takes two starts at least: --repeats"
    } else if has(&["pooled", "comparisons"]) {
        "; a comparison takes two subjects, or a second --url, with samples that count for it"
    } else if has(&["p99", "latency"]) {
        "; of a --url it takes --timestamp, and a p99 is withheld where the swarm itself was late"
    } else if has(&["cpu", "memory", "subject_busy"]) {
        "; it takes a server whose process the lab can see"
    } else {
        ""
    }
}

/// Two samples of every subject, which have every figure that their scenario can have.
fn imagined(plan: &Plan) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (part, of_part) in plan.parts.iter().enumerate() {
        for (cell, of_cell) in of_part.cells.iter().enumerate() {
            for place in 0..2 * of_cell.subjects.len() {
                let is_endpoint = matches!(of_cell.subjects[place / 2].program, Program::Url(_));
                samples.push(Sample {
                    part,
                    cell,
                    subject: place / 2,
                    repeat: place as u32 % 2,
                    verdict: Verdict::Subject,
                    span_us: 1,
                    subject_cpu_ns: 1000,
                    traffic: Traffic { events: 1, ..Traffic::default() },
                    round_trips: RoundTrips::new(vec![1], 1),
                    latency: Some(Percentiles::default()),
                    received: is_endpoint.then(Received::with_all_figures),
                    ..Sample::default()
                });
            }
        }
    }
    for sample in &mut samples {
        sample.memory.rss_end_bytes = 1 << 30;
    }
    samples
}

/// Up to four decimals.
fn plain(value: f64) -> String {
    ((value * 1e4).round() / 1e4).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::row::Row;
    use super::super::tests::summary_of_everything;
    use super::*;

    fn read(text: &str) -> Result<Condition, String> {
        text.parse()
    }

    #[test]
    fn malformed_conditions_are_refused_with_the_right_form() {
        let (plan, _) = summary_of_everything();
        let refusals = [
            "parts.example.pooled.cpu",
            "parts.example.pooled.cpu > fast",
            "parts.example.pooled.cpu > inf",
            "> 1",
            "part.example.pooled.cpu > 1",
            "parts.exampel.pooled.cpu > 1",
            "parts.example.pooled.thalweq.cpu > 1",
            "parts.example.pooled.cpi > 1",
            "parts.rows.latency.p95_us > 5",
            "parts.rows.latency > 5",
            "parts.rows.cell > 5",
        ];
        let refusal = |text: &str| match read(text) {
            Ok(condition) => condition.check(&plan).unwrap_err(),
            Err(refusal) => refusal,
        };
        insta::assert_snapshot!(refusals.map(refusal).join("\n"));
    }

    #[test]
    fn paths_lead_to_figures_but_those_of_the_noise() {
        let (plan, summary) = summary_of_everything();
        let judge = |text: &str| {
            let condition = read(text).unwrap();
            condition.check(&plan).unwrap();
            let hits = condition.hits(&summary);
            let said: Vec<String> = hits.iter().map(ToString::to_string).collect();
            format!("{text}\n  {}", said.join("\n  "))
        };
        let cell = &summary.parts[0].rows[0].cell;
        let judged = [
            judge("parts.example.pooled.cpu > 1.05"),
            judge("parts.pooled.thalweg.cpu.high>=1.05"),
            judge("parts.pooled.cpu < 1"),
            judge("parts.pooled.limit again.cpu > 1"),
            judge("parts.comparisons.cpu.not_excluded > 0.05"),
            judge("parts.rows.cpu.us_per_event > 1.3"),
            judge("parts.rows.limit.cpu.us_per_event.low > 1"),
            judge(&format!("parts.rows.{cell}.thalweg.valid == 5")),
            judge("parts.rows.memory.socket_bytes > 5"),
            judge("parts.pooled.round_trip > 5"),
        ];
        insta::assert_snapshot!(judged.join("\n"));
    }

    #[test]
    fn a_row_without_a_valid_sample_passes_nothing() {
        let (_, mut summary) = summary_of_everything();
        let row = &mut summary.parts[0].rows[2];
        *row = Row {
            place: row.place,
            cell: row.cell.clone(),
            subject: row.subject.clone(),
            samples: 5,
            verdict: "invalid: 3 missing".to_owned(),
            ..Row::default()
        };
        let hits = |text: &str| read(text).unwrap().hits(&summary);
        for about in ["parts.pooled.cpu > 1e9", "parts.example.rows.thalweg.cpu.us_per_event > 1e9"]
        {
            let found = hits(about);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].is_for_want && found[0].reason.ends_with("invalid: 3 missing"));
        }
        assert_eq!(hits("parts.rows.limit.latency.p99_us > 1e9"), []);
    }
}
