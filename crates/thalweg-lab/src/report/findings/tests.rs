//! Sentences, and what they must not say.

use super::*;
use crate::measure::{MachineNote, Sample, Traffic, Verdict};
use crate::report::Manifest;
use crate::scenario::{Changes, Plan, read};

const SCENARIO: &str = r#"
name = "example"
drive = "posted"
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
    Summary::new(&plan, &samples, Manifest::new("0", "thalweg bench", machine))
}

/// A few percent of noise, the same every time.
fn noisy(base: u64, repeat: u32) -> u64 {
    base + base / 100 * u64::from(repeat % 3)
}

#[test]
fn a_clear_win() {
    let found = findings(&summary(SCENARIO, |subject, _, repeat| {
        noisy(if subject == "thalweg" { 700_000 } else { 1_000_000 }, repeat)
    }));
    assert_eq!(
        found.headline,
        "thalweg is cheaper than limit in all 3 cells: CPU per event 0.70\u{a0}× at the \
         median of cells (intervals from 0.70 to 0.70)."
    );
    assert_eq!(found.details, <[String; 0]>::default());
    assert_eq!(
        found.trust,
        [
            "All 45 samples are valid: nothing was repeated, out of order or lost unsaid.",
            "Each figure is the median of 5 samples, taken in turn with those beside it; intervals \
             cover 94\u{a0}%.",
            "The baseline beside itself (A/A) came out 0\u{a0}% apart at the median and 0\u{a0}% at most, \
             with intervals from 1.00 to 1.00; what lies within a cell's own is called a tie.",
        ]
    );
}

#[test]
fn a_clear_loss() {
    let found = findings(&summary(SCENARIO, |subject, _, repeat| {
        noisy(if subject == "thalweg" { 1_300_000 } else { 1_000_000 }, repeat)
    }));
    assert!(found.headline.starts_with("thalweg is dearer than limit in all 3 cells: "));
}

#[test]
fn all_ties_and_some() {
    let found = findings(&summary(SCENARIO, |_, _, repeat| noisy(1_000_000, repeat)));
    assert_eq!(
        found.headline,
        "Between thalweg and limit no difference in CPU per event was found, in any of 3 cells: \
         1.00\u{a0}× at the median of cells (intervals from 1.00 to 1.00)."
    );
    let found = findings(&summary(SCENARIO, |subject, cell, repeat| {
        noisy(if subject == "thalweg" && cell == 1 { 1_300_000 } else { 1_000_000 }, repeat)
    }));
    assert_eq!(
        found.headline,
        "thalweg beside limit, CPU per event in 3 cells: cheaper in none, a tie in 2, dearer in 1; \
         1.00\u{a0}× at the median of cells (intervals from 1.00 to 1.30)."
    );
}

#[test]
fn a_difference_within_the_noise_is_a_tie() {
    let found = findings(&summary(SCENARIO, |subject, _, repeat| match subject {
        "limit again" => 1_000_000 + 100_000 * u64::from(repeat),
        "thalweg" => noisy(1_200_000, repeat),
        _ => 1_000_000,
    }));
    assert!(found.headline.contains("no difference"), "{}", found.headline);
}

#[test]
fn nothing_valid() {
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
fn every_reason_is_told_and_what_was_left_out() {
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
    assert!(found.headline.contains("too few sound pairs"), "three pairs: {}", found.headline);
    let found = findings(&changed(SCENARIO, |sample, _| {
        if sample.cell == 0 {
            sample.verdict = Verdict::Machine;
        }
    }));
    assert!(found.trust[0].contains("In 3 rows too few were not"), "{}", found.trust[0]);
    assert!(found.headline.contains("in 1"), "disturbed, so unclear: {}", found.headline);
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
        "thalweg beside itself, CPU per event in 3 cells: 2 of 3 intervals contain 1, half their \
         width is 0.0\u{a0}% at the median."
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
        let mut rows = found.parts[0].rows.iter().filter(|row| row.subject == "thalweg");
        rows.next().unwrap().throughput.compared.map(|it| it.pairs)
    };
    assert_eq!(verdict(Verdict::Subject), Some(5));
    assert_eq!(verdict(Verdict::Schedule), Some(1));
}

#[test]
fn one_subject_only() {
    let text = SCENARIO.replace("[[subjects]]\nprogram = \"limit\"\n", "");
    let found = findings(&summary(&format!("again = \"none\"\n{text}"), |_, _, _| 1));
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
    assert!(found.trust.iter().any(|it| it.starts_with("The run was interrupted")));
}

#[test]
fn too_few_repeats_claim_nothing() {
    for (repeats, cover) in [(1, "no intervals"), (3, "cover 75\u{a0}%")] {
        let text = SCENARIO.replace("repeats = 5", &format!("repeats = {repeats}"));
        let found = findings(&summary(&text, |subject, _, _| match subject {
            "thalweg" => 100,
            _ => 1000,
        }));
        assert_eq!(
            found.headline,
            "thalweg ran beside limit in 3 cells, with too few sound pairs to tell them apart."
        );
        assert!(found.trust.iter().any(|it| it.contains(cover)), "{:?}", found.trust);
    }
}

#[test]
fn several_subjects_have_a_sentence_each() {
    let text = format!("{SCENARIO}\n[[subjects]]\nname = \"other\"\nprogram = \"thalweg\"\n");
    let found = findings(&summary(&text, |subject, _, repeat| {
        noisy(if subject == "other" { 1_300_000 } else { 1_000_000 }, repeat)
    }));
    assert_eq!(
        found.headline,
        "2 subjects beside limit, CPU per event: of 6 comparisons none is cheaper, 3 are a tie, 3 \
         are dearer."
    );
    assert_eq!(found.details.len(), 2);
}

#[test]
fn without_a_pair_the_noise_is_unknown() {
    let found = findings(&summary(&format!("again = \"none\"\n{SCENARIO}"), |_, _, _| 1000));
    assert!(found.trust.iter().any(|it| it.contains("noise is unknown")));
}
