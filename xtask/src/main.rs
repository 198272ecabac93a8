//! The project's own checks: `cargo xtask tidy`.

mod tidy;

use std::{env, process::ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        _ => anyhow::bail!("there is one task: cargo xtask tidy"),
    }
}
