//! A subject compared with its baseline in one metric: one value, from the samples of a cell, or pooled over the cells of a
//! scenario. Every form of the report shows it and decides nothing.
//!
//! A round is one span of each subject of a cell, one right after the other. The logarithm of the ratio of subject to baseline
//! removes drift of the machine. If a cell has the baseline twice (A/A), the ratio is to the mean of both, which has half the noise
//! of one. Rounds between two starts of the processes share one memory layout, so they are averaged to one value;
//! only the starts are independent, and Student's t uses them.
//!
//! Student's t is used instead of the signed rank of Hodges and Lehmann: on the archive's residuals, despite heavy tails, both cover
//! alike (93 to 95 % with the stop rule in force, at the nominal 95 %), because a start's value is a mean. But with six starts
//! a rank can say no more than 97 %: it could neither stop early at 99.9 % nor be corrected for twenty comparisons.

mod difference;
#[cfg(test)]
mod tests;

pub use difference::{CellSubjects, Difference, Metric};

use crate::measure::Sample;
use serde::Serialize;

/// Probability by chance below which a difference is reported. A little less than 5 %, because the stop rule looks at the interval more
/// than once: the intervals that it leaves then cover 95 % (`tests`).
const WRONG_MAX: f64 = 0.035;
/// Ratios within this range count as equal.
const EQUIVALENT: (f64, f64) = (0.95, 1.05);

/// An interval of fewer starts says hardly anything.
const TELLING_STARTS_MIN: usize = 3;

/// A subject beside its baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The indices of the cell in the scenario and of the subject in the cell; `None` is over all cells.
    #[serde(skip)]
    pub place: Option<(usize, usize)>,
    /// The compared metric.
    pub metric: Metric,
    /// The cell. `None`: all cells of the scenario that have this comparison, each with the same weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// The subject.
    pub subject: String,
    /// The baseline of the subject.
    pub baseline: String,
    /// Whether the subject is the baseline once more (A/A), which shows the noise and is no finding.
    pub is_control: bool,
    /// The subject's figure to the baseline's.
    pub ratio: f64,
    /// Lower end of the interval that holds the true ratio in 95 of 100; `None` for one start.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Starts of all subjects: the number of independent values.
    pub starts: usize,
    /// Spans of the subject with a span of the baseline in the same round.
    pub rounds: usize,
    /// Probability of so large a difference if there is none, uncorrected; `None` for one start.
    pub p: Option<f64>,
    /// The same, corrected (Holm) for the comparisons in this metric: of all cells and subjects, or pooled, of all subjects.
    pub p_corrected: Option<f64>,
    /// The result.
    pub word: Word,
    /// How far from 1 the interval reaches, as a share. A difference of this size is not excluded. `None` for one start.
    pub not_excluded: Option<f64>,
    /// The chance that this many starts find a true difference of 5 %, uncorrected, with the noise between the starts of the A/A
    /// control, or with the subject's own if that is larger. `None` if the run has no control of three starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
}

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The subject is better, even after correction.
    Better,
    /// The baseline is better, even after correction.
    Worse,
    /// Less than 5 % apart.
    Equivalent,
    /// None of these is certain.
    Undecided,
}

impl Comparison {
    /// Returns the comparison over all cells from a difference, not yet corrected.
    pub fn new(
        metric: Metric,
        [subject, baseline]: [&str; 2],
        is_control: bool,
        difference: &Difference,
    ) -> Comparison {
        let interval = difference.interval(WRONG_MAX);
        let far = |(low, high): (f64, f64)| (1.0 - low).max(high - 1.0);
        Comparison {
            place: None,
            metric,
            cell: None,
            subject: subject.to_owned(),
            baseline: baseline.to_owned(),
            is_control,
            ratio: difference.ratio(),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            starts: difference.starts,
            rounds: difference.rounds,
            p: difference.p(),
            p_corrected: difference.p(),
            word: Word::Undecided,
            not_excluded: interval.map(far),
            power: None,
        }
        .in_a_word()
    }

    /// Makes this the comparison of a subject in one cell, which has a label.
    pub fn in_cell(self, cell: usize, subject: usize, label: &str) -> Comparison {
        Comparison { place: Some((cell, subject)), cell: Some(label.to_owned()), ..self }
    }

    /// Sets the power from the difference that the control's noise alone would make, and from the comparison's own, whose noise
    /// may be larger.
    pub fn with_noise(self, noise: Option<&Difference>, own: &Difference) -> Comparison {
        let noise = noise.map(|noise| if own.error() > noise.error() { own } else { noise });
        let power = noise.and_then(|noise| noise.power(EQUIVALENT.1.ln(), WRONG_MAX));
        Comparison { power, ..self }
    }

    /// Returns whether the starts are too few for a result: fewer than three, whose interval is of little use.
    pub fn has_too_few_starts(&self) -> bool {
        let is_little = self.low.is_none() || self.starts < TELLING_STARTS_MIN;
        self.word == Word::Undecided && is_little
    }

    /// Returns whether the comparison is of this subject in this cell.
    pub fn is_in(&self, cell: usize, subject: usize) -> bool {
        self.place == Some((cell, subject))
    }

    /// Returns whether the uncorrected interval excludes 1.
    pub fn excludes_one(&self) -> bool {
        self.low.is_some_and(|low| low > 1.0) || self.high.is_some_and(|high| high < 1.0)
    }

