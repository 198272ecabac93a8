//! The repository passes its own checks. CI runs this test.

use std::path::Path;
use std::process::Command;

/// Runs `cargo xtask TASK` with the binary that was built for the tests.
fn check(task: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let ran = Command::new(env!("CARGO_BIN_EXE_xtask")).arg(task).current_dir(root).output();
    let ran = ran.expect("start xtask");
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "cargo xtask {task}:\n{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_tree_is_tidy() {
    check("tidy");
}

#[test]
fn all_licences_are_allowed() {
    check("licences");
}
