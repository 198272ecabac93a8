//! `--fail-if`: thresholds that fail a run, such as `p99>50ms`, `cpu-ratio>1.05` or `thalweg:memory>2KiB`.

use super::faults::Faults;
use super::received::responses_per_s;
use super::row::Row;
use super::summary::Summary;
use crate::measure::comparison::{Comparison, Metric};
use crate::measure::{Received, Responses, Timestamps};
use crate::scenario::{Plan, unknown};
use Better::{High, Low, Neither};
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

/// Which values of a metric are better. A threshold cannot fail a run for a good value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Low,
    High,
    Neither,
}

/// A metric of a row.
type RowMetric = (&'static str, &'static MetricUnit, Better, fn(&Row) -> Option<f64>);

static METRICS: &[RowMetric] = &[
    ("p50", &TIME, Low, |row| row.latency.p50_us),
    ("p90", &TIME, Low, |row| row.latency.p90_us),
    ("p99", &TIME, Low, |row| row.latency.p99_us),
    ("p99.9", &TIME, Low, |row| row.latency.p999_us),
    ("max", &TIME, Low, |row| row.latency.max_us),
    ("round-trip", &TIME, Low, |row| row.round_trip.mean_us),
    ("round-trip-p99", &TIME, Low, |row| row.round_trip.p99_us),
    ("cpu", &TIME, Low, |row| Some(row.cpu.us_per_event?.median)),
    ("busy", &SHARE, Low, |row| row.load.subject_busy),
    ("memory", &BYTES, Low, |row| row.memory.rss_bytes_per_connection),
    ("rss", &BYTES, Low, |row| row.memory.rss_bytes),
    ("open", &TIME, Low, |row| Some(row.load.open_ms? * 1e3)),
    ("rate", &NUMBER, High, |row| Some(row.throughput.events_per_s?.median)),
    ("held", &NUMBER, High, |row| Some(row.held.as_ref()?.connections.median)),
    ("delivered", &SHARE, High, |row| {
        (row.received.is_none() && row.valid > 0).then(|| row.delivered_share.unwrap_or(1.0))
    }),
    ("valid", &NUMBER, High, |row| Some(row.valid as f64)),
    ("connected", &NUMBER, High, |row| received(row, |found| Some(found.established.into()))),
    ("refused", &NUMBER, Low, |row| Some(row.faults.as_ref()?.refused as f64)),
    ("ended-early", &NUMBER, Low, |row| Some(row.faults.as_ref()?.ended_early as f64)),
    ("unanswered", &NUMBER, Low, |row| Some(row.faults.as_ref()?.unanswered as f64)),
    ("silent", &NUMBER, Low, |row| Some(row.faults.as_ref()?.silent as f64)),
    ("lost", &NUMBER, Low, |row| numbered(row, |faults| faults.lost)),
    ("duplicated", &NUMBER, Low, |row| numbered(row, |faults| faults.duplicated)),
    ("reordered", &NUMBER, Low, |row| numbered(row, |faults| faults.reordered)),
    ("completed", &NUMBER, Neither, |row| received(row, |found| Some(found.completed.into()))),
    ("set-up-p50", &TIME, Low, |row| received(row, |found| Some(found.set_up?.p50_us))),
    ("set-up-p99", &TIME, Low, |row| received(row, |found| Some(found.set_up?.p99_us))),
    ("set-up-max", &TIME, Low, |row| received(row, |found| Some(found.set_up?.max_us))),
    ("messages", &NUMBER, Neither, |row| received(row, |found| Some(found.events))),
    ("messages-per-connection-min", &NUMBER, Neither, |row| {
        received(row, |found| Some(found.events_per_connection_min))
    }),
    ("messages-per-connection-max", &NUMBER, Neither, |row| {
        received(row, |found| Some(found.events_per_connection_max))
    }),
    ("text-messages", &NUMBER, Neither, |row| received(row, |found| Some(found.text_events))),
    ("binary-messages", &NUMBER, Neither, |row| received(row, |found| Some(found.binary_events))),
    ("json", &SHARE, High, |row| {
        let Received { json_tried, json_found, .. } = row.received.as_ref()?;
        (*json_tried > 0).then(|| *json_found as f64 / *json_tried as f64)
    }),
    ("message-bytes-max", &BYTES, Neither, |row| {
        received(row, |found| Some(found.event_bytes_max))
    }),
    ("payload-bytes", &BYTES, Neither, |row| received(row, |found| Some(found.payload_bytes))),
    ("wire-bytes", &BYTES, Neither, |row| received(row, |found| Some(found.wire_bytes))),
    ("signs-of-life", &NUMBER, Neither, |row| received(row, |found| Some(found.signs_of_life))),
    ("silence", &TIME, Low, |row| received(row, |found| Some(found.silence_us_max))),
    ("interval-p50", &TIME, Low, |row| received(row, |found| Some(found.intervals?.p50_us))),
    ("interval-p99", &TIME, Low, |row| received(row, |found| Some(found.intervals?.p99_us))),
    ("interval-max", &TIME, Low, |row| received(row, |found| Some(found.intervals?.max_us))),
    ("with-timestamp", &NUMBER, Neither, |row| timestamps(row, |found| found.read)),
    ("without-timestamp", &NUMBER, Low, |row| timestamps(row, |found| found.missing)),
    ("timestamp-ahead", &NUMBER, Low, |row| timestamps(row, |found| found.ahead)),
    ("timestamp-ahead-max", &TIME, Low, |row| timestamps(row, |found| found.ahead_us_max)),
    ("with-number", &NUMBER, Neither, |row| received(row, |found| Some(found.sequenced?.read))),
    ("without-number", &NUMBER, Low, |row| received(row, |found| Some(found.sequenced?.missing))),
    ("responses", &NUMBER, High, |row| received(row, |found| Some(found.responses?.completed))),
    ("responses-per-s", &NUMBER, High, |row| {
        let received = row.received.as_ref()?;
        Some(responses_per_s(received, received.responses?))
    }),
    ("first-event-p50", &TIME, Low, |row| responses(row, |found| Some(found.first_event?.p50_us))),
    ("first-event-p99", &TIME, Low, |row| responses(row, |found| Some(found.first_event?.p99_us))),
    ("first-event-max", &TIME, Low, |row| responses(row, |found| Some(found.first_event?.max_us))),
    ("response-p50", &TIME, Low, |row| responses(row, |found| Some(found.total?.p50_us))),
    ("response-p99", &TIME, Low, |row| responses(row, |found| Some(found.total?.p99_us))),
    ("response-max", &TIME, Low, |row| responses(row, |found| Some(found.total?.max_us))),
    ("slow-ended", &NUMBER, Low, |row| received(row, |found| Some(found.slow?.ended.into()))),
    ("sent", &NUMBER, Neither, |row| received(row, |found| Some(found.exchanged?.sent))),
    ("answered", &NUMBER, High, |row| received(row, |found| Some(found.exchanged?.answered))),
];

