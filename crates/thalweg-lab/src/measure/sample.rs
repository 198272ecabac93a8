//! One measurement: one subject, once, in one cell.

use super::verdict::DISTURBED;
use crate::measure::{
    BrowserUse, Counts, Delays, Pacing, Percentiles, Received, Resources, Verdict,
};
use serde::{Deserialize, Serialize};

/// Everything measured in one go.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Index of the plan's part.
    pub part: usize,
    /// Index of the part's cell.
    pub cell: usize,
    /// Index of the cell's subject.
    pub subject: usize,
    /// The round of the cell, from 0: one span of each subject.
    pub repeat: u32,
    /// Which start of the cell's processes the round belongs to, from 0; in older archives each round has a start of its own.
    #[serde(default)]
    pub start: Option<u32>,
    /// The part that limited it.
    pub verdict: Verdict,
    /// Why, in words with figures.
    #[serde(default)]
    pub why: String,
    /// Length of the measured span.
    pub span_us: u64,
    /// Everything that came in during the span.
    pub traffic: Traffic,
    /// Over the whole sample.
    pub ledger: Counts,
    /// The subject's CPU time in the span.
    pub subject_cpu_ns: u64,
    /// Mean share of the subject's cores it used.
    pub subject_busy: f64,
    /// Share of its core that the swarm used, without polls that found no work.
    pub swarm_busy: f64,
    /// Share of its core that the swarm used, as the kernel counts it: with these polls. Older runs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swarm_cpu: Option<f64>,
    /// Connections that were dialed a second time, because the first attempt failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redialed: u32,
    /// Share of the span that subject or swarm, whichever is worse off, was kept from its core by others.
    pub disturbed: f64,
    /// Share of the span for which others kept the swarm from its core.
    #[serde(default)]
    pub swarm_waited: f64,
    /// The longest time between two looks of the swarm at its sockets in the span.
    #[serde(default)]
    pub swarm_away_us: u64,
    /// Packets the kernel dropped in the span.
    pub dropped_packets: u64,
    /// Until all connections stood.
    pub open_us: u64,
    /// The subject's memory.
    pub memory: Memory,
    /// Use of the processes beside the subject: none of it is the subject's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessUse>,
    /// The subject's resources at the end, among them its context switches.
    pub resources: Resources,
    /// Where subscribers stopped: what the kernel holds for them.
    pub kernel: Option<KernelMemory>,
    /// Where the load was in a browser: what that used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<BrowserUse>,
    /// Where the client answers.
    #[serde(default)]
    pub round_trips: Option<RoundTrips>,
    /// Where the lab publishes beside connections that come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Where the subject pushes beside its answers (experiment C's firehose).
    #[serde(default)]
    pub pushed: Option<Pushed>,
    /// How the subject got warm, where that was looked at.
    #[serde(default)]
    pub warm_up: WarmUp,
    /// Ratio of what is outstanding by Little's law (throughput × mean time in the system) to what was. Known in a closed loop
    /// alone: posted with a window, over all topics, and in round trips over a WebSocket.
    #[serde(default)]
    pub littles_ratio: Option<f64>,
    /// In an open loop: how the swarm kept the schedule.
    #[serde(default)]
    pub pacing: Option<Pacing>,
    /// Rates tried with the `ceiling` drive, in order; seconds of a ramp within an objective.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// How far a ramp came within its objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Activity of the subject's threads in the span.
    #[serde(default)]
    pub activity: Activity,
    /// Kernel memory of all of the subject's connections, when what was due in the span had come.
    #[serde(default)]
    pub sockets: Option<SocketMemory>,
    /// How things went over the span, a few times a second.
    #[serde(default)]
    pub timeline: Vec<Point>,
    /// Agreed and set values, as seen on the first connection.
    #[serde(default)]
    pub negotiated: Negotiated,
    /// Results of an endpoint that does not cooperate.
    #[serde(default)]
    pub received: Option<Received>,
    /// How late events were; `None` where none came.
    #[serde(default)]
    pub latency: Option<Percentiles>,
}

