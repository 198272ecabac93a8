//! `--fail-if`: what a figure must not be.
//!
//! ```text
//! [SCENARIO] SUBJECT: FIGURE OP NUMBER
//! ```
//!
//! Scenario and subject may be left out; then the condition holds for all of them.
//! A figure is a path into a row of `summary.json`, e.g. `latency.p99_us`; an
//! estimate stands for its median, and its `low` and `high` can be named.

use super::outcome::{Comparison, Outcome};
use super::row::{Cpu, Held, Lateness, Row, Throughput, Trips};
use super::summary::Summary;
use crate::measure::statistics::Estimate;
use crate::scenario::{Plan, unknown};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// What a figure must not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Only in this scenario.
    part: Option<String>,
    /// Only of this subject.
    subject: Option<String>,
    figure: String,
    comparator: Comparator,
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparator {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Different,
}

/// Longer signs before those they begin with.
const COMPARATORS: [(&str, Comparator); 6] = [
    ("<=", Comparator::AtMost),
    (">=", Comparator::AtLeast),
    ("==", Comparator::Equal),
    ("!=", Comparator::Different),
    ("<", Comparator::Less),
    (">", Comparator::More),
];

/// A condition that was met, or that nothing could be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Scenario, cell and subject; `None` if no row has the figure.
    pub row: Option<[String; 3]>,
    /// What was found and what the condition was.
    pub reason: String,
    /// Whether it is one for want of a sample that counts.
    pub is_for_want: bool,
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
                "`{text}` is not [SCENARIO] SUBJECT: FIGURE OP NUMBER; the first two may be left \
                 out, OP is < <= > >= == or !=, e.g. latency.p99_us > 5000"
            )
        };
        let (part, rest) = match text.trim().strip_prefix('[') {
            Some(scoped) => {
                let (part, rest) = scoped.split_once(']').ok_or_else(wrong)?;
                (named(part), rest.trim())
            }
            None => (None, text.trim()),
        };
        let (subject, rest) = rest.rsplit_once(':').unwrap_or(("", rest));
        let at = rest.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
        let (figure, rest) = rest.split_at(at);
        let (sign, comparator) =
            COMPARATORS.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(wrong)?;
        let limit = rest[sign.len()..].trim().parse().ok().filter(|limit: &f64| limit.is_finite());
        let figure = figure.trim().to_owned();
        let known = figures();
        if !known.contains(&figure) {
            return Err(unknown_figure(&figure, &known));
        }
        let limit = limit.ok_or_else(wrong)?;
        Ok(Condition { part, subject: named(subject), figure, comparator, limit })
    }
}

impl Condition {
    /// Whether the plan has whom it names; if not, who was meant.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let parts = plan.parts.iter().map(|part| part.name.as_str());
        expect("scenario", self.part.as_deref(), parts)?;
        let of_part = plan.parts.iter().filter(|part| self.is_about_part(&part.name));
        let cells = of_part.flat_map(|part| &part.cells);
        let subjects = cells.flat_map(|cell| &cell.subjects).map(|subject| subject.name.as_str());
        expect("subject", self.subject.as_deref(), subjects)
    }

    /// Where it is met. A row of which no sample counts is one always: what is broken
    /// passes nothing. One without the figure is passed over; if none has it, that is
    /// one too, for what was asked has not been found out.
    pub fn hits(&self, summary: &Summary) -> Vec<Hit> {
        let mut hits = Vec::new();
        let mut is_found = false;
        for part in summary.parts.iter().filter(|part| self.is_about_part(&part.name)) {
            for row in part.rows.iter().filter(|row| self.is_about_row(row)) {
                let place = [part.name.clone(), row.cell.clone(), row.subject.clone()];
                let is_broken = row.samples > 0 && row.valid == 0;
                let value = figure(row, &self.figure);
                is_found |= is_broken || value.is_some();
                let is_met = value.is_some_and(|it| self.comparator.holds(it, self.limit));
                let reason = match value {
                    Some(value) if is_met => {
                        format!("{} is {}, fail if {self}", self.figure, plain(value))
                    }
                    _ if is_broken => format!(
                        "no sample counts, so nothing is known of {}, fail if {self}: {}",
                        self.figure, row.verdict
                    ),
                    _ => continue,
                };
                hits.push(Hit { row: Some(place), reason, is_for_want: !is_met });
            }
        }
        if !is_found {
            let reason = format!("no row has {}, fail if {self}", self.figure);
            hits.push(Hit { row: None, reason, is_for_want: false });
        }
        hits
    }

    fn is_about_part(&self, name: &str) -> bool {
        self.part.as_ref().is_none_or(|part| part == name)
    }

    /// The baseline's second run tells the noise and is held to nothing, unless
    /// it is asked for by its name.
    fn is_about_row(&self, row: &Row) -> bool {
        match &self.subject {
            Some(subject) => *subject == row.subject,
            None => !row.is_noise,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = COMPARATORS.iter().find(|(_, known)| *known == self.comparator);
        write!(f, "{} {}", sign.map_or("", |(sign, _)| sign), plain(self.limit))
    }
}

