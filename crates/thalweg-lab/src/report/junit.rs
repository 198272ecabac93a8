//! The summary as JUnit XML, for viewers of tests: a suite for each scenario, a case for each subject in each cell.

use super::part_summary::PartSummary;
use super::row::{Row, RowPlace};
use super::summary::Summary;
use super::threshold::{FAIL_IF, Hit};
use crate::scenario::{Part, Plan};

const INVALID: &str = "invalid";

/// A test case: one subject in one cell.
struct Case {
    name: String,
    time_s: f64,
    /// Kind and reason of each failure.
    failures: Vec<(&'static str, String)>,
    output: Vec<String>,
    is_skipped: bool,
}

/// Returns the whole summary as JUnit XML. A case fails once for samples that do not count, for each crossed threshold, and for
/// each fault that is not allowed. A planned case that was not measured is skipped.
pub fn junit(plan: &Plan, summary: &Summary, hits: &[Hit]) -> String {
    let mut suites: Vec<(String, Vec<Case>)> = Vec::new();
    for (part, found) in plan.parts.iter().zip(&summary.parts) {
        suites.push((part.name.clone(), cases(part, found, hits)));
    }
    // Thresholds on ratios, and those without a figure, belong to no row.
    let unasked: Vec<Case> = hits
        .iter()
        .filter(|hit| hit.row.is_none())
        .map(|hit| Case {
            name: hit.reason.clone(),
            time_s: 0.0,
            failures: vec![(FAIL_IF, hit.reason.clone())],
            output: Vec::new(),
            is_skipped: false,
        })
        .collect();
    if !unasked.is_empty() {
        suites.push((FAIL_IF.to_owned(), unasked));
    }
    let all = suites.iter().flat_map(|(_, cases)| cases);
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    text += &format!("<testsuites name=\"{}\" {}>\n", escaped(&summary.name), counts(all));
    for (name, cases) in &suites {
        text += &suite(name, &summary.manifest.begun, cases);
    }
    text + "</testsuites>\n"
}

fn cases(part: &Part, found: &PartSummary, hits: &[Hit]) -> Vec<Case> {
    let mut rows = found.rows.iter().peekable();
    let mut cases = Vec::new();
    for (number, cell) in part.cells.iter().enumerate() {
        for (index, subject) in cell.subjects.iter().enumerate() {
            // Rows are in the plan's order, without those that were not measured.
            let here = RowPlace { cell: number, subject: index };
            let row = rows.next_if(|row| row.place == here);
            let place = [&part.name, &cell.label, &subject.name];
            cases.push(Case {
                name: format!("{} · {}", cell.label, subject.name),
                time_s: row.map_or(0.0, |row| row.span_s),
                failures: row.map_or_else(Vec::new, |row| failures(row, place, hits)),
                output: row.map_or_else(Vec::new, |row| output(found, row)),
                is_skipped: row.is_none(),
            });
        }
    }
    cases
}

fn output(part: &PartSummary, row: &Row) -> Vec<String> {
    let own = part
        .comparisons
        .iter()
        .filter(|comparison| part.comparison(comparison.metric, row) == Some(*comparison));
    own.map(|sample| {
        let words =
            if sample.is_control { "the noise (A/A)".to_owned() } else { sample.in_words() };
        let (name, ratio, interval) =
            (part.name_of(sample.metric), sample.ratio, sample.interval());
        format!("{name}: {ratio:.2} × {}{interval}, {words}", sample.baseline)
    })
    .collect()
}

fn failures(row: &Row, place: [&String; 3], hits: &[Hit]) -> Vec<(&'static str, String)> {
    let is_here = |hit: &&Hit| hit.row.as_ref().is_some_and(|row| row.each_ref() == place);
    let invalid = (row.valid < row.samples).then(|| (INVALID, row.verdict.clone()));
    // "No sample counts" is the first reason already, for every threshold alike.
    let met = hits.iter().filter(is_here).filter(|hit| !hit.is_for_want);
    invalid.into_iter().chain(met.map(|hit| (hit.kind, hit.reason.clone()))).collect()
}

fn suite(name: &str, begun: &str, cases: &[Case]) -> String {
    let name = escaped(name);
    // The format's own time has no zone.
    let begun = escaped(begun.trim_end_matches('Z'));
    let counts = counts(cases.iter());
    let mut text = format!("  <testsuite name=\"{name}\" {counts} timestamp=\"{begun}\">\n");
    for case in cases {
        let head = format!(
            "    <testcase classname=\"{name}\" name=\"{}\" time=\"{:.3}\"",
            escaped(&case.name),
            case.time_s
        );
        let failure = |(kind, reason): &(&str, String)| {
            let reason = escaped(reason);
            format!("<failure type=\"{kind}\" message=\"{reason}\">{reason}</failure>")
        };
        let body = match case.is_skipped {
            true => "<skipped message=\"not measured\"/>".to_owned(),
            false => case.failures.iter().map(failure).collect::<String>() + &out(&case.output),
        };
        text += &match body.is_empty() {
            true => format!("{head}/>\n"),
            false => format!("{head}>{body}</testcase>\n"),
        };
    }
    text + "  </testsuite>\n"
}

fn out(output: &[String]) -> String {
    match output {
        [] => String::new(),
        output => format!("<system-out>{}</system-out>", escaped(&output.join("\n"))),
    }
}

fn counts<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let (mut tests, mut failures, mut skipped, mut time_s) = (0, 0, 0, 0.0);
    for case in cases {
        tests += 1;
        failures += usize::from(!case.failures.is_empty());
        skipped += usize::from(case.is_skipped);
        time_s += case.time_s;
    }
    format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" \
         time=\"{time_s:.3}\""
    )
}

