//! The `thalweg-lab` command.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "the doc comment of an argument is its help, which is plain text"
)]
// These macros panic if stdout or stderr is closed; those of `thalweg_terminal` do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod limit;
mod plan;
mod report_page;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use thalweg_terminal::{CompletionsArgs, ManArgs, print_completions, say, write_man_pages};

/// Measure the cost of push, and plan servers from the figures.
#[derive(Parser, Debug)]
#[command(name = "thalweg-lab", version = env!("THALWEG_VERSION"), after_help = "\
Examples:
  thalweg-lab bench
  thalweg-lab bench --url ws://127.0.0.1:3000/live --connections 100
  thalweg-lab plan --subscribers 1M --size 5KB --every 1s

Run `thalweg-lab COMMAND --help` for the options of a command.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Bench(Box<bench::BenchArgs>),
    Plan(plan::PlanArgs),
    #[command(after_help = "\
Examples:
  thalweg-lab completions bash \\
    > ~/.local/share/bash-completion/completions/thalweg-lab
  thalweg-lab completions zsh > ~/.zfunc/_thalweg-lab
  thalweg-lab completions fish > ~/.config/fish/completions/thalweg-lab.fish")]
    Completions(CompletionsArgs),
    #[command(after_help = "\
Examples:
  thalweg-lab man ~/.local/share/man/man1
  man thalweg-lab-bench")]
    Man(ManArgs),
    #[command(hide = true)]
    Limit(limit::LimitArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(args) => return bench::run(*args),
        Command::Plan(args) => plan::run(&args),
        Command::Completions(args) => print_completions(&args, Cli::command()),
        Command::Man(args) => write_man_pages(&args, Cli::command()),
        Command::Limit(args) => limit::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("thalweg-lab: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
