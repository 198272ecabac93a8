//! Sentences, and what they must not say.

use super::*;
use crate::measure::comparison::Metric;
use crate::measure::{MachineNote, Sample, Traffic, Verdict};
use crate::report::Manifest;
use crate::scenario::{Changes, Plan, read};

const SCENARIO: &str = r#"
name = "example"
drive = "published-load"
repeats = 5

[[cells]]
connections = [100, 1000, 10000]

[[subjects]]
program = "limit"

[[subjects]]
program = "thalweg"
"#;

/// CPU by subject, cell and repeat.
fn summary(text: &str, cpu: impl Fn(&str, usize, u32) -> u64) -> Summary {
    changed(text, |sample, subject| {
        sample.subject_cpu_ns = cpu(subject, sample.cell, sample.repeat);
    })
}

fn changed(text: &str, change: impl Fn(&mut Sample, &str)) -> Summary {
    let plan: Plan = read(text, &Changes::default(), &[]).unwrap();
    let samples: Vec<Sample> = plan
        .slots()
        .map(|slot| {
            let mut sample = Sample {
                part: slot.part,
                cell: slot.cell,
                subject: slot.subject,
                repeat: slot.repeat,
                span_us: 1_000_000,
                verdict: Verdict::Subject,
                subject_cpu_ns: 1_000_000,
                traffic: Traffic { events: 1000, ..Traffic::default() },
                ..Sample::default()
            };
            change(&mut sample, &plan.subject(slot).name);
            sample
        })
        .collect();
    let machine = MachineNote::default();
    Summary::new(&plan, &samples, Manifest::new("0", "thalweg-lab bench", machine))
}

/// A few percent of noise, the same every time.
fn noisy(base: u64, repeat: u32) -> u64 {
    base + base / 100 * u64::from(repeat % 3)
}

fn check(cpu: impl Fn(&str, usize, u32) -> u64, headline: &str) {
    assert_eq!(findings(&summary(SCENARIO, cpu)).headline, headline);
}

fn thalweg_cpu(subject: &str, cpu: u64) -> u64 {
    if subject == "thalweg" { cpu } else { 1_000_000 }
}

#[test]
fn the_headline_compares_the_cost_per_event() {
    check(
        |subject, _, repeat| noisy(thalweg_cpu(subject, 700_000), repeat),
        "thalweg takes 0.70\u{a0}× the CPU per event of limit (0.70–0.70) over 3 cells: better by \
         30\u{a0}%.",
    );
    check(
        |subject, _, repeat| noisy(thalweg_cpu(subject, 1_300_000), repeat),
        "thalweg takes 1.30\u{a0}× the CPU per event of limit (1.30–1.30) over 3 cells: worse by \
         30\u{a0}%.",
    );
    check(
        |subject, cell, repeat| match subject {
            "thalweg" => noisy(1_000_000, repeat + cell as u32),
            _ => noisy(1_000_000, repeat),
        },
        "thalweg takes 1.00\u{a0}× the CPU per event of limit (0.99–1.01) over 3 cells: \
         equivalent.",
    );
    // Unknown results are told, with their uncertainty.
    check(
        |subject, _, repeat| match subject {
            "thalweg" => 1_000_000 + 300_000 * u64::from(repeat % 2),
            _ => 1_100_000,
        },
        "thalweg takes 1.01\u{a0}× the CPU per event of limit (0.92–1.10) over 3 cells: \
         undecided, 10\u{a0}% more is not excluded; a difference of 5\u{a0}% is found in \
         16\u{a0}% of such runs.",
    );
}

#[test]
fn findings_state_their_certainty() {
    let found = findings(&summary(SCENARIO, |_, _, repeat| noisy(1_000_000, repeat)));
    assert_eq!(
        found.trust,
        [
            "All 45 samples are valid: no event was repeated, out of order, or lost without a gap.",
            "A cell's ratio is of 5 starts of its subjects, and its interval holds the true one in \
             95 of 100. Better and worse are corrected for the number of comparisons (Holm).",
            "The baseline beside itself (A/A): 3 of 3 intervals contain 1, half their width is \
             0.0\u{a0}% at the median (CPU per event).",
        ]
    );
}

#[test]
fn findings_without_valid_samples_say_that() {
    let found = findings(&changed(SCENARIO, |sample, _| {
        sample.verdict = Verdict::Invalid("3 missing".to_owned());
    }));
    assert_eq!(found.headline, "No sample of this run counts; of the first: invalid: 3 missing.");
    assert_eq!(
        found.trust,
        ["45 of 45 samples do not count (most: 3 missing); no figure contains them."]
    );
}

