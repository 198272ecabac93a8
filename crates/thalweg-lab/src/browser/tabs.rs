//! The tabs of a sample, and the sum of their reports.

use super::process::RunningBrowser;
use super::processes::Snapshot;
use super::tab::Tab;
use super::timeline::{PageArrivals, PagePoint, arrivals, latency};
use crate::load_generator::{Figures, Interrupted, Load, Observer, monotonic_us, process_cpu_ns};
use crate::measure::{BrowserUse, CoreTimes, Counts, Delays, Latency, Painted, core_times};
use crate::scenario::{Consumer, Program, Transport};
use crate::subject::{self, topic_name};
use serde::Deserialize;
use std::ops::ControlFlow;
use std::thread::sleep;
use std::time::Duration;

/// Interval of progress reports to the observer, µs.
const PROGRESS_EVERY_US: u64 = 100_000;
/// Interval of inputs to a live page, µs.
const INPUT_EVERY_US: u64 = 50_000;
/// A page's points begin this long before a span, so that at least one precedes the span.
const BEFORE_MS: f64 = 100.0;

pub(super) struct Tabs {
    process: RunningBrowser,
    pub(super) all: Vec<Tab>,
    cores: Vec<usize>,
    version: String,
}

pub(super) struct Edge {
    pub(super) at_us: u64,
    snapshot: Snapshot,
    cores: CoreTimes,
    lab_cpu_ns: u64,
    own: Own,
}

/// The subject's own counts, if it has any.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// Middle of the request for the counts.
    at_us: u64,
    sent_bytes: Option<u64>,
    published: Option<u64>,
    /// Connections with subscriptions.
    connections: Option<u64>,
    /// Those that are streams of HTTP/2, WebSockets included.
    streams: Option<u64>,
}

/// Report of the page or worker that has the connections.
#[derive(Debug, Deserialize)]
struct Report {
    points: Vec<PagePoint>,
    counts: PageCounts,
    why: String,
    #[serde(default)]
    way: String,
    looks: Vec<Look>,
    /// In a live page: time and delay of each input, ms.
    #[serde(default)]
    inputs: Vec<(f64, f64)>,
}

/// Times of a message's newest row in a live page, ms: painted, due (on the machine's clock), received and handled.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Look(f64, f64, f64, f64);

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct PageCounts {
    delivered: u64,
    missing: u64,
    duplicated: u64,
    corrupt: u64,
    gaps: u64,
    cut: u64,
}

#[derive(Debug, Deserialize)]
struct Page {
    heap: f64,
    /// Start and duration of each long task, ms.
    tasks: Vec<(f64, f64)>,
    protocol: String,
}

#[derive(Debug, Default)]
pub(super) struct TabReports {
    pub(super) came: PageArrivals,
    pub(super) latency: Latency,
    /// Since the connections were opened.
    pub(super) counts: Counts,
    /// The reason why a connection ended unexpectedly.
    pub(super) why: Option<String>,
    /// In live pages: due to received, received to handled, handled to painted, and the total.
    painted: [Latency; 4],
    /// From an input to its listener.
    input: Latency,
    pub(super) long_tasks: u64,
    pub(super) long_task_us: u64,
    pub(super) heap_bytes: u64,
    /// Protocol that loaded the page.
    pub(super) protocol: String,
    way: String,
}

impl Tabs {
    pub(super) fn open(
        mut process: RunningBrowser,
        load: &Load<'_>,
        cores: Vec<usize>,
    ) -> anyhow::Result<Tabs> {
        let scheme = if load.settings.tls { "https" } else { "http" };
        let origin = format!("{scheme}://{}", load.address);
        let version = process.version()?;
        let mut all = Vec::new();
        let settings = load.settings;
        for _ in 0..settings.tabs {
            let cdp = &mut process.cdp;
            let tab = match settings.consumer {
                Consumer::LivePage | Consumer::LiveChart => {
                    Tab::open_live(cdp, &origin, &topic_name(0), settings.consumer)?
                }
                _ => Tab::open(cdp, &origin, settings.devtools)?,
            };
            if settings.throttle > 1 {
                tab.slow_down(cdp, settings.throttle)?;
            }
            all.push(tab);
        }
        Ok(Tabs { process, all, cores, version })
    }

