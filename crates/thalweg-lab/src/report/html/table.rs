//! Every figure of a part: the terminal's columns, as a table.

use super::markup::Markup;
use crate::report::part_summary::PartSummary;
use crate::report::table::{columns, notes};

pub(super) fn draw(markup: &mut Markup, part: &PartSummary) {
    let columns = columns(part);
    let label = format!("Every figure of {}", part.name);
    markup.element(
        "div",
        &[("class", &"scroll"), ("role", &"region"), ("aria-label", &label), ("tabindex", &0)],
        |markup| {
            markup.element("table", &[], |markup| {
                markup.element("thead", &[], |markup| head(markup, part));
                for cell in part.cells() {
                    markup.element("tbody", &[], |markup| {
                        let name = cell.first().map_or("", |row| &row.cell);
                        markup.element("tr", &[("class", &"cell")], |markup| {
                            let span = columns.len() + 1;
                            markup.leaf("th", &[("colspan", &span), ("scope", &"rowgroup")], name);
                        });
                        for row in cell {
                            markup.element("tr", &[], |markup| {
                                markup.leaf("th", &[("scope", &"row")], &row.subject);
                                for (_, _, show) in &columns {
                                    markup.leaf("td", &[], &show(part, row));
                                }
                            });
                        }
                    });
                }
            });
        },
    );
    for note in notes(part).lines().filter(|line| !line.is_empty()) {
        markup.leaf("p", &[("class", &"note")], note);
    }
}

/// Lines of fields, the first with the heads; empty without lines.
pub(super) fn grid(markup: &mut Markup, label: &str, lines: &[Vec<String>]) {
    let Some((heads, lines)) = lines.split_first() else { return };
    markup.element(
        "div",
        &[("class", &"scroll"), ("role", &"region"), ("aria-label", &label), ("tabindex", &0)],
        |markup| {
            markup.element("table", &[], |markup| {
                markup.element("thead", &[], |markup| {
                    markup.element("tr", &[], |markup| {
                        markup.leaf("td", &[], "");
                        for head in &heads[1..] {
                            markup.leaf("th", &[("scope", &"col")], head);
                        }
                    });
                });
                markup.element("tbody", &[], |markup| {
                    for line in lines {
                        markup.element("tr", &[], |markup| {
                            markup.leaf("th", &[("scope", &"row")], &line[0]);
                            line[1..].iter().for_each(|field| markup.leaf("td", &[], field));
                        });
                    }
                });
            });
        },
    );
}

/// Two lines; a first one that is empty continues the one before.
fn head(markup: &mut Markup, part: &PartSummary) {
    let columns = columns(part);
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for (group, _, _) in &columns {
        match groups.last_mut() {
            Some((_, span)) if group.is_empty() => *span += 1,
            _ => groups.push((group, 1)),
        }
    }
    markup.element("tr", &[], |markup| {
        markup.leaf("td", &[], "");
        for (group, span) in groups {
            markup.leaf("th", &[("colspan", &span), ("scope", &"colgroup")], group);
        }
    });
    markup.element("tr", &[], |markup| {
        markup.leaf("th", &[("scope", &"col")], "subject");
        for (_, name, _) in &columns {
            markup.leaf("th", &[("scope", &"col")], name);
        }
    });
}
