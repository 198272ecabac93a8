//! How sure a finding is.

use crate::measure::statistics::median;
use crate::report::part_summary::PartSummary;
use crate::report::row::Row;
use crate::report::summary::Summary;
use crate::scenario::Drive;
use std::collections::BTreeMap;

pub(super) fn sentences(summary: &Summary, is_compared: bool) -> Vec<String> {
    let mut reported = vec![samples(summary)];
    if is_compared {
        reported.extend(intervals(summary));
        reported.push(noise(summary));
    }
    reported.extend(throughput(summary));
    if summary.manifest.was_interrupted {
        reported.push("The run was interrupted: only a part of the plan was measured.".to_owned());
    }
    reported
}

/// Returns `19 of 20 intervals contain 1, half their width is 2.1 % at the median`, for the baseline beside itself.
pub(super) fn controls(part: &PartSummary) -> Option<String> {
    let sure = part.controls(part.metric()).filter_map(|control| control.low.zip(control.high));
    let sure: Vec<(f64, f64)> = sure.collect();
    let contain = sure.iter().filter(|(low, high)| *low <= 1.0 && *high >= 1.0).count();
    let widths: Vec<f64> = sure.iter().map(|(low, high)| (high / low).sqrt() - 1.0).collect();
    Some(format!(
        "{contain} of {} intervals contain 1, half their width is {:.1}\u{a0}% at the median",
        sure.len(),
        100.0 * median(&widths)?
    ))
}

fn rows(summary: &Summary) -> impl Iterator<Item = &Row> {
    summary.parts.iter().flat_map(|part| &part.rows)
}

/// Returns how many samples count, and why others do not.
fn samples(summary: &Summary) -> String {
    let taken: usize = rows(summary).map(|row| row.samples).sum();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, count) in rows(summary).flat_map(|row| &row.invalid) {
        *reasons.entry(reason).or_default() += count;
    }
    let invalid: usize = reasons.values().sum();
    let mut text = if invalid > 0 {
        let most = reasons.iter().max_by_key(|(_, count)| **count);
        let why = most.map_or(String::new(), |(reason, _)| format!(" (most: {reason})"));
        format!("{invalid} of {taken} samples do not count{why}; no figure contains them.")
    } else if is_in_ledger(summary) {
        format!(
            "All {taken} samples are valid: no event was repeated, out of order, or lost without a gap."
        )
    } else {
        format!("All {taken} samples are valid.")
    };
    text += &disturbed(summary, taken);
    text
}

/// Returns whether the lab knows which events had to come.
fn is_in_ledger(summary: &Summary) -> bool {
    let is_idle = summary.parts.iter().any(|part| part.drive == Drive::Idle);
    !is_idle && rows(summary).all(|row| row.received.is_none())
}

/// Returns a sentence about valid samples that were disturbed.
fn disturbed(summary: &Summary, taken: usize) -> String {
    let left_out: usize = rows(summary).map(|row| row.left_out).sum();
    let takes_all = rows(summary).filter(|row| row.takes_all).count();
    let mut text = match left_out {
        0 => String::new(),
        _ => format!(" {left_out} of {taken} were disturbed or had gaps, and are left out."),
    };
    if takes_all > 0 {
        let rows = if takes_all == 1 { "1 row".to_owned() } else { format!("{takes_all} rows") };
        text += &format!(
            " In {rows} too few samples were left: there disturbed ones count as well, and their noise is in \
             the intervals."
        );
    }
    text
}

fn intervals(summary: &Summary) -> Option<String> {
    let all = || summary.parts.iter().flat_map(|part| part.asked(part.metric()));
    let (least, most) =
        (all().map(|sample| sample.starts).min()?, all().map(|sample| sample.starts).max()?);
    if most == 1 {
        return Some(
            "Each ratio is of a single start: there are no intervals, so no difference is claimed."
                .to_owned(),
        );
    }
    let of = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let family = all().count();
    let corrected = match family {
        1 => String::new(),
        _ => " Better and worse are corrected for the number of comparisons (Holm).".to_owned(),
    };
    Some(format!(
        "A cell's ratio is of {of} starts of its subjects, and its interval holds the true one in 95 \
         of 100.{corrected}"
    ))
}

fn noise(summary: &Summary) -> String {
    let of =
        |part: &PartSummary| Some(format!("{} ({})", controls(part)?, part.name_of(part.metric())));
    let reported: Vec<String> = summary.parts.iter().filter_map(of).collect();
    match reported.as_slice() {
        [] => {
            "No baseline ran twice (A/A): how often the intervals are right is unknown.".to_owned()
        }
        reported => format!("The baseline beside itself (A/A): {}.", reported.join("; ")),
    }
}

/// Returns in how many rows events per second are the subject's maximum.
fn throughput(summary: &Summary) -> Option<String> {
    let rows_with_rate = rows(summary).filter(|row| row.throughput.events_per_s.is_some()).count();
    let ranked =
        rows(summary).filter(|row| row.throughput.events_per_s.is_some() && row.is_ranked).count();
    if rows_with_rate == 0 || ranked == rows_with_rate {
        return None;
    }
    if summary.parts.iter().any(|part| part.in_browser) {
        return Some(format!(
            "In {ranked} of {rows_with_rate} rows the browser was the bottleneck: there events per second are what it can take. In the others they are the offered rate."
        ));
    }
    Some(match ranked {
        0 => "No subject was saturated: events per second are the offered rate, not a maximum."
            .to_owned(),
        _ => format!(
            "In {ranked} of {rows_with_rate} rows the subject alone was saturated; in the others events per \
             second are not a maximum."
        ),
    })
}
