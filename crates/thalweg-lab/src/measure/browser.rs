//! The use of a browser in a span that was its load.

use super::latency::Delays;
use serde::{Deserialize, Serialize};

/// A kind of Chromium's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// Renderers: tabs, and their workers.
    Tab,
    /// The one network service.
    Network,
    /// The browser's own process.
    Browser,
    /// The GPU's.
    Gpu,
    /// Other utilities, and what forks processes.
    Other,
}

impl ProcessKind {
    /// All there are.
    pub const ALL: [ProcessKind; 5] = [
        ProcessKind::Tab,
        ProcessKind::Network,
        ProcessKind::Browser,
        ProcessKind::Gpu,
        ProcessKind::Other,
    ];

    /// In a sentence.
    pub fn name(self) -> &'static str {
        match self {
            ProcessKind::Tab => "tab",
            ProcessKind::Network => "network process",
            ProcessKind::Browser => "browser process",
            ProcessKind::Gpu => "GPU process",
            ProcessKind::Other => "other processes",
        }
    }
}

/// Use of all processes of a kind in a span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindUse {
    /// Which.
    pub kind: ProcessKind,
    /// CPU time.
    pub cpu_ns: u64,
    /// That of the thread that used most.
    pub thread_cpu_ns_max: u64,
    /// Name of this thread.
    pub thread: String,
    /// Resident memory as the span began, over all of them.
    #[serde(default)]
    pub rss_begun_bytes: u64,
    /// The same as it ended.
    #[serde(default)]
    pub rss_bytes: u64,
}

/// Use of a browser in a span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrowserUse {
    /// Length of the span in which CPU time was counted.
    pub span_us: u64,
    /// Cores that it may run on.
    pub cores: usize,
    /// Each kind that there was.
    pub processes: Vec<KindUse>,
    /// CPU time of others on its cores, as a share of all of their time; without the subject's.
    pub others_share: f64,
    /// CPU time of the lab itself, which is none of these others: it reads what an observed tab tells.
    #[serde(default)]
    pub lab_cpu_ns: u64,
    /// Tasks of the pages' main threads that took 50 ms or more, over all tabs.
    pub long_tasks: u64,
    /// How long these took, within the span.
    pub long_task_us: u64,
    /// JavaScript's heap in use at the end, over all tabs; without workers.
    pub heap_bytes: u64,
    /// Bytes that the tabs received, as the pages see them: text of messages, or bytes of bodies.
    pub message_bytes: u64,
    /// In live pages: from when a message was due to when its newest row was painted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub painted: Option<Painted>,
    /// In live pages: from an input to when a listener of the page ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Delays>,
    /// Bytes per second that the subject sent by its own count, between two answers around the span; where it counts.
    pub sent_bytes_per_s: Option<f64>,
    /// Events per second that it made by its own count, each for every connection.
    pub published_per_s: Option<f64>,
}

/// How late live pages were with the messages of a span whose rows were painted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Painted {
    /// Messages whose newest row was painted, or a newer one.
    pub messages: u64,
    /// From when they were due to when they were received.
    pub received: Delays,
    /// From then to when the page had handled them.
    pub handled: Delays,
    /// From then to when the frame with their newest row, or a newer one, had been painted.
    pub painted: Delays,
    /// From when they were due to then.
    pub in_all: Delays,
}

impl BrowserUse {
    /// CPU of a kind, in cores.
    pub fn cpu(&self, kind: ProcessKind) -> f64 {
        let of_kind = self.processes.iter().filter(|process| process.kind == kind);
        of_kind.map(|process| process.cpu_ns).sum::<u64>() as f64 / self.span_ns()
    }

    /// Resident memory of a kind, as the span began and as it ended; `None` where nobody looked.
    pub fn rss_bytes(&self, kind: ProcessKind) -> Option<[u64; 2]> {
        let of_kind =
            self.processes.iter().find(|process| process.kind == kind && process.rss_bytes > 0)?;
        Some([of_kind.rss_begun_bytes, of_kind.rss_bytes])
    }

    /// CPU of all its processes, in cores.
    pub fn cpu_in_all(&self) -> f64 {
        self.cpu_ns() as f64 / self.span_ns()
    }

    /// CPU time of all its processes.
    pub fn cpu_ns(&self) -> u64 {
        self.processes.iter().map(|process| process.cpu_ns).sum()
    }

    /// Takes the CPU time of the subject, which shares its cores, out of that of others.
    pub fn leave_out(&mut self, subject_cpu_ns: u64) {
        let share = subject_cpu_ns as f64 / self.span_ns() / self.cores.max(1) as f64;
        self.others_share = (self.others_share - share).max(0.0);
    }

    /// The thread that used most, and its share of a core.
    pub fn busiest(&self) -> Option<(String, f64)> {
        let most = self.processes.iter().max_by_key(|process| process.thread_cpu_ns_max)?;
        let name = format!("the {}’s thread {}", most.kind.name(), most.thread);
        Some((name, most.thread_cpu_ns_max as f64 / self.span_ns()))
    }

    /// Share of the span that long tasks took, over all tabs: with several it may be more than 1.
    pub fn long_task_share(&self) -> f64 {
        self.long_task_us as f64 / self.span_us.max(1) as f64
    }

    fn span_ns(&self) -> f64 {
        self.span_us.max(1) as f64 * 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_on_the_same_cores_is_not_one_of_the_others() {
        let span = BrowserUse { span_us: 1000, cores: 2, ..BrowserUse::default() };
        let of = |others_share| BrowserUse { others_share, ..span.clone() };
        for (share, cpu_ns, left) in [(0.5, 900_000, 0.05), (0.3, 900_000, 0.0)] {
            let mut used = of(share);
            used.leave_out(cpu_ns);
            assert!((used.others_share - left).abs() < 1e-9, "{used:?}");
        }
    }
}
