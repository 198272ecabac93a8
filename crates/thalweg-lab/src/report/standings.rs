//! Where each of many subjects stands: its deliveries per CPU time as a share of the baseline's, which is the machine's limit,
//! its lateness, and the memory of an idle connection. One line for each subject and transport.

use super::comparisons::{OverTransport, by_transport};
use super::number::{digits, short};
use super::part_summary::PartSummary;
use super::row::Row;
use crate::measure::Sample;
use crate::measure::comparison::{Metric, own_figure};
use crate::scenario::{Drive, Figure, Plan, Settings, Subject, Transport};
use serde::Serialize;
use std::cmp::Ordering::Equal;
use std::collections::BTreeSet;

/// Fewer subjects beside the baseline need no table of their own.
const SUBJECTS_MIN: usize = 4;
/// Subjects that a headline names.
const NAMED_MAX: usize = 4;

/// One subject over one transport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// How it sends.
    pub transport: Transport,
    /// The subject.
    pub subject: String,
    /// Whether the others are compared with it.
    pub is_baseline: bool,
    /// Deliveries with several events outstanding, which can be sent together.
    pub together: Share,
    /// The same with only one outstanding; `None` if the run has no such scenario.
    pub alone: Option<Share>,
    /// Events delivered per second of CPU: the geometric mean over the cells of `together`, if the subject is in all of them.
    pub events_per_cpu_s: Option<f64>,
    /// The ratio of the subject's p99 to the baseline's at a fixed rate, over all cells in which the baseline
    /// has one. `None` if the subject lacks one of them.
    pub p99: Option<f64>,
    /// The lower end of the interval that holds `p99` in 95 of 100 cases. The baseline has none.
    pub p99_low: Option<f64>,
    /// The upper end of that interval.
    pub p99_high: Option<f64>,
    /// Resident bytes of an idle connection: the geometric mean over the starts.
    pub idle_bytes: Option<f64>,
    /// The lower end of the interval that holds `idle_bytes` in 95 of 100 cases. `None` with one start.
    pub idle_bytes_low: Option<f64>,
    /// The upper end of that interval.
    pub idle_bytes_high: Option<f64>,
}

/// A subject's share of the baseline's deliveries per CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The text of the report.
    #[serde(rename = "said")]
    pub text: String,
    /// Whether everything arrived in every cell of the baseline. If not, the subject is not ranked: a mean over easier cells is another
    /// figure.
    pub is_ranked: bool,
    /// The geometric mean over its cells. `None` if there is none.
    pub share: Option<f64>,
    /// The lower end of the interval that holds `share` in 95 of 100 cases.
    pub low: Option<f64>,
    /// The upper end of that interval.
    pub high: Option<f64>,
}

impl Standing {
    /// Returns the heads of the figures in each form of the report, with this name of the baseline.
    pub(super) fn heads(baseline: &str) -> [String; 5] {
        [
            format!("delivered for the same CPU, {baseline} = 100 %"),
            "the same, one event at a time".to_owned(),
            "events per CPU second".to_owned(),
            format!("p99 at a fixed rate, × {baseline}"),
            "KiB per idle connection".to_owned(),
        ]
    }

    pub(super) fn figures(&self) -> [String; 5] {
        let figure = |value: Option<f64>, low: Option<f64>, high: Option<f64>, unit: f64| {
            let interval = low.zip(high).map_or_else(String::new, |(low, high)| {
                format!(" ({}–{})", digits(low / unit), digits(high / unit))
            });
            let of_value = |value: f64| digits(value / unit) + &interval;
            value.map_or_else(|| "–".to_owned(), of_value)
        };
        let alone = self.alone.as_ref().map_or("–", |found| &found.text);
        let events = self.events_per_cpu_s.map_or_else(|| "–".to_owned(), short);
        let p99 = figure(self.p99, self.p99_low, self.p99_high, 1.0);
        let idle = figure(self.idle_bytes, self.idle_bytes_low, self.idle_bytes_high, 1024.0);
        [self.together.text.clone(), alone.to_owned(), events, p99, idle]
    }
}

