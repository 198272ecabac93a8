//! The frame of a chart with two axes: grid, ticks, titles.

use super::markup::{Markup, px};
use super::scale::Scale;

/// In user units, which are pixels on a wide screen.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 232.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 40.0;
/// About the width of a digit of a tick.
const DIGIT: f64 = 7.0;

pub(super) struct Plot<'a> {
    pub(super) heading: &'a str,
    /// For people who do not see it.
    pub(super) description: String,
    pub(super) x: Scale,
    pub(super) x_title: &'a str,
    pub(super) x_show: &'a dyn Fn(f64) -> String,
    pub(super) y: Scale,
    pub(super) y_show: &'a dyn Fn(f64) -> String,
}

impl Plot<'_> {
    /// The chart as a figure; `inside` draws over the grid.
    pub(super) fn draw(&self, markup: &mut Markup, inside: impl FnOnce(&mut Markup, &Self)) {
        markup.element("figure", &[("class", &"chart")], |markup| {
            markup.leaf("figcaption", &[], self.heading);
            let view = format!("0 0 {WIDTH} {HEIGHT}");
            markup.element("svg", &[("viewBox", &view), ("role", &"img")], |markup| {
                markup.leaf("title", &[], self.heading);
                markup.leaf("desc", &[], &self.description);
                self.grid(markup);
                inside(markup, self);
            });
        });
    }

    pub(super) fn x_at(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    pub(super) fn y_at(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    pub(super) fn line(&self, markup: &mut Markup, dash: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            path += if index == 0 { "M" } else { "L" };
            path += &format!("{} {}", px(self.x_at(*x)), px(self.y_at(*y)));
        }
        if points.len() > 1 {
            markup.empty("path", &[("class", &"line"), ("stroke-dasharray", &dash), ("d", &path)]);
        }
    }

    fn grid(&self, markup: &mut Markup) {
        let (left, right, bottom) = (px(LEFT), px(WIDTH - RIGHT), px(HEIGHT - BOTTOM));
        let mut path = String::new();
        for &tick in &self.y.ticks {
            path += &format!("M{left} {}H{right}", px(self.y_at(tick)));
        }
        markup.empty("path", &[("class", &"grid"), ("d", &path)]);
        markup.empty("path", &[("class", &"axis"), ("d", &format!("M{left} {bottom}H{right}"))]);
        for &tick in &self.y.ticks {
            let (x, y) = (px(LEFT - 7.0), px(self.y_at(tick) + 4.0));
            markup.leaf("text", &[("class", &"end"), ("x", &x), ("y", &y)], &(self.y_show)(tick));
        }
        let mut path = String::new();
        for &tick in &self.x.ticks {
            path += &format!("M{} {bottom}v4", px(self.x_at(tick)));
        }
        markup.empty("path", &[("class", &"axis"), ("d", &path)]);
        for (x, text) in self.x_labels() {
            let (x, y) = (px(x), px(HEIGHT - BOTTOM + 17.0));
            markup.leaf("text", &[("class", &"mid"), ("x", &x), ("y", &y)], &text);
        }
        let (x, y) = (px((LEFT + WIDTH - RIGHT) / 2.0), px(HEIGHT - 4.0));
        markup.leaf("text", &[("class", &"mid"), ("x", &x), ("y", &y)], self.x_title);
    }

    /// Labels that do not touch their neighbour; the last always, and none beyond the chart.
    fn x_labels(&self) -> Vec<(f64, String)> {
        let mut kept: Vec<(f64, f64, String)> = Vec::new();
        for &tick in self.x.ticks.iter().rev() {
            let text = (self.x_show)(tick);
            let half = text.chars().count() as f64 * DIGIT / 2.0;
            let x = self.x_at(tick).min(WIDTH - half);
            if kept.last().is_none_or(|(next, next_half, _)| x + half + 7.0 < next - next_half) {
                kept.push((x, half, text));
            }
        }
        kept.into_iter().map(|(x, _, text)| (x, text)).collect()
    }
}
