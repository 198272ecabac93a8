//! Where each of many subjects stands: a table by transport, with a bar as long as its share of the machine's limit.

use super::markup::Markup;
use crate::report::standings::Standing;

const CAPTION: &str = "In brackets: the interval that holds the share in 95 of 100. Neighbours whose \
                       intervals overlap are not told apart.";

pub(super) fn draw(markup: &mut Markup, all: &[Standing]) {
    for own in all.chunk_by(|one, other| one.transport == other.transport) {
        let Some(baseline) = own.iter().find(|sample| sample.is_baseline) else { continue };
        let label = format!("Where each stands over {}", baseline.transport);
        markup.leaf("h2", &[("class", &"over-transport")], &baseline.transport.to_string());
        markup.element(
            "div",
            &[("class", &"scroll"), ("role", &"region"), ("aria-label", &label), ("tabindex", &0)],
            |markup| {
                markup.element("table", &[("class", &"standings")], |markup| {
                    markup.element("thead", &[], |markup| head(markup, baseline));
                    let shares = own.iter().filter_map(|one| one.together.share);
                    let widest = shares.fold(1.0, f64::max);
                    markup.element("tbody", &[], |markup| {
                        own.iter().for_each(|one| line(markup, one, widest));
                    });
                });
            },
        );
    }
    if !all.is_empty() {
        markup.leaf("p", &[("class", &"note")], CAPTION);
    }
}

fn head(markup: &mut Markup, baseline: &Standing) {
    markup.element("tr", &[], |markup| {
        markup.leaf("td", &[], "");
        for name in Standing::heads(&baseline.subject) {
            markup.leaf("th", &[("scope", &"col")], &name);
        }
    });
}

/// `widest` is the largest share.
fn line(markup: &mut Markup, one: &Standing, widest: f64) {
    let class = match (one.is_baseline, one.subject.starts_with("thalweg")) {
        (true, _) => "base",
        (_, true) => "own",
        _ => "again",
    };
    let [share, others @ ..] = one.figures();
    markup.element("tr", &[], |markup| {
        markup.leaf("th", &[("scope", &"row")], &one.subject);
        markup.element("td", &[("class", &"share")], |markup| {
            if let Some(share) = one.together.share.filter(|_| one.together.is_ranked) {
                let width = share / widest * 100.0;
                markup.element(
                    "svg",
                    &[
                        ("class", &class),
                        ("viewBox", &"0 0 100 10"),
                        ("preserveAspectRatio", &"none"),
                        ("aria-hidden", &"true"),
                    ],
                    |markup| {
                        markup.empty(
                            "rect",
                            &[
                                ("class", &"bar"),
                                ("width", &format!("{width:.1}")),
                                ("height", &"10"),
                            ],
                        );
                    },
                );
            }
            let place = if one.together.is_ranked { "percent" } else { "unranked" };
            markup.leaf("span", &[("class", &place)], &share);
        });
        others.iter().for_each(|text| markup.leaf("td", &[], text));
    });
}
