//! The settings that a part varies, and so the axes of its charts.

use crate::report::number::{bytes, round};
use crate::report::part_summary::PartSummary;
use crate::report::row::Row;
use crate::scenario::{Answers, Mode, Request, Settings};

pub(super) struct Axis {
    /// As in a scenario file.
    pub(super) key: &'static str,
    /// Under the axis.
    pub(super) title: &'static str,
    pub(super) of: fn(&Settings) -> f64,
    /// At a tick.
    pub(super) show: fn(f64) -> String,
    named: fn(f64) -> String,
}

/// The preferred first.
const AXES: [Axis; 17] = [
    axis(
        "rate",
        "events published per s",
        |settings| f64::from(settings.rate),
        round,
        |value| format!("{}/s", round(value)),
    ),
    axis(
        "batch",
        "rows in a batch",
        |settings| f64::from(settings.batch),
        round,
        |value| format!("{} rows", round(value)),
    ),
    axis(
        "connections",
        "connections",
        |settings| f64::from(settings.connections),
        round,
        |value| format!("{} connections", round(value)),
    ),
    axis(
        "dummy_bytes",
        "size of the firehose's event",
        |settings| f64::from(settings.dummy_bytes),
        bytes,
        |value| {
            if value == 0.0 {
                "no firehose".to_owned()
            } else {
                format!("firehose of {}", bytes(value))
            }
        },
    ),
    axis(
        "event_bytes",
        "size of an event",
        |settings| f64::from(settings.event_bytes),
        bytes,
        bytes,
    ),
    axis(
        "topics",
        "topics",
        |settings| f64::from(settings.topics),
        round,
        |value| format!("{} topics", round(value)),
    ),
    axis(
        "streams",
        "streams per connection",
        |settings| f64::from(settings.streams),
        round,
        |value| {
            if value == 0.0 { "HTTP/1.1".to_owned() } else { format!("{} streams", round(value)) }
        },
    ),
    axis(
        "shards",
        "shards",
        |settings| f64::from(settings.shards),
        round,
        |value| format!("{} shards", round(value)),
    ),
    axis(
        "window",
        "events outstanding",
        |settings| f64::from(settings.window),
        round,
        |value| format!("window of {}", round(value)),
    ),
    axis(
        "chunk_events",
        "events of a chunk",
        |settings| f64::from(settings.chunk_events),
        round,
        |value| {
            if value == 0.0 {
                "one chunk of all".to_owned()
            } else {
                format!("{} a chunk", round(value))
            }
        },
    ),
    axis(
        "stopped",
        "subscribers that stop",
        |settings| f64::from(settings.stopped),
        round,
        |value| format!("{} stop", round(value)),
    ),
    axis("interval_us", "µs between batches", |settings| settings.interval_us as f64, round, every),
    axis("request_us", "µs between requests", |settings| settings.request_us as f64, round, every),
    axis(
        "requests",
        "requests",
        |settings| f64::from(settings.requests),
        round,
        |value| format!("{} requests", round(value)),
    ),
    axis(
        "p99_us_max",
        "objective, p99 in µs",
        |settings| settings.p99_us_max as f64,
        round,
        |value| format!("p99 ≤ {} µs", round(value)),
    ),
    axis(
        "window_bytes",
        "bytes under way",
        |settings| f64::from(settings.window_bytes),
        bytes,
        |value| format!("window of {}", bytes(value)),
    ),
    axis(
        "receive_buffer_bytes",
        "receive buffer",
        |settings| f64::from(settings.receive_buffer_bytes),
        bytes,
        |value| format!("receive buffer of {}", bytes(value)),
    ),
];

const fn axis(
    key: &'static str,
    title: &'static str,
    of: fn(&Settings) -> f64,
    show: fn(f64) -> String,
    named: fn(f64) -> String,
) -> Axis {
    Axis { key, title, of, show, named }
}

fn every(us: f64) -> String {
    if us % 1000.0 == 0.0 { format!("every {} ms", us / 1000.0) } else { format!("every {us} µs") }
}

/// Cells that differ in one setting only.
pub(super) struct Facet<'a> {
    /// Other settings, as far as they differ from other facets.
    pub(super) label: String,
    pub(super) cells: Vec<&'a [Row]>,
}

/// A part's cells by chart.
pub(super) struct Facets<'a> {
    pub(super) axis: Option<&'static Axis>,
    /// With two cells or more.
    pub(super) lines: Vec<Facet<'a>>,
    /// Cells that stand alone.
    pub(super) rest: Vec<&'a [Row]>,
}