    /// Evaluates in all tabs at the same time; `expression` gets the number of the tab.
    pub(super) fn each(&mut self, expression: impl Fn(usize) -> String) -> anyhow::Result<()> {
        let mut asked = Vec::new();
        for (number, tab) in self.all.iter().enumerate() {
            asked.push(tab.ask(&mut self.process.cdp, &expression(number))?);
        }
        for asked in &asked {
            Tab::answer::<serde_json::Value>(&mut self.process.cdp, asked)?;
        }
        Ok(())
    }

    pub(super) fn first<T: serde::de::DeserializeOwned>(
        &mut self,
        expression: &str,
    ) -> anyhow::Result<T> {
        self.all[0].evaluate(&mut self.process.cdp, expression)
    }

    /// Reads the counts at an edge of a span; `observe` looks at the subject right next to it.
    pub(super) fn edge(&mut self, load: &Load<'_>, is_begin: bool, observe: impl FnOnce()) -> Edge {
        let pid = self.process.pid();
        // The subject's answer is no part of the span.
        let before = if is_begin { Own::ask(load) } else { Own::default() };
        let look = || {
            let (snapshot, cores) = (Snapshot::new(pid), core_times(&self.cores));
            (snapshot, cores, process_cpu_ns(), monotonic_us())
        };
        let (snapshot, cores, lab_cpu_ns, at_us) = if is_begin {
            observe();
            look()
        } else {
            let looked = look();
            observe();
            looked
        };
        let own = if is_begin { before } else { Own::ask(load) };
        Edge { at_us, snapshot, cores, lab_cpu_ns, own }
    }

    /// Returns the sum of all tabs' reports for this time.
    pub(super) fn reports(&mut self, from_us: u64, to_us: u64) -> anyhow::Result<TabReports> {
        let mut reports = TabReports::default();
        let cdp = &mut self.process.cdp;
        let mut asked = Vec::new();
        for tab in &self.all {
            let from_ms = tab.page_ms(from_us);
            let report = tab.ask(cdp, &format!("lab.report({})", from_ms - BEFORE_MS))?;
            asked.push((report, tab.ask(cdp, &format!("lab.page({from_ms})"))?));
        }
        for (tab, (report, page)) in self.all.iter().zip(&asked) {
            let (from_ms, to_ms) = (tab.page_ms(from_us), tab.page_ms(to_us));
            let report: Option<Report> = Tab::answer(cdp, report)?;
            let page: Page = Tab::answer(cdp, page)?;
            if let Some(report) = report {
                reports.report(report, from_ms, to_ms, tab.ahead_us);
            }
            reports.page(page, from_ms, to_ms);
        }
        Ok(reports)
    }

    pub(super) fn used(&self, begin: &Edge, end: &Edge, reports: &TabReports) -> BrowserUse {
        let span_us = end.at_us - begin.at_us;
        let processes = end.snapshot.since(&begin.snapshot);
        let own_us = end.own.at_us.saturating_sub(begin.own.at_us).max(1);
        let per_s = |of: fn(&Own) -> Option<u64>| {
            Some(of(&end.own)?.saturating_sub(of(&begin.own)?) as f64 * 1e6 / own_us as f64)
        };
        let mut used = BrowserUse {
            span_us,
            cores: self.cores.len(),
            processes,
            others_share: 0.0,
            lab_cpu_ns: end.lab_cpu_ns - begin.lab_cpu_ns,
            long_tasks: reports.long_tasks,
            long_task_us: reports.long_task_us,
            heap_bytes: reports.heap_bytes,
            message_bytes: reports.came.bytes as u64,
            painted: reports.painted(),
            input: Delays::new(&reports.input),
            sent_bytes_per_s: per_s(|own| own.sent_bytes),
            published_per_s: per_s(|own| own.published),
        };
        let busy_s = end.cores.busy_s - begin.cores.busy_s;
        let all_s = span_us as f64 / 1e6 * self.cores.len().max(1) as f64;
        let known_ns = used.cpu_ns() + used.lab_cpu_ns;
        used.others_share = ((busy_s - known_ns as f64 / 1e9) / all_s).max(0.0);
        used
    }

