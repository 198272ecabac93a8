//! The structure of the page, and escaping of outside text.

use super::html;
use crate::measure::{RoundTrips, Sample, Traffic, Verdict};
use crate::report::tests::{SCENARIO, summary};
use crate::report::{Manifest, Summary, markdown};
use crate::scenario::{Changes, find, read};

/// Outside text that tries to be markup.
const HOSTILE: &str =
    "</title></svg></style><script>alert(1)</script><img src=x onerror=\"y\">'`|**";

fn small() -> Summary {
    let text =
        SCENARIO.replace("connections = [100, 1000]", "connections = [100, 1000]\nrate = 10");
    summary(&text, |sample| {
        sample.timeline = (0..4)
            .map(|look| crate::measure::Point {
                at_us: look * 100_000,
                rss_bytes: 4_000_000,
                ..Default::default()
            })
            .collect();
    })
}

/// Tags in order, with their classes and without what repeats or is drawn.
fn outline(page: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let kept = ["h1", "h2", "h3", "h4", "section", "figure", "svg", "table", "figcaption", "title"];
    for tag in page.split('<').skip(1) {
        let (head, text) = tag.split_once('>').unwrap_or((tag, ""));
        let name = head.split([' ', '/']).next().unwrap_or_default();
        if kept.contains(&name) && !head.starts_with('/') && !head.contains("swatch") {
            lines.push(format!("{name} {}", text.trim()).trim_end().to_owned());
        }
    }
    lines.join("\n")
}

#[test]
fn a_page_has_headings_charts_and_figures_in_order() {
    insta::assert_snapshot!(outline(&html(&small())));
}

#[test]
fn the_same_summary_gives_the_same_page() {
    assert_eq!(html(&small()), html(&small()));
}

/// A part of the library with two subjects, as it would be found.
fn library_page(scenario: &str, transport: &str) -> String {
    let changes = Changes {
        subjects: vec!["limit".to_owned(), "thalweg".to_owned()],
        transports: vec![transport.to_owned()],
        ..Changes::default()
    };
    let plan = read(find(scenario).unwrap(), &changes, &[]).unwrap();
    let mut samples = Vec::new();
    for slot in plan.slots() {
        let trip = |mean_us| RoundTrips { count: 1000, mean_us, ..RoundTrips::default() };
        samples.push(Sample {
            part: slot.part,
            cell: slot.cell,
            subject: slot.subject,
            repeat: slot.repeat,
            verdict: Verdict::Subject,
            span_us: 1_000_000,
            traffic: Traffic { events: 1000, ..Traffic::default() },
            round_trips: Some(trip(100.0 + f64::from(slot.repeat))),
            ..Sample::default()
        });
    }
    html(&Summary::new(&plan, &samples, Manifest::default()))
}

#[test]
fn published_figures_are_marked_where_they_belong() {
    let check = |scenario: &str, transport: &str, marked: &[&str]| {
        let page = library_page(scenario, transport);
        let marks = page.split("<g class=\"published\"").skip(1);
        let title = |value: &str| {
            value.split("<title>").nth(1)?.split("</title>").next().map(str::to_owned)
        };
        let titles: Vec<String> = marks.filter_map(title).collect();
        assert_eq!(titles, marked, "{scenario} {transport}");
    };
    const THERE: &str = "published, another machine";
    check("a1", "websocket", &[&format!("WebSocket: 4.00 M/s, {THERE}")]);
    check("a1", "sse", &[&format!("SSE: 3.05 M/s, {THERE}")]);
    check("a2", "sse", &[&format!("SSE: 2.70 M/s, {THERE}")]);
    check("a1", "http-streaming", &[]);
    // The worst of five is no mean of all.
    let worst = |figure: &str| format!("Go, worst of five runs: {figure}, {THERE}");
    let figures = ["161 µs", "83.5 µs", "5364 µs", "301 µs", "111 µs", "5675 µs"].map(worst);
    check("c", "websocket", &figures.each_ref().map(String::as_str));
    let page = library_page("c", "websocket");
    let is_marked = |value: &&str| value.contains("<g class=\"published\"");
    let charts: Vec<&str> = page.split("<figure").filter(is_marked).collect();
    assert_eq!(charts.len(), 2);
    assert!(charts.iter().all(|chart| chart.contains("Mean round trip of the worst sample")));
    // Five samples of 100 to 104 µs.
    assert!(charts.iter().all(|chart| chart.contains("104 µs") && !chart.contains("102 µs")));
}

#[test]
fn text_from_outside_is_not_markup() {
    let mut summary = small();
    summary.name = HOSTILE.to_owned();
    let manifest = &mut summary.manifest;
    manifest.version = HOSTILE.to_owned();
    manifest.command_line = HOSTILE.to_owned();
    manifest.begun = HOSTILE.to_owned();
    manifest.machine.cpu = HOSTILE.to_owned();
    manifest.machine.remarks = vec![HOSTILE.to_owned()];
    manifest.peers.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    for part in &mut summary.parts {
        part.name = HOSTILE.to_owned();
        part.title = HOSTILE.to_owned();
        for row in &mut part.rows {
            row.subject = format!("{HOSTILE}{}", row.subject);
            row.cell = format!("{HOSTILE}{}", row.cell);
            row.verdict = format!("invalid: {HOSTILE}");
            row.valid = 0;
        }
    }
    let page = html(&summary);
    for tag in ["<script", "<img", "\"y\"", "onerror=\""] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert_eq!(page.matches("</style>").count(), 1);
    assert_eq!(page.matches("<title>").count(), page.matches("</title>").count());
    let text = markdown(&summary);
    // In a block of code it is what was typed.
    let outside = text.split("````sh").next().unwrap_or_default();
    assert!(!outside.contains("<script") && !outside.contains(" **|"), "{text}");
}

#[test]
fn a_page_asks_for_nothing() {
    let page = html(&small());
    assert!(page.contains("default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;"));
    for request in ["http:", "https:", "url(", "<script", "<link", "src=", "@import"] {
        assert!(!page.contains(request), "{request}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn sixty_rows_stay_small() {
    let text = SCENARIO.replace(
        "connections = [100, 1000]",
        "connections = [1, 2, 5, 10]\nevent_bytes = [128, 256, 512, 1024, 2048]",
    );
    let summary = summary(&text, |_| {});
    assert_eq!(summary.parts[0].rows.len(), 60);
    let bytes = html(&summary).len();
    assert!(bytes < 400_000, "{bytes}");
}

#[test]
fn markdown_has_the_same_findings() {
    insta::assert_snapshot!(markdown(&small()));
}

#[test]
fn runs_without_anything_to_draw_have_a_page() {
    let mut none = small();
    let part = &mut none.parts[0];
    (part.rows, part.comparisons, part.pooled) = Default::default();
    assert!(html(&none).contains("No sample was taken."));
    let invalid = summary(SCENARIO, |sample| {
        sample.verdict = crate::measure::Verdict::Invalid("3 missing".to_owned());
        sample.traffic.events = 0;
    });
    assert!(
        html(&invalid).contains("No sample of this run counts; of the first: invalid: 3 missing.")
    );
}
