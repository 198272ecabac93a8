//! Results of an endpoint that does not cooperate, as lines of text.

use super::faults::Faults;
use super::number::{digits, short};
use super::part_summary::PartSummary;
use super::row::Row;
use super::summary::Summary;
use super::words::folded;
use crate::measure::{Exchanged, Reasons, Received, Responses, Sequenced, Spread, Timestamps};

/// The widest name of a fact, and the spaces around it.
const INDENT: usize = 15;

/// Returns the state of each endpoint in each cell in one line, such as `50 of 50 connected, 0 unanswered, p99
/// 399 ms, longest silence 510 ms`. Cell and endpoint are named if there are several.
pub(super) fn states(summary: &Summary) -> Vec<String> {
    let rows = || {
        let of_part = |part| {
            let part: &PartSummary = part;
            part.rows.iter().filter(|row| !row.is_noise).map(move |row| (part, row))
        };
        summary.parts.iter().flat_map(of_part)
    };
    let differs = |name: fn(&Row) -> &String| {
        let mut names = rows().map(|(_, row)| name(row));
        let first = names.next();
        names.any(|name| Some(name) != first)
    };
    let (has_cells, has_subjects) = (differs(|row| &row.cell), differs(|row| &row.subject));
    let line = |(part, row): (&PartSummary, &Row)| {
        let names = [(has_subjects, &row.subject), (has_cells, &row.cell)];
        let names = names.into_iter().filter(|(is_named, _)| *is_named).map(|(_, name)| &**name);
        let names = names.collect::<Vec<_>>().join(", ");
        let separator = if names.is_empty() { "" } else { ": " };
        Some(format!("{names}{separator}{}", state(part, row)?))
    };
    rows().filter_map(line).collect()
}

fn state(part: &PartSummary, row: &Row) -> Option<String> {
    let Some((received, faults)) = row.received.as_ref().zip(row.faults.as_ref()) else {
        return (part.is_endpoint() && row.valid == 0)
            .then(|| format!("no sample counts: {}", row.verdict));
    };
    // Counts of faults are sums over all samples, and need a number of connections that is one, too.
    let Faults { ended_early, silent, unanswered, lost, duplicated, reordered, .. } = *faults;
    let has_faults = [ended_early, silent, unanswered, lost, duplicated, reordered]
        .iter()
        .any(|count| *count > 0);
    let mut text = match faults.connections.saturating_sub(faults.connected) {
        0 if !has_faults => format!("{0} of {0} connected", received.connections),
        _ if row.samples == 1 => {
            format!("{} of {} connected", faults.connected, faults.connections)
        }
        _ => format!(
            "{} of {} connected in {} samples",
            faults.connected, faults.connections, row.samples
        ),
    };
    for (count, name) in [(ended_early, "ended early"), (silent, "without a message")] {
        if count > 0 {
            text += &format!(", {count} {name}");
        }
    }
    if faults.asked > 0 {
        text += &format!(", {unanswered} unanswered");
    }
    if received.sequenced.is_some() {
        text += &format!(", {lost} lost");
    }
    for (count, name) in [(duplicated, "duplicated"), (reordered, "out of order")] {
        if count > 0 {
            text += &format!(", {count} {name}");
        }
    }
    if let Some(responses) = received.responses {
        text += &format!(", {} responses a second", digits(responses_per_s(received, responses)));
        if let Some(first_event) = responses.first_event {
            text += &format!(", first event p99 {}", time(first_event.p99_us));
        }
    }
    if let Some(us) = row.latency.p99_us {
        let name = if part.is_endpoint() { "p99" } else { "p99 until connected" };
        text += &format!(", {name} {}", time(us as u64));
    }
    if received.intervals.is_some() {
        text += &format!(", longest silence {}", time(faults.silence_us_max));
    }
    Some(text)
}

/// Returns all results; empty if no endpoint was measured.
pub(super) fn lines(row: &Row) -> String {
    let Some(received) = &row.received else {
        return String::new();
    };
    let mut text = format!("\n{} ({})\n", row.subject, row.cell);
    for (name, line) in facts(received) {
        text += &folded(&format!("  {name:<12} {line}\n"), INDENT);
    }
    text
}

/// Returns facts, each with its name.
pub(super) fn facts(received: &Received) -> Vec<(&'static str, String)> {
    let mut facts = vec![("answer", answer(received)), ("connections", connections(received))];
    facts.extend(received.set_up.map(|found| ("set-up", spread(found))));
    facts.push(("messages", messages(received)));
    facts.extend(received.intervals.map(|interval| {
        let silence = time(received.silence_us_max);
        ("intervals", format!("{}; longest silence of a connection {silence}", spread(interval)))
    }));
    facts.extend(
        received.timestamps.as_ref().map(|timestamp| ("timestamps", timestamps(timestamp))),
    );
    facts.extend(received.sequenced.map(|found| ("sequence", sequenced(found))));
    facts.extend(received.responses.map(|found| ("responses", responses(received, found))));
    facts.extend(received.exchanged.map(|found| ("sent", exchanged(found))));
    facts.extend(received.slow.map(|slow| {
        ("slow", format!("{} read slowly, {} of them ended", slow.connections, slow.ended))
    }));
    facts
}

