//! Which `thalweg` the lab measures: the named one, the one beside it, or the one on the `PATH`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::programs::LAB;

const SCENARIO: &str = "name = \"tiny\"\ndrive = \"idle\"\nrepeats = 1\nwarm_up_ms = 1\n\
                        measured_ms = 1\ncontrol = \"none\"\n[[subjects]]\nprogram = \"%\"\n";

/// Its version is its path.
const THALWEG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/finding/thalweg.sh");

/// Makes a folder with the lab and a scenario of one subject.
fn place(subject: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("finding-{subject}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("beside")).expect("make folders");
    fs::create_dir(folder.join("path")).expect("make a folder");
    // A symbolic link would be followed, and a copy may still be open in the child of another test.
    fs::hard_link(LAB, folder.join("beside/thalweg-lab")).expect("link the lab");
    fs::write(folder.join("tiny.toml"), SCENARIO.replace('%', subject)).expect("write a scenario");
    folder
}

fn bench(folder: &Path, variable: Option<&str>, words: &[&str]) -> Output {
    let mut command = Command::new(folder.join("beside/thalweg-lab"));
    command.args(["bench", "tiny.toml", "--out", "run"]).args(words).current_dir(folder);
    command.env_remove("THALWEG_BIN").env("PATH", folder.join("path"));
    command.envs(variable.map(|path| ("THALWEG_BIN", path)));
    let _ = fs::remove_dir_all(folder.join("run"));
    command.output().expect("run the lab")
}

/// Returns the version in the manifest of a run.
fn measured(folder: &Path, variable: Option<&str>, words: &[&str]) -> String {
    let ran = bench(folder, variable, words);
    let text = fs::read_to_string(folder.join("run/manifest.json"))
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ran.stderr)));
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    manifest["measured"].as_str().expect("a version").to_owned()
}

#[test]
fn the_lab_measures_the_named_program_or_the_nearest_one() {
    let folder = place("thalweg");
    let ran = bench(&folder, None, &[]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    let sentence =
        "thalweg-lab: there is no program `thalweg` beside this one or on the PATH: build it with";
    assert!(said.starts_with(sentence) && said.lines().count() == 1, "{said}");

    for near in ["path/thalweg", "beside/thalweg"] {
        let near = folder.join(near);
        symlink(THALWEG, &near).expect("link a program");
        assert_eq!(Path::new(&measured(&folder, None, &[])), near);
    }
    for named in ["a", "b"] {
        symlink(THALWEG, folder.join(named)).expect("link a program");
    }
    assert_eq!(measured(&folder, Some("./a"), &[]), "./a");
    assert_eq!(measured(&folder, Some("./a"), &["--thalweg", "./b"]), "./b");
}

#[test]
fn a_run_without_thalweg_needs_none() {
    assert_eq!(measured(&place("limit"), None, &[]), "");
}

#[test]
fn a_named_program_is_no_option_of_commands_that_need_none() {
    let mut command = Command::new(LAB);
    let ran = command.args(["bench", "--metrics"]).env("THALWEG_BIN", "nothing").output();
    let ran = ran.expect("run the lab");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
