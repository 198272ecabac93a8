//! Where the run stands: a bar in a terminal, a line per cell elsewhere.

use crate::measure::Sample;
use crate::scenario::{Plan, Slot};
use crate::swarm::Figures;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    label: String,
    /// By the plan's own reckoning; real time is a multiple of it.
    done: Duration,
    total: Duration,
    current: Duration,
    last_cell: Option<(usize, usize)>,
}

impl Progress {
    pub(super) fn new(plan: &Plan) -> Progress {
        let total: Duration = plan.slots().map(|slot| plan.expected_time(slot)).sum();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total.as_millis() as u64);
            bar.set_style(style());
            bar
        });
        eprintln!("{}: {} samples, about {}", plan.title, plan.slots().count(), clock(total));
        Progress {
            bar,
            begun: Instant::now(),
            label: String::new(),
            done: Duration::ZERO,
            total,
            current: Duration::ZERO,
            last_cell: None,
        }
    }

    pub(super) fn begin(&mut self, plan: &Plan, slot: Slot) {
        let (part, cell) = (plan.part(slot), plan.cell(slot));
        self.current = plan.expected_time(slot);
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
            eprintln!("{} · {} · {} left", part.name, cell.label, clock(self.left()));
        }
        self.last_cell = Some(cell_key);
        self.show("starts");
    }

    pub(super) fn figures(&mut self, figures: Figures) {
        let figure = if figures.events_per_s > 0.0 {
            format!("{} events/s", crate::report::short(figures.events_per_s))
        } else {
            format!("{} connections", figures.connections)
        };
        self.show(&figure);
    }

    pub(super) fn end(&mut self, plan: &Plan, sample: &Sample) {
        self.done += self.current;
        self.show("done");
        if !sample.verdict.is_valid() {
            let slot = Slot {
                part: sample.part,
                cell: sample.cell,
                subject: sample.subject,
                repeat: sample.repeat,
            };
            let line = format!(
                "{} · {} · {}: {}",
                plan.part(slot).name,
                plan.cell(slot).label,
                plan.subject(slot).name,
                sample.verdict
            );
            match &self.bar {
                Some(bar) => bar.println(line),
                None => eprintln!("{line}"),
            }
        }
    }

    pub(super) fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, figure: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.done.as_millis() as u64);
            bar.set_message(format!("{} · {figure} · {} left", self.label, clock(self.left())));
        }
    }

    /// What the plan reckons is left, by how its reckoning held so far.
    fn left(&self) -> Duration {
        let left = self.total.saturating_sub(self.done);
        if self.done.is_zero() {
            return left;
        }
        left.mul_f64(self.begun.elapsed().as_secs_f64() / self.done.as_secs_f64())
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:20} {wide_msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}
