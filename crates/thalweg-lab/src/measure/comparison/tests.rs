//! Simulations with residuals of the archive's figures around the true ratio of 1 (`residuals.txt` has absolute values; signs are
//! drawn at random):
//!
//! - `starts`: 160 A/A ratios of `a-a`, both of a pair at the same time in fresh processes. Assumption: the residual at equal times
//!   is the random effect of a start.
//! - `saturated`, `conversation`, `fixed-rate`: CPU per event in each 0.5 s relative to the next, in one process, from timelines in
//!   git's history of `a-a`; of `c-gorilla` and `interference`; of the three `latency`. Assumed: alternating spans of two subjects
//!   differ as two spans of one do. These have heavy tails (of `fixed-rate` the largest is 14 times the median).
//! - `apart`: A/A ratios of samples that were taken one after the other (`fanout`, `a1`, `tls`, `transports`), as in older runs.
//!
//! A ratio consists of two such values, so each is drawn divided by √2.

use super::difference::Difference;
use super::*;
use crate::measure::{Sample, Traffic, Verdict};

/// Spans of each subject between two starts.
const ROUNDS: usize = 6;
/// Simulated cells for one estimate of the cover.
const CELLS: usize = 2000;

/// A linear congruential generator: the tests must be the same every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }

    fn pick(&mut self, values: &[f64]) -> f64 {
        let sign = if self.next().is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * values[self.next() % values.len()] / std::f64::consts::SQRT_2
    }
}

fn residuals(name: &str) -> Vec<f64> {
    let mut lines = include_str!("residuals.txt").lines().map(str::split_whitespace);
    let line = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words));
    line.expect("residuals of this name").map(|word| word.parse().unwrap()).collect()
}

/// Simulates a cell with a subject and two baselines until it is decided, far off, or has the maximum number of starts.
fn taken(
    dice: &mut Dice,
    rounds: &[f64],
    starts: &[f64],
    log: f64,
    starts_max: usize,
) -> Difference {
    let mut means = Vec::new();
    loop {
        let mut of_one = || {
            let noise: f64 = (0..ROUNDS).map(|_| dice.pick(rounds)).sum();
            dice.pick(starts) + noise / ROUNDS as f64
        };
        means.push(log + of_one() - f64::midpoint(of_one(), of_one()));
        let found = Difference::from_starts(&means, means.len() * ROUNDS);
        if is_far(&found) || is_decided(&found) || means.len() == starts_max {
            return found;
        }
    }
}

fn share(count: usize, of: impl FnMut(usize) -> bool) -> f64 {
    (0..count).map(of).filter(|condition| *condition).count() as f64 / count as f64
}

fn holds(found: &Difference, ratio: f64) -> bool {
    found.interval(WRONG_MAX).is_some_and(|(low, high)| low <= ratio && ratio <= high)
}

#[test]
fn intervals_cover_95_in_100_with_the_stop_rule_in_force() {
    let starts = residuals("starts");
    for name in ["saturated", "conversation", "fixed-rate"] {
        let rounds = residuals(name);
        for (starts_max, ratio) in [(12, 1.0), (24, 1.0), (24, 1.05)] {
            let mut dice = Dice(starts_max as u64);
            let cover = share(CELLS, |_| {
                holds(&taken(&mut dice, &rounds, &starts, f64::ln(ratio), starts_max), ratio)
            });
            assert!((0.93..=0.97).contains(&cover), "{name}, {starts_max}: {cover}");
        }
    }
}

/// A subject that is far off may have as few as three starts.
#[test]
fn intervals_of_distant_ratios_have_the_same_coverage() {
    let starts = residuals("starts");
    for name in ["saturated", "conversation", "fixed-rate"] {
        let rounds = residuals(name);
        for ratio in [1.55, 1.65, 1.8, 2.0, 4.0] {
            let mut dice = Dice(11);
            let cover = share(CELLS, |_| {
                holds(&taken(&mut dice, &rounds, &starts, f64::ln(ratio), 12), ratio)
            });
            assert!((0.93..=0.98).contains(&cover), "{name}, {ratio}: {cover}");
        }
    }
}

#[test]
fn intervals_of_old_archives_cover_as_much_or_more() {
    let apart = residuals("apart");
    for samples in [3, 5, 8, 20] {
        let mut dice = Dice(samples as u64);
        let mut one = || dice.pick(&apart) * std::f64::consts::SQRT_2;
        let cover = share(CELLS, |_| {
            let means: Vec<f64> = (0..samples).map(|_| one()).collect();
            holds(&Difference::from_starts(&means, samples), 1.0)
        });
        assert!((0.945..=0.985).contains(&cover), "{samples}: {cover}");
    }
}

