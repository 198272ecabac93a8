//! Looks of subjects and verdicts: colour, shape and dash of a subject, filling of a mark by its limit. Colour alone tells no
//! fact.

use super::markup::{Markup, px};
use crate::measure::Verdict;
use crate::report::part_summary::PartSummary;

/// Colours other than the baseline's.
const COLOURS: usize = 6;
const SHAPES: [&str; 6] = [DIAMOND, TRIANGLE, SQUARE, DOWN, STAR, CIRCLE];
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

pub(super) const CIRCLE: &str = "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z";
pub(super) const DIAMOND: &str = "M0-5.2 5.2 0 0 5.2-5.2 0z";
const TRIANGLE: &str = "M0-5 5 4H-5z";
pub(super) const SQUARE: &str = "M-4-4H4V4H-4z";
const DOWN: &str = "M0 5-5-4H5z";
const STAR: &str = "M-2-5H2V-2H5V2H2V5H-2V2H-5V-2H-2z";
/// Another machine's.
const PUBLISHED: &str = "M0-6.5 1.6-2 6.2-2 2.5 .8 3.9 5.3 0 2.6-3.9 5.3-2.5 .8-6.2-2-1.6-2z";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: String,
    /// Sets the colour.
    pub(super) class: String,
    pub(super) shape: &'static str,
    pub(super) dash: &'static str,
}

/// The subjects of a part, in the order of its rows. A baseline is the colour of text, and the same again is grey.
pub(super) fn series(part: &PartSummary) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let (mut baselines, mut others) = (0, 0);
    for row in &part.rows {
        if all.iter().any(|subject| subject.name == row.subject) {
            continue;
        }
        let (class, shape, dash) = if row.is_baseline {
            baselines += 1;
            let shape = if baselines == 1 { CIRCLE } else { SQUARE };
            ("base".to_owned(), shape, DASHES[(baselines - 1) % 2])
        } else if row.is_noise {
            ("again".to_owned(), CIRCLE, DASHES[2])
        } else {
            let index = others;
            others += 1;
            let dash = DASHES[(index / 2) % DASHES.len()];
            (format!("c{}", index % COLOURS), SHAPES[index % SHAPES.len()], dash)
        };
        all.push(Series { name: row.subject.clone(), class, shape, dash });
    }
    all
}

/// A mark at the origin, filled by its limit.
pub(super) fn mark(markup: &mut Markup, shape: &str, limited_by: &Verdict) {
    let (class, over) = match limited_by {
        Verdict::Subject => ("full", None),
        Verdict::Browser => ("full", Some("M-7 0H7")),
        Verdict::Both => ("hollow", Some("M0-6V6")),
        Verdict::Schedule => ("hollow", None),
        Verdict::Swarm => ("hollow", Some("M-1.2 0H1.2")),
        Verdict::Machine => ("hollow", Some("M-5 5 5-5")),
        Verdict::Gaps => ("hollow", Some("M-7 0H7")),
        Verdict::Drops => ("hollow", Some("M-5-5 5 5")),
        Verdict::Invalid(_) => {
            markup.empty("path", &[("class", &"over"), ("d", &"M-4-4 4 4M-4 4 4-4")]);
            return;
        }
    };
    markup.empty("path", &[("class", &class), ("d", &shape)]);
    if let Some(over) = over {
        markup.empty("path", &[("class", &"over"), ("d", &over)]);
    }
}

/// Another machine's figure, at the origin.
pub(super) fn published_mark(markup: &mut Markup) {
    markup.empty("path", &[("class", &"hollow"), ("d", &PUBLISHED)]);
}

pub(super) fn mark_at(markup: &mut Markup, x: f64, y: f64, series: &Series, verdict: &Verdict) {
    let place = format!("translate({} {})", px(x), px(y));
    markup.element("g", &[("class", &series.class), ("transform", &place)], |markup| {
        mark(markup, series.shape, verdict);
    });
}

/// Names of the subjects, and the meaning of this part's marks.
pub(super) fn legend(
    markup: &mut Markup,
    part: &PartSummary,
    series: &[Series],
    has_published: bool,
) {
    markup.element("ul", &[("class", &"legend")], |markup| {
        for one in series {
            markup.element("li", &[], |markup| {
                swatch(markup, &one.class, |markup| {
                    let line = [("class", &"line" as _), ("d", &"M-15 0H15" as _)];
                    let dash: [(&str, &dyn std::fmt::Display); 1] =
                        [("stroke-dasharray", &one.dash)];
                    markup.empty("path", &[&line[..], &dash[..]].concat());
                    mark(markup, one.shape, &Verdict::Subject);
                });
                markup.text(&one.name);
            });
        }
        for (verdict, means) in meanings() {
            let is_same = |own_verdict: &Verdict| {
                std::mem::discriminant(own_verdict) == std::mem::discriminant(&verdict)
            };
            if part.rows.iter().any(|row| is_same(&row.curves.limited_by)) {
                markup.element("li", &[], |markup| {
                    swatch(markup, "", |markup| mark(markup, CIRCLE, &verdict));
                    markup.text(means);
                });
            }
        }
        if has_published {
            markup.element("li", &[], |markup| {
                swatch(markup, "published", published_mark);
                markup.text("published, another machine");
            });
        }
    });
}

fn meanings() -> [(Verdict, &'static str); 9] {
    [
        (Verdict::Subject, "limited by the subject"),
        (Verdict::Browser, "limited by the browser"),
        (Verdict::Both, "limited by subject and load: unranked"),
        (Verdict::Schedule, "limited by nobody: schedule or window"),
        (Verdict::Swarm, "limited by the swarm"),
        (Verdict::Machine, "disturbed by the machine"),
        (Verdict::Gaps, "gaps announced"),
        (Verdict::Drops, "events dropped: unranked"),
        (Verdict::Invalid(String::new()), "does not count"),
    ]
}

pub(super) fn swatch(markup: &mut Markup, class: &str, inside: impl FnOnce(&mut Markup)) {
    let class = format!("swatch {class}");
    let attributes: [super::markup::Attribute<'_>; 4] = [
        ("class", &class.trim_end()),
        ("viewBox", &"-16 -8 32 16"),
        ("aria-hidden", &"true"),
        ("focusable", &"false"),
    ];
    markup.element("svg", &attributes, inside);
}
