//! How sure a finding is.

use super::comparison::{Compared, again};
use crate::measure::statistics::{Estimate, median};
use crate::report::compare::PAIRS_MIN;
use crate::report::row::Row;
use crate::report::summary::Summary;
use crate::scenario::Drive;
use std::collections::BTreeMap;

pub(super) fn sentences(summary: &Summary, all: &[Compared<'_>]) -> Vec<String> {
    let mut said = vec![samples(summary)];
    said.extend(intervals(summary));
    if !all.is_empty() {
        said.push(noise(summary));
    }
    said.extend(throughput(summary));
    if summary.manifest.was_interrupted {
        said.push(
            "The run was interrupted: what is here was measured, the rest of the plan was not."
                .to_owned(),
        );
    }
    said
}

fn rows(summary: &Summary) -> impl Iterator<Item = &Row> {
    summary.parts.iter().flat_map(|part| &part.rows)
}

/// How many count, and why others do not.
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
        format!("All {taken} samples are valid: nothing was repeated, out of order or lost unsaid.")
    } else {
        format!("All {taken} samples are valid.")
    };
    text += &disturbed(summary, taken);
    text
}

/// Whether the lab knows what had to come.
fn is_in_ledger(summary: &Summary) -> bool {
    !summary.parts.iter().any(|part| matches!(part.drive, Drive::Idle | Drive::Listen))
}

/// Samples that are valid and not as good as others.
fn disturbed(summary: &Summary, taken: usize) -> String {
    let left_out: usize = rows(summary).map(|row| row.left_out).sum();
    let takes_all = rows(summary).filter(|row| row.takes_all).count();
    let mut text = match left_out {
        0 => String::new(),
        _ => format!(" {left_out} of {taken} were disturbed or had gaps, and are left out."),
    };
    if takes_all > 0 {
        let rows = if takes_all == 1 { "1 row".to_owned() } else { format!("{takes_all} rows") };
        let together = summary.parts.iter().all(|part| part.together);
        let so = if together {
            "count as well; ratios are of samples taken at the same time, whom it hit alike"
        } else {
            "count as well, and no difference is claimed"
        };
        text += &format!(" In {rows} too few were not: there disturbed ones {so}.");
    }
    text
}

/// What the intervals cover, by the number of samples they are of.
fn intervals(summary: &Summary) -> Option<String> {
    let repeats = || rows(summary).map(|row| row.valid).filter(|&valid| valid > 0);
    let (least, most) = (repeats().min()?, repeats().max()?);
    if most == 1 {
        return Some(
            "Each figure is of a single sample: there are no intervals, so no difference is claimed."
                .to_owned(),
        );
    }
    let of = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let cover = match least {
        1 => "an interval of one sample says nothing".to_owned(),
        2..=5 => {
            format!("intervals cover {:.0}\u{a0}%", 100.0 * (1.0 - 0.5f64.powi(least as i32 - 1)))
        }
        _ => "intervals cover at least 95\u{a0}%".to_owned(),
    };
    let few = if least < PAIRS_MIN {
        format!("; with fewer than {PAIRS_MIN} pairs no difference is claimed")
    } else {
        String::new()
    };
    let together = summary.parts.iter().all(|part| part.together);
    let taken = if together { "at the same time as" } else { "in turn with" };
    Some(format!(
        "Each figure is the median of {of} samples, taken {taken} those beside it; {cover}{few}."
    ))
}

fn noise(summary: &Summary) -> String {
    let again: Vec<Estimate> = again(summary).iter().map(|one| one.ratio).collect();
    let off: Vec<f64> = again.iter().map(|it| it.median.max(1.0 / it.median) - 1.0).collect();
    let Some(middle) = median(&off) else {
        return "No baseline ran twice (A/A), so the noise is unknown: a difference is called by \
                its interval alone."
            .to_owned();
    };
    let low = again.iter().map(|it| it.low).fold(f64::INFINITY, f64::min);
    let high = again.iter().map(|it| it.high).fold(0.0, f64::max);
    format!(
        "The baseline beside itself (A/A) came out {:.0}\u{a0}% apart at the median and {:.0}\u{a0}% at most, \
         with intervals from {low:.2} to {high:.2}; what lies within a cell's own is called a tie.",
        100.0 * middle,
        100.0 * off.iter().copied().fold(0.0, f64::max)
    )
}

/// Where events per second say what the subject can do.
fn throughput(summary: &Summary) -> Option<String> {
    let told = rows(summary).filter(|row| row.throughput.events_per_s.is_some()).count();
    let ranked =
        rows(summary).filter(|row| row.throughput.events_per_s.is_some() && row.is_ranked).count();
    if told == 0 || ranked == told {
        return None;
    }
    Some(match ranked {
        0 => "No subject was saturated: events per second are what was offered, not what could be."
            .to_owned(),
        _ => format!(
            "In {ranked} of {told} rows the subject was saturated; in the others events per second \
             are no throughput."
        ),
    })
}
