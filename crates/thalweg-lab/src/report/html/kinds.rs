//! CPU of a browser: a bar for each subject of each cell, with its kinds of processes in a row, and the server's beside it.

use super::markup::{Attribute, Markup, px};
use super::series::swatch;
use crate::report::BrowserFigures;
use crate::report::number::{digits, round};
use crate::report::part_summary::PartSummary;
use crate::report::row::Row;

const BAR: f64 = 14.0;
/// More cells are folded away.
const CELLS_MAX: usize = 3;

/// A part of a bar: its colour, its name, and its length, in cores.
type BarKind = (&'static str, &'static str, fn(&BrowserFigures) -> Option<f64>);

const KINDS: [BarKind; 5] = [
    ("c0", "tab", |figures| figures.tab_cpu),
    ("c1", "network process", |figures| figures.network_cpu),
    ("c2", "browser process", |figures| figures.browser_cpu),
    ("c3", "GPU process and others", |figures| {
        Some(figures.gpu_cpu.unwrap_or(0.0) + figures.other_cpu?)
    }),
    ("again", "server", |figures| figures.subject_cpu.map(|cpu| cpu.median)),
];

/// For a part whose load was a browser.
pub(super) fn draw(markup: &mut Markup, part: &PartSummary) {
    let cells = part.cells();
    let cells: Vec<&&[Row]> = cells.iter().filter(|cell| all(cell).next().is_some()).collect();
    let title = "CPU by process, % of a core";
    match cells.len() {
        0 => {}
        1..=CELLS_MAX => {
            markup.leaf("h4", &[], title);
            bars(markup, &cells);
        }
        count => markup.element("details", &[], |markup| {
            markup.leaf("summary", &[], &format!("{title}: {count} cells"));
            bars(markup, &cells);
        }),
    }
}

fn all(cell: &[Row]) -> impl Iterator<Item = (&Row, &BrowserFigures)> {
    cell.iter().filter_map(|row| Some((row, row.browser.as_ref()?)))
}

fn bars(markup: &mut Markup, cells: &[&&[Row]]) {
    let longest = cells.iter().flat_map(|cell| all(cell)).map(|(_, value)| length(value));
    let longest = longest.fold(f64::MIN_POSITIVE, f64::max);
    markup.element("ul", &[("class", &"legend")], |markup| {
        for (class, name, _) in KINDS {
            markup.element("li", &[], |markup| {
                swatch(markup, class, |markup| {
                    let path = [("class", &"full" as _), ("d", &"M-12-6H12V6H-12z" as _)];
                    markup.empty("path", &path);
                });
                markup.text(name);
            });
        }
    });
    markup.element("div", &[("class", &"strips wide")], |markup| {
        for cell in cells {
            let name = cell.first().map_or("", |row| &row.cell);
            markup.leaf("div", &[("class", &"heading")], name);
            for (row, figures) in all(cell) {
                bar(markup, row, figures, longest);
            }
        }
    });
}

fn length(figures: &BrowserFigures) -> f64 {
    KINDS.iter().filter_map(|(_, _, of)| of(figures)).sum()
}

fn bar(markup: &mut Markup, row: &Row, figures: &BrowserFigures, longest: f64) {
    let each = KINDS.iter().filter_map(|(_, name, of)| {
        Some(format!("{name} {}\u{a0}%", digits(of(figures)? * 100.0)))
    });
    let described = format!("{}: {}", row.subject, each.collect::<Vec<_>>().join(", "));
    let in_all = |of: Option<f64>| round((of.unwrap_or(0.0) * 1000.0).round() / 10.0);
    let browser = in_all(figures.cpu.map(|cpu| cpu.median));
    let server = in_all(figures.subject_cpu.map(|cpu| cpu.median));
    markup.element("div", &[("class", &"strip")], |markup| {
        markup.leaf("span", &[("class", &"label")], &row.subject);
        let attributes: [Attribute<'_>; 4] =
            [("width", &"100%"), ("height", &px(BAR)), ("role", &"img"), ("class", &"plot")];
        markup.element("svg", &attributes, |markup| {
            markup.leaf("title", &[], &described);
            let mut from = 0.0;
            for (class, _, of) in KINDS {
                let Some(cores) = of(figures) else { continue };
                let (x, width) = (percent(from / longest), percent(cores / longest));
                let attributes: [Attribute<'_>; 3] =
                    [("x", &x), ("width", &width), ("height", &px(BAR))];
                markup.element("g", &[("class", &class)], |markup| {
                    markup.empty("rect", &[&[("class", &"full" as _)], &attributes[..]].concat());
                });
                from += cores;
            }
        });
        markup.leaf("span", &[("class", &"figure")], &format!("{browser} + {server}\u{a0}%"));
    });
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}
