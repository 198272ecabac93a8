//! The first screen's charts: every cell's ratio to its baseline around 1, one chart for each metric, because a cheap unit of one
//! is no size of another; or, without comparisons, the measurements.

use super::markup::Markup;
use super::metric::Metric;
use super::scale::Scale;
use super::series::{CIRCLE, DIAMOND, SQUARE, Series, mark, series, swatch};
use super::strips::{Line, Point, Strip, Strips};
use crate::measure::Verdict;
use crate::measure::comparison::{self, Comparison, Word};
use crate::measure::statistics::Estimate;
use crate::report::number::round;
use crate::report::part_summary::PartSummary;
use crate::report::row::Row;
use crate::report::summary::Summary;
use crate::report::workload;

/// Cells that have a strip each; more share one for each subject.
const STRIPS_MAX: usize = 34;

/// An interval may reach this many times farther than the farthest ratio before its end is clipped.
const INTERVAL_REACH: f64 = 2.0;

/// The charts, each with a title above and an explanation below.
pub(super) fn draw(markup: &mut Markup, summary: &Summary) {
    let mut metrics: Vec<comparison::Metric> =
        summary.parts.iter().map(PartSummary::metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let of = |metric| {
        let parts = summary.parts.iter().filter(move |part| part.metric() == metric);
        let shown = parts.map(|part| (part, shown(part))).filter(|(_, all)| !all.is_empty());
        (metric, shown.collect::<Vec<_>>())
    };
    let charts: Vec<_> =
        metrics.into_iter().map(of).filter(|(_, parts)| !parts.is_empty()).collect();
    if charts.is_empty() {
        return without_comparison(markup, summary);
    }
    markup.element("div", &[("class", &"overviews")], |markup| {
        for (metric, parts) in charts {
            chart(markup, metric, &parts);
        }
    });
}

/// A part, and its comparisons that are shown.
type ShownPart<'a> = (&'a PartSummary, Vec<&'a Comparison>);

/// A part's cells in its figure; in a run of A/A pairs alone, those.
fn shown(part: &PartSummary) -> Vec<&Comparison> {
    let asked: Vec<&Comparison> = part.asked(part.metric()).collect();
    if asked.is_empty() { part.controls(part.metric()).collect() } else { asked }
}

fn chart(markup: &mut Markup, metric: comparison::Metric, parts: &[ShownPart<'_>]) {
    let all = || parts.iter().flat_map(|(part, all)| all.iter().map(move |one| (part, *one)));
    let ratios = all().map(|(_, one)| one.ratio.max(1.0 / one.ratio));
    let ends = all().flat_map(|(part, one)| {
        let (low, high) = noise(part, one).unwrap_or((1.0, 1.0));
        [one.low.unwrap_or(1.0), one.high.unwrap_or(1.0), low, high]
    });
    let scale = Scale::around_one(reach(ratios, ends));
    let is_each = all().count() <= STRIPS_MAX;
    let has_parts = parts.len() > 1;
    let mut lines = Vec::new();
    for (part, all) in parts {
        if has_parts {
            lines.push(Line::Heading(part.name.clone()));
        }
        if is_each {
            one_by_one(&mut lines, part, all);
        } else {
            by_subject(&mut lines, part, all);
        }
        over_all_cells(&mut lines, part, all);
    }
    markup.element("figure", &[("class", &"overview")], |markup| {
        let name = parts.first().map_or("", |(part, _)| part.name_of(metric));
        markup.leaf("figcaption", &[], &format!("{}, × baseline", capitalised(name)));
        let sides = Some((metric.less(), metric.more()));
        let show = |tick: f64| format!("{}×", round((tick * 100.0).round() / 100.0));
        Strips { scale: &scale, show: &show, sides, lines: &lines }.draw(markup);
        let pooled = parts.iter().flat_map(|(part, _)| &part.pooled);
        let pooled = pooled.filter(|pooled| pooled.metric == metric && !pooled.is_control);
        let words: Vec<Word> =
            all().map(|(_, one)| one).chain(pooled).map(|comparison| comparison.word).collect();
        key(markup, &words, all().any(|(part, one)| noise(part, one).is_some()));
    });
}

/// Returns how far an axis reaches from 1: to all ratios and their intervals. An interval that is much wider than all ratios is
/// clipped, so that it does not squeeze the others.
fn reach(ratios: impl Iterator<Item = f64>, ends: impl Iterator<Item = f64>) -> f64 {
    let of_ratios = ratios.fold(1.0, f64::max);
    let of_ends = ends.map(|end| end.max(1.0 / end.max(1e-3))).fold(1.0, f64::max);
    of_ratios.max(of_ends.min(of_ratios * INTERVAL_REACH))
}

fn noise(part: &PartSummary, one: &Comparison) -> Option<(f64, f64)> {
    if one.is_control {
        return None;
    }
    let number = one.place?.0;
    let is_beside = |control: &&Comparison| control.place.is_some_and(|place| place.0 == number);
    let control = part.controls(one.metric).find(is_beside)?;
    control.low.zip(control.high)
}

/// A strip for each cell and subject, under the cell if there are several subjects.
fn one_by_one(lines: &mut Vec<Line>, part: &PartSummary, all: &[&Comparison]) {
    let has_subjects = all.iter().any(|sample| sample.subject != all[0].subject);
    let mut last = None;
    for one in all {
        let cell = one.cell.clone().unwrap_or_default();
        if has_subjects && last != one.place.map(|place| place.0) {
            lines.push(Line::Heading(cell.clone()));
        }
        last = one.place.map(|place| place.0);
        lines.push(Line::Strip(Strip {
            label: if has_subjects { one.subject.clone() } else { cell },
            figure: one.in_short(),
            band: noise(part, one),
            points: vec![point(one)],
        }));
    }
}

/// A strip for each subject, with a mark for each of its cells.
fn by_subject(lines: &mut Vec<Line>, part: &PartSummary, all: &[&Comparison]) {
    let mut subjects: Vec<&str> = all.iter().map(|one| &*one.subject).collect();
    subjects.sort_unstable();
    subjects.dedup();
    for subject in subjects {
        let own: Vec<&&Comparison> =
            all.iter().filter(|sample| sample.subject == subject).collect();
        let noise = own.iter().filter_map(|one| noise(part, one));
        lines.push(Line::Strip(Strip {
            label: subject.to_owned(),
            figure: format!("{} cells", own.len()),
            band: noise.reduce(|(low, high), band| (low.min(band.0), high.max(band.1))),
            points: own.iter().map(|sample| point(sample)).collect(),
        }));
    }
}

/// The pooled comparison, under the cells that it is of.
fn over_all_cells(lines: &mut Vec<Line>, part: &PartSummary, all: &[&Comparison]) {
    let pooled = part.pooled.iter().filter(|pooled| all.iter().any(|one| one.is_beside(pooled)));
    let pooled: Vec<&Comparison> = pooled.collect();
    if all.len() <= pooled.len() {
        return;
    }
    let name = |one: &Comparison| match pooled.len() {
        1 => "all cells".to_owned(),
        _ => format!("{}, all cells", one.subject),
    };
    let strip = |one: &&Comparison| {
        let (label, figure) = (name(one), one.in_short());
        Line::Strip(Strip { label, figure, band: None, points: vec![point(one)] })
    };
    lines.extend(pooled.iter().map(strip));
}

/// A mark; with one start it has no interval.
fn point(one: &Comparison) -> Point {
    let (shape, limited_by) = look(one.word);
    let [low, high] = [one.low, one.high].map(|end| end.unwrap_or(one.ratio));
    let at = Estimate { median: one.ratio, low, high };
    Point { at, class: one.word.name().to_owned(), shape, limited_by }
}

/// Shape, and how it is filled.
fn look(word: Word) -> (&'static str, Verdict) {
    match word {
        Word::Better => (DIAMOND, Verdict::Subject),
        Word::Worse => (SQUARE, Verdict::Subject),
        Word::Equivalent => (CIRCLE, Verdict::Subject),
        Word::Undecided => (CIRCLE, Verdict::Schedule),
    }
}

fn key(markup: &mut Markup, words: &[Word], has_noise: bool) {
    let said = [
        (Word::Better, "better"),
        (Word::Equivalent, "equivalent: within 5 %"),
        (Word::Undecided, "undecided"),
        (Word::Worse, "worse"),
    ];
    markup.element("ul", &[("class", &"legend")], |markup| {
        for (word, text) in said.into_iter().filter(|(word, _)| words.contains(word)) {
            let (shape, filled) = look(word);
            markup.element("li", &[], |markup| {
                swatch(markup, word.name(), |markup| mark(markup, shape, &filled));
                markup.text(text);
            });
        }
        if has_noise {
            markup.element("li", &[], |markup| {
                swatch(markup, "", |markup| {
                    let whole: [super::markup::Attribute<'_>; 5] = [
                        ("class", &"band"),
                        ("x", &"-14"),
                        ("y", &"-7"),
                        ("width", &"28"),
                        ("height", &"14"),
                    ];
                    markup.empty("rect", &whole);
                });
                markup.text("the baseline beside itself (A/A)");
            });
        }
    });
}

/// The first figure of each part, without a comparison.
fn without_comparison(markup: &mut Markup, summary: &Summary) {
    let Some((part, metric)) = summary.parts.iter().find_map(|part| {
        let has = |metric: &Metric| part.rows.iter().any(|row| (metric.of)(row).is_some());
        Some((part, workload::of(part).charts.into_iter().find(has)?))
    }) else {
        return;
    };
    let rows: Vec<&[Row]> = part.cells();
    markup.element("figure", &[("class", &"overview")], |markup| {
        markup.leaf("figcaption", &[], metric.title);
        metric_overview(markup, &rows, &metric, &series(part));
    });
}

/// A figure of every subject of the cells, from 0 or along decades.
pub(super) fn metric_overview(
    markup: &mut Markup,
    cells: &[&[Row]],
    metric: &Metric,
    all: &[Series],
) {
    let rows = || cells.iter().flat_map(|cell| cell.iter());
    let scale = Scale::fitting(
        rows().filter_map(|row| (metric.of)(row)).flat_map(|row| [row.low, row.median, row.high]),
    );
    let mut lines = Vec::new();
    for cell in cells {
        lines.extend(cell.first().map(|row| Line::Heading(row.cell.clone())));
        for row in *cell {
            let (Some(at), Some(series)) =
                ((metric.of)(row), all.iter().find(|subject| subject.name == row.subject))
            else {
                continue;
            };
            lines.push(Line::Strip(Strip {
                label: row.subject.clone(),
                figure: (metric.show)(at.median),
                band: None,
                points: vec![Point {
                    at,
                    class: series.class.clone(),
                    shape: series.shape,
                    limited_by: row.curves.limited_by.clone(),
                }],
            }));
        }
    }
    Strips { scale: &scale, show: &metric.tick, sides: None, lines: &lines }.draw(markup);
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or(String::new(), |first| first.to_uppercase().collect::<String>() + chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_little_use_does_not_squeeze_an_axis() {
        let reach =
            |ratios: &[f64], ends: &[f64]| reach(ratios.iter().copied(), ends.iter().copied());
        assert_eq!(reach(&[1.2, 1.5], &[1.1, 1.9, 0.8]), 1.9);
        assert_eq!(reach(&[1.87], &[0.01, 277.35]), 1.87 * INTERVAL_REACH);
    }
}
