//! The report page (`web/ui/report.html`) with a summary in it, and its sentences and tables. The page draws the charts.

use super::curves::Curves;
use super::findings::findings;
use super::part_summary::PartSummary;
use super::published::{Published, published};
use super::summary::Summary;
use super::table::{columns, notes};
use super::unsettled::unsettled;
use super::{cost, received, standings, words, workload};
use crate::measure::comparison::{Comparison, Metric};
use serde::Serialize;

/// The element of the page that holds the document.
const PLACE: &str = r#"<script type="application/json" id="summary">null</script>"#;

/// A summary with sentences and tables for the report page: `summary.json`.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    shown: Shown<'a>,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    headline: String,
    details: Vec<String>,
    trust: Vec<String>,
    standings: Vec<Vec<String>>,
    cost_table: Vec<Vec<String>>,
    cost: Vec<String>,
    unsettled: Vec<String>,
    facts: Vec<(&'static str, Vec<String>)>,
    parts: Vec<ShownPart<'a>>,
}

/// Text and curves of one scenario. Lists of rows and comparisons have the order of the summary.
#[derive(Debug, Serialize)]
struct ShownPart<'a> {
    asked: String,
    metric: Metric,
    metric_name: &'static str,
    /// Names of charts, the most telling first.
    charts: &'static [&'static str],
    /// Two lines of a table's head. An empty field of the first continues the one before.
    heads: [Vec<&'static str>; 2],
    figures: Vec<Vec<String>>,
    notes: Vec<String>,
    compared: Vec<String>,
    pooled: Vec<String>,
    curves: Vec<&'a Curves>,
    /// Results of endpoints: a name, and facts.
    received: Vec<(String, Vec<(&'static str, String)>)>,
    published: Option<Published>,
}

impl Document<'_> {
    /// Returns the document of a summary.
    pub fn new(summary: &Summary) -> Document<'_> {
        let found = findings(summary);
        let models = cost::models(summary);
        let shown = Shown {
            headline: found.headline,
            details: found.details,
            trust: found.trust,
            standings: standings::grid(&summary.standings),
            cost_table: cost::grid(&models),
            cost: cost::sentences(summary, &models),
            unsettled: unsettled(summary),
            facts: words::facts(summary),
            parts: summary.parts.iter().map(shown_part).collect(),
        };
        Document { summary, shown }
    }
}

fn shown_part(part: &PartSummary) -> ShownPart<'_> {
    let (columns, workload) = (columns(part), workload::shown(part));
    let in_short = |all: &[Comparison]| all.iter().map(Comparison::in_short).collect();
    let received = part.rows.iter().filter_map(|row| {
        let name = format!("{}, {}", row.subject, row.cell);
        Some((name, received::facts(row.received.as_ref()?)))
    });
    ShownPart {
        asked: format!("{} {}", workload.sentence, words::effort(part)),
        metric: part.metric(),
        metric_name: part.name_of(part.metric()),
        charts: workload.charts,
        heads: [
            columns.iter().map(|column| column.0).collect(),
            columns.iter().map(|column| column.1).collect(),
        ],
        figures: part
            .rows
            .iter()
            .map(|row| columns.iter().map(|(_, _, show)| show(part, row)).collect())
            .collect(),
        notes: notes(part)
            .lines()
            .chain(workload.note)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect(),
        compared: in_short(&part.comparisons),
        pooled: in_short(&part.pooled),
        curves: part.rows.iter().map(|row| &row.curves).collect(),
        received: received.collect(),
        published: published(&part.name),
    }
}

/// Returns the page with this summary, one file that requests nothing. `page` is the built page without a summary.
pub fn html(summary: &Summary, page: &str) -> serde_json::Result<String> {
    // No text in the document ends its element.
    let document = serde_json::to_string(&Document::new(summary))?.replace('<', "\\u003c");
    Ok(page.replacen(PLACE, &PLACE.replacen("null", &document, 1), 1))
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary_of_everything;
    use super::*;

    #[test]
    fn outside_text_stays_in_the_document() {
        let (_, mut summary) = summary_of_everything();
        summary.name = "</script><script>alert(1)</script>null".to_owned();
        let page = html(&summary, &format!("<body>{PLACE}</body>")).unwrap();
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("</script>").count(), 1);
        let document = page.split_once("summary\">").unwrap().1.split_once("</script>").unwrap().0;
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["name"], summary.name);
    }

    #[test]
    fn every_row_and_comparison_has_its_text() {
        let (_, summary) = summary_of_everything();
        let document = serde_json::to_value(Document::new(&summary)).unwrap();
        let (part, shown) = (&document["parts"][0], &document["shown"]["parts"][0]);
        let count = |list: &serde_json::Value| list.as_array().unwrap().len();
        assert_eq!(count(&shown["figures"]), count(&part["rows"]));
        assert_eq!(count(&shown["curves"]), count(&part["rows"]));
        assert_eq!(count(&shown["compared"]), count(&part["comparisons"]));
        assert_eq!(count(&shown["pooled"]), count(&part["pooled"]));
        for line in shown["figures"].as_array().unwrap() {
            assert_eq!(count(line), count(&shown["heads"][0]));
            assert_eq!(count(line), count(&shown["heads"][1]));
        }
    }
}