#[test]
fn every_reason_and_every_omission_is_reported() {
    let found = findings(&changed(SCENARIO, |sample, subject| {
        sample.verdict = match (subject, sample.repeat, sample.cell) {
            ("thalweg", 0, 0 | 1) => Verdict::Invalid("1 missing".to_owned()),
            ("thalweg", 0, 2) => Verdict::Invalid("9 corrupt".to_owned()),
            ("limit", 1, _) => Verdict::Machine,
            _ => Verdict::Subject,
        };
    }));
    assert_eq!(
        found.trust[0],
        "3 of 45 samples do not count (most: 1 missing); no figure contains them. 3 of 45 were \
         disturbed or had gaps, and are left out."
    );
    let found = findings(&changed(SCENARIO, |sample, _| {
        if sample.cell == 0 {
            sample.verdict = Verdict::Machine;
        }
    }));
    assert!(found.trust[0].contains("In 3 rows too few samples were left"), "{}", found.trust[0]);
}

#[test]
fn a_run_of_pairs_alone_says_how_often_the_lab_was_right() {
    let text = format!(
        "figure = \"cpu\"\n{}",
        SCENARIO.replace("[[subjects]]\nprogram = \"limit\"\n", "")
    );
    let found = findings(&summary(&text, |subject, cell, repeat| {
        let other = cell == 1 && subject.ends_with("again");
        noisy(if other { 1_200_000 } else { 1_000_000 }, repeat)
    }));
    assert_eq!(
        found.headline,
        "thalweg beside itself, CPU per event: 2 of 3 intervals contain 1, half their width is \
         0.0\u{a0}% at the median."
    );
}

#[test]
fn a_throughput_that_somebody_else_limited_is_not_compared() {
    let verdict = |verdict: Verdict| {
        let found = changed(SCENARIO, |sample, subject| {
            if subject == "thalweg" && sample.repeat < 4 {
                sample.verdict = verdict.clone();
            }
        });
        let mut asked = found.parts[0].asked(Metric::Throughput);
        asked.next().map(|found| found.starts)
    };
    assert_eq!(verdict(Verdict::Subject), Some(5));
    assert_eq!(verdict(Verdict::Both), Some(1));
    assert_eq!(verdict(Verdict::Schedule), Some(1));
}

#[test]
fn one_subject_only() {
    let text = SCENARIO.replace("[[subjects]]\nprogram = \"limit\"\n", "");
    let found = findings(&summary(&format!("control = \"none\"\n{text}"), |_, _, _| 1));
    assert_eq!(
        found.headline,
        "thalweg was measured alone, in 3 cells: there is nothing to compare it with."
    );
}

#[test]
fn an_interrupted_run_says_so() {
    let mut summary = summary(SCENARIO, |_, _, _| 1000);
    summary.manifest.was_interrupted = true;
    let found = findings(&summary);
    assert!(found.trust.iter().any(|trust| trust.starts_with("The run was interrupted")));
}

#[test]
fn one_start_has_no_interval() {
    let text = SCENARIO.replace("repeats = 5", "repeats = 1");
    let found = findings(&summary(&text, |subject, _, _| thalweg_cpu(subject, 100_000)));
    assert_eq!(
        found.headline,
        "thalweg takes 0.10\u{a0}× the CPU per event of limit over 3 cells: undecided, too few starts \
         to tell."
    );
    assert!(found.trust.iter().any(|trust| trust.contains("no intervals")), "{:?}", found.trust);
}

#[test]
fn several_subjects_have_a_sentence_each() {
    let text = format!("{SCENARIO}\n[[subjects]]\nname = \"other\"\nprogram = \"thalweg\"\n");
    let found = findings(&summary(&text, |subject, _, repeat| {
        noisy(if subject == "other" { 1_300_000 } else { 1_000_000 }, repeat)
    }));
    assert_eq!(
        found.headline,
        "Beside limit, CPU per event: thalweg 1.00\u{a0}× (1.00–1.00), equivalent; other 1.30\u{a0}× \
         (1.30–1.30), worse by 30\u{a0}%."
    );
    assert_eq!(found.details.len(), 2);
}

#[test]
fn several_scenarios_are_named_one_by_one() {
    let mut all =
        summary(SCENARIO, |subject, _, repeat| noisy(thalweg_cpu(subject, 1_300_000), repeat));
    let mut other = all.parts[0].clone();
    other.name = "second".to_owned();
    all.parts.push(other);
    assert_eq!(
        findings(&all).headline,
        "thalweg beside limit: 1.30\u{a0}× the CPU per event (1.30–1.30) in example, worse by \
         30\u{a0}%; 1.30\u{a0}× (1.30–1.30) in second, worse by 30\u{a0}%."
    );
}

#[test]
fn without_a_pair_the_noise_is_unknown() {
    let found = findings(&summary(&format!("control = \"none\"\n{SCENARIO}"), |_, _, _| 1000));
    assert!(found.trust.iter().any(|trust| trust.contains("No baseline ran twice")));
}
