//! Licences of all crates that are part of the build.

mod expression;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;

use crate::metadata;

/// The file with the list of allowed licences, which cargo-deny reads, too.
const RULES: &str = include_str!("../../deny.toml");

/// Checks the output of `cargo metadata` for this platform, crates of tests included. Prints the findings,
/// and fails if there are any.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    // Crates of other platforms are not built, and need not be downloaded.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let findings = check(&metadata::read(&platform)?)?;
    for finding in &findings {
        println!("{finding}");
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a sentence for every crate with a licence that is not allowed.
fn check(metadata: &Value) -> anyhow::Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let allowed = allowed()?;
    let is_allowed = |licence: &str| allowed.iter().any(|allowed| allowed == licence);
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
            "{name} {version} {why}; take another crate, or add its licence to deny.toml \
             with the reason"
        ));
    }
    Ok(findings)
}

/// Returns the SPDX names of the allowed licences.
fn allowed() -> anyhow::Result<Vec<String>> {
    let rules: toml::Table = toml::from_str(RULES).context("deny.toml is no TOML")?;
    let allowed = rules.get("licenses").and_then(|table| table.get("allow"));
    let allowed = allowed.and_then(toml::Value::as_array).context("deny.toml allows no licence")?;
    Ok(allowed.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
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
