//! `--fail-if`: thresholds that fail a run, such as `p99>50ms`, `cpu-ratio>1.05` or `thalweg:memory>2KiB`.

use super::row::Row;
use super::summary::Summary;
use crate::measure::Received;
use crate::measure::comparison::{Comparison, Metric};
use crate::scenario::{Plan, unknown};
use std::fmt;
use std::str::FromStr;

/// The kind of a threshold that was crossed.
pub(super) const FAIL_IF: &str = "fail-if";

/// The unit of a metric, with the factors of the units that a threshold may have.
#[derive(Debug)]
struct MetricUnit(&'static [(&'static str, f64)]);

const TIME: MetricUnit = MetricUnit(&[("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)]);
const BYTES: MetricUnit =
    MetricUnit(&[("B", 1.0), ("KB", 1e3), ("MB", 1e6), ("KiB", 1024.0), ("MiB", 1_048_576.0)]);
const SHARE: MetricUnit = MetricUnit(&[("%", 0.01), ("", 1.0)]);
const NUMBER: MetricUnit = MetricUnit(&[("", 1.0), ("k", 1e3), ("M", 1e6)]);

/// A metric of a row. `true` stands for metrics of which less is better: a threshold cannot fail a run for a small value.
type RowMetric = (&'static str, &'static MetricUnit, bool, fn(&Row) -> Option<f64>);

static METRICS: &[RowMetric] = &[
    ("p50", &TIME, true, |row| row.latency.p50_us),
    ("p90", &TIME, true, |row| row.latency.p90_us),
    ("p99", &TIME, true, |row| row.latency.p99_us),
    ("p99.9", &TIME, true, |row| row.latency.p999_us),
    ("max", &TIME, true, |row| row.latency.max_us),
    ("round-trip", &TIME, true, |row| row.round_trip.mean_us),
    ("round-trip-p99", &TIME, true, |row| row.round_trip.p99_us),
    ("cpu", &TIME, true, |row| Some(row.cpu.us_per_event?.median)),
    ("busy", &SHARE, true, |row| row.load.subject_busy),
    ("memory", &BYTES, true, |row| row.memory.rss_bytes_per_connection),
    ("rss", &BYTES, true, |row| row.memory.rss_bytes),
    ("open", &TIME, true, |row| Some(row.load.open_ms? * 1e3)),
    ("rate", &NUMBER, false, |row| Some(row.throughput.events_per_s?.median)),
    ("held", &NUMBER, false, |row| Some(row.held.as_ref()?.connections.median)),
    ("delivered", &SHARE, false, |row| {
        (row.received.is_none() && row.valid > 0).then(|| row.delivered_share.unwrap_or(1.0))
    }),
    ("valid", &NUMBER, false, |row| Some(row.valid as f64)),
    ("connected", &NUMBER, false, |row| received(row, |found| f64::from(found.established))),
    ("refused", &NUMBER, true, |row| Some(row.faults.as_ref()?.refused as f64)),
    ("ended-early", &NUMBER, true, |row| Some(row.faults.as_ref()?.ended_early as f64)),
    ("unanswered", &NUMBER, true, |row| Some(row.faults.as_ref()?.unanswered as f64)),
    ("silent", &NUMBER, true, |row| Some(row.faults.as_ref()?.silent as f64)),
    ("completed", &NUMBER, false, |row| received(row, |found| f64::from(found.completed))),
    ("messages", &NUMBER, false, |row| received(row, |found| found.events as f64)),
    ("message-bytes-max", &BYTES, true, |row| received(row, |found| found.event_bytes_max as f64)),
    ("wire-bytes", &BYTES, true, |row| received(row, |found| found.wire_bytes as f64)),
    ("silence", &TIME, true, |row| received(row, |found| found.silence_us_max as f64)),
    ("interval-p99", &TIME, true, |row| {
        Some(row.received.as_ref()?.intervals.as_ref()?.p99_us as f64)
    }),
    ("set-up-p99", &TIME, true, |row| Some(row.received.as_ref()?.set_up.as_ref()?.p99_us as f64)),
    ("without-timestamp", &NUMBER, true, |row| {
        Some(row.received.as_ref()?.timestamps.as_ref()?.missing as f64)
    }),
    ("sent", &NUMBER, false, |row| Some(row.received.as_ref()?.exchanged?.sent as f64)),
    ("answered", &NUMBER, false, |row| Some(row.received.as_ref()?.exchanged?.answered as f64)),
];

fn received(row: &Row, of: fn(&Received) -> f64) -> Option<f64> {
    row.received.as_ref().map(of)
}

/// Ratios to the baseline over all cells of a scenario. With `-low` or `-high`: an end of the interval.
const RATIOS: [(&str, Metric); 7] = [
    ("cpu-ratio", Metric::Cpu),
    ("p99-ratio", Metric::P99),
    ("round-trip-ratio", Metric::RoundTrip),
    ("rate-ratio", Metric::Throughput),
    ("memory-ratio", Metric::Memory),
    ("held-ratio", Metric::Held),
    ("browser-cpu-ratio", Metric::BrowserCpu),
];
type RatioEnd = (&'static str, fn(&Comparison) -> Option<f64>);
static ENDS: [RatioEnd; 3] =
    [("", |one| Some(one.ratio)), ("-low", |one| one.low), ("-high", |one| one.high)];

type Sign = (&'static str, fn(&f64, &f64) -> bool);
/// Longer signs before their beginnings.
const SIGNS: [Sign; 4] = [("<=", f64::le), (">=", f64::ge), ("<", f64::lt), (">", f64::gt)];

#[derive(Clone, Copy, Debug)]
enum Figure {
    OfRow(&'static RowMetric),
    Ratio(Metric, &'static RatioEnd),
}

/// A threshold that fails a run.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The text as it was typed.
    text: String,
    /// Only rows of this subject.
    subject: Option<String>,
    figure: Figure,
    exceeds: fn(&f64, &f64) -> bool,
    limit: f64,
}

/// A threshold that was crossed or had no figure, or a fault that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Scenario, cell and subject; `None` if it concerns no single row.
    pub row: Option<[String; 3]>,
    /// `fail-if` for a threshold, or the kind of the fault.
    pub kind: &'static str,
    /// The figure and the threshold.
    pub reason: String,
    /// Whether there is no sample that counts.
    pub is_for_want: bool,
}

impl Hit {
    /// Returns whether it is a threshold of `--fail-if`, and no fault.
    pub fn is_threshold(&self) -> bool {
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

/// Returns the names of all metrics.
pub fn metrics() -> Vec<&'static str> {
    let rows = METRICS.iter().map(|(name, ..)| *name);
    rows.chain(RATIOS.iter().map(|(name, _)| *name)).collect()
}

fn figure(name: &str) -> Option<Figure> {
    let ratio = |(prefix, metric): &(&str, Metric)| {
        let end = ENDS.iter().find(|(end, _)| name.strip_prefix(prefix) == Some(end))?;
        Some(Figure::Ratio(*metric, end))
    };
    let of_row = METRICS.iter().find(|(known, ..)| *known == name).map(Figure::OfRow);
    of_row.or_else(|| RATIOS.iter().find_map(ratio))
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let wrong = || format!("`{text}` is not a metric, < or >, and a value, e.g. p99>50ms");
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (left, rest) = text.split_at(at);
        let (sign, exceeds) =
            SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign)).ok_or_else(wrong)?;
        let (subject, name) = match left.trim().rsplit_once(':') {
            Some((subject, name)) => (Some(subject.trim().to_owned()), name.trim()),
            None => (None, left.trim()),
        };
        let figure = figure(name).ok_or_else(|| unknown("metric", name, &metrics()))?;
        let value = rest[sign.len()..].trim();
        let (unit, less_is_better) = match figure {
            Figure::OfRow((_, unit, less_is_better, _)) => (*unit, *less_is_better),
            Figure::Ratio(metric, _) => (&NUMBER, !metric.more_is_better()),
        };
        if less_is_better && sign.starts_with('<') {
            return Err(format!(
                "`{text}` fails a run for a good value: lower values of {name} are better; write \
                 {name}>{value}"
            ));
        }
        let limit = unit.parse(value).ok_or_else(|| {
            let (none, names): (Vec<&str>, Vec<&str>) =
                unit.0.iter().map(|(name, _)| *name).partition(|name| name.is_empty());
            let and = if none.is_empty() { "and" } else { "alone or with" };
            let names = names.join(", ");
            format!("`{value}` is no value of {name}: write a number {and} one of {names}")
        })?;
        Ok(Threshold { text: text.to_owned(), subject, figure, exceeds, limit })
    }
}

impl MetricUnit {
    fn parse(&self, text: &str) -> Option<f64> {
        let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let (_, factor) = self.0.iter().find(|(name, _)| *name == unit.trim())?;
        Some(number.parse::<f64>().ok()? * factor)
    }

    /// Writes a value in the largest unit that is not larger.
    fn show(&self, value: f64) -> String {
        let units = self.0.iter().filter(|(name, factor)| {
            *factor <= value.abs() && *name != "%" && *name != "k" && *name != "M"
        });
        let largest = units.max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(&self.0[0]);
        let (name, factor) = if self.0[0].0 == "%" { self.0[0] } else { *largest };
        format!("{}{name}", (value / factor * 1e4).round() / 1e4)
    }
}

impl Threshold {
    /// Refuses a subject that the plan does not have, before anything is measured.
    pub fn check(&self, plan: &Plan) -> Result<(), String> {
        let Some(asked) = &self.subject else { return Ok(()) };
        let known: Vec<&str> = plan.subjects().map(|subject| &*subject.name).collect();
        match known.contains(&asked.as_str()) {
            true => Ok(()),
            false => Err(format!("{self}: {}", unknown("subject", asked, &known))),
        }
    }

    /// Returns where a run crosses the threshold. A subject without a sample that counts crosses every threshold. Places without
    /// the figure are skipped; if no place has it, that is a hit, too.
    pub fn hits(&self, summary: &Summary) -> Vec<Hit> {
        let is_asked = |subject: &str| self.subject.as_ref().is_none_or(|asked| asked == subject);
        let (mut hits, mut figures) = (Vec::new(), 0);
        for part in &summary.parts {
            let rows = part
                .rows
                .iter()
                .filter(|row| is_asked(&row.subject) && (!row.is_noise || self.subject.is_some()));
            for row in rows {
                let place = Some([part.name.clone(), row.cell.clone(), row.subject.clone()]);
                if row.samples > 0 && row.valid == 0 {
                    figures += 1;
                    let reason = format!("no sample counts, fail if {self}: {}", row.verdict);
                    hits.push(Hit { row: place, kind: FAIL_IF, reason, is_for_want: true });
                    continue;
                }
                let Figure::OfRow((name, unit, _, of)) = self.figure else { continue };
                let Some(value) = of(row) else { continue };
                figures += 1;
                if (self.exceeds)(&value, &self.limit) {
                    let reason = format!("{name} is {}, fail if {self}", unit.show(value));
                    hits.push(Hit { row: place, kind: FAIL_IF, reason, is_for_want: false });
                }
            }
            let Figure::Ratio(metric, (_, of)) = self.figure else { continue };
            let pooled = part.pooled.iter().filter(|one| {
                one.metric == metric
                    && is_asked(&one.subject)
                    && (!one.is_control || self.subject.is_some())
            });
            for one in pooled {
                let Some(value) = of(one) else { continue };
                figures += 1;
                if (self.exceeds)(&value, &self.limit) {
                    let reason = format!(
                        "{}: {} to {} is {}, fail if {self}",
                        part.name,
                        one.subject,
                        one.baseline,
                        NUMBER.show(value)
                    );
                    hits.push(Hit { row: None, kind: FAIL_IF, reason, is_for_want: false });
                }
            }
        }
        if figures == 0 {
            let reason = format!("nothing here has a figure for {self}{}", self.remedy());
            hits.push(Hit { row: None, kind: FAIL_IF, reason, is_for_want: false });
        }
        hits
    }

    fn remedy(&self) -> &'static str {
        match self.figure {
            Figure::Ratio(..) => {
                "; a ratio needs two subjects, or a second --url, with samples that count"
            }
            Figure::OfRow((name, ..)) => match *name {
                "p50" | "p90" | "p99" | "p99.9" | "max" => {
                    "; with --url it needs --timestamp, and a p99 is withheld if the load generator was late"
                }
                "cpu" | "busy" | "memory" | "rss" => {
                    "; it needs a server whose process the lab can see"
                }
                _ => "",
            },
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary_of_everything;
    use super::*;

    fn judged(text: &str) -> Vec<String> {
        let (_, summary) = summary_of_everything();
        let threshold: Threshold = text.parse().unwrap();
        threshold.hits(&summary).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn malformed_thresholds_are_refused_with_the_right_form() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Threshold>().unwrap_err(), expected);
        };
        check("p99", "`p99` is not a metric, < or >, and a value, e.g. p99>50ms");
        check("p9>1ms", "there is no metric `p9`; did you mean `p99`?");
        check("p99>50", "`50` is no value of p99: write a number and one of us, µs, ms, s");
        check(
            "cpu-ratio>x",
            "`x` is no value of cpu-ratio: write a number alone or with one of k, M",
        );
        check(
            "memory>1kb",
            "`1kb` is no value of memory: write a number and one of B, KB, MB, KiB, MiB",
        );
        check(
            "p99<50ms",
            "`p99<50ms` fails a run for a good value: lower values of p99 are better; write p99>50ms",
        );
        for text in
            ["p99>50ms", "p99.9 >= 1.5s", "a b:cpu-ratio-low>1", "delivered<99.9%", "rate<2M"]
        {
            text.parse::<Threshold>().unwrap();
        }
    }

    #[test]
    fn thresholds_judge_rows_and_ratios_but_no_control() {
        let rows = judged("p99>1ms");
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows.iter().all(|row| row.contains("· thalweg: p99 is 1.98ms, fail if p99>1ms")));
        assert_eq!(judged("p99>2ms"), [""; 0]);
        assert_eq!(judged("limit again:p50>100us").len(), 2);
        let ratios = judged("cpu-ratio>1.05");
        assert_eq!(ratios.len(), 1);
        assert!(ratios[0].starts_with("example: thalweg to limit is 1.2"), "{ratios:?}");
        assert_eq!(judged("cpu-ratio-high>1.5"), [""; 0]);
        assert_eq!(judged("silence>1s"), ["nothing here has a figure for silence>1s"]);
        assert!(judged("nobody:cpu-ratio>1")[0].contains("a ratio needs two subjects"));
    }

    #[test]
    fn a_subject_that_the_plan_lacks_is_refused() {
        let (plan, _) = summary_of_everything();
        let check = |text: &str| text.parse::<Threshold>().unwrap().check(&plan);
        assert_eq!(check("thalweg:p99>1s"), Ok(()));
        let refused = check("thalweq:p99>1s").unwrap_err();
        assert_eq!(
            refused,
            "thalweq:p99>1s: there is no subject `thalweq`; did you mean `thalweg`?"
        );
    }

    #[test]
    fn a_row_without_a_valid_sample_passes_nothing() {
        let (_, mut summary) = summary_of_everything();
        let row = &mut summary.parts[0].rows[2];
        (row.valid, row.verdict) = (0, "invalid: 3 missing".to_owned());
        row.latency.p99_us = None;
        let check = |text: &str, expected: usize| {
            let hits = text.parse::<Threshold>().unwrap().hits(&summary);
            assert_eq!(hits.iter().filter(|hit| hit.is_for_want).count(), expected, "{text}");
            assert!(hits.iter().all(|hit| hit.reason.ends_with("invalid: 3 missing")), "{hits:?}");
        };
        check("p99>1s", 1);
        check("thalweg:rss>100MB", 1);
        check("cpu-ratio>9", 1);
        check("limit:p99>1s", 0);
    }
}
