//! Subscribers in tabs. The subject broadcasts by itself.

use super::tabs::{Tabs, wait_until};
use crate::load_generator::{Load, Moment, Observer, Outcome, Session, monotonic_us};
use crate::measure::{Counts, Negotiated, Reported, Traffic, WarmUp};
use crate::subject::topic_name;
use serde_json::json;
use std::time::Duration;

/// Time to settle after a long look of the observer, µs.
const CALM_US: u64 = 20_000;
/// Interval at which the observer is asked whether the span may begin, µs.
const MOMENT_US: u64 = 5000;

pub(super) struct BrowserBroadcast<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    tabs: Tabs,
    open_us: u64,
    /// Counts of the ledger that earlier spans have reported.
    reported: Reported,
}

impl<'a> BrowserBroadcast<'a> {
    /// Opens all connections and warms up subject and tabs.
    pub(super) fn open(
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
        tabs: Tabs,
    ) -> anyhow::Result<BrowserBroadcast<'a>> {
        let load = load.clone();
        let mut broadcast =
            BrowserBroadcast { load, observer, tabs, open_us: 0, reported: Reported::default() };
        broadcast.connect()?;
        let BrowserBroadcast { load, observer, .. } = &mut broadcast;
        observer.at(Moment::Open);
        let loaded_us = monotonic_us().max(load.start_us);
        let warm_us = loaded_us + load.warm_up.as_micros() as u64;
        wait_until(warm_us, *observer, load.settings.connections)?;
        while !observer.may_begin() {
            wait_until(monotonic_us() + MOMENT_US, *observer, load.settings.connections)?;
        }
        Ok(broadcast)
    }

    fn connect(&mut self) -> anyhow::Result<()> {
        let settings = self.load.settings;
        // A live page opens its connection by itself.
        if settings.consumer.is_page() {
            return Ok(());
        }
        let begun_us = monotonic_us();
        let (tabs, all) = (settings.tabs, settings.connections);
        let dialect = self.load.program.dialect();
        self.tabs.each(|number| {
            let number = number as u32;
            let wanted = json!({
                "transport": settings.transport,
                "dialect": dialect,
                "topic": topic_name(0),
                "connections": all / tabs + u32::from(number < all % tabs),
                "consumer": settings.consumer,
                "worker": settings.worker,
            });
            format!("lab.open({wanted})")
        })?;
        self.open_us = monotonic_us() - begun_us;
        Ok(())
    }
}

impl Session for BrowserBroadcast<'_> {
    fn span(&mut self, time: Duration) -> anyhow::Result<Outcome> {
        let BrowserBroadcast { load, observer, tabs, reported, .. } = self;
        let connections = load.settings.connections;
        observer.at(Moment::Warm);
        wait_until(monotonic_us() + CALM_US, *observer, connections)?;
        let begin = tabs.edge(load, true, || observer.at(Moment::Begin));
        tabs.wait_until(begin.at_us + time.as_micros() as u64, load, *observer)?;
        let end = tabs.edge(load, false, || observer.at(Moment::End));
        let reports = tabs.reports(begin.at_us, end.at_us)?;
        observer.at(Moment::Over { stopped_ports: &[] });
        let traffic = Traffic {
            events: reports.came.events.round() as u64,
            envelopes: reports.came.messages.round() as u64,
            wire_bytes: reports.came.bytes.round() as u64,
            ..Traffic::default()
        };
        Ok(Outcome {
            traffic,
            browser: Some(tabs.used(&begin, &end, &reports)),
            negotiated: Negotiated { facts: tabs.facts(&reports, &end) },
            failure: reports.why.map(|why| format!("the tab says: {why}")),
            ledger: reported.new_in(reports.counts),
            latency: reports.latency,
            span_us: end.at_us - begin.at_us,
            open_us: self.open_us,
            warm_up: WarmUp::default(),
            ..Outcome::default()
        })
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn close(mut self: Box<Self>) -> anyhow::Result<Counts> {
        let now_us = monotonic_us();
        let reports = self.tabs.reports(now_us, now_us)?;
        let counts = self.reported.new_in(reports.counts);
        self.tabs.stop();
        Ok(counts)
    }
}
