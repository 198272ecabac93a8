//! One measurement: one subject, once, in one cell.

use super::verdict::DISTURBED;
use crate::measure::{
    BrowserUse, Counts, Delays, Pacing, Percentiles, Received, Resources, Verdict,
};
use serde::{Deserialize, Serialize};

/// Everything that one sample measured.
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
    /// The limit of the sample.
    pub verdict: Verdict,
    /// The reason for the verdict, with figures.
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
    /// Share of the span for which others kept the subject or the swarm from its core, whichever is larger.
    pub disturbed: f64,
    /// Share of the span for which others kept the swarm from its core.
    #[serde(default)]
    pub swarm_waited: f64,
    /// The longest time between two looks of the swarm at its sockets in the span.
    #[serde(default)]
    pub swarm_away_us: u64,
    /// Packets the kernel dropped in the span.
    pub dropped_packets: u64,
    /// Time until all connections were established.
    pub open_us: u64,
    /// The subject's memory.
    pub memory: Memory,
    /// Resources of the processes beside the subject. They do not count as the subject's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessUse>,
    /// The subject's resources at the end, among them its context switches.
    pub resources: Resources,
    /// Memory that the kernel holds for subscribers that stopped reading, if any did.
    pub kernel: Option<KernelMemory>,
    /// Resources of the browser, if it was the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<BrowserUse>,
    /// Set if the client answers.
    #[serde(default)]
    pub round_trips: Option<RoundTrips>,
    /// Set if the lab publishes while connections arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Set if the subject pushes data beside its answers (experiment C's firehose).
    #[serde(default)]
    pub pushed: Option<Pushed>,
    /// The warm-up, if it was observed.
    #[serde(default)]
    pub warm_up: WarmUp,
    /// Ratio of the number outstanding by Little's law (throughput × mean time in the system) to the actual number. Known only in a
    /// closed loop: posted with a window, over all topics, and in round trips over a WebSocket.
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
    /// Mean delay of the subject's event loop, as the subject reports it, µs; only under a keyed load. It
    /// covers the looks before and after the span, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_delay_us: Option<f64>,
    /// Kernel memory of all of the subject's connections, when all events due in the span had arrived.
    #[serde(default)]
    pub sockets: Option<SocketMemory>,
    /// Points in the span, at most 120; in older runs 1,200.
    #[serde(default)]
    pub timeline: Vec<Point>,
    /// Negotiated and configured values, as seen on the first connection.
    #[serde(default)]
    pub negotiated: Negotiated,
    /// Results of an endpoint that does not cooperate.
    #[serde(default)]
    pub received: Option<Received>,
    /// How late events were; `None` if none came.
    #[serde(default)]
    pub latency: Option<Percentiles>,
}

/// Resources of a process beside the subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Name in the scenario.
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
    /// Reads that returned data.
    pub reads: u64,
    /// Bytes, with framing, without the kernel's headers.
    pub wire_bytes: u64,
    /// Heartbeats.
    pub heartbeats: u64,
}

/// The warm-up of a subject. The lab observes it with published and generated loads. With other drives the warm-up lasts as long as
/// the scenario says, and both fields are zero.
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
    /// Connections at its end; 0 if their number is constant.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub connections: u32,
    /// Events published per second and topic.
    pub rate: f64,
    /// Length of the step.
    pub span_us: u64,
    /// Events delivered per second, over all subscribers.
    pub events_per_s: f64,
    /// 99 of 100 events were no later.
    pub p99_us: u64,
    /// Whether a longer span confirms a rate that was already met.
    pub is_confirmation: bool,
    /// Why the objective was missed; `None` if it was met.
    pub missed: Option<String>,
}

/// Delays of events that are published while connections arrive; in a stampede of some keys, of the others' events.
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
    /// Connections when the first event that came too late was due; at the end, if none was late.
    pub connections: u32,
    /// When this was detected, since the beginning of the span.
    pub at_us: u64,
    /// Whether none was too late: there may be room for more.
    pub is_all: bool,
    /// Share of its core that the swarm used in the second before.
    pub swarm_busy: f64,
    /// The kernel's memory for TCP then, relative to the limit at which memory pressure begins.
    #[serde(default)]
    pub kernel_share: f64,
    /// The rest of the time, with connections still arriving.
    pub beyond: Beyond,
}

/// Measurements with more connections than were held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beyond {
    /// Connections at the end.
    pub connections: u32,
    /// Maximum lateness of the oldest event that a subscriber did not have.
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
    /// Number of times that a thread gave up its core voluntarily.
    pub switches_voluntary: u64,
    /// Number of times that a thread was preempted.
    pub switches_forced: u64,
    /// System calls; `None` if they were not counted.
    pub system_calls: Option<SystemCalls>,
}

/// System calls, counted for a while after the span, because counting slows the subject down.
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
    /// Received and not read, or sent and not acknowledged, with bookkeeping.
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
    /// Established connections.
    #[serde(default)]
    pub connections: u32,
    /// The kernel's memory for TCP, of the whole machine; 0 except with a keyed load.
    #[serde(default)]
    pub kernel_bytes: u64,
    /// How late events were that arrived since the point before that has some; older runs do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Delays>,
    /// The longest time since the point before for which a subscriber lacked an event that was due; over an
    /// external endpoint's connections, for which one had no event.
    #[serde(default)]
    pub silence_us: u64,
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
    /// Number of round trips.
    pub count: u64,
    /// From the first that was sent to the last that came back.
    pub total_us: u64,
    /// Mean time from sending to the answer.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 99 of 100 took no longer.
    pub p99_us: u64,
    /// The longest.
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
    /// Returns the share of the schedule that came; `None` if the span was too short for one.
    pub fn share(&self) -> Option<f64> {
        (self.wanted > 0).then(|| self.came as f64 / self.wanted as f64)
    }
}