/// Picks the setting that gives the longest lines.
pub(super) fn facets(part: &PartSummary) -> Facets<'_> {
    let cells = part.cells();
    let mut best: Option<(usize, &'static Axis)> = None;
    for axis in &AXES {
        let segments = groups(&cells, Some(axis)).iter().map(|group| group.cells.len() - 1).sum();
        if segments > best.map_or(0, |(most, _)| most) {
            best = Some((segments, axis));
        }
    }
    let axis = best.map(|(_, axis)| axis);
    let (lines, alone): (Vec<Facet<'_>>, Vec<Facet<'_>>) =
        groups(&cells, axis).into_iter().partition(|group| group.cells.len() > 1);
    // Once more without those that stand alone: their differences are no part of the names.
    let kept: Vec<&[Row]> = lines.iter().flat_map(|found| found.cells.clone()).collect();
    let lines = groups(&kept, axis);
    Facets { axis, lines, rest: alone.into_iter().flat_map(|found| found.cells).collect() }
}

/// Cells that agree in everything but the axis.
fn groups<'a>(cells: &[&'a [Row]], axis: Option<&'static Axis>) -> Vec<Facet<'a>> {
    let varying = varying(cells);
    let mut groups: Vec<Facet<'a>> = Vec::new();
    for cell in cells {
        let Some(settings) = settings(cell) else { continue };
        let own = traits(settings).into_iter().zip(&varying);
        let kept =
            own.filter(|((key, _), varies)| **varies && axis.is_none_or(|axis| axis.key != *key));
        let label = kept.map(|((_, value), _)| value).collect::<Vec<_>>().join(" · ");
        let at = axis.map(|axis| (axis.of)(settings));
        let same = groups.iter_mut().find(|group| {
            let is_new = |row: &&[Row]| {
                axis.zip(at).is_none_or(|(axis, at)| self::settings(row).map(axis.of) != Some(at))
            };
            group.label == label && group.cells.iter().all(is_new)
        });
        match same {
            Some(group) if axis.is_some() => group.cells.push(cell),
            _ => groups.push(Facet { label, cells: vec![cell] }),
        }
    }
    groups
}

/// Common settings of a cell, which are its baseline's.
pub(super) fn settings(cell: &[Row]) -> Option<&Settings> {
    cell.iter().find(|row| row.is_baseline).or(cell.first()).map(|row| &row.settings)
}

fn varying(cells: &[&[Row]]) -> Vec<bool> {
    let all: Vec<_> = cells.iter().filter_map(|cell| settings(cell)).map(traits).collect();
    let Some(first) = all.first() else { return Vec::new() };
    (0..first.len()).map(|index| all.iter().any(|found| found[index] != first[index])).collect()
}

/// All settings that can differ, by key and in words.
fn traits(settings: &Settings) -> Vec<(&'static str, String)> {
    let words = [
        ("transport", settings.transport.to_string()),
        ("tls", if settings.tls { "TLS" } else { "no TLS" }.to_owned()),
        (
            "mode",
            match settings.mode {
                Mode::Coalesced => "coalesced",
                Mode::Frame => "per frame",
            }
            .to_owned(),
        ),
        (
            "request",
            match settings.request {
                Request::Ndjson => "one long request",
                Request::Single => "a request each",
            }
            .to_owned(),
        ),
        (
            "answers",
            match settings.answers {
                Answers::Same => "answers on the same connection",
                Answers::Beside => "answers on a connection of their own",
            }
            .to_owned(),
        ),
    ];
    let numbers = AXES.iter().map(|axis| (axis.key, (axis.named)((axis.of)(settings))));
    words.into_iter().chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{MachineNote, Sample};
    use crate::report::{Manifest, Summary};
    use crate::scenario::{Changes, find, read};

    /// Axis, labels of lines, cells alone.
    fn check(scenario: &str, axis: Option<&str>, lines: &[&str], alone: usize) {
        let plan = read(find(scenario).unwrap(), &Changes::default(), &[]).unwrap();
        let samples: Vec<Sample> = plan
            .slots()
            .map(|slot| Sample {
                part: slot.part,
                cell: slot.cell,
                subject: slot.subject,
                ..Sample::default()
            })
            .collect();
        let manifest = Manifest::new("0", "", MachineNote::default());
        let summary = Summary::new(&plan, &samples, manifest);
        let found = facets(&summary.parts[0]);
        assert_eq!(found.axis.map(|axis| axis.key), axis, "{scenario}");
        assert_eq!(
            found.lines.iter().map(|found| &*found.label).collect::<Vec<_>>(),
            lines,
            "{scenario}"
        );
        assert_eq!(found.rest.len(), alone, "{scenario}");
    }

    #[test]
    fn the_library_is_drawn_along_what_it_varies() {
        check("a1", Some("batch"), &[""], 0);
        check("a2", Some("connections"), &["websocket", "sse"], 0);
        check("c", Some("dummy_bytes"), &["every 1 ms", "every 10 ms"], 0);
        check("transports", Some("event_bytes"), &["100 connections", "1000 connections"], 0);
        check("latency", Some("rate"), &[""], 4);
        check("b", None, &[], 1);
    }
}
