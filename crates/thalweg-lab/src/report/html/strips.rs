//! Rows of a mark with its interval on one common axis, as wide as the page: a label, a strip, and the figure in words. Places
//! are in percent, so that the strips grow with the page and the marks in them do not.

use super::markup::{Attribute, Markup, px};
use super::scale::Scale;
use super::series::mark;
use crate::measure::Verdict;
use crate::measure::statistics::Estimate;

/// Height of a strip, and of a lane in one with many marks.
const STRIP: f64 = 22.0;
const LANE: f64 = 9.0;
/// Lanes that the marks of a strip are spread over.
const LANES_MAX: usize = 5;

pub(super) enum Line {
    /// Over the next lines.
    Heading(String),
    /// Marks on the axis.
    Strip(Strip),
}

pub(super) struct Strip {
    pub(super) label: String,
    /// At the right, and for people who do not see the strip.
    pub(super) figure: String,
    /// Behind the marks, from and to.
    pub(super) band: Option<(f64, f64)>,
    pub(super) points: Vec<Point>,
}

pub(super) struct Point {
    pub(super) at: Estimate,
    pub(super) class: String,
    pub(super) shape: &'static str,
    pub(super) limited_by: Verdict,
}

pub(super) struct Strips<'a> {
    pub(super) scale: &'a Scale,
    pub(super) show: &'a dyn Fn(f64) -> String,
    /// Words to the left and to the right of the middle, if that is 1.
    pub(super) sides: Option<(&'a str, &'a str)>,
    pub(super) lines: &'a [Line],
}

impl Strips<'_> {
    pub(super) fn draw(&self, markup: &mut Markup) {
        markup.element("div", &[("class", &"strips")], |markup| {
            if let Some((left, right)) = self.sides {
                markup.element("div", &[("class", &"strip sides")], |markup| {
                    markup.leaf("span", &[("class", &"label")], "");
                    markup.element("span", &[("class", &"between")], |markup| {
                        markup.leaf("span", &[], &format!("← {left}"));
                        markup.leaf("span", &[], &format!("{right} →"));
                    });
                    markup.leaf("span", &[("class", &"figure")], "");
                });
            }
            for line in self.lines {
                match line {
                    Line::Heading(text) => markup.leaf("div", &[("class", &"heading")], text),
                    Line::Strip(strip) => self.strip(markup, strip),
                }
            }
            markup.element("div", &[("class", &"strip foot")], |markup| {
                markup.leaf("span", &[("class", &"label")], "");
                self.axis(markup);
                markup.leaf("span", &[("class", &"figure")], "");
            });
        });
    }

    fn strip(&self, markup: &mut Markup, strip: &Strip) {
        markup.element("div", &[("class", &"strip")], |markup| {
            markup.leaf("span", &[("class", &"label")], &strip.label);
            let lanes = strip.points.len().clamp(1, LANES_MAX);
            let height = STRIP + LANE * (lanes - 1) as f64;
            let attributes: [Attribute<'_>; 4] =
                [("width", &"100%"), ("height", &px(height)), ("role", &"img"), ("class", &"plot")];
            markup.element("svg", &attributes, |markup| {
                markup.leaf("title", &[], &format!("{}: {}", strip.label, strip.figure));
                if let Some((low, high)) = strip.band {
                    let (x, width) = (self.percent(low), self.width(low, high));
                    let attributes: [Attribute<'_>; 4] =
                        [("class", &"band"), ("x", &x), ("width", &width), ("height", &px(height))];
                    markup.empty("rect", &attributes);
                }
                for &tick in &self.scale.ticks {
                    let class = if self.sides.is_some() && tick == 1.0 { "one" } else { "grid" };
                    self.vertical(markup, class, tick, height);
                }
                for (index, point) in strip.points.iter().enumerate() {
                    self.point(markup, point, STRIP / 2.0 + LANE * (index % lanes) as f64);
                }
            });
            markup.leaf("span", &[("class", &"figure")], &strip.figure);
        });
    }

    fn point(&self, markup: &mut Markup, point: &Point, y: f64) {
        let (low, high) = (self.percent(point.at.low), self.percent(point.at.high));
        let y = px(y);
        markup.element("g", &[("class", &point.class)], |markup| {
            let attributes: [Attribute<'_>; 5] =
                [("class", &"interval"), ("x1", &low), ("x2", &high), ("y1", &y), ("y2", &y)];
            markup.empty("line", &attributes);
            let x = self.percent(point.at.median);
            markup.element("svg", &[("x", &x), ("y", &y), ("class", &"mark")], |markup| {
                mark(markup, point.shape, &point.limited_by);
            });
        });
    }

    fn axis(&self, markup: &mut Markup) {
        let attributes: [Attribute<'_>; 4] =
            [("width", &"100%"), ("height", &"20"), ("class", &"plot"), ("aria-hidden", &"true")];
        markup.element("svg", &attributes, |markup| {
            for &tick in &self.scale.ticks {
                let x = self.percent(tick);
                let attributes: [Attribute<'_>; 3] = [("class", &"mid"), ("x", &x), ("y", &"14")];
                markup.leaf("text", &attributes, &(self.show)(tick));
            }
        });
    }

    fn vertical(&self, markup: &mut Markup, class: &str, value: f64, height: f64) {
        let (x, height) = (self.percent(value), px(height));
        let attributes: [Attribute<'_>; 5] =
            [("class", &class), ("x1", &x), ("x2", &x), ("y1", &"0"), ("y2", &height)];
        markup.empty("line", &attributes);
    }

    fn percent(&self, value: f64) -> String {
        format!("{}%", px(2.0 + 96.0 * self.scale.place(value)))
    }

    fn width(&self, low: f64, high: f64) -> String {
        format!("{}%", px(96.0 * (self.scale.place(high) - self.scale.place(low)).max(0.003)))
    }
}