pub(super) fn responses_per_s(received: &Received, responses: Responses) -> f64 {
    responses.completed as f64 * 1e6 / received.span_us.max(1) as f64
}

fn answer(received: &Received) -> String {
    let answer = &received.answer;
    let extras = [
        answer.server.as_ref().map(|server| format!("server {server}")),
        answer.content_type.clone(),
        answer.subprotocol.as_ref().map(|name| format!("subprotocol {name}")),
        answer.compression.clone(),
        answer.is_chunked.then(|| "in chunks".to_owned()),
    ];
    let extras: Vec<String> = extras.into_iter().flatten().collect();
    let extras = if extras.is_empty() { String::new() } else { format!(", {}", extras.join(", ")) };
    format!("{} from {}{extras}", answer.status, answer.address)
}

fn connections(received: &Received) -> String {
    let mut text = format!("{} of {} established", received.established, received.connections);
    text += &reasons("refused", &received.refused);
    text += &reasons("ended early", &received.ended_early);
    if received.completed > 0 {
        text += &format!("; {} completed their response", received.completed);
    }
    if received.silent > 0 {
        text += &format!("; {} without a message", received.silent);
    }
    text
}

fn reasons(what: &str, reasons: &Reasons) -> String {
    if reasons.count == 0 {
        return String::new();
    }
    let each = reasons.first.iter().map(|(reason, count)| format!("{count} × {reason}"));
    format!("; {} {what}: {}", reasons.count, each.collect::<Vec<_>>().join(", "))
}

fn messages(received: &Received) -> String {
    if received.events == 0 {
        return "none".to_owned();
    }
    let count = received.events as f64;
    let kind = match (received.text_events, received.binary_events) {
        (_, 0) if received.json_tried > 0 && received.json_found == received.json_tried => "JSON",
        (_, 0) => "text",
        (0, _) => "binary",
        _ => "text and binary",
    };
    format!(
        "{} of {kind}, {} to {} per connection; {} bytes on average, at most {}; {} on the wire each",
        short(count),
        received.events_per_connection_min,
        received.events_per_connection_max,
        digits(received.payload_bytes as f64 / count),
        received.event_bytes_max,
        digits(received.wire_bytes as f64 / count)
    )
}

fn timestamps(found: &Timestamps) -> String {
    let mut text = match found.latency {
        Some(latency) => format!("latency {}", spread(latency)),
        None => "no latency".to_owned(),
    };
    if found.missing > 0 {
        text += &format!("; {} messages without one", found.missing);
    }
    if found.ahead > 0 {
        let most = time(found.ahead_us_max);
        text +=
            &format!("; {} messages ahead of this machine's clock, by {most} at most", found.ahead);
    }
    text
}

fn sequenced(sequenced: Sequenced) -> String {
    let Sequenced { read, missing, lost, duplicated, reordered, losers, lost_max } = sequenced;
    let mut text = format!("{read} numbers, {lost} lost");
    if losers > 0 {
        text += &format!(" on {losers} connections, {lost_max} at most on one");
    }
    text += &format!("; {duplicated} duplicated, {reordered} out of order");
    if missing > 0 {
        text += &format!("; {missing} messages without a number");
    }
    text
}

fn responses(received: &Received, responses: Responses) -> String {
    let rate = digits(responses_per_s(received, responses));
    let mut text = format!("{} completed, {rate} a second", responses.completed);
    for (name, found) in [("first event", responses.first_event), ("total", responses.total)] {
        if let Some(found) = found {
            text += &format!("; {name} {}", spread(found));
        }
    }
    text
}

fn exchanged(exchanged: Exchanged) -> String {
    let Exchanged { sent, answered, unanswered, latency } = exchanged;
    let mut text = format!("{sent} messages");
    if answered + unanswered > 0 {
        text += &format!(", {answered} answered, {unanswered} unanswered");
    }
    if let Some(latency) = latency {
        text += &format!("; from due to answered {}", spread(latency));
    }
    text
}

