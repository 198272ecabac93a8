//! The `thalweg` command.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "the doc comment of an argument is its help, which is plain text"
)]
// These macros panic if stdout or stderr is closed; `run::say` and `run::print` do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod bench;
mod completions;
mod data;
mod demo_answers;
mod demo_provider;
mod doctor;
mod limit;
mod plan;
mod publish;
mod reach;
mod serve;
mod tail;
mod token;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use thalweg_lab::run::say;

/// Push live data to browsers, and measure the cost.
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
    Bench(Box<bench::BenchArgs>),
    Plan(plan::PlanArgs),
    Data(data::DataArgs),
    Token(token::TokenArgs),
    DemoProvider(demo_provider::DemoProviderArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
    #[command(hide = true)]
    Limit(limit::LimitArgs),
}

fn main() -> ExitCode {
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
        Command::Bench(args) => return bench::run(*args),
        Command::Plan(args) => plan::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Token(args) => token::run(args),
        Command::DemoProvider(args) => demo_provider::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => completions::write_man_pages(&args, Cli::command()),
        Command::Limit(args) => limit::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("thalweg: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
