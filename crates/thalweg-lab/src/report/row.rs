//! One subject in one cell: medians of its samples that count.

use super::browser::BrowserFigures;
use super::curves::Curves;
use super::faults::Faults;
use super::held::HeldFigures;
use crate::measure::statistics::{Estimate, estimate, median};
use crate::measure::{Counts, Delays, Percentiles, Received, Sample, shows_p99};
use crate::scenario::{Drive, Settings, Subject};
use serde::Serialize;
use std::collections::BTreeMap;

/// One subject in one cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Indices of the cell in the scenario, and of the subject in the cell.
    #[serde(skip)]
    pub place: RowPlace,
    /// The cell.
    pub cell: String,
    /// The subject.
    pub subject: String,
    /// The settings of the cell.
    pub settings: Settings,
    /// Whether the others of the cell are compared with it.
    pub is_baseline: bool,
    /// Whether it is the baseline once more (A/A).
    pub is_noise: bool,
    /// Whether it is Thalweg, in any of its forms.
    #[serde(skip)]
    pub is_thalweg: bool,
    /// Samples taken.
    pub samples: usize,
    /// Samples in which something did not come, or came damaged.
    pub incomplete: usize,
    /// Samples that count.
    pub valid: usize,
    /// Valid samples that were left out, because somebody disturbed them.
    pub left_out: usize,
    /// Whether disturbed ones count as well, because there are too few others.
    pub takes_all: bool,
    /// Why samples do not count, and how many for each reason.
    pub invalid: BTreeMap<String, usize>,
    /// Time measured in all of them.
    pub span_s: f64,
    /// The limit of most samples, or why the first does not count.
    pub verdict: String,
    /// The reason with figures, from the first such sample.
    pub why: String,
    /// Whether in most samples the subject was saturated and the swarm was not, so that throughput counts.
    pub is_ranked: bool,
    /// Whether the swarm limited the highest rate: the subject's own is at least that.
    pub is_at_least: bool,
    /// CPU time.
    pub cpu: Cpu,
    /// Throughput.
    pub throughput: Throughput,
    /// Latency.
    pub latency: Lateness,
    /// Median delays of events that are published while connections arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Delayed>,
    /// Versions of documents that a newer one replaced before they were sent, in all samples.
    #[serde(skip_serializing_if = "is_zero")]
    pub replaced: u64,
    /// Connections that were dialed a second time, because the first attempt failed, in all samples.
    #[serde(skip_serializing_if = "is_zero")]
    pub redialed: u64,
    /// Share of the events that came, if not all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_share: Option<f64>,
    /// Bytes and batches on the wire.
    pub wire: Wire,
    /// Memory.
    pub memory: MemoryFigures,
    /// How busy subject and swarm were.
    pub load: LoadFigures,
    /// Round trips, if the client answers.
    pub round_trip: Trips,
    /// How far a ramp came within its objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldFigures>,
    /// Use of the browser, where one was the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser: Option<BrowserFigures>,
    /// The faults of an endpoint in all samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Results of the middle sample, from an endpoint that does not cooperate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Received>,
    /// Figures for charts only.
    #[serde(skip)]
    pub curves: Curves,
}

/// The place of a subject in a scenario. Labels are for readers: two cells may have the same label in old runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowPlace {
    /// The index of the cell in the scenario.
    pub cell: usize,
    /// The index of the subject in the cell.
    pub subject: usize,
}

/// From this share of the schedule on, the schedule was the limit and not the browser.
const ALL_CAME: f64 = 0.98;

impl Row {
    pub(super) fn came_in_full(&self) -> bool {
        self.throughput.share_of_schedule.is_some_and(|share| share >= ALL_CAME)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// CPU time of a subject.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cpu {
    /// Subject's CPU per event delivered (published, with that drive).
    pub us_per_event: Option<Estimate>,
    /// CPU of the processes beside the subject, which is not in the subject's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside_us_per_event: Option<f64>,
}

/// Throughput of a subject.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Throughput {
    /// All subscribers together; with the `ceiling` drive, the highest rate that met the objective.
    pub events_per_s: Option<Estimate>,
    /// Share of the schedule that was delivered.
    pub share_of_schedule: Option<f64>,
    /// With framing, in millions of bytes.
    pub mb_per_s: Option<f64>,
}

/// Latency, from the intended time to the arrival.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lateness {
    /// Half of the events were no later.
    pub p50_us: Option<f64>,
    /// 90 of 100.
    pub p90_us: Option<f64>,
    /// 99 of 100; `None` if the swarm itself was so late that this says little about the subject.
    pub p99_us: Option<f64>,
    /// 999 of 1,000; withheld like the p99.
    pub p999_us: Option<f64>,
    /// The latest; withheld like the p99.
    pub max_us: Option<f64>,
    /// How late the swarm itself published, where it had a schedule: 99 of 100 events.
    pub published_late_p99_us: Option<f64>,
}

