//! The `thalweg` command.

mod limit;

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
    /// The lab's yardstick: the smallest honest push server.
    #[command(hide = true)]
    Limit(limit::LimitArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Limit(args) => limit::run(args),
    }
}