#[test]
fn five_percent_is_found() {
    let starts = residuals("starts");
    // The number of starts depends on the noise: at a fixed rate it is the largest.
    for (name, starts_max) in [("saturated", 12), ("conversation", 12), ("fixed-rate", 20)] {
        let rounds = residuals(name);
        for ratio in [1.05, 1.0 / 1.05] {
            let mut dice = Dice(7);
            let power = share(500, |_| {
                let found = taken(&mut dice, &rounds, &starts, f64::ln(ratio), starts_max);
                found.p().is_some_and(|p| p <= WRONG_MAX) && (found.ratio() > 1.0) == (ratio > 1.0)
            });
            assert!(power >= 0.8, "{name}, {starts_max} starts: {power}");
        }
    }
}

/// The chance that any of twenty cells without a difference is reported as different.
#[test]
fn twenty_cells_are_rarely_wrong_after_correction() {
    let (starts, rounds) = (residuals("starts"), residuals("saturated"));
    let mut dice = Dice(3);
    let wrong = share(200, |_| {
        let cell = |_| {
            let difference = taken(&mut dice, &rounds, &starts, 0.0, 12);
            Comparison::new(Metric::Cpu, ["a", "b"], false, &difference)
        };
        let mut family: Vec<Comparison> = (0..20).map(cell).collect();
        correct(&mut family);
        family.iter().any(|found| matches!(found.word, Word::Better | Word::Worse))
    });
    assert!(wrong <= 0.07, "{wrong}");
}

/// Pooled over ten cells whose true ratios differ by 2 % steps.
#[test]
fn pooled_intervals_cover_the_true_ratio() {
    let (starts, rounds) = (residuals("starts"), residuals("conversation"));
    let mut dice = Dice(5);
    let (cells, logs) = (10, |cell: usize| 0.02 * cell as f64);
    let truth = ((0..cells).map(logs).sum::<f64>() / cells as f64).exp();
    let cover = share(500, |_| {
        let all: Vec<Difference> =
            (0..cells).map(|cell| taken(&mut dice, &rounds, &starts, logs(cell), 8)).collect();
        let pooled = Difference::pooled(&all).unwrap();
        assert_eq!(pooled.rounds, pooled.starts * ROUNDS);
        holds(&pooled, truth)
    });
    assert!((0.92..=0.98).contains(&cover), "{cover}");
}

fn sample(subject: usize, start: u32, round: u32, cpu_us: f64) -> Sample {
    Sample {
        subject,
        start: Some(start),
        repeat: start * 2 + round,
        subject_cpu_ns: (cpu_us * 1e6) as u64,
        traffic: Traffic { events: 1000, ..Traffic::default() },
        ..Sample::default()
    }
}

/// Returns samples of a baseline with 1 µs, its control with 1.02 µs, and a subject with `cpu_us`, in two rounds of each start.
fn cell(cpu_us: impl Fn(u32) -> f64, starts: u32) -> Vec<Sample> {
    (0..starts)
        .flat_map(|start| (0..2).map(move |round| (start, round)))
        .flat_map(|(start, round)| {
            let figures = [1.0, 1.02, cpu_us(start)];
            figures
                .map(|figure| figure)
                .into_iter()
                .enumerate()
                .map(move |(subject, cpu_us)| sample(subject, start, round, cpu_us))
        })
        .collect()
}

fn subjects() -> CellSubjects {
    CellSubjects { controls: vec![1], connections: vec![100; 3], ..CellSubjects::default() }
}

fn difference(samples: &[Sample], subject: usize) -> Option<Difference> {
    Difference::from_samples(Metric::Cpu, &subjects(), subject, &samples.iter().collect::<Vec<_>>())
}

#[test]
fn a_subject_stands_beside_both_baselines() {
    let samples = cell(|_| 1.0, 3);
    let found = difference(&samples, 2).unwrap();
    assert!((found.ratio() - 1.0 / 1.02f64.sqrt()).abs() < 1e-6, "{found:?}");
    assert_eq!((found.starts, found.rounds), (3, 6));
    // The control is compared with the baseline alone.
    assert!((difference(&samples, 1).unwrap().ratio() - 1.02).abs() < 1e-6);
    assert_eq!(difference(&samples, 0), None);
}

