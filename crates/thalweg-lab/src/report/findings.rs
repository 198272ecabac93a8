//! The results in words: the cost of each subject beside its baseline, over all cells of a scenario, and how sure that is. No
//! decision is made here.
//!
//! - `browser`: events that tabs received; `trust`: how certain the results are

pub(super) mod browser;
mod growth;
#[cfg(test)]
mod tests;
mod trust;

use super::part_summary::PartSummary;
use super::summary::Summary;
use super::{received, standings};
use crate::measure::comparison::{Comparison, Word};

/// Scenarios that a headline names; the others follow below it.
const NAMED_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Findings {
    /// The sentence to read if only one is read.
    pub(super) headline: String,
    /// One for each subject, if there are several.
    pub(super) details: Vec<String>,
    pub(super) trust: Vec<String>,
}

/// A scenario's figure of one subject over all of its cells.
pub(super) type Pooled<'a> = (&'a PartSummary, &'a Comparison);

pub(super) fn findings(summary: &Summary) -> Findings {
    let all = pooled(summary);
    let mut details: Vec<String> = match all.as_slice() {
        [one] => cell_by_cell(one).into_iter().collect(),
        _ => all.iter().map(detail).collect(),
    };
    details.extend(browser::sentences(summary));
    let headline = standings::headline(&summary.standings);
    let headline = headline.unwrap_or_else(|| match all.len() {
        0 => beside_itself(summary).unwrap_or_else(|| without_comparison(summary)),
        1 => all[0].0.sentence(all[0].1),
        _ => self::headline(&all),
    });
    Findings { headline, details, trust: trust::sentences(summary, !all.is_empty()) }
}

/// Returns every scenario's figure, pooled, without the controls.
pub(super) fn pooled(summary: &Summary) -> Vec<Pooled<'_>> {
    let of = |part| {
        let part: &PartSummary = part;
        let is_main =
            |comparison: &&Comparison| comparison.metric == part.metric() && !comparison.is_control;
        part.pooled.iter().filter(is_main).map(move |pooled| (part, pooled))
    };
    summary.parts.iter().flat_map(of).collect()
}

/// Returns the figures of the subject that is compared in most scenarios and cells. Among several it is the last one, because files
/// name their own subject last.
pub(super) fn own_subject_first<'a>(all: &[Pooled<'a>]) -> Vec<Pooled<'a>> {
    let like = |one: &Pooled<'a>| -> Vec<Pooled<'a>> {
        all.iter().copied().filter(|other| other.1.subject == one.1.subject).collect()
    };
    all.iter().map(like).max_by_key(|own| (own.len(), cells(own))).unwrap_or_default()
}

fn cells(all: &[Pooled<'_>]) -> usize {
    let of = |(part, one): &Pooled<'_>| {
        part.asked(one.metric).filter(|found| found.is_beside(one)).count()
    };
    all.iter().map(of).sum()
}

/// Returns a sentence, and the results of its cells.
fn detail(one: &Pooled<'_>) -> String {
    let sentence = one.0.sentence(one.1);
    cell_by_cell(one).map_or(sentence.clone(), |cells| format!("{sentence} {cells}"))
}

fn cell_by_cell(&(part, pooled): &Pooled<'_>) -> Option<String> {
    let cells: Vec<Word> = part
        .asked(pooled.metric)
        .filter(|found| found.is_beside(pooled))
        .map(|found| found.word)
        .collect();
    let words = [Word::Better, Word::Equivalent, Word::Undecided, Word::Worse];
    let counts =
        words.map(|word| (cells.iter().filter(|cell| **cell == word).count(), word.name()));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    (cells.len() > 1).then(|| format!("Cell by cell: {}.", counts.join(", ")))
}

/// Returns a sentence about the subject in question, scenario by scenario, beginning with CPU, which is its cost.
fn headline(all: &[Pooled<'_>]) -> String {
    let mut own = own_subject_first(all);
    own.sort_by_key(|(_, one)| one.metric);
    let [(part, first), others @ ..] = own.as_slice() else { return String::new() };
    let as_much = all
        .iter()
        .filter(|(other, one)| other.name == part.name && cells(&own) == cells(&[(other, one)]));
    let as_much: Vec<&Pooled<'_>> = as_much.collect();
    if others.is_empty() && as_much.len() > 1 {
        return each(part, &as_much);
    }
    if others.is_empty() {
        return part.sentence(first);
    }
    let is_one = own.iter().all(|(_, one)| one.baseline == first.baseline);
    let baseline = if is_one { &first.baseline } else { "its baselines" };
    let mut named: Vec<String> = Vec::new();
    let mut last = "";
    for (part, one) in own.iter().take(NAMED_MAX) {
        let name = part.name_of(one.metric);
        let what = if name == last { String::new() } else { format!(" the {name}") };
        let (ratio, interval, words) = (one.ratio, one.interval(), one.in_words());
        named.push(format!("{ratio:.2}\u{a0}×{what}{interval} in {}, {words}", part.name));
        last = name;
    }
    let more = match own.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; {more} more scenarios below"),
    };
    format!("{} beside {baseline}: {}{more}.", first.subject, named.join("; "))
}

/// Returns a sentence about several subjects of one scenario.
fn each(part: &PartSummary, all: &[&Pooled<'_>]) -> String {
    let one = |(_, it): &&Pooled<'_>| {
        format!("{} {:.2}\u{a0}×{}, {}", it.subject, it.ratio, it.interval(), it.in_words())
    };
    let named: Vec<String> = all.iter().take(NAMED_MAX).map(one).collect();
    let more = match all.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!("; {more} more below"),
    };
    let (name, baseline) = (part.name_of(part.metric()), &all[0].1.baseline);
    format!("Beside {baseline}, {name}: {}{more}.", named.join("; "))
}

/// Returns, for a run of A/A pairs alone, how often the lab was right not to find a difference.
fn beside_itself(summary: &Summary) -> Option<String> {
    let [part] = summary.parts.as_slice() else { return None };
    let first = part.controls(part.metric()).next()?;
    Some(format!(
        "{} beside itself, {}: {}.",
        first.baseline,
        part.name_of(part.metric()),
        trust::controls(part)?
    ))
}

fn without_comparison(summary: &Summary) -> String {
    let rows = || summary.parts.iter().flat_map(|part| &part.rows);
    if rows().next().is_none() {
        return "No sample was taken.".to_owned();
    }
    if !summary.has_valid_sample() {
        let why = rows().next().map_or("", |row| &row.verdict);
        return format!("No sample of this run counts; of the first: {why}.");
    }
    let states = received::states(summary);
    if !states.is_empty() {
        let more = match states.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!("; {more} more below"),
        };
        return format!("{}{more}.", states[..states.len().min(NAMED_MAX)].join("; "));
    }
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows().filter(|row| row.valid > 0) {
        if !subjects.contains(&&*row.subject) {
            subjects.push(&row.subject);
        }
    }
    let cells: usize = summary.parts.iter().map(|part| part.cells().len()).sum();
    let cells = if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") };
    match subjects.as_slice() {
        [one] => {
            format!("{one} was measured alone, in {cells}: there is nothing to compare it with.")
        }
        [first @ .., last] => format!(
            "{} and {last} were measured in {cells}; no figure of theirs could be compared.",
            first.join(", ")
        ),
        [] => String::new(),
    }
}
