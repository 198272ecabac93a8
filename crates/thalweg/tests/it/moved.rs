//! Commands that `thalweg-lab` has now.

use std::process::Command;

#[test]
fn a_command_of_the_lab_is_answered_with_the_new_one() {
    for words in [&["bench"][..], &["bench", "--help"], &["plan", "--size", "5KB"], &["limit"]] {
        let ran = Command::new(env!("CARGO_BIN_EXE_thalweg")).args(words).output();
        let ran = ran.expect("run the program");
        let command = words[0];
        let sentence = format!(
            "thalweg: `{command}` is now a command of the program thalweg-lab: run `thalweg-lab \
             {command}`\n"
        );
        assert_eq!(String::from_utf8_lossy(&ran.stderr), sentence);
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(2), &b""[..]), "{words:?}");
    }
}
