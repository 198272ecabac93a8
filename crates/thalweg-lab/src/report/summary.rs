//! Medians over the repeats, ratios to the baseline, and the noise between two
//! runs of the same subject.

use crate::measure::statistics::{Estimate, estimate, median, noise_factor, ratio};
use crate::measure::{MachineNote, Sample, Verdict};
use crate::report::Talk;
use crate::scenario::{Cell, Drive, Part, Plan, Settings, Subject};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a run found.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the plan.
    pub name: String,
    /// On what, with what, when.
    pub manifest: Manifest,
    /// One for each scenario.
    pub parts: Vec<PartSummary>,
}

/// On what, with what, when.
#[derive(Clone, Debug, Serialize)]
pub struct Manifest {
    /// The lab's version and commit; the subjects are the same binary unless
    /// `--thalweg` named another.
    pub version: String,
    /// What was typed.
    pub command_line: String,
    /// UTC.
    pub begun: String,
    /// UTC.
    pub ended: String,
    /// Whether samples are missing because somebody stopped the run.
    pub was_interrupted: bool,
    /// The machine.
    pub machine: MachineNote,
    /// Versions of the peers that took part, by name.
    pub peers: BTreeMap<String, String>,
    /// How connections are set, and where the subjects differ.
    pub connections: Vec<&'static str>,
}

impl Manifest {
    /// Times are for the caller to fill in; what is said of connections comes
    /// from the plan.
    pub fn new(version: &str, command_line: &str, machine: MachineNote) -> Manifest {
        Manifest {
            version: version.to_owned(),
            command_line: command_line.to_owned(),
            begun: String::new(),
            ended: String::new(),
            was_interrupted: false,
            machine,
            peers: BTreeMap::new(),
            connections: Vec::new(),
        }
    }
}

/// What one scenario found.
#[derive(Clone, Debug, Serialize)]
pub struct PartSummary {
    /// Of the scenario.
    pub name: String,
    /// Of the scenario.
    pub title: String,
    /// Who made the subjects broadcast.
    pub drive: Drive,
    /// Samples of each subject in each cell.
    pub repeats: u32,
    /// Time measured in each.
    pub measured_ms: u64,
    /// Factor within which two runs of the same subject agree in CPU per
    /// event, where the scenario has such a pair.
    pub cpu_noise: Option<f64>,
    /// The same for the p99.
    pub p99_noise: Option<f64>,
    /// The same for the mean round trip.
    pub round_trip_noise: Option<f64>,
    /// A row for each subject of each cell.
    pub rows: Vec<Row>,
}

/// One subject in one cell: medians of its valid samples.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The subject.
    pub subject: String,
    /// Its settings.
    pub settings: Settings,
    /// Whether the others of the cell are compared with it.
    pub is_baseline: bool,
    /// Whether it is the baseline once more (A/A).
    pub is_noise: bool,
    /// Samples taken.
    pub samples: usize,
    /// Of them, those that count.
    pub valid: usize,
    /// What limited most of them, or why the first does not count.
    pub verdict: String,
    /// Whether the subject was saturated in most, so that throughput counts.
    pub is_ranked: bool,
    /// Subject's CPU per event delivered (published, with that drive).
    pub cpu_us_per_event: Option<Estimate>,
    /// To the baseline's, paired by repeat.
    pub cpu_ratio: Option<Estimate>,
    /// All subscribers together.
    pub events_per_s: Option<f64>,
    /// Of the self-driven schedule, the share that was delivered.
    pub share_of_schedule: Option<f64>,
    /// From the intended time.
    pub latency_us_p50: Option<f64>,
    /// From the intended time.
    pub latency_us_p99: Option<f64>,
    /// From the intended time.
    pub latency_us_p999: Option<f64>,
    /// To the baseline's, paired by repeat.
    pub p99_ratio: Option<Estimate>,
    /// With framing.
    pub wire_bytes_per_event: Option<f64>,
    /// As seen.
    pub events_per_envelope: Option<f64>,
    /// As seen: the subject sends at most as often.
    pub events_per_read: Option<f64>,
    /// As seen; with several topics, what one visit to a connection saves.
    pub envelopes_per_read: Option<f64>,
    /// At the end of the span.
    pub rss_bytes: Option<f64>,
    /// Grown since it was ready, for each connection.
    pub rss_bytes_per_connection: Option<f64>,
    /// Until all connections stood.
    pub open_ms: Option<f64>,
    /// Mean share of its cores.
    pub subject_busy: Option<f64>,
    /// Share of its core.
    pub swarm_busy: Option<f64>,
    /// Kernel memory of the send queue, most for one stopped subscriber.
    pub stopped_bytes_max: Option<f64>,
    /// The same, on average.
    pub stopped_bytes_mean: Option<f64>,
    /// Where the client talks back.
    pub talk: Talk,
}

