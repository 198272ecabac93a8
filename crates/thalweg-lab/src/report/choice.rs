//! Samples that count. A disturbed sample, or one with gaps, is not combined with good ones: it is left out, and the report says
//! so. With too few good ones, all valid samples are taken, and the report says that, too.

use crate::measure::{Sample, Verdict};
use std::collections::BTreeMap;

/// Fewer samples have no useful median.
const UNDISTURBED_MIN: usize = 3;

/// Samples of one subject that count, and why not all.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice<'a> {
    pub(super) counted: Vec<&'a Sample>,
    pub(super) left_out: Vec<&'a Sample>,
    pub(super) takes_all: bool,
}

impl<'a> Choice<'a> {
    pub(super) fn new(samples: &[&'a Sample]) -> Choice<'a> {
        let valid = samples.iter().copied().filter(|sample| sample.verdict.is_valid());
        let (counted, left_out, takes_all) =
            undisturbed_first(valid, |sample| sample.is_undisturbed());
        Choice { counted, left_out, takes_all }
    }

    /// Returns the verdict of most samples, how many do not count and why, and whether most were not warm yet.
    pub(super) fn verdict(&self, samples: &[&Sample]) -> String {
        let invalid: Vec<_> = samples.iter().filter(|sample| !sample.verdict.is_valid()).collect();
        let all = samples.len();
        let Some(most) = self.most() else {
            return invalid.first().map_or(String::new(), |first| first.verdict.to_string());
        };
        let mut text = most.verdict.to_string();
        if self.takes_all {
            text += "; disturbed ones taken, too few others";
        }
        if let Some(first) = self.left_out.first() {
            text += &format!("; {} of {all} left out: {}", self.left_out.len(), first.verdict);
        }
        if let Some(first) = invalid.first() {
            text += &format!("; {} of {all} {}", invalid.len(), first.verdict);
        }
        let drifting = self.counted.iter().filter(|sample| sample.warm_up.took_us > 0);
        let drifting = drifting.filter(|sample| !sample.warm_up.is_steady).count();
        if drifting * 2 > self.counted.len() {
            text += &format!("; {drifting} of {all} not warm yet");
        }
        text
    }

    /// Returns the first sample of the verdict that most have.
    pub(super) fn most(&self) -> Option<&'a Sample> {
        let count = |sample: &&&Sample| {
            self.counted.iter().filter(|other| other.verdict == sample.verdict).count()
        };
        // The first of equally many.
        self.counted.iter().rev().max_by_key(count).copied()
    }
}

/// Returns why samples do not count, and how many for each reason.
pub(super) fn reasons(samples: &[&Sample]) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for sample in samples {
        if let Verdict::Invalid(reason) = &sample.verdict {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    reasons
}

/// Returns the undisturbed ones and the others, or all if the undisturbed ones are too few.
fn undisturbed_first<T>(
    valid: impl Iterator<Item = T>,
    is_undisturbed: impl Fn(&T) -> bool,
) -> (Vec<T>, Vec<T>, bool) {
    let (undisturbed, mut others): (Vec<T>, Vec<T>) = valid.partition(is_undisturbed);
    if undisturbed.len() >= UNDISTURBED_MIN || others.is_empty() {
        return (undisturbed, others, false);
    }
    others.splice(0..0, undisturbed);
    (others, Vec::new(), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::WarmUp;

    fn samples(verdicts: &[Verdict]) -> Vec<Sample> {
        let sample = |(repeat, verdict): (usize, &Verdict)| Sample {
            repeat: repeat as u32,
            verdict: verdict.clone(),
            ..Sample::default()
        };
        verdicts.iter().enumerate().map(sample).collect()
    }

    fn check(verdicts: &[Verdict], counted: usize, expected: &str) {
        let samples = samples(verdicts);
        let samples: Vec<&Sample> = samples.iter().collect();
        let choice = Choice::new(&samples);
        assert_eq!((choice.counted.len(), &*choice.verdict(&samples)), (counted, expected));
    }

    #[test]
    fn disturbed_samples_do_not_stand_beside_good_ones() {
        use Verdict::{Gaps, Invalid, Machine, Subject, Swarm};
        let broken = || Invalid("3 missing".to_owned());
        check(&[Subject, Subject, Swarm], 3, "subject");
        check(&[Swarm, Subject], 2, "swarm");
        check(&[Subject, Machine, Subject, Gaps, Subject], 3, "subject; 2 of 5 left out: machine");
        check(
            &[Subject, Machine, Subject, Subject, broken()],
            3,
            "subject; 1 of 5 left out: machine; 1 of 5 invalid: 3 missing",
        );
        check(&[Subject, Machine, Machine], 3, "machine; disturbed ones taken, too few others");
        check(&[Gaps, Gaps, Gaps], 3, "gaps; disturbed ones taken, too few others");
        check(&[broken(), broken()], 0, "invalid: 3 missing");
        check(&[], 0, "");
    }

    #[test]
    fn a_starved_swarm_is_a_disturbance() {
        let mut samples = samples(&[const { Verdict::Swarm }; 4]);
        samples[2].disturbed = 0.43;
        let samples: Vec<&Sample> = samples.iter().collect();
        let choice = Choice::new(&samples);
        assert_eq!(choice.verdict(&samples), "swarm; 1 of 4 left out: swarm");
    }

    #[test]
    fn samples_without_a_warm_subject_are_counted() {
        let mut samples = samples(&[const { Verdict::Subject }; 3]);
        for sample in &mut samples[..2] {
            sample.warm_up = WarmUp { took_us: 5, is_steady: false };
        }
        let samples: Vec<&Sample> = samples.iter().collect();
        assert_eq!(Choice::new(&samples).verdict(&samples), "subject; 2 of 3 not warm yet");
    }
}