/// Returns whether most of these samples of one subject have a p99 to show.
pub fn shows_p99(samples: &[&Sample]) -> bool {
    samples.iter().filter(|sample| sample.p99_us().is_some()).count() * 2 >= samples.len()
}

/// The subject's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident when ready, without a connection.
    pub rss_ready_bytes: u64,
    /// Resident when all connections were established.
    pub rss_open_bytes: u64,
    /// Resident at the end of the span.
    pub rss_end_bytes: u64,
    /// Proportional memory when all events due in the span had arrived.
    pub pss_end_bytes: Option<u64>,
    /// Resident memory of the swarm's own process before it opened a connection; older runs do not have it.
    #[serde(default)]
    pub swarm_rss_before_bytes: Option<u64>,
    /// The same when all connections were established.
    #[serde(default)]
    pub swarm_rss_open_bytes: Option<u64>,
}

/// Bytes that the kernel holds unsent for subscribers that do not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelMemory {
    /// Subscribers looked at.
    pub connections: u64,
    /// Maximum for one of them.
    pub send_queue_bytes_max: u64,
    /// On average.
    pub send_queue_bytes_mean: u64,
}

impl Sample {
    /// Returns the start that its round belongs to.
    pub fn start(&self) -> u32 {
        self.start.unwrap_or(self.repeat)
    }

    /// Returns whether subject and swarm were undisturbed, and nothing was left out. Disturbed samples count only if there are no others.
    pub fn is_undisturbed(&self) -> bool {
        match self.verdict {
            Verdict::Invalid(_) | Verdict::Machine | Verdict::Gaps | Verdict::Drops => false,
            Verdict::Swarm => self.disturbed < DISTURBED,
            Verdict::Subject | Verdict::Browser | Verdict::Both | Verdict::Schedule => true,
        }
    }

    /// Returns whether its events per second are the limit of the subject, or of the browser. A search for the highest rate ends where
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

    /// Returns the p99 latency; `None` if nothing came, or if the swarm itself published too late.
    pub fn p99_us(&self) -> Option<f64> {
        let p99_us = self.latency?.p99_us;
        let is_late = self.pacing.is_some_and(|pacing| pacing.is_late(p99_us));
        (!is_late).then_some(p99_us as f64)
    }

    /// Returns the subject's CPU time per event; `None` if nothing came.
    pub fn cpu_us_per_event(&self) -> Option<f64> {
        let events = self.traffic.events;
        // Without CPU time the server was not seen, which does not mean that it costs nothing.
        (events > 0 && self.subject_cpu_ns > 0)
            .then(|| self.subject_cpu_ns as f64 / 1000.0 / events as f64)
    }

    /// Returns the browser's CPU time per event, over all of its processes; `None` if no browser is the load, or nothing came.
    pub fn browser_us_per_event(&self) -> Option<f64> {
        let used = self.browser.as_ref()?;
        // The spans of the two counts differ slightly, so the rate of events is used.
        let events = self.events_per_s() * used.span_us as f64 / 1e6;
        (events > 0.0).then(|| used.cpu_ns() as f64 / 1000.0 / events)
    }

    /// Returns the CPU time per event of all processes beside the subject; `None` without such processes.
    pub fn beside_us_per_event(&self) -> Option<f64> {
        let cpu_ns: u64 = self.processes.iter().map(|process| process.cpu_ns).sum();
        let events = self.traffic.events;
        (events > 0 && !self.processes.is_empty()).then(|| cpu_ns as f64 / 1000.0 / events as f64)
    }

    /// Returns the events per second.
    pub fn events_per_s(&self) -> f64 {
        self.traffic.events as f64 * 1e6 / self.span_us.max(1) as f64
    }

    /// Returns the context switches of the subject's threads per second.
    pub fn switches_per_s(&self) -> Option<f64> {
        let Activity { switches_voluntary, switches_forced, .. } = self.activity;
        let count = switches_voluntary + switches_forced;
        (count > 0).then(|| count as f64 * 1e6 / self.span_us.max(1) as f64)
    }

    /// Returns the system calls of the subject per event, if they were counted.
    pub fn system_calls_per_event(&self) -> Option<f64> {
        let SystemCalls { calls, events } = self.activity.system_calls?;
        (events > 0).then(|| calls as f64 / events as f64)
    }

    /// Returns the resident memory of the swarm per connection, all of its buffers included. Memory that an earlier sample left
    /// behind is reused and not counted, so the first sample of a run, or the largest cell, is the most exact.
    pub fn swarm_rss_bytes_per_connection(&self, connections: u32) -> Option<f64> {
        let Memory { swarm_rss_before_bytes, swarm_rss_open_bytes, .. } = self.memory;
        let grown = swarm_rss_open_bytes?.saturating_sub(swarm_rss_before_bytes?);
        Some(grown as f64 / f64::from(connections.max(1)))
    }

    /// Returns the resident memory that one of `connections` adds.
    pub fn rss_bytes_per_connection(&self, connections: u32) -> f64 {
        let grown = self.memory.rss_end_bytes.saturating_sub(self.memory.rss_ready_bytes);
        grown as f64 / f64::from(connections.max(1))
    }
}