/// Use of a process beside the subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// As the scenario calls it.
    pub name: String,
    /// CPU time in the span.
    pub cpu_ns: u64,
    /// Resident memory at its end.
    pub rss_bytes: u64,
}

/// Traffic of the swarm in the span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Events delivered, over all subscribers; with the `publish` drive, events taken by the subject.
    pub events: u64,
    /// Envelopes they came in.
    pub envelopes: u64,
    /// Reads that brought something.
    pub reads: u64,
    /// Bytes, with framing, without the kernel's headers.
    pub wire_bytes: u64,
    /// Heartbeats.
    pub heartbeats: u64,
}

/// How a subject got warm. The lab observes this where a subject broadcasts, posted to or by itself. Under
/// the other drives warm-up lasts as long as the scenario says, whatever figures do, and both fields are
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// From full load to the span's beginning.
    pub took_us: u64,
    /// Whether its figures had stopped drifting by then.
    pub is_steady: bool,
}

/// One rate that was tried, or one second of a ramp.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Connections that stood at its end; 0 where they are always the same.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connections: u32,
    /// Events published per second and topic.
    pub rate: f64,
    /// For how long.
    pub span_us: u64,
    /// Events delivered per second, over all subscribers.
    pub events_per_s: f64,
    /// 99 of 100 events were no later.
    pub p99_us: u64,
    /// Whether it was a longer look at a rate already met.
    pub is_confirmation: bool,
    /// Why the objective was missed; `None` if it was met.
    pub missed: Option<String>,
}

/// How late what was published was, beside connections that come: in a stampede of some keys, on the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// Before the span.
    pub before: Option<Delays>,
    /// In it.
    pub during: Option<Delays>,
}

/// How many connections a ramp came to before an event was later than its objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Those that stood when the first event was due that came too late; at the end, if none was.
    pub connections: u32,
    /// When that was known, since the span began.
    pub at_us: u64,
    /// Whether none was too late: there may be room for more.
    pub is_all: bool,
    /// Share of its core that the swarm used in the second before.
    pub swarm_busy: f64,
    /// The kernel's memory for TCP then, to what it has before it begins to be short.
    #[serde(default)]
    pub kernel_share: f64,
    /// How it went on, with connections still arriving.
    pub beyond: Beyond,
}

/// Measurements with more connections than were held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// Those that stood at the end.
    pub connections: u32,
    /// How late the oldest event was that somebody did not have, at most.
    pub late_us_max: u64,
    /// Connections that were ended.
    pub cut: u64,
    /// Gaps that were announced.
    pub gaps: u64,
    /// Versions that a newer one replaced before they were sent.
    pub replaced: u64,
}

/// Activity of a subject's threads in the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Times a thread gave its core up by itself.
    pub switches_voluntary: u64,
    /// Times it was taken from one.
    pub switches_forced: u64,
    /// System calls; `None` where nobody asked or the kernel does not tell.
    pub system_calls: Option<SystemCalls>,
}

/// System calls, counted for a while after the span: to count them costs the subject time, and so does not belong into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemCalls {
    /// By all threads of the subject.
    pub calls: u64,
    /// Events that were delivered meanwhile.
    pub events: u64,
}

/// Kernel memory of a subject's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketMemory {
    /// Connections found.
    pub connections: u64,
    /// Received and not read, sent and not acknowledged, with bookkeeping.
    pub bytes: u64,
    /// Buffers of the first connection, as set: for sending.
    pub send_buffer_bytes: u64,
    /// For receiving.
    pub receive_buffer_bytes: u64,
}