impl Comparator {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Comparator::Less => value < limit,
            Comparator::AtMost => value <= limit,
            Comparator::More => value > limit,
            Comparator::AtLeast => value >= limit,
            Comparator::Equal => value == limit,
            Comparator::Different => value != limit,
        }
    }
}

fn named(text: &str) -> Option<String> {
    let name = text.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn expect<'a>(
    what: &str,
    wanted: Option<&str>,
    known: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    known.dedup();
    match wanted {
        Some(wanted) if !known.contains(&wanted) => Err(unknown(what, wanted, &known)),
        _ => Ok(()),
    }
}

/// What the row says of a figure; `None` where it says nothing.
fn figure(row: &Row, path: &str) -> Option<f64> {
    let row = serde_json::to_value(row).ok()?;
    let value = path.split('.').try_fold(&row, |value, key| value.get(key))?;
    value.as_f64().or_else(|| value.get("median")?.as_f64())
}

/// Every figure that a row may have.
fn figures() -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(Value::Object(row)) = serde_json::to_value(full_row()) {
        for (key, value) in &row {
            if key != "settings" {
                collect(key, value, &mut names);
            }
        }
    }
    names
}

/// A row in which nothing is missing that has figures of its own.
fn full_row() -> Row {
    let estimate = Estimate { median: 0.0, low: 0.0, high: 0.0 };
    let compared = Some(Comparison { ratio: estimate, pairs: 0, outcome: Outcome::Tie });
    Row {
        cpu: Cpu { us_per_event: Some(estimate), compared },
        throughput: Throughput { events_per_s: Some(estimate), compared, ..Throughput::default() },
        latency: Lateness { compared, ..Lateness::default() },
        memory: Held { compared, ..Held::default() },
        round_trip: Trips { compared, ..Trips::default() },
        ..Row::default()
    }
}

fn collect(path: &str, value: &Value, names: &mut Vec<String>) {
    match value {
        // What is null here is a figure that not every row has.
        Value::Number(_) | Value::Null => names.push(path.to_owned()),
        Value::Object(fields) => {
            if fields.contains_key("median") {
                names.push(path.to_owned());
            }
            for (key, value) in fields {
                collect(&format!("{path}.{key}"), value, names);
            }
        }
        _ => {}
    }
}

/// The last word of a path is what one remembers of it.
fn unknown_figure(wrong: &str, known: &[String]) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    match known.iter().find(|name| last(name) == last(wrong)) {
        Some(name) => format!("there is no figure `{wrong}`; did you mean `{name}`?"),
        None => unknown("figure", wrong, &known.iter().map(String::as_str).collect::<Vec<_>>()),
    }
}