impl Share {
    /// `rows` are the subject's own; `pooled` compares its CPU with the baseline's.
    fn new(rows: &[&Row], pooled: Option<&OverTransport>, cells_of_baseline: usize) -> Share {
        if rows.iter().any(|row| row.is_baseline) {
            let text = "100 %".to_owned();
            return Share { text, is_ranked: true, share: Some(1.0), low: None, high: None };
        }
        let delivered = rows.iter().filter_map(|row| row.delivered_share).reduce(f64::min);
        let cells = pooled.map_or(0, |pooled| pooled.cells);
        let count = |of: fn(&Row) -> usize| rows.iter().map(|row| of(row)).sum::<usize>();
        let (incomplete, samples) = (count(|row| row.incomplete), count(|row| row.samples));
        let inverse = |ratio: f64| 1.0 / ratio;
        let share = pooled.map(|pooled| inverse(pooled.comparison.ratio));
        let low = pooled.and_then(|pooled| pooled.comparison.high).map(inverse);
        let high = pooled.and_then(|pooled| pooled.comparison.low).map(inverse);
        let unranked = match delivered {
            // Never rounded up to all of them.
            Some(share) => Some(format!("{:.1} % delivered", (share * 1000.0).floor() / 10.0)),
            None if cells < cells_of_baseline => {
                Some(format!("{cells} of {cells_of_baseline} cells"))
            }
            None if incomplete > 0 => {
                Some(format!("not everything came in {incomplete} of {samples} samples"))
            }
            None => None,
        };
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let text = match (&unranked, share, low.zip(high)) {
            (Some(why), ..) => format!("unranked: {why}"),
            (None, Some(share), Some((low, high))) => {
                format!("{} % ({}–{})", percent(share), percent(low), percent(high))
            }
            (None, Some(share), None) => format!("{} %", percent(share)),
            (None, None, _) => "–".to_owned(),
        };
        Share { text, is_ranked: unranked.is_none(), share, low, high }
    }
}

/// Returns the standings as a table of text, one transport after the other; the first line has the heads.
pub(super) fn grid(all: &[Standing]) -> Vec<Vec<String>> {
    let Some(first) = all.first() else { return Vec::new() };
    let head = std::iter::once(String::new()).chain(Standing::heads(&first.subject)).collect();
    let line = |one: &Standing| {
        let name = format!("{} over {}", one.subject, one.transport);
        std::iter::once(name).chain(one.figures()).collect()
    };
    std::iter::once(head).chain(all.iter().map(line)).collect()
}

struct ReportedPart<'a> {
    part: &'a PartSummary,
    over_transports: Vec<OverTransport>,
}

impl<'a> ReportedPart<'a> {
    /// Returns the first part of this kind; `metric` is its figure.
    fn find(
        plan: &Plan,
        parts: &'a [PartSummary],
        samples: &[Sample],
        metric: Metric,
        is_kind: impl Fn(&PartSummary) -> bool,
    ) -> Option<ReportedPart<'a>> {
        let index = parts.iter().position(is_kind)?;
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.part == index).collect();
        let over_transports = by_transport(&plan.parts[index], &own, metric);
        Some(ReportedPart { part: &parts[index], over_transports })
    }

    fn rows(&self, transport: Transport, subject: &str) -> Vec<&'a Row> {
        let is_own = |row: &&Row| row.subject == subject && row.settings.transport == transport;
        self.part.rows.iter().filter(|row| !row.is_noise).filter(is_own).collect()
    }

    fn over(&self, transport: Transport, subject: &str) -> Option<&OverTransport> {
        let is_own = |over_transport: &&OverTransport| {
            over_transport.transport == transport && over_transport.comparison.subject == subject
        };
        self.over_transports.iter().find(is_own)
    }

    /// Returns how many cells of the baseline have this figure.
    fn cells_of_baseline(&self, transport: Transport, has: impl Fn(&Row) -> bool) -> usize {
        let is_own = |row: &&Row| row.is_baseline && row.settings.transport == transport;
        self.part.rows.iter().filter(is_own).filter(|row| has(row)).count()
    }

    fn share(&self, transport: Transport, subject: &str) -> Share {
        let cells = self.cells_of_baseline(transport, |_| true);
        Share::new(&self.rows(transport, subject), self.over(transport, subject), cells)
    }
}

