//! What was found, in words: who beside whom, in how many cells less, as much or
//! more, and how sure that is. Nothing is said that the intervals do not carry.
//!
//! - `comparison`: every figure beside its baseline's, and what may be said of it
//! - `trust`: how sure it is

mod comparison;
#[cfg(test)]
mod tests;
mod trust;

pub(super) use comparison::{Compared, again, compared};

use super::outcome::Outcome;
use super::summary::Summary;
use crate::measure::statistics;
use crate::scenario::Figure;

/// A run in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Findings {
    /// The sentence to read if only one is read.
    pub(super) headline: String,
    /// Of each subject, where there are several.
    pub(super) details: Vec<String>,
    /// How sure it is.
    pub(super) trust: Vec<String>,
}

/// Says what a run found.
pub(super) fn findings(summary: &Summary) -> Findings {
    let all = compared(summary);
    let groups = groups(&all);
    let mut details: Vec<String> = groups.iter().map(|group| group.sentence()).collect();
    let headline = match details.len() {
        0 => beside_itself(summary).unwrap_or_else(|| without_comparison(summary)),
        1 => details.remove(0),
        _ => tally(&all, &groups),
    };
    Findings { headline, details, trust: trust::sentences(summary, &all) }
}

/// One subject beside its baseline in one figure, over all cells.
struct Group<'a> {
    figure: Figure,
    subject: &'a str,
    /// As a rule one; some cells may have another.
    baselines: Vec<&'a str>,
    members: Vec<&'a Compared<'a>>,
}

fn groups<'a>(all: &'a [Compared<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for one in all {
        let (figure, subject) = (one.figure, &*one.row.subject);
        let same = groups.iter_mut().find(|it| (it.figure, it.subject) == (figure, subject));
        let Some(group) = same else {
            groups.push(Group {
                figure,
                subject,
                baselines: vec![one.baseline],
                members: vec![one],
            });
            continue;
        };
        group.members.push(one);
        if !group.baselines.contains(&one.baseline) {
            group.baselines.push(one.baseline);
        }
    }
    groups
}

