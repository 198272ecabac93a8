//! One scenario: what was asked, charts, what others published, every figure.

use super::against::Against;
use super::facets::facets;
use super::markup::Markup;
use super::series::{legend, series};
use super::{curve, kinds, overview, table};
use crate::report::part_summary::PartSummary;
use crate::report::published::{Published, published};
use crate::report::received;
use crate::report::row::Row;
use crate::report::{words, workload};

pub(super) fn draw(markup: &mut Markup, part: &PartSummary) {
    markup.element("section", &[("class", &"part")], |markup| {
        markup.leaf("h2", &[], &part.name);
        markup.leaf("p", &[("class", &"title")], &part.title);
        let asked = format!("{} {}", workload::of(part).sentence, words::effort(part));
        markup.leaf("p", &[("class", &"asked")], &asked);
        markup.leaf("h3", &[], "Charts");
        charts(markup, part);
        if let Some(set) = published(&part.name) {
            beside(markup, &set);
        }
        markup.leaf("h3", &[], "Figures");
        table::draw(markup, part);
        for row in &part.rows {
            received_events(markup, row);
        }
    });
}

/// Shows the received events of an endpoint that the lab does not control.
fn received_events(markup: &mut Markup, row: &Row) {
    let Some(received) = &row.received else { return };
    markup.leaf("h3", &[], &format!("{}, {}", row.subject, row.cell));
    markup.element("dl", &[], |markup| {
        for (name, line) in received::facts(received) {
            markup.leaf("dt", &[], name);
            markup.leaf("dd", &[], &line);
        }
    });
}

fn charts(markup: &mut Markup, part: &PartSummary) {
    let series = series(part);
    let metrics = workload::of(part).charts;
    let published = published(&part.name);
    let facets = facets(part);
    let against = facets.axis.map(|axis| Against {
        axis,
        lines: &facets.lines,
        series: &series,
        published: published.as_ref(),
    });
    let has_published = against.as_ref().is_some_and(|against| against.has_published(&metrics));
    legend(markup, part, &series, has_published);
    if let Some(against) = &against {
        against.draw(markup, &metrics);
    }
    if !facets.rest.is_empty() {
        for metric in &metrics {
            let rows = || facets.rest.iter().flat_map(|cell| cell.iter());
            if rows().any(|row| (metric.of)(row).is_some()) {
                markup.element("figure", &[("class", &"wide")], |markup| {
                    markup.leaf("figcaption", &[], metric.title);
                    overview::metric_overview(markup, &facets.rest, metric, &series);
                });
            }
        }
    }
    kinds::draw(markup, part);
    curve::draw(markup, part, &series);
}

/// Another machine's figures, in the source's words.
fn beside(markup: &mut Markup, set: &Published) {
    markup.leaf("h3", &[], "Published, another machine");
    let source = format!("{}. {}. Context, and part of no ratio here.", set.source, set.machine);
    markup.leaf("p", &[("class", &"note")], &source);
    markup.element("div", &[("class", &"scroll")], |markup| {
        markup.element("table", &[("class", &"published")], |markup| {
            markup.element("tbody", &[], |markup| {
                for figure in &set.figures {
                    markup.element("tr", &[], |markup| {
                        markup.leaf("th", &[("scope", &"row")], &figure.what);
                        markup.leaf("td", &[], &figure.figure);
                    });
                }
            });
        });
    });
}
