//! Curves of single cells: latency by percentile, memory over time, and the rates that a search for the ceiling tried.

use super::markup::{Markup, px};
use super::plot::Plot;
use super::scale::Scale;
use super::series::Series;
use crate::measure::Step;
use crate::report::number::{brief_us, round};
use crate::report::part_summary::PartSummary;
use crate::report::row::{Lateness, Row};
use crate::report::workload;

/// Cells whose curves are shown at once; more are folded away.
const SHOWN_MAX: usize = 4;

/// Shares of the events whose latency a row has.
const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

pub(super) struct Kind {
    title: &'static str,
    has: fn(&Row) -> bool,
    draw: fn(&mut Markup, &[Row], &[Series]),
}

const KINDS: [Kind; 5] = [
    Kind {
        title: "Latency by percentile, medians of samples",
        has: |row| percentiles(row).len() > 1,
        draw: latency,
    },
    Kind {
        title: "Resident memory over the measured span",
        has: |row| row.curves.rss_bytes.len() > 1,
        draw: |markup, cell, series| {
            over_time(markup, cell, series, "Resident memory", |row| &row.curves.rss_bytes);
        },
    },
    Kind {
        title: "Proportional memory over the measured span",
        has: |row| row.curves.pss_bytes.len() > 1,
        draw: |markup, cell, series| {
            over_time(markup, cell, series, "Proportional memory", |row| &row.curves.pss_bytes);
        },
    },
    Kind {
        title: "The kernel’s memory for TCP over the measured span, both ends of all connections",
        has: |row| row.settings.keys > 1 && row.curves.kernel_bytes.len() > 1,
        draw: |markup, cell, series| {
            over_time(markup, cell, series, "Kernel memory", |row| &row.curves.kernel_bytes);
        },
    },
    Kind {
        title: "What was tried, and the p99 at each",
        has: |row| !row.curves.steps.is_empty(),
        draw: steps,
    },
];

/// Every kind that the part has data for.
pub(super) fn draw(markup: &mut Markup, part: &PartSummary, series: &[Series]) {
    for kind in &KINDS {
        let cells = part.cells();
        let drawn: Vec<&&[Row]> = cells.iter().filter(|cell| cell.iter().any(kind.has)).collect();
        if drawn.is_empty() {
            continue;
        }
        let charts = |markup: &mut Markup| {
            markup.element("div", &[("class", &"charts")], |markup| {
                for cell in &drawn {
                    (kind.draw)(markup, cell, series);
                }
            });
        };
        let title = match part.is_closed_loop() {
            true => kind.title.replace("Latency", "Service time"),
            false => kind.title.to_owned(),
        };
        if drawn.len() <= SHOWN_MAX {
            markup.leaf("h4", &[], &title);
            charts(markup);
        } else {
            markup.element("details", &[], |markup| {
                let title = format!("{title}: {} cells", drawn.len());
                markup.leaf("summary", &[], &title);
                charts(markup);
            });
        }
    }
    if let Some(note) = workload::of(part).note {
        markup.leaf("p", &[("class", &"note")], note);
    }
}

fn with_series<'a>(
    cell: &'a [Row],
    series: &'a [Series],
) -> impl Iterator<Item = (&'a Row, &'a Series)> {
    let of = |row: &Row| series.iter().find(|series| series.name == row.subject);
    cell.iter().filter_map(move |row| Some((row, of(row)?)))
}

/// Each nine is as wide as the one before it.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// Nines of each share that the row has a latency of, and this latency in µs.
fn percentiles(row: &Row) -> Vec<(f64, f64)> {
    let Lateness { p50_us, p90_us, p99_us, p999_us, .. } = row.latency;
    let each = SHARES.into_iter().zip([p50_us, p90_us, p99_us, p999_us]);
    each.filter_map(|(share, us)| Some((nines(share), us?))).collect()
}

fn latency(markup: &mut Markup, cell: &[Row], series: &[Series]) {
    let all: Vec<(f64, f64)> = cell.iter().flat_map(percentiles).collect();
    let far = all.iter().map(|(x, _)| *x).fold(1.0, f64::max);
    let low = all.iter().map(|(_, us)| *us).fold(f64::INFINITY, f64::min).max(1.0);
    let high = all.iter().map(|(_, us)| *us).fold(low * 2.0, f64::max);
    let plot = Plot {
        heading: cell.first().map_or("", |row| &row.cell),
        description: format!(
            "Latency by percentile, µs: {}",
            middle(cell, |row| row.latency.p99_us)
        ),
        x: Scale::exact(
            nines(SHARES[0]),
            far,
            SHARES.map(nines).into_iter().filter(|shares| *shares <= far).collect(),
        ),
        x_title: "percentile",
        x_show: &|x| round_share(1.0 - 10f64.powf(-x)),
        y: Scale::log(low, high),
        y_show: &brief_us,
    };
    lines(markup, &plot, cell, series, percentiles);
}

