//! The `thalweg` command.

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "the doc comment of an argument is its help, which is plain text"
)]
// They panic where nobody reads: `run::say` and `run::print` do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod bench;
mod demo_provider;
mod limit;
mod plan;
mod publish;
mod reach;
mod serve;
mod tail;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use thalweg_lab::run::say;

/// Real-time push to browsers.
#[derive(Parser, Debug)]
#[command(name = "thalweg", version = env!("THALWEG_VERSION"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// The push server.
    Serve(Box<serve::ServeArgs>),
    /// Follow topics: events to stdout, one a line.
    Tail(tail::TailArgs),
    /// Publish the lines of stdin: each a JSON value, and one event.
    #[command(name = "pub")]
    Publish(publish::PublishArgs),
    /// Measure what push costs on this machine.
    Bench(Box<bench::BenchArgs>),
    /// Say how many nodes a load takes, and what they are out of first.
    Plan(plan::PlanArgs),
    /// Make a JSON Web Token, or explain one.
    Token(token::TokenArgs),
    /// An HTTP API that knows nothing of push: football matches to fetch, new every second.
    DemoProvider(demo_provider::DemoProviderArgs),
    /// The lab's yardstick: the smallest honest push server.
    #[command(hide = true)]
    Limit(limit::LimitArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => serve::run(*args),
        Command::Tail(args) => tail::run(&args).map_err(|error| reach::error_in_one_line(&error)),
        Command::Publish(args) => {
            publish::run(&args).map_err(|error| reach::error_in_one_line(&error))
        }
        Command::Bench(args) => return bench::run(*args),
        Command::Plan(args) => plan::run(&args),
        Command::Token(args) => token::run(args),
        Command::DemoProvider(args) => demo_provider::run(&args),
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
