//! The project's own checks:
//!
//! - `cargo xtask tidy`: the shape of the house
//! - `cargo xtask figures`: writes figures of archived runs into Markdown
//! - `cargo xtask licences`: whether what we build with may be passed on

mod figures;
mod licences;
mod tidy;
mod tree;

use std::{env, process::ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["figures"] => figures::run(),
        ["licences"] => licences::run(),
        _ => anyhow::bail!(
            "there are three tasks: cargo xtask tidy, cargo xtask figures, cargo xtask licences"
        ),
    }
}
