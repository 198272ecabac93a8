//! A comparison in words and signs, the same in every form of the report.

use super::part_summary::PartSummary;
use super::row::Row;
use crate::measure::comparison::{Comparison, Metric, Word};
use crate::scenario::Drive;

impl PartSummary {
    /// Returns the metric of the part's figure. If that one could not be compared (for example because its p99 was
    /// withheld), the first metric that could, usually CPU.
    pub(super) fn metric(&self) -> Metric {
        let own = Metric::from(self.figure);
        let is_known = |metric: &Metric| self.asked(*metric).next().is_some();
        [own].into_iter().chain(Metric::ALL).find(is_known).unwrap_or(own)
    }

    pub(super) fn comparison(&self, metric: Metric, row: &Row) -> Option<&Comparison> {
        let is_it = |comparison: &&Comparison| {
            comparison.metric == metric && comparison.is_in(row.place.cell, row.place.subject)
        };
        self.comparisons.iter().find(is_it)
    }

    /// Returns the comparisons in one metric, without the controls.
    pub(super) fn asked(&self, metric: Metric) -> impl Iterator<Item = &Comparison> {
        self.comparisons
            .iter()
            .filter(move |comparison| comparison.metric == metric && !comparison.is_control)
    }

    /// Returns the comparisons of the baseline with itself (A/A) in one metric, cell by cell.
    pub(super) fn controls(&self, metric: Metric) -> impl Iterator<Item = &Comparison> {
        self.comparisons
            .iter()
            .filter(move |comparison| comparison.metric == metric && comparison.is_control)
    }

    /// Returns whether the next event waits for the last. If so, slow events are requested less often, and a latency is the service
    /// time without queueing.
    pub(super) fn is_closed_loop(&self) -> bool {
        match self.drive {
            Drive::PublishedLoad => {
                self.rows.iter().any(|row| row.settings.events_per_s().is_none())
            }
            Drive::RoundTrip | Drive::Publish => true,
            _ => false,
        }
    }

    /// Returns whether the lab listens or sends to a server that it did not start.
    pub(super) fn is_endpoint(&self) -> bool {
        matches!(self.drive, Drive::Listen | Drive::Send)
    }

    /// Returns whether a span lasts as long as planned, and not as long as its requests or connections take.
    pub(super) fn is_timed(&self) -> bool {
        self.drive != Drive::Ceiling
            && self.rows.iter().all(|row| self.drive.lasts_for_measured_time(&row.settings))
    }

    pub(super) fn has_objective(&self) -> bool {
        self.rows.iter().any(|row| row.settings.late_us_max > 0)
    }

    pub(super) fn name_of(&self, metric: Metric) -> &'static str {
        match metric {
            Metric::Cpu if self.drive.is_connecting() && !self.has_objective() => {
                "CPU per connection"
            }
            Metric::Cpu if self.is_endpoint() => "CPU per message",
            Metric::Cpu => "CPU per event",
            Metric::P99 if self.is_closed_loop() => "p99 service time",
            Metric::P99 if self.drive.is_connecting() && !self.has_objective() => {
                "p99 time from due to standing"
            }
            Metric::P99 => "p99 latency",
            Metric::RoundTrip => "mean round trip",
            Metric::Throughput if self.drive == Drive::Ceiling => {
                "highest rate within the objective"
            }
            Metric::Throughput if self.drive.is_connecting() => "connections per second",
            Metric::Throughput if self.is_endpoint() => "messages per second",
            Metric::Throughput => "events per second",
            Metric::Memory => "memory per connection",
            Metric::Held => "clients held within the objective",
            Metric::BrowserCpu => "browser's CPU per event",
        }
    }

    /// Returns a sentence: `thalweg takes 1.16 × the CPU per event of limit (1.14–1.18) over 15 cells: worse by 16 %.`
    pub(super) fn sentence(&self, pooled: &Comparison) -> String {
        let Comparison { subject, baseline, metric, ratio, .. } = pooled;
        let cells =
            match self.comparisons.iter().filter(|comparison| comparison.is_beside(pooled)).count()
            {
                1 => "in 1 cell".to_owned(),
                count => format!("over {count} cells"),
            };
        let takes = if metric.more_is_better() { "reaches" } else { "takes" };
        format!(
            "{subject} {takes} {ratio:.2}\u{a0}× the {} of {baseline}{} {cells}: {}.",
            self.name_of(*metric),
            pooled.interval(),
            pooled.in_words()
        )
    }
}

impl Comparison {
    pub(super) fn is_beside(&self, other: &Comparison) -> bool {
        (self.metric, &self.subject, self.is_control)
            == (other.metric, &other.subject, other.is_control)
    }

