//! Files for shells and for `man`, from the definition of a command line.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap_complete::{Shell, generate};

use crate::print;

/// Print the completions of a shell.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// Shell that reads them.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the man pages of all commands to a directory.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Directory for the pages. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completions of `command` for a shell.
///
/// # Errors
/// When stdout cannot be written.
pub fn print_completions(args: &CompletionsArgs, mut command: clap::Command) -> anyhow::Result<()> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    Ok(print(&String::from_utf8(script)?)?)
}

/// Writes a page for `command` and for each of its commands.
///
/// # Errors
/// When the directory cannot be written.
pub fn write_man_pages(args: &ManArgs, command: clap::Command) -> anyhow::Result<()> {
    let directory = &args.directory;
    let failed = || format!("cannot write man pages to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    clap_mangen::generate_to(command, directory).with_context(failed)
}
