//! The `thalweg` command.

mod bench;
mod limit;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Measure what push costs on this machine.
    Bench(bench::BenchArgs),
    /// The lab's yardstick: the smallest honest push server.
    #[command(hide = true)]
    Limit(limit::LimitArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => serve::run(*args),
        Command::Bench(args) => bench::run(args),
        Command::Limit(args) => limit::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg: {error:#}");
            ExitCode::FAILURE
        }
    }
}
