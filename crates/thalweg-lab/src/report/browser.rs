//! Resources of a browser that was the load.

use crate::measure::statistics::{Estimate, estimate, median};
use crate::measure::{Delays, Painted, ProcessKind, Sample};
use serde::Serialize;

/// Resources of a browser: medians of samples. CPU is in cores.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BrowserFigures {
    /// CPU of all its processes per event.
    pub us_per_event: Option<Estimate>,
    /// CPU of all its processes.
    pub cpu: Option<Estimate>,
    /// CPU of the tabs' processes.
    pub tab_cpu: Option<f64>,
    /// CPU of the network process.
    pub network_cpu: Option<f64>,
    /// CPU of the browser process.
    pub browser_cpu: Option<f64>,
    /// CPU of the GPU process.
    pub gpu_cpu: Option<f64>,
    /// CPU of all others.
    pub other_cpu: Option<f64>,
    /// CPU of the subject.
    pub subject_cpu: Option<Estimate>,
    /// Tasks of 50 ms or more of the pages' main threads.
    pub long_tasks_per_s: Option<f64>,
    /// Share of the time that these took, over all tabs.
    pub long_task_share: Option<f64>,
    /// JavaScript's heap in use, over all tabs, without workers.
    pub heap_bytes: Option<f64>,
    /// Resident memory of the tabs' processes as the span ended.
    pub tab_rss_bytes: Option<f64>,
    /// Growth of that since the span began; negative if it shrank.
    pub tab_rss_grown_bytes: Option<f64>,
    /// In live pages, µs: from due to received, half and 99 of 100 messages.
    pub received_us: Option<(f64, f64)>,
    /// From received to handled.
    pub handled_us: Option<(f64, f64)>,
    /// From handled to painted.
    pub painted_us: Option<(f64, f64)>,
    /// From an input to its listener in live pages, µs: half, 95 and 99 of 100.
    pub input_us: Option<[f64; 3]>,
}

impl BrowserFigures {
    /// Returns the figures; `None` if no browser was the load.
    pub(super) fn new(samples: &[&Sample]) -> Option<BrowserFigures> {
        samples.iter().find(|sample| sample.browser.is_some())?;
        let values = |of: &dyn Fn(&Sample) -> Option<f64>| -> Vec<f64> {
            samples.iter().filter_map(|sample| of(sample)).collect()
        };
        let delays = |of: fn(&Painted) -> Delays| {
            let of = |sample: &Sample| sample.browser.as_ref()?.painted.as_ref().map(of);
            let p50 = median(&values(&|sample| Some(of(sample)?.p50_us as f64)))?;
            Some((p50, median(&values(&|sample| Some(of(sample)?.p99_us as f64)))?))
        };
        let input = |of: fn(&Delays) -> u64| {
            median(&values(&|sample| Some(of(sample.browser.as_ref()?.input.as_ref()?) as f64)))
        };
        let rss = |sample: &Sample| sample.browser.as_ref()?.rss_bytes(ProcessKind::Tab);
        let cpu = |kind| median(&values(&|sample| Some(sample.browser.as_ref()?.cpu(kind))));
        Some(BrowserFigures {
            us_per_event: estimate(&values(&Sample::browser_us_per_event)),
            cpu: estimate(&values(&|sample| Some(sample.browser.as_ref()?.cpu_in_all()))),
            tab_cpu: cpu(ProcessKind::Tab),
            network_cpu: cpu(ProcessKind::Network),
            browser_cpu: cpu(ProcessKind::Browser),
            gpu_cpu: cpu(ProcessKind::Gpu),
            other_cpu: cpu(ProcessKind::Other),
            subject_cpu: estimate(&values(&|sample| {
                Some(sample.subject_cpu_ns as f64 / 1000.0 / sample.span_us.max(1) as f64)
            })),
            long_tasks_per_s: median(&values(&|sample| {
                Some(
                    sample.browser.as_ref()?.long_tasks as f64 * 1e6 / sample.span_us.max(1) as f64,
                )
            })),
            long_task_share: median(&values(&|sample| {
                Some(sample.browser.as_ref()?.long_task_share())
            })),
            heap_bytes: median(&values(&|sample| Some(sample.browser.as_ref()?.heap_bytes as f64))),
            tab_rss_bytes: median(&values(&|sample| Some(rss(sample)?[1] as f64))),
            tab_rss_grown_bytes: median(&values(&|sample| {
                let [begun, ended] = rss(sample)?;
                Some(ended as f64 - begun as f64)
            })),
            received_us: delays(|painted| painted.received),
            handled_us: delays(|painted| painted.handled),
            painted_us: delays(|painted| painted.painted),
            input_us: input(|delays| delays.p50_us)
                .zip(input(|delays| delays.p95_us))
                .zip(input(|delays| delays.p99_us))
                .map(|((p50, p95), p99)| [p50, p95, p99]),
        })
    }
}
