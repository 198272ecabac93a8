//! The repository passes its own checks. CI runs this test.

use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Runs `cargo xtask TASK` with the binary that was built for the tests.
fn check(task: &str) {
    let ran = Command::new(env!("CARGO_BIN_EXE_xtask")).arg(task).current_dir(root()).output();
    let ran = ran.expect("start xtask");
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "cargo xtask {task}:\n{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_tree_is_tidy() {
    check("tidy");
}

/// cargo-deny also checks bans and sources. Without it, the licences are checked alone.
#[test]
fn all_dependencies_are_allowed() {
    let deny = |arguments: &[&str]| {
        Command::new("cargo").arg("deny").args(arguments).current_dir(root()).output()
    };
    if !deny(&["--version"]).is_ok_and(|output| output.status.success()) {
        return check("licences");
    }
    let ran = deny(&["--locked", "check", "bans", "licenses", "sources"]).expect("run cargo-deny");
    assert!(ran.status.success(), "cargo deny:\n{}", String::from_utf8_lossy(&ran.stderr));
}