/// How late events were before a span, and in it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delayed {
    /// Before: 99 of 100 were no later.
    pub before_p99_us: Option<f64>,
    /// In it: half of them.
    pub p50_us: Option<f64>,
    /// 99 of 100.
    pub p99_us: Option<f64>,
    /// The latest.
    pub max_us: Option<f64>,
}

/// Bytes and batches on the wire.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wire {
    /// Bytes per event, with framing.
    pub bytes_per_event: Option<f64>,
    /// Events per envelope, as received.
    pub events_per_envelope: Option<f64>,
    /// Events per read: the subject sends at most as often as the swarm reads.
    pub events_per_read: Option<f64>,
    /// Envelopes per read; with several topics, this shows what one visit to a connection saves.
    pub envelopes_per_read: Option<f64>,
}

/// Memory of a subject.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MemoryFigures {
    /// Resident at the end of the span.
    pub rss_bytes: Option<f64>,
    /// Proportional at the end of the span.
    pub pss_bytes: Option<f64>,
    /// Growth of resident memory since the subject was ready, per connection.
    pub rss_bytes_per_connection: Option<f64>,
    /// Growth of the swarm's own process until all connections were established, per connection; the largest of the samples, because later
    /// ones reuse the memory.
    pub swarm_rss_bytes_per_connection: Option<f64>,
    /// In the kernel, for all its connections.
    pub socket_bytes: Option<f64>,
    /// Kernel memory of the send queue, maximum for one stopped subscriber.
    pub stopped_bytes_max: Option<f64>,
    /// The same, on average.
    pub stopped_bytes_mean: Option<f64>,
}

/// How busy subject and swarm were.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadFigures {
    /// Mean share of the subject's cores.
    pub subject_busy: Option<f64>,
    /// Share of its core that the swarm used, without polls that found no work.
    pub swarm_busy: Option<f64>,
    /// Share of its core that the swarm used, as the kernel counts it: with these polls.
    pub swarm_cpu: Option<f64>,
    /// Time until all connections were established.
    pub open_ms: Option<f64>,
    /// Context switches of the subject's threads.
    pub switches_per_s: Option<f64>,
    /// System calls per event, if they were counted.
    pub system_calls_per_event: Option<f64>,
    /// Mean delay of the subject's event loop, as it reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_delay_us: Option<f64>,
    /// Ratio of the number outstanding by Little's law to the actual number.
    pub littles_ratio: Option<f64>,
    /// Share of the samples that had stopped drifting when the span began.
    pub steady: Option<f64>,
}

/// Round trips, from sent to come back.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trips {
    /// Median of the samples' means.
    pub mean_us: Option<f64>,
    /// Mean of the worst sample.
    pub mean_us_worst: Option<f64>,
    /// Median.
    pub p50_us: Option<f64>,
    /// 99 of 100 took no longer.
    pub p99_us: Option<f64>,
    /// Time of all round trips of a sample, one after the other.
    pub total_ms: Option<f64>,
}

/// Samples of one subject that count, and how to take medians of them.
pub(super) struct Valid<'a>(pub(super) Vec<&'a Sample>);