    /// Waits until this time; meanwhile sends input to live pages.
    pub(super) fn wait_until(
        &mut self,
        until_us: u64,
        load: &Load<'_>,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<()> {
        let connections = load.settings.connections;
        if !load.settings.consumer.is_page() {
            return wait_until(until_us, observer, connections);
        }
        // The delay of an answer is the measurement, so answers are awaited only at the end.
        let mut given = Vec::new();
        let mut next_us = monotonic_us();
        while next_us < until_us {
            let is_press = (given.len() / self.all.len()).is_multiple_of(2);
            for tab in &self.all {
                given.push(tab.input(&mut self.process.cdp, is_press)?);
            }
            next_us += INPUT_EVERY_US;
            wait_until(next_us.min(until_us), observer, connections)?;
        }
        given.iter().try_for_each(|asked| self.process.cdp.answer(asked).map(drop))
    }

    /// Returns negotiated values and the browser's version. The protocol of the page is not that of its
    /// WebSockets, for which a browser may open other connections: the subject counts those that are streams.
    pub(super) fn facts(&self, reports: &TabReports, end: &Edge) -> Vec<(String, String)> {
        let over_http_2 = end.own.over_http_2().unwrap_or_default();
        let facts = [
            ("browser", &self.version),
            ("HTTP of the page", &reports.protocol),
            ("connections over HTTP/2", &over_http_2),
            ("the live page receives", &reports.way),
        ];
        let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
        known.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    pub(super) fn stop(self) {
        self.process.stop();
    }
}

impl TabReports {
    fn painted(&self) -> Option<Painted> {
        let [received, handled, painted, in_all] = &self.painted;
        Some(Painted {
            messages: in_all.buckets().map(|(_, count)| count).sum(),
            received: Delays::new(received)?,
            handled: Delays::new(handled)?,
            painted: Delays::new(painted)?,
            in_all: Delays::new(in_all)?,
        })
    }

    fn report(&mut self, report: Report, from_ms: f64, to_ms: f64, ahead_us: f64) {
        let Report { points, counts, why, way, looks, inputs } = report;
        self.way = way;
        let one = arrivals(&points, from_ms, to_ms);
        self.came.events += one.events;
        self.came.bytes += one.bytes;
        self.came.messages += one.messages;
        latency(&points, from_ms, to_ms, ahead_us, &mut self.latency);
        for Look(painted_ms, due_ms, came_ms, handled_ms) in looks {
            if (from_ms..to_ms).contains(&painted_ms) {
                let due_ms = due_ms - ahead_us / 1000.0;
                let each = [
                    came_ms - due_ms,
                    handled_ms - came_ms,
                    painted_ms - handled_ms,
                    painted_ms - due_ms,
                ];
                for (latency, ms) in self.painted.iter_mut().zip(each) {
                    latency.record((ms * 1000.0).max(0.0) as u64, 1);
                }
            }
        }
        for (_, late_ms) in inputs.iter().filter(|(at_ms, _)| (from_ms..to_ms).contains(at_ms)) {
            self.input.record((late_ms * 1000.0).max(0.0) as u64, 1);
        }
        self.counts = self.counts.and(&counts.into());
        self.why = self.why.take().or(Some(why).filter(|why| !why.is_empty()));
    }

