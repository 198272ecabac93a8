//! The project's own checks:
//!
//! - `cargo xtask tidy`: the shape of the house
//! - `cargo xtask licences`: whether what we build with may be passed on

mod licences;
mod tidy;
mod tree;

use std::{env, process::ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["licences"] => licences::run(),
        _ => anyhow::bail!("there are two tasks: cargo xtask tidy, cargo xtask licences"),
    }
}