fn spread(spread: Spread) -> String {
    format!("p50 {}, p99 {}, max {}", time(spread.p50_us), time(spread.p99_us), time(spread.max_us))
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", digits(us as f64 / 1e3)),
        _ => format!("{} s", digits(us as f64 / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{manifest, samples};
    use super::*;
    use crate::measure::{Answer, Sample, Verdict};
    use crate::report::table;
    use crate::scenario::{Changes, Endpoint, Typed, listen};

    #[test]
    fn a_report_begins_with_the_state_of_each_endpoint() {
        let of = |urls: &[&str], set: &str, change: &dyn Fn(&mut Sample, &mut Received)| {
            let endpoint = |url: &&str| {
                Endpoint::read(&Typed { url: (*url).to_owned(), ..Typed::default() }).unwrap()
            };
            let endpoints: Vec<Endpoint> = urls.iter().map(endpoint).collect();
            let changes = Changes { set: vec![set.to_owned()], ..Changes::default() };
            let plan = listen(&endpoints, &changes).unwrap();
            let samples = samples(&plan, |sample| {
                let connections = plan.parts[0].cells[sample.cell].settings.connections;
                let exchanged = Exchanged { answered: 9, ..Exchanged::default() };
                let mut received = Received {
                    connections,
                    established: connections,
                    exchanged: Some(exchanged),
                    intervals: Some(Spread::default()),
                    silence_us_max: 510_000,
                    ..Received::default()
                };
                change(sample, &mut received);
                sample.received = Some(received);
            });
            let summary = Summary::new(&plan, &samples, manifest());
            let states = states(&summary).join("\n");
            assert!(table(&summary).starts_with(&format!("{states}\n\nExample CPU")));
            states
        };
        let (one, two) = ("ws://127.0.0.1:1/a", "ws://127.0.0.1:1/b");
        let good = "50 of 50 connected, 0 unanswered, p99 990 µs, longest silence 510 ms";
        assert_eq!(of(&[one], "connections=50", &|_, _| {}), good);
        let faulty = of(&[one], "connections=50", &|sample, received| {
            if sample.repeat == 1 {
                received.established = 48;
                received.refused.add("full");
                received.ended_early.add("reset");
                received.silent = 4;
            }
            received.exchanged = None;
            received.intervals = None;
            sample.latency = None;
        });
        assert_eq!(faulty, "148 of 150 connected in 3 samples, 1 ended early, 4 without a message");
        // Each sample has 50 connections, and the faults are of all samples.
        let ended = of(&[one], "connections=50", &|sample, received| {
            received.ended_early.add("reset");
            if sample.repeat == 1 {
                received.silence_us_max = 12_000_000;
            }
        });
        assert!(ended.starts_with("150 of 150 connected in 3 samples, 3 ended early, "), "{ended}");
        assert!(ended.ends_with("longest silence 12.0 s"), "{ended}");
        let lossy = of(&[one], "connections=50", &|_, received| {
            received.sequenced = Some(Sequenced { lost: 2, reordered: 1, ..Sequenced::default() });
            received.exchanged = None;
        });
        let expected = "150 of 150 connected in 3 samples, 6 lost, 3 out of order, p99 990 µs";
        assert!(lossy.starts_with(expected), "{lossy}");
        let streams = of(&[one], "connections=50", &|sample, received| {
            let first_event = Some(Spread { p99_us: 310_000, ..Spread::default() });
            received.responses =
                Some(Responses { completed: 42, first_event, ..Responses::default() });
            (received.span_us, received.exchanged, sample.latency) = (5_000_000, None, None);
        });
        let expected =
            "50 of 50 connected, 8.40 responses a second, first event p99 310 ms, longest";
        assert!(streams.starts_with(expected), "{streams}");
        let cells = of(&[one], "connections=[5, 50]", &|_, _| {});
        assert!(cells.ends_with(&format!("\n50 connections: {good}")), "{cells}");
        let endpoints = of(&[one, two], "connections=50", &|_, _| {});
        let lines: Vec<&str> = endpoints.lines().collect();
        assert!(lines[0].starts_with(&format!("{one}: 50 of 50 connected")), "{endpoints}");
        assert!(
            lines[lines.len() - 1].starts_with(&format!("{two}: 50 of 50 connected")),
            "{endpoints}"
        );
        let failed = of(&[one, two], "connections=50", &|sample, _| {
            if sample.subject == 1 {
                sample.verdict = Verdict::Invalid("no address".to_owned());
            }
        });
        let last = failed.lines().last();
        assert_eq!(last, Some(&*format!("{two}: no sample counts: invalid: no address")));
    }

    #[test]
    fn all_received_events_are_reported() {
        let mut refused = Reasons::default();
        refused.add("503 Service Unavailable: too many connections");
        refused.add("503 Service Unavailable: too many connections");
        let received = Received {
            connections: 10,
            established: 8,
            refused,
            set_up: Some(Spread { p50_us: 310, p99_us: 4200, max_us: 1_200_000 }),
            answer: Answer {
                address: "127.0.0.1:9000".to_owned(),
                status: "101 Switching Protocols".to_owned(),
                server: Some("example".to_owned()),
                ..Answer::default()
            },
            events: 20_000,
            text_events: 20_000,
            payload_bytes: 2_000_000,
            wire_bytes: 2_040_000,
            event_bytes_max: 4096,
            events_per_connection_min: 2499,
            events_per_connection_max: 2501,
            intervals: Some(Spread { p50_us: 0, p99_us: 2000, max_us: 52_000 }),
            silence_us_max: 52_000,
            json_tried: 100,
            json_found: 100,
            timestamps: Some(Timestamps {
                latency: Some(Spread { p50_us: 900, p99_us: 1800, max_us: 60_000 }),
                read: 19_990,
                ahead: 7,
                ahead_us_max: 300,
                missing: 3,
                unit: None,
            }),
            ..Received::default()
        };
        let row = Row {
            cell: "10 connections".to_owned(),
            subject: "ws://127.0.0.1:9000/".to_owned(),
            received: Some(received),
            ..Row::default()
        };
        insta::assert_snapshot!(lines(&row));
    }
}
