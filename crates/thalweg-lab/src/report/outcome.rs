//! What a comparison of two figures comes to: decided once, from the interval of
//! their ratio and from how much stands behind it.

use crate::measure::statistics::Estimate;
use serde::Serialize;

/// A figure next to the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The figure to the baseline's, paired by repeat.
    pub ratio: Estimate,
    /// How many pairs it is of.
    pub pairs: usize,
    /// What it comes to.
    pub outcome: Outcome,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The figure is less than the other.
    Less,
    /// No difference was found: the interval contains 1, or overlaps that of the
    /// baseline against itself.
    Tie,
    /// The figure is more.
    More,
    /// Too few samples, or too few that nobody disturbed, to say any of these.
    Unclear,
}

impl Outcome {
    /// Of a ratio, if there is enough behind it to tell.
    pub(super) fn of(ratio: Estimate, can_tell: bool) -> Outcome {
        match ratio {
            _ if !can_tell => Outcome::Unclear,
            ratio if ratio.is_tie() => Outcome::Tie,
            ratio if ratio.median < 1.0 => Outcome::Less,
            _ => Outcome::More,
        }
    }

    /// Before the ratio in a table.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Outcome::Tie => "= ",
            Outcome::Unclear => "? ",
            Outcome::Less | Outcome::More => "",
        }
    }
}
