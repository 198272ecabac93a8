//! The `thalweg` command.

mod bench;
mod limit;
mod serve;

use clap::{Parser, Subcommand};

/// Real-time push to browsers.
#[derive(Parser, Debug)]
#[command(name = "thalweg", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// The push server.
    Serve(serve::ServeArgs),
    /// Measure what push costs on this machine.
    Bench(bench::BenchArgs),
    /// The lab's yardstick: the smallest honest push server.
    #[command(hide = true)]
    Limit(limit::LimitArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Serve(args) => serve::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Limit(args) => limit::run(args),
    }
}
