//! The output of `cargo metadata`.

use std::{env, process::Command};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Returns the packages of the workspace and its dependencies, crates of tests included, for one platform.
pub(crate) fn read(platform: &str) -> anyhow::Result<Value> {
    let arguments =
        ["metadata", "--locked", "--format-version", "1", "--filter-platform", platform];
    serde_json::from_str(&cargo(&arguments)?).context("cargo metadata is no JSON")
}

/// Runs cargo and returns its output.
pub(crate) fn cargo(arguments: &[&str]) -> anyhow::Result<String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo).args(arguments).output().context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {} failed: {}",
        arguments[0],
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("the output of cargo is no UTF-8")
}
