//! One plain sentence about fan-out, for readers who know nothing of the lab.

use super::row::Row;
use super::summary::Summary;
use crate::scenario::Transport;
use std::cmp::Reverse;

/// The smallest program that sends the same bytes.
const SMALLEST: &str = "limit";

/// Returns how many events a second Thalweg delivers to the most clients over WebSocket, beside the smallest
/// program in the same cell; `None` if no fan-out on one core has both.
pub fn deliveries(summary: &Summary) -> Option<String> {
    let closed =
        summary.parts.iter().filter(|part| part.drive.is_published_load() && part.is_closed_loop());
    let cells = closed.flat_map(|part| {
        let of_cell = move |row: &Row| {
            let is_here =
                |other: &&Row| other.place.cell == row.place.cell && other.subject == SMALLEST;
            part.rows.iter().find(is_here)
        };
        part.rows
            .iter()
            .filter(|row| row.is_thalweg && row.subject == "thalweg")
            .filter_map(move |row| Some((row, of_cell(row)?)))
    });
    let is_plain = |(row, _): &(&Row, &Row)| {
        let set = &row.settings;
        let is_special = set.tls || set.compress || set.topics > 1 || set.keys > 1;
        set.transport == Transport::Websocket
            && set.shards == 1
            && set.slow + set.stopped == 0
            && set.events_per_s().is_none()
            && !is_special
            && per_s(row).is_some()
    };
    // Cells of one size differ in the events in flight: the most are of a fan-out that is not held back.
    let size = |(row, _): &(&Row, &Row)| {
        (row.settings.connections, Reverse(row.settings.event_bytes), row.settings.window)
    };
    let (row, smallest) = cells.filter(is_plain).max_by_key(size)?;
    // A subject that was not saturated could deliver more.
    let at_least = |row: &Row| if row.is_ranked { "about" } else { "at least" };
    let p99 = row.latency.p99_us.map_or(String::new(), |us| format!(", p99 {}", in_ms(us)));
    let beside = per_s(smallest).map_or(String::new(), |most| {
        let about = if smallest.is_ranked { "" } else { "at least " };
        format!("; the smallest possible program reaches {about}{}", in_words(most))
    });
    Some(format!(
        "Thalweg makes {} {} deliveries/s to {} clients on one core{p99}{beside}.",
        at_least(row),
        in_words(per_s(row)?),
        grouped(row.settings.connections.into()),
    ))
}

fn per_s(row: &Row) -> Option<f64> {
    Some(row.throughput.events_per_s?.median)
}

/// Returns two digits: `1.1 million`, `760,000`.
fn in_words(value: f64) -> String {
    if value >= 999_500.0 {
        return format!("{:.1} million", value / 1e6);
    }
    let unit = 10_f64.powi(value.max(10.0).log10().floor() as i32 - 1);
    grouped(((value / unit).round() * unit) as u64)
}

/// Returns `1,000` for 1000.
fn grouped(value: u64) -> String {
    match value / 1000 {
        0 => value.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), value % 1000),
    }
}

fn in_ms(us: f64) -> String {
    match us / 1000.0 {
        ms @ 0.95.. => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SCENARIO, summary};
    use super::*;

    #[test]
    fn the_largest_fan_out_is_told_in_a_sentence() {
        let of = |text: &str| deliveries(&summary(text, |_| {}));
        let expected = "Thalweg makes at least 800,000 deliveries/s to 1,000 clients on one core, p99 2 ms; the smallest \
             possible program reaches 800,000.";
        assert_eq!(of(SCENARIO).as_deref(), Some(expected));
        assert_eq!(
            of(&SCENARIO.replace("measured_ms = 400", "measured_ms = 400\ndefaults.rate = 5")),
            None
        );
        assert_eq!(of(&SCENARIO.replace("name = \"limit\"\n", "name = \"other\"\n")), None);
    }

    #[test]
    fn numbers_have_two_digits() {
        let words =
            [12.4, 999.0, 8_440.0, 76_400.0, 764_000.0, 999_700.0, 1_149_000.0].map(in_words);
        assert_eq!(
            words,
            ["12", "1,000", "8,400", "76,000", "760,000", "1.0 million", "1.1 million"]
        );
        assert_eq!([430.0, 980.0, 6_843.0].map(in_ms), ["0.4 ms", "1 ms", "7 ms"]);
    }
}
