//! Snapshots of every `--help` and `-h`.

use thalweg_testing::{Help, assert_help_fits};

const PROGRAM: &str = env!("CARGO_BIN_EXE_thalweg");

#[test]
fn every_help_matches_its_snapshot() {
    let helps = |flag| Help::all(PROGRAM, &[], flag, 100);
    let (long, short) = (helps("--help"), helps("-h"));
    for known in ["thalweg", "thalweg-serve", "thalweg-data-export", "thalweg-token-explain"] {
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
    assert_help_fits(PROGRAM, &[]);
}
