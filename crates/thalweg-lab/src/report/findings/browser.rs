//! Events that tabs took, and CPU, where a browser was the load.

use super::growth;
use crate::measure::comparison::Comparison;
use crate::report::most::Most;
use crate::report::number::{digits, short};
use crate::report::part_summary::PartSummary;
use crate::report::row::Row;
use crate::report::summary::Summary;
use crate::scenario::{Consumer, Drive, Settings, Transport};

pub(in crate::report) fn sentences(summary: &Summary) -> Vec<String> {
    let parts = summary.parts.iter().filter(|part| part.in_browser);
    parts.flat_map(part_findings).collect()
}

fn part_findings(part: &PartSummary) -> Vec<String> {
    let mut reported = Vec::new();
    if part.drive == Drive::GeneratedLoad {
        reported.extend(growth::sentences(part));
        reported.extend(at_equal_rate(part));
        reported.extend(if part.most.is_empty() {
            at_most(part).into_iter().collect()
        } else {
            ladders(part)
        });
        reported.extend(observed(part));
        reported.extend(decoding(part));
    }
    reported
}

/// Returns the CPU at equal events per second, for cells in which every subject delivered all of the schedule.
fn at_equal_rate(part: &PartSummary) -> Vec<String> {
    let of_cell = |cell: &&[Row]| {
        let all_came = cell.iter().all(Row::came_in_full);
        if !all_came || cell.len() < 2 {
            return None;
        }
        let per_s = cell[0].throughput.events_per_s?.median;
        let each = cell.iter().filter(|row| !row.is_noise).filter_map(|row| {
            let figures = row.browser.as_ref()?;
            Some(format!(
                "{} {}\u{a0}% and {}\u{a0}%",
                row.subject,
                percent(figures.cpu?.median),
                percent(figures.subject_cpu?.median)
            ))
        });
        let each: Vec<String> = each.collect();
        Some(format!(
            "{}: at the same {} events per second, browser and server use these shares of a core: {}.",
            cell[0].cell,
            short(per_s),
            each.join("; ")
        ))
    };
    // The cell with the most events is the most informative.
    let cells = part.cells();
    let described = cells.iter().filter_map(|cell| Some((rate(cell), of_cell(cell)?)));
    described
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, described)| described)
        .into_iter()
        .collect()
}

fn rate(cell: &[Row]) -> f64 {
    cell.first().and_then(|row| row.throughput.events_per_s).map_or(0.0, |cell| cell.median)
}

/// Returns the most events of each subject that the browser processed.
fn at_most(part: &PartSummary) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for row in part.rows.iter().filter(|row| !row.is_noise) {
        if !names.contains(&&*row.subject) {
            names.push(&row.subject);
        }
    }
    let most = |name: &&str| {
        let rows = part.rows.iter().filter(|row| row.subject == *name && row.is_ranked);
        let events = |row: &Row| row.throughput.events_per_s.map_or(0.0, |rate| rate.median);
        let most = rows.max_by(|one, other| events(one).total_cmp(&events(other)))?;
        Some(format!("{name} {}/s ({})", short(events(most)), most.cell))
    };
    let described: Vec<String> = names.iter().filter_map(most).collect();
    (!described.is_empty()).then(|| {
        format!("The most events that the browser took, in any cell: {}.", described.join("; "))
    })
}

/// Returns the same for several rates, as a multiple of the baseline.
fn ladders(part: &PartSummary) -> Vec<String> {
    let of_ladder = |ladder: &[Most]| {
        let each = ladder.iter().filter_map(|ladder| {
            let beside = ladder.to_baseline.as_ref().map_or(String::new(), |beside| {
                let Comparison { ratio, baseline, .. } = beside;
                format!("{}\u{a0}× {baseline}{}, ", digits(*ratio), beside.interval())
            });
            let per_s = short(ladder.events_per_s?.median);
            Some(format!(
                "{} {per_s}/s ({beside}{}: {})",
                ladder.subject, ladder.cell, ladder.verdict
            ))
        });
        let each: Vec<String> = each.collect();
        format!("The highest rate of {} that arrived: {}.", ladder[0].ladder, each.join("; "))
    };
    let mut reported: Vec<String> =
        part.most.chunk_by(|one, next| one.ladder == next.ladder).map(of_ladder).collect();
    reported.push(
        "Each is at the rate at which most of it arrived, by the mean over all starts; a ratio is of each start \
         to the baseline's start of the same number."
            .to_owned(),
    );
    reported
}

