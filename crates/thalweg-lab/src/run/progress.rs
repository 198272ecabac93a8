//! Where the run stands: a bar in a terminal, a line per cell elsewhere, nothing
//! for those who want none.

use super::{reckoning::Reckoning, say};
use crate::measure::Sample;
use crate::report::short;
use crate::scenario::{Plan, Slot};
use crate::swarm::Figures;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Progress {
    is_quiet: bool,
    bar: Option<ProgressBar>,
    reckoning: Reckoning,
    done: u64,
    begun: Instant,
    label: String,
    last_cell: Option<(usize, usize)>,
}

impl Progress {
    pub(super) fn new(plan: &Plan, slots: &[Slot], is_quiet: bool) -> Progress {
        let count = slots.len() as u64;
        let is_drawn = !is_quiet && std::io::stderr().is_terminal();
        let bar = is_drawn.then(|| ProgressBar::new(count).with_style(style()));
        let reckoning = Reckoning::new(plan, slots);
        if !is_quiet {
            let left = clock(reckoning.left(Duration::ZERO));
            let samples = if count == 1 { "sample" } else { "samples" };
            say(format_args!("{}: {count} {samples}, about {left}", plan.title));
        }
        Progress {
            is_quiet,
            bar,
            reckoning,
            done: 0,
            begun: Instant::now(),
            label: String::new(),
            last_cell: None,
        }
    }

    /// Of a sample that is taken beside the one that is told of.
    pub(super) fn silent() -> Progress {
        Progress {
            is_quiet: true,
            bar: None,
            reckoning: Reckoning::default(),
            done: 0,
            begun: Instant::now(),
            label: String::new(),
            last_cell: None,
        }
    }

    pub(super) fn begin(&mut self, plan: &Plan, slot: Slot) {
        let (part, cell) = (plan.part(slot), plan.cell(slot));
        self.begun = Instant::now();
        self.label = format!(
            "{} · {} · {} · {}/{}",
            part.name,
            cell.label,
            plan.subject(slot).name,
            slot.repeat + 1,
            part.repeats
        );
        let cell_key = (slot.part, slot.cell);
        if self.bar.is_none() && self.last_cell != Some(cell_key) {
            let left = clock(self.reckoning.left(Duration::ZERO));
            self.say(&format!("{} · {} · {left} left", part.name, cell.label));
        }
        self.last_cell = Some(cell_key);
        self.show("starts");
    }

    pub(super) fn figures(&mut self, figures: Figures) {
        self.show(&said(figures));
    }

    pub(super) fn end(&mut self, plan: &Plan, sample: &Sample) {
        self.reckoning.took(self.begun.elapsed());
        self.begun = Instant::now();
        self.done += 1;
        self.show("done");
        if !sample.verdict.is_valid() {
            let slot = Slot {
                part: sample.part,
                cell: sample.cell,
                subject: sample.subject,
                repeat: sample.repeat,
            };
            self.say(&format!(
                "{} · {} · {}: {}",
                plan.part(slot).name,
                plan.cell(slot).label,
                plan.subject(slot).name,
                sample.verdict
            ));
        }
    }

    pub(super) fn finish(&mut self) {
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
            let left = clock(self.reckoning.left(self.begun.elapsed()));
            bar.set_position(self.done);
            bar.set_message(format!("{} · {figure} · {left} left", self.label));
        }
    }
}

/// How it goes, in a few words.
fn said(figures: Figures) -> String {
    let flow =
        (figures.events_per_s > 0.0).then(|| format!("{} events/s", short(figures.events_per_s)));
    let p99 = figures.p99_us.map(|us| format!("p99 {} µs", short(us as f64)));
    let trip = figures.round_trip_us.map(|us| format!("round trip {} µs", short(us)));
    let said: Vec<String> = [flow, p99, trip].into_iter().flatten().collect();
    match said.is_empty() {
        true => format!("{} connections", figures.connections),
        false => said.join(", "),
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

    #[test]
    fn the_figure_as_it_forms() {
        let standing = Figures { connections: 812, ..Figures::default() };
        assert_eq!(said(standing), "812 connections");
        let flowing = Figures { events_per_s: 1_234_567.0, p99_us: Some(340), ..standing };
        assert_eq!(said(flowing), "1.23 M events/s, p99 340 µs");
        let talking = Figures { events_per_s: 900.0, round_trip_us: Some(61.23), ..standing };
        assert_eq!(said(talking), "900 events/s, round trip 61.2 µs");
        assert_eq!(clock(Duration::from_secs(125)), "2:05");
    }
}