impl Summary {
    /// Summarises the samples of a plan, which may not be all.
    pub fn new(plan: &Plan, samples: &[Sample], mut manifest: Manifest) -> Summary {
        manifest.connections = super::connections::notes(plan);
        let parts = plan.parts.iter().enumerate().map(|(index, part)| {
            let own: Vec<&Sample> = samples.iter().filter(|it| it.part == index).collect();
            summarise_part(part, &own)
        });
        Summary { name: plan.name.clone(), manifest, parts: parts.collect() }
    }

    /// Whether anything here counts.
    pub fn has_valid_sample(&self) -> bool {
        self.parts.iter().flat_map(|part| &part.rows).any(|row| row.valid > 0)
    }
}

fn summarise_part(part: &Part, samples: &[&Sample]) -> PartSummary {
    let mut rows = Vec::new();
    for (cell_index, cell) in part.cells.iter().enumerate() {
        let of_subject = |subject: usize| -> Vec<&Sample> {
            let own = samples.iter().filter(|it| it.cell == cell_index && it.subject == subject);
            own.copied().collect()
        };
        let baseline = of_subject(cell.baseline);
        for (index, subject) in cell.subjects.iter().enumerate() {
            let own = of_subject(index);
            if !own.is_empty() {
                rows.push(summarise(part.drive, cell, index, subject, &own, &baseline));
            }
        }
    }
    let noise = |of: fn(&Row) -> Option<Estimate>| {
        let pairs = rows.iter().filter(|row| row.is_noise);
        noise_factor(&pairs.filter_map(|row| Some(of(row)?.median)).collect::<Vec<_>>())
    };
    PartSummary {
        name: part.name.clone(),
        title: part.title.clone(),
        drive: part.drive,
        repeats: part.repeats,
        measured_ms: part.measured_ms,
        cpu_noise: noise(|row| row.cpu_ratio),
        p99_noise: noise(|row| row.p99_ratio),
        round_trip_noise: noise(|row| row.talk.mean_ratio),
        rows,
    }
}