/// A look at a sample while it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Since the span began.
    pub at_us: u64,
    /// Events so far.
    pub events: u64,
    /// CPU time of the subject so far.
    pub cpu_ns: u64,
    /// The resident memory of the subject.
    pub rss_bytes: u64,
    /// Connections that stand.
    #[serde(default)]
    pub connections: u32,
    /// The kernel's memory for TCP, of the whole machine; 0 but for a keyed load.
    #[serde(default)]
    pub kernel_bytes: u64,
    /// The proportional memory of the subject. A keyed load reads it once a second, because reading it takes
    /// long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Agreed and set values, as the swarm sees them on its first connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// Name and value of each, in a fixed order; e.g. `TLS` is `TLSv1.3
    /// TLS13_AES_128_GCM_SHA256`, `Sec-WebSocket-Extensions` is `none`.
    pub facts: Vec<(String, String)>,
}

/// Round trips: from a message of the client to its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// How many were made.
    pub count: u64,
    /// From the first that was sent to the last that came back.
    pub total_us: u64,
    /// From sent to come back.
    pub mean_us: f64,
    /// From sent to come back.
    pub p50_us: u64,
    /// From sent to come back.
    pub p99_us: u64,
    /// From sent to come back.
    pub max_us: u64,
}

impl RoundTrips {
    /// Returns the figures of round trips, all of them made within `total_us`; `None` if there are none.
    pub fn new(mut each_us: Vec<u64>, total_us: u64) -> Option<RoundTrips> {
        each_us.sort_unstable();
        let at = |share: f64| {
            let rank = (share * each_us.len() as f64).ceil() as usize;
            each_us.get(rank.saturating_sub(1)).copied()
        };
        Some(RoundTrips {
            count: each_us.len() as u64,
            total_us,
            p50_us: at(0.5)?,
            p99_us: at(0.99)?,
            max_us: at(1.0)?,
            mean_us: each_us.iter().sum::<u64>() as f64 / each_us.len() as f64,
        })
    }
}

/// Events that a firehose pushed in the span. Fewer than asked for is no fault: the subject's timer or socket allowed no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pushed {
    /// Events that the schedule asks for.
    pub wanted: u64,
    /// Those that came, of the right size and each once.
    pub came: u64,
}

impl Pushed {
    /// The share of the schedule that came; `None` if the span was too short for one.
    pub fn share(&self) -> Option<f64> {
        (self.wanted > 0).then(|| self.came as f64 / self.wanted as f64)
    }
}

/// Whether most of these samples of one subject have a p99 to show.
pub fn shows_p99(samples: &[&Sample]) -> bool {
    samples.iter().filter(|sample| sample.p99_us().is_some()).count() * 2 >= samples.len()
}

/// The subject's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident when ready, without a connection.
    pub rss_ready_bytes: u64,
    /// Resident when all connections stood.
    pub rss_open_bytes: u64,
    /// Resident at the end of the span.
    pub rss_end_bytes: u64,
    /// Proportional, when what was due in the span had come.
    pub pss_end_bytes: Option<u64>,
    /// Resident memory of the swarm's own process before it opened a connection; runs of former times have none.
    #[serde(default)]
    pub swarm_rss_before_bytes: Option<u64>,
    /// The same when all connections stood.
    #[serde(default)]
    pub swarm_rss_open_bytes: Option<u64>,
}

/// Bytes that the kernel holds unsent for subscribers that do not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMemory {
    /// Subscribers looked at.
    pub connections: u64,
    /// Most for one of them.
    pub send_queue_bytes_max: u64,
    /// On average.
    pub send_queue_bytes_mean: u64,
}

impl Sample {
    /// The start that its round belongs to.
    pub fn start(&self) -> u32 {
        self.start.unwrap_or(self.repeat)
    }

    /// Whether nobody disturbed subject or swarm, and nothing was left out; disturbed samples count only if there are no others.
    pub fn is_undisturbed(&self) -> bool {
        match self.verdict {
            Verdict::Invalid(_) | Verdict::Machine | Verdict::Gaps | Verdict::Drops => false,
            Verdict::Swarm => self.disturbed < DISTURBED,
            Verdict::Subject | Verdict::Browser | Verdict::Both | Verdict::Schedule => true,
        }
    }