impl Valid<'_> {
    fn values(&self, of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        self.0.iter().filter_map(|sample| of(sample)).collect()
    }

    fn middle(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(&self.values(of))
    }

    fn spread(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<Estimate> {
        estimate(&self.values(of))
    }

    /// Fills in everything of a row that needs no other subject.
    pub(super) fn fill(&self, row: &mut Row, drive: Drive, subject: &Subject) {
        let settings = &subject.settings;
        row.cpu.us_per_event = self.spread(Sample::cpu_us_per_event);
        row.cpu.beside_us_per_event = self.middle(Sample::beside_us_per_event);
        row.throughput = self.throughput(drive, settings);
        row.latency = self.latency();
        row.beside = self.beside();
        row.replaced = self.0.iter().map(|sample| sample.ledger.replaced).sum();
        let ledger = self.0.iter().fold(Counts::default(), |sum, sample| sum.and(&sample.ledger));
        row.delivered_share = (ledger.missing > 0).then(|| ledger.delivered_share());
        row.wire = self.wire(drive);
        row.memory = self.memory(settings);
        row.load = self.load();
        row.round_trip = self.round_trip();
        row.held = HeldFigures::new(&self.0, settings);
        row.browser = BrowserFigures::new(&self.0);
        row.received = self.received();
    }

    fn throughput(&self, drive: Drive, settings: &Settings) -> Throughput {
        let has_rate = !matches!(drive, Drive::Idle | Drive::RoundTrip);
        Throughput {
            events_per_s: self.spread(|sample| has_rate.then(|| sample.events_per_s())),
            share_of_schedule: settings
                .scheduled_events_per_s(drive)
                .and_then(|offered| self.middle(|sample| Some(sample.events_per_s() / offered))),
            mb_per_s: self.middle(|sample| {
                has_rate.then(|| sample.traffic.wire_bytes as f64 / sample.span_us.max(1) as f64)
            }),
        }
    }

    fn latency(&self) -> Lateness {
        let middle = |of: fn(&Percentiles) -> u64| {
            self.middle(|sample| sample.latency.as_ref().map(|latency| of(latency) as f64))
        };
        let high = |of| middle(of).filter(|_| shows_p99(&self.0));
        Lateness {
            p50_us: middle(|latency| latency.p50_us),
            p90_us: middle(|latency| latency.p90_us),
            p99_us: self.middle(Sample::p99_us).filter(|_| shows_p99(&self.0)),
            p999_us: high(|latency| latency.p999_us),
            max_us: high(|latency| latency.max_us),
            published_late_p99_us: self.middle(|sample| Some(sample.pacing?.late_p99_us as f64)),
        }
    }

    fn beside(&self) -> Option<Delayed> {
        let known = self.0.iter().any(|sample| sample.beside.is_some());
        let during = |of: fn(&Delays) -> u64| {
            self.middle(|sample| {
                sample.beside.as_ref()?.during.as_ref().map(|during| of(during) as f64)
            })
        };
        known.then(|| Delayed {
            before_p99_us: self.middle(|sample| Some(sample.beside?.before?.p99_us as f64)),
            p50_us: during(|found| found.p50_us),
            p99_us: during(|found| found.p99_us),
            max_us: during(|found| found.max_us),
        })
    }

    fn wire(&self, drive: Drive) -> Wire {
        let is_broadcast = drive.is_published_load() || drive == Drive::GeneratedLoad;
        let per = |events: fn(&Sample) -> u64, of: fn(&Sample) -> u64| {
            self.middle(|found| (of(found) > 0).then(|| events(found) as f64 / of(found) as f64))
                .filter(|_| is_broadcast || drive == Drive::RoundTrip)
        };
        Wire {
            bytes_per_event: per(
                |sample| sample.traffic.wire_bytes,
                |sample| sample.traffic.events,
            ),
            events_per_envelope: per(
                |sample| sample.traffic.events,
                |sample| sample.traffic.envelopes,
            ),
            events_per_read: per(|sample| sample.traffic.events, |sample| sample.traffic.reads),
            envelopes_per_read: per(
                |sample| sample.traffic.envelopes,
                |sample| sample.traffic.reads,
            ),
        }
    }

    fn memory(&self, settings: &Settings) -> MemoryFigures {
        MemoryFigures {
            rss_bytes: self.middle(|found| Some(found.memory.rss_end_bytes as f64)),
            pss_bytes: self.middle(|found| found.memory.pss_end_bytes.map(|bytes| bytes as f64)),
            rss_bytes_per_connection: self
                .middle(|found| Some(found.rss_bytes_per_connection(settings.connections))),
            swarm_rss_bytes_per_connection: self
                .values(|found| found.swarm_rss_bytes_per_connection(settings.connections))
                .into_iter()
                .max_by(f64::total_cmp),
            socket_bytes: self.middle(|found| Some(found.sockets?.bytes as f64)),
            stopped_bytes_max: self.middle(|found| Some(found.kernel?.send_queue_bytes_max as f64)),
            stopped_bytes_mean: self
                .middle(|found| Some(found.kernel?.send_queue_bytes_mean as f64)),
        }
    }

    fn load(&self) -> LoadFigures {
        LoadFigures {
            subject_busy: self.middle(|sample| Some(sample.subject_busy)),
            swarm_busy: self.middle(|found| Some(found.swarm_busy)),
            swarm_cpu: self.middle(|found| found.swarm_cpu),
            open_ms: self.middle(|sample| Some(sample.open_us as f64 / 1000.0)),
            switches_per_s: self.middle(Sample::switches_per_s),
            system_calls_per_event: self.middle(Sample::system_calls_per_event),
            loop_delay_us: self.middle(|found| found.loop_delay_us),
            littles_ratio: self.middle(|found| found.littles_ratio),
            steady: self.steady(),
        }
    }

    /// Returns the results of the sample with the median number of events.
    fn received(&self) -> Option<Received> {
        let mut all: Vec<&Received> =
            self.0.iter().filter_map(|sample| sample.received.as_ref()).collect();
        all.sort_by_key(|received| received.events);
        all.get(all.len() / 2).map(|received| (*received).clone())
    }

    fn steady(&self) -> Option<f64> {
        let looked_at = self.0.iter().filter(|found| found.warm_up.took_us > 0);
        let (all, steady) = looked_at.fold((0, 0), |(all, steady), sample| {
            (all + 1, steady + u32::from(sample.warm_up.is_steady))
        });
        (all > 0).then(|| f64::from(steady) / f64::from(all))
    }

    fn round_trip(&self) -> Trips {
        let means = self.values(|sample| Some(sample.round_trips?.mean_us));
        Trips {
            mean_us: median(&means),
            mean_us_worst: means.iter().copied().max_by(f64::total_cmp),
            p50_us: self.middle(|sample| Some(sample.round_trips?.p50_us as f64)),
            p99_us: self.middle(|sample| Some(sample.round_trips?.p99_us as f64)),
            total_ms: self.middle(|sample| Some(sample.round_trips?.total_us as f64 / 1000.0)),
        }
    }
}