#[test]
fn rounds_of_one_start_are_one_value_and_old_samples_one_start_each() {
    let mut samples = cell(|start| 1.0 + f64::from(start), 3);
    let found = difference(&samples, 2).unwrap();
    for sample in &mut samples {
        sample.start = None;
    }
    let old = difference(&samples, 2).unwrap();
    assert_eq!((old.starts, old.rounds), (6, 6));
    assert!((found.ratio() - old.ratio()).abs() < 1e-9);
    let width =
        |difference: &Difference| difference.interval(0.05).map(|(low, high)| high / low).unwrap();
    assert!(width(&old) < width(&found), "six values know more than three");
}

#[test]
fn disturbed_rounds_are_left_out_where_others_are_enough() {
    let mut samples = cell(|_| 1.0, 4);
    let disturb = |samples: &mut [Sample], start: u32| {
        for sample in
            samples.iter_mut().filter(|sample| sample.subject == 2 && sample.start() == start)
        {
            (sample.verdict, sample.subject_cpu_ns) = (Verdict::Machine, 9_000_000);
        }
    };
    disturb(&mut samples, 0);
    assert_eq!(difference(&samples, 2).unwrap().starts, 3);
    disturb(&mut samples, 1);
    assert_eq!(difference(&samples, 2).unwrap().starts, 4, "two are too few");
    // If one of both baselines was disturbed, the other remains.
    let mut samples = cell(|_| 1.0, 3);
    for sample in samples.iter_mut().filter(|sample| sample.subject == 1) {
        sample.verdict = Verdict::Machine;
    }
    assert!((difference(&samples, 2).unwrap().ratio() - 1.0).abs() < 1e-6);
    for sample in &mut samples {
        sample.verdict = Verdict::Invalid(String::new());
    }
    assert_eq!(difference(&samples, 2), None);
}

#[test]
fn a_subject_far_from_the_baseline_needs_no_further_start() {
    let far = |cpu_us: &dyn Fn(u32) -> f64, starts| {
        let samples = cell(cpu_us, starts);
        far_off(Metric::Cpu, &subjects(), &samples.iter().collect::<Vec<_>>())
    };
    let about = |cpu_us: f64| move |start: u32| cpu_us * (1.0 + 0.01 * f64::from(start % 2));
    assert_eq!(far(&about(4.0), 2), [0usize; 0], "two starts are too few");
    assert_eq!(far(&about(4.0), 3), [2]);
    assert_eq!(far(&about(0.25), 3), [2]);
    assert_eq!(far(&about(1.45), 12), [0usize; 0], "it is a rival");
    let wild = |start: u32| if start.is_multiple_of(2) { 1.0 } else { 6.0 };
    assert_eq!(far(&wild, 4), [0usize; 0], "it is not sure");
}

#[test]
fn a_subject_that_drops_events_is_not_compared() {
    let mut samples = cell(|_| 4.0, 6);
    for sample in samples.iter_mut().filter(|sample| sample.subject == 2) {
        sample.verdict = Verdict::Drops;
    }
    assert_eq!(difference(&samples, 2), None);
    assert!(samples.iter().all(|sample| sample.verdict.is_valid()));
}

#[test]
fn a_cell_ends_when_it_is_known() {
    let next = |cpu_us: &dyn Fn(u32) -> f64, starts| {
        let samples = cell(cpu_us, starts);
        next(Metric::Cpu, &subjects(), &samples.iter().collect::<Vec<_>>())
    };
    let even = |start: u32| if start.is_multiple_of(2) { 1.0 } else { 1.01 };
    assert_eq!(next(&even, 5), Next::Continue, "five starts are too few");
    assert_eq!(next(&even, 6), Next::Decided);
    let wild = |start: u32| if start.is_multiple_of(2) { 1.0 } else { 1.3 };
    assert_eq!(next(&wild, 12), Next::Continue);
    let far = |start: u32| if start.is_multiple_of(2) { 2.0 } else { 2.3 };
    assert_eq!(next(&far, 6), Next::Decided, "early, because it is clear");
    // A subject that was left out after three starts is not waited for.
    let mut samples = cell(|_| 4.0, 6);
    samples.retain(|sample| sample.subject != 2 || sample.start() < 3);
    let all: Vec<&Sample> = samples.iter().collect();
    assert_eq!(super::next(Metric::Cpu, &subjects(), &all), Next::Decided);
    // No subject to wait for.
    let samples = cell(even, 6);
    let own: Vec<&Sample> = samples.iter().filter(|sample| sample.subject == 0).collect();
    assert_eq!(super::next(Metric::Cpu, &subjects(), &own), Next::Decided);
}

