//! Metrics as text: families and their samples.

use std::{
    collections::HashSet,
    fmt::{Display, Write},
    sync::Arc,
};

use thalweg_broker::{BrokerCounts, Family, FamilyValue};

use super::metric::Histogram;

/// The media type in Accept of a client that accepts [`ExpositionFormat::OpenMetrics`], such as Prometheus.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text";

/// The format of metrics. The two formats differ in the name of a counter's family, and in the last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpositionFormat {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, which all its tools read.
    Text,
}

impl ExpositionFormat {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The name, the help text and the kind of a metric.
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricKind,
}

#[derive(Clone, Copy)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    /// A gauge counted in µs and shown in seconds.
    Micros,
    /// A counter counted in µs and shown in seconds.
    MicrosTotal,
}

/// Appends the families of brokers. If there are several brokers, a label has the broker's number.
pub(super) fn brokers_families(
    out: &mut String,
    form: ExpositionFormat,
    brokers: &[Arc<dyn BrokerCounts>],
) {
    let families: Vec<_> = brokers.iter().map(|counts| counts.families()).collect();
    let mut seen = HashSet::new();
    for Family { name, .. } in families.iter().flatten() {
        if !seen.insert(name) {
            continue;
        }
        let its = |families: &[Family]| families.iter().position(|family| family.name == *name);
        let samples = families.iter().enumerate();
        let samples = samples.filter_map(|(broker, all)| Some((broker, &all[its(all)?])));
        for (nth, (broker, family)) in samples.enumerate() {
            if nth == 0 {
                head(out, form, family);
            }
            let label = (brokers.len() > 1).then_some(("broker", broker));
            sample(out, family, label);
        }
    }
}

/// Returns the sum of histograms.
pub(super) fn histogram(parts: &[&Histogram]) -> FamilyValue {
    let count = |bucket: usize| parts.iter().map(|part| part.counts[bucket].get()).sum();
    FamilyValue::Histogram {
        bounds: Histogram::bounds(),
        counts: (0..Histogram::BUCKETS).map(count).collect(),
        sum: parts.iter().map(|part| part.sum_us.get()).sum::<u64>() as f64 / 1e6,
    }
}

/// Appends a sample of a family. The head of the family precedes its first or only sample. A label has a number, 0 for the first.
pub(super) fn labelled_family(
    out: &mut String,
    form: ExpositionFormat,
    family: &Family,
    label: Option<(&str, usize)>,
) {
    if label.is_none_or(|(_, number)| number == 0) {
        head(out, form, family);
    }
    sample(out, family, label);
}

/// Returns the type of a family, and the suffix of its samples.
fn type_of(value: &FamilyValue) -> (&'static str, &'static str) {
    match value {
        FamilyValue::Counter(_) => ("counter", "_total"),
        FamilyValue::Gauge(_) => ("gauge", ""),
        FamilyValue::Histogram { .. } => ("histogram", ""),
    }
}

/// Appends the head of a family.
fn head(out: &mut String, form: ExpositionFormat, Family { name, help, value }: &Family) {
    let (type_name, suffix) = type_of(value);
    let of_family = if form == ExpositionFormat::Text { suffix } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP thalweg_{name}{of_family} {help}");
    let _ = writeln!(out, "# TYPE thalweg_{name}{of_family} {type_name}");
}

/// Appends a sample of a family.
fn sample(out: &mut String, Family { name, value, .. }: &Family, label: Option<(&str, usize)>) {
    let (_, suffix) = type_of(value);
    let label = label.map_or_else(String::new, |(label, number)| format!("{label}=\"{number}\""));
    let labels = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let _ = match value {
        FamilyValue::Counter(count) => writeln!(out, "thalweg_{name}{suffix}{labels} {count}"),
        FamilyValue::Gauge(value) => writeln!(out, "thalweg_{name}{labels} {value}"),
        FamilyValue::Histogram { bounds, counts, sum } => {
            let (mut total, comma) = (0, if label.is_empty() { "" } else { "," });
            let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (bound, count) in bounds.zip(counts) {
                total += count;
                let _ =
                    writeln!(out, "thalweg_{name}_bucket{{{label}{comma}le=\"{bound}\"}} {total}");
            }
            writeln!(out, "thalweg_{name}_sum{labels} {sum}\nthalweg_{name}_count{labels} {total}")
        }
    };
}

/// Appends a family with the label and the number of each sample. Names and labels are fixed words, or patterns, whose
/// grammar has no quotes, so they need no escaping.
pub(super) fn family<L: Display>(
    out: &mut String,
    form: ExpositionFormat,
    &Description { name, help, kind }: &Description,
    label: &str,
    samples: impl Iterator<Item = (L, u64)>,
) {
    let (type_name, suffix) = match kind {
        MetricKind::Counter | MetricKind::MicrosTotal => ("counter", "_total"),
        MetricKind::Gauge | MetricKind::Micros => ("gauge", ""),
    };
    // OpenMetrics names the family like its samples without their suffix.
    let of_family = if form == ExpositionFormat::Text { suffix } else { "" };
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP thalweg_{name}{of_family} {help}");
    let _ = writeln!(out, "# TYPE thalweg_{name}{of_family} {type_name}");
    for (labelled, value) in samples {
        let _ = write!(out, "thalweg_{name}{suffix}{{{label}=\"{labelled}\"}} ");
        let _ = match kind {
            MetricKind::Counter | MetricKind::Gauge => writeln!(out, "{value}"),
            MetricKind::Micros | MetricKind::MicrosTotal => writeln!(out, "{}", value as f64 / 1e6),
        };
    }
}
