//! Where each of many subjects stands: what it delivers for its CPU as a share of what the
//! baseline does, which is the machine's limit, how late, and what an idle connection holds. One
//! line for each subject and transport, over all cells of a run's fan-out.

use super::number::{digits, short};
use super::row::Row;
use super::summary::{PartSummary, Summary};
use crate::measure::comparison::Metric;
use crate::scenario::{Drive, Figure, Transport};
use serde::Serialize;

/// Fewer subjects beside the baseline need no table of their own.
const SUBJECTS_MIN: usize = 4;

/// One subject over one transport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// How it sends.
    pub transport: Transport,
    /// Who.
    pub subject: String,
    /// Whether the others are compared with it.
    pub is_baseline: bool,
    /// Cells in which it is compared with the baseline.
    pub cells: usize,
    /// Events that it delivers for the CPU for which the baseline delivers one: the geometric mean
    /// over these cells. `None` if there is none.
    pub share: Option<f64>,
    /// Events delivered for a second of CPU, likewise over all cells in which it has a figure.
    pub events_per_cpu_s: Option<f64>,
    /// Its p99 to the baseline's, likewise.
    pub p99: Option<f64>,
    /// Resident bytes of an idle connection.
    pub idle_bytes: Option<f64>,
    /// The least share of events that it delivered in a cell, where it dropped some.
    pub delivered_share: Option<f64>,
}

impl Standing {
    /// What each form of the report calls its figures; the baseline has this name.
    pub(super) fn heads(baseline: &str) -> [String; 5] {
        [
            format!("delivered for the same CPU, {baseline} = 100 %"),
            "events per CPU second".to_owned(),
            format!("p99, × {baseline}"),
            "KiB per idle connection".to_owned(),
            "cells".to_owned(),
        ]
    }

    /// Its figures, under these heads.
    pub(super) fn figures(&self) -> [String; 5] {
        let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), digits);
        let share = match (self.share, self.delivered_share) {
            (_, Some(share)) => format!("unranked: {:.1} % delivered", share * 100.0),
            (Some(share), _) => format!("{:.0} %", share * 100.0),
            _ => "no figure".to_owned(),
        };
        let events = self.events_per_cpu_s.map_or_else(|| "–".to_owned(), short);
        let idle = figure(self.idle_bytes.map(|bytes| bytes / 1024.0));
        [share, events, figure(self.p99), idle, self.cells.to_string()]
    }
}

/// The same as a table of text, a transport after the other: the first line has the heads.
pub(super) fn grid(all: &[Standing]) -> Vec<Vec<String>> {
    let Some(first) = all.first() else { return Vec::new() };
    let head = std::iter::once(String::new()).chain(Standing::heads(&first.subject)).collect();
    let line = |one: &Standing| {
        let name = format!("{} over {}", one.subject, one.transport);
        std::iter::once(name).chain(one.figures()).collect()
    };
    std::iter::once(head).chain(all.iter().map(line)).collect()
}

/// Of a run that compares several subjects in fan-out: by transport, who delivers most first.
pub fn standings(summary: &Summary) -> Vec<Standing> {
    let is_fan_out =
        |part: &&PartSummary| part.drive == Drive::PublishedLoad && part.figure == Figure::Cpu;
    let Some(part) = summary.parts.iter().find(is_fan_out) else { return Vec::new() };
    let rows = || part.rows.iter().filter(|row| !row.is_noise);
    let idle: Vec<&Row> = summary
        .parts
        .iter()
        .filter(|part| part.drive == Drive::Idle)
        .flat_map(|part| &part.rows)
        .collect();
    let mut all: Vec<Standing> = Vec::new();
    for row in rows() {
        let transport = row.settings.transport;
        let is_there =
            |it: &Standing| (it.transport, &*it.subject) == (transport, row.subject.as_str());
        if !all.iter().any(is_there) {
            all.push(standing(part, &idle, transport, &row.subject));
        }
    }
    let subjects = all.iter().filter(|it| !it.is_baseline).map(|it| &it.subject);
    let subjects: std::collections::BTreeSet<&String> = subjects.collect();
    if subjects.len() < SUBJECTS_MIN {
        return Vec::new();
    }
    all.sort_by(|one, other| {
        let key = |it: &Standing| (it.transport.to_string(), !it.is_baseline);
        // WebSockets first: who has several transports is asked for these.
        let order = key(other).0.cmp(&key(one).0).then(key(one).1.cmp(&key(other).1));
        order.then(other.share.unwrap_or(0.0).total_cmp(&one.share.unwrap_or(0.0)))
    });
    all
}

