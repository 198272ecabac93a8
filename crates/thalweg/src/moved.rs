//! Commands of version 0.1 that `thalweg-lab` has now. The version after 0.2 drops this file.

use std::ffi::OsString;

/// The exit status for wrong arguments, the same as clap's.
pub(crate) const MISUSED: u8 = 2;

const COMMANDS: [&str; 3] = ["bench", "plan", "limit"];

/// Returns the sentence that names the new command, whatever follows the old one.
pub(crate) fn sentence(mut arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let typed = arguments.nth(1)?;
    let command = COMMANDS.into_iter().find(|command| typed == *command)?;
    Some(format!(
        "thalweg: `{command}` is now a command of the program thalweg-lab: run `thalweg-lab {command}`"
    ))
}
