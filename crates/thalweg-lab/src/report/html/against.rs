//! Figures against the setting that a part varies.

use super::facets::{Axis, Facet, settings};
use super::markup::{Markup, px};
use super::metric::Metric;
use super::plot::Plot;
use super::scale::Scale;
use super::series::{Series, mark_at, published_mark};
use crate::measure::Verdict;
use crate::measure::statistics::Estimate;
use crate::report::published::{Mark, Published};
use crate::report::row::Row;

/// Distance of subjects that stand side by side at a value.
const ASIDE: f64 = 5.0;

pub(super) struct Against<'a> {
    pub(super) axis: &'static Axis,
    pub(super) lines: &'a [Facet<'a>],
    pub(super) series: &'a [Series],
    pub(super) published: Option<&'a Published>,
}

impl Against<'_> {
    pub(super) fn draw(&self, markup: &mut Markup, metrics: &[Metric]) {
        let scales: Vec<Scale> = metrics.iter().map(|metric| self.y_scale(metric)).collect();
        for facet in self.lines {
            if !facet.label.is_empty() {
                markup.leaf("h4", &[], &facet.label);
            }
            let class = if metrics.len() == 4 { "charts four" } else { "charts" };
            markup.element("div", &[("class", &class)], |markup| {
                for (metric, scale) in metrics.iter().zip(&scales) {
                    if facet.rows().any(|row| (metric.of)(row).is_some()) {
                        self.chart(markup, facet, metric, scale.clone());
                    }
                }
            });
        }
    }

    /// Whether anything published is marked in these charts.
    pub(super) fn has_published(&self, metrics: &[Metric]) -> bool {
        let has = |facet| metrics.iter().any(|metric| !self.marks(facet, metric).is_empty());
        self.lines.iter().any(has)
    }

    /// The same for all facets, so that they can be compared.
    fn y_scale(&self, metric: &Metric) -> Scale {
        let rows = self.lines.iter().flat_map(Facet::rows).filter_map(|row| (metric.of)(row));
        let measured = rows.flat_map(|row| [row.low, row.median, row.high]);
        let marks = self.lines.iter().flat_map(|facet| self.marks(facet, metric));
        Scale::fitting(measured.chain(marks.map(|mark| mark.value)))
    }

    fn chart(&self, markup: &mut Markup, facet: &Facet<'_>, metric: &Metric, y: Scale) {
        let values: Vec<f64> = facet.rows().map(|row| (self.axis.of)(&row.settings)).collect();
        let plot = Plot {
            heading: metric.title,
            description: self.description(facet, metric),
            x: Scale::settings(&values),
            x_title: self.axis.title,
            x_show: &self.axis.show,
            y,
            y_show: &metric.tick,
        };
        plot.draw(markup, |markup, plot| {
            for mark in self.marks(facet, metric) {
                let place =
                    format!("translate({} {})", px(plot.x_at(mark.at)), px(plot.y_at(mark.value)));
                let attributes: [super::markup::Attribute<'_>; 2] =
                    [("class", &"published"), ("transform", &place)];
                markup.element("g", &attributes, |markup| {
                    markup.leaf(
                        "title",
                        &[],
                        &format!(
                            "{}: {}, published, another machine",
                            mark.name,
                            (metric.show)(mark.value)
                        ),
                    );
                    published_mark(markup);
                });
            }
            let is_here = |series: &&Series| facet.rows().any(|row| row.subject == series.name);
            let here: Vec<&Series> = self.series.iter().filter(is_here).collect();
            let middle = here.len().saturating_sub(1) as f64 / 2.0;
            for (index, series) in here.into_iter().enumerate() {
                self.subject(markup, plot, facet, metric, series, (index as f64 - middle) * ASIDE);
            }
        });
    }

    fn subject(
        &self,
        markup: &mut Markup,
        plot: &Plot<'_>,
        facet: &Facet<'_>,
        metric: &Metric,
        series: &Series,
        aside: f64,
    ) {
        let own = |row: &&Row| row.subject == series.name;
        let mut points: Vec<(f64, Option<Estimate>, &Row)> = facet
            .rows()
            .filter(own)
            .map(|row| ((self.axis.of)(&row.settings), (metric.of)(row), row))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let beside = format!("translate({} 0)", px(aside));
        let attributes: [super::markup::Attribute<'_>; 2] =
            [("class", &series.class), ("transform", &beside)];
        markup.element("g", &attributes, |markup| {
            let line: Vec<(f64, f64)> = points
                .iter()
                .filter_map(|(x, ratio, _)| Some((*x, ratio.as_ref()?.median)))
                .collect();
            plot.line(markup, series.dash, &line);
        });
        for (value, estimate, row) in points {
            let x = plot.x_at(value) + aside;
            match estimate {
                Some(it) => {
                    let (low, high) = (px(plot.y_at(it.low)), px(plot.y_at(it.high)));
                    markup.element("g", &[("class", &series.class)], |markup| {
                        let path = format!("M{} {low}V{high}", px(x));
                        markup.empty("path", &[("class", &"interval"), ("d", &path)]);
                    });
                    mark_at(markup, x, plot.y_at(it.median), series, &row.curves.limited_by);
                }
                // A row that does not count has no height: it is crossed out at the foot.
                None if matches!(row.curves.limited_by, Verdict::Invalid(_)) => {
                    mark_at(markup, x, plot.y_at(0.0) - 6.0, series, &row.curves.limited_by);
                }
                None => {}
            }
        }
    }

    /// In words: the medians of each subject.
    fn description(&self, facet: &Facet<'_>, metric: &Metric) -> String {
        let mut text = format!("Against {}.", self.axis.title);
        for series in self.series {
            let rows = facet.rows().filter(|row| row.subject == series.name);
            let figures: Vec<String> = rows
                .filter_map(|row| {
                    let at = (self.axis.show)((self.axis.of)(&row.settings));
                    Some(format!("{at}: {}", (metric.show)((metric.of)(row)?.median)))
                })
                .collect();
            if !figures.is_empty() {
                text += &format!(" {}: {}.", series.name, figures.join(", "));
            }
        }
        text
    }

    fn marks(&self, facet: &Facet<'_>, metric: &Metric) -> Vec<&Mark> {
        let figures = self.published.map_or(&[][..], |set| &set.figures);
        let marks = figures.iter().filter_map(|figure| figure.mark.as_ref());
        let on_axis = |mark: &Mark| {
            let values = facet.cells.iter().filter_map(|cell| settings(cell)).map(self.axis.of);
            let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
            (low..=high).contains(&mark.at)
        };
        marks
            .filter(|mark| mark.metric == metric.key && mark.axis == self.axis.key)
            // In a browser each subject has a transport of its own.
            .filter(|mark| facet.rows().any(|row| mark.is_of(&row.settings)) && on_axis(mark))
            .collect()
    }
}

impl Facet<'_> {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.cells.iter().flat_map(|cell| cell.iter())
    }
}