    fn page(&mut self, page: Page, from_ms: f64, to_ms: f64) {
        for (at_ms, lasts_ms) in page.tasks {
            let within_ms = (at_ms + lasts_ms).min(to_ms) - at_ms.max(from_ms);
            if within_ms > 0.0 {
                self.long_tasks += 1;
                self.long_task_us += (within_ms * 1000.0) as u64;
            }
        }
        self.heap_bytes += page.heap as u64;
        self.protocol = page.protocol;
    }
}

impl Own {
    /// Requests the counts of a server that has some.
    fn ask(load: &Load<'_>) -> Own {
        if !matches!(load.program, Program::Thalweg | Program::Build(_)) {
            return Own::default();
        }
        let asked_us = monotonic_us();
        let Ok(metrics) = subject::get(load.address, "/metrics", load.settings.tls) else {
            return Own::default();
        };
        let at_us = asked_us.midpoint(monotonic_us());
        Own { at_us, ..Own::read(&metrics, load.settings.transport) }
    }

    fn read(metrics: &str, transport: Transport) -> Own {
        // The gauge also counts the responses to long polls, over any version of HTTP.
        let has_streams = transport != Transport::LongPolling;
        Own {
            at_us: 0,
            sent_bytes: total(metrics, "thalweg_sent_bytes_total{"),
            published: total(metrics, "thalweg_events_published_total{"),
            connections: total(metrics, "thalweg_connections{"),
            streams: total(metrics, "thalweg_piped_connections{").filter(|_| has_streams),
        }
    }

    /// Returns `3 of 3`: connections over HTTP/2, and all; `None` if that is not known.
    fn over_http_2(&self) -> Option<String> {
        Some(format!("{} of {}", self.streams?, self.connections?))
    }
}

fn total(metrics: &str, name: &str) -> Option<u64> {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    let values: Vec<u64> = lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

impl From<PageCounts> for Counts {
    fn from(it: PageCounts) -> Counts {
        let PageCounts { delivered, missing, duplicated, corrupt, gaps, cut } = it;
        Counts { delivered, missing, duplicated, corrupt, gaps, cut, ..Counts::default() }
    }
}

/// Waits until this time; the observer gets progress, and may end the wait.
pub(super) fn wait_until(
    until_us: u64,
    observer: &mut dyn Observer,
    connections: u32,
) -> anyhow::Result<()> {
    let figures = Figures { connections: connections as usize, ..Figures::default() };
    loop {
        if observer.progress(figures) == ControlFlow::Break(()) {
            return Err(Interrupted.into());
        }
        let left_us = until_us.saturating_sub(monotonic_us());
        if left_us == 0 {
            return Ok(());
        }
        sleep(Duration::from_micros(left_us.min(PROGRESS_EVERY_US)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_shards() {
        let text =
            "# HELP a_total x\na_total{shard=\"0\"} 3\na_total{shard=\"1\"} 4\nb_total{} 9\n";
        assert_eq!((total(text, "a_total{"), total(text, "c_total{")), (Some(7), None));
    }

    #[test]
    fn the_subject_counts_connections_over_http_2() {
        let text = "thalweg_connections{shard=\"0\"} 2\nthalweg_connections{shard=\"1\"} 3\n\
                    thalweg_piped_connections{shard=\"0\"} 2\nthalweg_piped_connections{shard=\"1\"} 1\n";
        let over_http_2 = |text, transport| Own::read(text, transport).over_http_2();
        assert_eq!(over_http_2(text, Transport::Websocket).as_deref(), Some("3 of 5"));
        assert_eq!(over_http_2(text, Transport::LongPolling), None);
        assert_eq!(over_http_2("", Transport::Websocket), None);
    }

    #[test]
    fn long_tasks_count_as_far_as_they_lie_in_the_span() {
        let mut reports = TabReports::default();
        let tasks = vec![(900.0, 60.0), (980.0, 60.0), (1200.0, 100.0), (1950.0, 80.0)];
        let page = Page { heap: 5.0, tasks, protocol: "h2".to_owned() };
        reports.page(page, 1000.0, 2000.0);
        assert_eq!((reports.long_tasks, reports.long_task_us, reports.heap_bytes), (3, 190_000, 5));
    }
}
