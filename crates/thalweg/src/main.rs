//! The `thalweg` command.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "the doc comment of an argument is its help, which is plain text"
)]
// These macros panic if stdout or stderr is closed; those of `thalweg_terminal` do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod data;
mod demo_answers;
mod demo_provider;
mod doctor;
mod moved;
mod publish;
mod reach;
mod serve;
mod tail;
mod token;

use std::{env, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use thalweg_terminal::{CompletionsArgs, ManArgs, print_completions, say, write_man_pages};

/// Push live data to browsers.
#[derive(Parser, Debug)]
#[command(name = "thalweg", version = env!("THALWEG_VERSION"), after_help = "\
Examples:
  thalweg serve --demo
  thalweg tail http://127.0.0.1:8080/v1/topics/greetings
  echo '\"hello\"' | thalweg pub http://127.0.0.1:8080/v1/topics/greetings

Run `thalweg COMMAND --help` for the options of a command.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the push server.
    Serve(Box<serve::ServeArgs>),
    Tail(tail::TailArgs),
    #[command(name = "pub")]
    Publish(publish::PublishArgs),
    Doctor(doctor::DoctorArgs),
    Data(data::DataArgs),
    Token(token::TokenArgs),
    DemoProvider(demo_provider::DemoProviderArgs),
    #[command(after_help = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions zsh > ~/.zfunc/_thalweg
  thalweg completions fish > ~/.config/fish/completions/thalweg.fish")]
    Completions(CompletionsArgs),
    #[command(after_help = "\
Examples:
  thalweg man ~/.local/share/man/man1
  man thalweg-serve")]
    Man(ManArgs),
}

fn main() -> ExitCode {
    if let Some(sentence) = moved::sentence(env::args_os()) {
        say(sentence);
        return moved::MISUSED.into();
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| serve::explain(error).exit());
    let done = match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Tail(args) => tail::run(&args).map_err(|error| reach::error_in_one_line(&error)),
        Command::Publish(args) => {
            publish::run(&args).map_err(|error| reach::error_in_one_line(&error))
        }
        Command::Doctor(args) => {
            doctor::run(&args).map_err(|error| reach::error_in_one_line(&error))
        }
        Command::Data(args) => data::run(&args),
        Command::Token(args) => token::run(args),
        Command::DemoProvider(args) => demo_provider::run(&args),
        Command::Completions(args) => print_completions(&args, Cli::command()),
        Command::Man(args) => write_man_pages(&args, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("thalweg: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
