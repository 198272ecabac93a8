//! Reports progress to the observer, about ten times a second.

use super::socket::now_us;
use super::span_statistics::SpanStatistics;
use super::{Figures, Interrupted, Observer, PROGRESS_EVERY_US};
use std::ops::ControlFlow;

/// Time of the last report.
#[derive(Debug, Default)]
pub(super) struct ProgressReporter {
    reported_us: u64,
}

impl ProgressReporter {
    /// Returns whether the report can wait a little longer.
    pub(super) fn can_wait(&self, now_us: u64) -> bool {
        now_us - self.reported_us < 2 * PROGRESS_EVERY_US
    }

    /// Reports, if it is time to; fails if the observer ends the sample. `figures` gets the time.
    #[inline]
    pub(super) fn report<'a>(
        &mut self,
        observer: &mut dyn Observer,
        figures: impl FnOnce(u64) -> Figures<'a>,
    ) -> anyhow::Result<()> {
        let now_us = now_us();
        if now_us - self.reported_us < PROGRESS_EVERY_US {
            return Ok(());
        }
        self.reported_us = now_us;
        match observer.progress(figures(now_us)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Interrupted.into()),
        }
    }
}

impl<'a> Figures<'a> {
    /// Returns the figures of a span that began at `begun_us`, or has not begun (0).
    pub(super) fn from_span(
        connections: usize,
        statistics: &'a SpanStatistics,
        begun_us: u64,
        now_us: u64,
    ) -> Figures<'a> {
        if begun_us == 0 {
            return Figures { connections, ..Figures::default() };
        }
        let events = statistics.traffic.events;
        Figures {
            connections,
            events,
            events_per_s: events as f64 * 1e6 / (now_us - begun_us).max(1) as f64,
            latency: Some(&statistics.latency),
            ..Figures::default()
        }
    }
}