/// Returns whether every subject is loaded as fast as it can, with a window for which `is_window` is true.
fn is_closed_loop(part: &PartSummary, is_window: fn(u32) -> bool) -> bool {
    let is_plain = |settings: &Settings| {
        settings.events_per_s().is_none()
            && settings.keys == 1
            && !settings.compress
            && is_window(settings.window)
    };
    part.drive == Drive::PublishedLoad
        && part.figure == Figure::Cpu
        && part.rows.iter().all(|row| is_plain(&row.settings))
}

/// Returns the standings of a run that compares several subjects in fan-out: by transport, most deliveries first, unranked subjects last.
pub(super) fn standings(plan: &Plan, parts: &[PartSummary], samples: &[Sample]) -> Vec<Standing> {
    let find = |metric, is_kind: &dyn Fn(&PartSummary) -> bool| {
        ReportedPart::find(plan, parts, samples, metric, is_kind)
    };
    let several = |part: &PartSummary| is_closed_loop(part, |window| window > 1);
    let Some(together) = find(Metric::Cpu, &several) else { return Vec::new() };
    let alone = find(Metric::Cpu, &|part| is_closed_loop(part, |window| window == 1));
    let at_a_rate = find(Metric::P99, &|part| {
        part.drive == Drive::PublishedLoad && part.figure == Figure::Latency
    });
    let rows = together.part.rows.iter().filter(|row| !row.is_noise);
    let named: BTreeSet<(String, &str)> =
        rows.clone().map(|row| (row.settings.transport.to_string(), &*row.subject)).collect();
    let subjects: BTreeSet<&str> =
        rows.clone().filter(|row| !row.is_baseline).map(|row| &*row.subject).collect();
    if subjects.len() < SUBJECTS_MIN {
        return Vec::new();
    }
    let standing = |transport: Transport, subject: &str| {
        let own = together.rows(transport, subject);
        let share = together.share(transport, subject);
        let cpu: Vec<f64> =
            own.iter().filter_map(|row| Some(row.cpu.us_per_event?.median)).collect();
        let is_everywhere = cpu.len() == together.cells_of_baseline(transport, |_| true);
        let is_baseline = own.iter().any(|row| row.is_baseline);
        let p99 = at_a_rate.as_ref().and_then(|reported| {
            let cells = reported.cells_of_baseline(transport, |row| row.latency.p99_us.is_some());
            reported.over(transport, subject).filter(|found| found.cells == cells)
        });
        let p99 = p99.map(|found| &found.comparison);
        let has_p99 = is_baseline && at_a_rate.is_some();
        let idle = idle_bytes(plan, samples, transport, subject);
        let idle_interval = idle.and_then(|(_, interval)| interval);
        Standing {
            transport,
            subject: subject.to_owned(),
            is_baseline,
            together: share,
            alone: alone.as_ref().map(|reported| reported.share(transport, subject)),
            events_per_cpu_s: mean(&cpu).filter(|_| is_everywhere).map(|us| 1e6 / us),
            p99: if has_p99 { Some(1.0) } else { p99.map(|found| found.ratio) },
            p99_low: p99.and_then(|found| found.low),
            p99_high: p99.and_then(|found| found.high),
            idle_bytes: idle.map(|(bytes, _)| bytes),
            idle_bytes_low: idle_interval.map(|(low, _)| low),
            idle_bytes_high: idle_interval.map(|(_, high)| high),
        }
    };
    let mut all: Vec<Standing> = named
        .iter()
        .filter_map(|(name, subject)| {
            let mut transports = rows.clone().map(|row| row.settings.transport);
            Some(standing(transports.find(|transport| transport.to_string() == *name)?, subject))
        })
        .collect();
    all.sort_by(|one, other| {
        // WebSockets first: most readers want these.
        let by_transport = other.transport.to_string().cmp(&one.transport.to_string());
        let place = |standing: &Standing| (!standing.is_baseline, !standing.together.is_ranked);
        let share = |standing: &Standing| standing.together.share.unwrap_or(0.0);
        by_transport.then(place(one).cmp(&place(other))).then(share(other).total_cmp(&share(one)))
    });
    all
}

