//! The first screen's chart: every cell's ratio to its baseline around 1, on the
//! noise; or, where nothing is compared, what was measured.

use super::markup::Markup;
use super::metric::{Metric, metrics};
use super::scale::Scale;
use super::series::{CIRCLE, DIAMOND, SQUARE, Series, series};
use super::strips::{Line, Point, Strip, Strips};
use crate::measure::Verdict;
use crate::report::findings::Compared;
use crate::report::number::round;
use crate::report::outcome::Outcome;
use crate::report::row::Row;
use crate::report::summary::Summary;

/// Comparisons that have a strip each; more share one for each subject.
const STRIPS_MAX: usize = 34;

/// The chart, with what it shows above and how to read it below.
pub(super) fn draw(markup: &mut Markup, summary: &Summary, all: &[Compared<'_>]) {
    if all.is_empty() {
        return without_comparison(markup, summary);
    }
    let ends = all.iter().flat_map(|it| {
        let (low, high) = it.noise.unwrap_or((1.0, 1.0));
        [it.ratio.low, it.ratio.high, low, high]
    });
    let (low, high) = ends.fold((1.0f64, 1.0f64), |(low, high), it| (low.min(it), high.max(it)));
    let scale = Scale::around_one(low, high);
    let figure = all[0].figure;
    let is_one_figure = all.iter().all(|it| it.figure == figure);
    let lines = if all.len() <= STRIPS_MAX { one_by_one(all) } else { by_subject(all) };
    markup.element("figure", &[("class", &"overview")], |markup| {
        let what = if is_one_figure { figure.name() } else { "Every part’s figure" };
        let caption = format!("{}, × baseline", capitalised(what));
        markup.leaf("figcaption", &[], &caption);
        let sides = if is_one_figure { (figure.less(), figure.more()) } else { ("less", "more") };
        let show = |tick: f64| format!("{}×", round((tick * 100.0).round() / 100.0));
        let strips = Strips { scale: &scale, show: &show, sides: Some(sides), lines: &lines };
        strips.draw(markup);
        key(markup, all);
    });
}

/// A strip for each comparison, under its part and cell as far as they differ.
fn one_by_one(all: &[Compared<'_>]) -> Vec<Line> {
    let has_parts = all.iter().any(|it| it.part.name != all[0].part.name);
    let has_subjects = all.iter().any(|it| it.row.subject != all[0].row.subject);
    let mut lines = Vec::new();
    let (mut part, mut cell) = ("", "");
    for one in all {
        if has_parts && one.part.name != part {
            lines.push(Line::Heading(format!("{}, {}", one.part.name, one.figure.name())));
            cell = "";
        }
        if has_subjects && one.row.cell != cell {
            lines.push(Line::Heading(one.row.cell.clone()));
        }
        (part, cell) = (&one.part.name, &one.row.cell);
        let label = if has_subjects { &one.row.subject } else { &one.row.cell };
        lines.push(Line::Strip(Strip {
            label: label.clone(),
            figure: in_words(one),
            band: one.noise,
            points: vec![point(one)],
        }));
    }
    lines
}

/// A strip for each subject of a part, with a mark for each of its cells.
fn by_subject(all: &[Compared<'_>]) -> Vec<Line> {
    let mut lines = Vec::new();
    for part in all.chunk_by(|one, next| one.part.name == next.part.name) {
        lines.push(Line::Heading(format!("{}, {}", part[0].part.name, part[0].figure.name())));
        let mut subjects: Vec<&str> = Vec::new();
        for one in part {
            if !subjects.contains(&&*one.row.subject) {
                subjects.push(&one.row.subject);
            }
        }
        for subject in subjects {
            let own: Vec<&Compared<'_>> =
                part.iter().filter(|it| it.row.subject == subject).collect();
            let count = |outcome| own.iter().filter(|it| it.outcome == outcome).count();
            let noise = own.iter().filter_map(|it| it.noise);
            let figure = [
                (count(Outcome::Less), own[0].figure.less()),
                (count(Outcome::Tie), if count(Outcome::Tie) == 1 { "tie" } else { "ties" }),
                (count(Outcome::More), own[0].figure.more()),
                (count(Outcome::Unclear), "too few"),
            ];
            let said = figure.iter().filter(|(count, _)| *count > 0);
            lines.push(Line::Strip(Strip {
                label: subject.to_owned(),
                figure: said.map(|(n, what)| format!("{n} {what}")).collect::<Vec<_>>().join(", "),
                band: noise.reduce(|(low, high), it| (low.min(it.0), high.max(it.1))),
                points: own.iter().map(|it| point(it)).collect(),
            }));
        }
    }
    lines
}

fn point(one: &Compared<'_>) -> Point {
    let (class, shape, limited_by) = match (one.outcome, one.is_better()) {
        (_, Some(true)) => ("better", DIAMOND, Verdict::Subject),
        (_, Some(false)) => ("worse", SQUARE, Verdict::Subject),
        (Outcome::Unclear, _) => ("few", CIRCLE, Verdict::Swarm),
        _ => ("tie", CIRCLE, Verdict::Schedule),
    };
    Point { at: one.ratio, class: class.to_owned(), shape, limited_by }
}

/// `0.96 (0.88–1.09) a tie`
fn in_words(one: &Compared<'_>) -> String {
    let word = match one.outcome {
        Outcome::Less => one.figure.less(),
        Outcome::Tie => "tie",
        Outcome::More => one.figure.more(),
        Outcome::Unclear => "too few",
    };
    let ratio = one.ratio;
    format!("{:.2} ({:.2}–{:.2}) {word}", ratio.median, ratio.low, ratio.high)
}

/// A kind of mark: class, shape, words, how it is filled, and which it is for.
type Kind = (&'static str, &'static str, &'static str, Verdict, fn(&Compared<'_>) -> bool);

/// What the marks are, as far as they occur.
fn key(markup: &mut Markup, all: &[Compared<'_>]) {
    let kinds: [Kind; 4] = [
        ("better", DIAMOND, "better", Verdict::Subject, |it| it.is_better() == Some(true)),
        ("tie", CIRCLE, "tie: no difference found", Verdict::Schedule, |it| {
            it.outcome == Outcome::Tie
        }),
        ("worse", SQUARE, "worse", Verdict::Subject, |it| it.is_better() == Some(false)),
        ("few", CIRCLE, "too few sound pairs to tell", Verdict::Swarm, |it| {
            it.outcome == Outcome::Unclear
        }),
    ];
    markup.element("ul", &[("class", &"legend")], |markup| {
        for (class, shape, text, verdict, is_there) in &kinds {
            if all.iter().any(is_there) {
                markup.element("li", &[], |markup| {
                    super::series::swatch(markup, class, |markup| {
                        super::series::mark(markup, shape, verdict);
                    });
                    markup.text(text);
                });
            }
        }
        if all.iter().any(|it| it.noise.is_some()) {
            markup.element("li", &[], |markup| {
                super::series::swatch(markup, "", |markup| {
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

/// What was measured: the first figure of each part.
fn without_comparison(markup: &mut Markup, summary: &Summary) {
    let Some((part, metric)) = summary.parts.iter().find_map(|part| {
        let has = |metric: &Metric| part.rows.iter().any(|row| (metric.of)(row).is_some());
        Some((part, metrics(part).into_iter().find(has)?))
    }) else {
        return;
    };
    let rows: Vec<&[Row]> = part.cells();
    markup.element("figure", &[("class", &"overview")], |markup| {
        markup.leaf("figcaption", &[], metric.title);
        of_metric(markup, &rows, &metric, &series(part));
    });
}

/// A figure of every subject of the cells, from 0 or along decades.
pub(super) fn of_metric(markup: &mut Markup, cells: &[&[Row]], metric: &Metric, all: &[Series]) {
    let rows = || cells.iter().flat_map(|cell| cell.iter());
    let scale = Scale::fitting(
        rows().filter_map(|row| (metric.of)(row)).flat_map(|it| [it.low, it.median, it.high]),
    );
    let mut lines = Vec::new();
    for cell in cells {
        lines.extend(cell.first().map(|row| Line::Heading(row.cell.clone())));
        for row in *cell {
            let (Some(at), Some(series)) =
                ((metric.of)(row), all.iter().find(|it| it.name == row.subject))
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