fn observed(part: &PartSummary) -> Option<String> {
    let each = part.observed.iter().map(|observed| {
        let cell = observed.cell.as_deref().unwrap_or_default();
        format!(
            "{} {}\u{a0}×{} ({cell})",
            observed.baseline,
            digits(observed.ratio),
            observed.interval()
        )
    });
    let each: Vec<String> = each.collect();
    let reported = "Events that arrived with DevTools attached, as a share of those without";
    (!each.is_empty()).then(|| format!("{reported}: {}.", each.join("; ")))
}

/// Returns the gain of each encoding, each transport and a worker, if subjects differ in their page's consumer: events for the same
/// CPU of the browser, in the cells with most subjects, and among these at the largest batches.
fn decoding(part: &PartSummary) -> Vec<String> {
    let cells = part.cells();
    let fullest = cells
        .iter()
        .max_by_key(|cell| (cell.len(), cell.first().map_or(0, |row| row.settings.batch)));
    let Some(cell) = fullest else { return Vec::new() };
    let rows: Vec<&Row> = cell.iter().filter(|row| !row.is_noise && row.valid > 0).collect();
    let Some(first) = rows.first() else { return Vec::new() };
    if rows.iter().all(|row| row.settings.consumer == first.settings.consumer) {
        return Vec::new();
    }
    let mut reported = Vec::new();
    for transport in TRANSPORTS {
        reported.extend(bought(&rows, "Gain of an encoding", |row| {
            let Settings { consumer, worker, .. } = row.settings;
            (row.settings.transport == transport && !worker)
                .then(|| (consumer == Consumer::Rows, named(consumer).to_owned()))
        }));
    }
    for consumer in CONSUMERS {
        reported.extend(bought(&rows, "Gain of a transport", |row| {
            let Settings { transport, worker, .. } = row.settings;
            (row.settings.consumer == consumer && !worker)
                .then(|| (transport == Transport::Websocket, transport.to_string()))
        }));
    }
    for (transport, consumer) in
        TRANSPORTS.iter().flat_map(|transport| CONSUMERS.map(|to| (*transport, to)))
    {
        reported.extend(bought(&rows, "Gain of a worker", |row| {
            let is_own = (row.settings.transport, row.settings.consumer) == (transport, consumer);
            is_own.then(|| (!row.settings.worker, "in a worker".to_owned()))
        }));
    }
    if !reported.is_empty() {
        let by = "in events for the same CPU of the browser:";
        reported.insert(0, format!("{}, {by}", first.cell));
    }
    reported
}

const TRANSPORTS: [Transport; 3] = [Transport::Websocket, Transport::Sse, Transport::HttpStreaming];
const CONSUMERS: [Consumer; 7] = [
    Consumer::Raw,
    Consumer::Rows,
    Consumer::RowsEveryValue,
    Consumer::Columns,
    Consumer::Arrow,
    Consumer::ArrowEveryValue,
    Consumer::Sdk,
];

/// Compares rows by their names; `of` returns whether a row is the one that the others are compared with.
fn bought(
    rows: &[&Row],
    what: &str,
    of: impl Fn(&Row) -> Option<(bool, String)>,
) -> Option<String> {
    let own = rows.iter().filter_map(|row| Some((row, of(row)?, us_per_event(row)?)));
    let own: Vec<_> = own.collect();
    let (base, _, base_us) = own.iter().find(|(_, (is_base, _), _)| *is_base)?;
    let others = own.iter().filter(|(_, (is_base, _), _)| !is_base);
    let others: Vec<String> = others
        .map(|(_, (_, name), us)| format!("{name} {}\u{a0}×", digits(base_us / us)))
        .collect();
    (!others.is_empty()).then(|| {
        let us = digits(*base_us);
        format!("{what} beside {} ({us} µs per event): {}.", base.subject, others.join(", "))
    })
}

fn us_per_event(row: &Row) -> Option<f64> {
    row.browser
        .as_ref()?
        .us_per_event
        .map(|estimate| estimate.median)
        .filter(|estimate| *estimate > 0.0)
}

fn named(consumer: Consumer) -> &'static str {
    match consumer {
        Consumer::Raw => "receiving alone",
        Consumer::Rows => "JSON rows",
        Consumer::Columns => "JSON columns",
        Consumer::Arrow => "Arrow",
        Consumer::RowsEveryValue => "JSON rows, every value",
        Consumer::ArrowEveryValue => "Arrow, every value",
        Consumer::Sdk => "the SDK",
        Consumer::LivePage => "the live page",
        Consumer::LiveChart => "the live page's chart",
    }
}

fn percent(cores: f64) -> String {
    digits(cores * 100.0)
}
