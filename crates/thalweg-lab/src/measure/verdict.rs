//! What limited a sample, or why it must not be believed.

use crate::measure::Counts;
use serde::{Deserialize, Serialize};
use std::fmt;

/// From this share on a core counts as saturated.
const SATURATED: f64 = 0.95;
/// From this share on, time that subject or swarm had to wait for their core
/// makes the sample the machine's. Stolen time is counted in ticks of 10 ms, so
/// half a second knows 2 % at best.
const DISTURBED: f64 = 0.10;

/// What limited a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The subject's cores were saturated: its throughput counts.
    Subject,
    /// The swarm's core was: the subject could do more.
    Swarm,
    /// The subject could not keep up and announced gaps: CPU per event counts,
    /// throughput does not.
    Gaps,
    /// Somebody else had a share of the cores, or the kernel dropped packets.
    Machine,
    /// Nobody: the schedule or the window left everyone time. CPU per event
    /// counts, throughput does not.
    #[default]
    Schedule,
    /// Why nothing here counts.
    Invalid(String),
}

/// What a verdict is found from; shares of one core's time in the span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Mean over the subject's cores.
    pub subject_busy: f64,
    /// The swarm's thread.
    pub swarm_busy: f64,
    /// Time that subject or swarm, whichever is worse off, was kept from its
    /// core by others.
    pub disturbed: f64,
    /// Packets the kernel dropped.
    pub dropped_packets: u64,
    /// Whether the swarm did not offer the schedule, or could not go on to try
    /// what the subject might have met.
    pub swarm_fell_short: bool,
    /// Why the sample failed, where it did.
    pub failure: Option<String>,
}

impl Verdict {
    /// The first that applies: a broken sample, a disturbed one, then whoever
    /// was saturated.
    pub fn of(evidence: &Evidence, ledger: &Counts) -> Verdict {
        if let Some(failure) = &evidence.failure {
            return Verdict::Invalid(failure.clone());
        }
        if !ledger.is_honest() {
            return Verdict::Invalid(ledger.to_string());
        }
        if evidence.disturbed >= DISTURBED || evidence.dropped_packets > 0 {
            return Verdict::Machine;
        }
        if !ledger.is_whole() {
            return Verdict::Gaps;
        }
        if evidence.swarm_fell_short {
            return Verdict::Swarm;
        }
        if evidence.subject_busy >= SATURATED {
            return Verdict::Subject;
        }
        if evidence.swarm_busy >= SATURATED {
            return Verdict::Swarm;
        }
        Verdict::Schedule
    }

    /// Whether the sample's figures may be used at all.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Verdict::Invalid(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Subject => f.write_str("subject"),
            Verdict::Gaps => f.write_str("gaps"),
            Verdict::Swarm => f.write_str("swarm"),
            Verdict::Machine => f.write_str("machine"),
            Verdict::Schedule => f.write_str("schedule"),
            Verdict::Invalid(reason) => write!(f, "invalid: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: f64, swarm: f64, disturbed: f64, expected: &str) {
        let evidence =
            Evidence { subject_busy: subject, swarm_busy: swarm, disturbed, ..Evidence::default() };
        let verdict = Verdict::of(&evidence, &Counts::default());
        assert_eq!(verdict.to_string(), expected);
    }

    #[test]
    fn who_was_saturated() {
        check(0.99, 0.5, 0.0, "subject");
        check(0.99, 0.99, 0.0, "subject");
        check(0.94, 0.96, 0.02, "swarm");
        check(0.94, 0.50, 0.02, "schedule");
        check(0.99, 0.50, 0.2, "machine");
    }

    #[test]
    fn dropped_packets_are_the_machines() {
        let evidence = Evidence { dropped_packets: 1, ..Evidence::default() };
        assert_eq!(Verdict::of(&evidence, &Counts::default()), Verdict::Machine);
    }

    #[test]
    fn a_schedule_not_offered_is_the_swarms() {
        let evidence =
            Evidence { subject_busy: 1.0, swarm_fell_short: true, ..Evidence::default() };
        assert_eq!(Verdict::of(&evidence, &Counts::default()), Verdict::Swarm);
    }

    #[test]
    fn a_hole_in_the_ledger_invalidates() {
        let counts = Counts { missing: 3, ..Counts::default() };
        let verdict = Verdict::of(&Evidence::default(), &counts);
        assert_eq!(verdict.to_string(), "invalid: 3 missing");
        assert!(!verdict.is_valid());
    }

    #[test]
    fn an_announced_gap_only_costs_the_throughput() {
        let counts = Counts { gaps: 3, ..Counts::default() };
        let saturated = Evidence { subject_busy: 1.0, ..Evidence::default() };
        let verdict = Verdict::of(&saturated, &counts);
        assert_eq!(verdict, Verdict::Gaps);
        assert!(verdict.is_valid());
    }
}