#[test]
fn words() {
    let check = |metric, mean: f64, error: Option<f64>, expected| {
        let spread = error.unwrap_or(0.0) * 10f64.sqrt();
        let means: Vec<f64> = match error {
            Some(_) => {
                (0..10).map(|start| mean + if start % 2 == 0 { spread } else { -spread }).collect()
            }
            None => vec![mean],
        };
        let found =
            Comparison::new(metric, ["a", "b"], false, &Difference::from_starts(&means, 10));
        assert_eq!(found.word, expected, "{found:?}");
        found
    };
    check(Metric::Cpu, 0.16, Some(0.01), Word::Worse);
    check(Metric::Cpu, -0.16, Some(0.01), Word::Better);
    check(Metric::Throughput, 0.16, Some(0.01), Word::Better);
    check(Metric::Cpu, 0.01, Some(0.01), Word::Equivalent);
    // A small difference is still reported if it is certain.
    check(Metric::Cpu, 0.02, Some(0.002), Word::Worse);
    let undecided = check(Metric::Cpu, 0.01, Some(0.05), Word::Undecided);
    assert!(undecided.not_excluded.is_some_and(|share| (0.10..0.20).contains(&share)));
    let one = check(Metric::Cpu, 0.5, None, Word::Undecided);
    assert_eq!((one.low, one.not_excluded, one.p), (None, None, None));
}

#[test]
fn holm_counts_the_least_probable_most() {
    let check = |p: &[f64], expected: &[f64]| {
        let one = |p: &f64| Comparison {
            p: Some(*p),
            ..Comparison::new(
                Metric::Cpu,
                ["a", "b"],
                false,
                &Difference::from_starts(&[0.1, 0.2], 2),
            )
        };
        let mut family: Vec<Comparison> = p.iter().map(one).collect();
        family.push(Comparison { is_control: true, ..family[0].clone() });
        correct(&mut family);
        for (found, expected) in family.iter().zip(expected) {
            assert!((found.p_corrected.unwrap() - expected).abs() < 1e-12, "{p:?}: {found:?}");
        }
    };
    check(&[0.02], &[0.02]);
    check(&[0.5, 0.01], &[0.5, 0.02]);
    check(&[0.03, 0.02, 0.9], &[0.06, 0.06, 0.9]);
}

#[test]
fn an_own_figure_is_the_mean_of_its_starts_with_their_interval() {
    let taken = |start: u32, bytes: u64| {
        let mut sample = Sample { repeat: start, start: Some(start), ..Sample::default() };
        sample.memory.rss_end_bytes = bytes * 10;
        sample
    };
    let own =
        |samples: &[Sample]| own_figure(Metric::Memory, 10, &samples.iter().collect::<Vec<_>>());
    let mut samples = vec![taken(0, 1000)];
    assert_eq!(
        own(&samples).map(|(mean, interval)| (mean.round(), interval)),
        Some((1000.0, None))
    );
    samples.push(taken(1, 1210));
    samples.push(Sample { verdict: Verdict::Invalid("cut".to_owned()), ..taken(2, 9000) });
    let (mean, interval) = own(&samples).expect("two starts");
    let (low, high) = interval.expect("an interval of two starts");
    assert!((mean - 1100.0).abs() < 1.0 && low < 1000.0 && 1210.0 < high, "{low} {mean} {high}");
    assert_eq!(own(&[]), None);
}

/// Cells in which the control's own noise decides how often a difference of 5 % is found.
#[test]
fn power_is_the_share_of_cells_that_find_five_percent() {
    let mut dice = Dice(5);
    // About normal, with a standard deviation of `noise`.
    let mut value = |noise: f64| {
        let sum: f64 = (0..12).map(|_| (dice.next() % 10_000) as f64 / 10_000.0).sum();
        (sum - 6.0) * noise
    };
    for (noise, starts) in [(0.02, 8), (0.04, 8), (0.08, 12)] {
        let control: Vec<f64> = (0..400).map(|_| value(noise) - value(noise)).collect();
        let control = Difference::from_starts(&control, 400);
        let by_noise = Difference::by_noise_of(&control, starts).unwrap();
        let power = by_noise.power(1.05f64.ln(), WRONG_MAX).unwrap();
        let found = share(2000, |_| {
            let start = |_| 1.05f64.ln() + value(noise) - f64::midpoint(value(noise), value(noise));
            let means: Vec<f64> = (0..starts).map(start).collect();
            let found = Difference::from_starts(&means, starts);
            found.p().is_some_and(|p| p <= WRONG_MAX)
        });
        assert!((power - found).abs() < 0.06, "noise {noise}: {power} and {found}");
    }
    let two = Difference::from_starts(&[0.1, -0.1], 2);
    assert_eq!(Difference::by_noise_of(&two, 8), None);
}