/// Returns the resident bytes of an idle connection, and their interval.
fn idle_bytes(
    plan: &Plan,
    samples: &[Sample],
    transport: Transport,
    subject: &str,
) -> Option<(f64, Option<(f64, f64)>)> {
    let parts = plan.parts.iter().enumerate().filter(|(_, part)| part.drive == Drive::Idle);
    let mut cells = parts.flat_map(|(index, part)| {
        part.cells.iter().enumerate().map(move |(number, cell)| (index, number, cell))
    });
    cells.find_map(|(part, number, cell)| {
        let is_own = |one: &Subject| one.name == subject && one.settings.transport == transport;
        let index = cell.subjects.iter().position(is_own)?;
        let is_taken =
            |sample: &&Sample| (sample.part, sample.cell, sample.subject) == (part, number, index);
        let own: Vec<&Sample> = samples.iter().filter(is_taken).collect();
        own_figure(Metric::Memory, cell.subjects[index].settings.connections, &own)
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|found| found.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// Returns the sentence to read if only one is read.
pub(super) fn headline(all: &[Standing]) -> Option<String> {
    let first = all.first()?;
    let baseline = &first.subject;
    let own =
        || all.iter().filter(|found| found.transport == first.transport && !found.is_baseline);
    let together = named(own().map(|sample| (&*sample.subject, &sample.together)))?;
    let text = format!(
        "Delivered over {} for the same CPU, {baseline} being 100\u{a0}%: {together}.",
        first.transport
    );
    let alone = named(own().filter_map(|sample| Some((&*sample.subject, sample.alone.as_ref()?))));
    Some(match alone {
        Some(alone) => format!("{text} Where nothing can be sent together: {alone}."),
        None => text,
    })
}

/// Returns the first few ranked subjects, most deliveries first; `None` if there are none.
fn named<'a>(all: impl Iterator<Item = (&'a str, &'a Share)>) -> Option<String> {
    let ranked = all.filter(|(_, share)| share.is_ranked);
    let mut ranked: Vec<(&str, &Share)> =
        ranked.filter(|(_, share)| share.share.is_some()).collect();
    ranked.sort_by(|(_, one), (_, other)| other.share.partial_cmp(&one.share).unwrap_or(Equal));
    // With their intervals: a headline must not rank subjects that are not told apart.
    let shown = |(who, it): &(&str, &Share)| format!("{who} {}", it.text.replace(' ', "\u{a0}"));
    let first: Vec<String> = ranked.iter().take(NAMED_MAX).map(shown).collect();
    (!first.is_empty()).then(|| first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::summary::{Manifest, Summary};
    use super::super::tests::samples;
    use super::*;
    use crate::measure::Verdict;
    use crate::scenario::{Changes, read};

    /// Five subjects beside the limit, which is twice as cheap; `change` changes the samples of the subject with this number.
    fn summary_with(subject: usize, change: impl Fn(&mut Sample)) -> Summary {
        let one = |number: u32| {
            format!(
                "[[subjects]]\nname = \"s{number}\"\nprogram = \"limit\"\nwith = {{ round = {number} }}\n"
            )
        };
        let text = format!(
            "name = \"x\"\ndrive = \"published-load\"\ncontrol = \"none\"\nrepeats = 4\nrounds = 1\n\
             [[cells]]\nevent_bytes = [128, 1024]\n{}",
            (0..6).map(one).collect::<String>()
        );
        let plan = read(&text, &Changes::default(), &[]).unwrap();
        let taken = samples(&plan, |sample| {
            let times = if sample.subject == 0 { 1 } else { 2 };
            sample.subject_cpu_ns =
                sample.traffic.events * (1200 + u64::from(sample.repeat)) * times;
            if sample.subject == subject {
                change(sample);
            }
        });
        Summary::new(&plan, &taken, Manifest::default())
    }

    fn shares_in_words(summary: &Summary) -> Vec<String> {
        let reported =
            |standing: &Standing| format!("{} {}", standing.subject, standing.together.text);
        summary.standings.iter().map(reported).collect()
    }

    #[test]
    fn the_subject_that_delivers_most_stands_first() {
        let all = shares_in_words(&summary_with(3, |sample| {
            sample.subject_cpu_ns = sample.subject_cpu_ns * 3 / 4;
        }));
        assert_eq!(all[0], "s0 100 %");
        assert!(all[1].starts_with("s3 6") && all[1].ends_with(')'), "{all:?}");
        assert!(all[2].starts_with("s1 50 % ("), "{all:?}");
        let reported = headline(&summary_with(9, |_| {}).standings).unwrap();
        assert!(
            reported
                .starts_with("Delivered over websocket for the same CPU, s0 being 100\u{a0}%: s"),
            "{reported}"
        );
    }

    #[test]
    fn subjects_with_losses_stand_last() {
        let last = |summary: Summary| shares_in_words(&summary).pop().unwrap_or_default();
        // By its design.
        let drops = summary_with(1, |sample| {
            (sample.verdict, sample.ledger.missing) = (Verdict::Drops, 1);
        });
        assert_eq!(last(drops), "s1 unranked: 99.9 % delivered");
        let drops_once = summary_with(1, |sample| {
            if sample.repeat == 0 {
                (sample.verdict, sample.ledger.missing) = (Verdict::Drops, 1);
            }
        });
        assert_eq!(last(drops_once), "s1 unranked: not everything came in 2 of 8 samples");
        // Announced, as Thalweg does.
        let gaps = summary_with(2, |sample| sample.ledger.gaps = u64::from(sample.repeat == 3));
        assert_eq!(last(gaps), "s2 unranked: not everything came in 2 of 8 samples");
        // Neither: the sample does not count.
        let broken = summary_with(2, |sample| {
            if sample.repeat == 1 {
                sample.verdict = Verdict::Invalid("1 missing".to_owned());
            }
        });
        assert_eq!(last(broken), "s2 unranked: not everything came in 2 of 8 samples");
        let partly = summary_with(4, |sample| {
            if sample.cell == 1 {
                sample.verdict = Verdict::Invalid("it was not there".to_owned());
            }
        });
        assert_eq!(last(partly), "s4 unranked: 1 of 2 cells");
    }

    #[test]
    fn nobody_is_named_if_nobody_is_ranked() {
        assert_eq!(headline(&[]), None);
        let all = summary_with(9, |_| {}).standings;
        let unranked = |standing: &Standing| Standing {
            together: Share { is_ranked: standing.is_baseline, ..standing.together.clone() },
            ..standing.clone()
        };
        assert_eq!(headline(&all.iter().map(unranked).collect::<Vec<_>>()), None);
    }

    #[test]
    fn a_headline_names_the_leaders_with_one_event_outstanding() {
        let share = |share| Share {
            text: format!("{:.0} % (1–2)", share * 100.0),
            is_ranked: true,
            share: Some(share),
            ..Share::default()
        };
        let mut all = summary_with(9, |_| {}).standings;
        for (standing, alone) in all.iter_mut().zip([1.0, 0.8, 0.9, 0.7, 0.6, 0.5]) {
            standing.alone = Some(share(alone));
        }
        let (second, third) = (all[1].subject.clone(), all[2].subject.clone());
        let text = headline(&all).unwrap();
        let share_text = |share| format!("{share}\u{a0}%\u{a0}(1–2)");
        let lead =
            format!("sent together: {third} {}, {second} {}, ", share_text(90), share_text(80));
        assert!(text.contains(&lead), "{text}");
    }

    #[test]
    fn only_saturated_closed_loops_have_standings() {
        let taken = summary_with(9, |_| {});
        assert_eq!(taken.standings.len(), 6);
        let is_closed = |change: fn(&mut Settings)| {
            let mut part = taken.parts[0].clone();
            part.rows.iter_mut().for_each(|row| change(&mut row.settings));
            is_closed_loop(&part, |window| window > 1)
        };
        assert!(is_closed(|_| {}));
        assert!(!is_closed(|settings| settings.rate = 10));
        assert!(!is_closed(|found| found.keys = 10));
        assert!(!is_closed(|settings| settings.compress = true));
        assert!(!is_closed(|settings| settings.window = 1));
    }

    #[test]
    fn a_mean_of_ratios_is_geometric() {
        assert!((mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(mean(&[]), None);
    }
}