fn summarise(
    drive: Drive,
    cell: &Cell,
    index: usize,
    subject: &Subject,
    samples: &[&Sample],
    baseline: &[&Sample],
) -> Row {
    let valid: Vec<&Sample> =
        samples.iter().copied().filter(|sample| sample.verdict.is_valid()).collect();
    let values = |of: &dyn Fn(&Sample) -> Option<f64>| -> Vec<f64> {
        valid.iter().filter_map(|sample| of(sample)).collect()
    };
    let middle = |of: &dyn Fn(&Sample) -> Option<f64>| median(&values(of));
    let base = &cell.subjects[cell.baseline];
    let is_baseline = index == cell.baseline;
    let versus = |of: &dyn Fn(&Sample) -> Option<f64>| {
        if is_baseline { None } else { paired_ratio(&valid, baseline, of) }
    };
    let is_broadcast = matches!(drive, Drive::Posted | Drive::SelfDriven | Drive::RoundTrip);
    let schedule = (drive == Drive::SelfDriven).then(|| {
        let settings = &subject.settings;
        let rows = f64::from(settings.batch) * f64::from(settings.connections);
        rows * 1e6 / settings.interval_us as f64
    });
    let per = |events: fn(&Sample) -> u64, of: fn(&Sample) -> u64| {
        middle(&|sample| (of(sample) > 0).then(|| events(sample) as f64 / of(sample) as f64))
            .filter(|_| is_broadcast)
    };
    let quantile =
        |share: f64| middle(&|sample| sample.latency.quantile_us(share).map(|us| us as f64));
    let ranked = valid.iter().filter(|sample| sample.verdict == Verdict::Subject).count();
    Row {
        cell: cell.label.clone(),
        subject: subject.name.clone(),
        settings: subject.settings.clone(),
        is_baseline,
        is_noise: !is_baseline
            && (&base.program, &base.settings) == (&subject.program, &subject.settings),
        samples: samples.len(),
        valid: valid.len(),
        verdict: verdict_of(samples),
        is_ranked: ranked * 2 > valid.len(),
        cpu_us_per_event: estimate(&values(&Sample::cpu_us_per_event)),
        cpu_ratio: versus(&Sample::cpu_us_per_event),
        events_per_s: middle(&|sample| Some(sample.events_per_s()))
            .filter(|_| !matches!(drive, Drive::Idle | Drive::RoundTrip)),
        share_of_schedule: schedule
            .and_then(|offered| middle(&|sample| Some(sample.events_per_s() / offered))),
        latency_us_p50: quantile(0.5),
        latency_us_p99: quantile(0.99),
        latency_us_p999: quantile(0.999),
        p99_ratio: versus(&|sample| sample.latency.quantile_us(0.99).map(|us| us as f64)),
        wire_bytes_per_event: per(|it| it.traffic.wire_bytes, |it| it.traffic.events),
        events_per_envelope: per(|it| it.traffic.events, |it| it.traffic.envelopes),
        events_per_read: per(|it| it.traffic.events, |it| it.traffic.reads),
        envelopes_per_read: per(|it| it.traffic.envelopes, |it| it.traffic.reads),
        rss_bytes: middle(&|sample| Some(sample.memory.rss_end_bytes as f64)),
        rss_bytes_per_connection: middle(&|sample| {
            Some(sample.rss_bytes_per_connection(subject.settings.connections))
        }),
        open_ms: middle(&|sample| Some(sample.open_us as f64 / 1000.0)),
        subject_busy: middle(&|sample| Some(sample.subject_busy)),
        swarm_busy: middle(&|sample| Some(sample.swarm_busy)),
        stopped_bytes_max: middle(&|sample| Some(sample.kernel?.send_queue_bytes_max as f64)),
        stopped_bytes_mean: middle(&|sample| Some(sample.kernel?.send_queue_bytes_mean as f64)),
        talk: Talk::of(drive, &valid, versus(&|sample| Some(sample.round_trips?.mean_us))),
    }
}

/// Ratios of samples of the same repeat, where both count.
fn paired_ratio(
    samples: &[&Sample],
    baseline: &[&Sample],
    of: &dyn Fn(&Sample) -> Option<f64>,
) -> Option<Estimate> {
    let pairs = samples.iter().filter_map(|sample| {
        let partner = baseline.iter().find(|base| base.repeat == sample.repeat)?;
        if !partner.verdict.is_valid() {
            return None;
        }
        Some((of(sample)?, of(partner)?))
    });
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
    ratio(&values, &bases)
}

/// The verdict of most, and how many do not count.
fn verdict_of(samples: &[&Sample]) -> String {
    let valid: Vec<String> = samples
        .iter()
        .filter(|sample| sample.verdict.is_valid())
        .map(|sample| sample.verdict.to_string())
        .collect();
    let count = |verdict: &String| valid.iter().filter(|other| *other == verdict).count();
    let invalid = samples.iter().find(|sample| !sample.verdict.is_valid());
    match (valid.iter().max_by_key(|verdict| count(verdict)), invalid) {
        (Some(most), None) => most.clone(),
        (Some(most), Some(first)) => {
            format!(
                "{most}; {} of {} {}",
                samples.len() - valid.len(),
                samples.len(),
                first.verdict
            )
        }
        (None, Some(first)) => first.verdict.to_string(),
        (None, None) => String::new(),
    }
}