    fn in_a_word(mut self) -> Comparison {
        let is_better = (self.ratio > 1.0) == self.metric.more_is_better();
        let is_within = |(low, high)| EQUIVALENT.0 <= low && high <= EQUIVALENT.1;
        self.word = match self.p_corrected {
            Some(p) if p <= WRONG_MAX && is_better => Word::Better,
            Some(p) if p <= WRONG_MAX => Word::Worse,
            _ if self.low.zip(self.high).is_some_and(is_within) => Word::Equivalent,
            _ => Word::Undecided,
        };
        self
    }
}

/// Returns the geometric mean of a subject's own figure over its starts, and the interval that holds it in 95 of 100, which one
/// start does not have. `samples` are those of the subject in a cell.
pub fn own_figure(
    metric: Metric,
    connections: u32,
    samples: &[&Sample],
) -> Option<(f64, Option<(f64, f64)>)> {
    let own = Difference::to_one(metric, connections, samples)?;
    Some((own.ratio(), own.interval(WRONG_MAX)))
}

/// Corrects a family of comparisons for their number, by Holm (Scandinavian Journal of Statistics 6, 1979):
/// of n the least probable counts n times, the next n − 1 times. The method assumes no independence (cells
/// that share a machine are not independent), and finds more than wider intervals for all would. Each
/// interval remains uncorrected. Controls test the lab and not a subject, so they are not corrected.
pub fn correct(family: &mut [Comparison]) {
    let mut asked: Vec<&mut Comparison> =
        family.iter_mut().filter(|found| !found.is_control && found.p.is_some()).collect();
    asked.sort_by(|a, b| a.p.unwrap_or(1.0).total_cmp(&b.p.unwrap_or(1.0)));
    let (mut corrected, count) = (0.0f64, asked.len());
    for (done, found) in asked.into_iter().enumerate() {
        corrected = corrected.max(found.p.unwrap_or(1.0) * (count - done) as f64).min(1.0);
        found.p_corrected = Some(corrected);
        *found = found.clone().in_a_word();
    }
}

/// The next step of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another start of all its subjects.
    Continue,
    /// No more starts: they would not change the result.
    Decided,
}

/// Fewer starts do not show how much starts differ.
const STARTS_MIN: usize = 6;
/// Half the width of an interval that decides, whatever the ratio: if it does not exclude 1 it lies within ± 5 %.
const HALF_WIDTH: f64 = 1.025;
/// An early end must be this improbable by chance, so that looking often costs nothing
/// (Haybittle, British Journal of Radiology 44, 1971; Peto, British Journal of Cancer 34, 1976).
const EARLY_WRONG_MAX: f64 = 0.001;

/// At this ratio a subject is out of range: its exact ratio is not worth the time of the others.
const FAR: f64 = 1.5;
/// Minimum number of starts for this test.
const FAR_STARTS_MIN: usize = 3;

/// Returns the subjects of a cell that need no further start, because they are certainly more than 1.5 times off. Takes the same
/// arguments as [`next`]. These subjects stay in the cell.
pub fn far_off(metric: Metric, subjects: &CellSubjects, samples: &[&Sample]) -> Vec<usize> {
    let difference =
        |subject: &usize| Difference::from_samples(metric, subjects, *subject, samples);
    (0..subjects.connections.len())
        .filter(|subject| !subjects.is_control(*subject))
        .filter(|subject| difference(subject).is_some_and(|difference| is_far(&difference)))
        .collect()
}

fn is_far(difference: &Difference) -> bool {
    let beyond = difference.log().abs() - FAR.ln();
    difference.starts >= FAR_STARTS_MIN
        && beyond > 0.0
        && difference.is_off_by(beyond).is_some_and(|p| p <= EARLY_WRONG_MAX)
}

/// Returns whether a cell is decided. Called after each start with all of its samples so far, in any order; `metric` is its scenario's.
///
/// From the sixth start on, a cell is decided when each subject beside the baseline has an interval whose
/// half width is at most 2.5 % (the width alone favours no result), or a 99.9 % interval that lies wholly
/// beyond or wholly within ± 5 %. Subjects that are [`far_off`] need neither. Controls and subjects without a
/// sample that counts are not waited for: broken subjects must not use up the budget.
pub fn next(metric: Metric, subjects: &CellSubjects, samples: &[&Sample]) -> Next {
    let mut starts: Vec<u32> = samples.iter().map(|sample| sample.start()).collect();
    starts.sort_unstable();
    starts.dedup();
    if starts.len() < STARTS_MIN {
        return Next::Continue;
    }
    let mut differences = (0..subjects.connections.len())
        .filter(|subject| !subjects.is_control(*subject))
        .filter_map(|subject| Difference::from_samples(metric, subjects, subject, samples));
    match differences.all(|difference| is_far(&difference) || is_decided(&difference)) {
        true => Next::Decided,
        false => Next::Continue,
    }
}

fn is_decided(difference: &Difference) -> bool {
    let (least, most) = (EQUIVALENT.0.ln(), EQUIVALENT.1.ln());
    let is_sure = |distance: f64| {
        distance > 0.0 && difference.is_off_by(distance).is_some_and(|p| p <= EARLY_WRONG_MAX)
    };
    let log = difference.log();
    let is_within = is_sure(log - least) && is_sure(most - log);
    let is_beyond = is_sure(least - log) || is_sure(log - most);
    let is_narrow = difference.is_off_by(HALF_WIDTH.ln()).is_some_and(|p| p <= WRONG_MAX);
    difference.starts >= STARTS_MIN && (is_narrow || is_within || is_beyond)
}