    /// Whether its events per second are the limit of the subject, or of the browser. A search for the highest rate ends where
    /// the objective is missed, unless the swarm could not offer more.
    pub fn is_ranked(&self) -> bool {
        match self.steps.is_empty() {
            true if self.browser.is_some() => self.verdict == Verdict::Browser,
            true => self.verdict == Verdict::Subject,
            false => {
                self.verdict.is_valid() && !matches!(self.verdict, Verdict::Swarm | Verdict::Drops)
            }
        }
    }

    /// Latency that 99 of 100 events kept; `None` where nothing came, or where the swarm itself published too late.
    pub fn p99_us(&self) -> Option<f64> {
        let p99_us = self.latency?.p99_us;
        let is_late = self.pacing.is_some_and(|pacing| pacing.is_late(p99_us));
        (!is_late).then_some(p99_us as f64)
    }

    /// The subject's CPU time per event; `None` where nothing came.
    pub fn cpu_us_per_event(&self) -> Option<f64> {
        let events = self.traffic.events;
        // A server that is not seen is not free of charge.
        (events > 0 && self.subject_cpu_ns > 0)
            .then(|| self.subject_cpu_ns as f64 / 1000.0 / events as f64)
    }

    /// The browser's CPU time per event, over all of its processes; `None` where the load is in none, or nothing came.
    pub fn browser_us_per_event(&self) -> Option<f64> {
        let used = self.browser.as_ref()?;
        // Both are counted over about the same time, and by the second they are the same.
        let events = self.events_per_s() * used.span_us as f64 / 1e6;
        (events > 0.0).then(|| used.cpu_ns() as f64 / 1000.0 / events)
    }

    /// CPU time per event of all processes beside the subject; `None` where there are none.
    pub fn beside_us_per_event(&self) -> Option<f64> {
        let cpu_ns: u64 = self.processes.iter().map(|process| process.cpu_ns).sum();
        let events = self.traffic.events;
        (events > 0 && !self.processes.is_empty()).then(|| cpu_ns as f64 / 1000.0 / events as f64)
    }

    /// Events per second.
    pub fn events_per_s(&self) -> f64 {
        self.traffic.events as f64 * 1e6 / self.span_us.max(1) as f64
    }

    /// Context switches of the subject's threads per second.
    pub fn switches_per_s(&self) -> Option<f64> {
        let Activity { switches_voluntary, switches_forced, .. } = self.activity;
        let count = switches_voluntary + switches_forced;
        (count > 0).then(|| count as f64 * 1e6 / self.span_us.max(1) as f64)
    }

    /// System calls of the subject per event, where the kernel tells.
    pub fn system_calls_per_event(&self) -> Option<f64> {
        let SystemCalls { calls, events } = self.activity.system_calls?;
        (events > 0).then(|| calls as f64 / events as f64)
    }

    /// Resident memory of the swarm that one of `connections` adds, all of its buffers shared out. Memory that an earlier sample
    /// left behind is used again and not in it: the first sample of a run, or the largest cell, tells most.
    pub fn swarm_rss_bytes_per_connection(&self, connections: u32) -> Option<f64> {
        let Memory { swarm_rss_before_bytes, swarm_rss_open_bytes, .. } = self.memory;
        let grown = swarm_rss_open_bytes?.saturating_sub(swarm_rss_before_bytes?);
        Some(grown as f64 / f64::from(connections.max(1)))
    }

    /// Resident memory that one of `connections` adds.
    pub fn rss_bytes_per_connection(&self, connections: u32) -> f64 {
        let grown = self.memory.rss_end_bytes.saturating_sub(self.memory.rss_ready_bytes);
        grown as f64 / f64::from(connections.max(1))
    }
}
