//! The tables of the reference name the metrics, errors and close codes of the server.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::Server;

const METRICS: &str = include_str!("../../../../docs/reference/metrics.md");
const ERRORS: &str = include_str!("../../../../docs/reference/errors.md");

/// Returns the first two cells of each row of a page, without backticks.
fn rows(page: &str) -> BTreeSet<(String, String)> {
    let cell = |text: &str| text.trim().replace('`', "");
    let lines = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = lines.filter_map(|line| line.split_once('|'));
    cells.map(|(one, rest)| (cell(one), cell(rest.split('|').next().unwrap_or("")))).collect()
}

#[test]
fn the_reference_has_all_metrics_with_their_types() {
    let server = Server::start(&[
        "--source",
        "cars=cars",
        "--query",
        "q=SELECT * FROM cars",
        "--upstream",
        "up/**=http://127.0.0.1:9/{topic}",
    ]);
    let metrics = server.get("/metrics").text();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let served: BTreeSet<_> =
        types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
    // The page describes the build and the process in sentences, and has neither NATS nor a directory here.
    let is_listed = |(name, _): &&(String, String)| {
        name.starts_with("thalweg_")
            && name != "thalweg_build_info"
            && !name.starts_with("thalweg_nats_")
            && !name.starts_with("thalweg_disk_")
    };
    let documented = rows(METRICS);
    assert_eq!(
        documented.iter().filter(is_listed).collect::<Vec<_>>(),
        served.iter().filter(is_listed).collect::<Vec<_>>()
    );
}

#[test]
fn the_reference_has_all_errors_and_close_codes() {
    let table = rows(ERRORS);
    let vectors = include_str!("../../../../vectors/errors.json");
    let vectors: Value = serde_json::from_str(vectors).expect("JSON");
    for error in vectors["errors"].as_array().expect("errors") {
        let row = (error["code"].as_str().expect("a code").to_owned(), error["status"].to_string());
        assert!(table.contains(&row), "{row:?}");
    }
    let metrics = Server::start(&[]).get("/metrics").text();
    let closes = metrics.lines().filter_map(|line| {
        line.strip_prefix("thalweg_closed_total{code=\"")?.split_once('"').map(|(code, _)| code)
    });
    let closes: Vec<_> = closes.collect();
    assert!(!closes.is_empty());
    for close in closes {
        assert!(table.iter().any(|(code, _)| code == close), "{close}");
    }
}