    /// Returns ` (1.14–1.18)`; empty with too few starts to tell.
    pub(crate) fn interval(&self) -> String {
        if self.has_too_few_starts() {
            return String::new();
        }
        let ends = self.low.zip(self.high);
        ends.map_or(String::new(), |(low, high)| format!(" ({low:.2}–{high:.2})"))
    }

    /// Returns `worse by 16 %`, `equivalent`, or `undecided, 12 % more is not excluded`, with the power if it is known.
    pub(crate) fn in_words(&self) -> String {
        let by = percent((self.ratio - 1.0).abs());
        match self.word {
            Word::Better => format!("better by {by}"),
            Word::Worse => format!("worse by {by}"),
            Word::Equivalent => "equivalent".to_owned(),
            Word::Undecided if self.has_too_few_starts() => {
                "undecided, too few starts to tell".to_owned()
            }
            Word::Undecided => {
                let most = match self.not_excluded {
                    Some(most) if most > 1.0 => format!("even {}", percent(1.0)),
                    most => percent(most.unwrap_or(1.0)),
                };
                let side = self.side();
                format!("undecided, {most} {side} is not excluded{}", self.power_in_words())
            }
        }
    }

    /// Returns `; a difference of 5 % is found in 57 % of such runs`; empty without a control.
    fn power_in_words(&self) -> String {
        self.power.map_or(String::new(), |power| {
            format!("; a difference of 5\u{a0}% is found in {} of such runs", percent(power))
        })
    }

    /// Returns for a table: `1.16 (1.14–1.18) worse`, `1.02 (0.93–1.12) 12 % not excluded`. A star marks an interval that excludes 1 by
    /// itself, and not after correction.
    pub(super) fn in_short(&self) -> String {
        let figures = format!("{:.2}{}", self.ratio, self.interval());
        let power = self.power.map_or(String::new(), |power| format!(", power {}", percent(power)));
        let word = match (self.word, self.not_excluded) {
            _ if self.is_control => return figures,
            _ if self.has_too_few_starts() => {
                return format!("{:.2} too few starts to tell", self.ratio);
            }
            (Word::Better, _) => "better".to_owned(),
            (Word::Worse, _) => "worse".to_owned(),
            (Word::Equivalent, _) => "equivalent".to_owned(),
            (Word::Undecided, Some(most)) if most > 1.0 => {
                format!("over {} not excluded{power}", percent(1.0))
            }
            (Word::Undecided, Some(most)) => format!("{} not excluded{power}", percent(most)),
            (Word::Undecided, None) => "undecided".to_owned(),
        };
        let star = if self.is_corrected_away() { "*" } else { "" };
        format!("{figures} {word}{star}")
    }

    /// Returns whether the interval excludes 1, but no longer after correction.
    pub(super) fn is_corrected_away(&self) -> bool {
        self.excludes_one() && !matches!(self.word, Word::Better | Word::Worse)
    }

    /// Returns the side to which the interval reaches farther.
    fn side(&self) -> &'static str {
        let far = |end: Option<f64>| end.map_or(0.0, |end| (end - 1.0).abs());
        if far(self.high) >= far(self.low) { "more" } else { "less" }
    }
}

impl Word {
    /// Returns the word, which is also a class of the page.
    pub(super) fn name(self) -> &'static str {
        match self {
            Word::Better => "better",
            Word::Worse => "worse",
            Word::Equivalent => "equivalent",
            Word::Undecided => "undecided",
        }
    }
}

/// Returns `16 %` or `2.4 %`.
fn percent(share: f64) -> String {
    let decimals = if share < 0.0995 { 1 } else { 0 };
    format!("{:.decimals$}\u{a0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::comparison::Difference;

    #[test]
    fn words_say_how_much() {
        let of = |means: &[f64]| {
            let difference = Difference::from_starts(means, means.len());
            let names = ["thalweg", "limit"];
            let found = Comparison::new(Metric::Cpu, names, false, &difference);
            format!("{} | {}", found.in_short(), found.in_words())
        };
        let even = |mean: f64, spread: f64| -> Vec<f64> {
            (0..10).map(|i| if i < 5 { mean - spread } else { mean + spread }).collect()
        };
        let all = [
            of(&even(0.15, 0.02)),
            of(&even(-0.15, 0.02)),
            of(&even(0.0, 0.02)),
            of(&even(0.03, 0.2)),
            of(&even(-0.03, 0.2)),
            of(&[0.3]),
            of(&[-3.0, 4.0]),
            of(&[-0.5, 0.7, 1.5]),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }
}
