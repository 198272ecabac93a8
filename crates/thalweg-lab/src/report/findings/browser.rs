//! What tabs took, and of how much CPU, where a browser was the load.

use crate::report::number::{digits, short};
use crate::report::row::Row;
use crate::report::summary::{PartSummary, Summary};
use crate::scenario::{Consumer, Drive, Transport};

/// From this share on what came is the schedule's, and not what a browser can take.
const ALL_CAME: f64 = 0.98;

/// What browsers did, scenario by scenario.
pub(in crate::report) fn sentences(summary: &Summary) -> Vec<String> {
    let parts = summary.parts.iter().filter(|part| part.in_browser);
    parts.flat_map(of_part).collect()
}

fn of_part(part: &PartSummary) -> Vec<String> {
    let mut told = Vec::new();
    if part.drive == Drive::GeneratedLoad {
        told.extend(at_equal_rate(part));
        told.extend(at_most(part));
        told.extend(decoding(part));
    }
    told
}

/// CPU at equal events per second: where all of the schedule came to every subject.
fn at_equal_rate(part: &PartSummary) -> Vec<String> {
    let of_cell = |cell: &&[Row]| {
        let all_came = cell.iter().all(|row| came(row) >= ALL_CAME);
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
            "{}: at the same {} events per second, browser and server take of a core: {}.",
            cell[0].cell,
            short(per_s),
            each.join("; ")
        ))
    };
    // Of several cells the one with most events says most.
    let cells = part.cells();
    let said = cells.iter().filter_map(|cell| Some((rate(cell), of_cell(cell)?)));
    said.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, said)| said).into_iter().collect()
}

fn rate(cell: &[Row]) -> f64 {
    cell.first().and_then(|row| row.throughput.events_per_s).map_or(0.0, |it| it.median)
}

/// What the browser takes at most by each subject.
fn at_most(part: &PartSummary) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for row in part.rows.iter().filter(|row| !row.is_noise) {
        if !names.contains(&&*row.subject) {
            names.push(&row.subject);
        }
    }
    let most = |name: &&str| {
        let rows = part.rows.iter().filter(|row| row.subject == *name && row.is_ranked);
        let events = |row: &Row| row.throughput.events_per_s.map_or(0.0, |it| it.median);
        let most = rows.max_by(|one, other| events(one).total_cmp(&events(other)))?;
        Some(format!("{name} {}/s ({})", short(events(most)), most.cell))
    };
    let said: Vec<String> = names.iter().filter_map(most).collect();
    (!said.is_empty()).then(|| {
        format!("The most events that the browser took, in any cell: {}.", said.join("; "))
    })
}

/// What each encoding and each transport buys, where subjects differ in what a page makes of
/// the messages: at the largest batches.
fn decoding(part: &PartSummary) -> Vec<String> {
    let cells = part.cells();
    let largest = cells.iter().max_by_key(|cell| cell.first().map_or(0, |row| row.settings.batch));
    let Some(cell) = largest else { return Vec::new() };
    let rows: Vec<&Row> = cell.iter().filter(|row| !row.is_noise && row.valid > 0).collect();
    if rows.iter().all(|row| row.settings.consumer == rows[0].settings.consumer) {
        return Vec::new();
    }
    let mut told = Vec::new();
    for transport in [Transport::Websocket, Transport::Sse, Transport::HttpStreaming] {
        told.extend(encodings(&rows, transport, &cell[0].cell));
    }
    for consumer in [Consumer::Raw, Consumer::Rows, Consumer::Columns] {
        told.extend(transports(&rows, consumer, &cell[0].cell));
    }
    told.extend(workers(&rows, &cell[0].cell));
    told
}

/// Over one transport on the page: everything beside JSON rows.
fn encodings(rows: &[&Row], transport: Transport, cell: &str) -> Option<String> {
    let on_page = |it: &&&Row| it.settings.transport == transport && !it.settings.worker;
    let own: Vec<&&Row> = rows.iter().filter(on_page).collect();
    let base = own.iter().find(|row| row.settings.consumer == Consumer::Rows)?;
    let others: Vec<String> = own
        .iter()
        .filter(|row| row.settings.consumer != Consumer::Rows)
        .filter_map(|row| {
            let times = events(row)? / events(base)?;
            Some(format!("{} {}\u{a0}×", named(row.settings.consumer), digits(times)))
        })
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "{cell}, {transport}: beside JSON rows ({}/s) the encoding buys: {}.",
            short(events(base).unwrap_or(0.0)),
            others.join(", ")
        )
    })
}

/// Of one encoding on the page: every transport beside WebSocket.
fn transports(rows: &[&Row], consumer: Consumer, cell: &str) -> Option<String> {
    let on_page = |it: &&&Row| it.settings.consumer == consumer && !it.settings.worker;
    let own: Vec<&&Row> = rows.iter().filter(on_page).collect();
    let base = own.iter().find(|row| row.settings.transport == Transport::Websocket)?;
    let others: Vec<String> = own
        .iter()
        .filter(|row| row.settings.transport != Transport::Websocket)
        .filter_map(|row| {
            let times = events(row)? / events(base)?;
            Some(format!("{} {}\u{a0}×", row.settings.transport, digits(times)))
        })
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "{cell}, {}: beside WebSocket ({}/s) the transport buys: {}.",
            named(consumer),
            short(events(base).unwrap_or(0.0)),
            others.join(", ")
        )
    })
}

/// What a worker buys beside the page.
fn workers(rows: &[&Row], cell: &str) -> Option<String> {
    let others: Vec<String> = rows
        .iter()
        .filter(|row| row.settings.worker)
        .filter_map(|row| {
            let is_page = |it: &&&Row| {
                !it.settings.worker
                    && it.settings.transport == row.settings.transport
                    && it.settings.consumer == row.settings.consumer
            };
            let page = rows.iter().find(is_page)?;
            Some(format!("{} {}\u{a0}×", page.subject, digits(events(row)? / events(page)?)))
        })
        .collect();
    (!others.is_empty())
        .then(|| format!("{cell}: beside the page a worker takes: {}.", others.join(", ")))
}

fn events(row: &Row) -> Option<f64> {
    row.throughput.events_per_s.map(|it| it.median).filter(|it| *it > 0.0)
}

fn came(row: &Row) -> f64 {
    row.throughput.share_of_schedule.unwrap_or(0.0)
}

fn named(consumer: Consumer) -> &'static str {
    match consumer {
        Consumer::Raw => "receiving alone",
        Consumer::Rows => "JSON rows",
        Consumer::Columns => "JSON columns",
        Consumer::Arrow => "Arrow",
    }
}

fn percent(cores: f64) -> String {
    digits(cores * 100.0)
}
