//! The project's own checks:
//!
//! - `cargo xtask tidy`: the rules of CONTRIBUTING.md (`tidy/circles.rs` defines cycles of files)
//! - `cargo xtask tidy --language [PATH]`: lists sentences, words and names that break the rules of language
//! - `cargo xtask figures`: writes figures of archived runs into Markdown
//! - `cargo xtask licences`: checks the licences of dependencies

mod figures;
mod licences;
mod tidy;
mod tree;

use std::{env, process::ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["tidy", "--language"] => tidy::show_language(""),
        ["tidy", "--language", path] => tidy::show_language(path),
        ["figures"] => figures::run(),
        ["licences"] => licences::run(),
        _ => anyhow::bail!(
            "there are three tasks: cargo xtask tidy, cargo xtask figures, cargo xtask licences"
        ),
    }
}