fn standing(part: &PartSummary, idle: &[&Row], transport: Transport, subject: &str) -> Standing {
    let own: Vec<&Row> = part
        .rows
        .iter()
        .filter(|row| row.subject == subject && row.settings.transport == transport)
        .collect();
    let ratios = |metric| -> Vec<f64> {
        let is_own = |cell: &Option<String>| own.iter().any(|row| Some(&row.cell) == cell.as_ref());
        let of = part.comparisons.iter().filter(|it| it.metric == metric && it.subject == subject);
        of.filter(|it| is_own(&it.cell)).map(|it| it.ratio).collect()
    };
    let cpu = ratios(Metric::Cpu);
    let is_baseline = own.iter().any(|row| row.is_baseline);
    let cpu_us: Vec<f64> =
        own.iter().filter_map(|row| Some(1e6 / row.cpu.us_per_event?.median)).collect();
    let held = idle
        .iter()
        .find(|row| row.subject == subject && row.settings.transport == transport && !row.is_noise);
    Standing {
        transport,
        subject: subject.to_owned(),
        is_baseline,
        cells: if is_baseline { own.len() } else { cpu.len() },
        share: if is_baseline { Some(1.0) } else { mean(&cpu).map(|ratio| 1.0 / ratio) },
        events_per_cpu_s: mean(&cpu_us),
        p99: if is_baseline { Some(1.0) } else { mean(&ratios(Metric::P99)) },
        idle_bytes: held.and_then(|row| row.memory.rss_bytes_per_connection),
        delivered_share: own.iter().filter_map(|row| row.delivered_share).reduce(f64::min),
    }
}

/// The geometric mean.
fn mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|it| it.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// The sentence to read if only one is read.
pub(super) fn headline(all: &[Standing]) -> Option<String> {
    let first = all.first()?;
    let baseline = &first.subject;
    let own = all.iter().filter(|it| it.transport == first.transport && !it.is_baseline);
    let named: Vec<String> = own
        .filter_map(|it| Some(format!("{} {:.0}\u{a0}%", it.subject, it.share? * 100.0)))
        .take(NAMED_MAX)
        .collect();
    Some(format!(
        "Delivered over {} for the same CPU, {baseline} being 100\u{a0}%: {}.",
        first.transport,
        named.join(", ")
    ))
}

/// Subjects that a headline names.
const NAMED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(subject: &str, share: f64) -> Standing {
        Standing {
            transport: Transport::Websocket,
            subject: subject.to_owned(),
            is_baseline: subject == "limit",
            cells: 6,
            share: Some(share),
            events_per_cpu_s: None,
            p99: None,
            idle_bytes: None,
            delivered_share: None,
        }
    }

    #[test]
    fn the_headline_names_the_first_few() {
        let all = [of("limit", 1.0), of("a", 0.953), of("b", 0.5)];
        let said = "Delivered over websocket for the same CPU, limit being 100\u{a0}%: \
                    a 95\u{a0}%, b 50\u{a0}%.";
        assert_eq!(headline(&all).as_deref(), Some(said));
        assert_eq!(headline(&[]), None);
    }

    #[test]
    fn a_mean_of_ratios_is_geometric() {
        assert!((mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(mean(&[]), None);
    }
}
