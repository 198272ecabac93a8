//! Snapshots of every `--help` and `-h`.

use thalweg_testing::{Help, assert_help_fits};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thalweg-lab");
/// Commands that the lab runs itself.
const HIDDEN: &[&str] = &["limit"];

#[test]
fn every_help_matches_its_snapshot() {
    let helps = |flag| Help::all(PROGRAM, HIDDEN, flag, 100);
    let (long, short) = (helps("--help"), helps("-h"));
    for known in ["thalweg-lab", "thalweg-lab-bench-export", "thalweg-lab-limit"] {
        assert!(long.iter().any(|help| help.name == known), "there is no help of {known}");
    }
    for (long, short) in long.iter().zip(&short) {
        insta::assert_snapshot!(long.name.clone(), long.text);
        if short.text != long.text {
            insta::assert_snapshot!(format!("{}-short", short.name), short.text);
        }
    }
}

#[test]
fn every_help_fits_into_80_columns() {
    assert_help_fits(PROGRAM, HIDDEN);
}

#[test]
fn titles_of_scenarios_are_one_column() {
    let help = Help::run(PROGRAM, &["bench"], "--help", 80);
    let lines = help.section("Scenarios");
    // A title that is longer than its line continues in the column where it begins.
    let column = |line: &str| {
        let named =
            line.trim_start().find("  ").map(|end| line.len() - line.trim_start().len() + end);
        let rest = &line[named.filter(|_| !line.starts_with("   ")).unwrap_or_default()..];
        line.len() - rest.trim_start().len()
    };
    let columns: Vec<usize> = lines.iter().map(|line| column(line)).collect();
    assert!(columns.len() > 20 && columns.iter().all(|at| *at == columns[0]), "{lines:?}");
}
