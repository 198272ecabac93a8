//! Licences of all crates that are part of the build.

mod expression;

use std::{env, process::Command, process::ExitCode};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Allowed licences (their SPDX names), and reasons. All of them only require that their text and the names
/// of their authors are passed on.
const ALLOWED: [(&str, &str); 7] = [
    ("MIT", "the licence of this project, at the user's option"),
    ("Apache-2.0", "the licence of this project, at the user's option"),
    ("BSD-3-Clause", "like MIT, and names of authors must not be used to advertise"),
    ("ISC", "like MIT, in fewer words"),
    ("Zlib", "like MIT, but asks nothing for binaries"),
    ("CC0-1.0", "its authors have waived their rights; in tests only, beneath arrow-rs"),
    ("Unicode-3.0", "like MIT, for tables made from Unicode's data"),
];

/// Checks the output of `cargo metadata` for this platform, crates of tests included. Prints the findings,
/// and fails if there are any.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let findings = check(&metadata()?)?;
    for finding in &findings {
        println!("{finding}");
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn metadata() -> anyhow::Result<Value> {
    // Crates of other platforms are not built, and need not be downloaded.
    let platform = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", &platform];
    let output = Command::new(cargo).args(arguments).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("the output of cargo metadata is not JSON")
}

/// Returns a sentence for every crate with a licence that is not allowed.
fn check(metadata: &Value) -> anyhow::Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, version, licence) = (text("name"), text("version"), text("license"));
        let why = match expression::allows(licence, is_allowed) {
            Ok(true) => continue,
            Ok(false) => format!("is under {licence}, which is not allowed here"),
            Err(_) if licence.is_empty() => "names no licence".to_owned(),
            Err(error) => format!("is under {licence:?}, which cannot be read ({error})"),
        };
        findings.push(format!(
            "{name} {version} {why}; take another crate, or add its licence to ALLOWED in \
             xtask/src/licences.rs with the reason"
        ));
    }
    Ok(findings)
}

fn is_allowed(licence: &str) -> bool {
    ALLOWED.iter().any(|(allowed, _)| *allowed == licence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_may_not_be_taken_are_named() {
        let check = |licence: Value, expected: Option<&str>| {
            let packages = serde_json::json!({ "packages": [
                { "name": "good", "version": "1.0.0", "license": "MIT" },
                { "name": "odd", "version": "0.2.0", "license": licence },
            ] });
            let found = check(&packages).expect("it lists packages");
            assert_eq!(found.len(), expected.iter().len(), "{found:?}");
            if let Some(expected) = expected {
                assert!(found[0].starts_with(expected), "{found:?}");
            }
        };
        check("Apache-2.0 WITH LLVM-exception OR GPL-2.0".into(), None);
        check("AGPL-3.0-only".into(), Some("odd 0.2.0 is under AGPL-3.0-only, which is not"));
        check("MIT AND GPL-2.0".into(), Some("odd 0.2.0 is under MIT AND GPL-2.0, which is not"));
        check("MIT OR".into(), Some("odd 0.2.0 is under \"MIT OR\", which cannot be read"));
        check(Value::Null, Some("odd 0.2.0 names no licence"));
    }

    #[test]
    fn a_listing_without_packages_is_an_error() {
        assert!(super::check(&serde_json::json!({})).is_err());
    }
}