fn over_time(
    markup: &mut Markup,
    cell: &[Row],
    series: &[Series],
    what: &str,
    of: fn(&Row) -> &[(f64, f64)],
) {
    let curve = |row: &Row| of(row).iter().map(|(s, it)| (*s, it / 1e6)).collect();
    let all: Vec<(f64, f64)> = cell.iter().flat_map(curve).collect();
    let most = |row: &Row| of(row).iter().map(|(_, it)| it / 1e6).reduce(f64::max);
    let plot = Plot {
        heading: cell.first().map_or("", |row| &row.cell),
        description: format!("{what} over time, MB at most: {}", middle(cell, most)),
        x: until(all.iter().map(|(s, _)| *s).fold(0.1, f64::max)),
        x_title: "seconds since the span began",
        x_show: &round,
        y: Scale::linear(0.0, all.iter().map(|(_, mb)| *mb).fold(0.0, f64::max)),
        y_show: &|mb| format!("{} MB", round(mb)),
    };
    lines(markup, &plot, cell, series, curve);
}

/// From 0 to the end exactly.
fn until(end: f64) -> Scale {
    let ticks = Scale::linear(0.0, end).ticks;
    Scale::exact(0.0, end, ticks.into_iter().filter(|tick| *tick <= end).collect())
}

fn lines(
    markup: &mut Markup,
    plot: &Plot<'_>,
    cell: &[Row],
    series: &[Series],
    curve: impl Fn(&Row) -> Vec<(f64, f64)>,
) {
    plot.draw(markup, |markup, plot| {
        for (row, one) in with_series(cell, series) {
            markup.element("g", &[("class", &one.class)], |markup| {
                plot.line(markup, one.dash, &curve(row));
            });
        }
    });
}

/// A mark for every rate: full where the objective was met, crossed where not.
fn steps(markup: &mut Markup, cell: &[Row], series: &[Series]) {
    let all = || cell.iter().flat_map(|row| &row.curves.steps);
    let settings = cell.first().map(|row| &row.settings);
    let objective = settings.map_or(0, |setting| match setting.late_us_max {
        0 => setting.p99_us_max,
        late_us_max => late_us_max,
    }) as f64;
    let is_ramp = all().any(|step| step.connections > 0);
    let of = |step: &Step| match is_ramp {
        true => f64::from(step.connections.max(1)),
        false => step.rate,
    };
    let rates: Vec<f64> = all().map(of).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let p99: Vec<f64> = all().map(|step| (step.p99_us as f64).max(1.0)).collect();
    let plot = Plot {
        heading: cell.first().map_or("", |row| &row.cell),
        description: "What was tried and its p99; full marks met the objective, crosses did not."
            .to_owned(),
        x: Scale::log(least, rates.iter().copied().fold(least, f64::max)),
        x_title: if is_ramp { "connections" } else { "events published per s and topic" },
        x_show: &round,
        y: Scale::log(
            p99.iter().copied().fold(objective, f64::min),
            p99.iter().copied().fold(objective, f64::max),
        ),
        y_show: &brief_us,
    };
    plot.draw(markup, |markup, plot| {
        markup.element("g", &[("class", &"objective")], |markup| {
            let (first, last) = (plot.x.ticks[0], plot.x.ticks[plot.x.ticks.len() - 1]);
            plot.line(markup, "6 3", &[(first, objective), (last, objective)]);
            let (x, y) = (px(plot.x_at(first) + 4.0), px(plot.y_at(objective) - 5.0));
            markup.leaf("text", &[("x", &x), ("y", &y)], "objective");
        });
        for (row, one) in with_series(cell, series) {
            for step in &row.curves.steps {
                let verdict = match &step.missed {
                    None => crate::measure::Verdict::Subject,
                    Some(why) => crate::measure::Verdict::Invalid(why.clone()),
                };
                let (x, y) = (plot.x_at(of(step)), plot.y_at((step.p99_us as f64).max(1.0)));
                super::series::mark_at(markup, x, y, one, &verdict);
            }
        }
    });
}

fn middle(cell: &[Row], of: impl Fn(&Row) -> Option<f64>) -> String {
    let each = cell.iter().filter_map(|row| Some(format!("{} {}", row.subject, round(of(row)?))));
    each.collect::<Vec<_>>().join(", ")
}

/// `99.9` for 0.999.
fn round_share(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