fn received(row: &Row, of: fn(&Received) -> Option<u64>) -> Option<f64> {
    Some(of(row.received.as_ref()?)? as f64)
}

/// Returns a count of faults in all samples, if messages have numbers.
fn numbered(row: &Row, of: fn(&Faults) -> u64) -> Option<f64> {
    row.received.as_ref()?.sequenced?;
    Some(of(row.faults.as_ref()?) as f64)
}

fn responses(row: &Row, of: fn(&Responses) -> Option<u64>) -> Option<f64> {
    Some(of(&row.received.as_ref()?.responses?)? as f64)
}

fn timestamps(row: &Row, of: fn(&Timestamps) -> u64) -> Option<f64> {
    Some(of(row.received.as_ref()?.timestamps.as_ref()?) as f64)
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

/// A sign, its comparison, and the opposite sign.
type Sign = (&'static str, fn(&f64, &f64) -> bool, &'static str);
/// Longer signs before their beginnings.
const SIGNS: [Sign; 4] =
    [("<=", f64::le, ">"), (">=", f64::ge, "<"), ("<", f64::lt, ">="), (">", f64::gt, "<=")];

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

/// Returns a line for each metric: name, which values are better, and the units of a threshold.
pub fn metric_table() -> String {
    let rows = METRICS.iter().map(|(name, unit, better, _)| (*name, *unit, *better));
    let ratios = RATIOS.iter().map(|(name, metric)| (*name, &NUMBER, Better::of_ratio(*metric)));
    let line = |(name, unit, better): (&str, &MetricUnit, Better)| {
        let better = match better {
            Low => "lower is better",
            High => "higher is better",
            Neither => "",
        };
        format!("{name:<29} {better:<17} {}\n", unit.names("or none"))
    };
    format!("{:<29} {:<17} unit\n", "metric", "")
        + &rows.chain(ratios).map(line).collect::<String>()
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
        let wrong = || {
            format!(
                "`{text}` is not a metric, < or >, and a value: write e.g. 'p99>50ms', in quotes, because \
                 shells redirect at < and >"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (left, rest) = text.split_at(at);
        let (sign, exceeds, opposite) =
            SIGNS.into_iter().find(|(sign, ..)| rest.starts_with(sign)).ok_or_else(wrong)?;
        let (subject, name) = match left.trim().rsplit_once(':') {
            Some((subject, name)) => (Some(subject.trim().to_owned()), name.trim()),
            None => (None, left.trim()),
        };
        let figure = figure(name).ok_or_else(|| unknown("metric", name, &metrics()))?;
        let value = rest[sign.len()..].trim();
        let (unit, better) = match figure {
            Figure::OfRow((_, unit, better, _)) => (*unit, *better),
            Figure::Ratio(metric, _) => (&NUMBER, Better::of_ratio(metric)),
        };
        let limit = unit.parse(value).ok_or_else(|| {
            let names = unit.names("or alone");
            format!("`{value}` is no value of {name}: write a number with one of {names}")
        })?;
        // As in k6, whose thresholds are conditions of success.
        if better == (if sign.starts_with('<') { Low } else { High }) {
            let left = left.trim();
            return Err(format!(
                "`{text}` is a condition of success, and --fail-if takes the condition of failure: write \
                 '{left}{opposite}{value}'"
            ));
        }
        Ok(Threshold { text: text.to_owned(), subject, figure, exceeds, limit })
    }
}

impl Better {
    fn of_ratio(metric: Metric) -> Better {
        if metric.more_is_better() { High } else { Low }
    }
}

impl MetricUnit {
    /// Returns the names of its units, with `none` for a number without one.
    fn names(&self, none: &str) -> String {
        let (alone, mut names): (Vec<&str>, Vec<&str>) =
            self.0.iter().map(|(name, _)| *name).partition(|name| name.is_empty());
        names.extend(alone.iter().map(|_| none));
        names.join(", ")
    }

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
                "lost" | "duplicated" | "reordered" | "with-number" | "without-number" => {
                    "; it needs --url and --sequence"
                }
                "responses" | "responses-per-s" | "first-event-p50" | "first-event-p99"
                | "first-event-max" | "response-p50" | "response-p99" | "response-max" => {
                    "; it needs --url and --dialect llm-stream"
                }
                "slow-ended" => "; it needs --url and --slow",
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
    use crate::measure::{Exchanged, Sequenced, SlowReaders, Spread};

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
        check(
            "p99",
            "`p99` is not a metric, < or >, and a value: write e.g. 'p99>50ms', in quotes, because shells \
             redirect at < and >",
        );
        check("p9>1ms", "there is no metric `p9`; did you mean `p99`?");
        check("p99>50", "`50` is no value of p99: write a number with one of us, µs, ms, s");
        check(
            "cpu-ratio>x",
            "`x` is no value of cpu-ratio: write a number with one of k, M, or alone",
        );
        check(
            "memory>1kb",
            "`1kb` is no value of memory: write a number with one of B, KB, MB, KiB, MiB",
        );
        for (success, failure) in [
            ("p99<50ms", "p99>=50ms"),
            ("thalweg:p99 <= 50ms", "thalweg:p99>50ms"),
            ("connected>=50", "connected<50"),
            ("rate-ratio>1", "rate-ratio<=1"),
        ] {
            let expected = format!(
                "`{success}` is a condition of success, and --fail-if takes the condition of failure: write \
                 '{failure}'"
            );
            check(success, &expected);
            failure.parse::<Threshold>().unwrap();
        }
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
    fn each_figure_of_an_endpoint_is_a_metric() {
        let spread = |us| Some(Spread { p50_us: us, p99_us: us + 1, max_us: us + 2 });
        let received = Received {
            established: 1,
            completed: 2,
            set_up: spread(3),
            events: 6,
            text_events: 7,
            binary_events: 8,
            payload_bytes: 9,
            wire_bytes: 10,
            event_bytes_max: 11,
            signs_of_life: 12,
            events_per_connection_min: 13,
            events_per_connection_max: 14,
            intervals: spread(15),
            silence_us_max: 18,
            json_tried: 4,
            json_found: 1,
            timestamps: Some(Timestamps {
                read: 19,
                ahead: 20,
                ahead_us_max: 21,
                missing: 22,
                ..Timestamps::default()
            }),
            sequenced: Some(Sequenced { read: 30, missing: 31, ..Sequenced::default() }),
            responses: Some(Responses {
                completed: 32,
                first_event: spread(33),
                total: spread(36),
            }),
            span_us: 500_000,
            slow: Some(SlowReaders { connections: 40, ended: 41 }),
            exchanged: Some(Exchanged { sent: 23, answered: 24, ..Exchanged::default() }),
            ..Received::default()
        };
        let row = Row { received: Some(received), ..Row::default() };
        let known = METRICS.iter().filter(|(name, ..)| *name != "valid");
        let known = known.filter_map(|(name, _, _, of)| Some((*name, of(&row)?)));
        let expected = [
            ("connected", 1.0),
            ("completed", 2.0),
            ("set-up-p50", 3.0),
            ("set-up-p99", 4.0),
            ("set-up-max", 5.0),
            ("messages", 6.0),
            ("messages-per-connection-min", 13.0),
            ("messages-per-connection-max", 14.0),
            ("text-messages", 7.0),
            ("binary-messages", 8.0),
            ("json", 0.25),
            ("message-bytes-max", 11.0),
            ("payload-bytes", 9.0),
            ("wire-bytes", 10.0),
            ("signs-of-life", 12.0),
            ("silence", 18.0),
            ("interval-p50", 15.0),
            ("interval-p99", 16.0),
            ("interval-max", 17.0),
            ("with-timestamp", 19.0),
            ("without-timestamp", 22.0),
            ("timestamp-ahead", 20.0),
            ("timestamp-ahead-max", 21.0),
            ("with-number", 30.0),
            ("without-number", 31.0),
            ("responses", 32.0),
            ("responses-per-s", 64.0),
            ("first-event-p50", 33.0),
            ("first-event-p99", 34.0),
            ("first-event-max", 35.0),
            ("response-p50", 36.0),
            ("response-p99", 37.0),
            ("response-max", 38.0),
            ("slow-ended", 41.0),
            ("sent", 23.0),
            ("answered", 24.0),
        ];
        assert_eq!(known.collect::<Vec<_>>(), expected);
        let table = metric_table();
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
        let line = "json                          higher is better  %, or none\n";
        assert!(
            table.contains(line) && metrics().iter().all(|name| table.contains(name)),
            "{table}"
        );
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
