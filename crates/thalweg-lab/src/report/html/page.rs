//! The page: results, then each part, then circumstances.

use super::markup::{Attribute, Markup};
use super::{overview, part, standings, table};
use crate::report::cost;
use crate::report::findings::findings;
use crate::report::summary::Summary;
use crate::report::words;

const STYLE: &str = include_str!("style.css");
/// Style of its own, and nothing else: no script, no picture, no request.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub(super) fn draw(summary: &Summary) -> String {
    let mut markup = Markup::default();
    markup.element("html", &[("lang", &"en")], |markup| {
        markup.element("head", &[], |markup| head(markup, summary));
        markup.element("body", &[], |markup| {
            markup.element("main", &[], |markup| {
                first_screen(markup, summary);
                for one in summary.parts.iter().filter(|one| !one.rows.is_empty()) {
                    part::draw(markup, one);
                }
                cost(markup, summary);
                manifest(markup, summary);
            });
        });
    });
    format!("<!doctype html>\n{}\n", markup.finish())
}

fn head(markup: &mut Markup, summary: &Summary) {
    markup.empty("meta", &[("charset", &"utf-8")]);
    let policy: [Attribute<'_>; 2] =
        [("http-equiv", &"Content-Security-Policy"), ("content", &POLICY)];
    markup.empty("meta", &policy);
    let viewport: [Attribute<'_>; 2] =
        [("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")];
    markup.empty("meta", &viewport);
    markup.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
    markup.empty("meta", &[("name", &"referrer"), ("content", &"no-referrer")]);
    markup.leaf("title", &[], &format!("{}, measured by Thalweg", summary.name));
    markup.style(STYLE);
}

fn first_screen(markup: &mut Markup, summary: &Summary) {
    let found = findings(summary);
    let machine = &summary.manifest.machine;
    let day = summary.manifest.begun.get(..10).unwrap_or_default();
    markup.element("header", &[], |markup| {
        let mut about = vec![format!("Thalweg lab: {}", summary.name)];
        about.extend((!day.is_empty()).then(|| day.to_owned()));
        about.push(format!("{}, {} cores", machine.cpu, machine.cores));
        markup.leaf("p", &[("class", &"about")], &about.join(" · "));
        // No line ends within an interval.
        markup.leaf("h1", &[], &found.headline.replace('–', "\u{2060}–\u{2060}"));
    });
    standings::draw(markup, &summary.standings);
    markup.element("div", &[("class", &"first")], |markup| {
        overview::draw(markup, summary);
        markup.element("div", &[("class", &"words")], |markup| {
            markup.leaf("h2", &[], "How sure that is");
            list(markup, &found.trust);
            if !found.details.is_empty() {
                markup.leaf("h2", &[], "In detail");
                list(markup, &found.details);
            }
        });
    });
}

fn cost(markup: &mut Markup, summary: &Summary) {
    let models = cost::models(summary);
    let told = cost::sentences(summary, &models);
    if !told.is_empty() {
        markup.element("section", &[("class", &"part")], |markup| {
            markup.leaf("h2", &[], "What it costs");
            table::grid(markup, "Cost models", &cost::grid(&models));
            list(markup, &told);
        });
    }
}

fn manifest(markup: &mut Markup, summary: &Summary) {
    markup.element("section", &[("class", &"manifest")], |markup| {
        markup.leaf("h2", &[], "How it was measured");
        markup.element("dl", &[], |markup| {
            for (name, values) in words::facts(summary) {
                markup.leaf("dt", &[], name);
                for value in &values {
                    markup.leaf("dd", &[], value);
                }
            }
        });
        markup.leaf("h3", &[], "To run it again");
        markup.leaf("p", &[], "From the folder of this run, with everything as it was:");
        markup.element("pre", &[], |markup| {
            markup.leaf("code", &[], "thalweg bench rerun <folder>");
        });
        markup.leaf("p", &[], "Or as it was typed:");
        markup.element("pre", &[], |markup| {
            markup.leaf("code", &[], &summary.manifest.command_line);
        });
        markup.leaf("h3", &[], "How to read it");
        for sentence in words::EXPLAINED {
            markup.leaf("p", &[], sentence);
        }
    });
}

fn list(markup: &mut Markup, items: &[String]) {
    markup.element("ul", &[], |markup| {
        for item in items {
            markup.leaf("li", &[], item);
        }
    });
}
