//! Output, completions and man pages of the lab. The tests of `thalweg` check how shells read them.

use std::fs;
use std::io::pipe;
use std::process::Command;

use thalweg_testing::TemporaryPath;

use crate::programs::LAB;

#[test]
fn completions_and_man_pages_name_the_program() {
    let ran = Command::new(LAB).args(["completions", "bash"]).output().expect("run the lab");
    let script = String::from_utf8(ran.stdout).expect("text");
    assert!(
        script.contains("-o default thalweg-lab\n") && script.contains("--fail-if"),
        "{script}"
    );

    let folder = TemporaryPath::new("man");
    let ran = Command::new(LAB).arg("man").arg(&*folder).status().expect("run the lab");
    assert!(ran.success());
    let page = fs::read_to_string(folder.join("thalweg-lab-bench.1")).expect("a page");
    assert!(page.contains("\\-\\-fail\\-if"), "{page}");
    assert!(folder.join("thalweg-lab.1").exists());
    assert!(!folder.join("thalweg-lab-limit.1").exists(), "a hidden command has a page");
}

/// As with `2>&1 | head -1`, after head has exited.
#[test]
fn a_list_without_a_reader_succeeds() {
    let unread = || pipe().expect("a pipe").1;
    let mut command = Command::new(LAB);
    command.args(["bench", "list", "--store", "/nonexistent"]).stdout(unread()).stderr(unread());
    assert_eq!(command.status().expect("run the lab").code(), Some(0));
}