impl Group<'_> {
    fn count(&self, outcome: Outcome) -> usize {
        self.members.iter().filter(|it| it.outcome == outcome).count()
    }

    fn sentence(&self) -> String {
        let Group { figure, subject, .. } = self;
        let baseline = match self.baselines.as_slice() {
            [one] => *one,
            _ => "its baseline",
        };
        let cells = self.members.len();
        let (what, less, more) = (figure.name(), figure.less(), figure.more());
        let counts = [Outcome::Less, Outcome::Tie, Outcome::More, Outcome::Unclear]
            .map(|outcome| self.count(outcome));
        let by = self.by_how_much();
        match counts {
            [.., few] if few == cells => format!(
                "{subject} ran beside {baseline} in {}, with too few sound pairs to tell them apart.",
                of_cells(cells)
            ),
            [lesser, ..] if lesser == cells => {
                format!("{subject} is {less} than {baseline} in {}: {what} {by}.", all_cells(cells))
            }
            [_, _, greater, _] if greater == cells => {
                format!("{subject} is {more} than {baseline} in {}: {what} {by}.", all_cells(cells))
            }
            [_, ties, ..] if ties == cells => format!(
                "Between {subject} and {baseline} no difference in {what} was found, in {}: {by}.",
                if cells == 1 {
                    "the one cell".to_owned()
                } else {
                    format!("any of {cells} cells")
                }
            ),
            [lesser, ties, greater, few] => {
                let few = match few {
                    0 => String::new(),
                    few => format!(", with too few sound pairs to tell in {few}"),
                };
                format!(
                    "{subject} beside {baseline}, {what} in {cells} cells: {less} in {}, a tie in \
                     {}, {more} in {}{few}; {by}.",
                    none(lesser),
                    none(ties),
                    none(greater)
                )
            }
        }
    }

    /// `0.96 × at the median of cells (intervals from 0.68 to 1.95)`
    fn by_how_much(&self) -> String {
        if let [one] = self.members.as_slice() {
            let ratio = one.ratio;
            return format!("{:.2}\u{a0}× ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high);
        }
        let of = |pick: fn(&Compared<'_>) -> f64| self.members.iter().map(|it| pick(it)).collect();
        let medians: Vec<f64> = of(|it| it.ratio.median);
        let lows: Vec<f64> = of(|it| it.ratio.low);
        let highs: Vec<f64> = of(|it| it.ratio.high);
        format!(
            "{:.2}\u{a0}× at the median of cells (intervals from {:.2} to {:.2})",
            statistics::median(&medians).unwrap_or(1.0),
            lows.iter().copied().fold(f64::INFINITY, f64::min),
            highs.iter().copied().fold(0.0, f64::max)
        )
    }
}

/// Several subjects: how many comparisons came out how.
fn tally(all: &[Compared<'_>], groups: &[Group<'_>]) -> String {
    let mut subjects: Vec<&str> = groups.iter().map(|it| it.subject).collect();
    subjects.sort_unstable();
    subjects.dedup();
    let mut baselines: Vec<&str> = groups.iter().flat_map(|it| it.baselines.clone()).collect();
    baselines.sort_unstable();
    baselines.dedup();
    let figures: Vec<Figure> = groups.iter().map(|it| it.figure).collect();
    let one_figure = figures.iter().all(|it| *it == figures[0]).then_some(figures[0]);
    let less = one_figure.map_or("better", Figure::less);
    let more = one_figure.map_or("worse", Figure::more);
    let count = |outcome| all.iter().filter(|it| it.outcome == outcome).count();
    // What is better depends on the figure: a higher ceiling is, a higher cost not.
    let better = |one: &&Compared<'_>| one.is_better() == Some(true);
    let (lesser, greater) = if one_figure.is_some() {
        (count(Outcome::Less), count(Outcome::More))
    } else {
        let better = all.iter().filter(better).count();
        (better, count(Outcome::Less) + count(Outcome::More) - better)
    };
    let few = match count(Outcome::Unclear) {
        0 => String::new(),
        few => format!(", {few} with too few sound pairs to tell"),
    };
    let whom = match baselines.as_slice() {
        [one] => (*one).to_owned(),
        _ => "their baselines".to_owned(),
    };
    let who = match subjects.as_slice() {
        [one] => (*one).to_owned(),
        more => format!("{} subjects", more.len()),
    };
    let what = one_figure.map_or(String::new(), |it| format!(", {}", it.name()));
    format!(
        "{who} beside {whom}{what}: of {} comparisons {} {less}, {} a tie, {} {more}{few}.",
        all.len(),
        is_are(lesser),
        is_are(count(Outcome::Tie)),
        is_are(greater)
    )
}

/// A run of A/A pairs alone: how often the lab was right not to find a difference.
fn beside_itself(summary: &Summary) -> Option<String> {
    let all = again(summary);
    let first = all.first()?;
    let is_other =
        |one: &&Compared<'_>| (one.baseline, one.figure) != (first.baseline, first.figure);
    if all.iter().any(|one| is_other(&one)) {
        return None;
    }
    let contain = all.iter().filter(|one| one.ratio.is_tie()).count();
    let widths: Vec<f64> = all.iter().map(|one| one.ratio.half_width()).collect();
    Some(format!(
        "{} beside itself, {} in {}: {contain} of {} intervals contain 1, half their width is {:.1}\u{a0}% \
         at the median.",
        first.baseline,
        first.figure.name(),
        of_cells(all.len()),
        all.len(),
        100.0 * statistics::median(&widths)?
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
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows().filter(|row| row.valid > 0) {
        if !subjects.contains(&&*row.subject) {
            subjects.push(&row.subject);
        }
    }
    let cells: usize = summary.parts.iter().map(|part| part.cells().len()).sum();
    match subjects.as_slice() {
        [one] => format!(
            "{one} was measured alone, in {}: there is nothing to compare it with.",
            of_cells(cells)
        ),
        _ => format!(
            "{} were measured in {}; no figure of theirs could be compared.",
            listed(&subjects),
            of_cells(cells)
        ),
    }
}

fn of_cells(cells: usize) -> String {
    if cells == 1 { "1 cell".to_owned() } else { format!("{cells} cells") }
}

fn all_cells(cells: usize) -> String {
    match cells {
        1 => "the one cell".to_owned(),
        2 => "both cells".to_owned(),
        _ => format!("all {cells} cells"),
    }
}

fn none(count: usize) -> String {
    if count == 0 { "none".to_owned() } else { count.to_string() }
}

fn is_are(count: usize) -> String {
    match count {
        0 => "none is".to_owned(),
        1 => "1 is".to_owned(),
        _ => format!("{count} are"),
    }
}

/// `a, b and c`
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
