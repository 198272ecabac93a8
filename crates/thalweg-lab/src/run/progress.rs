//! Progress of the run: a bar in a terminal, a line per cell elsewhere, or quiet.

use super::eta::Eta;
use crate::load_generator::Figures;
use crate::measure::Sample;
use crate::measure::comparison::Comparison;
use crate::report::{current_comparisons, short};
use crate::scenario::{Plan, Slot};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use thalweg_terminal::say;

#[derive(Debug)]
pub(super) struct Progress {
    is_quiet: bool,
    bar: Option<ProgressBar>,
    eta: Eta,
    begun: Instant,
    /// The current start, and the known figures of its cell so far.
    label: String,
    found: Vec<String>,
}

impl Progress {
    /// Creates the progress of these slots of a plan.
    pub(super) fn new(plan: &Plan, slots: &[Slot], is_quiet: bool) -> Progress {
        let eta = Eta::new(plan, slots);
        let is_drawn = !is_quiet && std::io::stderr().is_terminal();
        let bar = is_drawn.then(|| ProgressBar::new(eta.cells() as u64).with_style(style()));
        if !is_quiet {
            let has_budget = plan.parts.iter().any(|part| part.budget_s.is_some());
            let word = if has_budget { "at most" } else { "about" };
            let left = clock(eta.left(Duration::ZERO));
            let cells = if eta.cells() == 1 { "cell" } else { "cells" };
            say(format_args!("{}: {} {cells}, {word} {left}", plan.title, eta.cells()));
        }
        let (begun, label) = (Instant::now(), String::new());
        Progress { is_quiet, bar, eta, begun, label, found: Vec::new() }
    }

    pub(super) fn begin_cell(&mut self, plan: &Plan, slot: Slot) {
        self.begun = Instant::now();
        if self.bar.is_none() {
            let left = clock(self.eta.left(Duration::ZERO));
            self.say(&format!(
                "{} · {} · {left} left",
                plan.part(slot).name,
                plan.cell(slot).label
            ));
        }
    }

    pub(super) fn begin_start(&mut self, plan: &Plan, slot: Slot) {
        let (part, cell) = (plan.part(slot), plan.cell(slot));
        let start = slot.repeat + 1;
        self.label = match part.budget_s {
            Some(_) => format!("{} · {} · start {start}", part.name, cell.label),
            None => format!("{} · {} · {start}/{}", part.name, cell.label, part.repeats),
        };
        self.show("starts");
    }

    pub(super) fn figures(&mut self, figures: Figures<'_>) {
        self.show(&described(figures));
    }

    /// Records the end of a start. `samples` are all samples of its cell so far.
    pub(super) fn end_start(&mut self, plan: &Plan, slot: Slot, samples: &[Sample]) {
        let (part, cell) = (plan.part(slot), plan.cell(slot));
        let all: Vec<&Sample> = samples.iter().collect();
        self.found =
            current_comparisons(part, slot.cell, &all).iter().map(comparison_in_words).collect();
        let own = samples.iter().filter(|sample| sample.start() == slot.repeat);
        for sample in own.filter(|sample| !sample.verdict.is_valid()) {
            let (subject, verdict) = (&cell.subjects[sample.subject].name, &sample.verdict);
            self.say(&format!("{} · {} · {subject}: {verdict}", part.name, cell.label));
        }
        self.show("done");
    }

    pub(super) fn end_cell(&mut self) {
        self.eta.end_cell(self.begun.elapsed());
        for found in std::mem::take(&mut self.found) {
            self.say(&format!("  {found}"));
        }
    }

    /// Ends the progress; the last cell may be incomplete.
    pub(super) fn finish(mut self) {
        self.end_cell();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.is_quiet => {}
            None => say(line),
        }
    }

    fn show(&self, figure: &str) {
        if let Some(bar) = &self.bar {
            let left = clock(self.eta.left(self.begun.elapsed()));
            let found = self.found.join(", ");
            let cells = bar.length().unwrap_or(0).saturating_sub(self.eta.cells() as u64);
            bar.set_position(cells);
            bar.set_message(format!("{} · {figure} · {left} left · {found}", self.label));
        }
    }
}

/// Returns a subject's comparison so far in words.
fn comparison_in_words(found: &Comparison) -> String {
    let Comparison { subject, baseline, ratio, starts, .. } = found;
    let starts = if *starts == 1 { "1 start".to_owned() } else { format!("{starts} starts") };
    let (interval, words) = (found.interval(), found.in_words());
    format!("{subject}: {ratio:.2} × {baseline}{interval} after {starts}, {words}")
}

fn described(figures: Figures<'_>) -> String {
    let flow =
        (figures.events_per_s > 0.0).then(|| format!("{} events/s", short(figures.events_per_s)));
    let p99_us = figures.latency.and_then(|latency| latency.quantile_us(0.99));
    let p99 = p99_us.map(|us| format!("p99 {} µs", short(us as f64)));
    let trip = figures.round_trip_us.map(|us| format!("round trip {} µs", short(us)));
    let described: Vec<String> = [flow, p99, trip].into_iter().flatten().collect();
    match described.is_empty() {
        true => format!("{} connections", figures.connections),
        false => described.join(", "),
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{pos}/{len} {bar:20} {wide_msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Latency;

    #[test]
    fn the_figure_as_it_forms() {
        let connected = Figures { connections: 812, ..Figures::default() };
        assert_eq!(described(connected), "812 connections");
        let mut latency = Latency::default();
        latency.record(340, 1);
        let flowing = Figures { events_per_s: 1_234_567.0, latency: Some(&latency), ..connected };
        assert_eq!(described(flowing), "1.23 M events/s, p99 340 µs");
        let talking = Figures { events_per_s: 900.0, round_trip_us: Some(61.23), ..connected };
        assert_eq!(described(talking), "900 events/s, round trip 61.2 µs");
        assert_eq!(clock(Duration::from_secs(125)), "2:05");
    }
}