/// Escapes text and attributes. Characters that XML 1.0 does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&apos;",
            '\n' | '\t' => escaped.push(char),
            _ if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            _ => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary_of_everything;
    use super::*;

    /// Returns the tags of a document that is well formed, each with its attributes.
    fn tags(xml: &str) -> Vec<&str> {
        let mut open: Vec<&str> = Vec::new();
        let mut tags = Vec::new();
        for piece in xml.split('<').skip(1) {
            let (tag, text) = piece.split_once('>').expect("a tag that ends");
            assert!(!text.contains('>'), "{text}");
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
                continue;
            }
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if !tag.ends_with('/') && !tag.starts_with('?') {
                open.push(name);
            }
            tags.push(tag);
        }
        assert!(open.is_empty(), "{open:?}");
        tags
    }

    #[test]
    fn a_case_for_each_subject_of_each_cell() {
        let (plan, mut summary) = summary_of_everything();
        let hits = ["cpu>1.3us", "p50>900us", "silence>0s"]
            .map(|text| text.parse::<super::super::Threshold>().unwrap().hits(&summary))
            .concat();
        summary.manifest.begun = "2026-11-21T00:43:29Z".to_owned();
        summary.parts[0].rows[0].valid = 3;
        summary.parts[0].rows[0].verdict = "schedule; 2 of 5 invalid: \"3\" <missing>".to_owned();
        summary.parts[0].rows.remove(1);
        let xml = junit(&plan, &summary, &hits);
        let tags = tags(&xml);
        assert_eq!(tags.iter().filter(|tag| tag.starts_with("testcase ")).count(), 6 + 1);
        assert_eq!(tags.iter().filter(|tag| tag.starts_with("failure ")).count(), 6);
        insta::assert_snapshot!(xml);
    }

    #[test]
    fn uncounted_samples_and_crossed_thresholds_fail_once() {
        let (plan, mut summary) = summary_of_everything();
        let row = &mut summary.parts[0].rows[0];
        (row.valid, row.verdict) = (0, "invalid: 3 missing".to_owned());
        row.latency.p99_us = None;
        summary.parts[0].rows[2].latency.max_us = Some(9e6);
        let hits = ["max>8s", "max>8.5s", "rss>1000MB"]
            .map(|text| text.parse::<super::super::Threshold>().unwrap().hits(&summary))
            .concat();
        let xml = junit(&plan, &summary, &hits);
        let of = |kind: &str| xml.matches(&format!("<failure type=\"{kind}\"")).count();
        // The broken row has one for all three thresholds; the other has two.
        assert_eq!((of(INVALID), of(FAIL_IF)), (1, 2), "{xml}");
        assert!(xml.contains("tests=\"6\" failures=\"2\""), "{xml}");
    }

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escaped("a<b> & \"c\" 'd'\u{1}\n"),
            "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;\u{fffd}\n"
        );
    }
}