/// Up to four decimals.
fn plain(value: f64) -> String {
    ((value * 1e4).round() / 1e4).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary_of_everything;
    use super::*;

    fn read(text: &str) -> Result<Condition, String> {
        text.parse()
    }

    #[test]
    fn conditions_are_read() {
        let check = |text: &str, part: Option<&str>, subject: Option<&str>, rest: &str| {
            let condition = read(text).unwrap();
            assert_eq!(condition.part.as_deref(), part, "{text}");
            assert_eq!(condition.subject.as_deref(), subject, "{text}");
            assert_eq!(format!("{} {condition}", condition.figure), rest, "{text}");
        };
        check("latency.p99_us > 5000", None, None, "latency.p99_us > 5000");
        check("valid<5", None, None, "valid < 5");
        check(
            "thalweg: cpu.us_per_event.high>=1.5",
            None,
            Some("thalweg"),
            "cpu.us_per_event.high >= 1.5",
        );
        check(
            "[a1] limit per frame:load.swarm_busy != 0",
            Some("a1"),
            Some("limit per frame"),
            "load.swarm_busy != 0",
        );
        check("[a1] memory.rss_bytes <= 1e6", Some("a1"), None, "memory.rss_bytes <= 1000000");
        check("[a1]: memory.rss_bytes == 1", Some("a1"), None, "memory.rss_bytes == 1");
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_would_be_one() {
        let refusals = [
            "latency.p99_us",
            "latency.p99_us > fast",
            "latency.p99_us > inf",
            "[a1 latency.p99_us > 5",
            "latency.p95_us > 5",
            "p99_us > 5",
            "cpu.compared > 1",
            "cell == 1",
            "settings.connections == 1",
        ];
        let refusals = refusals.map(|text| read(text).unwrap_err());
        insta::assert_snapshot!(refusals.join("\n"));
    }

    #[test]
    fn every_figure_of_a_row_can_be_named() {
        let (_, summary) = summary_of_everything();
        let known = figures();
        for row in &summary.parts[0].rows {
            let Value::Object(row) = serde_json::to_value(row).unwrap() else { panic!("no row") };
            let mut names = Vec::new();
            for (key, value) in row.iter().filter(|(key, _)| *key != "settings") {
                collect(key, value, &mut names);
            }
            // A baseline is compared with nobody: what is null there is no figure.
            names.retain(|name| !name.ends_with(".compared") && !known.contains(name));
            assert_eq!(names, [""; 0]);
        }
    }

    #[test]
    fn rows_are_judged_but_for_the_noise() {
        let (plan, summary) = summary_of_everything();
        let judge = |text: &str| {
            let condition = read(text).unwrap();
            condition.check(&plan).unwrap();
            let hits = condition.hits(&summary);
            let said: Vec<String> = hits.iter().map(ToString::to_string).collect();
            format!("{text}\n  {}", said.join("\n  "))
        };
        let judged = [
            judge("cpu.us_per_event > 1.3"),
            judge("limit: cpu.us_per_event > 1.3"),
            judge("cpu.us_per_event > 1"),
            judge("limit again: cpu.us_per_event > 1"),
            judge("[example] cpu.compared.ratio.low > 1.2"),
            judge("memory.socket_bytes > 5"),
        ];
        insta::assert_snapshot!(judged.join("\n"));
    }

    #[test]
    fn a_row_without_a_valid_sample_passes_nothing() {
        let (_, mut summary) = summary_of_everything();
        let row = &mut summary.parts[0].rows[2];
        *row = Row {
            cell: row.cell.clone(),
            subject: row.subject.clone(),
            samples: 5,
            verdict: "invalid: 3 missing".to_owned(),
            ..Row::default()
        };
        let place = format!("example · {} · thalweg", row.cell);
        let hits = |text: &str| -> Vec<String> {
            read(text).unwrap().hits(&summary).iter().map(ToString::to_string).collect()
        };
        let reason = |figure: &str, condition: &str| {
            [format!(
                "{place}: no sample counts, so nothing is known of {figure}, fail if {condition}: \
                 invalid: 3 missing"
            )]
        };
        assert_eq!(hits("latency.p99_us > 1e9"), reason("latency.p99_us", "> 1000000000"));
        // What no other row has either is said once.
        assert_eq!(hits("memory.socket_bytes > 5"), reason("memory.socket_bytes", "> 5"));
        assert_eq!(hits("valid > 5"), reason("valid", "> 5"));
        assert_eq!(hits("valid < 5"), [format!("{place}: valid is 0, fail if < 5")]);
        assert_eq!(hits("limit: latency.p99_us > 1e9"), [""; 0]);
    }

    #[test]
    fn who_is_not_there_is_refused() {
        let (plan, _) = summary_of_everything();
        let refusal = |text: &str| read(text).unwrap().check(&plan).unwrap_err();
        assert_eq!(
            refusal("thalweq: valid < 1"),
            "there is no subject `thalweq`; did you mean `thalweg`?"
        );
        assert_eq!(
            refusal("[exampel] valid < 1"),
            "there is no scenario `exampel`; did you mean `example`?"
        );
    }
}
